//! Turning tokens into text holds the stream back.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::slower_arm::faster_arm;
use crate::text_work::{FULL_CORE, without_tokenizer};
use crate::words::{digits, percent, seconds};

check! {
    /// Turning tokens back into text takes a visible part of the time between tokens, or its process is at a full core.
    ///
    /// ## Why it costs time
    /// One process turns the tokens of all requests into text. At a thousand streams and 25 steps a second that is 25,000
    /// tokens a second in Python; when the process is full, tokens queue behind the engine, and clients see gaps far longer
    /// than a step.
    ///
    /// ## How to confirm
    /// The gap between tokens at the client is far above the engine's own step, at large batch only; the detokenizer runs
    /// at a full core; with token ids out (`--skip-tokenizer-init`) the gap falls to the step.
    ///
    /// ## Fix
    /// A fast tokenizer, more detokenizer or API processes, fewer and larger messages (`--stream-interval`), token ids out.
    /// The gap at the client falls to the engine's step.
    ///
    /// ## When this is wrong
    /// A slow engine has the same gap at the server. More tokenizing workers do not help: they handle prompts.
    id: "slow_detokenization", layer: Application, rank: 10, phases: [Detokenize, Decode, Stream], bound: "host", validated_on: "report", run: find,
}

/// Below this share of the time between tokens it is no cost.
const MATERIAL: f64 = 0.1;
/// The gap at the client must be this many engine steps before something behind the engine is to blame.
const BEYOND_STEP: f64 = 2.0;

fn find(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    for quantity in ["itl", "tpot"] {
        if let Some((mine, without)) = without_tokenizer(situation, quantity).filter(|(mine, without)| *without < (1.0 - MATERIAL) * mine) {
            let rows = vec![
                figure(&format!("client.{quantity}"), mine, "s", "with the tokenizer"),
                figure(&format!("client.{quantity} without"), without, "s", "the arm with token ids out"),
            ];
            return Answer::Found(Box::new(found(situation, mine, without, rows, "the arm with token ids out is faster by it")));
        }
    }
    let detokenize_s = |arm: &Arm| arm.figures.typical("server.detokenize_time");
    let is_dearer =
        |here: &Arm, there: &Arm| detokenize_s(here).zip(detokenize_s(there)).is_some_and(|(mine, theirs)| mine >= BEYOND_STEP * theirs);
    if let Some((slower, dear_s)) = faster_arm(situation, is_dearer).zip(detokenize_s(situation.evidence)) {
        let rows = vec![
            figure("server.detokenize_time", dear_s, "s", "this arm"),
            figure("server.detokenize_time there", detokenize_s(slower.other).unwrap_or_default(), "s", "the other arm"),
            figure(slower.signal, slower.mine_s, "s", "this arm"),
            figure(&format!("{} there", slower.signal), slower.theirs_s, "s", "the other arm"),
        ];
        let why = "the arm in which it is cheap is faster";
        return Answer::Found(Box::new(found(situation, slower.mine_s, slower.theirs_s, rows, why)));
    }
    if let Some(per_request) = figures.typical("server.detokenize_time").filter(|_| !is_microbenchmark(situation)) {
        return by_time(situation, per_request);
    }
    by_process(situation).unwrap_or_else(|| undecided(situation))
}

/// An arm that measures only the decode call says nothing of a server.
fn is_microbenchmark(situation: &Situation<'_>) -> bool {
    situation.account.is_empty()
}

fn by_time(situation: &Situation<'_>, per_request_s: f64) -> Answer {
    let decode_s = situation.phase_s(Phase::Decode);
    let share = per_request_s / decode_s.max(per_request_s).max(f64::MIN_POSITIVE);
    if share < MATERIAL {
        return clear(
            vec![("detokenize_share", share)],
            format!("turning tokens into text takes {} of {}", seconds(per_request_s), seconds(decode_s)),
        );
    }
    let rows = vec![figure("server.detokenize_time", per_request_s, "s", "typed or metric"), figure("decode", decode_s, "s", "measured")];
    Answer::Found(Box::new(found(situation, decode_s.max(per_request_s), (decode_s - per_request_s).max(0.0), rows, "its own time")))
}

/// The gap at the client is far above the engine's step, and the process behind the engine is full or slow by its own
/// warning.
fn by_process(situation: &Situation<'_>) -> Option<Answer> {
    let evidence = situation.evidence;
    let gap_s = evidence.figures.typical("client.itl").or_else(|| evidence.figures.typical("client.tpot"))?;
    let step_s = engine_step_s(situation)?;
    let busy =
        ["detokenizer", "api_server"].into_iter().find_map(|role| evidence.main_thread_cores(role)).filter(|busy| *busy >= FULL_CORE);
    let slow = evidence.settings.flag("config.slow_tokenizer") == Some(true);
    if gap_s < BEYOND_STEP * step_s {
        return Some(clear(
            vec![("gap_over_step", gap_s / step_s)],
            format!("a gap of {} at the client, {} in the engine", seconds(gap_s), seconds(step_s)),
        ));
    }
    if busy.is_none() && !slow {
        return None;
    }
    let mut rows: Vec<Evidence> =
        vec![figure("gap at the client", gap_s, "s", "typed"), figure("engine step", step_s, "s", "typed or log")];
    let why = match busy {
        Some(busy) => {
            rows.push(figure("detokenizer or API process", busy, "ratio", "of a core"));
            format!("the process behind the engine uses {} of a core", digits(busy))
        }
        None => "the log warns of a slow tokenizer".to_string(),
    };
    Some(Answer::Found(Box::new(found(situation, gap_s, step_s, rows, &why))))
}

/// The engine's own time between tokens of one stream.
fn engine_step_s(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    figures.typical("server.itl").or_else(|| figures.typical("engine.step_time")).filter(|step| *step > 0.0)
}

fn found(situation: &Situation<'_>, mine_s: f64, without_s: f64, evidence: Vec<Evidence>, why: &str) -> Found {
    let share = (1.0 - without_s / mine_s).clamp(0.0, 1.0);
    let phase = if situation.phase_s(Phase::Detokenize) > 0.0 { Phase::Detokenize } else { Phase::Decode };
    let has_size = situation.claimable_s(phase) > 0.0;
    Found {
        summary: format!("{} of the time between tokens pass behind the engine: {why}", percent(share)),
        sentence: format!(
            "Turning tokens into text holds the stream back: {} between tokens where {} would do; {why}.",
            seconds(mine_s),
            seconds(without_s)
        ),
        claims: if has_size { vec![Claim { phase, what: Extent::exactly(share), basis: Basis::Typed }] } else { Vec::new() },
        cost: Some(Quantity { value: mine_s - without_s, unit: "s".into() }),
        evidence,
        hypotheses: vec![
            Advice::outside(
                "tokenizer",
                "",
                "fast, or token ids out",
                "use a fast tokenizer, more detokenizer processes, or let the caller take token ids",
            )
            .needs("restart")
            .risk("more processes take more host memory and cores", "the engine core's run-queue wait grows")
            .expect(
                Movement::new("client.itl", "ITL", "s", Direction::Down, Some(mine_s))
                    .primary()
                    .to(0.8 * without_s, without_s + 0.5 * (mine_s - without_s), "at least half of what passes behind the engine removed")
                    .build(),
            )
            .throughput("rises with the streams' rate")
            .build(),
        ],
        falsified_by: "token ids out take as long".into(),
        ..Found::default()
    }
}

fn undecided(situation: &Situation<'_>) -> Answer {
    if situation.is_timed() {
        let at_server = situation.evidence.mean("server.itl").is_some();
        let busy = situation.evidence.main_thread_cores("api_server");
        if let Some(busy) = busy.filter(|busy| *busy < 0.5) {
            return clear(vec![("api_server_cores", busy)], format!("the API process runs {} of a core", percent(busy)));
        }
        return Answer::CannotTell(record::py_spy(
            &["server.detokenize_time", "proc.cpu{role=\"api_server\"}"],
            if at_server { "the server stamps tokens after turning them into text: its gaps hold both" } else { "no time between tokens" },
            Some(0.0),
        ));
    }
    Answer::CannotTell(record::py_spy(
        &["server.detokenize_time", "server.itl", "client.itl"],
        "nothing tells the engine's step from the client's gap",
        None,
    ))
}
