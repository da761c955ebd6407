//! Exit codes, all of them, and how an error is told.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use analysis::contract::{Outcome, Status};
use report::clean;

/// How a run ended. The number behind each is a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The work is done and there was nothing to judge.
    Done,
    /// `diagnose`: nothing is slow, or nothing material is wrong.
    Healthy,
    /// `diagnose`: a layer explains the symptom.
    Localized,
    /// `diagnose`: the evidence does not decide.
    Insufficient,
    /// `verify`: moved as predicted.
    Confirmed,
    /// `verify`: did not move as predicted.
    Refuted,
    /// `verify`: too short or too noisy to say.
    Inconclusive,
    /// `verify`: the runs differ in more than the change.
    NotComparable,
    /// `plan`: it does not fit, or nothing tried keeps the limits.
    OutOfReach,
    /// No answer: unusable input, an output that cannot be written, a wrong command line (there clap exits with the same code).
    CouldNotRun,
}

impl Exit {
    /// The process exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done | Self::Healthy | Self::Confirmed => 0,
            Self::Localized | Self::Refuted | Self::OutOfReach => 1,
            Self::CouldNotRun => 2,
            Self::Insufficient | Self::Inconclusive => 3,
            Self::NotComparable => 4,
        }
    }
}

impl From<Status> for Exit {
    fn from(status: Status) -> Self {
        match status {
            Status::Healthy => Self::Healthy,
            Status::Localized => Self::Localized,
            Status::InsufficientEvidence => Self::Insufficient,
        }
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Confirmed => Self::Confirmed,
            Outcome::Refuted => Self::Refuted,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::NotComparable => Self::NotComparable,
        }
    }
}

/// The exit code of a finished run; an error is told on stderr with its causes, one a line.
pub(crate) fn code_of(result: anyhow::Result<Exit>) -> ExitCode {
    let exit = result.unwrap_or_else(|error| {
        // Nobody is left to tell when stderr is closed.
        let _ = std::io::stderr().lock().write_all(error_text(&error).as_bytes());
        Exit::CouldNotRun
    });
    ExitCode::from(exit.code())
}

/// An error that is told on several lines: a sentence, then what it rests on, indented.
#[derive(Debug)]
pub(crate) struct Listed {
    /// What went wrong.
    pub(crate) sentence: String,
    /// One line each.
    pub(crate) lines: Vec<String>,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Listed {}

/// `error: ...`, then a line `  cause: ...` for each cause that says something new. Names of files, arguments and answers
/// of servers stand in these sentences, so each is brought to one line without control characters.
fn error_text(error: &anyhow::Error) -> String {
    let mut told = clean::line(&error.to_string());
    let mut text = format!("error: {told}\n");
    for cause in error.chain().skip(1).map(|cause| clean::line(&cause.to_string())) {
        if !told.ends_with(&cause) {
            text.push_str(&format!("  cause: {cause}\n"));
        }
        told = cause;
    }
    if let Some(listed) = error.downcast_ref::<Listed>() {
        listed.lines.iter().for_each(|line| text.push_str(&format!("  {}\n", clean::line(line))));
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn each_outcome_has_its_promised_code() {
        let codes = [
            (Exit::from(Status::Healthy), 0),
            (Exit::from(Status::Localized), 1),
            (Exit::OutOfReach, 1),
            (Exit::CouldNotRun, 2),
            (Exit::from(Status::InsufficientEvidence), 3),
            (Exit::from(Outcome::Confirmed), 0),
            (Exit::from(Outcome::Refuted), 1),
            (Exit::from(Outcome::Inconclusive), 3),
            (Exit::from(Outcome::NotComparable), 4),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn an_error_names_its_causes_once() {
        let disk = std::io::Error::other("no space left on device");
        let error = Err::<(), _>(disk).context("could not write `report.html`").expect_err("made to fail");
        assert_eq!(error_text(&error), "error: could not write `report.html`\n  cause: no space left on device\n");
        let repeated = Err::<(), _>(std::io::Error::other("it broke")).context("failed: it broke").expect_err("made to fail");
        assert_eq!(error_text(&repeated), "error: failed: it broke\n");
    }
}
