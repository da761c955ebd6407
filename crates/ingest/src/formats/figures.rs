//! What the summaries of load generators share: checked figures, and the statistics of one quantity.
//!
//! Every tool spells the statistics in its own way (`avg`, `median`, `p50`, `percentiles.p99`); they become ours here. A
//! figure that cannot be one (negative, not a number, beyond belief) is an issue that names its key, and no sample.

use std::io::BufRead;

use capture::Severity;
use capture::units::Unit;

use crate::builder::Builder;
use crate::json::{Json, JsonResult};

/// Longest believable time, seconds.
const MAX_SECONDS: f64 = 1e6;
/// Most believable of anything that is counted, and of any rate.
const MAX_COUNT: f64 = 1e12;

/// Most runs taken from one file.
pub(crate) const MAX_RUNS: i32 = 10_000;

/// Says that a file has more runs than are taken.
pub(crate) fn leave_out_run(builder: &mut Builder<'_>) {
    builder.issue_once(Severity::Warning, "runs_left_out", "", || {
        format!("expected at most {MAX_RUNS} runs in a file, found more; the later ones are left out")
    });
}

/// Where the figures of one run stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    /// Host time, or 0 when the result is not dated.
    pub(crate) t_ns: i64,
    /// Position among the loads of the source.
    pub(crate) point_idx: i32,
}

/// True for a number that may be a value of `signal`: zero or more, and not beyond belief.
pub(crate) fn is_possible(signal: &str, value: f64) -> bool {
    (0.0..=limit(signal)).contains(&value)
}

fn limit(signal: &str) -> f64 {
    match capture::signals::resolve(signal).map(|resolved| resolved.unit()) {
        Some(Unit::Second) => MAX_SECONDS,
        Some(Unit::Ratio) => 1.0,
        _ => MAX_COUNT,
    }
}

/// Adds a figure in its base unit. One that cannot be is left out and told with its `key` in the file.
pub(crate) fn add(builder: &mut Builder<'_>, at: At, key: &str, signal: &str, value: f64) {
    let resolved = capture::signals::resolve(signal);
    let Some(resolved) = resolved else { return };
    if !is_possible(signal, value) {
        let (most, unit) = (limit(signal), resolved.unit());
        let found = if value.is_nan() { "no finite number".to_string() } else { format!("{value:?}") };
        let sentence = format!("expected a number from 0 to {most:e} ({unit}), found {found}; the figure is left out");
        builder.issue(Severity::Warning, "impossible_figure", key, 1, sentence);
        return;
    }
    let class = &builder.context.class;
    let has_class = !class.is_empty();
    let labels = if has_class { capture::labels::canonical(&[("class", class)]) } else { String::new() };
    builder.sample_at(at.t_ns, at.point_idx, signal, &labels, value);
}

/// The statistics of one quantity, in the unit in which they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Distribution {
    /// Statistic (ours; empty for a single number) and value; not a number where the file has none.
    pub(crate) values: Vec<(&'static str, f64)>,
    /// Unit as written, where it is.
    pub(crate) unit: String,
    /// Sum as written (`sum`, `total_sum`, `total`).
    pub(crate) sum: Option<f64>,
}

impl Distribution {
    /// Reads an object of statistics or a single number; `null` is an empty distribution.
    pub(crate) fn read<R: BufRead>(json: &mut Json<R>) -> JsonResult<Self> {
        let mut it = Self::default();
        match json.peek() {
            Some(b'{') => it.read_object(json)?,
            _ => it.values.extend(json.figure()?.map(|value| ("", value))),
        }
        Ok(it)
    }

    fn read_object<R: BufRead>(&mut self, json: &mut Json<R>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "unit" | "units" => self.unit = json.scalar()?.unwrap_or_default(),
                "percentiles" if json.peek() == Some(b'{') => self.read_object(json)?,
                "sum" | "total_sum" | "total" => self.sum = json.f64()?,
                _ => match statistic(key) {
                    Some(statistic) => {
                        let value = json.figure()?;
                        let is_known = self.values.iter().any(|(known, _)| *known == statistic);
                        self.values.extend(value.filter(|_| !is_known).map(|value| (statistic, value)));
                    }
                    None => json.skip()?,
                },
            }
            Ok(())
        })
    }

    /// One statistic, where it is a finite number.
    pub(crate) fn get(&self, statistic: &str) -> Option<f64> {
        self.values.iter().find(|(known, _)| *known == statistic).map(|(_, value)| *value).filter(|value| value.is_finite())
    }

    /// The value that all observations share, where they do.
    pub(crate) fn constant(&self) -> Option<f64> {
        self.get("min").zip(self.get("max")).filter(|(min, max)| (max - min).abs() < 1e-9).map(|(min, _)| min)
    }

    /// The same statistics of a quantity that is `factor` times this one.
    pub(crate) fn times(&self, factor: f64) -> Self {
        let values = self.values.iter().map(|(statistic, value)| (*statistic, value * factor)).collect();
        Self { values, unit: String::new(), sum: self.sum.map(|sum| sum * factor) }
    }

    /// Adds every statistic as a figure of `signal`.
    pub(crate) fn add(&self, builder: &mut Builder<'_>, at: At, key: &str, signal: &str) {
        for (statistic, value) in &self.values {
            let dot = if statistic.is_empty() { "" } else { "." };
            add(builder, at, &format!("{key}{dot}{statistic}"), &format!("{signal}{dot}{statistic}"), *value);
        }
    }

    /// The mean as the plain figure of `signal`, for what a run has one of (throughput, counts).
    pub(crate) fn add_mean(&self, builder: &mut Builder<'_>, at: At, key: &str, signal: &str) {
        let mean = self.values.iter().find(|(statistic, _)| matches!(*statistic, "" | "mean"));
        if let Some((_, value)) = mean {
            add(builder, at, key, signal, *value);
        }
    }
}

/// Our name of a statistic as tools spell it.
fn statistic(key: &str) -> Option<&'static str> {
    Some(match key {
        "mean" | "avg" => "mean",
        "median" | "p50" => "p50",
        "p90" => "p90",
        "p95" => "p95",
        "p99" => "p99",
        "min" => "min",
        "max" => "max",
        "std" | "std_dev" | "stddev" => "std",
        _ => return None,
    })
}

/// Statistics of the time per output token by our definition, from requests: (e2e - ttft) / (tokens - 1).
#[derive(Default)]
pub(crate) struct Tpot {
    seconds: Vec<f64>,
}

impl Tpot {
    /// Takes one finished request; one with fewer than two tokens has no time per output token.
    pub(crate) fn push(&mut self, e2e_ns: i64, ttft_ns: i64, tokens: i64) {
        if tokens > 1 && e2e_ns >= ttft_ns {
            self.seconds.push((e2e_ns - ttft_ns) as f64 / 1e9 / (tokens - 1) as f64);
        }
    }

    /// Requests taken.
    pub(crate) fn count(&self) -> usize {
        self.seconds.len()
    }

    /// Mean and percentiles (between neighbors in a straight line), in seconds; empty without requests.
    pub(crate) fn distribution(mut self) -> Distribution {
        let count = self.seconds.len();
        if count == 0 {
            return Distribution::default();
        }
        self.seconds.sort_by(f64::total_cmp);
        let percentile = |share: f64| {
            let place = share * (count - 1) as f64;
            let (below, above) = (self.seconds[place.floor() as usize], self.seconds[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let mean = self.seconds.iter().sum::<f64>() / count as f64;
        let values =
            vec![("mean", mean), ("p50", percentile(0.5)), ("p90", percentile(0.9)), ("p95", percentile(0.95)), ("p99", percentile(0.99))];
        Distribution { values, ..Distribution::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_every_spelling_become_ours() {
        let text = r#"{"unit": "ms", "avg": 1.5, "median": 1, "std_dev": 0.5, "min": NaN, "p01": 0, "percentiles": {"p50": 7, "p99": 3}, "total_sum": 12}"#;
        let found = Distribution::read(&mut Json::new(text.as_bytes())).unwrap();
        assert_eq!((found.unit.as_str(), found.sum, found.get("min")), ("ms", Some(12.0), None));
        let shown: Vec<String> = found.values.iter().map(|(statistic, value)| format!("{statistic}={value}")).collect();
        assert_eq!(shown, ["mean=1.5", "p50=1", "std=0.5", "min=NaN", "p99=3"]);
    }

    #[test]
    fn time_per_output_token_leaves_the_first_token_out() {
        let mut tpot = Tpot::default();
        tpot.push(1_350_000_000, 100_000_000, 11);
        tpot.push(2_600_000_000, 100_000_000, 11);
        tpot.push(500_000_000, 100_000_000, 1);
        let found = tpot.distribution();
        assert_eq!((found.get("mean"), found.get("p50")), (Some(0.1875), Some(0.1875)));
        assert!((found.get("p90").unwrap() - 0.2375).abs() < 1e-12);
    }
}
