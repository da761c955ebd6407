//! What each token of context adds to a decode step, against the bytes that reading it takes.

use capture::Subject;
use model::memory::kv_bytes_per_token;

use crate::decode_bound::{ACHIEVABLE, ModelName, bandwidth, batch};
use crate::evidence::{Evidence, Point};

/// Step time over context.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextSlope {
    /// Seconds that one token of context (of every running sequence together) adds.
    pub per_token_s: f64,
    /// Longest context and its step time, s.
    pub longest: (f64, f64),
    /// Step time at no context, s: the line through the two ends.
    pub base_s: f64,
    /// Largest KV bytes per token that this model can have, on one device.
    pub most_bytes: f64,
    /// Likely KV bytes per token.
    pub likely_bytes: f64,
    /// Reachable bandwidth, byte/s.
    pub reachable: f64,
    /// Where the bytes are from.
    pub from: String,
}

/// A sweep must span this factor of context for its slope to be the context's.
const SPAN: f64 = 2.0;

impl ContextSlope {
    /// Reads it from rows that vary the prompt's length.
    pub fn read(subject: &Subject, evidence: &Evidence) -> Option<Self> {
        let rows = rows(evidence);
        let (first, last) = (*rows.first()?, *rows.last()?);
        if last.0 < SPAN * first.0 || last.0 - first.0 < 500.0 {
            return None;
        }
        let per_token_s = (last.1 - first.1) / (last.0 - first.0);
        let (peak, is_sustained, from) = bandwidth(subject, evidence)?;
        let reachable = peak * if is_sustained { 1.0 } else { ACHIEVABLE };
        let (likely_bytes, most_bytes, bytes_from) = bytes_per_token(subject, evidence);
        Some(Self {
            per_token_s,
            longest: last,
            base_s: (first.1 - per_token_s * first.0).max(0.0),
            most_bytes: most_bytes * batch(evidence),
            likely_bytes: likely_bytes * batch(evidence),
            reachable,
            from: format!("{bytes_from}, {from}"),
        })
    }

    /// The slope as the bytes per token it would take, over the largest that the model can have.
    pub fn over_most(&self) -> f64 {
        self.per_token_s * self.reachable / self.most_bytes
    }

    /// Share of the longest step that its context takes beyond its bytes, `[lo, mid, hi]`.
    pub fn ends(&self) -> [f64; 3] {
        let (context, step) = self.longest;
        let beyond = |bytes: f64| ((self.per_token_s - bytes / self.reachable) * context / step).max(0.0);
        [beyond(self.most_bytes), beyond(self.likely_bytes), beyond(0.5 * self.likely_bytes)]
    }
}

/// The longest that reading the cache of one step can take, s: the largest cache this model can have over the reachable
/// bandwidth. Only where context and bandwidth are known.
pub fn most_cache_s(subject: &Subject, evidence: &Evidence) -> Option<f64> {
    let figures = &evidence.figures;
    let context = figures.anywhere("server.prompt_tokens")? + 0.5 * figures.anywhere("server.output_tokens").unwrap_or(0.0);
    let (peak, is_sustained, _) = bandwidth(subject, evidence)?;
    let (_, most, _) = bytes_per_token(subject, evidence);
    let streams = batch(evidence);
    Some(most * context * streams / (peak * if is_sustained { 1.0 } else { ACHIEVABLE }))
}

/// (context, step time), ascending by context.
fn rows(evidence: &Evidence) -> Vec<(f64, f64)> {
    let drafts = evidence.settings.number("config.speculative_tokens").unwrap_or(0.0) > 0.0;
    let step = |point: &Point| {
        let direct =
            ["engine.step_time", "client.tpot", "server.tpot", "client.itl", "server.itl"].iter().find_map(|name| point.typical(name));
        let streams = point.typical("client.concurrency").or_else(|| evidence.figures.typical("client.concurrency")).unwrap_or(1.0);
        direct.or_else(|| point.typical("client.throughput.output").filter(|rate| *rate > 0.0).map(|rate| streams / rate))
    };
    let varies_only_context = |point: &&Point| {
        point.typical("client.concurrency").is_none() && point.about("class").is_none()
            || evidence.figures.typical("client.concurrency").is_none()
    };
    let mut rows: Vec<(f64, f64)> = evidence
        .figures
        .points()
        .filter(varies_only_context)
        .filter_map(|point| Some((point.typical("server.prompt_tokens")?, step(point)?)))
        .filter(|(context, step)| *context >= 1.0 && *step > 0.0)
        .collect();
    rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows.dedup_by(|a, b| a.0 == b.0);
    if drafts { Vec::new() } else { rows }
}

/// Likely and largest KV bytes per token on one device: typed, by the model table, else by the size in its name.
fn bytes_per_token(subject: &Subject, evidence: &Evidence) -> (f64, f64, String) {
    let dtype = evidence.settings.kv_format();
    let ranks = evidence.settings.number("config.tensor_parallel").unwrap_or(1.0).max(1.0);
    if let Some(bytes) = evidence.figures.typical("model.kv_bytes_per_token") {
        return (bytes / ranks, 1.1 * bytes / ranks, "KV bytes per token given".into());
    }
    if let Some(shape) = model::models::find(&subject.model) {
        let bytes = kv_bytes_per_token(shape, dtype);
        return (bytes / ranks, 1.1 * bytes, format!("KV bytes per token of {}", shape.name));
    }
    let name = ModelName::read(&subject.model);
    let params = evidence.figures.typical("model.params").or(name.params).or(name.active_params);
    let most = params.map_or(MOST_BYTES, |params| most_bytes(params).min(MOST_BYTES)) * dtype.bytes_per_param() / 2.0;
    // Grouped heads, in every model since 2023, keep an eighth of it or less.
    (most / 8.0 / ranks, most / ranks, "largest KV bytes per token for a model of this size".into())
}

/// Keys and values of every head in 16 bit for the largest dense model ever served: 96 layers of 12,288.
const MOST_BYTES: f64 = 2.0 * 96.0 * 12_288.0 * 2.0;

/// Keys and values of every head in 16 bit for a model of `params` parameters: `2 L h 2 B` with `12 L h^2` parameters and
/// a width of 128 per layer, as dense transformers of every size have it.
fn most_bytes(params: f64) -> f64 {
    let layers = (params / (12.0 * 128.0 * 128.0)).cbrt();
    2.0 * layers * (128.0 * layers) * 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_of_a_size_holds_every_known_model() {
        // Llama-1 65B keeps all heads: 80 layers of 8,192, 2.6 MB per token.
        assert!((most_bytes(65e9) / 2.6e6 - 1.0).abs() < 0.1, "{}", most_bytes(65e9));
        assert!(most_bytes(175e9) <= 1.05 * MOST_BYTES);
    }

    #[test]
    fn a_slope_at_the_memory_is_no_excess() {
        let slope = ContextSlope {
            per_token_s: 131_072.0 / 2.4e12,
            longest: (32_000.0, 0.012),
            base_s: 0.010,
            most_bytes: 144_000.0,
            likely_bytes: 131_072.0,
            reachable: 2.4e12,
            from: String::new(),
        };
        assert!(slope.over_most() < 1.0);
        assert!(slope.ends()[1].abs() < 1e-9);
        let slow = ContextSlope { per_token_s: 20.0 * slope.per_token_s, longest: (32_000.0, 0.045), ..slope };
        let [lo, mid, hi] = slow.ends();
        assert!(0.5 < lo && lo <= mid && mid <= hi && hi < 1.0, "{lo} {mid} {hi}");
    }
}
