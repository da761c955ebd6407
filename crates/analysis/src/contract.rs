//! The report: what a diagnosis says, as one versioned document (`inferoscope.report/1`).
//!
//! Analysis fills it, every view reads it, `--json` prints it. Fields are added, never renamed, within a version.
//! All `_ns` fields are integers; seconds appear only where a person reads them.
//!
//! One file though long: it is the one list of what a report may hold, looked up rather than read, and much of it is docs
//! that the JSON schema prints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::whatif::Range;

/// Schema id of [`Report`].
pub const REPORT_SCHEMA: &str = "inferoscope.report/1";

/// One of the seven layers of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Clocks, bandwidth, links, memory.
    Hardware,
    /// Kernels, graphs, backends, compiler.
    Kernel,
    /// KV cache.
    Memory,
    /// Batching, queueing, the engine's host loop.
    Scheduling,
    /// Several devices or replicas.
    Parallelism,
    /// Drafts and verification.
    Speculation,
    /// Everything outside the engine core: tokenizing, gateways, streams, clients.
    Application,
}

impl Layer {
    /// All layers in the seed's order.
    pub const ALL: [Self; 7] =
        [Self::Hardware, Self::Kernel, Self::Memory, Self::Scheduling, Self::Parallelism, Self::Speculation, Self::Application];

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Kernel => "kernel",
            Self::Memory => "memory",
            Self::Scheduling => "scheduling",
            Self::Parallelism => "parallelism",
            Self::Speculation => "speculation",
            Self::Application => "application",
        }
    }
}

/// The whole diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// What was measured.
    pub subject: Subject,
    /// When.
    pub window: Window,
    /// What the user calls slow: signal name to limit in base units.
    pub slo: BTreeMap<String, f64>,
    /// What is slow.
    pub symptom: Symptom,
    /// Share of device time by bound, where counters or a trace tell.
    pub classification: Option<Classification>,
    /// The answer.
    pub verdict: Verdict,
    /// Every check that found something, causes first.
    pub findings: Vec<Finding>,
    /// Ordered ceilings of this server, lowest first.
    pub limits: Vec<Limit>,
    /// What popular fixes would gain here.
    pub futile: Vec<Remedy>,
    /// Checks that looked and found nothing.
    pub cleared: Vec<Cleared>,
    /// Checks that could not tell.
    pub unknown: Vec<Unknown>,
    /// Where the time went.
    pub accounts: Accounts,
    /// Questions asked, in order.
    pub path: Vec<PathStep>,
    /// Why to believe it.
    pub trust: Trust,
    /// What was lost or doubtful in the input.
    pub issues: Vec<InputIssue>,
    /// The command to run next.
    pub next: String,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Engine id, empty when unknown.
    pub engine: String,
    /// Engine version, empty when unknown.
    pub engine_version: String,
    /// Process layout.
    pub engine_form: EngineForm,
    /// Device name, empty when unknown.
    pub gpu: String,
    /// Number of devices, 0 when unknown.
    pub gpu_count: u32,
    /// Model name, empty when unknown.
    pub model: String,
    /// Engine instances seen.
    pub replicas: Vec<String>,
    /// Effective configuration.
    pub configuration: Vec<SettingValue>,
    /// Sources read.
    pub sources: Vec<SourceRead>,
    /// What could not be established.
    pub not_established: Vec<String>,
    /// Where the evidence comes from: `recorded`, `trace`, `report`, `simulated`, `typed`; empty when unknown. The weakest of the sources.
    #[serde(default)]
    pub provenance: String,
}

/// Process layout and where it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineForm {
    /// `api+core`, `api+core+workers`, `api+schedulers+detokenizer`, `api+workers`, `router+shards`, `single process`, or empty.
    pub kind: String,
    /// How requests cross processes, empty when unknown.
    pub message_channel: String,
    /// Process that runs the scheduling loop: the one to sample.
    pub scheduling_process: String,
    /// Evidence, or `assumed`.
    pub from: String,
    /// How to sample the scheduling loop, empty when unknown.
    #[serde(default)]
    pub sample_with: String,
    /// Parts of a request that cross a process here and so can be measured apart.
    #[serde(default)]
    pub segments: Vec<String>,
}

/// One effective setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingValue {
    /// `config.max_num_seqs`.
    pub key: String,
    /// Value as text.
    pub value: String,
    /// Where it was read, or of which version it is the default.
    pub from: String,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceRead {
    /// File name or URL.
    pub name: String,
    /// Format it was read as.
    pub format: String,
    /// Rows it gave.
    pub rows: u64,
    /// True when part of it was lost.
    pub damaged: bool,
}

/// The window the report is about, host clock, ns since the epoch. All zero when no source carries times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// When the symptom began, if it began inside the window.
    pub onset_ns: Option<i64>,
    /// Whether it was still so at the end; empty when no timeline tells.
    pub ongoing: Option<bool>,
    /// Engines affected.
    pub affected: u32,
    /// Engines seen.
    pub engines: u32,
}

/// What is slow, by how much, for whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Symptom {
    /// One of the symptom ids, `none` when nothing is slow.
    pub id: String,
    /// True when the user said so.
    pub stated: bool,
    /// Who is counted.
    pub population: Population,
    /// How large it is, at its vantage and statistic; empty when not measured.
    pub size: Option<SignalValue>,
    /// What it is compared with.
    pub reference: Option<Reference>,
    /// Seconds beyond the reference, over the population.
    pub loss: Option<Quantity>,
    /// The second largest symptom.
    pub runner_up: Option<String>,
    /// How a sentence calls the loss: `the excess TTFT`.
    pub noun: String,
}

/// Requests the symptom is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Population {
    /// How many.
    pub n: u64,
    /// Which.
    pub rule: String,
}

/// A signal with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignalValue {
    /// Full signal name.
    pub signal: String,
    /// Value in `unit`.
    pub value: f64,
    /// Base unit.
    pub unit: String,
}

/// A value with a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantity {
    /// Value in `unit`.
    pub value: f64,
    /// Unit.
    pub unit: String,
}

/// What a symptom is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// Value in `unit`.
    pub value: f64,
    /// Unit.
    pub unit: String,
    /// `slo`, `baseline`, `own_unqueued_floor`, `step_law`, `lone_requests`, `typed`, `whole`.
    pub from: String,
}

/// Share of device time by what bounds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Classification {
    /// Bound by arithmetic.
    pub compute: f64,
    /// Bound by memory traffic.
    pub memory: f64,
    /// Waiting.
    pub waiting: f64,
    /// Evidence.
    pub from: String,
}

/// How the diagnosis ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A layer, and mostly a failure mode, explains the symptom.
    Localized,
    /// Nothing is slow, or nothing material is wrong.
    Healthy,
    /// The evidence does not decide.
    InsufficientEvidence,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// How it ended.
    pub status: Status,
    /// Layer, when localized.
    pub layer: Option<Layer>,
    /// Failure mode; empty when only the layer is sure.
    pub check: Option<String>,
    /// `memory`, `compute`, `logic`, `host`, `network`, `demand`.
    pub bound_class: Option<String>,
    /// Share of the loss the check owns, 0..1; empty when it has no seconds.
    pub explained: Option<f64>,
    /// Low and high end of that share.
    pub explained_range: Option<[f64; 2]>,
    /// Printed confidence, one of 0.95 0.9 0.75 0.6 0.4.
    pub confidence: f64,
    /// Why the confidence is what it is.
    pub confidence_because: String,
    /// What is wrong, in one or two sentences with numbers.
    pub sentence: String,
    /// The one observation that would prove it wrong.
    pub falsified_by: String,
    /// Who is next if it is wrong.
    pub next_suspect: Option<String>,
}

/// What a finding is to the symptom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Explains most of it.
    Cause,
    /// Explains part of it.
    Contributes,
    /// True, but explains little.
    TrueNotCause,
    /// At the bound of hardware or model: not a fault.
    Limit,
    /// Explains nothing by itself.
    Context,
}

/// A check that found its problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Failure mode.
    pub check: String,
    /// Its layer.
    pub layer: Layer,
    /// What it is to the symptom.
    pub role: Role,
    /// Share of the loss it owns; empty when it has no seconds.
    pub explained: Option<f64>,
    /// Low and high end.
    pub explained_range: Option<[f64; 2]>,
    /// What it costs per request or in rate.
    pub cost: Option<Quantity>,
    /// What was seen, in one sentence with numbers.
    pub summary: String,
    /// Best provenance this check was ever validated on: `recorded`, `trace`, `report`, `simulated`, `typed`.
    pub provenance: String,
    /// The figures it stands on.
    pub evidence: Vec<Evidence>,
    /// What to change and what should then move.
    pub hypotheses: Vec<Hypothesis>,
}

/// One figure a finding stands on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Signal or setting.
    pub signal: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: String,
    /// Source, or how it was computed.
    pub from: String,
}

/// A change and its predicted consequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hypothesis {
    /// `h1`, `h2`, ... within the report.
    pub id: String,
    /// What to change.
    pub change: Change,
    /// What it risks.
    pub risk: String,
    /// How to go back.
    pub rollback: String,
    /// When to undo it.
    pub undo_if: String,
    /// What must move, what must not.
    pub predictions: Vec<Prediction>,
    /// Consequence for throughput, in words with numbers; empty when none is claimed.
    pub throughput: String,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Flag of this engine and version, or a short name for a change outside it.
    pub flag: String,
    /// Value now, empty when unknown or not applicable.
    pub from: String,
    /// Value to set.
    pub to: String,
    /// Where the present value was read.
    pub from_source: String,
    /// `restart`, `reload`, `none`.
    pub needs: String,
    /// Seconds the service is away, where a log tells.
    pub reload_s: Option<f64>,
    /// Versions the flag is valid for.
    pub valid_for: String,
    /// The imperative on one line, without the bracketed remarks.
    pub instruction: String,
    /// The same as a lever of `inferoscope whatif --set`: `max_num_seqs=64`; empty where it has none.
    #[serde(default)]
    pub lever: String,
}

/// Direction of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Falls.
    Down,
    /// Rises.
    Up,
    /// Stays.
    Unchanged,
}

/// One predicted movement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Full signal name.
    pub signal: String,
    /// Short label for the screen: `TTFT mean`.
    pub label: String,
    /// The one that decides.
    #[serde(default)]
    pub primary: bool,
    /// One that must not get worse than its interval.
    #[serde(default)]
    pub guard: bool,
    /// Where it goes.
    pub direction: Direction,
    /// Measured now; empty when it was not measured.
    pub from: Option<f64>,
    /// Interval after the change; empty when only the direction can be said.
    pub to: Option<[f64; 2]>,
    /// After over before by the simulation of `inferoscope whatif` for this change; empty where the figure comes from a closed form.
    #[serde(default)]
    pub expected: Option<Range>,
    /// Unit.
    pub unit: String,
    /// Model tier or reason for refusing a number.
    pub basis: String,
}

/// One ceiling of this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Rate at which it binds.
    pub value: f64,
    /// Unit of the rate.
    pub unit: String,
    /// What binds: `32 seats`, `KV full`, `device`.
    pub what: String,
    /// How it was computed.
    pub from: String,
}

/// A popular fix and its predicted gain here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What people would try.
    pub fix: String,
    /// `first_choice`, `also_works`, `no_gain`, `cannot_tell`.
    pub verdict: String,
    /// Predicted gain per request in seconds, where a number can be given.
    pub gain_s: Option<f64>,
    /// The setting of `inferoscope whatif --set` whose simulation gave the gain; empty where a closed form or a fact did.
    #[serde(default)]
    pub lever: String,
    /// What it costs: `free flag`, `restart`, `accuracy`, `money`.
    pub price: String,
    /// Why.
    pub because: String,
}

/// A check that looked and found nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cleared {
    /// Failure mode.
    pub check: String,
    /// How far from being found: named figures.
    pub margin: BTreeMap<String, f64>,
    /// The same in words.
    pub because: String,
}

/// A check that could not tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// Failure mode.
    pub check: String,
    /// Most it could still own.
    pub could_own: Option<Quantity>,
    /// The same as a share of the loss.
    pub could_own_share: Option<f64>,
    /// Signals missing.
    pub missing: Vec<String>,
    /// Command that records them on this engine and version.
    pub record_with: String,
    /// What recording costs.
    pub record_cost: String,
    /// Why it could not tell.
    #[serde(default)]
    pub because: String,
}

/// Where the time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accounts {
    /// Parts of a request; shares add to 1 with `unattributed`.
    pub request: Vec<RequestPart>,
    /// Mean whole request the parts divide, where known.
    pub request_mean_s: Option<f64>,
    /// Requests in the account.
    pub request_count: u64,
    /// Exact size of the account: the sum over requests, ns. The parts' `total_ns` add up to it.
    pub request_total_ns: i64,
    /// Requests per second as offered while they arrived, all engines; empty when not known.
    #[serde(default)]
    pub arrivals_per_s: Option<f64>,
    /// Vantage the whole is measured at.
    pub vantage: String,
    /// Quantile above which `tail` is taken, and its mean.
    pub tail_rule: Option<TailRule>,
    /// One per device.
    pub device: Vec<DeviceAccount>,
}

/// Who is in the tail column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailRule {
    /// 0.95: the slowest 5 %.
    pub quantile: f64,
    /// Their number.
    pub n: u64,
    /// Their mean whole request.
    pub mean_s: f64,
}

/// One part of the request account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPart {
    /// `client`, `transfer`, `gateway`, `api`, `tokenize`, `queue`, `prefill`, `decode`, `detokenize`, `stream`, `unattributed`.
    pub part: String,
    /// Layer most at home there; empty for `unattributed`.
    pub layer: Option<Layer>,
    /// Sum over requests, ns.
    pub total_ns: i64,
    /// Mean per request.
    pub mean_s: f64,
    /// Share of the whole.
    pub share: f64,
    /// The same in the slow tail, only where request rows exist.
    pub tail: Option<TailPart>,
    /// Distance to a floor: `2.1x memory floor`.
    pub remark: String,
    /// Of prefill: the mean time of the request's own prompt, s; the rest is others' work in the same steps. Only where a
    /// step law or a baseline tells them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_s: Option<f64>,
}

/// A part's figures in the slow tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailPart {
    /// Mean per tail request.
    pub mean_s: f64,
    /// Share of the tail's whole.
    pub share: f64,
}

/// Where a device's time went. All integers; `compute + exposed communication + exposed copy + idle` is the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceAccount {
    /// Device id; `rank3/0` where several ranks use one number.
    pub device: String,
    /// Device name.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, `meta`; empty where not told.
    pub vendor: String,
    /// Rank of its process within the job, where told.
    pub rank: Option<u32>,
    /// From the start of its first to the end of its last event.
    pub window_ns: i64,
    /// Time with anything in flight.
    pub busy_ns: i64,
    /// Time in which a computing kernel runs.
    pub compute_ns: i64,
    /// Time in which a communicating kernel runs.
    pub communication_ns: i64,
    /// Of that, the time in which no kernel computes.
    pub exposed_communication_ns: i64,
    /// Time in which a copy or memset runs.
    pub copy_ns: i64,
    /// Of that, the time in which no kernel runs.
    pub exposed_copy_ns: i64,
    /// Time idle.
    pub idle_ns: i64,
    /// Kernels, copies and memsets, and graph replays recorded as one block.
    pub gpu_events: u64,
    /// Kernels.
    pub kernels: u64,
    /// Kernels replayed from graphs.
    pub graph_kernels: u64,
    /// By what events do, the most time first; overlaps counted as often as they run.
    pub categories: Vec<DeviceCategory>,
    /// Idle time by cause, adds up to it: `launch` (launched, not yet running), `host` (the call came late), `sync` (the host sat
    /// in a synchronizing call), `between_steps`, `allocation` (of device memory), `data` (waits for a data
    /// loader), `off_cpu` (the thread lost its CPU), `profiler` (the profiler held the host up), `unlinked` (no launch in the
    /// recording).
    pub idle: BTreeMap<String, i64>,
    /// The same for the stretches that are certain to be idle: between work of one stream, launched in the recording.
    pub trusted_idle: BTreeMap<String, i64>,
    /// False where replays were lost by the recorder: then idle time may be work.
    pub idle_is_reliable: bool,
    /// Call to start of kernels launched one by one; empty where none was.
    pub launch_delay: Option<DelayFigures>,
    /// What explains a busy device, on one clock.
    #[serde(default)]
    pub dimensions: DeviceDimensions,
    /// Kernels and steps against what the device can do.
    pub roofline: Roofline,
    /// Steps by phase.
    pub steps: Vec<DevicePhase>,
    /// Work that repeats, where found.
    pub unit: Option<DeviceUnit>,
}

/// Events of one category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCategory {
    /// `communication`, `moe`, `attention`, `gemm`, `norm`, `elementwise`, `quantize`, `sampling`, `copy_kernel`, `copy`, `graph`,
    /// `other`.
    pub category: String,
    /// Events.
    pub count: u64,
    /// Sum of their lengths.
    pub total_ns: i64,
}

/// How long launches take to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayFigures {
    /// Kernels.
    pub count: u64,
    /// Median, from the start of the call.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

/// Steps of one phase on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePhase {
    /// `prefill`, `decode`, `mixed`; empty where nothing tells.
    pub phase: String,
    /// Steps.
    pub steps: u64,
    /// Tokens computed in them, 0 where not told.
    pub tokens: i64,
    /// Median time from the first to the last event of a step.
    pub p50_ns: i64,
    /// Of all steps together: from first to last event.
    pub window_ns: i64,
    /// Busy.
    pub busy_ns: i64,
    /// Idle.
    pub idle_ns: i64,
    /// Kernels.
    pub kernels: u64,
}

/// Work that repeats on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUnit {
    /// Kernel family that begins it.
    pub anchor: String,
    /// Calls of that kernel in one.
    pub anchors_per_unit: u32,
    /// Complete ones.
    pub count: u64,
    /// Mean time of one.
    pub mean_ns: i64,
    /// Median time of one.
    pub p50_ns: i64,
}

/// Kernels and steps of one device against what it can do: bytes over bandwidth, operations over rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Roofline {
    /// Row of the hardware table whose peaks are used; empty where the device is none of it.
    pub gpu: String,
    /// Share of the computing kernels' time whose sizes are known.
    pub covered: f64,
    /// By family of kernels whose sizes are known, the most time first.
    pub kernels: Vec<RooflineKernel>,
    /// By phase of steps.
    pub steps: Vec<RooflineStep>,
    /// What is not known and how to record it; empty where nothing is missing.
    pub not_known: String,
}

/// One family of kernels against the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RooflineKernel {
    /// Family.
    pub family: String,
    /// `matmul` or `attention`.
    pub operation: String,
    /// Sizes that take most of its time: `m=32 n=4096 k=1024`.
    pub sizes: String,
    /// Number format of those.
    pub dtype: String,
    /// Operators.
    pub count: u64,
    /// Time of the kernels, s.
    pub time_s: f64,
    /// Floating point operations.
    pub flops: f64,
    /// Bytes, each operand once.
    pub bytes: f64,
    /// True where the work is at most this, for attention may look through windows that are not known.
    pub is_at_most: bool,
    /// The least time, s; empty where the device's peaks are not known.
    pub bound_s: Option<f64>,
    /// `memory` or `compute`.
    pub limit: Option<String>,
    /// Least time over time.
    pub achieved: Option<f64>,
    /// Operations over time over peak rate (MFU).
    pub compute_share: Option<f64>,
    /// Bytes over time over peak bandwidth (MBU).
    pub memory_share: Option<f64>,
    /// True where every operator takes too little time for what it reaches to mean something.
    pub is_short: bool,
}

/// Steps of one phase against the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RooflineStep {
    /// `prefill`, `decode`, `mixed`, or empty.
    pub phase: String,
    /// Steps.
    pub steps: u64,
    /// From first to last event of each, summed, s.
    pub time_s: f64,
    /// The least they can take, s.
    pub bound_s: f64,
    /// `memory` or `compute`.
    pub limit: String,
    /// Operations over time over peak rate (MFU).
    pub compute_share: f64,
    /// Bytes over time over peak bandwidth (MBU).
    pub memory_share: f64,
    /// `model` (what the model must read and compute for the step's tokens) or `sizes` (of the kernels whose sizes are known).
    pub from: String,
}

/// The dimensions of one device beside its utilization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDimensions {
    /// Share of the window with anything in flight: what a utilization figure shows.
    pub utilization: f64,
    /// Counters sampled inside the window.
    pub counters: Vec<DeviceCounter>,
    /// Counters that would explain more and were not recorded.
    pub not_recorded: Vec<String>,
    /// True when half of the kernels are shorter than the counters' sampling period: counters average over them.
    pub unsampled: bool,
    /// Kernels' median length.
    pub kernel_p50_ns: i64,
    /// Start to start of successive launches, median; empty where launches were not recorded.
    pub launch_interval_ns: Option<i64>,
    /// Time the host spent in synchronizing calls, all devices together.
    pub sync_wait_ns: i64,
}

/// One counter over the window of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounter {
    /// Signal.
    pub signal: String,
    /// Mean of the samples, ratio.
    pub mean: f64,
    /// Samples inside the window.
    pub samples: u64,
    /// Their spacing, 0 for one alone.
    pub period_ns: i64,
}

/// One question of the decision path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathStep {
    /// The question.
    pub question: String,
    /// The answer: `yes`, `no`, a word, or `cannot tell`.
    pub answer: String,
    /// The number that answered it, or what is missing.
    pub because: String,
    /// The step in a few words for the screen: `KV full? no, 9 %.`
    pub short: String,
    /// Layer this step eliminated, if any.
    pub eliminates: Option<Layer>,
}

/// Why to believe the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    /// Relative gap of Little's law, where it could be tested.
    pub little_gap: Option<f64>,
    /// Gap allowed.
    pub little_tolerance: Option<f64>,
    /// Scrapes read and scrapes expected from their spacing.
    pub scrapes: Option<[u64; 2]>,
    /// Counter resets seen.
    pub counter_resets: u64,
    /// Worst clock error of a join, ns.
    pub clock_error_ns: Option<i64>,
    /// Anything else worth a word.
    pub remarks: Vec<String>,
    /// How past predictions of the checks this report leans on came out; empty when none was ever verified here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub track_record: Vec<TrackRecord>,
}

/// How past predictions of one check came out on one version of an engine, each pair of runs counted once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrackRecord {
    /// Failure mode.
    pub check: String,
    /// Engine, empty when unknown.
    pub engine: String,
    /// Its version, empty when unknown.
    pub engine_version: String,
    /// Hypotheses verified.
    pub verified: u64,
    /// Of them, moved as predicted.
    pub confirmed: u64,
    /// Of them, did not.
    pub refuted: u64,
    /// Of them, too short or too noisy to say.
    pub inconclusive: u64,
    /// Of them, runs that differ in more than the change.
    pub not_comparable: u64,
    /// Comparable ones with a predicted interval and a measured value.
    pub with_interval: u64,
    /// Of those, the measured value fell inside the interval.
    pub inside: u64,
}

/// One issue with the input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputIssue {
    /// `error`, `warning`, `note`.
    pub severity: String,
    /// Stable id.
    pub code: String,
    /// Source.
    pub source: String,
    /// Place in it.
    pub place: String,
    /// How often.
    pub count: i64,
    /// What it means.
    pub sentence: String,
}

/// Schema id of [`Verification`].
pub const VERIFY_SCHEMA: &str = "inferoscope.verify/1";

/// How a prediction, or a whole verification, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Moved as predicted.
    Confirmed,
    /// Did not, or went the other way.
    Refuted,
    /// The runs are too short or too noisy.
    Inconclusive,
    /// The runs differ in more than the change.
    NotComparable,
}

/// `verify --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Always [`VERIFY_SCHEMA`].
    pub schema: String,
    /// Of the whole: the primary confirmed and no guard refuted.
    pub outcome: Outcome,
    /// Why, in a sentence with numbers.
    pub why: String,
    /// Hypothesis tested, `none` when the BEFORE report had none.
    pub hypothesis: String,
    /// Failure mode that stated it, empty when none did.
    #[serde(default)]
    pub check: String,
    /// What it said to change, empty when none did.
    #[serde(default)]
    pub change: String,
    /// Settings that differ between the runs.
    pub changed: Vec<ChangedSetting>,
    /// Prediction by prediction.
    pub predictions: Vec<PredictionOutcome>,
    /// What was compared to decide that the runs are comparable.
    pub comparability: Vec<String>,
    /// What moved on each device per unit of work, where profiler captures of both runs hold such a unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceMovement>,
}

/// One device before and after, per unit of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceMovement {
    /// Device.
    pub device: String,
    /// Unit of work: `decode step`, `2 x flash_fwd_kernel`.
    pub unit: String,
    /// Units before and after.
    pub units: [u64; 2],
    /// Mean time of a unit before and after, s.
    pub mean_s: [f64; 2],
    /// Parts of the account, then the kernels that moved most, largest movement first within each.
    pub rows: Vec<MovedPart>,
}

/// One part of a unit before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovedPart {
    /// `account` or `kernel`.
    pub kind: String,
    /// Part of the account, or kernel family.
    pub what: String,
    /// Mean per unit before, s.
    pub before_s: f64,
    /// Mean per unit after, s.
    pub after_s: f64,
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedSetting {
    /// Key.
    pub key: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// One prediction against what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionOutcome {
    /// The prediction.
    pub prediction: Prediction,
    /// Measured before.
    pub before: Option<f64>,
    /// Measured after.
    pub after: Option<f64>,
    /// 95 % interval of after/before.
    pub ratio_interval: Option<[f64; 2]>,
    /// How it came out.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
}
