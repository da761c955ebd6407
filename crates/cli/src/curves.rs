//! The curves of an HTML report: what a person looks at first when serving is slow, per engine.
//!
//! Drawn from the first arm, as scraped; what the verdict rests on stands in the report, not here.

use analysis::evidence::{Engine, Evidence, HistogramSeries, Series};
use capture::Capture;
use report::views::html::Curve;

/// Engines with curves of their own; more would bury the page.
const MOST_ENGINES: usize = 4;

/// Curves of everything the capture has over time.
pub(crate) fn of(capture: &Capture) -> Vec<Curve> {
    let evidence = Evidence::read(capture, 0);
    let is_lone = evidence.engines.len() == 1;
    let mut curves = Vec::new();
    for (id, engine) in evidence.engines.iter().take(MOST_ENGINES) {
        let place = if is_lone { String::new() } else { format!(", engine {}", id.text()) };
        curves.extend(of_engine(engine, &evidence, &place));
    }
    curves
}

fn of_engine(engine: &Engine, evidence: &Evidence, place: &str) -> Vec<Curve> {
    let level = |signal: &str, title: &str, unit: &str, threshold: Option<f64>| {
        engine.series(signal).map(|series| curve(title, place, unit, points(series), threshold))
    };
    let mean = |signal: &str, title: &str| engine.histogram(signal).map(|series| curve(title, place, "s", means(series), None));
    let seats = evidence.settings.number("config.max_num_seqs");
    let preemptions = engine.series("kv.preemptions").filter(|series| series.growth() > 0.0);
    let drawn = [
        level("engine.waiting", "waiting", "request", None),
        level("engine.running", "running", "request", seats),
        level("kv.usage", "KV cache in use", "ratio", Some(1.0)),
        preemptions.map(|series| curve("preemptions between scrapes", place, "count", increments(series), None)),
        mean("server.ttft", "time to first token, mean between scrapes"),
        mean("server.itl", "time between tokens, mean between scrapes"),
    ];
    drawn.into_iter().flatten().filter(|curve| curve.points.len() > 1).collect()
}

fn curve(title: &str, place: &str, unit: &str, points: Vec<(i64, f64)>, threshold: Option<f64>) -> Curve {
    Curve { title: format!("{title}{place}"), unit: unit.to_string(), points, threshold, mark_onset: true }
}

fn points(series: &Series) -> Vec<(i64, f64)> {
    series.t_ns.iter().copied().zip(series.value.iter().copied()).collect()
}

/// Growth up to each time but the first.
fn increments(series: &Series) -> Vec<(i64, f64)> {
    series.t_ns.iter().skip(1).copied().zip(series.steps()).collect()
}

/// Mean of what was observed between two scrapes, at the later one; nothing where nothing was.
fn means(series: &HistogramSeries) -> Vec<(i64, f64)> {
    let later = series.t_ns.iter().skip(1).copied();
    later.zip(series.steps()).filter(|(_, (_, count))| *count > 0.0).map(|(t_ns, (sum, count))| (t_ns, sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use capture::{Histogram, Sample, SourceIdx};
    use expect_test::{Expect, expect};

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Four scrapes of each engine: waiting grows, a preemption, requests with a first token after 2 s.
    fn capture(engines: &[&str]) -> Capture {
        let mut capture = Capture::new();
        for (engine, at) in engines.iter().flat_map(|engine| (1..5).map(move |at| (engine, at))) {
            let labels = capture.intern(&format!("engine=\"0\",replica=\"{engine}\""));
            for (signal, value) in [("engine.waiting", at as f64), ("kv.preemptions", if at >= 3 { 1.0 } else { 0.0 })] {
                let row = (capture.intern(signal), value);
                capture.tables.samples.push(Sample {
                    t_ns: at * SECOND,
                    run_idx: 0,
                    point_idx: -1,
                    signal: row.0,
                    labels,
                    value: row.1,
                    source_idx: SourceIdx(0),
                });
            }
            let signal = capture.intern("server.ttft");
            let count = if at == 2 { 1.0 } else { at as f64 };
            let (bounds, cumulative) = (vec![f64::INFINITY], vec![count]);
            let (t_ns, sum, source_idx) = (at * SECOND, 2.0 * count, SourceIdx(0));
            capture.tables.histograms.push(Histogram {
                t_ns,
                run_idx: 0,
                point_idx: -1,
                signal,
                labels,
                sum,
                count,
                bounds,
                cumulative,
                source_idx,
            });
        }
        capture.canonicalize();
        capture
    }

    fn check(capture: &Capture, expected: &Expect) {
        let line = |curve: &Curve| {
            let points: Vec<String> = curve.points.iter().map(|(t_ns, value)| format!("{}s {value}", t_ns / SECOND)).collect();
            format!("{} [{}]: {}", curve.title, curve.unit, points.join(", "))
        };
        expected.assert_eq(&of(capture).iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_lone_engine_needs_no_name() {
        check(
            &capture(&["0"]),
            &expect![[r#"
            waiting [request]: 1s 1, 2s 2, 3s 3, 4s 4
            preemptions between scrapes [count]: 2s 0, 3s 1, 4s 0
            time to first token, mean between scrapes [s]: 3s 2, 4s 2"#]],
        );
    }

    #[test]
    fn engines_are_told_apart() {
        let titles: Vec<String> = of(&capture(&["0", "1"])).into_iter().map(|curve| curve.title).collect();
        assert!(titles.iter().any(|title| title == "waiting, engine 1"), "{titles:?}");
    }

    #[test]
    fn nothing_over_time_draws_nothing() {
        check(&Capture::new(), &expect![[""]]);
    }
}
