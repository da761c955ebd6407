//! The requests to plan for: lengths, a trace, or a capture's own rows.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use analysis::plan::{Traffic, recorded_requests};
use anyhow::{Context as _, bail};
use simulate::Workload;
use simulate::workload::{self, Limits};

use super::Args;
use crate::evidence;

/// Largest traces: 2 million requests are 64 MB.
const LIMITS: Limits = Limits { line_bytes: 4 << 20, requests: 2_000_000, blocks: 50_000_000 };

/// What was given.
#[derive(Default)]
pub(super) struct Requests {
    lengths: Option<(u32, u32)>,
    recorded: Option<(Workload, String)>,
    /// Time per output token that was measured with them, seconds.
    pub(super) tpot_s: Option<f64>,
    /// What was left out.
    pub(super) remarks: Vec<String>,
}

impl Requests {
    /// Whether they have arrival times of their own.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// As the plan takes them.
    pub(super) fn traffic(&self) -> Traffic<'_> {
        match (&self.recorded, self.lengths) {
            (Some((workload, source)), _) => Traffic::Recorded { workload, source: source.clone() },
            (None, lengths) => {
                let (prompt_tokens, output_tokens) = lengths.unwrap_or_default();
                Traffic::Lengths { prompt_tokens, output_tokens }
            }
        }
    }
}

/// Reads what the command line names.
pub(super) fn read(args: &Args) -> anyhow::Result<Requests> {
    if let (Some(prompt), Some(output)) = (args.prompt_tokens, args.output_tokens) {
        return Ok(Requests { lengths: Some((prompt, output)), ..Requests::default() });
    }
    if let Some(path) = &args.workload {
        return trace(path);
    }
    if args.capture.is_empty() {
        bail!("expected requests to plan for: --workload FILE, --capture INPUT, or --prompt-tokens and --output-tokens");
    }
    let capture = evidence::read(&args.capture, args.pace)?;
    let Some(found) = recorded_requests(&capture) else {
        bail!("expected answered requests with their lengths in --capture, found none; give a trace or lengths");
    };
    let mut remarks = Vec::new();
    if found.left_out > 0 {
        remarks.push(format!("{} request rows without lengths or answer were left out", found.left_out));
    }
    Ok(Requests {
        recorded: Some((found.workload, "request rows of the capture".into())),
        tpot_s: found.tpot_s,
        remarks,
        ..Requests::default()
    })
}

fn trace(path: &Path) -> anyhow::Result<Requests> {
    let file = File::open(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let read = workload::read(&mut BufReader::new(file), LIMITS).with_context(|| format!("could not use `{}`", path.display()))?;
    let mut remarks = Vec::new();
    if let Some(first) = read.damage.first() {
        remarks.push(format!(
            "{} damaged lines of the trace were left out; line {}, `{}`: expected {}, found `{}`",
            read.damaged_count, first.line, first.field, first.expected, first.found
        ));
    }
    if read.unanswered_count > 0 {
        remarks.push(format!("{} requests of the trace had no answer and were left out", read.unanswered_count));
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Requests { recorded: Some((read.workload, name)), remarks, ..Requests::default() })
}
