//! `inferoscope export`: the timeline and the tables, in the formats of other tools.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use analysis::{DiagnoseOptions, diagnose};
use anyhow::{Context as _, bail};
use capture::Capture;
use report::clean;
use report::exports::{csv, folded, perfetto};

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::stored::StoredArgs;
use crate::{atomic_file, destination, out};

/// Hand the timeline to other tools
///
/// Writes a trace for the Perfetto UI, folded stacks for flame graphs, or tables as CSV. Several can be asked for at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 written, 2 could not run")]
#[command(group(clap::ArgGroup::new("form").required(true).multiple(true)))]
pub(crate) struct Args {
    /// Files, folders, captures, or http:// addresses (/metrics is added where there is no path)
    #[arg(required_unless_present = "prometheus", value_name = "INPUT")]
    inputs: Vec<OsString>,

    /// A trace to open at ui.perfetto.dev: streams, threads, steps, gauges, findings. Chrome's JSON where the name ends in
    /// .json, else protobuf
    #[arg(long, value_name = "FILE", group = "form")]
    perfetto: Option<PathBuf>,

    /// Time on devices by category and kernel as folded stacks, in nanoseconds
    #[arg(long, value_name = "FILE", group = "form")]
    folded: Option<PathBuf>,

    /// Sampled stacks of host threads as folded stacks, in samples
    #[arg(long, value_name = "FILE", group = "form")]
    folded_stacks: Option<PathBuf>,

    /// A folder for the tables, a CSV file each
    #[arg(long, value_name = "FOLDER", group = "form")]
    csv: Option<PathBuf>,

    /// Replace files that are there
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    stored: StoredArgs,
}

/// Writes what was asked for and says what is in it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    for path in [&args.perfetto, &args.folded, &args.folded_stacks].into_iter().flatten() {
        destination::check_export(path, &args.inputs, args.force)?;
    }
    args.csv.as_ref().map_or(Ok(()), |folder| destination::check_export_folder(folder, &args.inputs, args.force))?;
    let capture = evidence::read_with(&args.inputs, args.pace, &args.stored)?;
    refuse_nothing_to_fold(args, &capture)?;
    let mut lines = Vec::new();
    if let Some(path) = &args.perfetto {
        lines.push(write_perfetto(&capture, path)?);
    }
    if let Some(path) = &args.folded {
        let count = atomic_file::write_with(path, |mut out| folded::write_device_time(&capture, &mut out))?;
        lines.push(format!("{}: {count} stacks, ns", shown(path)));
    }
    if let Some(path) = &args.folded_stacks {
        let count = atomic_file::write_with(path, |mut out| folded::write_stacks(&capture, &mut out))?;
        lines.push(format!("{}: {count} stacks, samples", shown(path)));
    }
    if let Some(folder) = &args.csv {
        lines.push(write_tables(&capture, folder)?);
    }
    out::print(&format!("wrote {}\n", lines.join("\nwrote ")))?;
    Ok(Exit::Done)
}

/// Said before anything is written.
fn refuse_nothing_to_fold(args: &Args, capture: &Capture) -> anyhow::Result<()> {
    if args.folded.is_some() && capture.tables.device_events.t_start_ns.is_empty() {
        bail!("there are no device events to fold; --folded-stacks writes sampled stacks of host threads");
    }
    if args.folded_stacks.is_some() && capture.tables.stacks.weight.is_empty() {
        bail!("there are no sampled stacks; --folded writes time on devices");
    }
    Ok(())
}

fn write_perfetto(capture: &Capture, path: &Path) -> anyhow::Result<String> {
    let report = diagnose(capture, &DiagnoseOptions::default());
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let form = if is_json { perfetto::Form::ChromeJson } else { perfetto::Form::TrackEvent };
    let written = atomic_file::write_with(path, |out| perfetto::write(capture, &report, form, out))?;
    let left_out = match written.left_out_count {
        0 => String::new(),
        count => format!("; {count} left out where more than {} events overlap", perfetto::MAX_LANES),
    };
    Ok(format!(
        "{}: {} slices and {} values on {} tracks{left_out}",
        shown(path),
        written.slice_count,
        written.value_count,
        written.track_count
    ))
}

fn write_tables(capture: &Capture, folder: &Path) -> anyhow::Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("could not make the folder `{}`", folder.display()))?;
    let written = csv::write(capture, &mut Tables(folder)).with_context(|| format!("could not write tables to `{}`", folder.display()))?;
    let rows: usize = written.iter().map(|(_, rows)| rows).sum();
    Ok(format!("{}: {} tables, {rows} rows", shown(folder), written.len()))
}

/// Tables in a folder; each gets its name when it is whole.
struct Tables<'a>(&'a Path);

impl Tables<'_> {
    fn unfinished(&self, table: &str) -> PathBuf {
        self.0.join(format!(".{table}.csv.{}.tmp", std::process::id()))
    }
}

impl csv::Folder for Tables<'_> {
    type File = BufWriter<File>;

    fn create(&mut self, table: &'static str) -> io::Result<Self::File> {
        Ok(BufWriter::with_capacity(1 << 18, File::create(self.unfinished(table))?))
    }

    fn finish(&mut self, table: &'static str, mut file: Self::File) -> io::Result<()> {
        let unfinished = self.unfinished(table);
        let whole = file.flush().and_then(|()| fs::rename(&unfinished, self.0.join(format!("{table}.csv"))));
        if whole.is_err() {
            // The first error is the one worth telling.
            let _ = fs::remove_file(&unfinished);
        }
        whole
    }
}

fn shown(path: &Path) -> String {
    clean::line(&path.display().to_string())
}
