//! `inferoscope load`: requests to a running server on schedule, and what came of them.

pub(crate) mod asking;
mod offer;
mod tell;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use capture::Capture;
use live::load::{self, Axis, Level, LoadRun, Plan, Schedule, Slo, SweepPlan, Tokenizer};
use live::{Address, Authorization};

use self::asking::{AskArgs, Asked, run_shown};
use crate::exit::Exit;
use crate::{destination, quantity};

/// Put a load on a server and time what comes back
///
/// Sends chat or completion requests to an OpenAI-compatible server (vLLM, SGLang, TGI, llama.cpp, others), on a schedule or
/// from a number of users, made up or as recorded. Times are taken in the socket; failed requests change no figure; where
/// the client itself falls behind, the summary says so first. Texts are made from common words and never kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 measured, 1 no request was answered, 2 could not run, 3 client-limited")]
pub(crate) struct Args {
    /// Base address of the server, as in http://127.0.0.1:8000
    #[arg(value_name = "URL")]
    url: String,

    #[command(flatten)]
    asking: AskArgs,

    /// What a request must keep to be good: ttft=500ms,tpot=50ms,e2e=10s
    #[arg(long, value_name = "LIMITS", value_parser = slo)]
    slo: Option<Limits>,

    /// Raise the load by doubling until the server is saturated; find the knee, and the highest load that keeps --slo
    #[arg(long, value_name = "WHAT", value_parser = ["users", "rate"])]
    sweep: Option<String>,

    /// Highest level of a sweep
    #[arg(long, value_name = "N", default_value_t = 1024.0, requires = "sweep")]
    up_to: f64,

    /// Share of the requests that must keep --slo, for a sweep
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, requires = "sweep")]
    attainment: f64,

    /// The server's metrics, read beside the load into the capture [default: /metrics of the server, where there is one]
    #[arg(long, value_name = "URL", conflicts_with = "no_metrics")]
    metrics: Option<String>,

    /// Read no metrics
    #[arg(long)]
    no_metrics: bool,

    /// Write a capture, which diagnose reads; an existing one is replaced
    #[arg(long, value_name = "X.capture")]
    out: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Write one line per request
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the result in the form of vllm bench serve --save-detailed
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    vllm_json: Option<PathBuf>,

    /// Write one line per request in the form of AIPerf's profile_export.jsonl
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    aiperf_jsonl: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// `--slo`, read.
#[derive(Clone, Copy, Debug, Default)]
struct Limits(Slo);

fn slo(text: &str) -> Result<Limits, String> {
    let mut slo = Slo::default();
    for (name, limit) in quantity::limits(text)? {
        match name.as_str() {
            "client.ttft" => slo.ttft_s = Some(limit),
            "client.tpot" => slo.tpot_s = Some(limit),
            "client.e2e" => slo.e2e_s = Some(limit),
            _ => return Err(format!("expected ttft, tpot or e2e of each request, found `{name}`")),
        }
    }
    Ok(Limits(slo))
}

/// Set by Ctrl-C and SIGTERM: nothing more is sent, what is in flight has the drain time.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Loads and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    check_places(args)?;
    let server = Address::base(&args.url)?;
    let authorization = args.asking.authorization()?;
    let tokenizer = args.asking.tokenizer()?;
    let target = args.asking.target(&server, authorization.as_ref())?;
    let loading = Loading { args, server, authorization, target, tokenizer, stop: Arc::new(AtomicBool::new(false)) };
    loading.listen_for_interrupts()?;
    let metrics = loading.read_metrics();
    let levels = loading.run();
    let metrics = metrics.map(MetricsReader::finish);
    let levels = levels?;
    if let Some(path) = &args.out {
        loading.keep(&levels, metrics, path)?;
    }
    tell::tell(&loading, &levels)?;
    let has_none = levels.all.iter().all(|level| level.figures.completed == 0);
    let is_limited = levels.axis.is_none() && levels.all.iter().any(|level| !level.client_limits.is_empty());
    Ok(if has_none {
        Exit::Localized
    } else if is_limited {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

fn check_places(args: &Args) -> anyhow::Result<()> {
    let inputs: Vec<_> = args.asking.offer.replay.iter().map(|path| path.clone().into_os_string()).collect();
    if let Some(path) = &args.out {
        destination::check_capture(path, &inputs)?;
    }
    for path in [&args.csv, &args.vllm_json, &args.aiperf_jsonl].into_iter().flatten() {
        destination::check_export(path, &inputs, args.force)?;
    }
    Ok(())
}

/// A load and where it goes.
struct Loading<'a> {
    args: &'a Args,
    server: Address,
    authorization: Option<Authorization>,
    target: load::Target,
    tokenizer: Option<Tokenizer>,
    stop: Arc<AtomicBool>,
}

/// What was run: one level without a sweep.
struct Levels {
    all: Vec<Level>,
    axis: Option<Axis>,
    knee: Option<f64>,
    best: Option<f64>,
    ended: &'static str,
    plan: Plan,
}

impl Loading<'_> {
    fn slo(&self) -> Slo {
        self.args.slo.unwrap_or_default().0
    }

    fn plan(&self, level: Option<(Axis, f64)>) -> anyhow::Result<Plan> {
        let asked = Asked {
            server: &self.server,
            authorization: self.authorization.as_ref(),
            target: &self.target,
            tokenizer: self.tokenizer.as_ref(),
        };
        self.args.asking.plan(&asked, level)
    }

    fn run(&self) -> anyhow::Result<Levels> {
        match self.args.sweep.as_deref() {
            Some("users") => self.sweep(Axis::Users),
            Some(_) => self.sweep(Axis::Rate),
            None => {
                let plan = self.plan(None)?;
                let run = run_shown(&plan, &self.stop, "")?;
                let figures = load::Figures::of(&run.attempts, self.slo());
                let client_limits = run.health.limits(&figures);
                let level = Level { value: args_value(&plan), figures, client_limits, run };
                Ok(Levels { all: vec![level], axis: None, knee: None, best: None, ended: "", plan })
            }
        }
    }

    fn sweep(&self, axis: Axis) -> anyhow::Result<Levels> {
        let from = self.args.asking.offer.first_level(axis);
        let (to, attainment) = (self.args.up_to, self.args.attainment);
        if !(from > 0.0 && to >= from && (0.0..=1.0).contains(&attainment)) {
            bail!("expected a sweep from above 0 up to no less, and a share from 0 to 1, found {from} to {to} and {attainment}");
        }
        let plan = SweepPlan { axis, from, to, slo: self.slo(), attainment, refinements: 4 };
        // Making the first level's load tells whether the others can be made.
        let first = self.plan(Some((axis, from)))?;
        let plan_of = |value: f64| self.plan(Some((axis, value))).unwrap_or_else(|_| first.clone());
        let run = |plan: &Plan, value: f64| run_shown(plan, &self.stop, &format!("{value:.4} {}: ", offer::unit(axis)));
        let found = load::sweep(&plan, &plan_of, &run, &|| self.stop.load(Ordering::Relaxed))?;
        Ok(Levels { all: found.levels, axis: Some(axis), knee: found.knee, best: found.best, ended: found.ended, plan: first })
    }

    fn listen_for_interrupts(&self) -> anyhow::Result<()> {
        let stop = Arc::clone(&self.stop);
        live::on_interrupt(move |exit_code| {
            stop.store(true, Ordering::Relaxed);
            if STOPPED.swap(true, Ordering::Relaxed) {
                std::process::exit(exit_code);
            }
        })
        .context("could not listen for interrupts")
    }

    /// Starts reading the server's metrics, which only a capture has room for.
    fn read_metrics(&self) -> Option<MetricsReader> {
        if self.args.no_metrics || self.args.out.is_none() {
            return None;
        }
        let is_typed = self.args.metrics.is_some();
        let address: Address = match &self.args.metrics {
            Some(url) => url.parse().ok()?,
            None => self.server.metrics(),
        };
        Some(MetricsReader::start(address, is_typed))
    }

    fn keep(&self, levels: &Levels, metrics: Option<anyhow::Result<Option<Capture>>>, path: &std::path::Path) -> anyhow::Result<()> {
        let runs: Vec<(f64, &LoadRun)> = levels.all.iter().map(|level| (level.value, &level.run)).collect();
        let mut whole = load::into_capture(&levels.plan, &runs, levels.axis, self.target.is_simulated);
        if let Some(metrics) = metrics
            && let Some(metrics) = metrics?
        {
            whole.merge(metrics);
            whole.canonicalize();
        }
        capture::store::write(&whole, path).with_context(|| format!("could not write capture `{}`", path.display()))
    }
}

fn args_value(plan: &Plan) -> f64 {
    match plan.schedule {
        Schedule::Closed { users, .. } => f64::from(users),
        Schedule::Open => {
            let requests = plan.workload.requests().len().saturating_sub(1) as f64;
            let span_s = plan.workload.span_ns() as f64 / 1e9;
            if span_s > 0.0 { requests / span_s } else { 0.0 }
        }
    }
}

/// Scrapes the server while the load runs.
struct MetricsReader {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<anyhow::Result<Option<Capture>>>,
}

impl MetricsReader {
    fn start(address: Address, is_typed: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let day = Duration::from_secs(24 * 3600);
            match live::scrape_window(&address, day, Duration::from_secs(1), &flag, &|_| {}) {
                Ok(scrapes) => Ok(Some(live::capture_of(&address, &scrapes))),
                // A server without metrics is no error unless they were asked for.
                Err(_) if !is_typed => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        Self { stop, thread }
    }

    fn finish(self) -> anyhow::Result<Option<Capture>> {
        // One more reading, so that the last answers are in it.
        std::thread::sleep(Duration::from_millis(1100));
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| bail!("reading the metrics ended unexpectedly"))
    }
}
