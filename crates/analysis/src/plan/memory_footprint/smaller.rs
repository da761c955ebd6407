//! Smaller models in place of this one: pruned, or a sibling of the table. They give other answers, so they are shown
//! and never recommended.

use model::deployment::Deployment;
use model::models::{self, ModelShape};

use crate::plan::case::{Case, Setting};
use crate::plan::operating::Operating;

/// Bytes of a 2:4 sparse matrix over those of a dense one in 16 bit: two of four values and two bits of position for each,
/// `(2 x 16 + 2 x 2) / (4 x 16)` (NVIDIA's structured sparsity). Faster arithmetic of sparse units is not counted.
const SPARSE: f64 = 36.0 / 64.0;

/// Siblings shown.
const SHOWN: usize = 2;

/// Calls `row` with name, weights per device, how it runs and a remark for each smaller model that runs.
pub(super) fn rows<'a>(case: &Case<'a>, setting: &Setting<'a>, row: &mut dyn FnMut(String, f64, &Operating, &str)) {
    let deployment = setting.deployment;
    if deployment.weights.bytes_per_param() == 2.0 {
        let parts = deployment.model.param_parts();
        let matrices = (parts.attention + parts.dense_ffn + parts.routed_experts) * 2.0;
        let whole = model::memory::weight_bytes(deployment.model, deployment.weights);
        let sparse = Deployment { weight_bytes: Some(whole - matrices * (1.0 - SPARSE)), kv_tokens: None, ..deployment };
        if let Ok(found) = case.operate(&setting.with(sparse)) {
            row("2:4 sparse weights".into(), sparse.weight_bytes_per_rank(), &found, "needs a pruned checkpoint; accuracy not measured");
        }
    }
    for model in siblings(deployment.model) {
        let smaller = Deployment { model, weight_bytes: None, kv_tokens: None, ..deployment };
        if let Ok(found) = case.operate(&setting.with(smaller)) {
            row(format!("{} instead", model.name), smaller.weight_bytes_per_rank(), &found, "another model: other answers");
        }
    }
}

/// Models of the same family with at most half the parameters, the same generation and the largest first.
fn siblings(model: &ModelShape) -> Vec<&'static ModelShape> {
    let family = family(&model.name);
    let mut found: Vec<&ModelShape> =
        models::all().iter().filter(|other| self::family(&other.name) == family && other.params <= model.params / 2.0).collect();
    let other = |sibling: &ModelShape| generation(&sibling.name) != generation(&model.name);
    found.sort_by(|a, b| other(a).cmp(&other(b)).then(b.params.total_cmp(&a.params)));
    found.truncate(SHOWN);
    found
}

/// Letters at the start of a name: `Llama`, `Qwen`, `DeepSeek`.
pub(in crate::plan) fn family(name: &str) -> &str {
    let end = name.find(|sign: char| !sign.is_ascii_alphabetic()).unwrap_or(name.len());
    &name[..end]
}

/// A name up to its first dash: `Qwen3`, `Llama`.
pub(in crate::plan) fn generation(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}
