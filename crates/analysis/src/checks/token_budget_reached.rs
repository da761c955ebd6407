//! The step's token budget is spent: prompts wait for room in a step although seats and blocks are free.

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::contrast::{Contrast, RUN_SPREAD, better_arm, better_row, numbers};
use crate::decode_bound::bandwidth;
use crate::evidence::{Evidence, Figures, Point};
use crate::gates::Gate;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::prefill_rate::{peak as peak_flops, utilization};
use crate::readings::{left_out, offered, peak, typical};
use crate::record;
use crate::remedy;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

check! {
    /// Steps are full to their token budget (`max_num_batched_tokens`, chunk size) while prompts wait.
    ///
    /// ## Why it costs time
    /// Each step computes at most so many tokens. A prompt longer than what is left is cut and goes on in the next step, and
    /// each step has a fixed cost. A budget below what the device can take in one step makes more steps of the same work.
    ///
    /// ## How to confirm
    /// Tokens per step stand at the budget in most steps while `engine.waiting` is above 0 and seats and blocks are free; a
    /// step of twice the tokens takes clearly less than twice the time.
    ///
    /// ## Fix
    /// A larger budget. The queue of prompts falls, time between tokens grows by the extra tokens over the prefill rate.
    ///
    /// ## When this is wrong
    /// Chunked prefill doing its job: steps full of prompt tokens whose time is all arithmetic gain nothing from a larger
    /// budget (`compute_bound_prefill`, `overload`).
    id: "token_budget_reached", layer: Scheduling, rank: 106, phases: [Queue, Prefill], bound: "logic", validated_on: "typed", run: find,
}

/// The gate must own at least this share of the queue (attribution, section 6).
const GATE_SHARE: f64 = 0.5;
/// A step this close to its budget spent it (attribution, section 2).
const SPENT: f64 = 0.98;
/// Prompt throughput saturates at about three times the ridge: at 512 tokens on a device whose ridge is 153.
const SATURATES: f64 = 3.0;
/// The lowest ridge of any server device at 16 bits, tokens; experts of which a token touches few only raise it.
const LEAST_RIDGE: f64 = 150.0;
/// Pieces from which the last, unfilled one no longer matters.
const MANY_PIECES: f64 = 16.0;
/// Arithmetic in use from which larger pieces gain little: large matrix products reach 0.6 to 0.8 of the peak.
const WELL_USED: f64 = 0.4;
/// A larger step counts as gaining from this throughput ratio (attribution, section 2).
const GAIN: f64 = 1.05;

fn find(situation: &Situation<'_>) -> Answer {
    let budget = situation.evidence.settings.number("config.max_num_batched_tokens").filter(|&budget| budget >= 1.0);
    if situation.evidence.has_timeline() { from_timeline(situation, budget) } else { from_figures(situation, budget) }
}

fn from_timeline(situation: &Situation<'_>, budget: Option<f64>) -> Answer {
    let share = situation.gates.share(Gate::Budget);
    if situation.gates.waited_s <= 0.0 || share < GATE_SHARE {
        return clear(vec![("gate_share", share)], format!("the token budget was the gate in {} of the waiting", percent(share)));
    }
    let budget = budget.unwrap_or(0.0);
    let gain = gain(situation, budget);
    if let Some(gain) = gain.filter(|&gain| gain < GAIN) {
        return clear(
            vec![("gate_share", share), ("gain_of_twice_the_budget", gain)],
            format!("steps spend their budget of {}, but one of twice the tokens would take twice as long", count(budget)),
        );
    }
    let runs = situation.gates.stretches(Gate::Budget).iter().map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect();
    let (what, basis) = match gain {
        Some(_) if situation.load.engine_count <= 1 => (Extent::Intervals(runs), Basis::Derived),
        Some(_) => (Extent::exactly(share), Basis::Derived),
        None => (Extent::Fraction { lo: 0.0, mid: share, hi: share }, Basis::Bound),
    };
    let claims = if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what, basis }] };
    let why = format!("steps spend their budget of {} tokens in {} of the waiting", count(budget), percent(share));
    Answer::Found(Box::new(found(situation, budget, &why, claims, share * situation.phase_s(Phase::Queue))))
}

/// Prompt tokens per second with twice the budget over those with the present one, by the step law.
fn gain(situation: &Situation<'_>, budget: f64) -> Option<f64> {
    let law = situation.law.known()?;
    let batch = situation.load.running_mean.max(1.0).min(budget);
    let rate = |tokens: f64| (tokens - batch).max(1.0) / law.step_s(batch, (tokens - batch).max(1.0));
    Some(rate(2.0 * budget) / rate(budget)).filter(|gain| gain.is_finite())
}

fn from_figures(situation: &Situation<'_>, budget: Option<f64>) -> Answer {
    let evidence = situation.evidence;
    let tokens = peak(evidence, "engine.step_tokens").or_else(|| typical(evidence, "engine.step_tokens"));
    let typical_tokens = typical(evidence, "engine.step_tokens").or(tokens);
    if let Some((budget, tokens)) = budget.zip(typical_tokens) {
        let spent = tokens / budget;
        if spent < SPENT {
            return clear(vec![("step_tokens_over_budget", spent)], format!("steps hold {} of {} tokens", count(tokens), count(budget)));
        }
        let waits = left_out(situation).is_some() || situation.phase_s(Phase::Queue) > 0.0;
        if waits && spent <= 1.5 {
            let why = format!("steps hold {} tokens, all of their budget of {}, while prompts wait", count(tokens), count(budget));
            return Answer::Found(Box::new(found(situation, budget, &why, claims(situation, 0.5, 0.8), 0.0)));
        }
    }
    let larger = |arm: &Evidence| numbers(evidence, arm, "config.max_num_batched_tokens").is_some_and(|(mine, theirs)| theirs > mine);
    // A first token that comes sooner at the price of slower gaps is a trade, not a limit that was too low.
    let is_trade = |better: &Contrast<'_>| better.is_first_token() && gaps_grow(evidence, better.arm);
    if let Some(better) = better_arm(situation, larger).filter(|better| !is_trade(better)) {
        let why = format!("with a larger token budget the same load is {:.1} times as fast ({})", better.ratio, better.text());
        let saved = better.saved();
        return Answer::Found(Box::new(found(situation, budget.unwrap_or(0.0), &why, claims(situation, 0.6 * saved, saved), 0.0)));
    }
    if let Some(row) = better_row(&evidence.figures, "config.max_num_batched_tokens").filter(|_| !gaps_grow_in_rows(&evidence.figures)) {
        let why = format!("with a larger token budget the same load is {:.1} times as fast ({})", row.ratio, row.text());
        return Answer::Found(Box::new(found(situation, row.setting.0, &why, Vec::new(), 0.0)));
    }
    if let Some(answer) = budget.and_then(|budget| lone_prompt(situation, budget)) {
        return answer;
    }
    Answer::CannotTell(record::scrapes(
        &["engine.step_tokens", "config.max_num_batched_tokens", "engine.waiting"],
        "nothing says how full steps are",
        None,
    ))
}

/// A prompt that nobody shares steps with, cut into many steps too small to use the device: small pieces protect other
/// streams, and there are none. Reading the weights and starting the step are paid for each piece.
fn lone_prompt(situation: &Situation<'_>, budget: f64) -> Option<Answer> {
    let evidence = situation.evidence;
    let alone = offered(evidence).or_else(|| peak(evidence, "engine.running")).is_some_and(|load| load < 1.5);
    let cached = evidence.figures.anywhere("server.cached_tokens").unwrap_or(0.0);
    let prompt = evidence.figures.anywhere("server.prompt_tokens")? - cached;
    let pieces = prompt / budget;
    let full = typical(evidence, "engine.step_tokens").is_none_or(|tokens| tokens >= SPENT * budget);
    let enough = SATURATES * ridge_tokens(situation);
    if !alone || !full || pieces < MANY_PIECES || budget >= enough || situation.subject.device == "CPU" {
        return None;
    }
    if let Some(used) = utilization(situation.subject, evidence).filter(|&used| used >= WELL_USED) {
        return Some(clear(
            vec![("arithmetic_used", used)],
            format!("pieces of {} tokens use {} of the device's arithmetic already", count(budget), percent(used)),
        ));
    }
    let first_s = situation.account.first_token_mean_s().max(situation.phase_s(Phase::Prefill));
    let took = if first_s > 0.0 { format!(", {} each", seconds(first_s / pieces)) } else { String::new() };
    let why = format!(
        "a prompt of {} tokens that nothing shares steps with takes {} steps of {}{took}; the device needs about {} tokens in a step",
        count(prompt),
        count(pieces.ceil()),
        count(budget),
        count(enough)
    );
    Some(Answer::Found(Box::new(found(situation, budget, &why, Vec::new(), 0.0))))
}

/// Tokens in a step from which arithmetic and not the reading of 16-bit weights sets its time.
fn ridge_tokens(situation: &Situation<'_>) -> f64 {
    let known = peak_flops(situation.subject, situation.evidence).zip(bandwidth(situation.subject, situation.evidence));
    known.map_or(LEAST_RIDGE, |((flops, _), (bytes_per_s, ..))| model::roofline::ridge_batch(flops, bytes_per_s, 2.0)).max(LEAST_RIDGE)
}

/// In a sweep over the budget the slowest gaps grow with it: a trade.
fn gaps_grow_in_rows(figures: &Figures) -> bool {
    ["client.itl.p99", "client.tpot.p99", "server.itl.p99", "client.itl.max"].iter().any(|name| {
        let row = |point: &Point| Some((point.typical("config.max_num_batched_tokens")?, point.get(name)?));
        let mut rows: Vec<(f64, f64)> = figures.points().filter_map(row).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.first().zip(rows.last()).is_some_and(|(least, most)| most.1 >= RUN_SPREAD * least.1)
    })
}

/// The slowest gaps between tokens are clearly longer in the other arm.
fn gaps_grow(here: &Evidence, arm: &Evidence) -> bool {
    ["client.itl.p99", "client.tpot.p99", "server.itl.p99", "client.itl.max"]
        .iter()
        .find_map(|name| here.figures.get(name).zip(arm.figures.get(name)))
        .is_some_and(|(mine, theirs)| theirs >= RUN_SPREAD * mine)
}

fn claims(situation: &Situation<'_>, lo: f64, mid: f64) -> Vec<Claim> {
    let phase = if situation.phase_s(Phase::Queue) > 0.0 { Phase::Queue } else { Phase::Prefill };
    let claim = Claim { phase, what: Extent::Fraction { lo, mid, hi: 1.0 }, basis: Basis::Typed };
    if situation.claimable_s(phase) > 0.0 { vec![claim] } else { Vec::new() }
}

fn found(situation: &Situation<'_>, budget: f64, why: &str, claims: Vec<Claim>, wait_s: f64) -> Found {
    let queue_s = situation.phase_s(Phase::Queue);
    let queue = Movement::new("server.queue_time.mean", "queue", "s", Direction::Down, (queue_s > 0.0).then_some(queue_s));
    let queue = if queue_s > 0.0 {
        queue.to(0.0, 0.6 * queue_s, "twice the prompt tokens per step")
    } else {
        queue.refused("the queue was not measured by itself: direction only")
    };
    let itl = Movement::new("server.itl.mean", "ITL mean", "s", Direction::Up, situation.evidence.mean("server.itl"));
    let itl = match situation.evidence.mean("server.itl").zip(situation.law.central()) {
        Some((now, law)) => itl.to(now, now + law.c_s * budget, "the extra tokens of a full step at the law's cost per token"),
        None => itl.refused("no step law: direction only"),
    };
    let to = if budget > 0.0 { count(2.0 * budget).replace(',', "") } else { "twice as many".into() };
    let hypothesis = remedy::setting(situation, "max_num_batched_tokens", to)
        .moves(queue)
        .guards(itl)
        .risk("longer steps: gaps between tokens grow, activations take more memory", "the slowest gaps pass what users accept")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("The token budget of a step holds prompts back: {why}."),
        cost: (wait_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: wait_s, unit: "s".into() }),
        claims,
        evidence: vec![
            figure("config.max_num_batched_tokens", budget, "token", &situation.setting_origin("config.max_num_batched_tokens")),
            figure("waiting with the budget spent", situation.gates.share(Gate::Budget), "ratio", "scrapes"),
        ],
        hypotheses: vec![hypothesis],
        falsified_by: "the same queue with twice the budget".into(),
        ..Found::default()
    }
}
