//! The device waits for the engine's own host code between steps.
//!
//! One core at 100 % proves nothing: engines busy-poll. What counts is device time that is not used while requests run.

mod by_trace;

use crate::account::loaded_row;
use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Quantity};
use crate::contrast::{better_arm, numbers, texts};
use crate::evidence::Evidence;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{offered, peak, typical};
use crate::record;
use crate::remedy::{self, throughput_stays};
use crate::situation::Situation;
use crate::words::{count, digits, percent, seconds};

check! {
    /// Steps are separated by host time: scheduling, sampling, detokenizing, messages between processes.
    ///
    /// ## Why it costs time
    /// Between two steps the engine picks who runs next, prepares inputs, samples and hands tokens out. What is not
    /// overlapped with the device is added to every token of every request, and it grows with the number that run. A fast
    /// device makes it worse: its share is larger.
    ///
    /// ## How to confirm
    /// `engine.host_gap` over the step time while requests run; or where the serving process spends its time
    /// (`engine.time_share` by part); or a device that idles (`gpu.busy` well below 1) with a full batch while the engine's
    /// interpreter lock is waited for. The same load with asynchronous scheduling or more API processes is faster. Where
    /// asynchronous scheduling is known to be off, the step law tells as well: a constant part of a step in which the device
    /// could compute more prompt tokens than any GPU needs to read its weights is not the device's.
    ///
    /// ## Fix
    /// Asynchronous scheduling, several steps per scheduling round, more API processes, a faster CPU core. The gap falls and
    /// time per token by the same seconds.
    ///
    /// ## When this is wrong
    /// Gaps between launches inside a step (`launch_bound_steps`), synchronizations (`unexpected_syncs`); CPUs taken by others
    /// (`cpu_starvation`); a device bound by bandwidth, beside a polling core.
    id: "host_bound_engine", layer: Scheduling, rank: 50, phases: [Decode, Prefill, Api, Idle], bound: "host", validated_on: "report", run: find,
}

/// Gap over step from which it is material: at half of it, an asynchronous scheduler would gain less than two runs differ.
const GAP_SHARE: f64 = 0.2;
/// Time outside the device, of the serving process, from which the device is the smaller part of what can be gained.
const HOST_SHARE: f64 = 0.4;
/// A device busy for less than this with many requests running waits for somebody.
const IDLE_DEVICE: f64 = 0.7;
/// Requests at once from which a decode step is no longer as short as its launch.
const MANY: f64 = 8.0;
/// Interpreter lock waited for by this share of the time.
const LOCKED: f64 = 0.25;

/// What shows the host time.
struct Host {
    why: String,
    /// Share of decode: low, middle, high; `None` where nothing sizes it.
    share: Option<[f64; 3]>,
    rows: Vec<Row>,
    /// Claims and cost by a profiler's recording, where there is one.
    recorded: Option<(Vec<Claim>, Option<Quantity>)>,
}

fn find(situation: &Situation<'_>) -> Answer {
    match by_trace::host(situation) {
        Some(Ok(host)) => return Answer::Found(Box::new(found(situation, host))),
        Some(Err(answer)) => return answer,
        None => {}
    }
    let found_in = gap(situation);
    if let Some(Err(share)) = found_in {
        return clear(vec![("gap_share", share)], format!("the gap between steps is {} of a step", percent(share)));
    }
    let found_in = found_in
        .and_then(Result::ok)
        .or_else(|| time_share(situation))
        .or_else(|| idle_device(situation))
        .or_else(|| arms(situation))
        .or_else(|| by_law(situation).and_then(|(host, _)| host));
    if let Some(host) = found_in {
        return Answer::Found(Box::new(found(situation, host)));
    }
    let evidence = situation.evidence;
    if evidence.has_timeline() && situation.subject.device == "CPU" {
        return clear(vec![], "the device is the CPU: computing and scheduling share one thread");
    }
    Answer::CannotTell(Missing {
        signals: vec!["engine.host_gap".into(), "engine.time_share".into(), "gpu.busy".into()],
        because: "no signal tells the time between steps from the time inside them".into(),
        // A constant gap is inside the server's own law: it exceeds nothing that is judged here, unless the law's constant is
        // longer than any device needs.
        at_most_s: evidence.has_timeline().then(|| by_law(situation).map_or(0.0, |(_, at_most_s)| at_most_s)),
        record_with: record::PROFILE.into(),
        record_cost: record::PROFILE_COST.into(),
    })
}

/// The gap between steps, as measured: found, or its small share.
fn gap(situation: &Situation<'_>) -> Option<Result<Host, f64>> {
    let evidence = situation.evidence;
    // In a sweep gap and whole are of one row, the most loaded: that is where it is slow.
    let row = loaded_row(&evidence.figures, "engine.host_gap");
    let of = |name: &str| row.and_then(|row| row.typical(name)).or_else(|| typical(evidence, name));
    let gap_s = of("engine.host_gap")?;
    // A token waits for step and gap; where that was measured itself it is the whole.
    let gaps_s = of("client.itl").or_else(|| of("server.itl")).or_else(|| of("engine.step_time").map(|step| step + gap_s));
    // A step with accepted drafts makes several tokens.
    let per_step = of("spec.acceptance_length").unwrap_or(1.0).max(1.0);
    let whole_s = gaps_s.or_else(|| of("client.tpot").or_else(|| of("server.tpot")).map(|tpot| tpot * per_step))?;
    let share = gap_s / whole_s.max(gap_s);
    if share < GAP_SHARE {
        return Some(Err(share));
    }
    Some(Ok(Host {
        recorded: None,
        why: format!("{} pass between steps, {} of the time per token", seconds(gap_s), percent(share)),
        share: Some([0.8 * share, share, share]),
        rows: vec![figure("engine.host_gap", gap_s, "s", "as given"), figure("gap over time per token", share, "ratio", "as given")],
    }))
}

/// Where the serving process spends its time.
fn time_share(situation: &Situation<'_>) -> Option<Host> {
    let parts = situation.evidence.figures.by_label("engine.time_share", "part");
    let is_device = |part: &str| ["device", "gpu", "model", "forward"].iter().any(|word| part.to_ascii_lowercase().contains(word));
    let device: f64 = parts.iter().filter(|(part, _)| is_device(part)).map(|(_, share)| share).sum();
    let host: f64 = parts.iter().filter(|(part, _)| !is_device(part)).map(|(_, share)| share).sum();
    let host = if device > 0.0 { host.max(1.0 - device).min(1.0) } else { host };
    let named: Vec<String> = parts.iter().map(|(part, share)| format!("{part} {}", percent(*share))).collect();
    (host >= HOST_SHARE).then(|| Host {
        recorded: None,
        why: format!("{} of the serving time is not the device's ({})", percent(host), named.join(", ")),
        share: Some([0.6 * host, 0.9 * host, host]),
        rows: parts.iter().map(|(part, share)| figure(&format!("engine.time_share.{part}"), *share, "ratio", "as given")).collect(),
    })
}

/// A device that idles under a full batch while the engine's host code is what is busy or locked.
fn idle_device(situation: &Situation<'_>) -> Option<Host> {
    let evidence = situation.evidence;
    let busy = ["gpu.busy", "gpu.sm_active"].iter().find_map(|name| typical(evidence, name))?;
    let running = typical(evidence, "engine.running").or_else(|| peak(evidence, "engine.running")).or_else(|| offered(evidence))?;
    let locked = typical(evidence, "proc.gil_wait").filter(|&wait| wait >= LOCKED);
    let core = host_core(evidence);
    // Gaps inside steps have their own check; where they are known this one does not guess.
    let inside = ["kernel.launch_gap", "kernel.sync_wait", "comm.exposed_time", "comm.time"]
        .iter()
        .any(|name| evidence.figures.anywhere(name).is_some());
    if busy >= IDLE_DEVICE || running < MANY || inside || (locked.is_none() && core.is_none()) {
        return None;
    }
    let who = match (locked, core) {
        (Some(wait), _) => format!("the interpreter lock is waited for {} of the time", percent(wait)),
        (None, core) => format!("the engine's main process uses {} of a core", percent(core.unwrap_or(1.0))),
    };
    Some(Host {
        recorded: None,
        why: format!("the device is busy {} with {} requests running, and {who}", percent(busy), count(running)),
        share: Some([0.4 * (1.0 - busy), 0.8 * (1.0 - busy), 1.0 - busy]),
        rows: vec![figure("gpu.busy", busy, "ratio", "as given"), figure("engine.running", running, "request", "as given")],
    })
}

/// CPU of the engine's scheduling process, of one core, where it fills about one.
fn host_core(evidence: &Evidence) -> Option<f64> {
    let labelled = ["role", "process"].into_iter().flat_map(|label| evidence.figures.by_label("proc.cpu", label));
    let of_engine = labelled.filter(|(who, _)| ["engine", "scheduler", "core"].iter().any(|word| who.to_ascii_lowercase().contains(word)));
    let plain = evidence.figures.anywhere("proc.cpu");
    of_engine.map(|(_, cpu)| cpu).chain(plain).find(|cpu| (0.9..=1.2).contains(cpu))
}

/// An arm with asynchronous scheduling or more API processes that does better.
fn arms(situation: &Situation<'_>) -> Option<Host> {
    let here = situation.evidence;
    let flag = |evidence: &Evidence| evidence.settings.flag("config.async_scheduling");
    let overlaps =
        |arm: &Evidence| flag(here) == Some(false) && flag(arm) == Some(true) && texts(here, arm, "config.async_scheduling").is_some();
    let more = |arm: &Evidence| numbers(here, arm, "config.api_processes").is_some_and(|(mine, theirs)| theirs > mine);
    let better = better_arm(situation, |arm| overlaps(arm) || more(arm))?;
    let saved = better.saved();
    Some(Host {
        recorded: None,
        why: format!(
            "with {} the same load is {} times as fast ({})",
            if overlaps(better.arm) { "asynchronous scheduling" } else { "more API processes" },
            digits(better.ratio),
            better.text()
        ),
        share: Some([0.6 * saved, saved, saved]),
        rows: vec![figure(better.quantity, better.here, "", "this arm"), figure(better.quantity, better.there, "", &better.arm.run_name)],
    })
}

/// Prompt tokens whose computing takes as long as reading the weights once (B* = F b / 2 W, whatif.md, section 2): 419 on the
/// GPU of the table where that is most, with two fifths more for kernels that reach less of the bandwidth than of the
/// arithmetic; the most itself; the least.
const RIDGE_TOKENS: [f64; 3] = [600.0, 420.0, 150.0];

/// Scheduling is known to wait for the device and the device for scheduling, and a step has a constant part that no GPU needs
/// for its weights: measured in the prompt tokens that the same device computes meanwhile it lies beyond every ridge. What a
/// token costs is taken as measured, so that a device that computes badly only makes the bound safer. Beside the finding,
/// which there is when the surest bound is material, the seconds per request that it could be at most.
fn by_law(situation: &Situation<'_>) -> Option<(Option<Host>, f64)> {
    let is_serial = situation.evidence.settings.flag("config.async_scheduling") == Some(false);
    if !is_serial || !situation.is_timed() || situation.subject.device == "CPU" {
        return None;
    }
    let law = situation.law.known().filter(|law| law.c_s > 0.0)?;
    let step_s = law.step_s(situation.load.running_mean.max(1.0), 0.0);
    let host_s = RIDGE_TOKENS.map(|tokens| (law.a_s - 2.0 * law.a_se - tokens * (law.c_s + 2.0 * law.c_se)).max(0.0));
    let share = host_s.map(|host| (host / step_s).min(1.0));
    let at_most_s = if host_s[1] > 0.0 { share[2] * situation.phase_s(Phase::Decode) } else { 0.0 };
    let host = (share[0] >= GAP_SHARE).then(|| Host {
        recorded: None,
        why: format!(
            "scheduling does not overlap the device, and a step takes {} even alone, in which the device could compute {} prompt tokens: at least {} of it are not its weights",
            seconds(law.a_s),
            count(law.a_s / law.c_s),
            seconds(host_s[0])
        ),
        share: Some(share),
        rows: vec![
            figure("constant part of a step", law.a_s, "s", "step law"),
            figure("cost of a prompt token", law.c_s, "s", "step law"),
            figure("host time per step, at least", host_s[0], "s", "beyond the ridge of every GPU"),
        ],
    });
    Some((host, at_most_s))
}

fn found(situation: &Situation<'_>, host: Host) -> Found {
    let is_by_law = situation.is_timed() && typical(situation.evidence, "engine.host_gap").is_none();
    let Host { why, share, rows, recorded } = host;
    let decode_s = situation.phase_s(Phase::Decode);
    let typed = share.filter(|_| decode_s > 0.0);
    let (claims, cost) = recorded.unwrap_or_else(|| {
        let claim = |[lo, mid, hi]: [f64; 3]| Claim {
            phase: Phase::Decode,
            what: Extent::Fraction { lo, mid, hi },
            basis: if is_by_law { Basis::Derived } else { Basis::Typed },
        };
        (typed.map(claim).into_iter().collect(), typed.map(|[_, mid, _]| Quantity { value: mid * decode_s, unit: "s".into() }))
    });
    let gap_s = typical(situation.evidence, "engine.host_gap");
    let gap = Movement::new("engine.host_gap", "host gap", "s", Direction::Down, gap_s);
    let gap = match gap_s {
        None if is_by_law && share.is_some() => overlapped(situation, share.unwrap_or_default()),
        Some(gap_s) => gap.to(0.0, 0.5 * gap_s, "scheduled while the device works"),
        None => gap.refused("the gap itself was not measured: direction only"),
    };
    let hypothesis = remedy::setting(situation, "async_scheduling", "on")
        .saying("overlap scheduling with the device (asynchronous scheduling), or split the API process from the engine core")
        .moves(gap)
        .guards(throughput_stays(situation))
        .risk("some features are not served with overlapped scheduling", "outputs differ or throughput falls")
        .build();
    Found {
        summary: why.clone(),
        sentence: format!("The engine's host code holds the device: {why}."),
        cost,
        claims,
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "a device timeline without gaps between steps".into(),
        ..Found::default()
    }
}

/// Overlapped, a step takes the longer of host and device instead of their sum.
fn overlapped(situation: &Situation<'_>, [lo, _, hi]: [f64; 3]) -> Movement {
    let now_s = situation.evidence.mean("server.tpot");
    let movement = Movement::new("server.tpot.mean", "TPOT mean", "s", Direction::Down, now_s);
    let left = |host: f64| host.max(1.0 - host);
    let (best, worst) = (left(lo).min(left(hi)).min(if lo <= 0.5 && hi >= 0.5 { 0.5 } else { 1.0 }), left(lo).max(left(hi)));
    match now_s {
        Some(s) => movement.to(0.9 * best * s, worst.min(0.97) * s, "the longer of host and device instead of both"),
        None => movement.refused("time per token was not measured: direction only"),
    }
}
