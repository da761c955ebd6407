//! Turning text into tokens takes long, or its process is full.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence, Quantity};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::text_work::{FULL_CORE, without_tokenizer};
use crate::words::{count, digits, percent, seconds};

check! {
    /// Turning prompts into tokens takes a visible part of the request, or its process is at a full core.
    ///
    /// ## Why it costs time
    /// Tokenizing is CPU work in the API process or the gateway: about 0.1 to 1 million tokens per second and core with a
    /// fast tokenizer, ten times less with a Python one. Long prompts times many requests fill a few cores, and everything
    /// behind waits, while the engine idles.
    ///
    /// ## How to confirm
    /// Send token ids instead of text: the time goes. The process that tokenizes runs at a full core (py-spy shows the
    /// tokenizer's frames); the engine's queue is empty and its steps are short. Time passes before the queue, and the longer a
    /// prompt the longer, by more than the engine takes to compute it.
    ///
    /// ## Fix
    /// A fast tokenizer (`tokenizer_mode auto`, not `slow`), more API or front-end processes (`--api-server-count`,
    /// `--tokenizer-worker-num`), a cache of tokenized prefixes, token ids from the caller. That stage falls, queue time
    /// stays.
    ///
    /// ## When this is wrong
    /// The engine loop delays what arrives by up to one step; that also passes before the queue. A busy engine core is not
    /// the tokenizer.
    id: "slow_tokenization", layer: Application, rank: 9, phases: [Tokenize, Api, Transfer], bound: "host", validated_on: "report", run: find,
}

/// Below this share of the time to first token the stage is no cost.
const MATERIAL: f64 = 0.1;
/// Prompt tokens per second and core from which tokenizing fills the core: half of the slow end of fast tokenizers.
const FILLS_A_CORE: f64 = 5e4;
/// The engine explains less than this share of a request: then the rest is text work or transport.
const ENGINE_SHARE: f64 = 0.5;
/// Steps an arrival may wait for the running step, its own and the token's way out.
const LOOP_STEPS: f64 = 3.0;

fn find(situation: &Situation<'_>) -> Answer {
    let figures = &situation.evidence.figures;
    let ttft_s = situation.account.first_token_mean_s();
    if let Some(stage_s) = figures.typical("server.tokenize_time") {
        return by_time(situation, stage_s, ttft_s);
    }
    if let Some((mine, without)) = without_tokenizer(situation, "ttft").filter(|(mine, without)| *without < (1.0 - MATERIAL) * mine) {
        let rows =
            vec![figure("ttft", mine, "s", "with the tokenizer"), figure("ttft without", without, "s", "the arm that sends token ids")];
        return Answer::Found(Box::new(found(situation, mine - without, rows, "the arm that sends token ids is faster by it")));
    }
    by_elimination(situation).or_else(|| by_rise(situation)).or_else(|| by_length(situation)).unwrap_or_else(|| undecided(situation))
}

/// What an arrival waits out of the loop on the way in: the step that runs, and prompts of others in it.
const RUNNING_STEP: f64 = 1.5;
/// Rows from which a slope over lengths is taken.
const MIN_ROWS: usize = 40;
/// Standard errors by which the slope must exceed what computing prompts explains.
const SURE: f64 = 3.0;

/// Requests wait before the queue, beyond what the engine's loop explains, and the longer their prompts the longer: whatever
/// does that reads the text. What computing a prompt token takes is known from the server's own prefill time; a running
/// step that an arrival waits out does not know its length.
fn by_length(situation: &Situation<'_>) -> Option<Answer> {
    let api_s = situation.phase_s(Phase::Api);
    let rest_s = beyond_the_loop_s(situation, RUNNING_STEP);
    let first_s = situation.account.first_token_mean_s();
    if !situation.is_timed() || rest_s < MATERIAL * first_s {
        return None;
    }
    let rows: Vec<(f64, f64)> = situation
        .evidence
        .client
        .iter()
        .filter(|row| row.ok)
        .filter_map(|row| Some((row.tokens_in? as f64, row.ttft_ns()? as f64 * 1e-9)))
        .collect();
    let (slope_s, error_s) = crate::stats::slope(&rows).filter(|_| rows.len() >= MIN_ROWS)?;
    let tokens = rows.iter().map(|row| row.0).sum::<f64>() / rows.len() as f64;
    let prefill_s = situation.phase_s(Phase::Prefill) / tokens;
    let beyond_s = slope_s - prefill_s - SURE * error_s;
    // At least a third of the wait grows with the text; the rest is the line behind those who are being read.
    let of_text_s = (slope_s - prefill_s) * tokens;
    if beyond_s <= 0.0 || of_text_s * 3.0 < rest_s {
        return None;
    }
    let share = |seconds: f64| (seconds / api_s).clamp(0.0, 1.0);
    let [lo, mid, hi] = [share(of_text_s.min(rest_s)), share(rest_s), 1.0];
    let evidence = vec![
        figure("before the queue, in the API process", api_s, "s", "server sums"),
        figure("TTFT per prompt token", slope_s, "s", "client rows"),
        figure("prefill per prompt token, at most", prefill_s, "s", "server sums"),
    ];
    let why = format!(
        "the first token comes {} later for each prompt token, of which the engine computes {} at most",
        seconds(slope_s),
        seconds(prefill_s)
    );
    let claims = vec![Claim { phase: Phase::Api, what: Extent::Fraction { lo: lo.min(mid), mid, hi }, basis: Basis::Derived }];
    Some(Answer::Found(Box::new(Found { claims, ..found(situation, rest_s, evidence, &why) })))
}

/// Time before the queue that the engine's loop does not explain, s per request.
fn beyond_the_loop_s(situation: &Situation<'_>, steps: f64) -> f64 {
    let api_s = situation.phase_s(Phase::Api) + situation.phase_s(Phase::Tokenize);
    let step_s = situation.law.central().map_or(0.0, |law| law.step_s(situation.load.running_mean.max(1.0), 0.0));
    (api_s - steps * step_s - situation.floors.s(Phase::Api)).max(0.0)
}

/// Two arms may differ by this factor without any change.
const RUN_SPREAD: f64 = 1.25;

/// The process that turns text into tokens is at a full core, and the first token comes later than in an arm of the same
/// load; nothing waits in the engine and tokens do not come slower, or nobody says so.
fn by_rise(situation: &Situation<'_>) -> Option<Answer> {
    let here = situation.evidence;
    let figures = &here.figures;
    let (role, busy) = full_process(here)?;
    let rises = |quantity: &str, there: &Arm| {
        let pair = figures.typical(quantity).zip(there.figures.typical(quantity));
        pair.filter(|(mine, theirs)| *mine > RUN_SPREAD * theirs)
    };
    let is_engine = |there: &Arm| {
        ["client.itl", "client.tpot", "server.prefill_time", "server.queue_time"].iter().any(|name| rises(name, there).is_some())
    };
    let is_waiting = figures.highest("engine.waiting").is_some_and(|waiting| waiting >= 1.0);
    let (mine, theirs) = situation
        .other_arms()
        .filter(|there| !is_waiting && !crate::arms::load_differs(here, there) && !is_engine(there))
        .find_map(|there| rises("client.ttft", there))?;
    let rows = vec![
        figure("client.ttft", mine, "s", "this arm"),
        figure("client.ttft there", theirs, "s", "the other arm at the same load"),
        figure(&format!("proc.cpu{{role=\"{role}\"}}"), busy, "ratio", "typed or host counters"),
    ];
    let why = format!("the process that tokenizes uses {} of a core, and the engine is no slower", digits(busy));
    Some(Answer::Found(Box::new(found(situation, mine - theirs, rows, &why))))
}

/// The process in front of the engine that is at a full core.
fn full_process(evidence: &Arm) -> Option<(&'static str, f64)> {
    let busy = |role: &'static str| Some((role, evidence.main_thread_cores(role)?));
    ["tokenizer", "frontend", "api_server"].into_iter().filter_map(busy).find(|(_, busy)| *busy >= FULL_CORE)
}

fn by_time(situation: &Situation<'_>, stage_s: f64, ttft_s: f64) -> Answer {
    let share = stage_s / ttft_s.max(stage_s).max(f64::MIN_POSITIVE);
    if share < MATERIAL {
        return clear(vec![("tokenize_share_of_ttft", share)], format!("tokenizing takes {} of {}", seconds(stage_s), seconds(ttft_s)));
    }
    let rows =
        vec![figure("server.tokenize_time", stage_s, "s", "typed or metric"), figure("time to first token", ttft_s, "s", "measured")];
    Answer::Found(Box::new(found(situation, stage_s, rows, "its own time")))
}

/// The engine explains little of the request, and prompts times rate fill the cores that turn them into tokens; or their
/// process is at a full core.
fn by_elimination(situation: &Situation<'_>) -> Option<Answer> {
    let evidence = situation.evidence;
    let figures = &evidence.figures;
    let whole_s = situation.account.total_mean_s();
    let engine_s = engine_s(situation)?;
    if !situation.is_typed() || whole_s <= 0.0 || engine_s > ENGINE_SHARE * whole_s {
        return None;
    }
    let process = ["tokenizer", "frontend", "api_server"].into_iter().find_map(|role| Some((role, evidence.main_thread_cores(role)?)));
    let cores = figures.typical("host.cores").unwrap_or(1.0).max(1.0);
    let rate = figures
        .anywhere("client.throughput.requests")
        .zip(figures.anywhere("server.prompt_tokens"))
        .map(|(rate, tokens)| rate * tokens / cores);
    let mut rows: Vec<Evidence> = vec![
        figure("request", whole_s, "s", "typed"),
        figure("in the engine, at most", engine_s, "s", "steps x tokens, or server figures"),
    ];
    let why = match (process, rate) {
        (Some((role, busy)), _) if busy >= FULL_CORE => {
            rows.push(figure(&format!("proc.cpu{{role=\"{role}\"}}"), busy, "ratio", "typed or host counters"));
            format!("the process that tokenizes uses {} of a core", digits(busy))
        }
        (_, Some(rate)) if rate >= FILLS_A_CORE => {
            rows.push(figure("prompt tokens per second and core", rate, "token/s", "rate x prompt / cores"));
            format!("{} prompt tokens per second and core fill it", count(rate))
        }
        _ => return None,
    };
    Some(Answer::Found(Box::new(found(situation, whole_s - engine_s, rows, &why))))
}

/// What of a request the engine can take at most: its steps, or the server's own queue, prefill and decode.
fn engine_s(situation: &Situation<'_>) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let by_steps =
        figures.typical("engine.step_time").zip(figures.anywhere("server.output_tokens")).map(|(step, tokens)| step * (tokens + 1.0));
    let parts: Vec<f64> =
        ["server.queue_time", "server.prefill_time", "server.decode_time"].iter().filter_map(|name| figures.typical(name)).collect();
    by_steps.or_else(|| (parts.len() >= 2).then(|| parts.iter().sum()))
}

fn found(situation: &Situation<'_>, stage_s: f64, evidence: Vec<Evidence>, why: &str) -> Found {
    let phase = if situation.phase_s(Phase::Tokenize) > 0.0 { Phase::Tokenize } else { Phase::Api };
    let claimable = situation.claimable_s(phase);
    // Where only the whole request is typed nothing says where inside it the stage lies; then it has no seconds.
    let share = if claimable > 0.0 { (stage_s / claimable).min(1.0) } else { 0.0 };
    let claims = if share > 0.0 { vec![Claim { phase, what: Extent::exactly(share), basis: Basis::Typed }] } else { Vec::new() };
    let rest_s = (situation.account.first_token_mean_s() - stage_s).max(0.0);
    let queue_s = situation.evidence.mean("server.queue_time").unwrap_or(0.0);
    let slow = situation.evidence.settings.flag("config.slow_tokenizer") == Some(true);
    let advice = if slow {
        Advice::outside("tokenizer", "slow", "fast", "use a fast tokenizer (tokenizer_mode auto, a tokenizer.json beside the model)")
            .needs("restart")
    } else {
        Advice::setting(situation, "api_processes", "one more per two cores")
    };
    Found {
        summary: format!("turning text into tokens takes about {}: {why}", seconds(stage_s)),
        sentence: format!("Turning prompts into tokens holds requests for about {} before the engine sees them: {why}.", seconds(stage_s)),
        claims,
        cost: Some(Quantity { value: stage_s, unit: "s".into() }),
        evidence,
        hypotheses: vec![
            advice
                .risk("more processes take more host memory and cores", "the engine core's run-queue wait grows")
                .expect(
                    Movement::first_token(situation, Direction::Down)
                        .primary()
                        .to(0.8 * rest_s, rest_s + 0.6 * stage_s, "at least 40 % of the stage removed by a second process")
                        .build(),
                )
                .expect(
                    Movement::new(
                        "server.queue_time.mean",
                        "queue",
                        "s",
                        Direction::Unchanged,
                        situation.evidence.mean("server.queue_time"),
                    )
                    .guard()
                    .to(0.0, 1.1 * queue_s + 0.1 * stage_s, "the engine gets the same requests, closer together")
                    .build(),
                )
                .throughput("rises until the engine is at its own limit")
                .build(),
        ],
        falsified_by: "token ids instead of text take as long".into(),
        ..Found::default()
    }
}

fn undecided(situation: &Situation<'_>) -> Answer {
    if !situation.is_timed() {
        return Answer::CannotTell(record::py_spy(
            &["server.tokenize_time", "proc.cpu{role=\"api_server\"}"],
            "nothing tells how long tokenizing takes",
            None,
        ));
    }
    let api_s = situation.phase_s(Phase::Api) + situation.phase_s(Phase::Tokenize);
    let rest_s = beyond_the_loop_s(situation, LOOP_STEPS);
    let share = rest_s / situation.account.first_token_mean_s().max(f64::MIN_POSITIVE);
    if let Some(busy) = situation.evidence.main_thread_cores("api_server").filter(|busy| *busy < 0.5) {
        return clear(vec![("api_server_cores", busy)], format!("the API process runs {} of a core", percent(busy)));
    }
    if share < MATERIAL {
        return clear(
            vec![("api_s", api_s)],
            format!("{} pass in the API process before the queue, of which the engine's loop explains most", seconds(api_s)),
        );
    }
    Answer::CannotTell(record::py_spy(
        &["server.tokenize_time", "proc.cpu{role=\"api_server\"}"],
        format!("{} pass in the API process before the queue; what it does then is not recorded", seconds(api_s)),
        Some(rest_s),
    ))
}
