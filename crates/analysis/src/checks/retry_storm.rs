//! Timeouts and retries add load that helps nobody.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::{SATURATED_RHO, Situation};
use crate::words::{count, digits, percent, seconds};

check! {
    /// Callers give up and send again: the engine works on requests that nobody waits for any more.
    ///
    /// ## Why it costs time
    /// A timeout below the slow tail turns one slow request into two. The first goes on in the engine until it notices,
    /// the second queues behind it, everybody becomes slower, more run into the timeout. The load the engine sees is a
    /// multiple of what users ask.
    ///
    /// ## How to confirm
    /// Attempts exceed unique requests; the server answers more HTTP requests than it finishes; whole prompts hit the prefix
    /// cache although no two users share them; the timeout is below the slow tail of the whole request.
    ///
    /// ## Fix
    /// A timeout above the p99 of the whole request, retries with backoff and a budget (at most one in ten), cancellation
    /// that reaches the engine. Attempts per request fall to 1, the offered rate to the unique one.
    ///
    /// ## When this is wrong
    /// Without retries the same rate is plain `overload`. A few errors of another kind are no storm.
    id: "retry_storm", layer: Application, rank: 1, phases: [Queue, Api, Prefill, Decode], bound: "demand", validated_on: "typed", run: find,
}

/// Attempts per unique request from which retries are a load of their own: one in ten, the usual retry budget.
const STORM: f64 = 1.1;

/// What was sent and what came back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    attempts: f64,
    unique: f64,
    from: &'static str,
}

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let Some(sent) = from_rows(evidence).or_else(|| from_figures(situation)) else { return without(situation) };
    let per_request = sent.attempts / sent.unique;
    if per_request < STORM {
        return clear(vec![("attempts_per_request", per_request)], format!("{} attempts per request", digits(per_request)));
    }
    Answer::Found(Box::new(found(situation, &sent, per_request)))
}

fn from_rows(evidence: &Arm) -> Option<Sent> {
    let attempts = evidence.client.len();
    let unique = evidence.client.iter().filter(|row| row.attempt == 0).count();
    (attempts >= 20 && unique > 0).then_some(Sent { attempts: attempts as f64, unique: unique as f64, from: "client rows" })
}

fn from_figures(situation: &Situation<'_>) -> Option<Sent> {
    let figures = &situation.evidence.figures;
    let finished = situation.load_or_typed_requests().or_else(|| figures.typical("client.completed"))?;
    let retries = figures.typical("client.retries")?;
    let errors = figures.typical("client.errors").unwrap_or(0.0);
    // Errors at least as many as retries are of attempts, else of requests that were given up for good.
    let (attempts, unique) =
        if errors >= retries { (finished + errors, finished + errors - retries) } else { (finished + errors + retries, finished + errors) };
    (unique > 0.0).then_some(Sent { attempts, unique, from: "typed" })
}

fn found(situation: &Situation<'_>, sent: &Sent, per_request: f64) -> Found {
    let evidence = situation.evidence;
    let extra = 1.0 - 1.0 / per_request;
    // Work in the engine is shared by all attempts: the extra ones take their share of every step, and near saturation all
    // of the queue.
    let queue_hi = if situation.is_saturated() { 1.0 } else { (2.0 * extra).min(1.0) };
    let is_made_by_retries = situation.rho_at_seats().is_some_and(|rho| rho / per_request < SATURATED_RHO);
    let basis = if situation.is_typed() { Basis::Typed } else { Basis::Derived };
    let claims: Vec<Claim> =
        [(Phase::Queue, queue_hi), (Phase::Api, queue_hi), (Phase::Prefill, queue_hi), (Phase::Decode, extra.max(0.5 * queue_hi))]
            .into_iter()
            .filter(|(phase, _)| situation.phase_s(*phase) > 0.0)
            .map(|(phase, hi)| {
                // Where the unique requests alone leave room, nobody would wait but for the extra ones.
                let mid = if is_made_by_retries && hi == queue_hi { hi } else { f64::midpoint(extra, hi) };
                Claim { phase, what: Extent::Fraction { lo: 0.5 * extra, mid, hi }, basis }
            })
            .collect();
    let timeout = evidence.settings.number("config.timeout");
    let mut rows: Vec<Evidence> =
        vec![figure("attempts", sent.attempts, "request", sent.from), figure("unique requests", sent.unique, "request", sent.from)];
    if let Some(timeout) = timeout {
        rows.push(figure("config.timeout", timeout, "s", "setting"));
    }
    if let Some(abandoned) = abandoned(evidence) {
        rows.push(figure("answered over HTTP but not finished", abandoned, "ratio", "server counters"));
    }
    let patience = timeout.map_or(String::new(), |timeout| format!(" with a timeout of {}", seconds(timeout)));
    let p99 = evidence.figures.typical("client.e2e.p99").or_else(|| evidence.figures.get("client.e2e.p99"));
    Found {
        summary: format!("{} attempts for {} requests{patience}", count(sent.attempts), count(sent.unique)),
        sentence: format!(
            "Callers give up and send again{patience}: {} attempts for {} requests, so {} of what the engine does is for nobody.",
            count(sent.attempts),
            count(sent.unique),
            percent(extra)
        ),
        claims,
        cost: Some(Quantity { value: extra * situation.account.total_mean_s(), unit: "s".into() }),
        evidence: rows,
        hypotheses: vec![
            Advice::outside(
                "client timeout",
                &timeout.map(seconds).unwrap_or_default(),
                &p99.map_or("above the p99 of the whole request".to_string(), |p99| format!("above {}", seconds(1.5 * p99))),
                "raise the timeout above the slow tail and retry with backoff, at most one request in ten",
            )
            .risk("callers of a server that hangs wait longer before they learn", "requests hang without an answer")
            .expect(
                Movement::new("client.attempts_per_request", "attempts per request", "count", Direction::Down, Some(per_request))
                    .primary()
                    .to(1.0, f64::midpoint(1.0, STORM), "no request is given up")
                    .build(),
            )
            .expect(
                Movement::new("server.e2e.mean", "e2e mean", "s", Direction::Down, evidence.mean("server.e2e"))
                    .guard()
                    .refused("the offered rate falls to the unique one; the first requests take as long as they need")
                    .build(),
            )
            .throughput("useful throughput rises by what the extra attempts took")
            .build(),
        ],
        falsified_by: "with retries off the times stay".into(),
        ..Found::default()
    }
}

/// Requests answered over HTTP that the engine did not finish, as a share.
fn abandoned(evidence: &Arm) -> Option<f64> {
    let answered = evidence.growth("server.http_requests").filter(|answered| *answered > 0.0)?;
    let finished = evidence.observed("server.e2e").map(|e2e| e2e.count)?;
    Some((1.0 - finished / answered).max(0.0))
}

/// Without attempts: the server's counters bound what was given up.
fn without(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some(abandoned) = abandoned(evidence) {
        if abandoned < 0.02 {
            return clear(
                vec![("abandoned_share", abandoned)],
                format!("{} of the answered requests were not finished", percent(abandoned)),
            );
        }
        let at_most = abandoned * situation.account.total_mean_s();
        let because = format!("{} of the requests were given up, and nothing says whether they were sent again", percent(abandoned));
        return Answer::CannotTell(record::client(&["client.retries"], because, Some(at_most)));
    }
    let timed = situation.is_timed().then_some(0.0);
    Answer::CannotTell(record::client(&["client.retries", "client.errors", "server.http_requests"], "nothing counts attempts", timed))
}
