//! How much of the device's arithmetic computing prompts uses.

use capture::Subject;
use model::hardware::Gpu;
use model::memory::Dtype;
use model::roofline::peak_flops;

use crate::decode_bound::ModelName;
use crate::device_step::figure_of;
use crate::evidence::Evidence;

/// Prompt tokens computed per second.
pub fn prompt_rate(arm: &Evidence) -> Option<f64> {
    let figures = &arm.figures;
    let by_time = || {
        let computed = figure_of(figures, "server.prompt_tokens")? - figure_of(figures, "server.cached_tokens").unwrap_or(0.0);
        figure_of(figures, "server.prefill_time").filter(|time| *time > 0.0).map(|time| computed / time)
    };
    by_time().or_else(|| figure_of(figures, "client.throughput.prompt"))
}

/// Peak operations per second of one device for this arm's number format.
pub fn peak(subject: &Subject, arm: &Evidence) -> Option<(f64, &'static Gpu)> {
    let device = if arm.device.is_empty() { &subject.device } else { &arm.device };
    let gpu = model::hardware::find(device)?;
    Some((peak_flops(gpu, arm.settings.weight_format().unwrap_or(Dtype::Bf16))?, gpu))
}

/// Operations per prompt token over all devices' peak, s: 2 x parameters over it.
fn token_s(subject: &Subject, arm: &Evidence) -> Option<f64> {
    let figures = &arm.figures;
    let name = ModelName::read(&subject.model);
    let params =
        figures.typical("model.active_params").or(name.active_params).or_else(|| figures.typical("model.params")).or(name.params)?;
    let (peak, _) = peak(subject, arm)?;
    let ranks = arm.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
    Some(2.0 * params / ranks / peak).filter(|s| s.is_finite() && *s > 0.0)
}

/// Time to compute a prompt of `tokens` at a share of the device's arithmetic, s.
pub fn prompt_s(subject: &Subject, arm: &Evidence, tokens: f64, share: f64) -> Option<f64> {
    Some(token_s(subject, arm)? * tokens / share)
}

/// Share of the device's arithmetic that prompts use: 2 x parameters x tokens per second.
pub fn utilization(subject: &Subject, arm: &Evidence) -> Option<f64> {
    Some(token_s(subject, arm)? * prompt_rate(arm)?).filter(|share| share.is_finite() && *share > 0.0)
}
