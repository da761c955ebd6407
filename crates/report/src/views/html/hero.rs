//! The head of the page: verdict, sentence, caveats and the facts around them.

use analysis::contract::{Report, Status};

use super::bars;
use super::build::{Html, element, pairs, text_element};
use crate::{clean, figures, phrases};

pub(super) fn section(report: &Report) -> Html {
    let headline = phrases::headline(report);
    let meta = Html::join([text_element("span", "", &phrases::subject(report)), text_element("span", "", &phrases::window(report))]);
    let top = Html::join([element("span", "brand", &Html::markup("inferoscope")), element("span", "meta", &meta)]);
    let named = report.verdict.status == Status::Localized && report.verdict.check.is_some();
    let name = text_element(if named { "code" } else { "span" }, "", &headline.name);
    let sentence = phrases::sentence(&clean::short(&report.verdict.sentence, phrases::SENTENCE_LIMIT));
    let inner = Html::join([
        element("p", "top", &top),
        text_element("p", "layer", &headline.word),
        element("h1", "", &name),
        claim(report, &headline.claim),
        text_element("p", "sentence", &sentence),
        text_element("p", "since", &phrases::since(report)),
        Html::join(phrases::caveats(report).iter().map(|caveat| text_element("p", "caveat", caveat))),
        facts(report),
    ]);
    element("header", "hero", &inner)
}

/// How much it explains and how sure that is, drawn and in words.
fn claim(report: &Report, words: &str) -> Html {
    let verdict = &report.verdict;
    let mut drawn = Vec::new();
    if let Some(share) = verdict.explained {
        drawn.push(element("span", "meter", &bars::gauge("fill", share, None)));
    }
    drawn.push(text_element("span", "", words));
    if verdict.status != Status::InsufficientEvidence {
        drawn.push(bars::confidence(verdict.confidence));
    }
    if words.is_empty() { Html::default() } else { element("p", "claim", &Html::join(drawn)) }
}

/// Size, reference, loss and population of the symptom.
fn facts(report: &Report) -> Html {
    let symptom = &report.symptom;
    let size = symptom
        .size
        .as_ref()
        .map(|size| format!("{} {}", clean::name(&size.signal, phrases::NAME_LIMIT), figures::quantity(size.value, &size.unit)));
    let reference = symptom.reference.as_ref().map(|reference| {
        format!(
            "{} ({})",
            figures::quantity(reference.value, &reference.unit),
            clean::name(&reference.from, phrases::NAME_LIMIT).replace('_', " ")
        )
    });
    let loss = symptom.loss.as_ref().map(|loss| figures::quantity(loss.value, &loss.unit));
    let population = (symptom.population.n > 0).then(|| phrases::counted(report));
    let classes = report.classification.as_ref().map(|classes| {
        let [compute, memory, waiting] = [classes.compute, classes.memory, classes.waiting].map(figures::share);
        format!("{compute} compute, {memory} memory, {waiting} waiting")
    });
    let slo = report.slo.iter().map(|(signal, limit)| {
        let unit = capture::signals::resolve(signal).map_or("", |resolved| resolved.unit().as_str());
        format!("{} {}", clean::name(signal, phrases::NAME_LIMIT), figures::quantity(*limit, unit))
    });
    let text = |text: Option<String>| text.map(|text| Html::text(&text)).unwrap_or_default();
    pairs(
        "facts",
        &[
            ("measured", text(size)),
            ("against", text(reference)),
            ("lost", text(loss)),
            ("population", text(population)),
            ("limit asked for", Html::text(&slo.collect::<Vec<_>>().join(", "))),
            ("device time", text(classes)),
        ],
    )
}
