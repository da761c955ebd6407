//! How one model is spread over devices, and what its collectives take of a step.
//!
//! Figures are of one step (or one layer, as long as all of them are); only their ratio is used. Waiting for the last rank
//! inside a collective (skew) is kept apart from moving data: it has other causes and other cures.

mod link;

use capture::Subject;
use model::collectives::{Cost, all_reduce, tensor_parallel_step_s};

use crate::evidence::{Evidence, Point};
use crate::members::Members;
use crate::phase::Phase;
use crate::situation::Situation;

pub use link::{SlowLink, has_fast_link, slow_link, slow_path};

/// Degrees of parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sharding {
    /// Ranks that share every layer; 0 where nothing says.
    pub tensor: f64,
    /// Stages in a row; 0 where nothing says.
    pub pipeline: f64,
    /// Copies of the attention part, or whole engines; 0 where nothing says.
    pub data: f64,
    /// Experts are spread over ranks.
    pub expert: bool,
    /// Devices of the deployment; 0 where nothing says.
    pub devices: f64,
}

impl Sharding {
    /// Reads it from settings, the subject's device count and, for llama.cpp, the split mode.
    pub fn read(subject: &Subject, evidence: &Evidence) -> Self {
        let settings = &evidence.settings;
        let listed = f64::from(subject.device_count);
        // A version's default of 1 says nothing of a deployment that names several devices or varies the degree.
        let is_guess = |key: &str| {
            let is_default = settings.get(key).is_some_and(|setting| setting.origin.starts_with("default"));
            is_default && (listed > 1.0 || swept(evidence, key) > 0.0)
        };
        let size = |key: &str| {
            let set = settings.number(key).filter(|_| !is_guess(key)).unwrap_or(0.0).max(0.0);
            set.max(swept(evidence, key))
        };
        let (mut tensor, mut pipeline, data) =
            (size("config.tensor_parallel"), size("config.pipeline_parallel"), size("config.data_parallel"));
        let counted = size("config.gpu_count").max(visible_devices(evidence));
        // Attention in copies over the tensor ranks: the copies are those ranks.
        let copies = if has_attention_copies(evidence) && tensor >= data { 1.0 } else { data.max(1.0) };
        let of_degrees = tensor.max(1.0) * pipeline.max(1.0) * copies;
        let mut devices = if tensor + pipeline + data > 0.0 {
            of_degrees
        } else if counted > 0.0 {
            counted
        } else {
            listed
        };
        match settings.get("config.split_mode").map(|setting| setting.value.as_str()) {
            Some("none") => devices = 1.0,
            Some("row") => tensor = tensor.max(listed.max(2.0)),
            Some("layer") => pipeline = pipeline.max(listed.max(2.0)),
            _ if tensor <= 1.0 && listed > 1.0 && is_called_by_layers(evidence) => pipeline = pipeline.max(listed),
            _ => {}
        }
        devices = devices.max(tensor).max(pipeline);
        let by_size = ["config.expert_parallel", "config.expert_parallel_size", "config.moe_expert_parallel_size"].map(size);
        let expert = settings.flag("config.expert_parallel") == Some(true) || by_size.iter().any(|size| *size > 1.0);
        Self { tensor, pipeline, data, expert, devices }
    }

    /// True when something says that one device does all.
    pub fn is_one_device(&self) -> bool {
        self.devices == 1.0
    }

    /// True when tokens cross between ranks inside every layer.
    pub fn has_layer_collectives(&self) -> bool {
        self.tensor > 1.0 || self.expert
    }
}

/// Words in which people name devices that hold some of the layers each.
const BY_LAYERS: [&str; 6] = ["layers split", "layer split", "split by layer", "layer-split", "pipeline parallel", "split layers"];

fn is_called_by_layers(evidence: &Evidence) -> bool {
    let is_named = |text: &String| BY_LAYERS.iter().any(|words| text.to_ascii_lowercase().contains(words));
    [&evidence.run_name, &evidence.changed].into_iter().any(is_named)
}

/// True when attention is data-parallel inside one deployment: its ranks meet in every layer.
pub fn has_attention_copies(evidence: &Evidence) -> bool {
    let keys = ["config.enable_dp_attention", "config.dp_attention", "config.enable_attention_dp"];
    keys.iter().any(|key| evidence.settings.flag(key) == Some(true))
}

/// The largest value of a setting over sweep rows, 0 where none varies it.
fn swept(evidence: &Evidence, key: &str) -> f64 {
    evidence.figures.points().filter_map(|row| row.typical(key)).fold(0.0, f64::max)
}

/// Shards of a sweep row that varies a degree of parallelism.
pub fn shards_of_row(row: &Point) -> Option<f64> {
    let degrees = ["config.tensor_parallel", "config.pipeline_parallel"].map(|name| row.typical(name));
    degrees.iter().any(Option::is_some).then(|| degrees.iter().flatten().map(|degree| degree.max(1.0)).product())
}

/// Devices that `CUDA_VISIBLE_DEVICES` lists, 0 where it is not set.
fn visible_devices(evidence: &Evidence) -> f64 {
    let listed = ["env.CUDA_VISIBLE_DEVICES", "env.HIP_VISIBLE_DEVICES"].iter().find_map(|key| evidence.settings.get(key));
    listed.map_or(0.0, |setting| setting.value.split(',').filter(|id| !id.trim().is_empty()).count() as f64)
}

/// Why an arm with a timeline has no collectives at all: one device, or no device that could have.
pub fn without_collectives(situation: &Situation<'_>) -> Option<String> {
    let sharding = Sharding::read(situation.subject, situation.evidence);
    if sharding.is_one_device() {
        return Some("one device does all: nothing is exchanged between devices".into());
    }
    (situation.subject.device.starts_with("CPU") && sharding.tensor <= 1.0)
        .then(|| "the engine runs on the CPU and no setting shards the model: nothing is exchanged between devices".into())
}

/// Collectives of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Collectives {
    /// Phase of the requests that waits for them.
    pub phase: Phase,
    /// Time not covered by compute, skew left out, s.
    pub exposed_s: f64,
    /// Of the collectives, waiting for the last rank, s; 0 where not separated.
    pub skew_s: f64,
    /// The whole step in the same unit, s.
    pub step_s: f64,
    /// Time of one call, s.
    pub call_s: Option<f64>,
    /// Bytes of one call.
    pub call_bytes: Option<f64>,
    /// What the calls take at best on these devices, s; `None` where device or sizes are unknown.
    pub floor_s: Option<f64>,
    /// Where the time was read.
    pub from: &'static str,
}

impl Collectives {
    /// Reads them; the phase whose share is larger where both are known.
    pub fn read(situation: &Situation<'_>) -> Option<Self> {
        let phases = [("decode", Phase::Decode), ("prefill", Phase::Prefill)];
        let labelled = phases.iter().filter_map(|(label, phase)| Self::of_phase(situation, Some(label), *phase));
        let labelled = labelled.max_by(|a, b| a.share().total_cmp(&b.share()));
        labelled.or_else(|| Self::of_rows(situation)).or_else(|| Self::of_phase(situation, None, Phase::Decode))
    }

    /// The sweep row whose collectives take the largest part, where rows tell of both.
    fn of_rows(situation: &Situation<'_>) -> Option<Self> {
        let of_row = |row: &Point| {
            let by_calls = || Some(row.typical("comm.calls")? * row.typical("comm.call_time")?);
            let exposed_s = row.typical("comm.exposed_time").or_else(|| row.typical("comm.time")).or_else(by_calls)?;
            let step_s = ["engine.step_time", "client.tpot", "server.tpot"].iter().find_map(|name| row.typical(name))?;
            let skew_s = row.typical("comm.skew").unwrap_or(0.0).min(exposed_s);
            let from =
                if row.typical("comm.exposed_time").is_some() { "exposed collective time" } else { "collective time, overlap unknown" };
            let (call_s, call_bytes) = (row.typical("comm.call_time"), row.typical("comm.call_bytes"));
            let (exposed_s, step_s) = (exposed_s - skew_s, step_s.max(exposed_s));
            let is_prefill = row.about("class").is_some_and(|class| class.to_ascii_lowercase().contains("prefill"));
            let phase = if is_prefill { Phase::Prefill } else { Phase::Decode };
            Some(Self { phase, exposed_s, skew_s, step_s, call_s, call_bytes, floor_s: None, from })
        };
        // Rows by rank are not operating points.
        let rows = situation.evidence.figures.points().filter(|row| row.typical("proc.rank").is_none());
        rows.filter_map(of_row).max_by(|a, b| a.share().total_cmp(&b.share()))
    }

    /// Share of the step, 0..1.
    pub fn share(&self) -> f64 {
        (self.exposed_s / self.step_s).clamp(0.0, 1.0)
    }

    fn of_phase(situation: &Situation<'_>, label: Option<&str>, phase: Phase) -> Option<Self> {
        let evidence = situation.evidence;
        let (exposed_s, from) = exposed(evidence, label)?;
        let figures = &evidence.figures;
        let kernels: f64 = kernel_times(evidence, label).iter().map(|(_, seconds)| seconds).sum();
        let step_s = of(evidence, "engine.step_time", label)
            .or_else(|| (kernels > 0.0).then_some(kernels))
            .or_else(|| token_step_s(evidence).filter(|_| phase == Phase::Decode))
            .filter(|step_s| *step_s > 0.0)?;
        let calls = figures.typical("comm.calls");
        // Skew is typed per step or per call: one that fits into the collectives as often as there are calls is per call.
        let skew = of(evidence, "comm.skew", label).unwrap_or(0.0);
        let of_calls = calls.map(|calls| skew * calls).filter(|skew| *skew <= exposed_s).unwrap_or(skew);
        let skew_s = of_calls.max(waited_by_rank_s(evidence, label)).min(exposed_s);
        let call_s = figures.typical("comm.call_time");
        let call_bytes = figures.typical("comm.call_bytes");
        let calls = calls.or_else(|| call_s.map(|call_s| exposed_s / call_s));
        let floor_s = floor_s(situation, calls, call_bytes, phase);
        // Summed kernels of several streams may exceed the step they ran in.
        Some(Self { phase, exposed_s: exposed_s - skew_s, skew_s, step_s: step_s.max(exposed_s), call_s, call_bytes, floor_s, from })
    }
}

/// A quantity of one phase, or without one.
fn of(evidence: &Evidence, quantity: &str, label: Option<&str>) -> Option<f64> {
    match label {
        None => evidence.figures.anywhere(quantity),
        Some(label) => evidence.figures.by_label(quantity, "phase").into_iter().find(|(phase, _)| phase == label).map(|(_, value)| value),
    }
}

fn token_step_s(evidence: &Evidence) -> Option<f64> {
    ["client.tpot", "server.tpot", "client.itl", "server.itl"].iter().find_map(|name| evidence.figures.typical(name))
}

fn exposed(evidence: &Evidence, label: Option<&str>) -> Option<(f64, &'static str)> {
    let figures = &evidence.figures;
    let by_calls = || figures.typical("comm.calls").zip(figures.typical("comm.call_time")).map(|(calls, call_s)| calls * call_s);
    let ranks = || communication_by_rank(evidence).filter(|_| label.is_none()).map(|members| members.mean);
    let kernels = || {
        let communication = kernel_times(evidence, label).into_iter().filter(|(category, _)| is_communication(category));
        Some(communication.map(|(_, seconds)| seconds).sum::<f64>()).filter(|sum| *sum > 0.0)
    };
    of(evidence, "comm.exposed_time", label)
        .map(|s| (s, "exposed collective time"))
        .or_else(|| of(evidence, "comm.time", label).map(|s| (s, "collective time, overlap unknown")))
        .or_else(|| ranks().or_else(kernels).map(|s| (s, "collective kernels, overlap unknown")))
        .or_else(|| by_calls().filter(|_| label.is_none()).map(|s| (s, "calls times time per call, overlap unknown")))
}

/// Time of collective kernels by rank, s.
pub fn communication_by_rank(evidence: &Evidence) -> Option<Members> {
    kernels_by_rank(evidence, is_communication)
}

/// Kernel time by rank of the categories that `is_of` takes, s.
pub fn kernels_by_rank(evidence: &Evidence, is_of: impl Fn(&str) -> bool) -> Option<Members> {
    let mut sums: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
    for (name, figure) in evidence.figures.iter() {
        let Some((_, text)) =
            name.split_once('{').filter(|(head, _)| matches!(*head, "kernel.time" | "kernel.time.mean" | "kernel.time.p50"))
        else {
            continue;
        };
        let text = text.trim_end_matches('}');
        let rank = capture::labels::get(text, "rank").or_else(|| capture::labels::get(text, "device"));
        if let Some((rank, category)) = rank.zip(capture::labels::get(text, "category"))
            && is_of(&category)
        {
            *sums.entry(rank).or_default() += figure.value;
        }
    }
    Members::of(sums.into_iter().collect())
}

/// What ranks wait inside collectives for the last one, s: it finds all others there, so that its own time is the moving.
fn waited_by_rank_s(evidence: &Evidence, label: Option<&str>) -> f64 {
    let members = communication_by_rank(evidence).filter(|_| label.is_none());
    members.map_or(0.0, |members| members.mean - members.min)
}

/// Kernel time by category, of one phase where it is labelled so.
fn kernel_times(evidence: &Evidence, label: Option<&str>) -> Vec<(String, f64)> {
    let Some(label) = label else { return evidence.figures.by_label("kernel.time", "category") };
    let of_phase = |(name, figure): (&str, crate::evidence::Figure)| {
        let text = name.strip_prefix("kernel.time{")?.trim_end_matches('}');
        let phase = capture::labels::get(text, "phase")?;
        (phase == label).then(|| Some((capture::labels::get(text, "category")?, figure.value)))?
    };
    evidence.figures.iter().filter_map(of_phase).collect()
}

/// A kernel category that moves data between devices.
pub fn is_communication(category: &str) -> bool {
    let category = category.to_ascii_lowercase();
    ["comm", "nccl", "rccl", "all_reduce", "allreduce", "all-reduce", "all_to_all", "alltoall"].iter().any(|part| category.contains(part))
}

/// What collectives take at best: the fitted table of the device, for the calls given or two per layer of a known model.
fn floor_s(situation: &Situation<'_>, calls: Option<f64>, call_bytes: Option<f64>, phase: Phase) -> Option<f64> {
    let cost = device_cost(situation)?;
    if let Some((calls, bytes)) = calls.zip(call_bytes) {
        return Some(calls * cost.time_s(bytes));
    }
    let model = model::models::find(&situation.subject.model).filter(|_| phase == Phase::Decode)?;
    Some(tensor_parallel_step_s(model, crate::decode_bound::batch(situation.evidence), cost))
}

/// Time of an all-reduce between this many of these devices within one node.
pub fn device_cost(situation: &Situation<'_>) -> Option<Cost> {
    let device = if situation.evidence.device.is_empty() { &situation.subject.device } else { &situation.evidence.device };
    let gpu = model::hardware::find(device)?;
    let ranks = Sharding::read(situation.subject, situation.evidence).tensor;
    all_reduce(&gpu.id, ranks as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_collectives_are_known() {
        assert!(is_communication("communication") && is_communication("NCCL AllReduce") && is_communication("all_to_all"));
        assert!(!is_communication("gemm") && !is_communication("attention"));
    }
}
