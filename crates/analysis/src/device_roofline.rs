//! Recorded kernels and steps held against what the device can do: bytes over bandwidth, operations over rate.
//!
//! Where sizes were recorded, by kernel; where steps tell their tokens and model and device are known, by step. Both are
//! bounds and no forecast: operands count once, peaks are those of the data sheet. What is not known stays not known.

use capture::Subject;
use model::hardware::Gpu;
use model::models::ModelShape;
use model::roofline::{Limit, StepShape, step_bound};

use crate::device::work::element_bytes;
use crate::device::{Category, DeviceView, LaneStep, LaneView, Operation, StepPhase, Work};
use crate::evidence::Evidence;
use crate::hardware_bound::Hardware;

/// Pieces of work that take less are over before the device is filled: what they reach says nothing of the kernel, s.
pub const TOO_SHORT_S: f64 = 20e-6;

/// Work of one family of kernels in one phase against the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofed<'a> {
    /// Family, one kernel's full name, and what it does.
    pub family: &'a str,
    /// One kernel's full name.
    pub name: &'a str,
    /// What the kernels do.
    pub category: Category,
    /// What was asked for.
    pub operation: Operation,
    /// Sizes that take most of the time.
    pub sizes: &'a str,
    /// Number format of those.
    pub dtype: &'a str,
    /// Operators.
    pub count: u64,
    /// Time of the kernels, s.
    pub time_s: f64,
    /// Floating point operations.
    pub flops: f64,
    /// Bytes, each operand once.
    pub bytes: f64,
    /// The least that operators of these sizes can take, s; nothing where the device's rate is not known.
    pub bound: Option<Bound>,
    /// True where layers may look through windows that are not known: the work is at most this.
    pub is_at_most: bool,
}

/// A lower bound of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// By arithmetic, s.
    pub compute_s: f64,
    /// By memory, s.
    pub memory_s: f64,
    /// The larger for each piece of work, summed, s.
    pub bound_s: f64,
    /// Of the bound and of the time, what is of pieces long enough to judge, s.
    pub judged: [f64; 2],
}

impl Bound {
    /// What limits most of it.
    pub fn limit(&self) -> Limit {
        if self.compute_s > self.memory_s { Limit::Compute } else { Limit::Memory }
    }

    fn add(&mut self, other: &Self) {
        self.compute_s += other.compute_s;
        self.memory_s += other.memory_s;
        self.bound_s += other.bound_s;
        self.judged[0] += other.judged[0];
        self.judged[1] += other.judged[1];
    }
}

impl Roofed<'_> {
    /// Share of the bound that was reached: bound over time.
    pub fn achieved(&self) -> Option<f64> {
        self.bound.filter(|_| self.time_s > 0.0).map(|bound| bound.bound_s / self.time_s)
    }

    /// The same of the pieces that are long enough to judge, with the time of those, s.
    pub fn judged(&self) -> Option<(f64, f64)> {
        let [bound_s, time_s] = self.bound?.judged;
        (time_s > 0.0).then(|| (bound_s / time_s, time_s))
    }
}

/// Steps of one phase on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoofedSteps {
    /// Phase.
    pub phase: StepPhase,
    /// Steps.
    pub steps: u64,
    /// From the first to the last event of each, summed, s.
    pub time_s: f64,
    /// The least they can take, s.
    pub bound: Bound,
    /// True where model and tokens make the bound; else the sizes recorded, which may miss kernels.
    pub by_model: bool,
}

impl RoofedSteps {
    /// Bytes over time over bandwidth.
    pub fn memory_share(&self) -> f64 {
        self.bound.memory_s / self.time_s
    }

    /// Operations over time over rate.
    pub fn compute_share(&self) -> f64 {
        self.bound.compute_s / self.time_s
    }
}

/// What is known of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRoofline<'a> {
    /// The data sheet used.
    pub gpu: Option<&'static Gpu>,
    /// By family of kernels, the most time first.
    pub kernels: Vec<Roofed<'a>>,
    /// By phase.
    pub steps: Vec<RoofedSteps>,
    /// Share of the computing kernels' time whose sizes are known.
    pub covered: f64,
}

impl DeviceRoofline<'_> {
    /// Share of the computing time that kernels take with that limit, and what they reach of it; nothing where the sizes of
    /// more than half of the time are not known.
    pub fn reached(&self) -> Option<Reached> {
        if self.covered < 0.5 {
            return None;
        }
        let mut reached = Reached::default();
        for of in &self.kernels {
            let bound = of.bound.as_ref()?;
            reached.time_s += of.time_s;
            reached.compute_s += bound.compute_s;
            reached.memory_s += bound.memory_s;
            reached.bound_s += bound.bound_s;
        }
        (reached.time_s > 0.0).then_some(reached)
    }
}

/// Sums over the kernels whose sizes are known, s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Time.
    pub time_s: f64,
    /// By arithmetic.
    pub compute_s: f64,
    /// By memory.
    pub memory_s: f64,
    /// Lower bound.
    pub bound_s: f64,
}

/// Reads each device of an arm, in the order of its lanes.
pub fn read<'a>(subject: &Subject, evidence: &'a Evidence) -> Vec<DeviceRoofline<'a>> {
    let view = evidence.device_view.as_ref().filter(|view| !view.is_capture_pass);
    view.map_or(Vec::new(), |view| view.lanes.iter().map(|lane| of_lane(subject, evidence, view, lane)).collect())
}

/// The data sheet of a device: by the recorder's name for it, else by the one that the whole subject is said to be.
pub fn gpu_of(subject: &Subject, lane: &LaneView) -> Option<&'static Gpu> {
    model::hardware::find(&lane.name).or_else(|| model::hardware::find(&subject.device).filter(|_| lane.name.is_empty()))
}

fn of_lane<'a>(subject: &Subject, evidence: &Evidence, view: &DeviceView, lane: &'a LaneView) -> DeviceRoofline<'a> {
    let gpu = gpu_of(subject, lane);
    let model = model::models::find(&subject.model);
    let mut kernels: Vec<Roofed<'a>> = Vec::new();
    let mut phases: Vec<(StepPhase, Bound)> = Vec::new();
    for work in &lane.work {
        let (work_done, is_at_most) = within_windows(work, model);
        let bound = gpu.and_then(|gpu| bound_of(work, work_done, gpu));
        if let Some(bound) = &bound {
            match phases.iter_mut().find(|(phase, _)| *phase == work.phase) {
                Some((_, sum)) => sum.add(bound),
                None => phases.push((work.phase, *bound)),
            }
        }
        match kernels.iter_mut().find(|known| known.family == work.family && known.operation == work.operation) {
            Some(known) => add(known, work, work_done, bound, is_at_most),
            None => kernels.push(first(work, work_done, bound, is_at_most)),
        }
    }
    kernels.sort_by(|a, b| b.time_s.total_cmp(&a.time_s).then_with(|| a.family.cmp(b.family)));
    let computing_ns: i64 = lane
        .account
        .categories
        .iter()
        .filter(|total| !matches!(total.category, Category::Copy | Category::Communication))
        .map(|total| total.total_ns)
        .sum();
    let known_s: f64 = kernels.iter().map(|of| of.time_s).sum();
    // A sum of nothing is -0.0.
    let covered = if computing_ns > 0 && known_s > 0.0 { (known_s / (computing_ns as f64 * 1e-9)).min(1.0) } else { 0.0 };
    let steps = steps(subject, evidence, view, lane, &phases);
    DeviceRoofline { gpu, kernels, steps, covered }
}

/// Operations and bytes; of attention over whole requests what the model's windows leave, and whether it is an upper bound.
fn within_windows(work: &Work, model: Option<&ModelShape>) -> ((f64, f64), bool) {
    let all = ((work.flops, work.bytes), work.attended.is_some());
    let (Some(attended), Some(element)) = (&work.attended, element_bytes(&work.dtype)) else { return all };
    let Some(model) = model else { return all };
    let windowed = f64::from(model.windowed_layers.min(model.layers)) / f64::from(model.layers.max(1));
    if model.window == 0 || windowed <= 0.0 {
        return ((work.flops, work.bytes), false);
    }
    // Kernels of both kinds of layers carry one name: the mean layer.
    let (full, near) = (attended.work(element), attended.within(f64::from(model.window)).work(element));
    let mean = |full: f64, near: f64| (1.0 - windowed) * full + windowed * near;
    ((mean(full.0, near.0), mean(full.1, near.1)), true)
}

/// Dense rate for a number format, FLOP/s: 32-bit products run on matrix units as TF32 at half the 16-bit rate (data sheets
/// of A100 and H100: 156 of 312 and 495 of 989 TFLOP/s).
fn rate(gpu: &Gpu, dtype: &str) -> Option<f64> {
    match dtype {
        "bf16" | "f16" => gpu.bf16_flops,
        "f32" => gpu.bf16_flops.map(|rate| 0.5 * rate),
        "f8e4m3" | "f8e5m2" => gpu.fp8_flops.or(gpu.bf16_flops),
        "i8" | "u8" => gpu.int8_flops.or(gpu.bf16_flops),
        _ => None,
    }
}

fn bound_of(work: &Work, (flops, bytes): (f64, f64), gpu: &Gpu) -> Option<Bound> {
    let compute_s = flops / rate(gpu, &work.dtype)?;
    let memory_s = bytes / gpu.dram_bytes_per_s;
    let bound_s = compute_s.max(memory_s);
    let time_s = work.time_ns as f64 * 1e-9;
    let is_long = time_s >= TOO_SHORT_S * work.count as f64;
    let judged = if is_long { [bound_s, time_s] } else { [0.0; 2] };
    Some(Bound { compute_s, memory_s, bound_s, judged }).filter(|bound| bound.bound_s.is_finite())
}

fn first(work: &Work, (flops, bytes): (f64, f64), bound: Option<Bound>, is_at_most: bool) -> Roofed<'_> {
    Roofed {
        family: &work.family,
        name: &work.name,
        category: work.category,
        operation: work.operation,
        sizes: &work.sizes,
        dtype: &work.dtype,
        count: work.count,
        time_s: work.time_ns as f64 * 1e-9,
        flops,
        bytes,
        bound,
        is_at_most,
    }
}

/// Work comes by time, so that the first sizes of a family are those with most of it.
fn add(known: &mut Roofed<'_>, work: &Work, (flops, bytes): (f64, f64), bound: Option<Bound>, is_at_most: bool) {
    known.count += work.count;
    known.time_s += work.time_ns as f64 * 1e-9;
    known.flops += flops;
    known.bytes += bytes;
    known.is_at_most |= is_at_most;
    known.bound = known.bound.zip(bound).map(|(mut sum, more)| {
        sum.add(&more);
        sum
    });
}

/// Steps by phase: by the model where every step tells its tokens, else by the sizes recorded in them.
fn steps(subject: &Subject, evidence: &Evidence, view: &DeviceView, lane: &LaneView, by_sizes: &[(StepPhase, Bound)]) -> Vec<RoofedSteps> {
    let recorded = view.lanes.len().max(lane.world_size as usize);
    let hardware = gpu_of(subject, lane).and_then(|gpu| Hardware::on(subject, &evidence.settings, gpu, recorded));
    let mut found = Vec::new();
    for total in &lane.steps.phases {
        let Some(phase) = StepPhase::ALL.into_iter().find(|phase| phase.as_str() == total.phase) else { continue };
        let time_s = total.account.window_ns as f64 * 1e-9;
        let of_phase: Vec<&LaneStep> = lane.steps.steps.iter().filter(|step| step.label.phase == phase).collect();
        let by_model =
            hardware.as_ref().filter(|_| of_phase.len() as u64 == total.steps).and_then(|hardware| model_bound(hardware, &of_phase));
        let bound = by_model.or_else(|| by_sizes.iter().find(|(of, _)| *of == phase).map(|(_, bound)| *bound));
        if let Some(bound) = bound.filter(|_| time_s > 0.0) {
            found.push(RoofedSteps { phase, steps: total.steps, time_s, bound, by_model: by_model.is_some() });
        }
    }
    found
}

/// The least that these steps can take, by what the model must read and compute; nothing where one does not tell its tokens.
fn model_bound(hardware: &Hardware, steps: &[&LaneStep]) -> Option<Bound> {
    let mut sum = Bound::default();
    for step in steps {
        let label = &step.label;
        let decode = label.decode_seqs.unwrap_or(0) as f64;
        let prefill = match label.phase {
            StepPhase::Decode => 0.0,
            _ => label.prefill_tokens.or(label.tokens)? as f64,
        };
        if decode + prefill <= 0.0 {
            return None;
        }
        // Without a context told its bytes are left out: still no more than the step must move.
        let mean_context = label.decode_context.unwrap_or(0) as f64 / decode.max(1.0);
        let bound = step_bound(
            hardware.model(),
            hardware.deployment(),
            &StepShape { prefill_tokens: prefill, decode_seqs: decode, mean_context },
            hardware.gpu(),
        );
        let time_s = step.account.window_ns as f64 * 1e-9;
        sum.add(&Bound { compute_s: bound.compute_s?, memory_s: bound.memory_s, bound_s: bound.bound_s, judged: [bound.bound_s, time_s] });
    }
    (!steps.is_empty()).then_some(sum)
}
