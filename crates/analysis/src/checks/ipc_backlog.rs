//! The API process and the engine core exchange messages later than they are made.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Quantity};
use crate::pace::slowdown;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Messages between the API process and the engine core wait: one side has them, the other does not yet.
    ///
    /// ## Why it costs time
    /// Where tokenizing and HTTP live in another process than the scheduler, every request and every token crosses a
    /// socket. An API process that is busy with one thing (large prompts, many streams, logging) reads late; requests it has
    /// accepted are not yet in the engine's queue, tokens that were made are not yet sent.
    ///
    /// ## How to confirm
    /// Requests in flight at the API process exceed running plus waiting in the engine by more than the few that are on
    /// their way within one step.
    ///
    /// ## Fix
    /// More API processes (`--api-server-count`), less work per token in them (logging, metrics, `--stream-interval`). In
    /// flight falls to running plus waiting.
    ///
    /// ## When this is wrong
    /// The core takes its input only between steps: an arrival waits out the running step, which is no backlog. Engines with
    /// one process have none.
    id: "ipc_backlog", layer: Application, rank: 51, phases: [Api, Detokenize], bound: "host", validated_on: "typed", run: find,
}

/// Requests in flight at the API process per request the engine knows, from which messages are behind.
const BEHIND: f64 = 1.25;
/// Steps an arrival may spend before the core has taken it in.
const LOOP_STEPS: f64 = 3.0;
/// Time in the API process below this share of the time to first token is no cost.
const MATERIAL: f64 = 0.1;

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let known = |name: &str| evidence.figures.typical(name).or_else(|| mean(situation, name));
    let in_engine = known("engine.running").map(|running| running + known("engine.waiting").unwrap_or(0.0));
    if let (Some(in_flight), Some(in_engine)) = (known("server.in_flight"), in_engine) {
        return judge(situation, in_flight, in_engine);
    }
    if let Some(found) = by_process(situation) {
        return Answer::Found(Box::new(found));
    }
    if !situation.is_timed() {
        return Answer::CannotTell(record::scrapes(
            &["server.in_flight", "engine.running", "engine.waiting"],
            "nothing counts requests on both sides",
            None,
        ));
    }
    let api_s = situation.phase_s(Phase::Api);
    let step_s = situation.law.central().map_or(0.0, |law| law.step_s(situation.load.running_mean.max(1.0), 0.0));
    let beyond_s = (api_s - LOOP_STEPS * step_s - situation.floors.s(Phase::Api)).max(0.0);
    let share = beyond_s / situation.account.first_token_mean_s().max(f64::MIN_POSITIVE);
    if share < MATERIAL {
        return clear(
            vec![("api_s", api_s), ("step_s", step_s)],
            format!("{} pass before the queue, where a step takes {}", seconds(api_s), seconds(step_s)),
        );
    }
    if let Some(busy) = evidence.main_thread_cores("api_server").filter(|busy| *busy < 0.5) {
        return clear(
            vec![("api_server_cores", busy)],
            format!("the API process runs {} of a core: it reads when there is something", percent(busy)),
        );
    }
    let because = format!("{} pass in the API process before the queue, more than a few steps", seconds(api_s));
    Answer::CannotTell(record::py_spy(&["server.in_flight", "proc.cpu{role=\"api_server\"}"], because, Some(beyond_s)))
}

/// Words by which a person says that only the process boundary differs.
const BOUNDARY: [&str; 8] =
    ["zmq", "zeromq", "process of its own", "own process", "separate process", "multiprocess", "multi-process", "inter-process"];
/// Two arms may differ by this factor without any change.
const RUN_SPREAD: f64 = 1.25;

/// The same engine and load in one process is much faster: what differs is the way between the two.
fn by_process(situation: &Situation<'_>) -> Option<Found> {
    let here = situation.evidence;
    if !situation.is_typed() || !BOUNDARY.iter().any(|word| here.changed.to_ascii_lowercase().contains(word)) {
        return None;
    }
    let ratio = situation.other_arms().filter_map(|arm| slowdown(here, arm)).fold(0.0, f64::max);
    let share = 1.0 - 1.0 / ratio.max(1.0);
    (ratio >= RUN_SPREAD).then(|| Found {
        summary: format!("with the engine in a process of its own the same load takes {} times as long", digits(ratio)),
        sentence: format!(
            "The engine in a process of its own takes {} times as long for the same load: messages between the two processes wait, {} of the time.",
            digits(ratio),
            percent(share)
        ),
        evidence: vec![figure("time over that of the arm in one process", ratio, "ratio", "both arms")],
        hypotheses: vec![
            Advice::setting(situation, "api_processes", "2")
                .risk("more processes take more host memory and cores", "the engine core's run-queue wait grows")
                .expect(Movement::first_token(situation, Direction::Down).primary().refused("by what of the wait was before the queue").build())
                .throughput("rises towards that of the arm in one process")
                .build(),
        ],
        falsified_by: "both processes idle while requests are in flight".into(),
        ..Found::default()
    })
}

fn mean(situation: &Situation<'_>, name: &str) -> Option<f64> {
    let series: Vec<f64> =
        situation.evidence.engines.values().filter_map(|engine| engine.series(name)).map(crate::evidence::Series::mean).collect();
    (!series.is_empty()).then(|| series.iter().sum())
}

fn judge(situation: &Situation<'_>, in_flight: f64, in_engine: f64) -> Answer {
    let behind = in_flight - in_engine;
    let margin = vec![("in_flight", in_flight), ("in_engine", in_engine)];
    if in_flight < BEHIND * in_engine + 2.0 {
        return clear(margin, format!("{} in flight at the API process, {} in the engine", count(in_flight), count(in_engine)));
    }
    // Little's law: of all in flight, the share outside the engine is the share of a request's time there.
    let whole_s = situation.account.total_mean_s();
    let wait_s = whole_s * behind / in_flight;
    let share = situation.share_of(Phase::Api, wait_s);
    let basis = if situation.is_typed() { Basis::Typed } else { Basis::Derived };
    let claims = if share > 0.0 { vec![Claim { phase: Phase::Api, what: Extent::exactly(share), basis }] } else { Vec::new() };
    Answer::Found(Box::new(Found {
        summary: format!("{} requests are in flight at the API process, {} of them in the engine", count(in_flight), count(in_engine)),
        sentence: format!(
            "{} of {} requests are with the API process and not in the engine: messages between the two wait.",
            count(behind),
            count(in_flight)
        ),
        claims,
        cost: (wait_s > 0.0).then(|| Quantity { value: wait_s, unit: "s".into() }),
        evidence: vec![
            figure("server.in_flight", in_flight, "request", "typed or metric"),
            figure("engine.running + engine.waiting", in_engine, "request", "typed or metric"),
        ],
        hypotheses: vec![
            Advice::setting(situation, "api_processes", "2")
                .risk("more processes take more host memory and cores", "the engine core's run-queue wait grows")
                .expect(
                    Movement::new("server.in_flight", "in flight beyond the engine's", "request", Direction::Down, Some(behind))
                        .primary()
                        .to(0.0, 0.5 * behind, "half of the messages by each process")
                        .build(),
                )
                .expect(Movement::first_token(situation, Direction::Down).refused("by what of the wait was before the queue").build())
                .throughput("rises if the engine ran dry meanwhile")
                .build(),
        ],
        falsified_by: "the API process idles while requests are in flight outside the engine".into(),
        ..Found::default()
    }))
}
