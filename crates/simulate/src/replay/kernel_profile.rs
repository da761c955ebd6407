//! Step times from measured kernels, without having seen any run: LLMServingSim's profile of one layer.
//!
//! `dense.csv` has each kernel's time by tokens, `per_sequence.csv` output head and sampler by sequences, `attention.csv`
//! attention by prompt chunk, its cached start, decoding sequences and their context. Between grid points times are
//! straight lines, beyond the last they go on in proportion. Attention of prompts and of decode are added, sequences of
//! unequal context count as that many of the mean. Left out: time of the host, communication between ranks.

use std::collections::BTreeMap;

use super::RunError;
use crate::cost::{StepCost, StepShape};

/// Times of one layer's kernels, seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelProfile {
    layers: f64,
    /// All kernels of a layer by tokens, those that run twice counted twice.
    layer: Curve,
    /// Embedding and last norm by tokens.
    once: Curve,
    /// Output head and sampler by sequences.
    per_sequence: Curve,
    /// Attention by decoding sequences, each by context.
    decode: Vec<(f64, Curve)>,
    /// Attention by prompt chunk, each by cached start.
    prefill: Vec<(f64, Curve)>,
}

/// Points in ascending order.
type Curve = Vec<(f64, f64)>;

/// Largest profile that is read, rows per file.
const MOST_ROWS: usize = 1_000_000;

/// A straight line between points, in proportion beyond the last, the first before it.
fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let above = curve.partition_point(|point| point.0 < x);
    match (above.checked_sub(1).and_then(|below| curve.get(below)), curve.get(above)) {
        (Some(below), Some(above)) => below.1 + (above.1 - below.1) * (x - below.0) / (above.0 - below.0),
        (None, Some(first)) => first.1,
        (Some(last), None) => last.1 * x / last.0.max(1.0),
        (None, None) => 0.0,
    }
}

/// The same between curves.
fn between(curves: &[(f64, Curve)], x: f64, y: f64) -> f64 {
    let line: Curve = curves.windows(2).find(|pair| x <= pair[1].0).or_else(|| curves.windows(2).last()).map_or_else(
        || curves.iter().map(|curve| (curve.0, at(&curve.1, y))).collect(),
        |pair| pair.iter().map(|curve| (curve.0, at(&curve.1, y))).collect(),
    );
    at(&line, x)
}

/// Rows of numbers after a first column of text or without it.
fn rows<const N: usize>(file: &'static str, text: &str, names: bool) -> Result<Vec<(String, [f64; N])>, RunError> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()).take(MOST_ROWS) {
        let wrong = |found: &str| RunError {
            file,
            line: number as u64 + 1,
            field: "line",
            expected: "a kernel's numbers, none negative",
            found: found.chars().take(40).collect(),
        };
        let mut cells = line.split(',').map(str::trim);
        let name = if names { cells.next().unwrap_or_default().to_string() } else { String::new() };
        let mut values = [0.0; N];
        for value in &mut values {
            let number = cells.next().and_then(|cell| cell.parse::<f64>().ok()).filter(|number| (0.0..1e12).contains(number));
            *value = number.ok_or_else(|| wrong(line))?;
        }
        rows.push((name, values));
    }
    Ok(rows)
}

/// Adds up kernels by tokens; microseconds become seconds.
fn summed(rows: &[(String, [f64; 2])], times: impl Fn(&str) -> f64) -> Curve {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for (name, [tokens, time_us]) in rows {
        *sums.entry(*tokens as u64).or_default() += times(name) * time_us * 1e-6;
    }
    sums.into_iter().map(|(tokens, time_s)| (tokens as f64, time_s)).collect()
}

impl KernelProfile {
    /// Reads the three texts for a model of this many layers.
    pub fn read(dense: &str, per_sequence: &str, attention: &str, layers: u32) -> Result<Self, RunError> {
        let dense = rows::<2>("dense.csv", dense, true)?;
        let per_sequence = rows::<2>("per_sequence.csv", per_sequence, true)?;
        let attention = rows::<5>("attention.csv", attention, false)?;
        let is_once = |name: &str| matches!(name, "embedding" | "final_layernorm");
        // Both norms of a layer have the same row.
        let in_layer = |name: &str| if is_once(name) { 0.0 } else { 1.0 + f64::from(u8::from(name == "layernorm")) };
        let mut decode: BTreeMap<u64, Curve> = BTreeMap::new();
        let mut prefill: BTreeMap<u64, Curve> = BTreeMap::new();
        for (_, [chunk, start, seqs, context, time_us]) in attention {
            if chunk == 0.0 && seqs > 0.0 {
                decode.entry(seqs as u64).or_default().push((context, time_us * 1e-6));
            } else if seqs == 0.0 && chunk > 0.0 {
                prefill.entry(chunk as u64).or_default().push((start, time_us * 1e-6));
            }
        }
        let ascending = |curves: BTreeMap<u64, Curve>| -> Vec<(f64, Curve)> {
            let sorted = |mut curve: Curve| {
                curve.sort_by(|a, b| a.0.total_cmp(&b.0));
                curve.dedup_by(|a, b| a.0 == b.0);
                curve
            };
            curves.into_iter().map(|(key, curve)| (key as f64, sorted(curve))).collect()
        };
        Ok(Self {
            layers: f64::from(layers),
            layer: summed(&dense, in_layer),
            once: summed(&dense, |name| f64::from(u8::from(is_once(name)))),
            per_sequence: summed(&per_sequence, |_| 1.0),
            decode: ascending(decode),
            prefill: ascending(prefill),
        })
    }
}

impl StepCost for KernelProfile {
    fn device_s(&self, shape: &StepShape) -> f64 {
        let seqs = f64::from(shape.decode_seqs);
        let (prompt, tokens) = (f64::from(shape.prefill_tokens), f64::from(shape.prefill_tokens + shape.draft_tokens) + seqs);
        let decode_s = if seqs > 0.0 { between(&self.decode, seqs, shape.context_tokens as f64 / seqs) } else { 0.0 };
        // Pairs are `chunk x (start + chunk / 2)`; several prompts in one step look like one that starts earlier.
        let start = if prompt > 0.0 { (shape.prefill_pairs as f64 / prompt - prompt / 2.0).max(0.0) } else { 0.0 };
        let prefill_s = if prompt > 0.0 { between(&self.prefill, prompt, start) } else { 0.0 };
        self.layers * (at(&self.layer, tokens) + decode_s + prefill_s) + at(&self.once, tokens) + at(&self.per_sequence, seqs.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_profile_by_hand() {
        let dense =
            "layer,tokens,time_us\nqkv_proj,1,10\nqkv_proj,101,110\nlayernorm,1,1\nlayernorm,101,1\nembedding,1,5\nembedding,101,5\n";
        let attention = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,0,0\n0,0,1,1000,100\n0,0,2,0,0\n0,0,2,1000,200\n100,0,0,0,40\n100,100,0,0,80\n";
        let profile = KernelProfile::read(dense, "layer,sequences,time_us\nlm_head,1,7\n", attention, 2).unwrap();
        let us = |shape: StepShape| (profile.device_s(&shape) * 1e6 * 1000.0).round() / 1000.0;
        let decode = StepShape { decode_seqs: 2, context_tokens: 1000, ..StepShape::default() };
        // Two tokens: 11 + 2 per layer, attention of two sequences at 500 tokens 100; twice; 5 and 14 once.
        assert_eq!(us(decode), 2.0 * (11.0 + 2.0 + 100.0) + 5.0 + 14.0);
        let prompt = StepShape { prefill_tokens: 100, prefill_pairs: 100 * (50 + 50), ..StepShape::default() };
        assert_eq!(us(prompt), 2.0 * (109.0 + 2.0 + 60.0) + 5.0 + 7.0);
    }

    #[test]
    fn damaged_profiles_are_refused_by_line() {
        let error = KernelProfile::read("layer,tokens,time_us\nqkv_proj,1,x\n", "", "", 1).unwrap_err();
        assert_eq!((error.file, error.line), ("dense.csv", 2));
        let empty = KernelProfile::read("", "", "", 1).unwrap();
        assert_eq!(empty.device_s(&StepShape { decode_seqs: 9, prefill_tokens: 9, ..StepShape::default() }), 0.0);
    }
}
