//! What is slow: the user's word, or the largest excess over the reference.
//!
//! The symptom chooses wording and unit, never which checks run.

use crate::account::AccountUnit;
use crate::contract::{Population, Quantity, Reference, SignalValue, Symptom};
use crate::phase::Phase;
use crate::settlement::Scope;
use crate::situation::Situation;

/// Symptom ids.
pub use capture::signals::SYMPTOMS as IDS;

/// An excess below this share of its whole is no symptom (attribution, section 0.3).
pub const MATERIAL_EXCESS: f64 = 0.25;

/// What was recognized.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognized {
    /// Symptom id.
    pub id: &'static str,
    /// The other one.
    pub runner_up: Option<&'static str>,
    /// Unit to account in.
    pub scope: Scope,
    /// True when the user stated it.
    pub stated: bool,
}

/// Recognizes the symptom; `stated` overrides name and unit.
pub fn recognize(situation: &Situation<'_>, stated: Option<&str>) -> Recognized {
    let first = excess_first_s(situation);
    let whole = first + excess_s(situation, Phase::Decode);
    let over = |excess: f64, of: f64| of > 0.0 && excess / of >= MATERIAL_EXCESS;
    let first_material = over(first, situation.account.first_token_mean_s());
    let whole_material = over(whole, situation.account.total_mean_s());
    let before_first = first >= excess_s(situation, Phase::Decode);
    if situation.account.is_of_devices() {
        return on_devices(situation, stated);
    }
    let (id, runner_up) = match (first_material, whole_material) {
        (true, true) if before_first => (first_id(situation), Some(decode_id(situation))),
        (_, true) if !before_first => (decode_id(situation), first_material.then(|| first_id(situation))),
        (true, _) => (first_id(situation), None),
        (false, true) => (decode_id(situation), None),
        (false, false) => ("none", None),
    };
    let Some(stated) = stated.and_then(|stated| IDS.iter().copied().find(|known| *known == stated)).filter(|id| *id != "none") else {
        return Recognized { id, runner_up, scope: scope_of(id), stated: false };
    };
    // A stated symptom names the complaint; the unit still follows where the seconds are, unless it names one.
    let scope = match stated {
        // Where no time to first token was given, the seconds are in what was.
        _ if situation.account.first_token_ns == 0 => Scope::Whole,
        "high_ttft" | "users_slow" => Scope::FirstToken,
        "uniformly_slow_decode" | "tail_spikes" => Scope::Whole,
        _ if first_material && before_first => Scope::FirstToken,
        _ => Scope::Whole,
    };
    Recognized { id: stated, runner_up: (id != stated && id != "none").then_some(id), scope, stated: true }
}

/// Devices show one symptom by themselves: that much of their time they do not compute.
fn on_devices(situation: &Situation<'_>, stated: Option<&str>) -> Recognized {
    let lost: f64 = [Phase::Communication, Phase::Copy, Phase::Idle].into_iter().map(|phase| situation.phase_s(phase)).sum();
    let own = if lost >= MATERIAL_EXCESS * situation.account.total_mean_s() { "busy_but_slow" } else { "none" };
    let stated = stated.and_then(|stated| IDS.iter().copied().find(|known| *known == stated)).filter(|id| *id != "none");
    let runner_up = stated.filter(|stated| own != "none" && own != *stated).map(|_| own);
    Recognized { id: stated.unwrap_or(own), runner_up, scope: Scope::Whole, stated: stated.is_some() }
}

/// The symptom in the other unit: the time to first token for the whole request, and the other way about.
pub fn in_other_unit(situation: &Situation<'_>, recognized: &Recognized) -> Recognized {
    let (id, scope) = match recognized.scope {
        Scope::Whole => (first_id(situation), Scope::FirstToken),
        Scope::FirstToken => (decode_id(situation), Scope::Whole),
    };
    Recognized { id, runner_up: (recognized.id != "none").then_some(recognized.id), scope, stated: false }
}

fn scope_of(id: &str) -> Scope {
    if matches!(id, "high_ttft" | "users_slow") { Scope::FirstToken } else { Scope::Whole }
}

/// Excess of a phase over its floor, s per request.
pub fn excess_s(situation: &Situation<'_>, phase: Phase) -> f64 {
    (situation.phase_s(phase) - situation.floors.s(phase)).max(0.0)
}

fn excess_first_s(situation: &Situation<'_>) -> f64 {
    let phases: f64 = Phase::ALL.into_iter().filter(|phase| phase.before_first_token()).map(|phase| excess_s(situation, phase)).sum();
    phases + (situation.unsplit_first_token_s() - situation.floors.unsplit_first_s).max(0.0)
}

fn first_id(situation: &Situation<'_>) -> &'static str {
    let outside: f64 =
        [Phase::Client, Phase::Transfer, Phase::Gateway, Phase::Stream].into_iter().map(|phase| situation.phase_s(phase)).sum();
    let inside = situation.account.first_token_mean_s() - outside;
    let largest_inside = [Phase::Queue, Phase::Api, Phase::Prefill].into_iter().map(|phase| excess_s(situation, phase)).fold(0.0, f64::max);
    if inside > 0.0 && outside >= MATERIAL_EXCESS * inside && outside > largest_inside { "users_slow" } else { "high_ttft" }
}

fn decode_id(situation: &Situation<'_>) -> &'static str {
    if situation.is_saturated() || situation.load.waiting_mean > situation.load.running_mean {
        "throughput_plateau"
    } else {
        "uniformly_slow_decode"
    }
}

/// The symptom as the report shows it.
pub fn describe(situation: &Situation<'_>, recognized: &Recognized, loss_ns: i64) -> Symptom {
    let vantage = if matches!(situation.account.vantage, "server" | "device") { situation.account.vantage } else { "client" };
    let typed = situation.account.vantage == "typed";
    let (quantity, value, floor) = match recognized.scope {
        _ if situation.account.unit == AccountUnit::Token => ("tpot", situation.account.total_mean_s(), situation.floors.total_s()),
        _ if matches!(situation.account.unit, AccountUnit::Step | AccountUnit::DeviceStep) => {
            ("step_time", situation.account.total_mean_s(), situation.floors.total_s())
        }
        _ if situation.account.unit == AccountUnit::Prompt => {
            ("prefill_time", situation.account.total_mean_s(), situation.floors.total_s())
        }
        _ if situation.account.unit == AccountUnit::Device => ("window", situation.account.total_mean_s(), situation.floors.total_s()),
        Scope::FirstToken => ("ttft", situation.account.first_token_mean_s(), situation.floors.first_token_s()),
        Scope::Whole => ("e2e", situation.account.total_mean_s(), situation.floors.total_s()),
    };
    let empty = situation.account.is_empty() || recognized.id == "none";
    let statistic = if typed { "" } else { ".mean" };
    Symptom {
        id: recognized.id.into(),
        stated: recognized.stated,
        population: Population {
            n: if typed { 0 } else { situation.account.n },
            rule: match situation.account.unit {
                unit if typed => format!("typical {}", unit.as_str()),
                AccountUnit::DeviceStep => "all steps recorded, on each device".into(),
                AccountUnit::Device => "all devices recorded".into(),
                _ => "all".into(),
            },
        },
        size: (!situation.account.is_empty()).then(|| SignalValue {
            signal: format!("{}.{quantity}{statistic}", if quantity == "step_time" { "engine" } else { vantage }),
            value,
            unit: "s".into(),
        }),
        reference: (!empty).then(|| Reference { value: floor, unit: "s".into(), from: situation.floors.from.into() }),
        loss: (!empty && !typed).then(|| Quantity {
            value: loss_ns as f64 * 1e-9,
            unit: if situation.account.is_of_devices() { "device_s" } else { "request_s" }.into(),
        }),
        runner_up: recognized.runner_up.map(Into::into),
        noun: noun(recognized, situation.floors.from, situation.account.unit),
    }
}

fn noun(recognized: &Recognized, reference: &str, unit: AccountUnit) -> String {
    let what = match (unit, recognized.scope) {
        (AccountUnit::Request, Scope::FirstToken) => "TTFT",
        (AccountUnit::Request, Scope::Whole) => "request time",
        (AccountUnit::Token, _) => "time per token",
        (AccountUnit::Step, _) => "step time",
        (AccountUnit::Prompt, _) => "prefill time",
        (AccountUnit::DeviceStep | AccountUnit::Device, _) => return "the device time that does not compute".into(),
    };
    if reference == "whole" { format!("the {what}") } else { format!("the excess {what}") }
}
