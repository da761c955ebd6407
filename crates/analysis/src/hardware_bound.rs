//! What the hardware allows: the least time of a decode step for this model on this device.
//!
//! A bound, never a forecast: measured steps are 3.4 times an ideal roofline in the median (whatif.md, section 0). It
//! says how far from the limit a server is, and which typed model or device cannot be right.

use capture::Subject;
use model::hardware::Gpu;
use model::memory::Dtype;
use model::models::ModelShape;
use model::roofline::{Deployment, Limit, StepShape, ridge_batch, step_bound};

use crate::evidence::Settings;
use crate::load::Load;

/// A known model on a known device.
#[derive(Clone, Copy, Debug)]
pub struct Hardware {
    model: &'static ModelShape,
    gpu: &'static Gpu,
    deployment: Deployment,
}

/// The public name of the model that a name or path means; `None` when it is none of the table.
pub fn public_model(name: &str) -> Option<&'static str> {
    let known = model::models::find(name)?;
    // A name that would not lead back to the same row says less than a hash.
    model::models::find(&known.name).filter(|again| again.name == known.name).map(|known| known.name.as_str())
}

/// The public name of the device that a name means; `None` when it is none of the table.
pub fn public_device(name: &str) -> Option<&'static str> {
    let known = model::hardware::find(name)?;
    model::hardware::find(&known.id).filter(|again| again.id == known.id).map(|known| known.id.as_str())
}

/// The format that a model's weights were published in, where that is not 16 bit (`quantization_config` in their `config.json`).
fn published_in(model: &ModelShape) -> Option<Dtype> {
    let published = [("gpt-oss", Dtype::Mxfp4), ("DeepSeek-V3", Dtype::Fp8), ("DeepSeek-R1", Dtype::Fp8)];
    published.into_iter().find(|(name, _)| model.name.starts_with(name)).map(|(_, dtype)| dtype)
}

/// True where the name says that the weights were brought into another format.
fn names_format(model: &str) -> bool {
    let lower = model.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        ["fp8", "fp4", "nvfp4", "mxfp4", "int8", "int4", "4bit", "8bit", "awq", "gptq", "gguf", "bnb", "w4a16", "w8a8", "w8a16"]
            .contains(&word)
    })
}

/// Distance of a measured step from its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Measured over bound.
    pub factor: f64,
    /// True when bytes bound the step, false when arithmetic does.
    pub memory_bound: bool,
}

impl Hardware {
    /// Looks both up; `None` when either is not in the tables. Formats come from the settings, bf16 where none says.
    pub fn find(subject: &Subject, settings: &Settings) -> Option<Self> {
        let (weights, kv) = (settings.weight_format().unwrap_or(Dtype::Bf16), settings.kv_format());
        let ranks = settings.number("config.tensor_parallel").unwrap_or(1.0).clamp(1.0, 64.0) as u32;
        let model = model::models::find(&subject.model)?;
        let gpu = model::hardware::find(&subject.device)?;
        Some(Self { model, gpu, deployment: Deployment { weights, kv, ranks } })
    }

    /// The same on a device that a recorder names, shared by as many ranks as are set, else as were recorded; nothing where
    /// the format of the weights is open, for its bytes are what a decode step takes.
    pub fn on(subject: &Subject, settings: &Settings, gpu: &'static Gpu, recorded: usize) -> Option<Self> {
        let named = Subject { device: gpu.id.clone(), ..subject.clone() };
        let found = Self::find(&named, settings)?;
        let set = settings.format("config.quantization");
        let weights =
            set.or_else(|| published_in(found.model)).or_else(|| (!names_format(&subject.model)).then_some(found.deployment.weights));
        let ranks = if settings.get("config.tensor_parallel").is_some() { found.deployment.ranks } else { recorded.clamp(1, 64) as u32 };
        Some(Self { deployment: Deployment { ranks, weights: weights?, ..found.deployment }, ..found })
    }

    /// The model.
    pub fn model(&self) -> &'static ModelShape {
        self.model
    }

    /// The device.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// Number formats and ranks.
    pub fn deployment(&self) -> Deployment {
        self.deployment
    }

    /// Sequences per step at which arithmetic takes as long as reading the weights.
    pub fn ridge(&self) -> Option<f64> {
        let rate = match self.deployment.weights {
            Dtype::Fp8 => self.gpu.fp8_flops.or(self.gpu.bf16_flops),
            _ => self.gpu.bf16_flops,
        }?;
        Some(ridge_batch(rate, self.gpu.dram_bytes_per_s, self.deployment.weights.bytes_per_param()))
            .filter(|batch| batch.is_finite() && *batch > 1.0)
    }

    /// How far a decode step of `step_s` at `batch` sequences is from the least it can take.
    pub fn distance(&self, load: &Load, batch: f64, step_s: f64) -> Option<Distance> {
        let mean_context = load.prompt_tokens? + 0.5 * load.output_tokens?;
        let shape = StepShape { prefill_tokens: 0.0, decode_seqs: batch.max(1.0), mean_context };
        let bound = step_bound(self.model, self.deployment, &shape, self.gpu);
        let factor = step_s / bound.bound_s;
        (factor.is_finite() && factor > 0.0).then_some(Distance { factor, memory_bound: bound.limit == Limit::Memory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_counted_in_the_format_they_are_served_in() {
        let gpu = model::hardware::find("h100-sxm").unwrap();
        let weights = |name: &str| {
            let subject = Subject { model: name.into(), ..Subject::default() };
            Hardware::on(&subject, &Settings::default(), gpu, 1).map(|hardware| hardware.deployment.weights)
        };
        assert_eq!(weights("meta-llama/Llama-3.1-8B-Instruct"), Some(Dtype::Bf16));
        assert_eq!(weights("openai/gpt-oss-20b"), Some(Dtype::Mxfp4));
        assert_eq!(weights("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"), None);
        assert_eq!(weights("acme/unheard-of"), None);
    }
}
