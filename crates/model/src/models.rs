//! Shapes of common models and what they weigh in parameters.
//!
//! The rows live in `data/models.json`. Published parameter counts are kept beside the shape so that a test can rebuild
//! one from the other; a shape that does not reproduce its count would be a typing mistake. Hybrids are covered as far
//! as time and memory need them: layers with attention, layers with a state of constant size, layers with experts.
//! Vision towers, biases of single layers and multi-token-prediction heads are left out.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::memory::plausible;
use crate::words::{contains, words};

/// How attention keeps its past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Attention {
    /// Keys and values per KV head (grouped, multi-query or plain multi-head).
    #[default]
    Gqa,
    /// One latent vector and one rotary key per token, shared by all heads (DeepSeek).
    Mla {
        /// Width of the compressed keys and values.
        latent: u32,
        /// Width of the rotary key.
        rope: u32,
    },
}

/// A decoder-only transformer.
#[allow(clippy::struct_excessive_bools)] // each is a fact of an architecture, none depends on another
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ModelShape {
    /// Canonical name.
    pub name: String,
    /// Published parameter count.
    pub params: f64,
    /// Published parameters that one token uses; equals `params` for dense models.
    pub active_params: f64,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of one head (MLA: of its non-rotary part and of its value).
    pub head_dim: u32,
    /// Feed-forward width; of one expert where `experts > 0`.
    pub intermediate: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// Routed experts per layer, 0 for dense models.
    pub experts: u32,
    /// Routed experts that one token uses.
    pub experts_per_token: u32,
    /// Experts every token uses.
    #[serde(default)]
    pub shared_experts: u32,
    /// Leading layers without experts.
    #[serde(default)]
    pub dense_layers: u32,
    /// Feed-forward width of those.
    #[serde(default)]
    pub dense_intermediate: u32,
    /// How attention keeps its past.
    #[serde(default)]
    pub attention: Attention,
    /// MLA: width of the compressed query, 0 where queries are projected directly.
    #[serde(default)]
    pub query_latent: u32,
    /// Layers that look back `window` tokens only.
    #[serde(default)]
    pub windowed_layers: u32,
    /// Tokens those layers see, 0 for no window.
    #[serde(default)]
    pub window: u32,
    /// Layers with attention and a KV cache, 0 for all of them.
    #[serde(default)]
    pub attention_layers: u32,
    /// Layers that keep a state of constant size instead (Mamba, linear attention).
    #[serde(default)]
    pub state_layers: u32,
    /// Parameters of one such layer.
    #[serde(default)]
    pub state_params: f64,
    /// Bytes of state that one sequence keeps in one such layer.
    #[serde(default)]
    pub state_bytes: f64,
    /// Layers with a feed-forward part, 0 for all of them.
    #[serde(default)]
    pub ffn_layers: u32,
    /// Layers with experts, 0 for all feed-forward layers but the leading dense ones.
    #[serde(default)]
    pub expert_layers: u32,
    /// Feed-forward parts have two matrices instead of the three of a gated one.
    #[serde(default)]
    pub plain_ffn: bool,
    /// Width of all shared experts of a layer together, 0 for `shared_experts x intermediate`.
    #[serde(default)]
    pub shared_intermediate: u32,
    /// Width of one value head where it differs from `head_dim`, else 0.
    #[serde(default)]
    pub value_dim: u32,
    /// The output of attention passes a gate as wide as the query.
    #[serde(default)]
    pub gated_attention: bool,
    /// Tokens that one query of a sparse attention reads, 0 for all (DeepSeek-V3.2, GLM-5).
    #[serde(default)]
    pub sparse_tokens: u32,
    /// Width of the key by which a sparse attention chooses them; kept per token in 8 bit with a 4-byte scale.
    #[serde(default)]
    pub index_dim: u32,
    /// Heads of that choice.
    #[serde(default)]
    pub index_heads: u32,
    /// The head reads the embedding table.
    pub tied_embeddings: bool,
    /// Norm vectors per layer.
    pub norms_per_layer: u32,
    /// Query, key and value projections have a bias.
    #[serde(default)]
    pub qkv_bias: bool,
    /// Queries and keys are normalized per head.
    #[serde(default)]
    pub qk_norm: bool,
    /// Where the row was read.
    pub source: String,
    /// False where the row is recalled and was not held against the checkpoint's own file.
    #[serde(default = "yes")]
    pub checked: bool,
    #[serde(default)]
    pub(crate) keys: Vec<String>,
}

fn yes() -> bool {
    true
}

/// What decides how a model's steps behave: kinds are calibrated and scored apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Every token uses all weights.
    Dense,
    /// Tokens choose experts, attention is per head.
    Experts,
    /// Attention keeps a shared latent (DeepSeek), with experts as a rule.
    Latent,
}

impl Kind {
    /// All kinds, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Dense, Self::Experts, Self::Latent];

    /// Word for tables and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Experts => "experts",
            Self::Latent => "latent",
        }
    }
}

/// Parameters by where they are used; their sum rebuilds the published count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParamParts {
    /// Attention projections of all layers.
    pub attention: f64,
    /// Feed-forward matrices every token uses: dense layers and shared experts.
    pub dense_ffn: f64,
    /// All routed experts.
    pub routed_experts: f64,
    /// Routers, norms and biases: stay in 16 bit under every quantization.
    pub small: f64,
    /// Embedding table.
    pub embedding: f64,
    /// Output head, 0 when tied.
    pub head: f64,
}

impl ParamParts {
    /// All parameters.
    pub fn total(&self) -> f64 {
        self.attention + self.dense_ffn + self.routed_experts + self.small + self.embedding + self.head
    }
}

impl ModelShape {
    /// Which kind of model this is.
    pub fn kind(&self) -> Kind {
        match self.attention {
            Attention::Mla { .. } => Kind::Latent,
            Attention::Gqa if self.experts > 0 => Kind::Experts,
            Attention::Gqa => Kind::Dense,
        }
    }

    /// Layers with attention and a KV cache.
    pub fn cached_layers(&self) -> u32 {
        if self.attention_layers > 0 { self.attention_layers.min(self.layers) } else { self.layers.saturating_sub(self.state_layers) }
    }

    /// Layers with a feed-forward part, and those of them with experts.
    pub fn ffn_and_expert_layers(&self) -> (u32, u32) {
        let ffn = if self.ffn_layers > 0 { self.ffn_layers.min(self.layers) } else { self.layers };
        let experts = match (self.experts, self.expert_layers) {
            (0, _) => 0,
            (_, 0) => ffn.saturating_sub(self.dense_layers),
            (_, stated) => stated.min(ffn),
        };
        (ffn, experts)
    }

    /// Parameter counts rebuilt from the shape (matrix sizes of the published architectures).
    pub fn param_parts(&self) -> ParamParts {
        let f = f64::from;
        let (ffn_layers, expert_layers) = self.ffn_and_expert_layers();
        let (dense_layers, expert_layers) = (f(ffn_layers - expert_layers), f(expert_layers));
        let dense_width = if self.experts > 0 { f(self.dense_intermediate) } else { f(self.intermediate) };
        let matrices = if self.plain_ffn { 2.0 } else { 3.0 };
        let expert = matrices * f(self.hidden) * f(self.intermediate);
        let shared = match self.shared_intermediate {
            0 => f(self.shared_experts) * expert,
            width => matrices * f(self.hidden) * f(width),
        };
        let (attention, attention_small) = self.attention_params();
        let norms = f(self.norms_per_layer) * f(self.hidden);
        let routers = expert_layers * f(self.hidden) * f(self.experts);
        let table = f(self.vocab) * f(self.hidden);
        ParamParts {
            attention: f(self.cached_layers()) * attention + f(self.state_layers) * plausible(self.state_params),
            dense_ffn: dense_layers * matrices * f(self.hidden) * dense_width + expert_layers * shared,
            routed_experts: expert_layers * f(self.experts) * expert,
            small: f(self.cached_layers()) * attention_small + f(self.layers) * norms + routers + f(self.hidden),
            embedding: table,
            head: if self.tied_embeddings { 0.0 } else { table },
        }
    }

    /// Parameters that one token uses, embedding and head included.
    pub fn active_param_count(&self) -> f64 {
        let parts = self.param_parts();
        parts.total() - parts.routed_experts + parts.routed_experts * self.expert_share_per_token()
    }

    /// Share of the routed experts that one token uses, 1 for dense models.
    pub fn expert_share_per_token(&self) -> f64 {
        if self.experts == 0 { 1.0 } else { f64::from(self.experts_per_token) / f64::from(self.experts) }
    }

    /// Matrices and small vectors of attention in one layer.
    fn attention_params(&self) -> (f64, f64) {
        let f = f64::from;
        let (hidden, heads, head_dim) = (f(self.hidden), f(self.heads), f(self.head_dim));
        match self.attention {
            Attention::Gqa => {
                let (query, key) = (heads * head_dim, f(self.kv_heads) * head_dim);
                let bias = if self.qkv_bias { query + 2.0 * key } else { 0.0 };
                let norm = if self.qk_norm { 2.0 * head_dim } else { 0.0 };
                let projections = if self.gated_attention { 3.0 } else { 2.0 };
                (projections * hidden * query + 2.0 * hidden * key, bias + norm)
            }
            Attention::Mla { latent, rope } => {
                let (latent, rope, query_latent) = (f(latent), f(rope), f(self.query_latent));
                let value = if self.value_dim > 0 { f(self.value_dim) } else { head_dim };
                let query_width = heads * (head_dim + rope);
                let query = if query_latent > 0.0 { hidden * query_latent + query_latent * query_width } else { hidden * query_width };
                let key_value = hidden * (latent + rope) + latent * heads * (head_dim + value);
                let (index_dim, index_heads) = (f(self.index_dim), f(self.index_heads));
                let index = query_latent * index_heads * index_dim + hidden * (index_dim + index_heads);
                (query + key_value + heads * value * hidden + index, query_latent + latent)
            }
        }
    }
}

/// All rows, in the file's order.
pub fn all() -> &'static [ModelShape] {
    static TABLE: OnceLock<Table> = OnceLock::new();
    &TABLE
        .get_or_init(|| serde_json::from_str(include_str!("../data/models.json")).expect("data/models.json parses, a test reads it"))
        .models
}

/// The shape a model name means, or `None`.
///
/// Reads hub ids, served names and paths (`meta-llama/Llama-3.1-8B-Instruct`, `/models/qwen2.5-7b-awq`). Fine-tunes
/// and quantized copies have the shape of their base; drafts, vision and pruned variants do not and stay unanswered.
pub fn find(name: &str) -> Option<&'static ModelShape> {
    let last = name.trim().trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or_default();
    let spelled = words(last);
    longest_key(&spelled).or_else(|| longest_key(&joined_versions(&spelled)))
}

/// Words that announce another shape than the base model's.
const OTHER_SHAPE: [&str; 22] = [
    "vl",
    "vision",
    "omni",
    "audio",
    "multimodal",
    "mm",
    "embedding",
    "eagle",
    "medusa",
    "draft",
    "speculator",
    "mtp",
    "mini",
    "minitron",
    "tiny",
    "lite",
    "pruned",
    "sparse",
    "moe",
    "lora",
    "adapter",
    "dspark",
];

/// The most specific key; a word that announces another shape must be part of it (`phi 3 mini`).
fn longest_key(spelled: &[String]) -> Option<&'static ModelShape> {
    let distilled = spelled.iter().any(|word| word == "distill");
    let keys = all().iter().flat_map(|model| model.keys.iter().map(move |key| (words(key), model)));
    let (key, model) = keys
        .filter(|(key, _)| contains(spelled, key) && (!distilled || key.iter().any(|word| word == "distill")))
        .max_by_key(|(key, _)| key.len())?;
    let other = spelled.iter().find(|word| OTHER_SHAPE.contains(&word.as_str()) && !key.contains(word));
    other.is_none().then_some(model)
}

/// `llama 3 1 8b` as `llama 3.1 8b`: some registries replace the point.
fn joined_versions(spelled: &[String]) -> Vec<String> {
    let number = |word: &String| word.len() == 1 && word.bytes().all(|b| b.is_ascii_digit());
    let mut joined: Vec<String> = Vec::with_capacity(spelled.len());
    for word in spelled {
        match joined.last_mut() {
            Some(last) if number(last) && number(word) => {
                last.push('.');
                last.push_str(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

#[derive(Deserialize)]
struct Table {
    models: Vec<ModelShape>,
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(names: &[&str], expected: &Expect) {
        let lines: Vec<String> =
            names.iter().map(|name| format!("{name} -> {}\n", find(name).map_or("none", |model| &model.name))).collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn published_counts_follow_from_the_shape() {
        for model in all() {
            let off = model.param_parts().total() / model.params - 1.0;
            assert!(off.abs() < 0.001, "{}: {off:+.5}", model.name);
            let off = model.active_param_count() / model.active_params - 1.0;
            assert!(off.abs() < 0.02, "{}: active {off:+.4}", model.name);
        }
    }

    #[test]
    fn names_people_serve() {
        check(
            &[
                "meta-llama/Llama-3.1-8B-Instruct",
                "meta-llama/Meta-Llama-3-70B",
                "nvidia/Llama-3.1-8B-Instruct-FP8",
                "RedHatAI/Meta-Llama-3.1-405B-Instruct-quantized.w4a16",
                "/models/llama_3_1_8b",
                "llama3.2:3b",
                "meta-llama/Llama-2-7b-chat-hf",
                "Qwen/Qwen2.5-7B-Instruct-AWQ",
                "Qwen/Qwen2.5-Coder-32B-Instruct",
                "Qwen/Qwen3-32B-FP8",
                "Qwen/Qwen3-30B-A3B-Instruct-2507",
                "Qwen/Qwen3-235B-A22B-FP8",
                "mistralai/Mistral-7B-Instruct-v0.3",
                "mistralai/Mixtral-8x22B-Instruct-v0.1",
                "deepseek-ai/DeepSeek-R1-0528",
                "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
                "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
                "google/gemma-3-27b-it",
                "openai/gpt-oss-120b",
                "microsoft/phi-4",
                "my-team/support-llama-3.3-70b-v12/",
                "deepseek-ai/DeepSeek-V3.2-Exp",
                "deepseek-ai/DeepSeek-V2-Lite-Chat",
                "microsoft/Phi-4-mini-instruct",
                "microsoft/Phi-3.5-MoE-instruct",
                "moonshotai/Kimi-K2.5",
                "MiniMaxAI/MiniMax-M2.5",
                "zhipuai/GLM-5",
                "zai-org/GLM-4.5-Air-FP8",
                "Qwen/Qwen3.5-397B-A17B",
                "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
                "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
                "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
                "nvidia/DeepSeek-R1-NVFP4",
            ],
            &expect![[r"
                meta-llama/Llama-3.1-8B-Instruct -> Llama-3.1-8B
                meta-llama/Meta-Llama-3-70B -> Llama-3.1-70B
                nvidia/Llama-3.1-8B-Instruct-FP8 -> Llama-3.1-8B
                RedHatAI/Meta-Llama-3.1-405B-Instruct-quantized.w4a16 -> Llama-3.1-405B
                /models/llama_3_1_8b -> Llama-3.1-8B
                llama3.2:3b -> Llama-3.2-3B
                meta-llama/Llama-2-7b-chat-hf -> Llama-2-7B
                Qwen/Qwen2.5-7B-Instruct-AWQ -> Qwen2.5-7B
                Qwen/Qwen2.5-Coder-32B-Instruct -> Qwen2.5-32B
                Qwen/Qwen3-32B-FP8 -> Qwen3-32B
                Qwen/Qwen3-30B-A3B-Instruct-2507 -> Qwen3-30B-A3B
                Qwen/Qwen3-235B-A22B-FP8 -> Qwen3-235B-A22B
                mistralai/Mistral-7B-Instruct-v0.3 -> Mistral-7B-v0.3
                mistralai/Mixtral-8x22B-Instruct-v0.1 -> Mixtral-8x22B
                deepseek-ai/DeepSeek-R1-0528 -> DeepSeek-V3
                deepseek-ai/DeepSeek-R1-Distill-Llama-8B -> Llama-3.1-8B
                deepseek-ai/DeepSeek-R1-Distill-Qwen-7B -> Qwen2.5-7B
                google/gemma-3-27b-it -> Gemma-3-27B
                openai/gpt-oss-120b -> gpt-oss-120b
                microsoft/phi-4 -> Phi-4
                my-team/support-llama-3.3-70b-v12/ -> Llama-3.1-70B
                deepseek-ai/DeepSeek-V3.2-Exp -> DeepSeek-V3.2
                deepseek-ai/DeepSeek-V2-Lite-Chat -> DeepSeek-V2-Lite
                microsoft/Phi-4-mini-instruct -> Phi-4-mini
                microsoft/Phi-3.5-MoE-instruct -> Phi-3.5-MoE
                moonshotai/Kimi-K2.5 -> Kimi-K2
                MiniMaxAI/MiniMax-M2.5 -> MiniMax-M2
                zhipuai/GLM-5 -> GLM-5
                zai-org/GLM-4.5-Air-FP8 -> GLM-4.5-Air
                Qwen/Qwen3.5-397B-A17B -> Qwen3.5-397B-A17B
                Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 -> Qwen3-Coder-480B-A35B
                mistralai/Mistral-Small-3.1-24B-Instruct-2503 -> Mistral-Small-24B
                meta-llama/Llama-4-Maverick-17B-128E-Instruct -> Llama-4-Maverick
                nvidia/DeepSeek-R1-NVFP4 -> DeepSeek-V3
            "]],
        );
    }

    #[test]
    fn other_shapes_stay_unanswered() {
        check(
            &[
                "tiny-llama",
                "meta-llama/Llama-3.2-11B-Vision-Instruct",
                "Qwen/Qwen2.5-VL-7B-Instruct",
                "deepseek-ai/DeepSeek-V4",
                "someone/DeepSeek-R1-Distill-Yi-34B",
                "yuhuili/EAGLE3-LLaMA3.1-8B",
                "zai-org/GLM-4.5V",
                "gpt-4",
                "",
            ],
            &expect![[r"
                tiny-llama -> none
                meta-llama/Llama-3.2-11B-Vision-Instruct -> none
                Qwen/Qwen2.5-VL-7B-Instruct -> none
                deepseek-ai/DeepSeek-V4 -> none
                someone/DeepSeek-R1-Distill-Yi-34B -> none
                yuhuili/EAGLE3-LLaMA3.1-8B -> none
                zai-org/GLM-4.5V -> none
                gpt-4 -> none
                 -> none
            "]],
        );
    }

    #[test]
    fn canonical_names_find_themselves() {
        for model in all() {
            assert_eq!(find(&model.name).map(|found| &found.name), Some(&model.name));
        }
    }
}
