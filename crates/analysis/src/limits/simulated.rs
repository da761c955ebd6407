//! Rungs and gains by the simulation of `inferoscope whatif`.

use crate::contract::{Limit, Remedy};
use crate::situation::Situation;
use crate::whatif::{Holds, Range, Refusal, Told, Untold};
use crate::words::{count, percent};

/// A figure that becomes no smaller than this share of itself gains nothing: two recordings of one system differ as much.
const NO_GAIN: f64 = 0.95;

/// Ceilings of the fitted simulation; empty where its step law is only bounded or the run cannot be replayed.
pub(super) fn rungs(situation: &Situation<'_>) -> Vec<Limit> {
    let (foretold, load) = (&situation.foretold, &situation.load);
    let Some(law) = foretold.law_from() else { return Vec::new() };
    let rung = |value: f64, what: String, from: String| Limit { value, unit: "request/s".into(), what, from };
    let at = |seats: f64| {
        let setting = format!("max_num_seqs={seats:.0}");
        let (rate, holds) = foretold.ceiling_per_s(&setting)?;
        let what = match holds {
            Holds::Seats => format!("{} seats", count(seats)),
            Holds::Kv => "KV full".into(),
            Holds::Connections => "connections".into(),
        };
        Some(rung(rate, what, format!("as by `whatif --set {setting}`, step law from {law}")))
    };
    let mut rungs: Vec<Limit> = Vec::new();
    let seats = load.seats.into_iter().flat_map(|seats| [seats, 2.0 * seats]);
    for found in seats.chain(super::seats_in_kv(situation).map(f64::ceil)).filter_map(at) {
        if rungs.iter().all(|known| known.what != found.what) {
            rungs.push(found);
        }
    }
    let limitless = foretold.limitless_per_s();
    rungs.extend(limitless.map(|rate| rung(rate, super::NO_BATCH.into(), format!("step law from {law} in the limit of a large batch"))));
    rungs
}

/// What the first of `settings` that the capture can answer gains, beside what facts say of the same fix.
pub(super) fn judge(situation: &Situation<'_>, settings: &[String], by_facts: Remedy) -> Remedy {
    let mut refused = None;
    for setting in settings {
        let quick = situation.foretold.ask_best(setting);
        match quick {
            // What is said to be set already may only be assumed to be.
            Ok(told) if told.is_set() => return by_facts,
            Ok(told) if is_idle(&told) => return weigh(&told, setting, by_facts),
            Ok(_) => {
                let whole = situation.foretold.ask(setting);
                return whole.map_or(by_facts.clone(), |told| weigh(&told, setting, by_facts));
            }
            Err(Refusal::Unknowable { why, .. }) => refused = refused.or(Some(why)),
            Err(_) => {}
        }
    }
    match refused {
        Some(why) if by_facts.verdict == "also_works" => Remedy { verdict: "cannot_tell".into(), gain_s: None, because: why, ..by_facts },
        _ => by_facts,
    }
}

/// True when no time that is told becomes shorter: what other step laws say of it then adds nothing.
fn is_idle(told: &Told) -> bool {
    let mids: Vec<f64> = ["ttft.mean", "e2e.mean"].iter().filter_map(|figure| told.ratio(figure).ok()).map(|ratio| ratio.mid).collect();
    !mids.is_empty() && mids.iter().all(|mid| *mid > NO_GAIN)
}

fn weigh(told: &Told, setting: &str, by_facts: Remedy) -> Remedy {
    let told_of = |figure: &str| told.ratio(figure).map(|ratio| (figure.to_string(), ratio));
    let (first, whole) = (told_of("ttft.mean"), told_of("e2e.mean"));
    let gains: Vec<(String, Range)> = [&first, &whole].into_iter().filter_map(|of| of.as_ref().ok().cloned()).collect();
    if gains.is_empty() {
        return match whole.err().into_iter().chain(first.err()).find(|why| matches!(why, Untold::Saturated(_) | Untold::Unknowable(_))) {
            Some(why) => unanswered(told, &why, setting, by_facts),
            None => by_facts,
        };
    }
    let seconds = |(figure, ratio): &(String, Range)| {
        let metric = told.what_if.metrics.iter().find(|metric| &metric.name == figure);
        metric.map_or(0.0, |metric| (1.0 - ratio.mid) * metric.measured.unwrap_or(metric.simulated))
    };
    let gain_s = gains.iter().map(seconds).fold(0.0, f64::max);
    let best = gains.iter().min_by(|a, b| a.1.mid.total_cmp(&b.1.mid));
    let best = best.expect("at least one figure is told");
    let shown = format!("simulated, {} becomes {:.2} times ({:.2} to {:.2})", best.0, best.1.mid, best.1.low, best.1.high);
    let (is_gain, is_sure) = (best.1.mid <= NO_GAIN, best.1.high < 1.0);
    let (verdict, because) = match (by_facts.verdict.as_str(), is_gain, is_sure) {
        ("first_choice", ..) => ("first_choice", by_facts.because.clone()),
        ("no_gain", false, _) => ("no_gain", by_facts.because.clone()),
        ("no_gain", true, _) => ("cannot_tell", format!("{}; {shown}", by_facts.because)),
        (_, false, _) => ("no_gain", format!("simulated, {} becomes {:.2} times", best.0, best.1.mid)),
        ("also_works", true, true) => ("also_works", by_facts.because.clone()),
        (_, true, true) => ("also_works", shown),
        (_, true, false) => ("cannot_tell", shown),
    };
    let gain_s = (verdict != "cannot_tell").then_some(gain_s);
    Remedy { verdict: verdict.into(), gain_s, lever: setting.into(), because, ..by_facts }
}

/// No time is told: the changed system does not keep up either, or the price of the change was not measured.
fn unanswered(told: &Told, why: &Untold, setting: &str, by_facts: Remedy) -> Remedy {
    let more = told.ratio("throughput.output").map_or(1.0, |ratio| ratio.mid);
    let because = match why {
        Untold::Saturated(_) => format!("it serves {} more and still does not keep up", percent((more - 1.0).max(0.0))),
        why => why.words(),
    };
    let verdict = match by_facts.verdict.as_str() {
        "first_choice" => return Remedy { gain_s: None, lever: setting.into(), ..by_facts },
        "no_gain" => return Remedy { lever: setting.into(), ..by_facts },
        _ if matches!(why, Untold::Saturated(_)) && more < 1.0 / NO_GAIN => "no_gain",
        _ => "cannot_tell",
    };
    Remedy { verdict: verdict.into(), gain_s: None, lever: setting.into(), because, ..by_facts }
}
