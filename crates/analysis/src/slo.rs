//! Limits the user set, beside what was measured: kept, broken, or cannot tell.
//!
//! A limit on a mean is compared with the mean. A limit on a percentile is compared with the requests themselves where
//! there are rows, else with a histogram, whose buckets only say between which two bounds the percentile lies.

mod latencies;

use std::collections::BTreeMap;

use capture::signals::resolve;

use crate::account::RequestAccount;
use crate::load::Load;
use crate::phase::Phase;
use crate::words::seconds;

pub use latencies::{Latencies, Level};

/// A limit the user set, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSet {
    /// `TTFT`, `TPOT p99`, `e2e max`.
    pub name: String,
    /// Limit, s.
    pub limit_s: f64,
    /// Measured, s.
    pub measured: Level,
}

impl LimitSet {
    /// True when what was measured is above the limit, wherever in its bucket it lies.
    pub fn is_broken(&self) -> bool {
        match self.measured {
            Level::Exactly(s) => s > self.limit_s,
            Level::Between { low_s, .. } => low_s >= self.limit_s,
        }
    }

    /// True when what was measured is at most the limit, wherever in its bucket it lies.
    pub fn is_kept(&self) -> bool {
        match self.measured {
            Level::Exactly(s) => s <= self.limit_s,
            Level::Between { high_s, .. } => high_s <= self.limit_s,
        }
    }

    /// `TTFT 136 ms, limit 50.0 ms`; `TTFT p99 between 500 ms and 1.00 s, limit 2.00 s`.
    pub fn text(&self) -> String {
        format!("{} {}, limit {}", self.name, self.measured.text(), seconds(self.limit_s))
    }
}

/// The limits that decide. Where one cannot be told and none is broken, the others being kept says nothing about the
/// whole, so none is returned; [`undecided`] names it.
pub fn measured_limits(account: &RequestAccount, load: &Load, slo: &BTreeMap<String, f64>) -> Vec<LimitSet> {
    let compared: Vec<Result<LimitSet, String>> = slo.iter().map(|(signal, &limit_s)| compare(account, load, signal, limit_s)).collect();
    let open = compared.iter().any(|result| result.as_ref().map_or(true, |limit| !limit.is_broken() && !limit.is_kept()));
    let decided: Vec<LimitSet> = compared.into_iter().flatten().filter(|limit| limit.is_broken() || limit.is_kept()).collect();
    if open && !decided.iter().any(LimitSet::is_broken) { Vec::new() } else { decided }
}

/// Limits that what was measured neither keeps nor breaks, each in a sentence with the reason.
pub fn undecided(account: &RequestAccount, load: &Load, slo: &BTreeMap<String, f64>) -> Vec<String> {
    slo.iter()
        .filter_map(|(signal, &limit_s)| match compare(account, load, signal, limit_s) {
            Err(why) => Some(format!("{signal} {}: {why}", seconds(limit_s))),
            Ok(limit) if limit.is_broken() || limit.is_kept() => None,
            Ok(limit) => Some(format!("{}: cannot tell, the limit lies inside the histogram's bucket", limit.text())),
        })
        .collect()
}

/// Quantity and statistic of a limit: `("ttft", None)` for a mean.
pub fn parts(signal: &str) -> (&str, Option<&'static str>) {
    let statistic = resolve(signal).and_then(|resolved| resolved.statistic).filter(|statistic| *statistic != "mean");
    let quantity = signal.rsplit('.').find(|part| !capture::signals::STATISTICS.contains(part)).unwrap_or_default();
    (quantity, statistic)
}

/// Share of requests at or below the value a statistic names.
fn share_of(statistic: &str) -> Option<f64> {
    match statistic {
        "max" => Some(1.0),
        _ => statistic.strip_prefix('p')?.parse::<f64>().ok().map(|percent| percent / 100.0),
    }
}

fn compare(account: &RequestAccount, load: &Load, signal: &str, limit_s: f64) -> Result<LimitSet, String> {
    let (quantity, statistic) = parts(signal);
    let name = match quantity {
        "ttft" => "TTFT",
        "tpot" => "TPOT",
        "itl" => "ITL",
        "e2e" => "e2e",
        _ => return Err("only TTFT, TPOT, ITL and e2e are compared with limits".into()),
    };
    let Some(statistic) = statistic else {
        let mean_s = mean_s(account, load, signal, quantity).ok_or("not measured")?;
        let name = if quantity == "itl" { "TPOT" } else { name };
        return Ok(LimitSet { name: name.into(), limit_s, measured: Level::Exactly(mean_s) });
    };
    let share = share_of(statistic).ok_or_else(|| format!("`{statistic}` is no percentile"))?;
    let measured = account.latencies.level(signal, quantity, share, limit_s)?;
    Ok(LimitSet { name: format!("{name} {statistic}"), limit_s, measured })
}

/// Means are the account's, so that limit and verdict speak of the same seconds.
fn mean_s(account: &RequestAccount, load: &Load, signal: &str, quantity: &str) -> Option<f64> {
    if account.is_empty() {
        return None;
    }
    if let Some(mean_s) = account.latencies.server_mean_s(signal) {
        return Some(mean_s);
    }
    match quantity {
        "ttft" => Some(account.first_token_mean_s()),
        "e2e" => Some(account.total_mean_s()),
        _ => {
            let tokens = load.output_tokens.unwrap_or(0.0) - 1.0;
            (tokens > 0.0).then(|| account.mean_s(Phase::Decode) / tokens)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(latencies: Latencies) -> RequestAccount {
        RequestAccount { latencies, n: 1, total_ns: 1, ..RequestAccount::default() }
    }

    fn slo(signal: &str, limit_s: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([(signal.to_string(), limit_s)])
    }

    /// 100 requests: 90 at or below 0.5 s, 9 up to 1 s, 1 above 2 s.
    fn bucketed() -> RequestAccount {
        account(Latencies::of_buckets("server.ttft", &[0.5, 1.0, 2.0, f64::INFINITY], &[90.0, 9.0, 0.0, 1.0]))
    }

    #[test]
    fn a_bucket_beside_the_limit_decides_and_one_around_it_does_not() {
        let outcome = |signal: &str, limit_s: f64| {
            let limits = measured_limits(&bucketed(), &Load::default(), &slo(signal, limit_s));
            limits.first().map(|limit| (limit.is_broken(), limit.text()))
        };
        assert_eq!(outcome("server.ttft.p95", 2.0), Some((false, "TTFT p95 between 500 ms and 1.00 s, limit 2.00 s".into())));
        assert_eq!(outcome("server.ttft.p95", 0.4), Some((true, "TTFT p95 between 500 ms and 1.00 s, limit 400 ms".into())));
        assert_eq!(outcome("server.ttft.p95", 0.8), None);
        assert_eq!(outcome("server.ttft.max", 1.5), Some((true, "TTFT max above 2.00 s, limit 1.50 s".into())));
        let told = undecided(&bucketed(), &Load::default(), &slo("server.ttft.p95", 0.8));
        assert_eq!(told, ["TTFT p95 between 500 ms and 1.00 s, limit 800 ms: cannot tell, the limit lies inside the histogram's bucket"]);
    }

    #[test]
    fn few_requests_break_a_limit_but_do_not_keep_it() {
        let rows: Vec<f64> = (1..=40).map(|at| f64::from(at) * 0.01).collect();
        let account = account(Latencies::of_rows("client.ttft", rows));
        let of = |statistic: &str, limit_s: f64| {
            let slo = slo(&format!("client.ttft.{statistic}"), limit_s);
            (
                measured_limits(&account, &Load::default(), &slo).first().map(LimitSet::is_broken),
                undecided(&account, &Load::default(), &slo),
            )
        };
        assert_eq!(of("p90", 0.37), (Some(false), Vec::new()));
        assert_eq!(of("p99", 0.1), (Some(true), Vec::new()));
        assert_eq!(of("p99", 0.5), (None, vec!["client.ttft.p99 500 ms: cannot tell from 40 requests, p99 needs 200".into()]));
        assert_eq!(of("max", 0.5), (Some(false), Vec::new()));
    }

    #[test]
    fn one_limit_that_cannot_be_told_keeps_the_others_from_calling_it_well() {
        let mut both = slo("server.ttft.p95", 0.8);
        both.insert("server.ttft.p50".into(), 1.0);
        assert!(measured_limits(&bucketed(), &Load::default(), &both).is_empty());
        both.insert("server.ttft.max".into(), 1.0);
        assert!(measured_limits(&bucketed(), &Load::default(), &both).iter().any(LimitSet::is_broken));
    }

    #[test]
    fn names_come_apart() {
        assert_eq!(parts("client.ttft"), ("ttft", None));
        assert_eq!(parts("client.ttft.mean"), ("ttft", None));
        assert_eq!(parts("server.tpot.p95"), ("tpot", Some("p95")));
    }
}
