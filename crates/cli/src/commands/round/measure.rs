//! One run: the server started, waited for, put under the load while it is recorded, and ended; its evidence in a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analysis::contract::Report;
use analysis::round::{RoundLoad, RoundRun};
use anyhow::{Context as _, bail};
use capture::Capture;
use live::load::{self, Figures, LoadRun, Plan, Slo, Spread, Tokenizer};
use live::{Address, Authorization, Launch, LaunchError, Launched, Processes, RecordPlan};

use super::command::StartCommand;
use crate::commands::load::asking::{AskArgs, Asked, run_shown};
use crate::evidence::{self, Pace};
use crate::exit::Listed;
use crate::progress::Progress;

/// Between two readings of metrics and threads.
const INTERVAL: Duration = Duration::from_secs(1);
/// Recorded before the load and after it, so that counters have a value from either side.
const AROUND: Duration = Duration::from_millis(2200);
/// Lines of the log that are told when the server fails.
const LINES: usize = 8;

/// What both runs have in common.
pub(super) struct Setting<'a> {
    pub(super) server: &'a Address,
    pub(super) authorization: Option<Authorization>,
    pub(super) tokenizer: Option<Tokenizer>,
    pub(super) asking: &'a AskArgs,
    pub(super) metrics: &'a [Address],
    pub(super) ready: Duration,
    pub(super) stop: Arc<AtomicBool>,
}

/// One run and what is known of it.
pub(super) struct Measured {
    command: String,
    folder: PathBuf,
    ready: Duration,
    load: RoundLoad,
    pub(super) capture: Capture,
}

impl Measured {
    /// As the document has it.
    pub(super) fn as_run(&self, report: Report) -> RoundRun {
        RoundRun {
            command: self.command.clone(),
            evidence: self.folder.display().to_string(),
            ready_s: self.ready.as_secs_f64(),
            load: self.load.clone(),
            report,
        }
    }
}

/// Measures the server that `start` starts. The folder must not be there yet.
pub(super) fn run(setting: &Setting<'_>, start: &StartCommand, folder: &Path) -> anyhow::Result<Measured> {
    std::fs::create_dir(folder).with_context(|| format!("could not make the folder `{}`", folder.display()))?;
    let command = start.shown();
    keep_command(&command, folder)?;
    let progress = Progress::new();
    progress.note(&format!("starting {command}"));
    let launch = Launch { environment: start.environment.clone(), words: start.words.clone(), log: folder.join("server.log") };
    let began = Instant::now();
    let mut launched = Launched::start(&launch, setting.server)?;
    let waited = launched.wait_ready(setting.server, setting.authorization.as_ref(), setting.ready, &setting.stop);
    waited.map_err(|error| with_log(error, &launched))?;
    let ready = began.elapsed();
    progress.note(&format!("it answers after {:.1} s; measuring", ready.as_secs_f64()));
    drop(progress);
    let (plan, run, is_simulated) = load_recorded(setting, &mut launched, folder)?;
    drop(launched);
    let capture = load::into_capture(&plan, &[(0.0, &run)], None, is_simulated);
    let place = folder.join("load.capture");
    capture::store::write(&capture, &place).with_context(|| format!("could not write capture `{}`", place.display()))?;
    let figures = Figures::of(&run.attempts, Slo::default());
    let told = told(&figures, run.health.limits(&figures), is_simulated);
    let capture = evidence::read(&[folder.into()], Pace::unused())?;
    Ok(Measured { command, folder: folder.into(), ready, load: told, capture })
}

/// The command among the evidence, where it is one that the importer knows.
fn keep_command(command: &str, folder: &Path) -> anyhow::Result<()> {
    const NAME: &str = "command.txt";
    let text = format!("{command}\n");
    let read = ingest::read_bytes(NAME, text.as_bytes(), &ingest::Options::default());
    if read.manifest.sources.iter().any(|source| source.format == "command_txt") {
        std::fs::write(folder.join(NAME), text).with_context(|| format!("could not write `{}`", folder.join(NAME).display()))?;
    }
    Ok(())
}

/// The load, with everything else recorded beside it. A server that ends meanwhile is an error.
fn load_recorded(setting: &Setting<'_>, launched: &mut Launched, folder: &Path) -> anyhow::Result<(Plan, LoadRun, bool)> {
    let target = setting.asking.target(setting.server, setting.authorization.as_ref())?;
    let (authorization, tokenizer) = (setting.authorization.as_ref(), setting.tokenizer.as_ref());
    let plan = setting.asking.plan(&Asked { server: setting.server, authorization, target: &target, tokenizer }, None)?;
    let record = RecordPlan {
        targets: [setting.server.metrics()].into_iter().chain(setting.metrics.iter().cloned()).collect(),
        logs: Vec::new(), // the log lies beside the recording, whole
        processes: Processes::Id(launched.id()),
        python: false, // both runs are to cost the same, and no more than they must
        nvml: Some(live::NVML.into()),
        out: folder.join("recorded.capture"),
        duration: None,
        interval: INTERVAL,
        timeout: Duration::from_secs(10),
        profile: None,
    };
    let is_over = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        let recorder = scope.spawn(|| live::record(&record, &is_over, &|_| {}));
        wait(AROUND, &setting.stop);
        let run = run_shown(&plan, &setting.stop, "");
        wait(AROUND, &setting.stop);
        is_over.store(true, Ordering::Relaxed);
        let recorded = recorder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        recorded?;
        anyhow::Ok(run?)
    })?;
    if setting.stop.load(Ordering::Relaxed) {
        bail!("stopped; what was recorded until then lies in `{}`", folder.display());
    }
    if let Some(status) = launched.ended() {
        return Err(listed(&format!("the server ended with {status} under the load"), launched));
    }
    if run.attempts.iter().all(|attempt| !attempt.counts()) {
        return Err(listed("no request was answered", launched));
    }
    Ok((plan, run, target.is_simulated))
}

fn wait(time: Duration, stop: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn with_log(error: LaunchError, launched: &Launched) -> anyhow::Error {
    match error {
        LaunchError::Died { .. } | LaunchError::Silent { .. } => listed(&error.to_string(), launched),
        error => error.into(),
    }
}

/// A sentence, and the end of the server's log.
fn listed(sentence: &str, launched: &Launched) -> anyhow::Error {
    let lines = launched.last_lines(LINES);
    let sentence = if lines.is_empty() { format!("{sentence}; its log is empty") } else { format!("{sentence}; its log ends with") };
    Listed { sentence, lines }.into()
}

fn told(figures: &Figures, client_limited: Vec<String>, simulated: bool) -> RoundLoad {
    let pair = |spread: &Spread| [spread.mean, spread.p99];
    RoundLoad {
        simulated,
        client_limited,
        sent: figures.sent,
        completed: figures.completed,
        failed: figures.failed(),
        requests_per_s: figures.requests_per_s(),
        output_tokens_per_s: figures.output_per_s(),
        ttft_s: pair(&figures.ttft),
        tpot_s: pair(&figures.tpot),
        e2e_s: pair(&figures.e2e),
    }
}
