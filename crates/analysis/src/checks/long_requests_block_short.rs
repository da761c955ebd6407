//! A long prompt ahead in the line: short requests wait until it is computed.

use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Quantity};
use crate::contrast::RUN_SPREAD;
use crate::evidence::{Evidence, Point, RequestRow};
use crate::floors::SHARED_CHUNK_TOKENS;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::symptom::excess_s;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Short requests wait for the prompt of a long one that came before them.
    ///
    /// ## Why it costs time
    /// Prompts are computed in the order of arrival. Who asks a short question while a prompt of many thousand tokens is
    /// computed waits for the rest of it, chunk by chunk, although the answer would take a moment.
    ///
    /// ## How to confirm
    /// The first token of short requests comes when the prefill of a long one ahead ends; their p50 is quick, their p99 as long
    /// as a long prefill. Without long requests in flight they are quick.
    ///
    /// ## Fix
    /// Limits on long prefills (`--long-prefill-token-threshold`, `--max-long-partial-prefills` where the engine has them),
    /// priorities, or a pool of their own for long prompts. First-token time of short requests falls to its unqueued value,
    /// that of long ones rises by what they give way.
    ///
    /// ## When this is wrong
    /// Everybody waits alike (`overload`, `batch_cap_reached`, `kv_capacity_short`); streams that stop rather than start late
    /// (`prefill_blocks_decode`).
    id: "long_requests_block_short", layer: Scheduling, rank: 94, phases: [Api, Queue, Prefill], bound: "logic", validated_on: "recorded", run: find,
}

/// A request is blocked by one whose prompt is at least this many times its own: below that they are peers in one line.
const LONG: f64 = 4.0;
/// A prompt that one shared chunk holds blocks nobody: it is no longer than what steps carry anyway.
const MIN_LONG_TOKENS: f64 = SHARED_CHUNK_TOKENS;
/// A short request's time that is the long one's prefill: from half of it (sent in the middle) to a little more.
const SAME_WAIT: std::ops::RangeInclusive<f64> = 0.5..=1.2;
/// A short class is as late as a long one from this share of its wait on.
const AS_LATE: f64 = 0.7;

fn find(situation: &Situation<'_>) -> Answer {
    if situation.evidence.has_timeline() { from_timeline(situation) } else { from_figures(situation) }
}

fn from_timeline(situation: &Situation<'_>) -> Answer {
    let first_s = situation.account.first_token_mean_s();
    if let Some((short, long)) = lengths(situation.evidence).filter(|(short, long)| *long <= MIN_LONG_TOKENS || *long < LONG * short) {
        return clear(
            vec![("shortest_prompt", short), ("longest_prompt", long)],
            format!("prompts are of {} to {} tokens: no long one is ahead of a short one", count(short), count(long)),
        );
    }
    let Some(blocked) = blocked_s(situation).or_else(|| by_lengths(situation)) else {
        return Answer::CannotTell(unknown("how long the prompts of single requests are is not recorded", Some(waiting_s(situation))));
    };
    let share = if first_s > 0.0 { blocked.per_request_s / first_s } else { 0.0 };
    if share < 0.1 {
        return clear(
            vec![("share_of_first_token", share)],
            format!("waits behind long prompts ({}x as long) are {} of the time to first token", digits(LONG), percent(share)),
        );
    }
    Answer::Found(Box::new(measured(situation, &blocked)))
}

/// Shortest and longest prompt at the client, tokens.
fn lengths(evidence: &Evidence) -> Option<(f64, f64)> {
    let tokens = evidence.client.iter().filter(|row| row.ok).filter_map(|row| row.tokens_in);
    let (short, long) = tokens.fold((i64::MAX, 0), |(short, long), tokens| (short.min(tokens), long.max(tokens)));
    (long > 0).then_some((short as f64, long as f64))
}

/// What passes before the first token beyond the floor, s: more cannot be a wait for others.
fn waiting_s(situation: &Situation<'_>) -> f64 {
    [Phase::Api, Phase::Queue, Phase::Prefill].into_iter().map(|phase| excess_s(situation, phase)).sum()
}

fn unknown(because: &str, at_most_s: Option<f64>) -> Missing {
    record::client(&["client rows with prompt tokens and times"], because, at_most_s)
}

/// Waits behind much longer prompts.
struct Blocked {
    per_request_s: f64,
    /// Requests that waited so, of all.
    share_of_requests: f64,
    longest_tokens: f64,
    basis: Basis,
    from: &'static str,
}

/// Rows: what a request waits from being sent until the last much longer prompt ahead of it has its first token, no longer
/// than its own first-token time beyond what its own prompt takes.
fn blocked_s(situation: &Situation<'_>) -> Option<Blocked> {
    let law = situation.law.central().filter(|law| law.c_s > 0.0)?;
    let mut rows: Vec<(&RequestRow, f64, i64)> = situation
        .evidence
        .client
        .iter()
        .filter(|row| row.ok)
        .filter_map(|row| Some((row, row.tokens_in? as f64, row.t_first_ns?)))
        .collect();
    if rows.len() < 2 {
        return None;
    }
    rows.sort_by_key(|(row, ..)| row.t_sent_ns);
    let (mut total, mut waiting, mut longest) = (0.0, 0.0, 0.0f64);
    // Requests before their first token, in order of arrival: the line at the time of each arrival.
    let mut line: Vec<(f64, i64)> = Vec::new();
    for (row, tokens, first_ns) in &rows {
        line.retain(|(_, first)| *first > row.t_sent_ns);
        let ahead = line.iter().filter(|(other, _)| *other > MIN_LONG_TOKENS && *other >= LONG * tokens);
        let until = ahead.clone().map(|(_, first)| *first).max();
        if let Some(until) = until {
            let own_s = law.c_s * tokens + law.step_s(1.0, 0.0);
            let wait_s =
                ((until.min(*first_ns) - row.t_sent_ns) as f64 * 1e-9).min((first_ns - row.t_sent_ns) as f64 * 1e-9 - own_s).max(0.0);
            total += wait_s;
            waiting += f64::from(u8::from(wait_s > 0.0));
            longest = ahead.map(|(other, _)| *other).fold(longest, f64::max);
        }
        if line.len() < MAX_LINE {
            line.push((*tokens, *first_ns));
        }
    }
    let n = rows.len() as f64;
    Some(Blocked {
        per_request_s: total / n,
        share_of_requests: waiting / n,
        longest_tokens: longest,
        basis: Basis::Derived,
        from: "client rows: overlap with longer prompts ahead",
    })
}

/// A line longer than this is overload, and its rest is not looked through.
const MAX_LINE: usize = 4096;

/// Without rows: requests that arrive at random meet the rest of a long prefill, rate x (prefill time)^2 / 2 on average.
fn by_lengths(situation: &Situation<'_>) -> Option<Blocked> {
    let law = situation.law.central().filter(|law| law.c_s > 0.0)?;
    let lengths = situation.evidence.observed("server.prompt_tokens")?;
    let mean = lengths.mean()?;
    let rate = situation.load.arrivals_per_engine()?;
    let (mut wait_s, mut longest, mut long) = (0.0, 0.0f64, 0.0);
    for (at, &requests) in lengths.buckets.iter().enumerate().filter(|(_, requests)| **requests > 0.0) {
        let lower = at.checked_sub(1).and_then(|below| lengths.bounds.get(below)).copied().unwrap_or(0.0);
        if lower >= LONG * mean && lower >= MIN_LONG_TOKENS {
            let prefill_s = law.c_s * lower;
            wait_s += rate * requests / lengths.count.max(1.0) * prefill_s * prefill_s / 2.0;
            longest = longest.max(lower);
            long += requests;
        }
    }
    Some(Blocked {
        per_request_s: wait_s,
        share_of_requests: 1.0 - long / lengths.count.max(1.0),
        longest_tokens: longest,
        basis: Basis::Bound,
        from: "prompt lengths, arrival rate and step law",
    })
}

fn measured(situation: &Situation<'_>, blocked: &Blocked) -> Found {
    let mut left = blocked.per_request_s;
    let mut claims = Vec::new();
    for (phase, room) in [
        (Phase::Queue, situation.phase_s(Phase::Queue)),
        (Phase::Api, excess_s(situation, Phase::Api)),
        (Phase::Prefill, excess_s(situation, Phase::Prefill)),
    ] {
        let taken = left.min(room);
        left -= taken;
        let share = situation.share_of(phase, taken);
        if share > 0.0 {
            claims.push(Claim {
                phase,
                what: Extent::Fraction { lo: 0.7 * share, mid: share, hi: (1.2 * share).min(1.0) },
                basis: blocked.basis,
            });
        }
    }
    let why = format!(
        "{} of the requests wait behind prompts of up to {} tokens, {} per request",
        percent(blocked.share_of_requests),
        count(blocked.longest_tokens),
        seconds(blocked.per_request_s)
    );
    let rows = vec![
        figure("wait behind much longer prompts", blocked.per_request_s, "s", blocked.from),
        figure("requests that wait so", blocked.share_of_requests, "ratio", blocked.from),
        figure("longest prompt ahead", blocked.longest_tokens, "token", blocked.from),
    ];
    Found {
        claims,
        cost: Some(Quantity { value: blocked.per_request_s, unit: "s".into() }),
        ..found(situation, &why, rows, Some(blocked.per_request_s))
    }
}

fn found(situation: &Situation<'_>, why: &str, rows: Vec<Row>, wait_s: Option<f64>) -> Found {
    let now = situation.account.first_token_mean_s();
    let first = Movement::first_token(situation, Direction::Down);
    let first = match wait_s.filter(|wait| *wait > 0.0 && now > *wait) {
        Some(wait) => {
            first.to(now - wait, now - 0.3 * wait, "short requests no longer wait; long ones give way by as much as they are passed")
        }
        None => first.refused("short requests to their unqueued value, long ones later: direction of the short ones only"),
    };
    let hypothesis = remedy::setting(situation, "long_prefill_token_threshold", threshold(situation))
        .saying("limit what one long prompt takes of a step, give short requests priority, or send long ones to a pool of their own")
        .moves(first)
        .guards(throughput_stays(situation))
        .risk("long prompts take longer to their first token", "the long class passes what its users accept")
        .build();
    Found {
        summary: why.to_string(),
        sentence: format!("Long prompts block short requests: {why}."),
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "short requests as slow while no long prompt is in flight".into(),
        ..Found::default()
    }
}

/// Most tokens of one prompt in a step: the largest of a few that by the simulation of the run bring the first token sooner. A
/// number above half of the token budget would leave too little for others; without a simulation half of it, at most 1,024.
fn threshold(situation: &Situation<'_>) -> String {
    let budget = situation.evidence.settings.number("config.max_num_batched_tokens").unwrap_or(f64::INFINITY);
    let tried = THRESHOLDS.iter().filter(|tokens| 2.0 * **tokens <= budget);
    let helps = |tokens: &&f64| {
        let told = situation.foretold.ask(&format!("long_prefill_token_threshold={tokens:.0}"));
        told.is_ok_and(|told| told.ratio("ttft.mean").is_ok_and(|ratio| ratio.mid <= HELPS))
    };
    let chosen = tried.clone().find(helps).or_else(|| tried.clone().next());
    format!("{:.0}", chosen.copied().unwrap_or(THRESHOLDS[THRESHOLDS.len() - 1]))
}

/// Thresholds that are tried, tokens.
const THRESHOLDS: [f64; 5] = [1024.0, 512.0, 256.0, 128.0, 64.0];
/// A first token that comes at this share of its time comes sooner by more than two runs differ.
const HELPS: f64 = 0.9;

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some((why, rows)) = same_wait(evidence).or_else(|| as_late_as_long(evidence)).or_else(|| helped_by_limit(situation)) {
        // A row of a class has no account of its own: named without seconds.
        return Answer::Found(Box::new(found(situation, &why, rows, None)));
    }
    if let Some((wait_s, prefill_s)) = not_held_up(evidence) {
        return clear(
            vec![("short_wait", wait_s), ("long_prefill", prefill_s)],
            format!("short requests take {} beside prompts that take {} to compute", seconds(wait_s), seconds(prefill_s)),
        );
    }
    Answer::CannotTell(unknown("nothing compares short requests with a long one ahead of them", None))
}

/// First-token time of a row, else its whole time.
fn wait_of(point: &Point) -> Option<f64> {
    ["client.ttft", "server.ttft", "client.e2e", "server.e2e"].iter().find_map(|name| point.typical(name))
}

/// Time that a row's own prompt takes.
fn prefill_of(point: &Point) -> Option<f64> {
    let tokens = point.typical("server.prompt_tokens");
    let rate = ["client.throughput.prompt", "server.throughput.prompt"].iter().find_map(|name| point.typical(name));
    point.typical("server.prefill_time").or_else(|| Some(tokens? / rate.filter(|rate| *rate > 0.0)?)).or_else(|| {
        // A long class's own first token is its prefill.
        tokens.filter(|tokens| *tokens >= 1024.0).and_then(|_| point.typical("client.ttft"))
    })
}

/// A class of short requests takes as long as the prefill of a class of long ones.
fn same_wait(evidence: &Evidence) -> Option<(String, Vec<Row>)> {
    let rows: Vec<&Point> = evidence.figures.points().filter(|point| point.about("class").is_some()).collect();
    let tokens = |point: &Point| point.typical("server.prompt_tokens");
    for long in &rows {
        let Some(prefill_s) = prefill_of(long) else { continue };
        for short in rows.iter().filter(|short| short.about("class") != long.about("class")) {
            // Many short requests meet no long one: then only the slow end waits for it.
            let waits = [wait_of(short), late_of(short).map(|(late, _)| late)];
            let Some(wait_s) = waits.into_iter().flatten().find(|wait| SAME_WAIT.contains(&(wait / prefill_s))) else { continue };
            let is_shorter = tokens(short).is_none_or(|mine| tokens(long).is_none_or(|theirs| theirs >= LONG * mine));
            let own = prefill_of(short).unwrap_or(0.0);
            if is_shorter && own < 0.5 * wait_s {
                let (a, b) = (short.about("class").unwrap_or_default(), long.about("class").unwrap_or_default());
                let why = format!(
                    "\"{a}\" takes {}, as long as the prompt of \"{b}\" takes to compute ({})",
                    seconds(wait_s),
                    seconds(prefill_s)
                );
                return Some((
                    why,
                    vec![figure("time of the short class", wait_s, "s", a), figure("prefill of the long class", prefill_s, "s", b)],
                ));
            }
        }
    }
    None
}

/// The slow end of first-token time of a row, else its typical time.
fn late_of(point: &Point) -> Option<(f64, &'static str)> {
    const NAMES: [&str; 6] =
        ["client.ttft.p99", "client.ttft.p95", "client.ttft.p90", "client.ttft.max", "server.ttft.p99", "server.ttft.p95"];
    NAMES.into_iter().find_map(|name| Some((point.get(name)?, name))).or_else(|| Some((point.typical("client.ttft")?, "client.ttft")))
}

/// Classes sent together: the short one is as late as the long one, although the work of all prompts up to the end of the
/// short ones alone is a fraction of that wait. In a line that lets short requests pass they would be out first.
fn as_late_as_long(evidence: &Evidence) -> Option<(String, Vec<Row>)> {
    let rows: Vec<&Point> = evidence.figures.points().filter(|point| point.about("class").is_some()).collect();
    let tokens = |point: &Point| point.typical("server.prompt_tokens").filter(|&tokens| tokens > 0.0);
    let work = |point: &Point| tokens(point).zip(point.typical("client.completed")).map(|(tokens, requests)| tokens * requests);
    let all: f64 = rows.iter().filter_map(|point| work(point)).sum();
    let (long, long_late, _) =
        rows.iter().filter_map(|point| late_of(point).map(|(late, name)| (*point, late, name))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = rows.iter().filter(|short| short.about("class") != long.about("class")).find_map(|short| {
        let (late, name) = late_of(short)?;
        let shorter = tokens(long)? >= LONG * tokens(short)?;
        let own_s = late * work(short)? / all;
        (shorter && late >= AS_LATE * long_late && own_s < 0.25 * late).then_some((*short, late, own_s, name))
    });
    let (short, late, own_s, name) = found?;
    let (a, b) = (short.about("class").unwrap_or_default(), long.about("class").unwrap_or_default());
    let why = format!(
        "\"{a}\" ({} tokens) waits as long as \"{b}\" ({} tokens): {} where all prompts of its class take {} to compute",
        count(tokens(short)?),
        count(tokens(long)?),
        seconds(late),
        seconds(own_s)
    );
    Some((why, vec![figure(name, late, "s", a), figure(name, long_late, "s", b)]))
}

/// The slowest class of short requests and the longest prefill, where that class waits for less than a quarter of it.
fn not_held_up(evidence: &Evidence) -> Option<(f64, f64)> {
    let rows: Vec<&Point> = evidence.figures.points().filter(|point| point.about("class").is_some()).collect();
    let long = rows.iter().filter_map(|point| Some((prefill_of(point)?, point.about("class")?))).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let shorts = rows.iter().filter(|point| point.about("class") != Some(long.1)).filter_map(|point| wait_of(point));
    let wait_s = shorts.reduce(f64::max)?;
    (wait_s < 0.5 * *SAME_WAIT.start() * long.0).then_some((wait_s, long.0))
}

/// Another arm that limits long prefills serves the same class clearly sooner.
fn helped_by_limit(situation: &Situation<'_>) -> Option<(String, Vec<Row>)> {
    let here = situation.evidence;
    let limit = |evidence: &Evidence| evidence.settings.number("config.long_prefill_token_threshold").filter(|&tokens| tokens > 0.0);
    let policy = |evidence: &Evidence| {
        evidence.settings.get("config.scheduling_policy").map(|setting| setting.value.to_ascii_lowercase()).unwrap_or_default()
    };
    let gives_way = |arm: &&Evidence| {
        (limit(here).is_none() && limit(arm).is_some()) || (policy(arm).contains("priority") && !policy(here).contains("priority"))
    };
    let arm = situation.other_arms().find(gives_way)?;
    let whole = ["client.ttft.p99", "client.ttft", "client.ttft.p50", "client.ttft.mean"]
        .iter()
        .find_map(|name| here.figures.get(name).zip(arm.figures.get(name)));
    let by_class = || {
        here.figures.points().find_map(|mine| {
            let class = mine.about("class")?;
            let theirs = arm.figures.points().find(|point| point.about("class") == Some(class))?;
            wait_of(mine).zip(wait_of(theirs)).filter(|(mine, theirs)| *mine >= RUN_SPREAD * theirs)
        })
    };
    let (mine, theirs) = whole.filter(|(mine, theirs)| *mine >= RUN_SPREAD * theirs).or_else(by_class)?;
    let why = format!("with long prompts held back, waits of {} become {} (\"{}\")", seconds(mine), seconds(theirs), arm.run_name);
    Some((why, vec![figure("wait", mine, "s", "this arm"), figure("wait", theirs, "s", &arm.run_name)]))
}
