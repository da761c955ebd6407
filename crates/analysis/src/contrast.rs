//! Arms of one system that differ in one setting: which did better, and by how much.
//!
//! Ratios are in favor of the other arm: 1.6 is 1.6 times its throughput, or 1/1.6 of its time.

use crate::arms::{at_equal_load, load_differs};
use crate::evidence::{Evidence, Figures, Point};
use crate::situation::Situation;

/// Two runs of one load differ by up to a quarter without any change.
pub const RUN_SPREAD: f64 = 1.25;

/// Another arm that did better.
#[derive(Clone, Debug)]
pub struct Contrast<'a> {
    /// The arm.
    pub arm: &'a Evidence,
    /// How much better it did, above 1.
    pub ratio: f64,
    /// By which quantity.
    pub quantity: &'static str,
    /// That quantity here.
    pub here: f64,
    /// That quantity there.
    pub there: f64,
}

/// Throughput first: a time per request can fall because fewer are served.
const QUANTITIES: &[&str] = &[
    "client.throughput.output",
    "client.throughput.total",
    "client.throughput.requests",
    "client.throughput.prompt",
    "client.duration",
    "client.e2e",
    "client.ttft",
    "server.ttft",
    "server.prefill_time",
    "client.tpot",
    "server.tpot",
    "client.itl",
];

/// The arm of this system that `accept` takes and that did best, by at least the spread of two runs, under the same
/// load as far as it is stated.
pub fn better_arm<'a>(situation: &Situation<'a>, accept: impl Fn(&Evidence) -> bool) -> Option<Contrast<'a>> {
    let here = situation.evidence;
    let others = || situation.other_arms().filter(|arm| accept(arm) && !load_differs(here, arm));
    let best = |found: &Contrast<'_>, other: &Contrast<'_>| found.ratio.total_cmp(&other.ratio);
    let typical = others().filter_map(|arm| best_of(here, arm, QUANTITIES)).max_by(best);
    typical.or_else(|| others().filter_map(|arm| by_tail(here, arm)).max_by(best))
}

/// Full names of slow ends, the steadiest statistic first.
const TAILS: [&str; 12] = [
    "client.ttft.p90",
    "client.ttft.p95",
    "client.ttft.p99",
    "server.ttft.p90",
    "server.ttft.p95",
    "server.ttft.p99",
    "client.e2e.p90",
    "client.e2e.p95",
    "client.e2e.p99",
    "client.tpot.p90",
    "client.tpot.p95",
    "client.tpot.p99",
];

/// By the slow end, where both arms state nothing else of that time.
fn by_tail<'a>(here: &Evidence, arm: &'a Evidence) -> Option<Contrast<'a>> {
    TAILS.iter().find_map(|&quantity| {
        let time = quantity.rsplit_once('.').map_or(quantity, |(time, _)| time);
        let told = here.figures.typical(time).is_some() && arm.figures.typical(time).is_some();
        let (mine, theirs) = here.figures.get(quantity).zip(arm.figures.get(quantity)).filter(|_| !told)?;
        let ratio = mine / theirs;
        (ratio.is_finite() && ratio >= TAIL_SPREAD).then_some(Contrast { arm, ratio, quantity, here: mine, there: theirs })
    })
}

/// The first of `quantities` that both arms state; where it is no better by the spread of two runs, the next.
pub fn best_of<'a>(here: &Evidence, arm: &'a Evidence, quantities: &[&'static str]) -> Option<Contrast<'a>> {
    quantities.iter().find_map(|&quantity| {
        let pairs = at_equal_load(here, arm, quantity, "client.concurrency");
        let &(_, mine, theirs) = pairs.last()?;
        let is_rate = quantity.contains("throughput");
        let ratio = if is_rate { theirs / mine } else { mine / theirs };
        (ratio.is_finite() && ratio >= RUN_SPREAD).then_some(Contrast { arm, ratio, quantity, here: mine, there: theirs })
    })
}

/// The slow end of two runs of one load differs by up to twice without any change: it rests on a few requests.
const TAIL_SPREAD: f64 = 2.0;
/// Statistics of the slow end, the steadiest first.
const TAIL: [&str; 4] = ["p90", "p95", "p99", "max"];

/// The arm of this system that `accept` takes and whose slow end of one of `times` is best: full name, here, there. For
/// reports that give no typical value.
pub fn better_tail<'a>(
    situation: &Situation<'a>,
    times: &[&str],
    accept: impl Fn(&Evidence) -> bool,
) -> Option<(&'a Evidence, String, f64, f64)> {
    let here = situation.evidence;
    let tail = |arm: &'a Evidence| {
        times.iter().flat_map(|time| TAIL.iter().map(move |statistic| format!("{time}.{statistic}"))).find_map(|name| {
            let (mine, theirs) = here.figures.get(&name).zip(arm.figures.get(&name))?;
            (theirs > 0.0 && mine >= TAIL_SPREAD * theirs).then_some((arm, name, mine, theirs))
        })
    };
    let others = situation.other_arms().filter(|arm| accept(arm) && !load_differs(here, arm));
    others.filter_map(tail).max_by(|a, b| (a.2 / a.3).total_cmp(&(b.2 / b.3)))
}

/// Rows of one sweep over a setting: the one with least of it, and the best with more.
#[derive(Clone, Debug, PartialEq)]
pub struct RowContrast {
    /// The setting in the first row, and in the better one.
    pub setting: (f64, f64),
    /// How much better, above 1.
    pub ratio: f64,
    /// By which quantity.
    pub quantity: &'static str,
    /// That quantity in both rows.
    pub values: (f64, f64),
}

impl RowContrast {
    /// `client.ttft 9 with 2, 0.4 with 16`.
    pub fn text(&self) -> String {
        use crate::words::{count, digits};
        let ((less, more), (here, there)) = (self.setting, self.values);
        format!("{} {} with {}, {} with {}", self.quantity, digits(here), count(less), digits(there), count(more))
    }
}

/// What more of a setting brings in a sweep over it at one load; `None` where it gains no more than runs differ.
pub fn better_row(figures: &Figures, key: &str) -> Option<RowContrast> {
    let setting = |point: &Point| point.typical(key).filter(|&value| value > 0.0);
    let rows = figures.points().filter_map(|point| Some((setting(point)?, point)));
    let (least_of, least) = rows.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let same_load = |point: &Point| {
        let pair = |name: &str| least.typical(name).zip(point.typical(name));
        ["client.concurrency", "client.request_rate", "server.prompt_tokens", "server.output_tokens"]
            .iter()
            .all(|name| pair(name).is_none_or(|(mine, theirs)| (mine - theirs).abs() <= 0.1 * mine.max(theirs)))
    };
    let more = || figures.points().filter(|point| setting(point).is_some_and(|value| value > least_of) && same_load(point));
    QUANTITIES.iter().find_map(|&quantity| {
        let mine = least.typical(quantity)?;
        let ratio = |theirs: f64| if quantity.contains("throughput") { theirs / mine } else { mine / theirs };
        let rows = more().filter_map(|point| Some((setting(point)?, point.typical(quantity)?)));
        let (to, theirs) = rows.max_by(|a, b| ratio(a.1).total_cmp(&ratio(b.1)))?;
        let ratio = ratio(theirs);
        let setting = (least_of, to);
        (ratio.is_finite() && ratio >= RUN_SPREAD).then_some(RowContrast { setting, ratio, quantity, values: (mine, theirs) })
    })
}

/// A numeric setting of both arms, where it differs: here and there.
pub fn numbers(here: &Evidence, there: &Evidence, key: &str) -> Option<(f64, f64)> {
    let pair = here.settings.number(key).zip(there.settings.number(key))?;
    (pair.0 != pair.1).then_some(pair)
}

/// A text setting of both arms, where it differs; empty where one arm does not state it.
pub fn texts<'e>(here: &'e Evidence, there: &'e Evidence, key: &str) -> Option<(&'e str, &'e str)> {
    let text = |evidence: &'e Evidence| evidence.settings.get(key).map_or("", |setting| setting.value.as_str());
    let pair = (text(here), text(there));
    (pair.0 != pair.1).then_some(pair)
}

impl Contrast<'_> {
    /// `client.throughput.output 96.2 here, 161 in "GUARANTEED_NO_EVICT"`.
    pub fn text(&self) -> String {
        use crate::words::digits;
        format!("{} {} here, {} in \"{}\"", self.quantity, digits(self.here), digits(self.there), self.arm.run_name)
    }

    /// Share of the time here that the other arm does not need.
    pub fn saved(&self) -> f64 {
        (1.0 - 1.0 / self.ratio).clamp(0.0, 1.0)
    }

    /// True when it compares times before the first token.
    pub fn is_first_token(&self) -> bool {
        self.quantity.contains(".ttft") || self.quantity.ends_with("prefill_time") || self.quantity.ends_with("throughput.prompt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Figures;

    fn arm(rows: &[(&str, f64)]) -> Evidence {
        Evidence { figures: Figures::from_rows(rows), ..Evidence::default() }
    }

    #[test]
    fn throughput_decides_before_latency_and_noise_is_no_difference() {
        let slow = arm(&[("client.throughput.output", 100.0), ("client.ttft.p50", 1.0)]);
        let fast = arm(&[("client.throughput.output", 160.0), ("client.ttft.p50", 2.0)]);
        let found = best_of(&slow, &fast, QUANTITIES).unwrap();
        assert_eq!((found.quantity, found.here, found.there), ("client.throughput.output", 100.0, 160.0));
        assert!((found.saved() - 0.375).abs() < 1e-12 && !found.is_first_token());
        let noise = arm(&[("client.throughput.output", 110.0), ("client.ttft.p50", 0.9)]);
        assert!(best_of(&slow, &noise, QUANTITIES).is_none());
    }
}
