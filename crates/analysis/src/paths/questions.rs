//! The questions of the decision paths.

use crate::contract::Layer;
use crate::evidence::Series;
use crate::gates::{Gate, KV_NEAR_FULL, budget_share};
use crate::law::coalesced_share;
use crate::phase::Phase;
use crate::precedence::SHARING_ID;
use crate::seats::{Headroom, headroom};
use crate::settlement::Settlement;
use crate::situation::Situation;
use crate::symptom::excess_s;
use crate::words::{count, digits, percent, seconds};

/// A question and how it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// As asked.
    pub text: &'static str,
    /// In a few words.
    pub short: &'static str,
    /// The answer.
    pub ask: fn(&Situation<'_>, &Settlement) -> Asked,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// `yes`, `no`, a word, or `cannot tell`.
    pub answer: String,
    /// The number that answered it, or what is missing.
    pub because: String,
    /// A layer this answer eliminates.
    pub eliminates: Option<Layer>,
    /// True when nothing after it would add.
    pub ends_path: bool,
}

impl Asked {
    fn new(answer: &str, because: impl Into<String>) -> Self {
        Self { answer: answer.into(), because: because.into(), ..Self::default() }
    }

    fn yes_no(yes: bool, because: impl Into<String>) -> Self {
        Self::new(if yes { "yes" } else { "no" }, because)
    }

    fn cannot_tell(missing: &str) -> Self {
        Self::new("cannot tell", missing)
    }

    fn eliminating(mut self, layer: Layer, when: &str) -> Self {
        if self.answer == when {
            self.eliminates = Some(layer);
        }
        self
    }

    /// The reason up to its first semicolon; empty for what could not be told.
    pub fn brief(&self) -> &str {
        if self.answer == "cannot tell" { "" } else { self.because.split(';').next().unwrap_or_default() }
    }
}

macro_rules! question {
    ($name:ident, $short:literal, $text:literal, $ask:expr) => {
        #[doc = $text]
        pub(super) const $name: Question = Question { text: $text, short: $short, ask: $ask };
    };
}

question!(
    SLOW_BEFORE_FIRST,
    "slow before the first token?",
    "Is the time before the first token in excess, with decoding normal?",
    |s, _| {
        let first = s.account.first_token_mean_s();
        let excess = (first - s.floors.first_token_s()).max(0.0);
        if s.account.is_empty() {
            return Asked::cannot_tell("no request was measured");
        }
        Asked::yes_no(
            excess >= 0.25 * first,
            format!("{} of {}; beyond the reference, decode takes {}", seconds(excess), seconds(first), seconds(s.phase_s(Phase::Decode))),
        )
    }
);

question!(CLIENT_GAP, "lost outside the server?", "Does the client wait longer for the first token than the server takes?", |s, _| {
    let Some(server) = s.evidence.mean("server.ttft") else { return Asked::cannot_tell("no server histogram") };
    if s.evidence.client.is_empty() {
        return Asked::cannot_tell("no client evidence");
    }
    let client = s.account.first_token_mean_s();
    Asked::yes_no(client - server >= 0.25 * server, format!("{} at the client, {} at the server", seconds(client), seconds(server)))
        .eliminating(Layer::Application, "no")
});

question!(QUEUE_OR_PREFILL, "queue or prefill?", "Which is larger before the first token: the queue, or computing the prompt?", |s, _| {
    let (queue, prefill) = (s.phase_s(Phase::Queue), s.phase_s(Phase::Prefill) + s.phase_s(Phase::Api));
    if queue + prefill <= 0.0 {
        return Asked::cannot_tell("no queue or prefill time");
    }
    Asked::new(
        if queue >= prefill { "queue" } else { "prefill" },
        format!("{} queued; {} in api and prefill", seconds(queue), seconds(prefill)),
    )
});

question!(KV_FULL, "KV full?", "Is the KV cache full while requests wait?", |s, _| match s.load.kv_usage_max {
    Some(usage) => Asked::yes_no(usage >= KV_NEAR_FULL, percent(usage)).eliminating(Layer::Memory, "no"),
    None => Asked::cannot_tell("KV usage is not exported"),
});

question!(PREEMPTED, "preempted?", "Were running requests pushed out?", |s, _| match s
    .evidence
    .growth("kv.preemptions")
    .or_else(|| s.evidence.figures.typical("kv.preemptions"))
{
    Some(0.0) => Asked::new("no", "0"),
    Some(preempted) => {
        let finished = s.load.finished_or_typed(s.evidence);
        Asked::new("yes", if finished > 0.0 { format!("{} over {} finished", count(preempted), count(finished)) } else { count(preempted) })
    }
    None => Asked::cannot_tell("no preemption counter"),
});

question!(STEP_AT_BUDGET, "step at token budget?", "Do steps spend the whole token budget?", |s, _| {
    let budget = s.evidence.settings.number("config.max_num_batched_tokens");
    match budget.and_then(|budget| s.evidence.engines.values().find_map(|engine| budget_share(engine, budget))) {
        Some(share) => Asked::yes_no(share >= 0.5, percent(share)),
        None => Asked::cannot_tell("budget or tokens per step unknown"),
    }
});

question!(SEATS_TAKEN, "seats taken?", "Does running stand at a configured number while requests wait?", |s, _| {
    let Some(seats) = s.load.seats else { return Asked::cannot_tell("the seat limit is unknown") };
    if s.load.running_max <= 0.0 {
        return Asked::cannot_tell("how many ran is not known");
    }
    if !s.evidence.has_timeline() {
        return Asked::new(
            if s.load.running_max >= seats { "yes" } else { "no" },
            format!("{} of {}", count(s.load.running_max), count(seats)),
        );
    }
    if s.gates.waited_s <= 0.0 {
        return Asked::new("no", format!("{} of {} at the peak, nobody waited", count(s.load.running_max), count(seats)));
    }
    let share = s.gates.share(Gate::SeqCap);
    Asked::yes_no(share >= 0.5, format!("{} of {} in {} of the waiting", count(s.load.running_max), count(seats), percent(share)))
});

question!(HEADROOM, "headroom with more?", "Could the device carry more sequences?", |s, _| match headroom(&s.law, &s.load) {
    Headroom::Yes(seats) => Asked::new(
        "yes",
        format!(
            "{}x at {}; utilization {} -> {}",
            digits(seats.ceiling_then / seats.ceiling_now),
            count(seats.to),
            percent(seats.rho_now),
            percent(seats.rho_then)
        )
    ),
    Headroom::Maybe { seats, low } => Asked::new(
        if low { "yes" } else { "perhaps" },
        format!(
            "up to {}x at {} seats; the batch did not vary, so only bounds are known",
            digits(seats.ceiling_then / seats.ceiling_now),
            count(seats.to)
        )
    ),
    Headroom::No { rho } => Asked::new("no", format!("utilization stays at {}", percent(rho))),
    Headroom::Unknown => Asked::cannot_tell("no step law from this window"),
});

question!(PREFILL_OWN, "prefill its own?", "Is prefill time what the request's own tokens cost?", |s, _| {
    let (measured, floor) = (s.phase_s(Phase::Prefill), s.floors.s(Phase::Prefill));
    if measured <= 0.0 || floor <= 0.0 {
        return Asked::cannot_tell("no prefill time or no step law");
    }
    Asked::yes_no(measured < 1.5 * floor, format!("{}x its own tokens' cost", digits(measured / floor)))
});

question!(CLIENT_LIMITED, "client the limit?", "Is the load client itself the limit?", |s, _| {
    match s.evidence.client_cpu_s() {
        Some((wait, run)) if run > 0.0 => Asked::yes_no(wait > run, format!("{} s waiting for CPU per second it ran", digits(wait / run))),
        _ => Asked::cannot_tell("the client's own CPU was not recorded"),
    }
});

question!(GATES, "who holds the queue?", "Which limit keeps the next request out?", |s, _| match s.gates.largest() {
    Some((gate, share)) => Asked::new(gate.as_str(), percent(share)),
    None if s.evidence.has_timeline() => Asked::new("nobody", "nothing waited"),
    None => Asked::cannot_tell("no series over time"),
});

question!(HOST_GAP, "host gaps between steps?", "Do gaps between steps grow with the batch?", |s, _| match s
    .evidence
    .figures
    .typical("engine.host_gap")
{
    Some(gap) => Asked::new("measured", seconds(gap)),
    None => Asked::cannot_tell("needs an engine trace or thread samples"),
});

question!(DEVICE_AT_LIMIT, "device at its limit?", "Is the device at a physical limit?", |s, _| {
    let figure = |name: &str| s.evidence.figures.typical(name);
    match (figure("gpu.dram_active"), figure("gpu.tensor_active")) {
        (None, None) => Asked::cannot_tell("needs dram_active and tensor_active"),
        (dram, tensor) => {
            // DCGM's practical maxima: 0.8 for DRAM, 0.6 for the tensor pipe.
            let (dram, tensor) = (dram.unwrap_or(0.0) / 0.8, tensor.unwrap_or(0.0) / 0.6);
            Asked::yes_no(
                dram >= 0.9 || tensor >= 0.9,
                format!("memory {}; tensor {} of what can be reached", percent(dram), percent(tensor)),
            )
        }
    }
});

question!(GROWING, "more arriving than served?", "Does the number of requests in the system grow?", |s, _| {
    if !s.evidence.has_timeline() {
        return Asked::cannot_tell("no series over time");
    }
    let rho = s.rho_at_seats().map_or_else(String::new, |rho| format!("; utilization {}", percent(rho)));
    Asked::yes_no(s.load.growing, format!("{} running at the peak{rho}", count(s.load.running_max)))
});

question!(CLASSIFY, "compute, memory or waiting?", "Do the four dimensions say compute, memory or waiting?", |s, _| {
    let figure = |name: &str| s.evidence.figures.typical(name);
    match (figure("gpu.sm_active"), figure("gpu.dram_active")) {
        (Some(sm), Some(dram)) => Asked::new(
            if dram / 0.8 >= 0.8 {
                "memory"
            } else if sm >= 0.8 {
                "compute"
            } else {
                "waiting"
            },
            format!("dram_active {}, sm_active {}", percent(dram), percent(sm)),
        ),
        _ => Asked::cannot_tell("needs sm_active, dram_active, tensor_active (DCGM profiling fields)"),
    }
});

question!(GAPS, "gaps between kernels?", "Do launches, syncs or the host leave the device idle?", |_, _| Asked::cannot_tell(
    "needs a device trace"
));
question!(GRAPHS, "graphs replayed?", "Are captured graphs replayed?", |s, _| match s.evidence.settings.flag("config.enforce_eager") {
    Some(true) if s.subject.device == "CPU" => Asked::new("no", "a CPU backend has no graphs"),
    Some(true) => Asked::new("no", "enforce_eager is set"),
    _ => Asked::cannot_tell("needs graph share of launches or a trace"),
});
question!(ROOFLINE, "kernels off their roofline?", "Do kernels run below what their bytes and operations allow?", |_, _| {
    Asked::cannot_tell("needs a device trace")
});
question!(FITS_ON_FEWER, "fits on fewer?", "Does the model fit on fewer devices?", |_, _| Asked::cannot_tell(
    "needs weights and memory per device"
));
question!(COMMUNICATION, "communication exposed?", "How much of a step is communication that nothing hides?", |_, _| Asked::cannot_tell(
    "needs a device trace of one step on every rank"
));
question!(SKEW, "skew or transfer?", "Is a collective slow, or does it wait for a late rank?", |_, _| Asked::cannot_tell(
    "needs traces of all ranks on one clock"
));
question!(BUBBLES, "bubbles?", "Do pipeline stages idle in turn?", |_, _| Asked::cannot_tell("needs stage idle times"));
question!(REPLICAS_EVEN, "replicas even?", "Do replicas carry the same load?", |s, _| {
    let means: Vec<f64> = s.evidence.engines.values().filter_map(|engine| engine.series("engine.running")).map(Series::mean).collect();
    if means.len() < 2 {
        return Asked::new("one engine", "");
    }
    let (low, high) = means.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &mean| (low.min(mean), high.max(mean)));
    Asked::yes_no(high <= 2.0 * low || high - low <= 3.0 * high.sqrt(), format!("{} to {} running on average", digits(low), digits(high)))
});
question!(COMPARABLE, "comparable arms?", "Do the arms differ in nothing but the change?", |s, _| {
    if s.baseline.is_some() {
        Asked::new("see verify", "inferoscope verify compares mix, lengths and rates")
    } else {
        Asked::cannot_tell("no arm without the feature")
    }
});
question!(PART_THAT_GREW, "which part grew?", "Which part of the account grew per token?", |s, _| {
    let Some(base) = &s.baseline else { return Asked::cannot_tell("no arm without the feature") };
    let grown = Phase::ALL.into_iter().map(|phase| (phase, s.phase_s(phase) - base.phase_s(phase))).max_by(|a, b| a.1.total_cmp(&b.1));
    grown.map_or_else(|| Asked::cannot_tell("no account"), |(phase, by)| Asked::new(phase.as_str(), format!("by {}", seconds(by))))
});
question!(SPECULATION, "drafts pay?", "Do accepted drafts repay their cost?", |s, _| {
    match s.evidence.growth("spec.accepted_tokens").zip(s.evidence.growth("spec.drafts")) {
        Some((accepted, drafts)) if drafts > 0.0 => Asked::new(
            if accepted / drafts < 0.05 { "no" } else { "perhaps" },
            format!("{} tokens per target step", digits(1.0 + accepted / drafts)),
        ),
        _ => Asked::cannot_tell("no acceptance counters"),
    }
});
question!(CONFIG_DIFFERENCES, "other settings differ?", "Did other settings change with the feature?", |s, _| {
    let Some(base) = &s.baseline else { return Asked::cannot_tell("no arm without the feature") };
    let both =
        base.evidence.settings.differing(&s.evidence.settings).into_iter().filter(|(_, before, after)| before.is_some() && after.is_some());
    let differing: Vec<&str> = both.map(|(key, ..)| key).collect();
    Asked::yes_no(!differing.is_empty(), differing.join(" "))
});
question!(SERVER_CLEAN, "server clean?", "Is the server's own account clean?", |s, _| {
    let inside: f64 = [Phase::Api, Phase::Queue, Phase::Prefill].into_iter().map(|phase| excess_s(s, phase)).sum();
    let Some(server) = s.evidence.mean("server.ttft") else { return Asked::cannot_tell("no server histogram") };
    Asked::yes_no(inside < 0.25 * server, format!("{} of its {} TTFT in excess", seconds(inside), seconds(server)))
});
question!(CONNECT, "connecting?", "Do connections take the time?", |s, _| {
    if s.evidence.client.iter().all(|row| row.t_connected_ns.is_none()) {
        return Asked::cannot_tell("connection times were not recorded");
    }
    let wait = s.phase_s(Phase::Client);
    Asked::yes_no(wait >= 0.25 * s.account.first_token_mean_s(), seconds(wait))
});
question!(GATEWAY_QUEUE, "queued at the gateway?", "Do requests wait at a gateway?", |s, _| {
    if s.evidence.gateway.is_empty() {
        return Asked::cannot_tell("no gateway log");
    }
    let wait = s.phase_s(Phase::Gateway);
    Asked::yes_no(wait >= 0.25 * s.account.first_token_mean_s(), seconds(wait))
});
question!(RHYTHM, "chunks in clumps?", "Do pieces arrive in clumps?", |s, _| {
    if s.evidence.gaps.is_empty() {
        return Asked::cannot_tell("no gaps between pieces were recorded");
    }
    let share = coalesced_share(s.evidence);
    Asked::yes_no(share > 0.2, format!("{} of the gaps; {} held before the first", percent(share), seconds(s.phase_s(Phase::Stream))))
});
question!(RETRIES, "retries?", "Do retries or abandoned requests add load?", |s, _| {
    match s.evidence.growth("server.http_requests") {
        Some(http) if s.load.finished > 0.0 => {
            Asked::yes_no(http > 1.05 * s.load.finished, format!("{} answered; {} finished", count(http), count(s.load.finished)))
        }
        _ => Asked::cannot_tell("no HTTP request counter"),
    }
});
question!(SHARING, "only batching?", "Is the excess what the step law predicts for this batch?", |_, settlement| {
    let share = settlement.share(SHARING_ID).mid;
    Asked::yes_no(share >= 0.75, percent(share))
});
question!(CLOCKS, "clocks down?", "Is the clock that governs the bound below its nominal?", |_, _| Asked::cannot_tell(
    "needs SM and memory clocks over time"
));
question!(PREFILL_STEPS, "gaps beside prefill?", "Do long gaps coincide with steps that compute prompts?", |_, _| Asked::cannot_tell(
    "needs chunk times and step contents"
));
question!(RECOMPILES, "recompiles?", "Does the engine compile after warm-up?", |_, _| Asked::cannot_tell("needs the log at compile level"));
