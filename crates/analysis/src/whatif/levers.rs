//! What can be changed: one lever a file, one line each in the list.
//!
//! A lever changes a copy of the scenario and says what it found there. Several are applied in the order typed.

mod connection_cap;
mod delivery;
mod device;
mod kv_cache;
mod prefix;
mod rate;
mod replicas;
mod routing;
mod seats;
mod speculation;
mod token_budget;

use simulate::{Request, Workload};

use super::scenario::Scenario;
use super::{Refusal, Set};

/// One thing that can be changed.
#[derive(Clone, Copy, Debug)]
pub struct Lever {
    /// Name in `--set name=value`; engines' spellings of the setting lead here as well.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it takes, for people.
    pub takes: &'static str,
    /// What it changes, for people.
    pub about: &'static str,
    apply: fn(&mut Scenario, &str) -> Result<Found, Wrong>,
}

impl Lever {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// The value before, and where it is from.
type Found = (String, &'static str);

/// Why a lever could not be moved.
enum Wrong {
    /// It does not take this value.
    Value,
    /// Nobody can know what it does here: why, and what would tell.
    Unknowable(String, &'static str),
}

/// All levers.
pub fn all() -> &'static [Lever] {
    const ALL: &[Lever] = &[
        seats::LEVER,
        token_budget::LEVER,
        token_budget::CHUNKED,
        token_budget::LONG_PROMPTS,
        kv_cache::LEVER,
        kv_cache::BLOCKS,
        kv_cache::BLOCK_SIZE,
        prefix::LEVER,
        prefix::REUSE,
        speculation::LEVER,
        speculation::ACCEPTANCE,
        rate::LEVER,
        rate::USERS,
        replicas::LEVER,
        replicas::SPLIT,
        routing::LEVER,
        connection_cap::LEVER,
        delivery::BUFFERING,
        delivery::BURST,
        delivery::HOST_STEP,
        device::GPU,
        device::TENSOR,
        device::WEIGHTS,
        device::KV_DTYPE,
    ];
    ALL
}

/// The setting of an engine (`speculative_tokens`) as a lever is set (`num_speculative_tokens=0`); empty where none has this name
/// or where the value is words. Separators of thousands are left out.
pub fn setting_of(key: &str, value: &str) -> String {
    let value = value.replace(',', "");
    let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'));
    all().iter().find(|lever| is_plain && lever.is_called(key)).map_or_else(String::new, |lever| format!("{}={value}", lever.name))
}

/// Applies settings to a copy.
pub(super) fn apply(scenario: &Scenario, sets: &[(String, String)]) -> Result<(Scenario, Vec<Set>), Refusal> {
    let mut changed = scenario.clone();
    let mut made = Vec::with_capacity(sets.len());
    for (key, value) in sets {
        let plain = key.trim_start_matches('-').replace('-', "_");
        let lever = all().iter().find(|lever| lever.is_called(&plain));
        let lever = lever.ok_or_else(|| Refusal::UnknownLever {
            key: key.clone(),
            known: all().iter().map(|lever| lever.name).collect::<Vec<_>>().join(", "),
        })?;
        match (lever.apply)(&mut changed, value.trim()) {
            Ok((from, source)) => {
                made.push(Set { key: lever.name.into(), from, from_source: source.into(), to: value.trim().into() });
            }
            Err(Wrong::Value) => {
                return Err(Refusal::Value { key: key.clone(), expected: lever.takes.into(), found: value.clone() });
            }
            Err(Wrong::Unknowable(why, record)) => return Err(Refusal::Unknowable { key: key.clone(), why, record: record.into() }),
        }
    }
    Ok((changed, made))
}

/// A whole number of at least `least`.
fn whole(value: &str, least: u32) -> Result<u32, Wrong> {
    value.replace('_', "").parse().ok().filter(|number| *number >= least).ok_or(Wrong::Value)
}

/// A number within bounds.
fn number(value: &str, bounds: std::ops::RangeInclusive<f64>) -> Result<f64, Wrong> {
    value.parse().ok().filter(|number| bounds.contains(number)).ok_or(Wrong::Value)
}

/// On or off.
fn switch(value: &str) -> Result<bool, Wrong> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(Wrong::Value),
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}

/// The same requests with this share of each prompt.
pub(super) fn with_prompt_share(workload: &Workload, share: f64) -> Workload {
    let shortened = |request: &Request| {
        let mut request = *request;
        request.prompt_tokens = (f64::from(request.prompt_tokens) * share).round().max(1.0) as u32;
        request
    };
    Workload::new(workload.requests().iter().map(shortened).collect())
}
