//! Every operating point of one system as a row: drafts per round, load, time per token. A sweep over the number of drafts, a
//! sweep over load and an arm without speculation are the same thing seen from different sides.

use crate::evidence::{Evidence, Figures, Point};
use crate::situation::Situation;

/// One operating point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Drafts per round, 0 for plain decoding, `None` where nothing says.
    pub drafts: Option<f64>,
    /// Concurrency or request rate; 0 where not given.
    pub load: f64,
    /// Streams at a time; 0 where not given.
    pub streams: f64,
    /// Class of request, where told apart.
    pub class: String,
    /// Time per token of one stream, s.
    pub token_s: Option<f64>,
    /// Seconds per output token of the whole server: its rate inverted.
    pub rate_s: Option<f64>,
    /// True for points of the arm at hand.
    pub is_here: bool,
    /// Time over that of the first run, where only this ratio was given (`.vs_baseline`).
    pub over_first: Option<f64>,
}

/// All operating points of the arm's system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs(pub Vec<Run>);

/// A point with speculation and one without at the same load.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// With speculation.
    pub with: Run,
    /// Without.
    pub plain: Run,
}

impl Compared {
    /// Time with over time without: above 1, speculation loses.
    pub fn slowdown(&self) -> f64 {
        self.with.over(&self.plain).unwrap_or(1.0)
    }

    /// True when the times are those of one stream, not only comparable with each other.
    pub fn is_absolute(&self) -> bool {
        let is_of_stream = self.with.token_s.zip(self.plain.token_s).is_some() || self.with.streams > 0.0;
        self.with.over_first.is_none() && is_of_stream
    }

    /// Time per token with speculation, s, where both state it.
    pub fn token_s(&self) -> Option<f64> {
        self.pair().map(|(with, _)| with)
    }

    /// Time per token without, s.
    pub fn plain_token_s(&self) -> Option<f64> {
        self.pair().map(|(_, plain)| plain)
    }

    fn pair(&self) -> Option<(f64, f64)> {
        self.with.token_s.zip(self.plain.token_s).or_else(|| {
            // Streams at a time are the same on both sides, so that rates give the times of a stream.
            let streams = if self.with.streams > 0.0 { self.with.streams } else { 1.0 };
            let rates = self.with.rate_s.zip(self.plain.rate_s).map(|(with, plain)| (with * streams, plain * streams));
            rates.or_else(|| self.with.over_first.zip(self.plain.over_first))
        })
    }
}

impl Run {
    /// Keeps the ratio to the first run only where nothing better is known.
    fn use_ratio(&mut self) {
        if self.token_s.or(self.rate_s).is_some() {
            self.over_first = None;
        }
    }

    /// Time here over time there, in whichever of both is stated on both sides.
    pub fn over(&self, other: &Self) -> Option<f64> {
        let times =
            self.token_s.zip(other.token_s).or_else(|| self.rate_s.zip(other.rate_s)).or_else(|| self.over_first.zip(other.over_first))?;
        Some(times.0 / times.1).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    }

    fn is_at_load_of(&self, other: &Self) -> bool {
        let close = (self.load - other.load).abs() <= 1e-9 * self.load.abs().max(other.load.abs());
        // The first run's own ratio is 1 for every class.
        let is_class = self.class == other.class || (self.class.is_empty() && self.over_first == Some(1.0));
        (close || self.load == 0.0 || other.load == 0.0) && is_class
    }
}

impl Runs {
    /// Reads them: the arm at hand and all others of its system.
    pub fn read(situation: &Situation<'_>) -> Self {
        let mut runs = of_arm(situation.evidence, true);
        for arm in situation.other_arms() {
            runs.extend(of_arm(arm, false));
        }
        if situation.other_arms().next().is_none()
            && let Some(baseline) = &situation.baseline
        {
            runs.extend(of_arm(baseline.evidence, false));
        }
        let first = situation.arms.iter().find(|arm| arm.run_idx == 0);
        if first.is_some_and(|first| first.run_idx != situation.evidence.run_idx && !super::speculates(first)) {
            runs.iter_mut().filter(|run| run.is_here).for_each(Run::use_ratio);
            runs.push(Run { drafts: Some(0.0), over_first: Some(1.0), ..Run::default() });
        }
        runs.retain(|run| run.token_s.or(run.rate_s).or(run.over_first).is_some());
        Self(runs)
    }

    /// Pairs with and without speculation at equal load, by load; points of the arm at hand only.
    pub fn pairs(&self) -> Vec<Compared> {
        let with = self.0.iter().filter(|run| run.is_here && run.drafts != Some(0.0));
        let mut pairs: Vec<Compared> = with
            .filter_map(|with| {
                let plain =
                    self.0.iter().find(|plain| plain.drafts == Some(0.0) && plain.is_at_load_of(with) && with.over(plain).is_some())?;
                Some(Compared { with: with.clone(), plain: plain.clone() })
            })
            .collect();
        pairs.sort_by(|a, b| a.with.load.total_cmp(&b.with.load));
        pairs
    }

    /// The pair that counts: the most loaded one with the most drafts.
    pub fn against_plain(&self) -> Option<Compared> {
        self.pairs().into_iter().max_by(|a, b| {
            let key = |pair: &Compared| (pair.with.load, pair.with.drafts.unwrap_or(0.0), pair.slowdown());
            key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
        })
    }

    /// The sweep over drafts at the load of the arm at hand: its own point with the most drafts, and all at that load.
    pub fn over_drafts(&self) -> Option<(Run, Vec<Run>)> {
        let own = self
            .0
            .iter()
            .filter(|run| run.is_here && run.drafts.is_some_and(|drafts| drafts > 0.0))
            .max_by(|a, b| a.drafts.partial_cmp(&b.drafts).unwrap_or(std::cmp::Ordering::Equal))?;
        let same = self.0.iter().filter(|run| run.drafts.is_some() && run.is_at_load_of(own) && run.over(own).is_some());
        Some((own.clone(), same.cloned().collect()))
    }
}

fn of_arm(evidence: &Evidence, is_here: bool) -> Vec<Run> {
    let drafts = if super::speculates(evidence) { evidence.settings.number("config.speculative_tokens") } else { Some(0.0) };
    let load = load_of(|name| evidence.figures.typical(name));
    let mut runs = Vec::new();
    let whole = Run {
        drafts,
        load,
        streams: evidence.figures.typical("client.concurrency").unwrap_or(0.0),
        class: String::new(),
        token_s: token_s(&evidence.figures),
        rate_s: rate_s(|name| evidence.figures.typical(name)),
        is_here,
        over_first: over_first(|name| evidence.figures.get(name)),
    };
    if whole.token_s.or(whole.rate_s).or(whole.over_first).is_some() {
        runs.push(whole.clone());
    }
    runs.extend(evidence.figures.points().filter_map(|point| of_point(point, &whole, is_here)));
    runs
}

fn of_point(point: &Point, whole: &Run, is_here: bool) -> Option<Run> {
    let own_load = load_of(|name| point.typical(name));
    let run = Run {
        drafts: point.typical("config.speculative_tokens").or(whole.drafts),
        load: if own_load > 0.0 { own_load } else { whole.load },
        streams: point.typical("client.concurrency").unwrap_or(whole.streams),
        class: point.about("class").unwrap_or_default().to_string(),
        token_s: time_s(|name| point.typical(name)),
        rate_s: rate_s(|name| point.typical(name)),
        is_here,
        over_first: over_first(|name| point.get(name)),
    };
    run.token_s.or(run.rate_s).or(run.over_first).is_some().then_some(run)
}

fn load_of(figure: impl Fn(&str) -> Option<f64>) -> f64 {
    ["client.concurrency", "client.request_rate", "engine.running"].iter().find_map(|name| figure(name)).unwrap_or(0.0)
}

/// Time per token of one stream, s, of a whole run.
pub(super) fn token_s(figures: &Figures) -> Option<f64> {
    time_s(|name| figures.typical(name))
}

fn time_s(figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    // A gap between chunks is no time per token once a chunk carries several.
    ["client.tpot", "server.tpot"].iter().find_map(|name| figure(name)).filter(|s| *s > 0.0)
}

/// Time over the first run's, from a ratio of times or of rates.
fn over_first(figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let ratio = |name: &str| figure(&format!("{name}.vs_baseline")).filter(|ratio| *ratio > 0.0);
    let time = ["client.tpot", "server.tpot", "client.itl", "server.itl", "client.e2e"].iter().find_map(|name| ratio(name));
    time.or_else(|| {
        let rates = ["client.throughput.output", "server.throughput.output", "client.throughput.requests"];
        rates.iter().find_map(|name| ratio(name)).map(|ratio| 1.0 / ratio)
    })
}

fn rate_s(figure: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let names = ["client.throughput.output", "server.throughput.output", "client.throughput.total", "client.throughput.requests"];
    names.iter().find_map(|name| figure(name)).filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(drafts: f64, load: f64, token_s: f64, is_here: bool) -> Run {
        Run { drafts: Some(drafts), load, streams: load, class: String::new(), token_s: Some(token_s), is_here, ..Run::default() }
    }

    #[test]
    fn pairs_meet_at_equal_load() {
        let runs =
            Runs(vec![run(3.0, 1.0, 0.006, true), run(3.0, 64.0, 0.030, true), run(0.0, 1.0, 0.010, false), run(0.0, 64.0, 0.020, false)]);
        let slowdowns: Vec<f64> = runs.pairs().iter().map(|pair| (pair.slowdown() * 100.0).round() / 100.0).collect();
        assert_eq!(slowdowns, vec![0.6, 1.5]);
        assert_eq!(runs.against_plain().unwrap().plain_token_s(), Some(0.020));
    }

    #[test]
    fn a_sweep_over_drafts_stands_around_the_own_point() {
        let runs = Runs(vec![run(7.0, 1.0, 0.0059, true), run(2.0, 1.0, 0.005, true), run(0.0, 1.0, 0.0075, true)]);
        let (own, all) = runs.over_drafts().unwrap();
        assert_eq!((own.drafts, all.len()), (Some(7.0), 3));
    }
}
