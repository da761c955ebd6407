//! What a load came to: the screen, one JSON document, files.

use anyhow::Context as _;
use live::load::{self, LoadRun};
use serde_json::{Value, json};

use super::{Levels, Loading, offer};
use crate::{atomic_file, out};

/// Prints the result and writes the files that were asked for.
pub(super) fn tell(loading: &Loading<'_>, levels: &Levels) -> anyhow::Result<()> {
    let args = loading.args;
    if let Some(path) = &args.csv {
        let runs: Vec<(f64, &LoadRun)> = levels.all.iter().map(|level| (level.value, &level.run)).collect();
        atomic_file::write(path, load::csv(&runs).as_bytes())?;
    }
    if let (Some(path), [level]) = (&args.vllm_json, levels.all.as_slice()) {
        atomic_file::write(path, load::vllm_bench_json(&levels.plan, &level.figures, &level.run).as_bytes())?;
    }
    if let (Some(path), [level]) = (&args.aiperf_jsonl, levels.all.as_slice()) {
        atomic_file::write(path, load::aiperf_jsonl(&level.run).as_bytes())?;
    }
    out::print(&if args.json { text(&document(loading, levels))? } else { screen(loading, levels) })
}

fn text(document: &Value) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document).context("could not write JSON")? + "\n")
}

fn document(loading: &Loading<'_>, levels: &Levels) -> Value {
    let is_simulated = loading.target.is_simulated;
    let one = |level: &load::Level| load::json(&level.figures, &level.run.health, is_simulated);
    let Some(axis) = levels.axis else { return levels.all.first().map_or(Value::Null, one) };
    let every: Vec<Value> = levels
        .all
        .iter()
        .map(|level| {
            let mut document = one(level);
            document["level"] = level.value.into();
            document
        })
        .collect();
    json!({
        "schema": "inferoscope.load_sweep/1", "varied": axis.signal(), "simulated": is_simulated, "levels": every, "knee": levels.knee,
        "highest_that_keeps_limits": levels.best, "ended": levels.ended,
    })
}

fn screen(loading: &Loading<'_>, levels: &Levels) -> String {
    let is_simulated = loading.target.is_simulated;
    let Some(axis) = levels.axis else {
        return levels.all.first().map_or(String::new(), |level| load::table(&level.figures, &level.run.health, is_simulated));
    };
    let mut text = String::new();
    if is_simulated {
        text.push_str("The server is simulated: these figures are no measurement of an engine.\n");
    }
    let heads = [offer::unit(axis), "requests/s", "tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99", "good", "failed"];
    text.push_str(&heads.map(|head| format!("{head:>11}")).concat());
    text.push('\n');
    for level in &levels.all {
        let (figures, ms) = (&level.figures, |seconds: f64| format!("{:.1} ms", seconds * 1e3));
        let cells = [
            format!("{:.2}", level.value),
            format!("{:.2}", figures.requests_per_s()),
            format!("{:.1}", figures.output_per_s()),
            ms(figures.ttft_from_due.p50),
            ms(figures.ttft_from_due.p99),
            ms(figures.tpot.p50),
            ms(figures.tpot.p99),
            figures.good_frac().map_or("-".into(), |frac| format!("{:.1} %", 100.0 * frac)),
            figures.failed().to_string(),
        ];
        text.push_str(&cells.map(|cell| format!("{cell:>11}")).concat());
        text.push_str(if level.client_limits.is_empty() { "\n" } else { "  client-limited\n" });
    }
    text.push_str(&format!("ended: {}\n", levels.ended));
    if let Some(knee) = levels.knee {
        text.push_str(&format!("knee: {knee:.2} {}; more load than that brings less than half of what it asks for\n", offer::unit(axis)));
    }
    match levels.best {
        Some(best) => text.push_str(&format!("highest load that keeps the limits: {best:.2} {}\n", offer::unit(axis))),
        None if loading.slo().is_set() => text.push_str("no level keeps the limits\n"),
        None => {}
    }
    text
}
