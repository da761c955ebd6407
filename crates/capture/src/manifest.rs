//! The manifest: what a capture is, where it came from, and how its clocks were joined.

use serde::{Deserialize, Serialize};

/// What `kind` says in every manifest.
pub const KIND: &str = "inferoscope.capture";

/// Version of the on-disk schema. A reader refuses a newer major version and says so.
pub const SCHEMA_VERSION: u32 = 1;

/// What stands in `manifest.json`; on disk the hashes of the tables join it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Always `inferoscope.capture`.
    pub kind: String,
    /// On-disk schema version, see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was measured, as far as the sources say.
    pub subject: Subject,
    /// One per input, in canonical order.
    pub sources: Vec<Source>,
    /// How each source's clock was brought to the host clock.
    pub clocks: Vec<ClockAlignment>,
    /// Rows per table.
    pub row_counts: std::collections::BTreeMap<String, u64>,
}

impl Manifest {
    /// An empty manifest of the current schema.
    pub fn new() -> Self {
        Self { kind: KIND.into(), schema_version: SCHEMA_VERSION, ..Self::default() }
    }
}

/// What was measured. Empty strings and `None` mean "no source said".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// Engine id: `vllm`, `sglang`, ...
    pub engine: String,
    /// Version as the engine prints it.
    pub engine_version: String,
    /// Where the engine and its version were read.
    pub engine_from: String,
    /// Process layout, as `kind` ("api+core", "single process", ...); see `engine_form_from`.
    pub engine_form: String,
    /// Evidence for the process layout, or `assumed`.
    pub engine_form_from: String,
    /// How processes exchange requests: `zmq`, `in process`, ...
    pub message_channel: String,
    /// Process that runs the scheduling loop, and therefore the one to sample.
    pub scheduling_process: String,
    /// Model name as served or typed.
    pub model: String,
    /// Device name as reported or typed; `CPU` for a CPU backend.
    pub device: String,
    /// Number of devices, 0 when unknown.
    pub device_count: u32,
    /// Symptom id the user stated.
    pub stated_symptom: String,
    /// Signal the user's complaint is about.
    pub stated_signal: String,
    /// Where the evidence comes from: `recorded`, `trace`, `report`, `simulated`, `typed`.
    pub provenance: String,
}

/// Provenances from the one that taints most: a capture that holds one simulated source is simulated.
const PROVENANCES: &[&str] = &["simulated", "recorded", "trace", "report", "typed"];

/// Rank of a provenance for merging; lower wins. Unknown ones come last, the empty one after them.
pub fn provenance_rank(provenance: &str) -> usize {
    let unknown = PROVENANCES.len() + usize::from(provenance.is_empty());
    PROVENANCES.iter().position(|known| *known == provenance).unwrap_or(unknown)
}

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// File name relative to the input it was found under, or the URL without credentials.
    pub name: String,
    /// Format id of the importer that read it, `attachment` when none did.
    pub format: String,
    /// Hash of the bytes as found: the algorithm, a colon, lower-case hex (`blake3:...`); bare hex is SHA-256, in captures of
    /// earlier versions.
    #[serde(alias = "sha256")]
    pub hash: String,
    /// Hash of the bytes once unpacked, likewise; empty where not known.
    #[serde(alias = "content_sha256", skip_serializing_if = "String::is_empty")]
    pub content_hash: String,
    /// Bytes as found.
    pub byte_count: u64,
    /// Rows it contributed.
    pub row_count: u64,
    /// Metric families or keys the importer saw and has no signal for.
    pub unmapped_count: u64,
    /// True when part of it was lost; the `issues` table says what.
    pub damaged: bool,
}

/// How one source's clock was brought to the host clock:
/// host = source + `offset_ns` + `drift_ppb` / 10^9 x (source - `reference_ns`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockAlignment {
    /// Name of the source.
    pub source: String,
    /// Clock domain of the source: `unix`, `client monotonic`, `log local time`, ...
    pub domain: String,
    /// Added to a source time to get host time.
    pub offset_ns: i64,
    /// How much faster the host clock runs, parts per billion; 0 when both run alike or nothing is known.
    #[serde(skip_serializing_if = "is_zero")]
    pub drift_ppb: i64,
    /// Source time at which the offset holds exactly; matters only with a drift.
    #[serde(skip_serializing_if = "is_zero")]
    pub reference_ns: i64,
    /// Half-width of what host times may be off by, anywhere in the source.
    pub error_ns: i64,
    /// How the offset was found.
    pub method: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it asks about by reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
