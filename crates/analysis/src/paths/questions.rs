//! The questions of the decision paths, one file per stretch of the way.

pub(super) mod device;
pub(super) mod feature;
pub(super) mod first_token;
pub(super) mod parallel;
pub(super) mod queue;
mod read;
pub(super) mod tail;
pub(super) mod users;

use crate::check::{Answer, Missing};
use crate::checks::CHECKS;
use crate::contract::Layer;
use crate::settlement::Settlement;
use crate::situation::Situation;

/// A second run, with only the feature off or fewer devices.
const BASELINE: &str = "inferoscope diagnose INPUT... --baseline INPUT_WITHOUT_IT...";
/// Device time, kernel by kernel.
const DEVICE_TRACE: &str = "curl -X POST http://HOST:8000/start_profile; sleep 5; curl -X POST http://HOST:8000/stop_profile";
/// Threads of the serving processes and of the load client.
const HOST_SAMPLES: &str = "/proc/PID/schedstat of each serving process and of the load client, once a second, as host.jsonl";
/// Where the engine's own loop spends its time.
const ENGINE_TRACE: &str = "py-spy record --pid ENGINE_PID --duration 30 --gil --format raw -o stacks.txt";
/// Clocks, activity and throttle reasons of the devices.
const DEVICE_COUNTERS: &str = "dcgmi dmon -e 203,204,1002,1003,1004,1005,100,101 -d 1000";
/// Request times at the gateway.
const GATEWAY_LOG: &str = "the gateway's access log with request, upstream and first-byte times, as proxy.jsonl";

/// A question and how it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// As asked.
    pub text: &'static str,
    /// In a few words.
    pub short: &'static str,
    /// Checks whose answer serves where the evidence does not answer directly, each with what its *found* and its
    /// *clear* mean here.
    pub checks: &'static [(&'static str, &'static str, &'static str)],
    /// What records the missing evidence.
    pub record: &'static str,
    /// The answer from evidence.
    pub ask: fn(&Situation<'_>, &Settlement) -> Asked,
}

impl Question {
    /// The answer from evidence, else from a check, else what would have to be recorded.
    pub(super) fn answer(&self, situation: &Situation<'_>, settlement: &Settlement) -> Asked {
        let asked = (self.ask)(situation, settlement);
        if asked.answer != CANNOT_TELL {
            return asked;
        }
        let answers: Vec<(Answer, &str, &str)> = self
            .checks
            .iter()
            .filter_map(|(id, found, clear)| {
                let check = CHECKS.iter().find(|check| check.id == *id)?;
                Some(((check.run)(situation), *found, *clear))
            })
            .collect();
        by_checks(&answers).unwrap_or_else(|missing| {
            let record = missing.map(|missing| missing.record_with).filter(|command| !command.is_empty());
            let record = record.unwrap_or_else(|| self.record.to_string());
            Asked::cannot_tell(&format!("not known: {}; record with `{record}`", asked.because))
        })
    }
}

/// One check that found something answers; only all of them together answer with *clear*.
fn by_checks(answers: &[(Answer, &str, &str)]) -> Result<Asked, Option<Missing>> {
    let mut clear = None;
    let mut missing = None;
    for (answer, if_found, if_clear) in answers {
        match answer {
            Answer::Found(found) => return Ok(Asked::new(if_found, found.summary.clone())),
            Answer::Clear { because, .. } => clear = Some(Asked::new(if_clear, because.clone())),
            Answer::CannotTell(unknown) => missing = Some(unknown.clone()),
        }
    }
    match (clear, missing) {
        (Some(clear), None) => Ok(clear),
        (_, missing) => Err(missing),
    }
}

/// What an answer is called that the evidence does not give.
pub(super) const CANNOT_TELL: &str = "cannot tell";

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// `yes`, `no`, a word, or `cannot tell`.
    pub answer: String,
    /// The number that answered it, or what is missing.
    pub because: String,
    /// A layer this answer eliminates.
    pub eliminates: Option<Layer>,
    /// True when nothing after it would add.
    pub ends_path: bool,
}

impl Asked {
    fn new(answer: &str, because: impl Into<String>) -> Self {
        Self { answer: answer.into(), because: because.into(), ..Self::default() }
    }

    fn yes_no(yes: bool, because: impl Into<String>) -> Self {
        Self::new(if yes { "yes" } else { "no" }, because)
    }

    fn cannot_tell(missing: &str) -> Self {
        Self::new(CANNOT_TELL, missing)
    }

    fn eliminating(mut self, layer: Layer, when: &str) -> Self {
        if self.answer == when {
            self.eliminates = Some(layer);
        }
        self
    }

    /// The reason up to its first semicolon; empty for what could not be told.
    pub fn brief(&self) -> &str {
        if self.answer == CANNOT_TELL { "" } else { self.because.split(';').next().unwrap_or_default() }
    }
}

macro_rules! question {
    ($name:ident, $short:literal, $text:literal, $checks:expr, $record:expr, $ask:expr $(,)?) => {
        #[doc = $text]
        pub(in crate::paths) const $name: super::Question =
            super::Question { text: $text, short: $short, checks: &$checks, record: $record, ask: $ask };
    };
}
use question;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Found, clear};

    #[test]
    fn one_check_finds_and_only_all_of_them_clear() {
        let found = || Answer::Found(Box::new(Found { summary: "seen".into(), ..Found::default() }));
        let unknown = || Answer::CannotTell(Missing { record_with: "a trace".into(), ..Missing::default() });
        let told = |answers: &[(Answer, &str, &str)]| by_checks(answers).map(|asked| asked.answer);
        assert_eq!(told(&[(clear(vec![], "none"), "no", "yes"), (found(), "no", "yes")]), Ok("no".into()));
        assert_eq!(told(&[(clear(vec![], "none"), "no", "yes")]), Ok("yes".into()));
        let missing = told(&[(clear(vec![], "none"), "no", "yes"), (unknown(), "no", "yes")]);
        assert_eq!(missing.unwrap_err().map(|missing| missing.record_with), Some("a trace".into()));
        assert!(told(&[]).unwrap_err().is_none());
    }
}
