//! What to do, what to expect, when to undo it, and what the popular fixes would gain.

use analysis::contract::{Hypothesis, Report, Status};

use super::bars;
use super::build::{Html, code, command, element, pairs, section as titled, stacking, table, text_element};
use crate::{clean, figures, phrases};

/// The advice of a localized report, else the recording that decides most.
pub(super) fn section(report: &Report) -> Html {
    let hypotheses = phrases::cause(report).into_iter().flat_map(|cause| &cause.hypotheses).map(hypothesis);
    let mut cards: Vec<Html> = hypotheses.collect();
    if cards.is_empty() || report.verdict.check.is_none() {
        cards.extend(decisive(report));
    }
    let falsifier = match (report.verdict.falsified_by.as_str(), report.verdict.next_suspect.as_deref()) {
        ("", _) => Html::default(),
        (falsifier, next) => {
            let next = next.map(|next| Html::join([Html::markup(" Next suspect: "), code(next), Html::markup(".")])).unwrap_or_default();
            let falsifier = phrases::sentence(&clean::short(falsifier, phrases::PHRASE_LIMIT));
            element("p", "aside", &Html::join([Html::markup("What would prove this wrong: "), Html::text(&falsifier), next]))
        }
    };
    cards.push(falsifier);
    Html::join(cards)
}

fn hypothesis(advice: &Hypothesis) -> Html {
    let present = phrases::present(&advice.change);
    let remarks =
        [present, phrases::interruption(&advice.change)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    let rows = advice.predictions.iter().map(|prediction| {
        let words = phrases::predicted(prediction);
        let label = Html::join([Html::text(&words.label), Html::markup(" "), text_element("small", "", phrases::part(prediction))]);
        vec![
            label,
            Html::text(&words.from),
            element("div", "scale", &bars::movement(prediction.from, prediction.to)),
            Html::text(&words.to),
        ]
    });
    let throughput = match clean::short(&advice.throughput, phrases::PHRASE_LIMIT) {
        throughput if throughput.is_empty() => Html::default(),
        throughput => Html::text(&throughput),
    };
    let inner = Html::join([
        element("p", "kicker", &Html::join([Html::markup("Do "), text_element("span", "", &advice.id)])),
        element("p", "change", &code(&phrases::change(&advice.change))),
        text_element("p", "remarks", &phrases::sentence(&remarks)),
        table(&["expect", "now >", "", "after ="], rows.collect()),
        pairs(
            "terms",
            &[
                ("throughput", throughput),
                ("undo if", Html::text(&advice.undo_if)),
                ("risk", Html::text(&advice.risk)),
                ("rollback", code(&advice.rollback)),
                ("versions", code(&advice.change.valid_for)),
            ],
        ),
    ]);
    element("section", "card do", &inner)
}

/// The recording that would decide most, for a report that needs one.
fn decisive(report: &Report) -> Option<Html> {
    let needed = report.verdict.status == Status::InsufficientEvidence || report.verdict.status == Status::Localized;
    let decisive = phrases::decisive(report).filter(|_| needed)?;
    let bound = phrases::at_stake(report, decisive);
    let inner = Html::join([
        element("p", "kicker", &Html::markup("Record what decides most")),
        element("p", "change", &Html::join([code(&decisive.check)])),
        text_element("p", "remarks", &phrases::sentence(&bound)),
        command(&decisive.record_with),
        pairs("terms", &[("costs", Html::text(&decisive.record_cost)), ("records", Html::text(&decisive.missing.join(", ")))]),
    ]);
    Some(element("section", "card do", &inner))
}

/// The popular fixes with their predicted gain here.
pub(super) fn remedies(report: &Report) -> Html {
    let rows = report.futile.iter().map(|remedy| {
        let (class, words) = match remedy.verdict.as_str() {
            "first_choice" => ("pill good", "first choice"),
            "also_works" => ("pill plain", "works too"),
            "no_gain" => ("pill none", "no gain"),
            _ => ("pill doubt", "cannot tell"),
        };
        let gain = match remedy.gain_s {
            Some(0.0) => "none".to_owned(),
            Some(gain_s) => figures::seconds(gain_s),
            None => String::new(),
        };
        vec![
            Html::text(&remedy.fix),
            text_element("span", class, words),
            Html::text(&gain),
            Html::text(&remedy.price),
            Html::text(&remedy.because),
        ]
    });
    titled("Popular fixes, here", "", &stacking(&["fix", "", "gain per request >", "price", "because"], rows.collect()))
}
