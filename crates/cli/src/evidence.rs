//! From what the user named to one capture: files and folders through `ingest`, captures from disk, addresses and
//! Prometheus servers through `live`; merged and brought into canonical order, so that the order of the arguments does not matter.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use capture::Capture;

use crate::progress::Progress;
use crate::stored::{self, StoredArgs};
use crate::{exit, quantity};

/// How long and how often addresses are read.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Pace {
    /// How long to read http:// addresses, or how much to take from a Prometheus server [default: 30s, or 30m with
    /// --prometheus]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    window: Option<Duration>,

    /// Time between two reads of an http:// address
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    interval: Duration,
}

impl Pace {
    /// For inputs among which no address is.
    pub(crate) fn unused() -> Self {
        Self { window: None, interval: Duration::from_secs(1) }
    }

    /// How long addresses are read.
    fn live_window(self) -> Duration {
        self.window.unwrap_or(Duration::from_secs(30))
    }

    /// How much is taken from a Prometheus server.
    pub(crate) fn stored_window(self) -> Duration {
        self.window.unwrap_or(Duration::from_secs(30 * 60))
    }
}

/// Inputs, sorted by what has to be done with them.
#[derive(Debug, Default)]
struct Inputs {
    addresses: Vec<live::Address>,
    captures: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// Reads everything the user named into one capture.
pub(crate) fn read(inputs: &[OsString], pace: Pace) -> anyhow::Result<Capture> {
    read_all(inputs, pace, None, ingest::Options::default())
}

/// Like [`read`], with what a Prometheus server stored.
pub(crate) fn read_with(inputs: &[OsString], pace: Pace, stored: &StoredArgs) -> anyhow::Result<Capture> {
    read_all(inputs, pace, Some(stored), ingest::Options::default())
}

/// Like [`read`], without the timelines of profilers.
pub(crate) fn read_requests(inputs: &[OsString], pace: Pace) -> anyhow::Result<Capture> {
    read_all(inputs, pace, None, ingest::Options { skip_profiles: true, ..ingest::Options::default() })
}

fn read_all(inputs: &[OsString], pace: Pace, stored: Option<&StoredArgs>, options: ingest::Options<'_>) -> anyhow::Result<Capture> {
    let inputs = sort(inputs)?;
    let mut parts = scrape(&inputs.addresses, pace)?;
    if let Some(stored) = stored {
        parts.extend(stored::read(stored, pace)?);
    }
    let measured_count = parts.len();
    for path in &inputs.captures {
        parts.push(capture::store::open(path).with_context(|| format!("could not open capture `{}`", path.display()))?);
    }
    if !inputs.files.is_empty() || inputs.captures.len() > 1 {
        // Read together, so that what stands in a capture and beside it counts once; opening them first told damage.
        // Beside what was measured just now, so that files without a time zone find theirs.
        parts.truncate(measured_count);
        parts = vec![read_files(parts, &[inputs.files, inputs.captures].concat(), options)?];
    }
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_else(Capture::new);
    parts.for_each(|part| whole.merge(part));
    whole.canonicalize();
    refuse_nothing(&whole)?;
    Ok(whole)
}

/// Inputs of which nothing was understood are an error, not weak evidence.
fn refuse_nothing(capture: &Capture) -> anyhow::Result<()> {
    let evidence: usize = capture
        .tables
        .row_counts()
        .iter()
        .filter(|(table, _)| !matches!(*table, "issues" | "attachments" | "notes" | "runs"))
        .map(|(_, rows)| rows)
        .sum();
    // What was left out on purpose was understood.
    let is_skipped = capture.tables.issues.rows().any(|issue| capture.text(issue.code) == capture::issues::PROFILE_SKIPPED);
    if evidence > 0 || is_skipped {
        return Ok(());
    }
    let lines: Vec<String> = capture
        .tables
        .issues
        .rows()
        .take(5)
        .map(|issue| format!("{}: {}", capture.text(issue.source), capture.text(issue.sentence)))
        .collect();
    Err(exit::Listed { sentence: "nothing in the input was understood".into(), lines }.into())
}

/// Tells addresses, captures and files apart. Each is read once however often it is named.
fn sort(inputs: &[OsString]) -> anyhow::Result<Inputs> {
    let mut sorted = Inputs::default();
    for input in inputs {
        let text = input.to_str().filter(|text| text.contains("://"));
        if let Some(text) = text {
            sorted.addresses.push(text.parse()?);
            continue;
        }
        let path = PathBuf::from(input);
        refuse_device(&path)?;
        let kind = if capture::store::is_capture(&path) { &mut sorted.captures } else { &mut sorted.files };
        kind.push(path);
    }
    sorted.addresses.sort();
    sorted.addresses.dedup();
    for paths in [&mut sorted.captures, &mut sorted.files] {
        paths.sort();
        paths.dedup_by_key(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    }
    Ok(sorted)
}

/// A device may never end; a pipe ends when its writer does.
fn refuse_device(path: &Path) -> anyhow::Result<()> {
    let is_device = |found: std::fs::Metadata| found.file_type().is_char_device() || found.file_type().is_block_device();
    if path.metadata().is_ok_and(is_device) {
        anyhow::bail!("`{}` is a device, which is not read; save what it holds to a file first", path.display());
    }
    Ok(())
}

fn read_files(known: Vec<Capture>, files: &[PathBuf], options: ingest::Options<'_>) -> anyhow::Result<Capture> {
    let progress = Progress::new();
    let show = |step: ingest::Progress| {
        let message = format!("{} of {} sources, {} MB", step.sources_done, step.sources_total, step.bytes_done / 1_000_000);
        progress.show(&message, step.sources_done as u64, step.sources_total as u64);
    };
    let options = ingest::Options { progress: Some(&show), ..options };
    Ok(ingest::read_beside(known, files, &options)?)
}

/// Set by the first Ctrl-C or SIGTERM, and when an address fails for good: the window ends and what was read is kept.
static STOP: AtomicBool = AtomicBool::new(true);

/// Reads all addresses at the same time, so that their windows overlap.
fn scrape(addresses: &[live::Address], pace: Pace) -> anyhow::Result<Vec<Capture>> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    listen_for_interrupts()?;
    STOP.store(false, Ordering::Relaxed);
    let progress = Progress::new();
    progress.note(&format!(
        "reading {} for {} s; Ctrl-C ends early and keeps what was read",
        list(addresses),
        pace.live_window().as_secs_f64()
    ));
    let show = |seen: live::Seen| {
        let message = format!("{} readings, {} failed", seen.scrape_count, seen.failed_count);
        progress.show(&message, seen.elapsed.as_millis() as u64, pace.live_window().as_millis() as u64);
    };
    let read = |address| {
        let scrapes = live::scrape_window(address, pace.live_window(), pace.interval, &STOP, &show);
        if scrapes.is_err() {
            STOP.store(true, Ordering::Relaxed); // nothing comes of the others without it
        }
        scrapes
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let readers: Vec<_> = addresses.iter().map(|address| scope.spawn(move || read(address))).collect();
        readers.into_iter().map(|reader| reader.join().expect("reading an address does not panic")).collect()
    });
    STOP.store(true, Ordering::Relaxed);
    // The failure that stopped the others is the one to tell.
    if let Some(at) = results.iter().position(|result| matches!(result, Err(error) if !matches!(error, live::LiveError::Stopped(_)))) {
        results.swap(0, at);
        results.truncate(1);
    }
    let scrapes = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(addresses.iter().zip(&scrapes).map(|(address, scrapes)| live::capture_of(address, scrapes)).collect())
}

/// From here on a Ctrl-C or SIGTERM ends the window; one with no window open, or with a window that is ending, ends the program.
fn listen_for_interrupts() -> std::io::Result<()> {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if LISTENING.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    live::on_interrupt(|exit_code| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(exit_code);
        }
    })
}

fn list(addresses: &[live::Address]) -> String {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.join(", ")
}
