//! One round of measure, change, measure again: the document of `inferoscope loop --json`, a contract like the report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Finding, Hypothesis, Report, Role, Status, Verification};

/// Value of [`Round::schema`].
pub const ROUND_SCHEMA: &str = "inferoscope.loop/1";

/// `loop --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Always [`ROUND_SCHEMA`].
    pub schema: String,
    /// Base address of the server.
    pub url: String,
    /// How far it came.
    pub ended: RoundEnd,
    /// The server as it was.
    pub before: RoundRun,
    /// What was changed, or would have been.
    pub change: Option<RoundChange>,
    /// Hypotheses that are no flag of the command line, and why, one sentence each.
    pub passed_over: Vec<String>,
    /// The server after the change.
    pub after: Option<RoundRun>,
    /// The prediction against what was measured.
    pub verification: Option<Verification>,
}

/// How far a round came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundEnd {
    /// Changed, measured again and verified.
    Verified,
    /// The diagnosis proposes no change of the command line.
    NothingToChange,
    /// The change was not agreed to.
    NotAgreed,
}

/// One run of the server under the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRun {
    /// The command, secrets redacted.
    pub command: String,
    /// Folder with its evidence, which `diagnose` and `verify` read.
    pub evidence: String,
    /// Seconds from the start until it answered.
    pub ready_s: f64,
    /// What the client measured.
    pub load: RoundLoad,
    /// The diagnosis.
    pub report: Report,
}

/// A load as the client measured it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundLoad {
    /// Whether the server is this program's simulated engine.
    pub simulated: bool,
    /// Why the figures say more about the client than about the server; empty when they do not.
    pub client_limited: Vec<String>,
    /// Requests sent.
    pub sent: u64,
    /// Whole answers.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
    /// Whole answers per second.
    pub requests_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Sent to first token, seconds: mean and 99th percentile.
    pub ttft_s: [f64; 2],
    /// Per token after the first, seconds: mean and 99th percentile.
    pub tpot_s: [f64; 2],
    /// Sent to the end, seconds: mean and 99th percentile.
    pub e2e_s: [f64; 2],
}

/// A change of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundChange {
    /// Hypothesis of the diagnosis that proposes it, `none` for one that only the user wanted.
    pub hypothesis: String,
    /// What is changed, on one line.
    pub instruction: String,
    /// The edited command, secrets redacted.
    pub command: String,
}

/// What a diagnosis proposes to change, best first: the hypotheses of its cause. Where only the layer is sure, those of what
/// explains most of it.
pub fn proposals(report: &Report) -> Vec<&Hypothesis> {
    if report.verdict.status != Status::Localized {
        return Vec::new();
    }
    let is_cause = |finding: &&Finding| match report.verdict.check.as_deref() {
        Some(check) => finding.check == check,
        None => finding.role == Role::Cause,
    };
    report.findings.iter().filter(is_cause).flat_map(|finding| &finding.hypotheses).collect()
}
