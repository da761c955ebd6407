//! `inferoscope watch`: a recording that grows, diagnosed again and again.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use analysis::{DiagnoseOptions, diagnose};
use anyhow::{Context as _, bail};
use live::ServedPage;
use report::views;

use crate::exit::Exit;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::{out, quantity};

/// How often Ctrl-C is looked for.
const POLL: Duration = Duration::from_millis(50);
/// Clears the terminal and goes to its first place.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Diagnose a recording while it grows
///
/// Reads the last minutes of what record or tap writes, prints the verdict, and does so again every few seconds, until Ctrl-C or
/// until the recording ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 watched to the end, 2 could not run")]
pub(crate) struct Args {
    /// The capture that record or tap writes
    #[arg(value_name = "X.capture")]
    capture: PathBuf,

    /// Time between two diagnoses
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::duration)]
    every: Duration,

    /// How much of the recording is diagnosed, counted from its end
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = quantity::duration)]
    window: Duration,

    /// Also serve the verdict as metrics for Prometheus, as in 127.0.0.1:9477; loopback only
    #[arg(long, value_name = "ADDRESS:PORT")]
    exporter: Option<SocketAddr>,

    /// Print nothing; for --exporter
    #[arg(long, requires = "exporter")]
    quiet: bool,

    /// Go on when the recording ends: a new one may begin at its place
    #[arg(long)]
    keep_on: bool,
}

/// Watches until the end.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    static STOP: AtomicBool = AtomicBool::new(false);
    if !args.keep_on && !capture::store::is_capture(&args.capture) {
        bail!("`{}` is no capture; expected one that `inferoscope record` or `inferoscope tap` writes", args.capture.display());
    }
    live::on_interrupt(|exit_code| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(exit_code);
        }
    })?;
    let page = args.exporter.map(ServedPage::serve).transpose()?;
    if let Some(page) = &page {
        page.set(up(false));
        Progress::new().note(&format!("serving http://{}/metrics", page.listen));
    }
    // A closed segment holds about a second.
    let segments = usize::try_from(args.window.as_secs()).unwrap_or(usize::MAX).max(1);
    let mut before = String::new();
    while !STOP.load(Ordering::Relaxed) {
        let started = Instant::now();
        let is_growing = capture::store::is_growing(&args.capture);
        match look(args, segments, screen, page.as_ref()) {
            Ok(text) if text != before && !args.quiet => {
                let clear = if std::io::stdout().is_terminal() { CLEAR } else { "" };
                out::print(&format!("{clear}{text}\n"))?;
                before = text;
            }
            Ok(_) => {}
            Err(error) if args.keep_on => {
                if let Some(page) = &page {
                    page.set(up(false));
                }
                Progress::new().note(&format!("waiting: {error:#}"));
            }
            Err(error) => return Err(error),
        }
        if !is_growing && !args.keep_on {
            break;
        }
        while started.elapsed() < args.every && !STOP.load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
        }
    }
    Ok(Exit::Done)
}

/// One diagnosis.
fn look(args: &Args, segments: usize, screen: &Screen, page: Option<&ServedPage>) -> anyhow::Result<String> {
    let path = &args.capture;
    let capture = capture::store::open_recent(path, segments).with_context(|| format!("could not open capture `{}`", path.display()))?;
    let report = diagnose(&capture, &DiagnoseOptions::default());
    let made_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    if let Some(page) = page {
        page.set(up(true) + &views::metrics::render(&report, made_s));
    }
    Ok(views::terminal::render(&report, screen.options(None)))
}

/// Whether the recording can be read, as the first metric.
fn up(is_read: bool) -> String {
    let name = "inferoscope_recording_up";
    format!("# HELP {name} 1 while the recording can be read.\n# TYPE {name} gauge\n{name} {}\n", u8::from(is_read))
}
