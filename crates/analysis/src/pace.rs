//! How fast two arms of one system are at the same load: the time per output token in both, in whatever it was given.

use crate::evidence::{Evidence, Figures, Point};

/// Time per output token at one operating point of two arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Concurrency or request rate; 0 for whole-run figures.
    pub load: f64,
    /// Here, in the unit of `quantity`, or inverted where that is a rate.
    pub here: f64,
    /// There.
    pub there: f64,
    /// What was compared.
    pub quantity: &'static str,
}

impl Pace {
    /// Time here over time there: above 1, here is slower.
    pub fn slowdown(&self) -> f64 {
        self.here / self.there
    }
}

/// Times per token, best first, then rates, which are inverted. What a request waits before its first token is not here.
const TIMES: [&str; 6] = ["client.tpot", "server.tpot", "client.itl", "server.itl", "engine.step_time", "server.decode_time"];
/// Where only prompts were timed.
const PROMPTS: [(&str, bool); 3] = [("server.prefill_time", false), ("client.throughput.prompt", true), ("server.throughput.prompt", true)];
const RATES: [&str; 4] = ["client.throughput.output", "server.throughput.output", "client.throughput.total", "client.throughput.requests"];
const LOADS: [&str; 3] = ["client.concurrency", "client.request_rate", "engine.running"];

/// The operating points that two arms share, by the first quantity that both state, in order of load.
pub fn paces(here: &Evidence, there: &Evidence) -> Vec<Pace> {
    let by = |quantity: &'static str, is_rate: bool| -> Vec<Pace> {
        let value = |value: f64| if is_rate { 1.0 / value } else { value };
        let pairs = relative(here, there, quantity).unwrap_or_else(|| pairs(here, there, quantity));
        let pace = |(load, mine, theirs)| Pace { load, here: value(mine), there: value(theirs), quantity };
        pairs.into_iter().map(pace).filter(|pace| pace.slowdown().is_finite() && pace.slowdown() > 0.0).collect()
    };
    let known = TIMES.iter().map(|name| by(name, false)).chain(RATES.iter().map(|name| by(name, true)));
    let known = known.chain(PROMPTS.iter().map(|(name, is_rate)| by(name, *is_rate)));
    let mut found = known.into_iter().find(|paces| !paces.is_empty()).unwrap_or_default();
    found.sort_by(|a, b| a.load.total_cmp(&b.load));
    found
}

/// Means over all shared points: here over there.
pub fn slowdown(here: &Evidence, there: &Evidence) -> Option<f64> {
    let paces = paces(here, there);
    (!paces.is_empty()).then(|| paces.iter().map(|pace| pace.slowdown().ln()).sum::<f64>() / paces.len() as f64).map(f64::exp)
}

/// Figures given only as a ratio to the first run (`.vs_baseline`).
fn relative(here: &Evidence, there: &Evidence, quantity: &str) -> Option<Vec<(f64, f64, f64)>> {
    let ratio = |evidence: &Evidence| {
        let given = evidence.figures.get(&format!("{quantity}.vs_baseline"));
        if evidence.run_idx == 0 { Some(1.0) } else { given }
    };
    let any = [here, there].iter().any(|arm| arm.figures.get(&format!("{quantity}.vs_baseline")).is_some());
    (any && here.figures.typical(quantity).zip(there.figures.typical(quantity)).is_none())
        .then(|| ratio(here).zip(ratio(there)).map(|(mine, theirs)| vec![(0.0, mine, theirs)]))
        .flatten()
}

fn pairs(here: &Evidence, there: &Evidence, quantity: &str) -> Vec<(f64, f64, f64)> {
    if let Some((mine, theirs)) = here.figures.typical(quantity).zip(there.figures.typical(quantity)) {
        return vec![(load_of_run(&here.figures), mine, theirs)];
    }
    let theirs = rows(&there.figures, quantity);
    let same = |row: &Row| theirs.iter().find(|other| other.is_at(row)).map(|other| other.value);
    rows(&here.figures, quantity).iter().filter_map(|row| Some((row.load, row.value, same(row)?))).collect()
}

fn load_of_run(figures: &Figures) -> f64 {
    LOADS.iter().find_map(|name| figures.typical(name)).unwrap_or(0.0)
}

struct Row {
    load: f64,
    class: String,
    prompt: f64,
    value: f64,
}

impl Row {
    fn is_at(&self, other: &Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        close(self.load, other.load) && self.class == other.class && close(self.prompt, other.prompt)
    }
}

fn rows(figures: &Figures, quantity: &str) -> Vec<Row> {
    let row = |point: &Point| {
        Some(Row {
            load: LOADS.iter().find_map(|name| point.typical(name)).unwrap_or_else(|| load_of_run(figures)),
            class: point.about("class").unwrap_or_default().to_string(),
            prompt: point.typical("server.prompt_tokens").unwrap_or(0.0),
            value: point.typical(quantity)?,
        })
    };
    figures.points().filter_map(row).collect()
}
