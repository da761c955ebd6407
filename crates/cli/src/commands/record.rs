//! `inferoscope record`: a running system into a capture that grows.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use live::{Address, Processes, RecordPlan, Recorded};
use report::clean;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::{destination, out, quantity};

/// Record a running system into a capture
///
/// Reads /metrics of engines and exporters, follows logs, and samples the engine's processes, their Python threads and the
/// NVIDIA GPUs beside them, until Ctrl-C or --for. About once a second a segment of the capture is closed and synced to the
/// disk: a kill loses the last second, diagnose and watch read the capture while it grows.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 recorded, 2 could not run, or ended early because it could not be written")]
pub(crate) struct Args {
    /// http:// addresses (/metrics is added where there is no path)
    #[arg(value_name = "URL", required_unless_present_any = ["log", "pid", "process"])]
    targets: Vec<Address>,

    /// A log to follow, through rotation and truncation; the first is of the first URL, the second of the second
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,

    /// The engine's process, on this host; what it started is recorded as well
    #[arg(long, value_name = "PID", conflicts_with = "process")]
    pid: Option<u32>,

    /// The engine's processes by name, as in vllm or sglang
    #[arg(long, value_name = "NAME")]
    process: Option<String>,

    /// Leave out Python threads of the engine's processes, which are otherwise looked at 20 times a second: where each stands, and
    /// who holds the interpreter lock. The engine is never paused, and looking takes 5 % of a core at most; it needs the right to
    /// read the engine's memory, as root, as the same user, or in a container with --cap-add SYS_PTRACE
    #[arg(long)]
    no_python: bool,

    /// Leave out the NVIDIA GPUs of this host, which are otherwise read beside the engine's processes where there are any: how busy
    /// they are, clocks and what holds them down, power, memory, PCIe
    #[arg(long)]
    no_gpu: bool,

    /// Where the capture grows [default: inferoscope-TIME.capture]
    #[arg(long, value_name = "X.capture")]
    out: Option<PathBuf>,

    /// How long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::duration)]
    duration: Option<Duration>,

    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    interval: Duration,

    /// Longest wait for one answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    timeout: Duration,

    /// Run the engine's own profiler for this long; requests are slow meanwhile and stall while it writes its trace
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    profile: Option<Duration>,

    /// The engine to profile, where several addresses are read, as in http://127.0.0.1:8000
    #[arg(long, value_name = "URL", requires = "profile")]
    profile_url: Option<String>,
}

/// Records and says what was recorded.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let plan = plan(args)?;
    destination::check_capture(&plan.out, &args.log.iter().map(OsString::from).collect::<Vec<_>>())?;
    if plan.out.exists() {
        bail!("`{}` exists already; name another place to record to", plan.out.display());
    }
    live::on_interrupt(|exit_code| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(exit_code);
        }
    })?;
    let progress = Progress::new();
    let path = clean::line(&plan.out.display().to_string());
    progress.note(&format!("recording to {path}; Ctrl-C ends and keeps what was recorded"));
    if plan.profile.is_some() {
        progress.note("the engine's profiler runs: requests are slower meanwhile and may stall while it writes its trace");
    }
    let show = |told: Recorded| {
        let message = format!("{} readings, {} failed, {} segments", told.scrape_count, told.failed_count, told.segment_count);
        let total = plan.duration.unwrap_or(told.elapsed).as_millis() as u64;
        progress.show(&message, (told.elapsed.as_millis() as u64).min(total), total);
    };
    let told = live::record(&plan, &STOP, &show)?;
    drop(progress);
    out::print(&summary(&told, &path))?;
    Ok(Exit::Done)
}

fn plan(args: &Args) -> anyhow::Result<RecordPlan> {
    let mut targets: Vec<Address> = Vec::new();
    for target in &args.targets {
        if !targets.contains(target) {
            targets.push(target.clone());
        }
    }
    let processes = match (args.pid, &args.process) {
        (Some(pid), _) => Processes::Id(pid),
        (None, Some(name)) => Processes::Named(name.clone()),
        (None, None) => Processes::None,
    };
    let profile = match args.profile {
        None => None,
        Some(length) => Some((engine(args, &targets)?, length)),
    };
    Ok(RecordPlan {
        targets,
        logs: args.log.clone(),
        processes,
        python: !args.no_python,
        nvml: (!args.no_gpu).then(|| live::NVML.into()),
        out: args.out.clone().unwrap_or_else(default_out),
        duration: args.duration,
        interval: args.interval,
        timeout: args.timeout,
        profile,
    })
}

/// The engine to profile.
fn engine(args: &Args, targets: &[Address]) -> anyhow::Result<Address> {
    match (&args.profile_url, targets) {
        (Some(url), _) => Ok(Address::base(url)?),
        (None, [only]) => Ok(only.server()),
        (None, _) => bail!("expected one address, or --profile-url, to know which engine to profile; found {} addresses", targets.len()),
    }
}

fn default_out() -> PathBuf {
    PathBuf::from(format!("inferoscope-{}.capture", now_s()))
}

/// Now, for names of places that nobody named: seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn summary(told: &Recorded, path: &str) -> String {
    let mut text = format!(
        "recorded {path}: {} rows in {} s; {} readings, {} failed; {} moments of the host, {} looks at Python, {} bytes of logs\n",
        told.row_count,
        told.elapsed.as_secs(),
        told.scrape_count,
        told.failed_count,
        told.host_count,
        told.look_count,
        told.log_byte_count
    );
    if let Some(failure) = &told.last_failure {
        text.push_str(&format!("the last that failed: {}\n", clean::line(failure)));
    }
    for note in &told.notes {
        text.push_str(&format!("{}\n", clean::line(note)));
    }
    if told.dropped_count > 0 {
        text.push_str(&format!("{} pieces were dropped, because the disk could not keep up\n", told.dropped_count));
    }
    if !told.is_finished {
        text.push_str(&format!("left in segments, as it is long; `inferoscope capture {path} -o OTHER.capture` makes one piece of them\n"));
    }
    text
}
