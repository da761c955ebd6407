//! The engines we know: which metrics they export, how their flags and log lines read, what they do by default.
//!
//! One file per engine, one entry in [`ENGINES`]. Everything here is a table or a pure function; formats do the reading.

pub(crate) mod dcgm;
pub(crate) mod flags;
pub(crate) mod forms;
mod gateways;
mod llama_cpp;
mod lmdeploy;
pub(crate) mod log;
pub(crate) mod metric;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod vllm;
pub(crate) mod web;

use crate::builder::Builder;
use crate::engines::metric::{Metric, SeriesLabels};

/// What an importer needs to know of an engine.
pub(crate) struct Engine {
    /// Id as it stands in `Subject::engine`.
    pub(crate) id: &'static str,
    /// Other names people type.
    pub(crate) aliases: &'static [&'static str],
    /// True for what stands in front of engines: it is told as `config.gateway` and never is the subject.
    pub(crate) is_gateway: bool,
    /// Metric families.
    pub(crate) metrics: &'static [Metric],
    /// Prefixes under which the families may appear; the first is the engine's own.
    pub(crate) prefixes: &'static [&'static str],
    /// Label that names the engine core of a series.
    pub(crate) core_label: &'static str,
    /// Labels that tell ranks apart which repeat one another: of series that differ in nothing else the first counts.
    pub(crate) rank_labels: &'static [&'static str],
    /// Reads an info series (settings as labels), given its name and labels; `None` when it is none.
    pub(crate) info: fn(&str, &SeriesLabels) -> Option<Info>,
    /// True when a command line starts this engine's server.
    pub(crate) is_command: fn(&str) -> bool,
    /// Settings from a list of words of a command line.
    pub(crate) flags: fn(&[String]) -> Vec<FlagSetting>,
    /// Adds what the engine does by default for what `stated` leaves open.
    pub(crate) defaults: fn(&DefaultsQuery<'_>) -> Vec<(&'static str, String)>,
    /// Its log, where `formats/engine_log.rs` reads it.
    pub(crate) log: Option<&'static log::LogLines>,
}

impl Engine {
    /// An engine of which only metrics are known.
    const fn of_metrics(id: &'static str, prefixes: &'static [&'static str], metrics: &'static [Metric]) -> Self {
        Self {
            id,
            aliases: &[],
            is_gateway: false,
            metrics,
            prefixes,
            core_label: "engine",
            rank_labels: &[],
            info: |_, _| None,
            is_command: |_| false,
            flags: |_| Vec::new(),
            defaults: |_| Vec::new(),
            log: None,
        }
    }

    /// A gateway of which only metrics are known.
    const fn gateway(id: &'static str, prefixes: &'static [&'static str], metrics: &'static [Metric]) -> Self {
        let mut engine = Self::of_metrics(id, prefixes, metrics);
        engine.is_gateway = true;
        engine
    }
}

/// Settings and constant samples an info series carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Info {
    /// `config.` key and value.
    pub(crate) settings: Vec<(String, String)>,
    /// Signal and value, repeated at every scrape.
    pub(crate) samples: Vec<(&'static str, f64)>,
}

/// One setting read from a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlagSetting {
    /// `config.` name.
    pub(crate) key: String,
    /// Value text.
    pub(crate) value: String,
}

/// What the defaults of an engine depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct DefaultsQuery<'a> {
    /// Version text.
    pub(crate) version: &'a str,
    /// Device name; `CPU` for the CPU backend; empty when unknown.
    pub(crate) device: &'a str,
    /// `V0`, `V1` or empty when unknown.
    pub(crate) generation: &'a str,
    /// What is stated already, by `config.` key.
    pub(crate) stated: std::collections::BTreeMap<String, String>,
}

/// All engines.
pub(crate) const ENGINES: &[Engine] = &[
    vllm::ENGINE,
    sglang::ENGINE,
    llama_cpp::ENGINE,
    tensorrt_llm::ENGINE,
    tensorrt_llm::TRITON,
    tgi::ENGINE,
    lmdeploy::ENGINE,
    gateways::DYNAMO_FRONTEND,
    gateways::DYNAMO_COMPONENT,
    gateways::INFERENCE_GATEWAY,
    gateways::ENVOY,
    gateways::ENVOY_AI,
    gateways::LITELLM,
    gateways::SGLANG_ROUTER,
];

/// The engine with this id.
pub(crate) fn find(id: &str) -> Option<&'static Engine> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['_', ' '], "-");
    let id = plain(id);
    ENGINES.iter().filter(|engine| !engine.is_gateway).find(|engine| engine.id == id || engine.aliases.contains(&id.as_str()))
}

/// The engine that a command line starts.
pub(crate) fn of_command(line: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| (engine.is_command)(line))
}

pub(crate) use vllm::log as vllm_log;

/// Adds the settings of a command line of this engine.
pub(crate) fn add_flags(builder: &mut Builder<'_>, engine: &Engine, words: &[String], replica: &str, origin: &str, line: u64) {
    for setting in (engine.flags)(words) {
        builder.setting(replica, &setting.key, &setting.value, origin, line);
    }
}
