//! Small line charts of signals over time.
//!
//! A curve is reduced to the lowest and highest point of each pixel column, so a spike stays visible however many points there
//! are. Where points are missing for long the line is broken: nothing is drawn where nothing was measured.

use super::bars::percent;
use super::build::{Html, attribute, element, section as titled, text_element};
use crate::{clean, clock, figures, phrases};

/// Pixel columns; each keeps at most two points.
const COLUMNS: i128 = 300;
/// A gap this many times the usual distance of points breaks the line.
const GAP: i64 = 4;
/// Share of the width that the time at either end takes.
const ROOM: f64 = 0.2;
/// Height of a chart.
const HEIGHT: f64 = 100.0;

/// One signal over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// What a reader calls it.
    pub title: String,
    /// Base unit of the values.
    pub unit: String,
    /// Host time in ns since the epoch, and value. Points that are not finite are left out.
    pub points: Vec<(i64, f64)>,
    /// A limit to draw across, in the unit of the values.
    pub threshold: Option<f64>,
    /// Whether the onset of the report's window is marked.
    pub mark_onset: bool,
}

/// All curves that have points.
pub(super) fn section(curves: &[Curve], onset_ns: Option<i64>) -> Html {
    let charts: Vec<Html> = curves.iter().filter_map(|curve| chart(curve, onset_ns)).collect();
    if charts.is_empty() { Html::default() } else { titled("Over time", "", &element("div", "charts", &Html::join(charts))) }
}

/// Extent of a chart in time and value.
struct Frame {
    start_ns: i64,
    span_ns: i128,
    low: f64,
    high: f64,
}

impl Frame {
    fn of(points: &[(i64, f64)], threshold: Option<f64>) -> Option<Self> {
        let (start_ns, end_ns) = (points.first()?.0, points.last()?.0);
        let values = points.iter().map(|(_, value)| *value).chain(threshold.filter(|value| value.is_finite()));
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let room = (high - low) * 0.06;
        let (low, high) = if high > low { (if low < 0.0 { low - room } else { 0.0 }, high + room) } else { (0.0, 1.0) };
        Some(Self { start_ns, span_ns: (i128::from(end_ns) - i128::from(start_ns)).max(1), low, high })
    }

    /// 0 to 1 over the width.
    fn across(&self, time_ns: i64) -> f64 {
        (i128::from(time_ns) - i128::from(self.start_ns)) as f64 / self.span_ns as f64
    }

    /// Distance from the top.
    fn down(&self, value: f64) -> f64 {
        (self.high - value) / (self.high - self.low) * HEIGHT
    }
}

fn chart(curve: &Curve, onset_ns: Option<i64>) -> Option<Html> {
    let mut points: Vec<(i64, f64)> = curve.points.iter().copied().filter(|(_, value)| value.is_finite() && value.abs() < 1e300).collect();
    points.sort_by_key(|(time_ns, _)| *time_ns);
    let frame = Frame::of(&points, curve.threshold)?;
    let lines = reduce(&points, &frame);
    let mut drawn = String::new();
    for line in &lines {
        drawn.push_str(&draw(line, &frame));
    }
    let threshold = curve.threshold.filter(|value| value.is_finite()).map(|value| {
        let down = frame.down(value);
        format!("<line class=\"limit\" x1=\"0\" x2=\"100%\" y1=\"{down:.1}\" y2=\"{down:.1}\"/>")
    });
    let onset = onset_ns
        .filter(|_| curve.mark_onset)
        .map(|time_ns| frame.across(time_ns))
        .filter(|at| (0.0..=1.0).contains(at))
        .map(|at| format!("<line class=\"onset\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{HEIGHT}\"/>", percent(at)));
    let label = format!("{} over time, highest {}", clean::name(&curve.title, 80), figures::quantity(highest(&points), &curve.unit));
    let svg = Html::figures(format!(
        "<svg class=\"chart\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">\
         <line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"50\" y2=\"50\"/>\
         <svg viewBox=\"0 0 {COLUMNS} {HEIGHT}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"{HEIGHT}\">{drawn}</svg>{}{}</svg>",
        attribute(&label),
        threshold.unwrap_or_default(),
        onset.unwrap_or_default(),
    ));
    Some(element("figure", "", &Html::join([caption(curve, &points), svg, ends(curve, &points, &frame, onset_ns)])))
}

/// Title, and the last and the highest value.
fn caption(curve: &Curve, points: &[(i64, f64)]) -> Html {
    let last = points.last().map(|(_, value)| figures::quantity(*value, &curve.unit)).unwrap_or_default();
    let highest = figures::quantity(highest(points), &curve.unit);
    let limit = curve.threshold.map(|value| format!(", limit {}", figures::quantity(value, &curve.unit))).unwrap_or_default();
    let values = text_element("span", "", &format!("last {last}, highest {highest}{limit}"));
    element("figcaption", "", &Html::join([text_element("strong", "", &clean::name(&curve.title, phrases::NAME_LIMIT)), values]))
}

/// Times under both ends, and the onset under its mark where there is room.
fn ends(curve: &Curve, points: &[(i64, f64)], frame: &Frame, onset_ns: Option<i64>) -> Html {
    let (Some((start_ns, _)), Some((end_ns, _))) = (points.first(), points.last()) else { return Html::default() };
    if !clock::is_wall_time(*start_ns) {
        let length = figures::nanoseconds(end_ns.saturating_sub(*start_ns));
        return element("p", "ends", &Html::join([element("span", "", &Html::markup("0 s")), text_element("span", "", &length)]));
    }
    let placed = onset_ns.filter(|_| curve.mark_onset).map(|time_ns| (time_ns, frame.across(time_ns)));
    let placed = placed.filter(|(_, at)| (ROOM..=1.0 - ROOM).contains(at));
    let times = clock::together(&[*start_ns, placed.map_or(*start_ns, |(time_ns, _)| time_ns), *end_ns]);
    let onset = placed.map(|(_, at)| {
        let open = Html::figures(format!("<span class=\"at\" style=\"left:{}\">", percent(at)));
        Html::join([open, Html::text(&times[1]), Html::markup("</span>")])
    });
    element("p", "ends", &Html::join([text_element("span", "", &times[0]), onset.unwrap_or_default(), text_element("span", "", &times[2])]))
}

fn highest(points: &[(i64, f64)]) -> f64 {
    points.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max)
}

/// Sorted points as lines of at most two points per pixel column together, broken where points are missing.
fn reduce(points: &[(i64, f64)], frame: &Frame) -> Vec<Vec<(i64, f64)>> {
    let mut lines: Vec<Vec<(i64, f64)>> = Vec::new();
    let longest_ns = usual_step_ns(points).saturating_mul(GAP);
    let mut rest = points;
    let mut before_ns: Option<i64> = None;
    while let Some((time_ns, _)) = rest.first() {
        let column = column(*time_ns, frame);
        let length = rest.partition_point(|(time_ns, _)| self::column(*time_ns, frame) <= column);
        let (here, behind) = rest.split_at(length);
        let broken = before_ns.is_none_or(|before_ns| time_ns.saturating_sub(before_ns) > longest_ns);
        if broken {
            lines.push(Vec::new());
        }
        if let Some(line) = lines.last_mut() {
            line.extend(extremes(here));
        }
        before_ns = here.last().map(|(time_ns, _)| *time_ns);
        rest = behind;
    }
    lines
}

fn column(time_ns: i64, frame: &Frame) -> i128 {
    ((i128::from(time_ns) - i128::from(frame.start_ns)) * COLUMNS / frame.span_ns).min(COLUMNS - 1)
}

/// The lowest and the highest point in their order; one where they are the same.
fn extremes(points: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let by_value = |left: &&(i64, f64), right: &&(i64, f64)| left.1.total_cmp(&right.1);
    let (Some(low), Some(high)) = (points.iter().min_by(by_value), points.iter().max_by(by_value)) else { return vec![] };
    let mut kept = vec![*low, *high];
    kept.sort_by_key(|(time_ns, _)| *time_ns);
    kept.dedup();
    kept
}

/// Median distance of neighboring points.
fn usual_step_ns(points: &[(i64, f64)]) -> i64 {
    let mut steps_ns: Vec<i64> = points.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    if steps_ns.is_empty() {
        return i64::MAX;
    }
    let middle = steps_ns.len() / 2;
    (*steps_ns.select_nth_unstable(middle).1).max(1)
}

/// A line and the area under it.
fn draw(points: &[(i64, f64)], frame: &Frame) -> String {
    let place = |(time_ns, value): &(i64, f64)| format!("{:.1},{:.1}", frame.across(*time_ns) * COLUMNS as f64, frame.down(*value));
    let line = points.iter().map(place).collect::<Vec<_>>().join(" ");
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let across = |time_ns: i64| frame.across(time_ns) * COLUMNS as f64;
    let floor = frame.down(frame.low.max(0.0));
    if points.len() == 1 {
        return format!("<path class=\"line\" d=\"M{line} h0.6\"/>");
    }
    format!(
        "<polygon class=\"area\" points=\"{:.1},{floor:.1} {line} {:.1},{floor:.1}\"/><polyline class=\"line\" points=\"{line}\"/>",
        across(first.0),
        across(last.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(points: &[(i64, f64)]) -> Vec<Vec<(i64, f64)>> {
        reduce(points, &Frame::of(points, None).unwrap())
    }

    #[test]
    fn a_million_points_become_six_hundred_and_keep_the_spike() {
        let mut points: Vec<(i64, f64)> = (0..1_000_000).map(|at| (at * 1_000_000, (at % 7) as f64)).collect();
        points[613_377].1 = 1e6;
        let lines = kept(&points);
        let all: Vec<_> = lines.iter().flatten().collect();
        assert_eq!(lines.len(), 1);
        assert!(all.len() <= 600, "{} points", all.len());
        assert!(all.contains(&&(613_377_000_000, 1e6)));
        assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn missing_scrapes_break_the_line() {
        let points: Vec<(i64, f64)> = (0..20).chain(60..80).map(|at| (at * 1_000_000_000, 1.0)).collect();
        let lines = kept(&points);
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20]);
    }

    #[test]
    fn odd_curves_are_drawn_or_left_out_without_panic() {
        let curve =
            |points: Vec<(i64, f64)>| Curve { title: "<b>".into(), unit: "s".into(), points, threshold: Some(f64::NAN), mark_onset: true };
        assert!(chart(&curve(vec![]), Some(0)).is_none());
        assert!(chart(&curve(vec![(1, f64::NAN), (2, f64::INFINITY)]), None).is_none());
        for points in [vec![(5, 1.0)], vec![(i64::MIN, -1.0), (i64::MAX, 1e299)], vec![(7, 0.0), (7, 0.0)], vec![(9, 1.0), (3, 2.0)]] {
            let svg = chart(&curve(points), Some(i64::MAX)).unwrap();
            assert!(!svg.as_str().contains("NaN") && !svg.as_str().contains("inf") && !svg.as_str().contains("<b>"), "{}", svg.as_str());
        }
    }
}
