//! Figures of a hypothesis by the simulation of `inferoscope whatif`, in place of the closed forms of its check.
//!
//! A check says what to change and which signals must move; where its change is a lever and the run can be replayed, the sizes
//! come from [`Foretold`](crate::whatif::Foretold), so that `diagnose` and `whatif --set` say the same. Closed forms stay where
//! there is no lever, where the run cannot be replayed, and for what the simulation does not know (the price of drafts).

use crate::contract::{Direction, Hypothesis, Prediction};
use crate::situation::Situation;
use crate::whatif::{Range, Refusal, Told, Untold};

/// A wait of nothing is measured as up to this: a scheduler's step, a burst.
const LEAST_WAIT_S: f64 = 0.05;
/// ... or as this share of the present one.
const LEAST_WAIT_FRAC: f64 = 0.02;
/// A movement below this is none: two recordings of one system differ as much.
const NO_MOVE: f64 = 0.03;

/// Replaces the figures of `hypothesis` where the simulation tells them, once.
pub fn foretell(situation: &Situation<'_>, hypothesis: &mut Hypothesis) {
    if hypothesis.change.lever.is_empty() || hypothesis.predictions.iter().any(|prediction| prediction.expected.is_some()) {
        return;
    }
    match situation.foretold.ask(&hypothesis.change.lever) {
        Ok(told) => {
            let lever = hypothesis.change.lever.clone();
            hypothesis.predictions.iter_mut().for_each(|prediction| replace(prediction, &told, &lever));
        }
        // No value that the lever takes: nothing to hold against the verb.
        Err(Refusal::UnknownLever { .. } | Refusal::Value { .. } | Refusal::Config(_)) => hypothesis.change.lever.clear(),
        Err(Refusal::NoBaseline { .. } | Refusal::Unknowable { .. }) => {}
    }
}

/// The simulated figure of a signal; `None` where the simulation has none.
pub fn figure_of(signal: &str) -> Option<&'static str> {
    Some(match signal {
        "client.ttft" | "client.ttft.mean" | "server.ttft.mean" | "ttft.mean" => "ttft.mean",
        "client.tpot" | "server.tpot" | "server.tpot.mean" => "tpot.mean",
        "client.e2e" | "client.e2e.mean" | "server.e2e.mean" | "e2e.mean" => "e2e.mean",
        "client.throughput.output" => "throughput.output",
        "server.queue_time.mean" => "queue.mean",
        _ => return None,
    })
}

fn replace(prediction: &mut Prediction, told: &Told, lever: &str) {
    let Some(figure) = figure_of(&prediction.signal) else { return };
    match told.ratio(figure) {
        Ok(ratio) => expect(prediction, ratio, figure, lever),
        Err(why @ (Untold::Saturated(_) | Untold::Straddles(_))) if !prediction.guard => {
            prediction.to = None;
            prediction.basis = format!("no number: {}", why.words());
        }
        // The simulation says nothing of it: the check's own figure contradicts nothing.
        Err(_) => {}
    }
}

fn expect(prediction: &mut Prediction, ratio: Range, figure: &str, lever: &str) {
    prediction.expected = Some(ratio);
    let basis = format!("simulated as by `whatif --set {lever}`");
    let fails = match prediction.direction {
        Direction::Down => ratio.mid > 1.0 - NO_MOVE,
        Direction::Up => ratio.mid < 1.0 + NO_MOVE,
        Direction::Unchanged => false,
    };
    if fails && prediction.primary {
        prediction.to = None;
        prediction.basis = format!("cannot tell: {basis}, it makes {:.2} times of what it is", ratio.mid);
        return;
    }
    let Some(now) = prediction.from else { return };
    let (mut low, mut high) = (now * ratio.low, now * ratio.high);
    if figure == "queue.mean" {
        let nothing = LEAST_WAIT_S.max(LEAST_WAIT_FRAC * now);
        (low, high) = (if low < nothing { 0.0 } else { low }, high.max(nothing));
    }
    // A guard says when to go back, not what to expect: never sooner than the check itself allows, nor before it got worse.
    if prediction.guard {
        let [least, most] = prediction.to.unwrap_or([low, high]);
        (low, high) = (low.min(least), high.max(most));
        if figure == "throughput.output" {
            low = low.min(now * (1.0 - NO_MOVE));
        } else {
            high = high.max(now * (1.0 + NO_MOVE));
        }
    }
    prediction.to = Some([low, high]);
    prediction.basis = basis;
}
