//! `inferoscope capture`: evidence in, one capture on disk out.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use analysis::hardware_bound;
use anyhow::Context as _;
use capture::Capture;
use capture::content_hash::hex;
use capture::redact::Redaction;
use report::clean;

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::stored::StoredArgs;
use crate::{destination, out};

/// Build or merge a capture
///
/// A capture holds everything that was read, in one folder of tables with a manifest; other verbs take it as input.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 written, 2 could not run")]
pub(crate) struct Args {
    /// Files, folders, captures, or http:// addresses (/metrics is added where there is no path)
    #[arg(required_unless_present = "prometheus", value_name = "INPUT")]
    inputs: Vec<OsString>,

    /// Where to write; an existing capture is replaced, anything else is left alone; not inside an input
    #[arg(short, long, value_name = "X.capture")]
    output: PathBuf,

    /// Make it fit to be shown to strangers: numbers, settings and salted hashes stay, texts and names do not
    #[arg(long)]
    redact: bool,

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    stored: StoredArgs,
}

/// Writes the capture and says what is in it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    destination::check_capture(&args.output, &args.inputs)?;
    let mut capture = evidence::read_with(&args.inputs, args.pace, &args.stored)?;
    if args.redact {
        redact(&mut capture)?;
    }
    capture::store::write(&capture, &args.output).with_context(|| format!("could not write capture `{}`", args.output.display()))?;
    out::print(&summary(&capture, &args.output))?;
    Ok(Exit::Done)
}

/// Redacts with a salt that nobody keeps.
fn redact(capture: &mut Capture) -> anyhow::Result<()> {
    let mut random = [0u8; 32];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).context("could not read random bytes for the salt")?;
    let salt = hex(&random);
    let model = |name: &str| hardware_bound::public_model(name).map(str::to_string);
    let device = |name: &str| hardware_bound::public_device(name).map(str::to_string);
    capture.redact(&Redaction { salt: &salt, model: &model, device: &device, event: &analysis::device::shown });
    Ok(())
}

fn summary(capture: &Capture, path: &Path) -> String {
    let rows: usize = capture.tables.row_counts().iter().map(|(_, rows)| rows).sum();
    let issues = capture.tables.issues.count.len();
    let count = |n: usize, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    format!(
        "wrote {}: {} in {}, {}\n",
        clean::line(&path.display().to_string()),
        count(rows, "row", "rows"),
        count(capture.manifest.sources.len(), "source", "sources"),
        count(issues, "issue", "issues")
    )
}
