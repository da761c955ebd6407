//! SGLang: metrics (`--enable-metrics`), flags, the scheduler's log, defaults.

mod defaults;
mod flags;
mod log;
mod metrics;

use crate::engines::Engine;

/// See [`Engine`].
pub(crate) const ENGINE: Engine = Engine {
    id: "sglang",
    aliases: &["sgl", "sg-lang"],
    is_gateway: false,
    metrics: metrics::METRICS,
    prefixes: &["sglang:", "sglang_"],
    core_label: "dp_rank",
    rank_labels: &["tp_rank", "pp_rank", "moe_ep_rank", "attn_tp_rank"],
    info: metrics::info,
    is_command: flags::is_command,
    flags: flags::settings,
    defaults: defaults::defaults,
    log: Some(&log::LOG),
};
