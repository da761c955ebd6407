//! Bars in SVG: parts of a whole, a value among limits, a movement. All positions are percentages of the width.

use super::build::{Html, attribute};
use crate::clean;

/// Share of the width below which a segment carries no label.
const LABELED: f64 = 0.2;

/// One segment of a stacked bar.
pub(super) struct Segment {
    /// Class that colors it.
    pub(super) class: &'static str,
    /// Share of the bar, 0 to 1.
    pub(super) share: f64,
    /// Label inside.
    pub(super) label: String,
    /// What a pointer resting on it shows.
    pub(super) hint: String,
}

/// A stacked bar that takes `full` of the width.
pub(super) fn stacked(segments: &[Segment], full: f64, description: &str) -> Html {
    let full = unit(full);
    let mut at = 0.0;
    let mut inner = String::new();
    for segment in segments {
        let width = (unit(segment.share) * full).min(1.0 - at);
        let label = if width >= LABELED { attribute(&clean::name(&segment.label, 24)) } else { String::new() };
        inner.extend([format!(
            "<svg x=\"{}\" width=\"{}\" height=\"38\"><title>{}</title><rect class=\"seg {}\" width=\"100%\" height=\"38\"/>\
             <text class=\"seg-label {}\" x=\"10\" y=\"24\">{label}</text></svg>",
            percent(at),
            percent(width),
            attribute(&segment.hint),
            segment.class,
            segment.class,
        )]);
        at += width;
    }
    Html::figures(format!(
        "<svg class=\"bar\" width=\"100%\" height=\"38\" role=\"img\" aria-label=\"{}\">{inner}</svg>",
        attribute(description)
    ))
}

/// A plain bar with an optional mark across it.
pub(super) fn gauge(class: &'static str, share: f64, mark: Option<f64>) -> Html {
    let mark = mark.map(|at| format!("<line class=\"mark\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"16\"/>", percent(unit(at))));
    Html::figures(format!(
        "<svg class=\"gauge\" width=\"100%\" height=\"16\" aria-hidden=\"true\"><rect class=\"track\" y=\"3\" width=\"100%\" height=\"10\" rx=\"2\"/>\
         <rect class=\"{class}\" y=\"3\" width=\"{}\" height=\"10\" rx=\"2\"/>{}</svg>",
        percent(unit(share)),
        mark.unwrap_or_default(),
    ))
}

/// A movement: a dot where the value stands, a bar over the interval it should reach, on a scale from 0.
pub(super) fn movement(from: Option<f64>, to: Option<[f64; 2]>) -> Html {
    let values = from.into_iter().chain(to.into_iter().flatten()).filter(|value| value.is_finite());
    let top = values.fold(0.0, f64::max) * 1.04;
    let (Some([low, high]), true) = (to, top > 0.0) else { return Html::default() };
    let at = |value: f64| unit(value / top);
    let (low, high) = (at(low), at(high));
    let (mut way, mut dot) = (String::new(), String::new());
    if let Some(from) = from.filter(|value| value.is_finite()).map(at) {
        let target = if from > high { high } else { low };
        way = format!("<line class=\"way\" x1=\"{}\" x2=\"{}\" y1=\"9\" y2=\"9\"/>", percent(from), percent(target));
        dot = format!("<circle class=\"now\" cx=\"{}\" cy=\"9\" r=\"4\"/>", percent(from));
    }
    Html::figures(format!(
        "<svg class=\"move\" width=\"100%\" height=\"18\" aria-hidden=\"true\"><line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"9\" y2=\"9\"/>{way}\
         <rect class=\"goal\" x=\"{}\" y=\"4\" width=\"{}\" height=\"10\" rx=\"2\"/>{dot}</svg>",
        percent(low),
        percent((high - low).max(0.012)),
    ))
}

/// Dots for a confidence: the five printed steps.
pub(super) fn confidence(value: f64) -> Html {
    let reached = [0.4, 0.6, 0.75, 0.9, 0.95].iter().filter(|step| value + 1e-9 >= **step).count();
    let dots =
        (0..5).map(|at| format!("<circle class=\"{}\" cx=\"{}\" cy=\"6\" r=\"5\"/>", if at < reached { "on" } else { "off" }, 6 + at * 15));
    Html::figures(format!("<svg class=\"dots\" width=\"72\" height=\"12\" aria-hidden=\"true\">{}</svg>", dots.collect::<String>()))
}

/// A finite share between 0 and 1.
fn unit(share: f64) -> f64 {
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
