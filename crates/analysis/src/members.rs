//! One quantity over the members of a group: ranks, devices, replicas, stages.
//!
//! People type it as labels (`engine.rank_tokens{rank="3"}`), as a sweep with `proc.rank` or `engine.stage`, or only as its
//! largest and mean value; scrapes tell it per engine. All of them read as the same thing here.

use crate::evidence::{Evidence, Point, Series};

/// Values of one quantity, by member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members {
    /// Member and value; empty where only the extremes are known.
    pub each: Vec<(String, f64)>,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Smallest; 0 where it is not known.
    pub min: f64,
}

/// Labels that tell members apart, the most telling first.
const LABELS: [&str; 7] = ["rank", "device", "engine", "stage", "replica", "role", "process"];
/// Sweep columns that tell members apart.
const COLUMNS: [&str; 2] = ["proc.rank", "engine.stage"];

impl Members {
    /// Reads a quantity; `None` with fewer than two members.
    pub fn read(evidence: &Evidence, quantity: &str) -> Option<Self> {
        labelled(evidence, quantity)
            .or_else(|| Self::of(rows(evidence, quantity)))
            .or_else(|| Self::of(engines(evidence, quantity)))
            .or_else(|| extremes(evidence, quantity))
    }

    /// What somebody told of each member, by label or row: no extremes, which may be of one member over time.
    pub fn told(evidence: &Evidence, quantity: &str) -> Option<Self> {
        labelled(evidence, quantity).or_else(|| Self::of(rows(evidence, quantity)))
    }

    /// The quantity by one label only.
    pub fn by(evidence: &Evidence, quantity: &str, label: &str) -> Option<Self> {
        let scraped = || {
            let prefix = format!("{quantity}{{");
            let of_label = |(name, series): (&String, &Series)| {
                let text = name.strip_prefix(&prefix)?.trim_end_matches('}');
                Some((capture::labels::get(text, label)?, series.mean()))
            };
            evidence.host.iter().filter_map(of_label).collect()
        };
        Self::of(evidence.figures.by_label(quantity, label)).or_else(|| Self::of(scraped()))
    }

    /// Members with their values; `None` for fewer than two, or nothing but zeros.
    pub fn of(mut each: Vec<(String, f64)>) -> Option<Self> {
        each.retain(|(_, value)| value.is_finite() && *value >= 0.0);
        each.sort_by(|a, b| number(&a.0).total_cmp(&number(&b.0)).then_with(|| a.0.cmp(&b.0)));
        let max = each.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let min = each.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
        let mean = each.iter().map(|(_, value)| value).sum::<f64>() / each.len().max(1) as f64;
        (each.len() >= 2 && max > 0.0).then_some(Self { each, max, mean, min })
    }

    /// Members, at least 2.
    pub fn count(&self) -> usize {
        self.each.len().max(2)
    }

    /// Median of the members, the mean where they are not known one by one.
    pub fn median(&self) -> f64 {
        let mut values: Vec<f64> = self.each.iter().map(|(_, value)| *value).collect();
        values.sort_unstable_by(f64::total_cmp);
        match values.len() {
            0 => self.mean,
            n if n % 2 == 1 => values[n / 2],
            n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
        }
    }

    /// Largest over mean.
    pub fn max_over_mean(&self) -> f64 {
        if self.mean > 0.0 { self.max / self.mean } else { 1.0 }
    }

    /// Share of the largest that the mean member does not need: what all wait for the hottest.
    pub fn waited_frac(&self) -> f64 {
        if self.max > 0.0 { ((self.max - self.mean) / self.max).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The member with the largest value.
    pub fn hottest(&self) -> Option<&(String, f64)> {
        self.each.iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The member with the smallest value.
    pub fn coldest(&self) -> Option<&(String, f64)> {
        self.each.iter().min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::MAX)
}

fn labelled(evidence: &Evidence, quantity: &str) -> Option<Members> {
    LABELS.iter().find_map(|label| Members::by(evidence, quantity, label))
}

fn rows(evidence: &Evidence, quantity: &str) -> Vec<(String, f64)> {
    let row = |point: &Point| {
        let member = COLUMNS.iter().find_map(|column| point.typical(column))?;
        Some((format!("{member}"), point.typical(quantity)?))
    };
    evidence.figures.points().filter_map(row).collect()
}

fn engines(evidence: &Evidence, quantity: &str) -> Vec<(String, f64)> {
    evidence.engines.iter().filter_map(|(id, engine)| Some((id.text(), engine.series(quantity)?.mean()))).collect()
}

fn extremes(evidence: &Evidence, quantity: &str) -> Option<Members> {
    let get = |statistic: &str| evidence.figures.get(&format!("{quantity}.{statistic}"));
    let max = get("max")?;
    let min = get("min");
    let mean = get("mean").or_else(|| get("p50")).or_else(|| min.map(|min| f64::midpoint(min, max)))?;
    (max >= mean && mean > 0.0).then(|| Members { each: Vec::new(), max, mean, min: min.unwrap_or(0.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_compared_by_number_and_spread() {
        let values = [("10", 3.0), ("2", 1.0), ("1", 2.0)].map(|(name, value)| (name.to_string(), value));
        let members = Members::of(values.to_vec()).unwrap();
        assert_eq!(members.each[2].0, "10");
        assert_eq!((members.max, members.mean, members.min, members.median()), (3.0, 2.0, 1.0, 2.0));
        assert_eq!(members.max_over_mean(), 1.5);
        assert!((members.waited_frac() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(members.hottest().unwrap().0, "10");
        assert!(Members::of(vec![("0".into(), 1.0)]).is_none());
    }
}
