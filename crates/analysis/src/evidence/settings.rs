//! Effective settings: the most trusted source of each wins.

use std::collections::{BTreeMap, BTreeSet};

use capture::Capture;
use capture::settings::source_rank;
use model::memory::Dtype;

/// One effective setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Value as text.
    pub value: String,
    /// Where it was read.
    pub origin: String,
    /// Line there, 0 for none.
    pub line: u32,
}

/// Effective settings by key (`config.max_num_seqs`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    effective: BTreeMap<String, Setting>,
    conflicts: Vec<String>,
}

/// Settings of which one arm has one value; two mean that two configurations were put into one input.
const ONE_VALUE: &[&str] = &[
    "config.max_num_seqs",
    "config.max_num_batched_tokens",
    "config.max_model_len",
    "config.num_gpu_blocks_override",
    "config.tensor_parallel",
    "config.speculative_tokens",
    "config.prefix_caching",
];

impl Settings {
    /// Reads one arm's settings; of equally trusted sources the smaller value text wins, so order does not matter.
    pub(super) fn read(capture: &Capture, run_idx: u32) -> Self {
        let mut settings = Self::default();
        let mut candidates: Vec<(String, usize, Setting)> = Vec::new();
        for row in capture.tables.settings.rows().filter(|row| row.run_idx == run_idx) {
            let setting =
                Setting { value: capture.text(row.value).to_string(), origin: capture.text(row.origin).to_string(), line: row.line };
            candidates.push((capture.text(row.key).to_string(), source_rank(&setting.origin), setting));
        }
        candidates.sort_by(|a, b| (&a.0, a.1, &a.2.value).cmp(&(&b.0, b.1, &b.2.value)));
        let mut best: BTreeMap<String, usize> = BTreeMap::new();
        for (key, rank, setting) in candidates {
            let first = *best.entry(key.clone()).or_insert(rank);
            let known = settings.effective.entry(key.clone()).or_insert_with(|| setting.clone());
            if first == rank && known.value != setting.value && ONE_VALUE.contains(&key.as_str()) {
                settings.conflicts.push(format!("{} {} and {}", key.trim_start_matches("config."), known.value, setting.value));
            }
        }
        settings.conflicts.dedup();
        add_typed(capture, run_idx, &mut settings);
        settings
    }

    /// Settings that equally trusted sources state differently: `max_num_seqs 2 and 64`.
    pub fn conflicts(&self) -> &[String] {
        &self.conflicts
    }

    /// The effective setting of `key` (`config.max_num_seqs`).
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.effective.get(key)
    }

    /// A numeric setting.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.value.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Number format of the weights: of a quantization that names one, else the data type.
    pub fn weight_format(&self) -> Option<Dtype> {
        self.format("config.quantization").or_else(|| self.format("config.dtype"))
    }

    /// Number format of the KV cache, 16 bits where none is set.
    pub fn kv_format(&self) -> Dtype {
        self.format("config.kv_dtype").unwrap_or(Dtype::Bf16)
    }

    /// The number format that a setting names.
    pub fn format(&self, key: &str) -> Option<Dtype> {
        Dtype::parse(&self.get(key)?.value)
    }

    /// A flag: `true`/`1`/`True` and their opposites.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value.as_str() {
            "1" | "1.0" | "true" | "True" => Some(true),
            "0" | "0.0" | "false" | "False" => Some(false),
            _ => None,
        }
    }

    /// Keys whose values differ from these to `after`, in key order, with both values; `None` where one side has none.
    pub fn differing<'a>(&'a self, after: &'a Self) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
        let keys: BTreeSet<&str> = self.iter().chain(after.iter()).map(|(key, _)| key).collect();
        let value = |settings: &'a Self, key: &str| settings.get(key).map(|setting| setting.value.as_str());
        keys.into_iter().map(|key| (key, value(self, key), value(after, key))).filter(|(_, before, after)| before != after).collect()
    }

    /// All effective settings in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.effective.iter().map(|(key, setting)| (key.as_str(), setting))
    }
}

/// `config.*` figures typed by hand count as settings where no better source speaks.
fn add_typed(capture: &Capture, run_idx: u32, settings: &mut Settings) {
    let samples = &capture.tables.samples;
    for at in 0..samples.t_ns.len() {
        let name = capture.text(samples.signal[at]);
        if samples.run_idx[at] == run_idx && samples.t_ns[at] == 0 && name.starts_with("config.") && samples.point_idx[at] < 0 {
            let value = format!("{}", samples.value[at]);
            let weaker = settings.effective.get(name).is_none_or(|known| source_rank(&known.origin) > source_rank("typed"));
            if weaker {
                settings.effective.insert(name.to_string(), Setting { value, origin: "typed".into(), line: 0 });
            }
        }
    }
}

/// Seconds an engine of this arm took from its first start-up line to ready: by the stamps of its log (whole seconds),
/// or by what its lines say loading and initializing took, whichever is longer.
pub(super) fn reload_s(capture: &Capture, run_idx: u32) -> Option<f64> {
    let mut by_replica: BTreeMap<String, StartUp> = BTreeMap::new();
    for row in capture.tables.logs.rows().filter(|row| row.run_idx == run_idx) {
        let start_up = by_replica.entry(capture.text(row.replica).to_string()).or_default();
        start_up.read(capture.text(row.kind), capture.text(row.fields), row.t_ns);
    }
    by_replica.values().filter_map(StartUp::seconds).reduce(f64::max)
}

/// Start-up lines of one engine.
#[derive(Default)]
struct StartUp {
    banner_ns: Option<i64>,
    ready_ns: Option<i64>,
    loading_s: f64,
    initializing_s: f64,
}

impl StartUp {
    fn read(&mut self, kind: &str, fields: &str, t_ns: i64) {
        let said_s = fields.split(' ').find_map(|pair| pair.strip_prefix("seconds=")?.parse::<f64>().ok());
        match kind {
            "banner" => self.banner_ns = self.banner_ns.or(Some(t_ns)),
            "weights_loaded" | "model_loaded" => self.loading_s = self.loading_s.max(said_s.unwrap_or(0.0)),
            "engine_initialized" => {
                self.initializing_s = said_s.unwrap_or(0.0);
                self.ready_ns = Some(t_ns);
            }
            _ => {}
        }
    }

    fn seconds(&self) -> Option<f64> {
        let stamped_s = self.banner_ns.zip(self.ready_ns).map_or(0.0, |(banner, ready)| (ready - banner) as f64 * 1e-9);
        let said_s = self.loading_s + self.initializing_s;
        Some(stamped_s.max(said_s)).filter(|seconds| *seconds > 0.0)
    }
}
