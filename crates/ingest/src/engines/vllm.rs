//! vLLM: V0 (to 0.10) and V1 (0.6 experimental, default from 0.8), metrics and flags under old and new names.

mod defaults;
pub(crate) mod flags;
pub(crate) mod log;
mod metrics;

use crate::engines::Engine;

/// See [`Engine`].
pub(crate) const ENGINE: Engine = Engine {
    id: "vllm",
    aliases: &[],
    is_gateway: false,
    metrics: metrics::METRICS,
    prefixes: &["vllm:", "ray_vllm_", "ray_vllm:", "vllm_"],
    core_label: "engine",
    rank_labels: &[],
    info: metrics::info,
    is_command: flags::is_command,
    flags: flags::settings,
    defaults: defaults::defaults,
    log: None,
};
