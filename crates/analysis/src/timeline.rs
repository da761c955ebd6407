//! Scrape intervals of one engine, and the moments requests waited in them.

use crate::evidence::{Engine, Figures, Point, Series};

/// What happened between two scrapes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Start and end, host clock, ns.
    pub t_start_ns: i64,
    /// End.
    pub t_end_ns: i64,
    /// Running requests at the start.
    pub running_start: f64,
    /// Running requests at the end.
    pub running_end: f64,
    /// Engine steps.
    pub steps: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Prompt tokens computed.
    pub computed_tokens: f64,
    /// Requests preempted.
    pub preemptions: f64,
    /// Requests finished.
    pub finished: f64,
}

impl Interval {
    /// Length, s.
    pub fn length_s(&self) -> f64 {
        (self.t_end_ns - self.t_start_ns) as f64 * 1e-9
    }
}

/// One scrape at which the engine's gauges were read, with the time it stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Half way to the scrape before, ns.
    pub t_start_ns: i64,
    /// Half way to the scrape after, ns.
    pub t_end_ns: i64,
    /// Requests running.
    pub running: f64,
    /// Requests waiting.
    pub waiting: f64,
    /// Requests waiting for something other than capacity.
    pub deferred: f64,
    /// Share of KV blocks in use, if exported.
    pub kv_usage: Option<f64>,
    /// Requests preempted since the scrape before.
    pub preemptions: f64,
}

/// Gauges over time that somebody typed as rows (`client.elapsed`, running, waiting), each until the next row.
pub fn typed_moments(figures: &Figures) -> Vec<Moment> {
    let row = |point: &Point| {
        let gauge = |name: &str| point.typical(name);
        Some((gauge("client.elapsed")?, gauge("engine.running")?, gauge("engine.waiting")?, gauge("kv.usage")))
    };
    let mut rows: Vec<(f64, f64, f64, Option<f64>)> = figures.points().filter_map(row).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ns = |seconds: f64| (seconds * 1e9) as i64;
    let moment = |pair: &[(f64, f64, f64, Option<f64>)]| Moment {
        t_start_ns: ns(pair[0].0),
        t_end_ns: ns(pair[1].0),
        running: pair[0].1,
        waiting: pair[0].2,
        deferred: 0.0,
        kv_usage: pair[0].3,
        preemptions: 0.0,
    };
    rows.windows(2).map(moment).collect()
}

impl Moment {
    /// Request-seconds waited.
    pub fn waited_s(&self) -> f64 {
        self.waiting * self.length_s()
    }

    /// Length, s.
    pub fn length_s(&self) -> f64 {
        (self.t_end_ns - self.t_start_ns) as f64 * 1e-9
    }
}

/// Intervals between the scrapes of `engine`.
pub fn intervals(engine: &Engine) -> Vec<Interval> {
    let Some(running) = engine.series("engine.running") else { return Vec::new() };
    let steps_at = step_counts(engine);
    let computed_at = engine.series("server.computed_tokens_total").or_else(|| engine.series("server.prompt_tokens_total"));
    let output_at = engine.series("server.output_tokens_total");
    let preempted_at = engine.series("kv.preemptions");
    let finished_at = finished_counts(engine);
    let gained = |series: Option<&Series>, from: i64, to: i64| -> f64 {
        let value = |t| series.and_then(|series| series.at(t));
        match (value(from), value(to)) {
            (Some(before), Some(after)) if after >= before => after - before,
            (_, Some(after)) => after.max(0.0),
            _ => 0.0,
        }
    };
    (1..running.len())
        .map(|at| {
            let (from, to) = (running.t_ns[at - 1], running.t_ns[at]);
            Interval {
                t_start_ns: from,
                t_end_ns: to,
                running_start: running.value[at - 1],
                running_end: running.value[at],
                steps: gained(steps_at.as_ref(), from, to),
                output_tokens: gained(output_at, from, to),
                computed_tokens: gained(computed_at, from, to),
                preemptions: gained(preempted_at, from, to),
                finished: gained(finished_at.as_ref(), from, to),
            }
        })
        .collect()
}

/// Moments of `engine`, in time order.
pub fn moments(engine: &Engine) -> Vec<Moment> {
    let Some(running) = engine.series("engine.running") else { return Vec::new() };
    let waiting = engine.series("engine.waiting");
    let deferred = engine.series("engine.waiting{reason=\"deferred\"}");
    let usage = engine.series("kv.usage").filter(|series| series.max() > 0.0);
    let preempted = engine.series("kv.preemptions");
    let count = running.len();
    let middle = |a: usize, b: usize| running.t_ns[a] / 2 + running.t_ns[b] / 2 + i64::midpoint(running.t_ns[a] % 2, running.t_ns[b] % 2);
    (0..count)
        .map(|at| {
            let t = running.t_ns[at];
            let before = if at == 0 { t } else { running.t_ns[at - 1] };
            let gained = |series: &Series| (series.at(t).unwrap_or(0.0) - series.at(before).unwrap_or(0.0)).max(0.0);
            Moment {
                t_start_ns: if at == 0 { t } else { middle(at - 1, at) },
                t_end_ns: if at + 1 == count { t } else { middle(at, at + 1) },
                running: running.value[at],
                waiting: waiting.and_then(|series| series.at(t)).unwrap_or(0.0).max(0.0),
                deferred: deferred.and_then(|series| series.at(t)).unwrap_or(0.0).max(0.0),
                kv_usage: usage.and_then(|series| series.at(t)),
                preemptions: preempted.map_or(0.0, gained),
            }
        })
        .collect()
}

/// Running count of engine steps: the count of the tokens-per-step histogram, else the step counter.
fn step_counts(engine: &Engine) -> Option<Series> {
    engine
        .histogram("engine.step_tokens")
        .map(|histogram| Series { t_ns: histogram.t_ns.clone(), value: histogram.count.clone() })
        .or_else(|| engine.series("engine.steps").cloned())
}

fn finished_counts(engine: &Engine) -> Option<Series> {
    engine.histogram("server.e2e").map(|histogram| Series { t_ns: histogram.t_ns.clone(), value: histogram.count.clone() })
}
