//! `inferoscope capture`: evidence in, one capture on disk out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use capture::Capture;
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

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    stored: StoredArgs,
}

/// Writes the capture and says what is in it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    destination::check_capture(&args.output, &args.inputs)?;
    let capture = evidence::read_with(&args.inputs, args.pace, &args.stored)?;
    capture::store::write(&capture, &args.output).with_context(|| format!("could not write capture `{}`", args.output.display()))?;
    out::print(&summary(&capture, &args.output))?;
    Ok(Exit::Done)
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
