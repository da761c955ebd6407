//! The account of one typical request, token or step, from figures typed by hand or summed up in a result file.
//!
//! People type what they look at: a time to first token, a time per token, a step. The account is of the largest unit
//! that the figures size; where they stand in a sweep it is of the row with the most load, which is where it is slow.

use crate::evidence::{Evidence, Figures, Point, Series};
use crate::phase::Phase;

use super::{AccountUnit, Budget, RequestAccount, from_budgets, to_ns};

/// No typed time is longer than this, s: four months.
const ABSURD_S: f64 = 1e7;

/// Reads it; empty where no time is typed.
pub(super) fn read(evidence: &Evidence, baseline: Option<&Evidence>) -> RequestAccount {
    request(evidence, baseline).or_else(|| prompt(evidence)).or_else(|| token(evidence)).or_else(|| step(evidence)).unwrap_or_default()
}

/// The sweep row an account is of: the most concurrent one with that figure, else the one on the most threads, else the
/// slowest.
pub(crate) fn loaded_row<'e>(figures: &'e Figures, quantity: &str) -> Option<&'e Point> {
    let load = |point: &Point| {
        point
            .typical("client.concurrency")
            .or_else(|| point.typical("client.request_rate"))
            .or_else(|| point.typical("proc.threads"))
            .unwrap_or(0.0)
    };
    let size = |point: &Point| point.typical(quantity).unwrap_or(0.0);
    figures
        .points()
        .filter(|point| point.typical(quantity).is_some())
        .max_by(|a, b| load(a).total_cmp(&load(b)).then(size(a).total_cmp(&size(b))))
}

/// A quantity at either vantage, whole-run first, else from the loaded row of the sweep.
fn either(figures: &Figures, quantity: &str) -> Option<f64> {
    let names = [format!("client.{quantity}"), format!("server.{quantity}")];
    let whole = names.iter().find_map(|name| figures.typical(name));
    whole.or_else(|| names.iter().find_map(|name| loaded_row(figures, name)?.typical(name)))
}

fn usable(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0 && seconds < ABSURD_S
}

fn one(unit: AccountUnit, first: Budget, rest: Budget) -> RequestAccount {
    RequestAccount { vantage: "typed", n: 1, unit, ..from_budgets(first, rest) }
}

/// One request, where its first token or its whole is typed.
fn request(evidence: &Evidence, baseline: Option<&Evidence>) -> Option<RequestAccount> {
    let figures = &evidence.figures;
    let ttft = either(figures, "ttft").or_else(|| figures.highest("client.ttft"));
    let output = figures.typical("server.output_tokens");
    let decode = either(figures, "tpot").zip(output).map(|(tpot, tokens)| tpot * (tokens - 1.0).max(0.0));
    let whole = either(figures, "e2e").or_else(|| ttft.zip(decode).map(|(ttft, decode)| ttft + decode)).or(ttft)?;
    if !usable(whole) {
        return None;
    }
    let total_ns = to_ns(whole, 1.0);
    let mut first = Budget::new(to_ns(ttft.unwrap_or(0.0), 1.0).min(total_ns));
    let mut rest = Budget::new(total_ns - first.left_ns);
    put_first_token(evidence, baseline, whole, &mut first);
    rest.put(Phase::Decode, decode.map_or(rest.left_ns, |decode| to_ns(decode, 1.0)));
    Some(one(AccountUnit::Request, first, rest))
}

/// One prompt, where only its prefill time or the rate of prompt tokens is typed.
fn prompt(evidence: &Evidence) -> Option<RequestAccount> {
    let figures = &evidence.figures;
    let rate = either(figures, "throughput.prompt").filter(|rate| *rate > 0.0);
    let prefill = either(figures, "prefill_time").or_else(|| {
        let only_prompts = either(figures, "tpot").is_none() && either(figures, "itl").is_none();
        rate.filter(|_| only_prompts).map(|rate| figures.anywhere("server.prompt_tokens").unwrap_or(1.0) / rate)
    })?;
    if !usable(prefill) {
        return None;
    }
    let mut first = Budget::new(to_ns(prefill, 1.0));
    first.put(Phase::Prefill, first.left_ns);
    Some(one(AccountUnit::Prompt, first, Budget::new(0)))
}

/// One output token: the time between tokens of a stream, else what a token rate leaves for each.
fn token(evidence: &Evidence) -> Option<RequestAccount> {
    let figures = &evidence.figures;
    let rate = || either(figures, "throughput.output").filter(|rate| *rate > 0.0);
    let streams = figures.typical("client.concurrency").unwrap_or(1.0).max(1.0);
    let token_s = either(figures, "tpot").or_else(|| either(figures, "itl")).or_else(|| rate().map(|rate| streams / rate))?;
    usable(token_s).then(|| decode_only(AccountUnit::Token, token_s))
}

/// One engine step: its time, else the sum of its kernels.
fn step(evidence: &Evidence) -> Option<RequestAccount> {
    let figures = &evidence.figures;
    let kernels =
        || Some(figures.by_label("kernel.time", "category").iter().map(|(_, seconds)| seconds).sum::<f64>()).filter(|sum| *sum > 0.0);
    let step_s = figures.anywhere("engine.step_time").or_else(kernels)?;
    usable(step_s).then(|| decode_only(AccountUnit::Step, step_s))
}

fn decode_only(unit: AccountUnit, seconds: f64) -> RequestAccount {
    let mut rest = Budget::new(to_ns(seconds, 1.0));
    rest.put(Phase::Decode, rest.left_ns);
    one(unit, Budget::new(0), rest)
}

fn put_first_token(evidence: &Evidence, baseline: Option<&Evidence>, whole_s: f64, first: &mut Budget) {
    let figures = &evidence.figures;
    for (name, phase) in [
        ("gateway.queue_time", Phase::Gateway),
        ("server.tokenize_time", Phase::Tokenize),
        ("server.queue_time", Phase::Queue),
        ("server.prefill_time", Phase::Prefill),
    ] {
        let typed = figures.typical(name).or_else(|| (phase == Phase::Queue).then(|| queue_by_little(evidence, whole_s)).flatten());
        if let Some(seconds) = typed {
            first.put(phase, to_ns(seconds, 1.0));
        }
    }
    // The inner vantage is the server's own figures, else the same load without what stands in between.
    let inner = |quantity: &str| {
        figures.typical(&format!("server.{quantity}")).or_else(|| baseline?.figures.typical(&format!("client.{quantity}")))
    };
    if let Some((outer, inside)) = figures.typical("client.ttft").zip(inner("ttft")) {
        let clumped = figures.typical("client.itl").zip(inner("itl")).is_some_and(|(outer, inside)| outer < 0.5 * inside);
        if clumped {
            first.put(Phase::Stream, to_ns(outer - inside, 1.0));
        } else if figures.typical("server.ttft").is_some() {
            first.put(Phase::Transfer, to_ns(outer - inside, 1.0));
        }
    }
}

/// Little's law on typed gauges: of `running + waiting` in the system, the waiting share of a whole request is queue.
fn queue_by_little(evidence: &Evidence, whole_s: f64) -> Option<f64> {
    let gauge = |name: &str| {
        let scraped = evidence.engines.values().filter_map(|engine| engine.series(name)).map(Series::max).reduce(f64::max);
        scraped.or_else(|| evidence.figures.highest(name))
    };
    let (running, waiting) = (gauge("engine.running")?, gauge("engine.waiting")?);
    (running + waiting > 0.0 && waiting > 0.0).then(|| whole_s * waiting / (running + waiting))
}
