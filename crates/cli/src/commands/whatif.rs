//! `inferoscope whatif`: what a change would do to the run in a capture.

use std::ffi::OsString;

use analysis::whatif::{self, Goal, Refusal, WhatIf};
use anyhow::{Context as _, bail};
use report::{clean, figures, views};

use crate::evidence::{self, Pace};
use crate::exit::Exit;
use crate::out;
use crate::screen::Screen;

/// Predict what a change would do
///
/// Sends the requests of the capture through a simulation of its engine, as it was and with the change, and carries the
/// ratio over to what was measured. Several changes are simulated together. What nobody can know from the capture is
/// refused, with what would tell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  inferoscope whatif run/ --set max_num_seqs=64
  inferoscope whatif run/ --set kv_cache_dtype=fp8 --set rate=x2 --model Llama-3-8B --device h100-sxm
  inferoscope whatif run/ --search max_num_seqs --slo ttft.p99=0.5

Exit codes: 0 predicted, 3 cannot be known from this capture, 2 could not run")]
pub(crate) struct Args {
    /// Evidence of the run: files, folders, captures or addresses
    #[arg(required_unless_present = "levers")]
    inputs: Vec<OsString>,

    /// What to change, as lever=value; may be given several times
    #[arg(long = "set", value_name = "LEVER=VALUE", value_parser = pair)]
    sets: Vec<(String, String)>,

    /// Try values of this lever and keep the best under the limits
    #[arg(long, value_name = "LEVER")]
    search: Option<String>,

    /// Limit that a search must keep, as figure=seconds (`ttft.p99=0.5`); may be given several times
    #[arg(long, value_name = "FIGURE=SECONDS", value_parser = limit, requires = "search")]
    slo: Vec<(String, f64)>,

    /// Model, where the capture does not name it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Device, where the capture does not name it
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Arm of the capture
    #[arg(long, value_name = "N", default_value_t = 0)]
    run: u32,

    /// List what can be changed
    #[arg(long)]
    levers: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pace: Pace,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => Ok((key.trim().into(), value.trim().into())),
        _ => Err("expected lever=value, as in max_num_seqs=64".into()),
    }
}

fn limit(text: &str) -> Result<(String, f64), String> {
    let (key, value) = pair(text).map_err(|_| "expected figure=seconds, as in ttft.p99=0.5")?;
    let seconds = value.trim_end_matches('s').parse().ok().filter(|seconds: &f64| *seconds > 0.0 && seconds.is_finite());
    seconds.map(|seconds| (key, seconds)).ok_or_else(|| "expected a number of seconds above 0".into())
}

/// Predicts and prints.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    if args.levers {
        out::print(&lever_list())?;
        return Ok(Exit::Done);
    }
    if args.sets.is_empty() && args.search.is_none() {
        bail!("nothing to change: name it with --set lever=value, or see --levers");
    }
    let mut capture = evidence::read_requests(&args.inputs, args.pace)?;
    let subject = &mut capture.manifest.subject;
    if let Some(model) = &args.model {
        model::models::find(model).with_context(|| format!("no model `{model}` in the table"))?;
        subject.model.clone_from(model);
    }
    if let Some(device) = &args.device {
        model::hardware::find(device).with_context(|| format!("no device `{device}` in the table"))?;
        subject.device.clone_from(device);
    }
    let answered = match &args.search {
        Some(lever) => whatif::search(&capture, args.run, lever, &args.sets, &Goal { limits: args.slo.clone() }),
        None => whatif::what_if(&capture, args.run, &args.sets).map(|answer| (Some(0), vec![answer])),
    };
    match answered {
        Ok((chosen, answers)) => show(args, screen, chosen, &answers),
        Err(refusal @ (Refusal::Unknowable { .. } | Refusal::NoBaseline { .. })) => {
            out::print(&refused(args, &refusal))?;
            Ok(Exit::Inconclusive)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn refused(args: &Args, refusal: &Refusal) -> String {
    let why = clean::line(&refusal.to_string());
    if args.json {
        format!("{:#}\n", serde_json::json!({ "schema": "inferoscope.whatif_refusal/1", "refused": why }))
    } else {
        format!("CANNOT TELL  {why}\n")
    }
}

fn show(args: &Args, screen: &Screen, chosen: Option<usize>, answers: &[WhatIf]) -> anyhow::Result<Exit> {
    let exit = if chosen.is_some() { Exit::Done } else { Exit::Inconclusive };
    if args.json {
        out::print(&views::json::render_what_if(answers, chosen, args.search.is_some()))?;
        return Ok(exit);
    }
    let mut text = String::new();
    if args.search.is_some() {
        text.push_str(&tried(answers, chosen));
    }
    match chosen.and_then(|at| answers.get(at)) {
        Some(best) => text.push_str(&views::whatif::render(best, screen.options(None))),
        None => text.push_str("no value that was tried keeps the limits\n"),
    }
    out::print(&text)?;
    Ok(exit)
}

/// One line per value of a search.
fn tried(answers: &[WhatIf], chosen: Option<usize>) -> String {
    let mut text = String::new();
    for (at, answer) in answers.iter().enumerate() {
        let value = answer.changes.last().map_or("", |change| change.to.as_str());
        let shown = |name: &str| {
            let figure = answer.metrics.iter().find(|figure| figure.name == name)?;
            Some(figure.value.map_or_else(|| "-".to_string(), |range| figures::quantity(range.mid, &figure.unit)))
        };
        let cells: Vec<String> = ["ttft.mean", "ttft.p99", "tpot.mean", "throughput.output"]
            .iter()
            .map(|name| format!("{name} {}", shown(name).unwrap_or_else(|| "-".into())))
            .collect();
        let mark = if Some(at) == chosen { "*" } else { " " };
        let state = if answer.saturated { "  saturated" } else { "" };
        text.push_str(&format!("{mark} {:>8}  {}{state}\n", clean::name(value, 20), cells.join("  ")));
    }
    text.push('\n');
    text
}

fn lever_list() -> String {
    let mut text = String::new();
    for lever in whatif::levers() {
        text.push_str(&format!("{:<30}{}; takes {}\n", lever.name, lever.about, lever.takes));
    }
    text
}
