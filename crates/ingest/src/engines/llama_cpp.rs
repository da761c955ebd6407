//! llama.cpp's server: `/metrics` (with `--metrics`), flags, the lines per slot and of loading.

mod flags;
mod log;
mod metrics;

use crate::engines::{DefaultsQuery, Engine};

/// See [`Engine`].
pub(crate) const ENGINE: Engine = Engine {
    id: "llama.cpp",
    aliases: &["llamacpp", "llama-cpp", "llama-server", "llama.cpp-server"],
    is_gateway: false,
    metrics: metrics::METRICS,
    prefixes: &["llamacpp:", "llamacpp_"],
    core_label: "engine",
    rank_labels: &[],
    info: |_, _| None,
    is_command: flags::is_command,
    flags: flags::settings,
    defaults,
    log: Some(&log::LOG),
};

/// What llama-server does when nobody says. Builds are numbered; the default number of slots became automatic (4, with
/// one shared cache) late in 2025, so it is given only for builds where it is known to be 1.
fn defaults(query: &DefaultsQuery<'_>) -> Vec<(&'static str, String)> {
    let build = query.version.trim_start_matches(['b', 'v']).parse::<u32>().ok();
    let Some(build) = build.filter(|build| (1..1_000_000).contains(build)) else { return Vec::new() };
    let mut found = vec![("config.tensor_parallel", "1".to_string())];
    if build >= 2500 {
        found.push(("config.max_num_batched_tokens", "2048".to_string()));
        found.push(("config.split_mode", "layer".to_string()));
    }
    if build < 6000 {
        found.push(("config.max_num_seqs", "1".to_string()));
    }
    if build >= 4200 {
        found.push(("config.prefix_caching", "true".to_string()));
    }
    found.retain(|(key, _)| !query.stated.contains_key(*key));
    found
}
