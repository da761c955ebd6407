//! The least time of a decode step from what was typed of model and device: bytes over bandwidth.
//!
//! `hardware_bound.rs` knows models and devices by name; people also type weights in gigabytes, a bandwidth, or only
//! `70B FP8` as the model's name. What is taken from a name says so. It is a lower bound of the bytes: of experts only
//! those one token needs, of the cache only what is known.

use capture::Subject;
use model::memory::Dtype;

use crate::evidence::Evidence;

/// Bytes of one decode step and how fast they can come.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeBound {
    /// Weights read per step on one device, bytes.
    pub weight_bytes: f64,
    /// KV cache read per step on one device, bytes; 0 where unknown.
    pub kv_bytes: f64,
    /// Memory bandwidth of one device, byte/s.
    pub bytes_per_s: f64,
    /// True when the bandwidth was measured by a read probe, false for a data sheet's.
    pub is_sustained: bool,
    /// Where the figures are from.
    pub from: String,
}

/// Share of a data sheet's bandwidth that a decode step reaches: DRAM counters top out near 0.8 (attribution, section 6).
pub const ACHIEVABLE: f64 = 0.8;
/// A step within this factor of the achievable time is at its limit (attribution, section 6).
pub const NEAR: f64 = 1.4;

impl DecodeBound {
    /// Reads it for one arm; `None` where weights or bandwidth are unknown.
    pub fn read(subject: &Subject, evidence: &Evidence) -> Option<Self> {
        let figures = &evidence.figures;
        let ranks = evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
        let (weights, weights_from) = weight_bytes(subject, evidence)?;
        let (bytes_per_s, is_sustained, bandwidth_from) = bandwidth(subject, evidence)?;
        let batch = batch(evidence);
        let context =
            figures.anywhere("server.prompt_tokens").unwrap_or(0.0) + 0.5 * figures.anywhere("server.output_tokens").unwrap_or(0.0);
        let kv_bytes = figures.typical("model.kv_bytes_per_token").unwrap_or(0.0) * batch * context / ranks;
        // Pipeline stages read their parts one after the other: a token waits for all of them.
        let from = format!("{weights_from}, {bandwidth_from}");
        Some(Self { weight_bytes: weights / ranks, kv_bytes, bytes_per_s, is_sustained, from })
            .filter(|bound| bound.least_s().is_finite() && bound.least_s() > 0.0)
    }

    /// The same where no number format is named: 16 bit then, the widest that is served. The bytes are at most these, so
    /// that a step far above the bound is far above it whatever the format is.
    pub fn read_widest(subject: &Subject, evidence: &Evidence) -> Option<Self> {
        Self::read(subject, evidence).or_else(|| {
            let figures = &evidence.figures;
            let named = ModelName::read(&subject.model);
            let typed = figures.typical("model.active_params").or_else(|| figures.typical("model.params"));
            let params = typed.or(named.active_params).or(named.params)?;
            let ranks = evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
            let (bytes_per_s, is_sustained, from) = bandwidth(subject, evidence)?;
            let from = format!("16 bit per parameter at most, {from}");
            Some(Self { weight_bytes: 2.0 * params / ranks, kv_bytes: 0.0, bytes_per_s, is_sustained, from })
                .filter(|bound| bound.least_s().is_finite() && bound.least_s() > 0.0)
        })
    }

    /// No step is faster, s.
    pub fn least_s(&self) -> f64 {
        (self.weight_bytes + self.kv_bytes) / self.bytes_per_s
    }

    /// What a good engine reaches, s.
    pub fn achievable_s(&self) -> f64 {
        self.least_s() / if self.is_sustained { 1.0 } else { ACHIEVABLE }
    }
}

/// Sequences that decode together: running, else the client's concurrency, else one.
pub fn batch(evidence: &Evidence) -> f64 {
    let figures = &evidence.figures;
    figures.anywhere("engine.running").or_else(|| figures.anywhere("client.concurrency")).unwrap_or(1.0).max(1.0)
}

fn weight_bytes(subject: &Subject, evidence: &Evidence) -> Option<(f64, String)> {
    let figures = &evidence.figures;
    if let Some(bytes) = figures.typical("model.weight_bytes") {
        return Some((bytes, "weight bytes given".into()));
    }
    let named = ModelName::read(&subject.model);
    let per_param = evidence.settings.weight_format().map(Dtype::bytes_per_param).or(named.bytes_per_param)?;
    let typed = figures.typical("model.active_params").or_else(|| figures.typical("model.params"));
    if let Some(params) = typed {
        return Some((params * per_param, "parameters given".into()));
    }
    let params = named.active_params.or(named.params)?;
    Some((params * per_param, format!("size from the model's name `{}`", subject.model)))
}

/// Memory bandwidth of one device, byte/s; true when measured by a read probe; where it is from.
pub fn bandwidth(subject: &Subject, evidence: &Evidence) -> Option<(f64, bool, String)> {
    let figures = &evidence.figures;
    if let Some(sustained) = figures.typical("gpu.dram_bandwidth_sustained") {
        return Some((sustained, true, "bandwidth measured".into()));
    }
    if let Some(given) = figures.typical("gpu.dram_bandwidth") {
        return Some((given, false, "bandwidth given".into()));
    }
    let device = if evidence.device.is_empty() { &subject.device } else { &evidence.device };
    if let Some(gpu) = model::hardware::find(device) {
        return Some((gpu.dram_bytes_per_s, false, format!("bandwidth of {} by data sheet", gpu.id)));
    }
    let is_host = device.is_empty() || device == "CPU";
    if let Some(sustained) = figures.typical("host.dram_bandwidth_sustained").filter(|_| is_host) {
        return Some((sustained, true, "host memory bandwidth measured".into()));
    }
    let host = figures.typical("host.dram_bandwidth").filter(|_| is_host)?;
    Some((host, false, "host memory bandwidth given".into()))
}

/// What the name of a model says: `122B-A10B FP8`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelName {
    /// Parameters.
    pub params: Option<f64>,
    /// Parameters one token needs.
    pub active_params: Option<f64>,
    /// Bytes per parameter, where a number format is named.
    pub bytes_per_param: Option<f64>,
}

impl ModelName {
    /// Reads a name; anything it does not say stays empty.
    pub fn read(name: &str) -> Self {
        let mut found = Self::default();
        let lower = name.to_ascii_lowercase();
        found.bytes_per_param = FORMATS.iter().find(|(text, _)| lower.contains(text)).map(|(_, bytes)| *bytes);
        for word in lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')) {
            let (active, digits) = word.strip_prefix('a').map_or((false, word), |rest| (true, rest));
            let Some(billions) = digits.strip_suffix('b').and_then(|digits| digits.parse::<f64>().ok()) else { continue };
            let slot = if active { &mut found.active_params } else { &mut found.params };
            if billions > 0.0 && billions < 1e5 {
                slot.get_or_insert(billions * 1e9);
            }
        }
        found
    }
}

/// Number formats as names spell them, bytes per parameter with their scales.
const FORMATS: &[(&str, f64)] = &[
    ("nvfp4", 0.5625),
    ("mxfp4", 0.53125),
    ("fp4", 0.5625),
    ("int4", 0.53),
    ("awq", 0.53),
    ("gptq", 0.53),
    ("4 bit", 0.53),
    ("4-bit", 0.53),
    ("4bit", 0.53),
    ("q4", 0.57),
    ("q5", 0.69),
    ("q6", 0.82),
    ("q8", 1.06),
    ("8 bit", 1.0),
    ("8-bit", 1.0),
    ("fp8", 1.0),
    ("int8", 1.0),
    ("w8a8", 1.0),
    ("bf16", 2.0),
    ("fp16", 2.0),
    ("f16", 2.0),
    ("float16", 2.0),
    ("fp32", 4.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_sizes_and_formats() {
        let read = ModelName::read("122B-A10B FP8");
        assert_eq!((read.params, read.active_params, read.bytes_per_param), (Some(122e9), Some(10e9), Some(1.0)));
        let read = ModelName::read("Llama-3.1-8B-Instruct");
        assert_eq!((read.params, read.active_params, read.bytes_per_param), (Some(8e9), None, None));
        assert_eq!(ModelName::read("speech model"), ModelName::default());
        assert_eq!(ModelName::read("llama 70B F16").bytes_per_param, Some(2.0));
    }
}
