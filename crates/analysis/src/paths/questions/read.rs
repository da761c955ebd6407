//! Figures that several questions read, whether they were scraped, sampled or typed.

use crate::evidence::{Evidence, Series};
use crate::situation::Situation;

/// A figure, else the mean over devices and processes of a sampled series.
pub(super) fn level(situation: &Situation<'_>, signal: &str) -> Option<f64> {
    let evidence = situation.evidence;
    evidence.figures.typical(signal).or_else(|| {
        let means: Vec<f64> = host(evidence, signal).map(Series::mean).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    })
}

/// Mean of a server histogram over the window, else the typed figure.
pub(super) fn mean(situation: &Situation<'_>, signal: &str) -> Option<f64> {
    situation.evidence.mean(signal).or_else(|| situation.evidence.figures.typical(signal))
}

/// Growth of a counter over the engines, else the typed figure.
pub(super) fn total(situation: &Situation<'_>, signal: &str) -> Option<f64> {
    situation.evidence.growth(signal).or_else(|| situation.evidence.figures.typical(signal))
}

/// Series of one signal of the host, whatever their labels.
pub(super) fn host<'a>(evidence: &'a Evidence, signal: &'a str) -> impl Iterator<Item = &'a Series> {
    let own = move |name: &str| name.strip_prefix(signal).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
    evidence.host.iter().filter(move |(name, _)| own(name)).map(|(_, series)| series)
}

/// Growth of a counter of the serving processes: all but the load client.
pub(super) fn serving_growth(evidence: &Evidence, signal: &str) -> Option<f64> {
    let start = format!("{signal}{{");
    let serving = |name: &str| name.starts_with(&start) && !name.contains("role=\"load_client");
    let growths: Vec<f64> = evidence.host.iter().filter(|(name, _)| serving(name)).map(|(_, series)| series.growth()).collect();
    (!growths.is_empty()).then(|| growths.iter().sum())
}

/// Text of a setting, empty when it is not known.
pub(super) fn setting<'a>(situation: &Situation<'a>, key: &str) -> &'a str {
    situation.evidence.settings.get(key).map_or("", |setting| setting.value.as_str())
}

/// The largest batch a captured graph holds: from its own setting, else the largest number in the list of sizes.
pub(super) fn largest_graph(situation: &Situation<'_>) -> Option<f64> {
    let listed = || {
        let sizes = setting(situation, "config.graph_sizes");
        sizes.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse::<f64>().ok()).reduce(f64::max)
    };
    situation.evidence.settings.number("config.graph_max_size").or_else(listed).filter(|&size| size >= 1.0)
}

/// Share of the gaps, and of those at least three times the median among them, during which one of `times_ns` fell.
/// `None` where fewer than twenty gaps are long: chance would answer.
pub(super) fn coincidence(evidence: &Evidence, mut times_ns: Vec<i64>) -> Option<(f64, f64)> {
    const LONG: i64 = 3;
    const ENOUGH: usize = 20;
    times_ns.sort_unstable();
    let mut lengths: Vec<i64> = evidence.gaps.iter().map(|gap| gap.gap_ns).collect();
    if lengths.is_empty() || times_ns.is_empty() {
        return None;
    }
    let middle = lengths.len() / 2;
    let median = *lengths.select_nth_unstable(middle).1;
    let holds = |end: i64, length: i64| times_ns.partition_point(|&t| t <= end) > times_ns.partition_point(|&t| t <= end - length);
    let (mut long, mut long_held, mut held) = (0usize, 0usize, 0usize);
    for gap in &evidence.gaps {
        // A long gap is given no more room to hit by chance than a usual one: only its end counts, where the step ends.
        let hit = holds(gap.t_end_ns, gap.gap_ns.min(median.max(1)));
        let is_long = gap.gap_ns >= LONG * median.max(1);
        held += usize::from(hit);
        long += usize::from(is_long);
        long_held += usize::from(is_long && hit);
    }
    (long >= ENOUGH).then(|| (held as f64 / evidence.gaps.len() as f64, long_held as f64 / long as f64))
}
