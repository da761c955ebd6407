//! The engine's main thread is ready to run and does not get a CPU.

mod by_trace;

use crate::check::{Answer, Found, Missing, check, clear, figure};
use crate::claims::{Basis, Claim, Extent};
use crate::contract::{Direction, Evidence as Row, Quantity};
use crate::contrast::{RUN_SPREAD, better_arm};
use crate::evidence::Evidence;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::readings::{counted, peak, typical};
use crate::record;
use crate::remedy::{self, token_time_stays};
use crate::runqueue::{MainThread, by_cpu, machine_and_own_s, main_threads};
use crate::situation::Situation;
use crate::symptom::{MATERIAL_EXCESS, excess_s};
use crate::words::{count, digits, percent, seconds};

check! {
    /// The engine waits for a CPU: others, its own threads or a quota take it.
    ///
    /// ## Why it costs time
    /// Each step needs the engine core's main thread to schedule, to launch and to hand tokens out. While it stands in the run
    /// queue of the kernel nothing of that happens, and everybody in the batch waits for it.
    ///
    /// ## How to confirm
    /// Run-queue wait of the engine core's main thread (`/proc/PID/schedstat`, second number) is 20 % or more of its wait and
    /// run together; quiet machines show 1 %. Or the cgroup is throttled. Threads far beyond cores alone prove nothing.
    ///
    /// ## Fix
    /// Give the engine cores of its own (pinning, an exclusive CPU set, a larger quota), move what takes them away, fewer
    /// threads in its pools. Run-queue wait falls to its quiet value and step time by the same share.
    ///
    /// ## When this is wrong
    /// Host code that runs all the time (`host_bound_engine`); API threads that wait in short bursts on any healthy server;
    /// a core at 100 % that nobody else wants.
    id: "cpu_starvation", layer: Scheduling, rank: 12, phases: [Transfer, Api, Queue, Prefill, Decode, Idle], bound: "host", validated_on: "simulated", run: find,
}

/// Wait over wait and run of the core's main thread (attribution, section 0.6): healthy 0.2 to 1.2 %, up to 18 % pinned beside
/// its API server; faults 90 to 360 % of run.
const STARVED: f64 = 0.2;
/// A stretch this long in which the thread waits at least as long as it runs is no burst, however long the rest is quiet.
const STRETCH_S: f64 = 8.0;
/// Throttled share of the window (attribution, section 6).
const THROTTLED: f64 = 0.01;
/// Runnable threads over cores from which each waits for a third of its time.
const CROWDED: f64 = 1.5;
/// Settings under which ranks exchange tokens at every layer.
const ONE_ENGINE: [&str; 5] = [
    "config.expert_parallel",
    "config.enable_expert_parallel",
    "config.enable_dp_attention",
    "config.dp_attention",
    "config.enable_attention_dp",
];

fn find(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    let threads = main_threads(evidence, &["engine_core", "worker"]);
    let Some(worst) = threads.iter().max_by(|a, b| a.felt.total_cmp(&b.felt)) else {
        return by_trace::answer(situation).unwrap_or_else(|| from_figures(situation));
    };
    if worst.felt.max(worst.share()) < STARVED && worst.worst_stretch_s < STRETCH_S {
        if let Some(found) = starved_api(situation) {
            return Answer::Found(Box::new(found));
        }
        return clear(
            vec![("wait_share", worst.share())],
            format!("the main thread of {} waited for a CPU for {} of its busy time", worst.role, percent(worst.share())),
        );
    }
    Answer::Found(Box::new(measured(situation, worst, &threads)))
}

/// The API process waits for a CPU as long as it runs, or longer, and requests spend time between the caller and the core
/// that nothing else covers. On a healthy server it waits in short bursts too, so only those seconds count.
fn starved_api(situation: &Situation<'_>) -> Option<Found> {
    let threads = main_threads(situation.evidence, &["api_server"]);
    let worst = threads.iter().max_by(|a, b| a.wait_s.total_cmp(&b.wait_s)).filter(|thread| thread.wait_s >= thread.run_s)?;
    let waited_s = threads.iter().map(|thread| thread.wait_s).sum::<f64>() / situation.n();
    let uncovered = [(Phase::Transfer, situation.phase_s(Phase::Transfer)), (Phase::Api, excess_s(situation, Phase::Api))];
    let (mut left, mut claims) = (waited_s, Vec::new());
    for (phase, room) in uncovered {
        let taken = left.min(room);
        left -= taken;
        let share = situation.share_of(phase, taken);
        claims.push(Claim { phase, what: Extent::Fraction { lo: 0.5 * share, mid: share, hi: share }, basis: Basis::Derived });
    }
    let owned_s = waited_s - left;
    let first_s = situation.account.first_token_mean_s();
    if owned_s < MATERIAL_EXCESS * first_s || first_s <= 0.0 {
        return None;
    }
    let why = format!("the main thread of {} waited {} for a CPU and ran {}", worst.role, seconds(worst.wait_s), seconds(worst.run_s));
    let rows = vec![
        figure("proc.runqueue_wait", worst.wait_s, "s", &format!("host counters of {}", worst.role)),
        figure("time between caller and core that nothing covers", owned_s, "s", "client and server times"),
    ];
    let thief = thief(situation.evidence, worst);
    Some(Found {
        claims,
        cost: Some(Quantity { value: owned_s, unit: "s".into() }),
        ..found(situation, &why, &thief, rows, Some(worst.share()))
    })
}

fn measured(situation: &Situation<'_>, worst: &MainThread, threads: &[MainThread]) -> Found {
    // Several engines: requests are spread over them; what the mean request felt is the mean.
    let felt = threads.iter().map(|thread| thread.felt).sum::<f64>() / threads.len() as f64;
    let claim = |phase, lo: f64, mid: f64, hi: f64| Claim { phase, what: Extent::Fraction { lo, mid, hi }, basis: Basis::Derived };
    let mut claims = vec![claim(Phase::Prefill, 0.8 * felt, felt, felt), claim(Phase::Decode, 0.8 * felt, felt, felt)];
    // Longer steps let requests pile up: of the wait before a step at least that share is theirs, at most all.
    claims.extend([Phase::Api, Phase::Queue].map(|phase| claim(phase, 0.8 * felt, felt, 1.0)));
    claims.retain(|claim| situation.phase_s(claim.phase) > 0.0);
    let thief = thief(situation.evidence, worst);
    let cost_s = felt * (situation.phase_s(Phase::Prefill) + situation.phase_s(Phase::Decode));
    let why = format!("the main thread of {} waited {} for a CPU and ran {}", worst.role, seconds(worst.wait_s), seconds(worst.run_s));
    let mut rows = vec![
        figure("proc.runqueue_wait", worst.wait_s, "s", &format!("host counters of {}", worst.role)),
        figure("proc.run_time", worst.run_s, "s", &format!("host counters of {}", worst.role)),
        figure("wait share while requests ran", felt, "ratio", "host counters and scrapes"),
    ];
    let (machine_s, own_s) = machine_and_own_s(situation.evidence);
    rows.push(figure("CPU of other processes", (machine_s - own_s).max(0.0), "s", "whole machine less the processes of the run"));
    Found {
        cost: (cost_s > 0.0).then(|| Quantity { value: cost_s, unit: "s".into() }),
        claims,
        ..found(situation, &why, &thief, rows, Some(felt))
    }
}

/// Who had the CPU meanwhile, as far as the counters tell.
fn thief(evidence: &Evidence, worst: &MainThread) -> String {
    let throttled: f64 =
        evidence.host.iter().filter(|(name, _)| name.starts_with("host.cpu_throttled")).map(|(_, series)| series.growth()).sum();
    if throttled > 0.5 * worst.wait_s {
        return format!("the cgroup's quota (throttled {})", seconds(throttled));
    }
    let (machine_s, own_s) = machine_and_own_s(evidence);
    let foreign_s = (machine_s - own_s).max(0.0);
    if foreign_s >= 0.5 * worst.wait_s {
        return format!("other processes of the machine ({} of CPU)", seconds(foreign_s));
    }
    match by_cpu(evidence).into_iter().find(|(role, _)| *role != worst.role) {
        Some((role, cpu_s)) if cpu_s >= 0.5 * worst.wait_s => format!("{role} beside it ({} of CPU)", seconds(cpu_s)),
        _ => "threads of its own or of its cores' neighbors".into(),
    }
}

fn from_figures(situation: &Situation<'_>) -> Answer {
    let evidence = situation.evidence;
    if let Some((share, row)) = typed_wait(evidence) {
        if share < STARVED {
            return clear(vec![("wait_share", share)], format!("threads wait for a CPU for {} of their busy time", percent(share)));
        }
        let why = format!("its threads wait for a CPU for {} of their busy time", percent(share));
        return Answer::Found(Box::new(typed(situation, &why, vec![row], share)));
    }
    if let Some(answer) = quota(situation) {
        return answer;
    }
    if let Some(better) = better_arm(situation, |arm| more_cpu(evidence, arm)) {
        let why = format!("with more CPU the same load is {} times as fast ({})", digits(better.ratio), better.text());
        let rows =
            vec![figure(better.quantity, better.here, "", "this arm"), figure(better.quantity, better.there, "", &better.arm.run_name)];
        return Answer::Found(Box::new(typed(situation, &why, rows, better.saved())));
    }
    if let Some((why, rows)) = replicas_hinder(situation) {
        return Answer::Found(Box::new(typed(situation, &why, rows, 0.0)));
    }
    let crowd = peak(evidence, "host.load")
        .zip(peak(evidence, "host.cores").or_else(|| peak(evidence, "host.cpu_quota")))
        .filter(|_| !evidence.has_timeline());
    if let Some((load, cores)) = crowd.filter(|(load, cores)| *load >= CROWDED * cores) {
        let why = format!("{} threads are runnable on {} cores", digits(load), count(cores));
        let rows = vec![figure("host.load", load, "", "as given"), figure("host.cores", cores, "count", "as given")];
        return Answer::Found(Box::new(typed(situation, &why, rows, 1.0 - cores / load)));
    }
    Answer::CannotTell(Missing {
        signals: vec!["proc.runqueue_wait{role=\"engine_core\"}".into(), "host.cpu_throttled".into()],
        because: "no run-queue wait of the engine's threads was recorded".into(),
        // What starves a server all the time is inside its own law; only what exceeds that law is judged here.
        at_most_s: evidence.has_timeline().then_some(0.0),
        record_with: record::HOST.into(),
        record_cost: record::HOST_COST.into(),
    })
}

/// Run-queue wait typed as seconds beside run time, over one step, or as the only time given.
fn typed_wait(evidence: &Evidence) -> Option<(f64, Row)> {
    let labelled = evidence
        .figures
        .by_label("proc.runqueue_wait", "role")
        .into_iter()
        .filter(|(role, _)| !role.contains("client"))
        .map(|(_, wait)| wait);
    let wait = evidence.figures.anywhere("proc.runqueue_wait").into_iter().chain(labelled).reduce(f64::max)?;
    let ran = evidence.figures.by_label("proc.run_time", "role").into_iter().map(|(_, run)| run);
    let run = evidence.figures.anywhere("proc.run_time").into_iter().chain(ran).reduce(f64::max);
    let whole = run
        .map(|run| run + wait)
        .or_else(|| typical(evidence, "engine.step_time"))
        .or_else(|| evidence.figures.anywhere("client.duration"))?;
    Some(((wait / whole).min(1.0), figure("proc.runqueue_wait", wait, "s", "as given")))
}

/// A cgroup that is throttled, or whose quota is all used.
fn quota(situation: &Situation<'_>) -> Option<Answer> {
    let evidence = situation.evidence;
    let throttled = counted(evidence, "host.cpu_throttled").or_else(|| peak(evidence, "host.cpu_throttled"));
    let over = evidence.figures.anywhere("client.duration");
    if let Some((throttled, over)) = throttled.zip(over) {
        let share = throttled / over;
        if share <= THROTTLED {
            return Some(clear(vec![("throttled_share", share)], format!("the cgroup is throttled for {}", percent(share))));
        }
        let why = format!("the cgroup is throttled for {} of {}", seconds(throttled), seconds(over));
        return Some(Answer::Found(Box::new(typed(
            situation,
            &why,
            vec![figure("host.cpu_throttled", throttled, "s", "as given")],
            share.min(1.0),
        ))));
    }
    if let Some(throttled) = throttled.filter(|&throttled| throttled > 0.0) {
        let why = format!("the cgroup is throttled for {}", seconds(throttled));
        return Some(Answer::Found(Box::new(typed(situation, &why, vec![figure("host.cpu_throttled", throttled, "s", "as given")], 0.0))));
    }
    let (quota, used) = peak(evidence, "host.cpu_quota").zip(evidence.figures.anywhere("proc.cpu"))?;
    (used >= 0.95 * quota).then(|| {
        let why = format!("the process uses {} cores of a quota of {}", digits(used), digits(quota));
        let rows = vec![figure("host.cpu_quota", quota, "count", "as given"), figure("proc.cpu", used, "", "as given")];
        Answer::Found(Box::new(typed(situation, &why, rows, 0.0)))
    })
}

/// Independent engines with a device each serve less together than one does alone. A front or a client that is full would
/// give as much as before; less than before is done where they take something from one another, and they share the host.
fn replicas_hinder(situation: &Situation<'_>) -> Option<(String, Vec<Row>)> {
    let here = situation.evidence;
    let replicas = |arm: &Evidence| arm.settings.number("config.data_parallel");
    let mine = replicas(here).filter(|&mine| mine > 1.5)?;
    // Ranks that exchange tokens at every layer are not independent.
    let is_one_engine =
        ONE_ENGINE.iter().any(|key| here.settings.flag(key) == Some(true) || here.settings.number(key).is_some_and(|n| n > 1.5));
    let devices = |arm: &Evidence| arm.settings.number("config.tensor_parallel").unwrap_or(1.0);
    let rate = |arm: &Evidence| {
        ["client.throughput.requests", "client.throughput.output", "client.throughput.total"]
            .into_iter()
            .find_map(|name| Some((name, arm.figures.typical(name)?)))
    };
    let (name, together) = rate(here)?;
    let single = situation.other_arms().filter(|arm| replicas(arm).is_some_and(|theirs| theirs < 1.5) && devices(arm) <= devices(here));
    let (arm, alone) =
        single.filter_map(|arm| Some((arm, rate(arm).filter(|(other, _)| *other == name)?.1))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (!is_one_engine && together * RUN_SPREAD <= alone).then(|| {
        let why = format!(
            "{} engines with devices of their own serve {} together, one alone {} (\"{}\"): they hinder one another on the host they share",
            count(mine),
            digits(together),
            digits(alone),
            arm.run_name
        );
        (why, vec![figure(name, together, "", "this arm"), figure(name, alone, "", &arm.run_name)])
    })
}

/// The other arm has more cores, more quota, or fewer threads on them.
fn more_cpu(here: &Evidence, arm: &Evidence) -> bool {
    let pair = |name: &str| peak(here, name).zip(peak(arm, name));
    let more = ["host.cores", "host.cpu_quota"].iter().any(|name| pair(name).is_some_and(|(mine, theirs)| theirs > mine));
    let fewer =
        pair("proc.threads").is_some_and(|(mine, theirs)| theirs < mine && peak(here, "host.cores").is_none_or(|cores| mine > cores));
    let calmer = pair("host.load").is_some_and(|(mine, theirs)| theirs < mine)
        || pair("proc.runqueue_wait").is_some_and(|(mine, theirs)| theirs < mine);
    more || fewer || calmer
}

fn typed(situation: &Situation<'_>, why: &str, rows: Vec<Row>, share: f64) -> Found {
    let sized: Vec<Claim> = [Phase::Decode, Phase::Prefill]
        .into_iter()
        .filter(|&phase| share > 0.0 && situation.phase_s(phase) > 0.0)
        .map(|phase| Claim {
            phase,
            what: Extent::Fraction { lo: 0.5 * share, mid: share, hi: share.max(0.9 * share) },
            basis: Basis::Typed,
        })
        .collect();
    Found { claims: sized, ..found(situation, why, "not told", rows, Some(share).filter(|&share| share > 0.0)) }
}

fn found(situation: &Situation<'_>, why: &str, thief: &str, rows: Vec<Row>, share: Option<f64>) -> Found {
    let wait = Movement::new("proc.runqueue_wait", "run-queue wait share", "ratio", Direction::Down, share);
    let wait = match share {
        Some(share) => wait.to(0.0, (0.25 * share).min(0.1), "to its quiet value"),
        None => wait.refused("the wait itself was not measured: direction only"),
    };
    let hypothesis = remedy::outside("CPUs", "give the engine cores of its own, or move away what takes them")
        .moves(wait)
        .guards(token_time_stays(situation))
        .risk("others on the machine get less", "the run-queue wait stays where it is")
        .build();
    Found {
        summary: format!("{why}; taken by: {thief}"),
        sentence: format!("The engine is starved of CPU: {why}. Taken by: {thief}."),
        evidence: rows,
        hypotheses: vec![hypothesis],
        falsified_by: "the same run-queue wait in a quiet hour with the usual step time".into(),
        ..Found::default()
    }
}
