//! Which requests are sent and when, as typed: made up, or a recording.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use live::load::{Axis, Schedule};
use simulate::workload::{Arrivals, Generator, Lengths, Limits, SharedPrefix, read};
use simulate::{Request, Workload};

use crate::quantity;

/// Requests made for a closed loop that ends by time; more than one client sends in a sitting.
const CLOSED_COUNT: usize = 200_000;
/// Most requests of one load.
const MOST_REQUESTS: f64 = 5e6;
/// Tokens per block of a shared prefix: the engines' usual block.
const BLOCK_TOKENS: u32 = 16;
/// Between the starts of two users.
const START_GAP: Duration = Duration::from_millis(20);
/// Share of the load's time, at most, in which users start.
const RAMP_PARTS: u32 = 20;
/// The same where requests are counted and time is not.
const LONGEST_RAMP: Duration = Duration::from_secs(2);
/// Longest prompt or answer, tokens.
const MOST_TOKENS: u32 = 2_000_000;

/// The offered load.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The load")]
pub(crate) struct OfferArgs {
    /// Users with one request at a time each [default: 1 without --rate and --replay]
    #[arg(long, value_name = "N", conflicts_with_all = ["rate"], value_parser = clap::value_parser!(u32).range(1..=60_000))]
    users: Option<u32>,

    /// Pause of a user between an answer and the next request
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, requires = "users")]
    think: Option<Duration>,

    /// Time over which users start one after the other, 0s for all at once [default: 20ms for each, at most a twentieth of
    /// --duration, or 2s without it]
    #[arg(long, value_name = "TIME", value_parser = ramp_up, requires = "users")]
    ramp_up: Option<Duration>,

    /// Requests per second, whether answers come or not
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f64>,

    /// Distances at --rate: constant, poisson, gamma:VARIATION, bursts:RATE:PERIOD:LENGTH, ramp:TO_RATE:TIME
    #[arg(long, value_name = "KIND", default_value = "poisson", value_parser = pattern)]
    arrivals: Pattern,

    /// How many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(crate) requests: Option<u32>,

    /// Send what was recorded: a trace (Mooncake, Bailian, Azure, BurstGPT, CSV or JSON lines with lengths) or a capture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "prompt_tokens", "output_tokens", "shared_prefix"])]
    pub(crate) replay: Option<PathBuf>,

    /// Replay this many times as fast
    #[arg(long, value_name = "F", default_value_t = 1.0, requires = "replay", value_parser = rate)]
    speed: f64,

    /// Tokens per prompt, beyond a shared prefix: 512, or MEDIAN~SIGMA for a log-normal spread
    #[arg(long, value_name = "N", default_value = "512", value_parser = length)]
    prompt_tokens: Length,

    /// Tokens per answer, likewise
    #[arg(long, value_name = "N", default_value = "128", value_parser = length)]
    output_tokens: Length,

    /// Prompts start with one of so many common texts of so many tokens: 4x1024
    #[arg(long, value_name = "TEXTSxTOKENS", value_parser = prefix)]
    shared_prefix: Option<Prefix>,

    /// Seed of times, lengths and texts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How requests are spread in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    Constant,
    Poisson,
    Gamma(f64),
    Bursts(f64, f64, f64),
    Ramp(f64, f64),
}

impl Pattern {
    fn at(self, per_s: f64) -> Arrivals {
        match self {
            Self::Constant => Arrivals::Constant { per_s },
            Self::Poisson => Arrivals::Poisson { per_s },
            Self::Gamma(variation) => Arrivals::Gamma { per_s, variation },
            Self::Bursts(burst_per_s, period_s, burst_s) => Arrivals::Bursts { per_s, burst_per_s, period_s, burst_s },
            Self::Ramp(to_per_s, ramp_s) => Arrivals::Ramp { from_per_s: per_s, to_per_s, ramp_s },
        }
    }

    /// Highest rate it comes to.
    fn most(self, per_s: f64) -> f64 {
        match self {
            Self::Bursts(other, ..) | Self::Ramp(other, _) => per_s.max(other),
            _ => per_s,
        }
    }
}

#[derive(Clone, Debug)]
struct Length(Lengths);

#[derive(Clone, Copy, Debug)]
struct Prefix(SharedPrefix);

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("expected a number, found `{text}`"))?;
    if (1e-3..=1e5).contains(&rate) { Ok(rate) } else { Err("expected 0.001 to 100000".into()) }
}

fn seconds(text: &str) -> Result<f64, String> {
    quantity::duration(text).map(|duration| duration.as_secs_f64())
}

fn ramp_up(text: &str) -> Result<Duration, String> {
    if matches!(text.trim(), "0" | "0s") { Ok(Duration::ZERO) } else { quantity::duration(text) }
}

/// Users that start in the same moment wait for each other: their first answers would tell of the client's own burst. How long
/// a request takes is not known beforehand, so that they start at a pace which a server can follow, and soon enough that the
/// figures are those of all users.
fn usual_ramp(users: u32, duration: Option<Duration>) -> Duration {
    let most = duration.map_or(LONGEST_RAMP, |duration| duration / RAMP_PARTS);
    (START_GAP * users.saturating_sub(1)).min(most)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        ["constant"] => Ok(Pattern::Constant),
        ["poisson"] => Ok(Pattern::Poisson),
        ["gamma", variation] => {
            let variation: f64 = variation.parse().map_err(|_| format!("expected a number, found `{variation}`"))?;
            if (0.01..=30.0).contains(&variation) { Ok(Pattern::Gamma(variation)) } else { Err("expected 0.01 to 30".into()) }
        }
        ["bursts", burst, period, length] => {
            let (period, length) = (seconds(period)?, seconds(length)?);
            if length >= period {
                return Err("expected a burst shorter than its period".into());
            }
            Ok(Pattern::Bursts(rate(burst)?, period, length))
        }
        ["ramp", to, time] => Ok(Pattern::Ramp(rate(to)?, seconds(time)?)),
        _ => Err("expected constant, poisson, gamma:VARIATION, bursts:RATE:PERIOD:LENGTH or ramp:TO_RATE:TIME".into()),
    }
}

fn tokens(text: &str) -> Result<u32, String> {
    let count: u32 = text.parse().map_err(|_| format!("expected a number of tokens, found `{text}`"))?;
    if (1..=MOST_TOKENS).contains(&count) { Ok(count) } else { Err(format!("expected 1 to {MOST_TOKENS} tokens")) }
}

fn length(text: &str) -> Result<Length, String> {
    let Some((median, sigma)) = text.split_once('~') else { return Ok(Length(Lengths::Fixed(tokens(text)?))) };
    let median = tokens(median)?;
    let sigma: f64 = sigma.parse().map_err(|_| format!("expected a number, found `{sigma}`"))?;
    if !(0.0..=5.0).contains(&sigma) {
        return Err("expected a spread from 0 to 5".into());
    }
    let most = median.saturating_mul(50).min(MOST_TOKENS);
    Ok(Length(Lengths::LogNormal { median: f64::from(median), sigma, most }))
}

fn prefix(text: &str) -> Result<Prefix, String> {
    let (texts, length) = text.split_once('x').ok_or("expected TEXTSxTOKENS, as in 4x1024")?;
    let texts: u32 = texts.parse().map_err(|_| format!("expected a number of texts, found `{texts}`"))?;
    if !(1..=100_000).contains(&texts) {
        return Err("expected 1 to 100000 texts".into());
    }
    let blocks = tokens(length)?.div_ceil(BLOCK_TOKENS);
    if u64::from(texts) * u64::from(blocks) > 100_000_000 {
        return Err("expected at most 1.6 billion tokens of shared texts".into());
    }
    Ok(Prefix(SharedPrefix { texts, blocks, block_tokens: BLOCK_TOKENS }))
}

/// What a level counts.
pub(crate) fn unit(axis: Axis) -> &'static str {
    match axis {
        Axis::Users => "users",
        Axis::Rate => "requests/s",
    }
}

impl OfferArgs {
    /// Who decides when requests are sent.
    pub(crate) fn schedule(&self, level: Option<(Axis, f64)>, duration: Option<Duration>) -> Schedule {
        let users = match level {
            Some((Axis::Rate, _)) => return Schedule::Open,
            Some((Axis::Users, users)) => users as u32,
            None if self.rate.is_some() || (self.replay.is_some() && self.users.is_none()) => return Schedule::Open,
            None => self.users.unwrap_or(1),
        };
        let users = users.max(1);
        let ramp = self.ramp_up.unwrap_or_else(|| usual_ramp(users, duration));
        Schedule::Closed { users, think: self.think.unwrap_or_default(), ramp }
    }

    /// Where a sweep begins.
    pub(crate) fn first_level(&self, axis: Axis) -> f64 {
        match axis {
            Axis::Users => f64::from(self.users.unwrap_or(1)),
            Axis::Rate => self.rate.unwrap_or(1.0),
        }
    }

    /// The requests.
    pub(crate) fn workload(&self, schedule: Schedule, level: Option<(Axis, f64)>, duration: Option<Duration>) -> anyhow::Result<Workload> {
        if let Some(path) = &self.replay {
            let recorded = replay(path)?;
            let speed = match level {
                Some((Axis::Rate, rate)) => {
                    let recorded_rate = recorded.requests().len() as f64 / (recorded.span_ns().max(1) as f64 / 1e9);
                    rate / recorded_rate
                }
                _ => self.speed,
            };
            let limit = self.requests.map_or(usize::MAX, |count| count as usize);
            return Ok(first(recorded, limit).faster(speed));
        }
        let per_s = match level {
            Some((Axis::Rate, rate)) => rate,
            _ => self.rate.unwrap_or(1.0),
        };
        let count = match (self.requests, schedule) {
            (Some(count), _) => count as usize,
            (None, Schedule::Closed { .. }) => CLOSED_COUNT,
            (None, Schedule::Open) => {
                let wanted = self.arrivals.most(per_s) * duration.unwrap_or_default().as_secs_f64() * 1.2 + 100.0;
                if wanted > MOST_REQUESTS {
                    bail!("expected at most {MOST_REQUESTS} requests, found a load of {wanted:.0}; shorten it");
                }
                wanted as usize
            }
        };
        let generator = Generator {
            count,
            arrivals: self.arrivals.at(per_s),
            prompts: self.prompt_tokens.0.clone(),
            outputs: self.output_tokens.0.clone(),
            prefix: self.shared_prefix.map(|prefix| prefix.0),
            seed: self.seed,
        };
        Ok(generator.generate())
    }
}

/// The first requests of a recording.
fn first(workload: Workload, limit: usize) -> Workload {
    if workload.requests().len() <= limit { workload } else { workload.first(limit) }
}

/// A trace, or the requests of a capture.
fn replay(path: &Path) -> anyhow::Result<Workload> {
    if capture::store::is_capture(path) {
        return replay_capture(path);
    }
    let file = File::open(path).with_context(|| format!("could not open `{}`", path.display()))?;
    let reading = read(&mut BufReader::new(file), Limits::default()).with_context(|| format!("could not read `{}`", path.display()))?;
    Ok(reading.workload)
}

fn replay_capture(path: &Path) -> anyhow::Result<Workload> {
    let capture = capture::store::open(path).with_context(|| format!("could not open capture `{}`", path.display()))?;
    let rows: Vec<_> = capture.tables.requests.rows().collect();
    // Each request once: as the client saw it, where one was there.
    let vantage = ["client", "gateway", "server"].into_iter().find(|name| rows.iter().any(|row| capture.text(row.vantage) == *name));
    let counts = |tokens: Option<i64>| tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
    let requests: Vec<Request> = rows
        .iter()
        .filter(|row| Some(capture.text(row.vantage)) == vantage && row.attempt == 0)
        .filter_map(|row| Some(Request::new(row.t_intended_ns.unwrap_or(row.t_sent_ns), counts(row.tokens_in)?, counts(row.tokens_out)?)))
        .collect();
    if requests.is_empty() {
        bail!("expected requests with prompt and output tokens in `{}`, found none", path.display());
    }
    Ok(Workload::new(requests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_start_one_after_the_other() {
        let ms = |users: u32, duration: Option<u64>| usual_ramp(users, duration.map(Duration::from_secs)).as_millis();
        assert_eq!([ms(1, Some(30)), ms(16, Some(30)), ms(64, Some(30)), ms(1024, Some(30))], [0, 300, 1260, 1500]);
        assert_eq!([ms(16, None), ms(1024, None)], [300, 2000]);
        assert_eq!((ramp_up("0s"), ramp_up("0"), ramp_up("3s")), (Ok(Duration::ZERO), Ok(Duration::ZERO), Ok(Duration::from_secs(3))));
        assert!(ramp_up("3").is_err() && ramp_up("-1s").is_err());
    }

    #[test]
    fn patterns_and_lengths_are_read_or_refused() {
        assert_eq!(pattern("gamma:2.5"), Ok(Pattern::Gamma(2.5)));
        assert_eq!(pattern("bursts:50:10s:1s"), Ok(Pattern::Bursts(50.0, 10.0, 1.0)));
        assert_eq!(pattern("ramp:20:30s"), Ok(Pattern::Ramp(20.0, 30.0)));
        for text in ["", "gamma", "gamma:x", "gamma:99", "bursts:50:1s:2s", "ramp:0:1s", "ramp:20:30", "uniform"] {
            assert!(pattern(text).is_err(), "{text}");
        }
        assert!(matches!(length("512").unwrap().0, Lengths::Fixed(512)));
        assert!(matches!(length("512~0.6").unwrap().0, Lengths::LogNormal { most: 25_600, .. }));
        for text in ["0", "x", "3000000", "5~9", "~"] {
            assert!(length(text).is_err(), "{text}");
        }
        assert_eq!(prefix("4x1000").unwrap().0, SharedPrefix { texts: 4, blocks: 63, block_tokens: 16 });
        assert!(prefix("0x1").is_err() && prefix("4").is_err() && prefix("100000x2000000").is_err());
    }
}
