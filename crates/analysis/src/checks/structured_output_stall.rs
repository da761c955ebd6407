//! Grammars: compiling a schema or masking tokens by it holds requests, and often everybody's steps.

use crate::account::loaded_row;
use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Quantity};
use crate::contrast::{better_arm, better_tail, texts};
use crate::evidence::Evidence;
use crate::gates::Gate;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{peak, typical};
use crate::record;
use crate::remedy::{self, first_token_falls, token_time_stays};
use crate::situation::Situation;
use crate::symptom::MATERIAL_EXCESS;
use crate::words::{percent, plural, seconds};

check! {
    /// Requests with a schema wait for their grammar, or its masks lengthen every step.
    ///
    /// ## Why it costs time
    /// A schema becomes a grammar before its first token can be made; large ones compile for seconds, on the CPU, and in
    /// some backends on the very thread that schedules steps. After that each step fills a mask over the vocabulary for each
    /// such request. Everybody in the batch waits for it.
    ///
    /// ## How to confirm
    /// `engine.waiting` with the reason *deferred* is most of the waiting, with neither adapters nor a KV connector, while the
    /// engine core's other threads burn CPU. Typed: grammar or mask time; first tokens that all come after the same long wait
    /// while tokens then flow at the usual rate; the same server without schemas is fast.
    ///
    /// ## Fix
    /// Another backend (`xgrammar`, `guidance`), compiled grammars that are cached and reused (few distinct schemas, warmed
    /// up), simpler schemas. Grammar time per request falls and the others' time between tokens returns.
    ///
    /// ## When this is wrong
    /// Deferred for an adapter or remote KV; long prompts; a queue for seats, where first tokens come one after the other.
    id: "structured_output_stall", layer: Scheduling, rank: 34, phases: [Queue, Api, Prefill, Decode], bound: "host", validated_on: "simulated", run: find,
}

/// Deferred waiting that counts as the queue's gate (attribution, section 6).
const GATE_SHARE: f64 = 0.5;
/// First tokens that come within this share of each other waited for one common thing: a queue spreads them over as many
/// services as requests.
const TOGETHER: f64 = 0.1;
/// Mask time that counts: smaller, and it is the ordinary cost of the feature (attribution, section 6, syncs).
const MASK_SHARE: f64 = 0.1;

/// A prompt up to this many tokens computes within a hundred steps on any device that decodes at a usable rate: prompt
/// tokens cost at most a twentieth of a step each.
const USUAL_PROMPT: f64 = 2000.0;

/// What shows the stall.
struct Stall {
    why: String,
    claims: Vec<Claim>,
    wait_s: f64,
    rows: Vec<Row>,
}

fn find(situation: &Situation<'_>) -> Answer {
    if situation.evidence.has_timeline() { from_timeline(situation) } else { from_figures(situation) }
}

fn from_timeline(situation: &Situation<'_>) -> Answer {
    let (evidence, gates) = (situation.evidence, &situation.gates);
    let share = gates.share(Gate::Deferred);
    let other = ["config.kv_connector", "config.lora"].into_iter().find(|key| {
        evidence.settings.get(key).is_some_and(|setting| !matches!(setting.value.as_str(), "" | "None" | "0" | "false" | "False"))
    });
    if let Some(key) = other.filter(|_| share >= GATE_SHARE) {
        return clear(vec![("deferred_share", share)], format!("what is deferred belongs to {}", key.trim_start_matches("config.")));
    }
    if share < GATE_SHARE {
        return not_deferred(situation, share);
    }
    let runs: Vec<(i64, i64)> = gates.stretches(Gate::Deferred).iter().map(|stretch| (stretch.t_start_ns, stretch.t_end_ns)).collect();
    let what = if situation.load.engine_count <= 1 { Extent::Intervals(runs) } else { Extent::exactly(share) };
    let claims = if situation.account.is_empty() { Vec::new() } else { vec![Claim { phase: Phase::Queue, what, basis: Basis::Derived }] };
    let wait_s = share * situation.phase_s(Phase::Queue);
    let mut rows = vec![figure("waiting that is deferred", share, "ratio", "scrapes")];
    let helpers = helpers_cpu_share(evidence);
    rows.extend(helpers.map(|share| figure("CPU of the core's other threads over its main thread's", share, "ratio", "host counters")));
    let busy = helpers.filter(|share| *share >= 0.1).map_or_else(String::new, |share| {
        format!("; other threads of the engine core use {} of the CPU its main thread does", percent(share))
    });
    let why = format!("{} of the waiting is for grammars, not for seats or blocks{busy}", percent(share));
    Answer::Found(Box::new(found(situation, Stall { why, claims, wait_s, rows })))
}

/// Nothing is deferred, or nobody says what is. A grammar stall leaves the batch thin, so where the batch is full or
/// nobody waits it owns nothing.
fn not_deferred(situation: &Situation<'_>, share: f64) -> Answer {
    let gates = &situation.gates;
    let told = situation.evidence.engines.values().any(|engine| engine.series("engine.waiting{reason=\"deferred\"}").is_some());
    let thin = situation.load.seats.is_some_and(|seats| situation.load.running_max <= 0.5 * seats) && !situation.load.growing;
    let held = gates.share(Gate::Compute) * situation.phase_s(Phase::Queue);
    if told || !thin || held <= 0.0 {
        return clear(vec![("deferred_share", share)], format!("{} of the waiting is deferred", percent(share)));
    }
    let because = "requests wait beside free seats, and this version does not say whether a grammar defers them";
    Answer::CannotTell(record::scrapes(&["engine.waiting{reason=\"deferred\"}", "server.grammar_time"], because, Some(held)))
}

/// CPU of the engine core's threads beside the main one, over the main one's.
fn helpers_cpu_share(evidence: &Evidence) -> Option<f64> {
    let growth = |signal: &str| -> f64 {
        let of_core = |name: &&String| name.starts_with(signal) && name.contains("role=\"engine_core");
        evidence.host.iter().filter(|(name, _)| of_core(name)).map(|(_, series)| series.growth()).sum()
    };
    let (all, main) = (growth("proc.cpu_time{"), growth("proc.run_time{"));
    (main > 0.0).then(|| ((all - main) / main).max(0.0))
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let measured = ["server.grammar_time", "engine.mask_time"].iter().any(|name| typical(evidence, name).is_some());
    let stall = grammar_time(situation).or_else(|| mask_time(situation)).or_else(|| waiting(situation));
    // Where grammars or masks were timed, nothing else says more of them.
    if let Some(stall) = stall.or_else(|| (!measured).then(|| arms(situation).or_else(|| common_wait(situation))).flatten()) {
        return Answer::Found(Box::new(found(situation, stall)));
    }
    if let Some(grammar_s) = typical(evidence, "server.grammar_time") {
        return clear(vec![("grammar_time", grammar_s)], format!("grammars take {} per request", seconds(grammar_s)));
    }
    Answer::CannotTell(record::scrapes(
        &["server.grammar_time", "engine.grammar_waiting", "engine.mask_time", "config.structured_output_backend"],
        "nothing says whether requests carry schemas",
        None,
    ))
}

fn first_token_claim(situation: &Situation<'_>, wait_s: f64, lo: f64, basis: Basis) -> Vec<Claim> {
    let phase = Phase::Queue;
    let share = situation.share_of(phase, wait_s);
    if share <= 0.0 { Vec::new() } else { vec![Claim { phase, what: Extent::Fraction { lo: lo * share, mid: share, hi: share }, basis }] }
}

fn grammar_time(situation: &Situation<'_>) -> Option<Stall> {
    let grammar_s = typical(situation.evidence, "server.grammar_time")?;
    let first_s = situation.account.first_token_mean_s();
    let whole = if first_s > 0.0 { first_s } else { situation.account.total_mean_s() };
    (whole <= 0.0 || grammar_s >= MATERIAL_EXCESS * whole).then(|| Stall {
        why: format!(
            "grammars take {} per request{}",
            seconds(grammar_s),
            if whole > 0.0 { format!(" of {}", seconds(whole)) } else { String::new() }
        ),
        claims: first_token_claim(situation, grammar_s, 0.8, Basis::Typed),
        wait_s: grammar_s,
        rows: vec![figure("server.grammar_time", grammar_s, "s", "as given")],
    })
}

fn mask_time(situation: &Situation<'_>) -> Option<Stall> {
    let evidence = situation.evidence;
    // In a sweep both are of one row, where masks take most.
    let row = loaded_row(&evidence.figures, "engine.mask_time");
    let of = |name: &str| row.and_then(|row| row.typical(name)).or_else(|| typical(evidence, name));
    let mask_s = of("engine.mask_time")?;
    let step_s = ["engine.step_time", "client.itl", "client.tpot"].iter().find_map(|name| of(name))?;
    let share = mask_s / step_s;
    (share >= MASK_SHARE).then(|| Stall {
        why: format!("masks take {} of a step of {}", seconds(mask_s), seconds(step_s)),
        claims: vec![Claim {
            phase: Phase::Decode,
            what: Extent::Fraction { lo: 0.8 * share, mid: share.min(1.0), hi: share.min(1.0) },
            basis: Basis::Typed,
        }],
        wait_s: 0.0,
        rows: vec![figure("engine.mask_time", mask_s, "s", "as given"), figure("masks over step", share, "ratio", "as given")],
    })
}

fn waiting(situation: &Situation<'_>) -> Option<Stall> {
    let waiting = peak(situation.evidence, "engine.grammar_waiting").filter(|&waiting| waiting >= 1.0)?;
    Some(Stall {
        why: format!(
            "{} for a grammar",
            if waiting < 1.5 { "1 request waits".into() } else { format!("{} wait", plural(waiting, "request")) }
        ),
        claims: first_token_claim(situation, situation.phase_s(Phase::Queue), 0.5, Basis::Typed),
        wait_s: situation.phase_s(Phase::Queue),
        rows: vec![figure("engine.grammar_waiting", waiting, "request", "scrapes or as given")],
    })
}

/// An arm with another backend, or without one, that does better.
fn arms(situation: &Situation<'_>) -> Option<Stall> {
    const KEY: &str = "config.structured_output_backend";
    backend(situation)?;
    let differs = |arm: &Evidence| texts(situation.evidence, arm, KEY).is_some();
    let Some(better) = better_arm(situation, differs) else { return slow_end(situation, differs) };
    let phase = if better.is_first_token() || situation.claimable_s(Phase::Queue) > 0.0 { Phase::Queue } else { Phase::Decode };
    let saved = better.saved();
    let sized = situation.claimable_s(phase) > 0.0;
    let claim = Claim { phase, what: Extent::Fraction { lo: 0.6 * saved, mid: saved, hi: 1.0 }, basis: Basis::Typed };
    Some(Stall {
        why: format!("with another backend or none the same load is {:.1} times as fast ({})", better.ratio, better.text()),
        claims: if sized { vec![claim] } else { Vec::new() },
        wait_s: saved * situation.claimable_s(Phase::Queue),
        rows: vec![figure(better.quantity, better.here, "", "this arm"), figure(better.quantity, better.there, "", &better.arm.run_name)],
    })
}

/// The same for reports that give only the slow end: which request meets a costly grammar is chance, so the middle may
/// not move at all. Nothing sizes the typical request then.
fn slow_end(situation: &Situation<'_>, differs: impl Fn(&Evidence) -> bool) -> Option<Stall> {
    const TIMES: [&str; 6] = ["client.itl", "server.itl", "client.tpot", "client.ttft", "client.e2e", "server.e2e"];
    let (arm, name, mine, theirs) = better_tail(situation, &TIMES, differs)?;
    Some(Stall {
        why: format!("{name} is {} with this backend, {} with another or none (\"{}\")", seconds(mine), seconds(theirs), arm.run_name),
        claims: Vec::new(),
        wait_s: 0.0,
        rows: vec![figure(&name, mine, "s", "this arm"), figure(&name, theirs, "s", &arm.run_name)],
    })
}

/// The backend, where a person or a command line names it: start-up dumps name one whether schemas are sent or not.
fn backend<'s>(situation: &'s Situation<'_>) -> Option<&'s str> {
    let setting = situation.evidence.settings.get("config.structured_output_backend")?;
    let said = !setting.origin.contains("dump") && !setting.origin.contains("default");
    (said && !matches!(setting.value.as_str(), "" | "auto" | "none" | "None")).then_some(setting.value.as_str())
}

/// All first tokens come after one common wait, then tokens flow: neither a queue nor prompt work does that.
fn common_wait(situation: &Situation<'_>) -> Option<Stall> {
    let backend = backend(situation)?;
    let figures = &situation.evidence.figures;
    let first_s = situation.unsplit_first_token_s();
    let spread = figures.get("client.ttft.min").zip(figures.get("client.ttft.max")).map(|(low, high)| (high - low) / high.max(1e-9));
    let token_s = typical(situation.evidence, "client.itl").or_else(|| typical(situation.evidence, "client.tpot"))?;
    // A wait of a hundred steps is no prompt's: at the rate of tokens a prompt of any usual length takes a few.
    let long = first_s >= 100.0 * token_s && first_s >= MATERIAL_EXCESS * situation.account.total_mean_s();
    let nobody_waits = situation.load.waiting_max <= 0.0;
    let short = situation.evidence.figures.highest("server.prompt_tokens").is_none_or(|prompt| prompt <= USUAL_PROMPT);
    let together = spread.is_some_and(|spread| spread <= TOGETHER);
    (long && short && nobody_waits && (together || spread.is_none())).then(|| Stall {
        why: format!(
            "schemas are served by {backend}, and {} after {} while tokens then come every {}",
            if together { "all first tokens come together" } else { "the first token comes" },
            seconds(first_s),
            seconds(token_s)
        ),
        claims: first_token_claim(situation, 0.9 * first_s, 0.5, if together { Basis::Typed } else { Basis::Bound }),
        wait_s: 0.9 * first_s,
        rows: vec![
            figure("first-token time no stage explains", first_s, "s", "as given"),
            figure("time between tokens", token_s, "s", "as given"),
        ],
    })
}

fn found(situation: &Situation<'_>, stall: Stall) -> Found {
    let Stall { why, claims, wait_s, rows } = stall;
    let itl = typical(situation.evidence, "client.itl").or_else(|| situation.evidence.mean("server.itl"));
    let hypothesis = remedy::setting(situation, "structured_output_backend", "xgrammar")
        .saying("another grammar backend, or few schemas that are compiled once and reused")
        .moves(first_token_falls(situation, wait_s, "the wait for the grammar removed"))
        .guards(token_time_stays(situation))
        .guards(
            Movement::new("client.itl.mean", "ITL mean", "s", Direction::Unchanged, itl)
                .refused("masks are part of each step: direction only"),
        )
        .risk("backends differ in what of a schema they support", "outputs no longer follow the schema")
        .build();
    Found {
        summary: why.clone(),
        sentence: format!("Structured output stalls requests: {why}."),
        cost: (wait_s > 0.0 && !claims.is_empty()).then(|| Quantity { value: wait_s, unit: "s".into() }),
        claims,
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "the same first-token time for the same requests without a schema".into(),
        ..Found::default()
    }
}
