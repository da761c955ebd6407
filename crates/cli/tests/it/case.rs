//! `case.toml`: what a case is about and what the program must say.

use std::fs;
use std::path::{Path, PathBuf};

use analysis::contract::{Report, Role, Status};
use serde::Deserialize;

use crate::program::{self, Run};

/// Failure modes where "healthy, at this limit" is as right as naming the limit.
const LIMITS: [&str; 2] = ["bandwidth_bound_decode", "compute_bound_prefill"];

/// How a case must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    Found,
    Healthy,
    Insufficient,
}

/// One folder under `cases/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// One line: what happened.
    pub(crate) story: String,
    /// `recorded`, `trace`, `report`, `simulated` or `typed`.
    pub(crate) provenance: String,
    /// Where the artifacts come from, and under which license.
    pub(crate) source: String,
    pub(crate) expected: Expected,
    #[serde(default)]
    pub(crate) layer: String,
    #[serde(default)]
    pub(crate) check: String,
    #[serde(default)]
    pub(crate) also_acceptable: Vec<String>,
    /// The same system with the problem fixed (or, for the fixed one, with it): a folder under `cases/`.
    #[serde(default)]
    pub(crate) twin: String,
    /// Failure mode this case could be mistaken for.
    #[serde(default)]
    pub(crate) look_alike_of: String,
    /// Folder of the artifacts, relative to the case.
    #[serde(default = "artifacts_here")]
    artifacts: PathBuf,
    #[serde(default)]
    symptom: String,
    /// Folder of the baseline, relative to the case.
    #[serde(default)]
    baseline: Option<PathBuf>,
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

fn artifacts_here() -> PathBuf {
    PathBuf::from("artifacts")
}

impl Case {
    /// Reads `<folder>/case.toml`.
    pub(crate) fn load(folder: &Path) -> Self {
        let path = folder.join("case.toml");
        let text = fs::read_to_string(&path).unwrap();
        let mut case: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        case.folder = folder.to_path_buf();
        case
    }

    /// Folder under `cases/`, for messages.
    pub(crate) fn name(&self) -> String {
        self.folder.strip_prefix(program::root().join("cases")).unwrap().display().to_string()
    }

    /// The folder a user would hand over.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.folder.join(&self.artifacts)
    }

    /// Runs `diagnose --json` on `inputs` with this case's symptom and baseline.
    pub(crate) fn diagnose(&self, inputs: &[PathBuf]) -> Run {
        let mut command = program::command();
        command.args(["diagnose", "--json"]).args(inputs);
        if !self.symptom.is_empty() {
            command.args(["--symptom", &self.symptom]);
        }
        if let Some(baseline) = &self.baseline {
            command.arg("--baseline").arg(self.folder.join(baseline));
        }
        program::finish(&mut command)
    }

    /// Whether the verdict is one this case accepts; the reason if not.
    pub(crate) fn judge(&self, report: &Report) -> Result<(), String> {
        let verdict = &report.verdict;
        let named = verdict.check.as_deref().unwrap_or_default();
        let is_accepted =
            |check: &str| (!self.check.is_empty() && check == self.check) || self.also_acceptable.iter().any(|also| also == check);
        let right_layer = verdict.layer.is_some_and(|layer| layer.as_str() == self.layer);
        let is_right = match (self.expected, verdict.status) {
            (Expected::Found, Status::Localized) if named == self.check => right_layer,
            (Expected::Found, Status::Healthy) => {
                let is_limit = |check: &str| LIMITS.contains(&check) && is_accepted(check);
                report.findings.iter().any(|finding| finding.role == Role::Limit && is_limit(&finding.check))
            }
            (Expected::Healthy, Status::Healthy) | (Expected::Insufficient, Status::InsufficientEvidence) => true,
            (_, Status::Localized) => is_accepted(named),
            _ => false,
        };
        if !named.is_empty() && named == self.look_alike_of {
            return Err(format!("confused with its look-alike: {}", verdict_line(report)));
        }
        let wanted = format!("{:?} {} {}", self.expected, self.layer, self.check);
        if is_right { Ok(()) } else { Err(format!("case.toml expects {}, the verdict is {}", wanted.trim(), verdict_line(report))) }
    }
}

/// The facts of the verdict on one line.
pub(crate) fn verdict_line(report: &Report) -> String {
    let verdict = &report.verdict;
    let status = match verdict.status {
        Status::Localized => "localized",
        Status::Healthy => "healthy",
        Status::InsufficientEvidence => "insufficient",
    };
    let layer = verdict.layer.map_or("-", analysis::contract::Layer::as_str);
    let check = verdict.check.as_deref().unwrap_or("-");
    format!("{status} {layer} {check} explains {} confidence {}", share(verdict.explained), verdict.confidence)
}

/// What every check answered: the verdict, then one line per check in alphabetical order.
pub(crate) fn answers(report: &Report) -> String {
    let found = report.findings.iter().map(|finding| {
        let role = serde_json::to_value(finding.role).unwrap();
        (finding.check.as_str(), format!("found {} {}", role.as_str().unwrap(), share(finding.explained)))
    });
    let cleared = report.cleared.iter().map(|cleared| (cleared.check.as_str(), "clear".to_string()));
    let unknown = report.unknown.iter().map(|unknown| (unknown.check.as_str(), "cannot tell".to_string()));
    let mut lines: Vec<(&str, String)> = found.chain(cleared).chain(unknown).collect();
    lines.sort();
    let width = lines.iter().map(|(check, _)| check.len()).max().unwrap_or(0);
    let mut text = format!("{}\n\n", verdict_line(report));
    for (check, answer) in lines {
        text.push_str(&format!("{check:width$}  {answer}\n"));
    }
    text
}

fn share(explained: Option<f64>) -> String {
    explained.map_or("-".to_string(), |share| format!("{share:.2}"))
}
