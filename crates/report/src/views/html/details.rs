//! Below the charts: path, findings, unknown, cleared, trust, subject, issues.

use analysis::contract::{Finding, Report, Role};

use super::build::{Html, attribute, code, command, element, pairs, section, stacking, text_element};
use crate::{figures, phrases};

/// The questions asked, in order, with their answers.
pub(super) fn path(report: &Report) -> Html {
    let steps = report.path.iter().map(|step| {
        let class = match step.answer.as_str() {
            "cannot tell" => "answer doubt",
            _ => "answer",
        };
        let out = step.eliminates.map(|layer| format!("rules out {}", layer.as_str())).unwrap_or_default();
        let line =
            Html::join([text_element("span", "question", &step.question), Html::markup(" "), text_element("b", class, &step.answer)]);
        let under = Html::join([text_element("span", "", &step.because), Html::markup(" "), text_element("span", "out", &out)]);
        element("li", "", &Html::join([element("div", "", &line), element("div", "because", &under)]))
    });
    let steps = Html::join(steps);
    if steps.is_empty() { steps } else { section("Path", "each question rules something out", &element("ol", "path", &steps)) }
}

/// Every check that found something.
pub(super) fn findings(report: &Report) -> Html {
    section("Findings", "", &Html::join(report.findings.iter().map(finding)))
}

fn finding(finding: &Finding) -> Html {
    let tone = match finding.role {
        Role::Cause => "pill bad",
        Role::Contributes => "pill doubt",
        Role::TrueNotCause | Role::Limit | Role::Context => "pill none",
    };
    let title = Html::join([
        code(&finding.check),
        Html::markup(" "),
        text_element("span", tone, &phrases::role(finding)),
        Html::markup(" "),
        text_element("small", "", finding.layer.as_str()),
    ]);
    let rows = finding.evidence.iter().map(|evidence| {
        vec![signal(&evidence.signal), Html::text(&figures::quantity(evidence.value, &evidence.unit)), Html::text(&evidence.from)]
    });
    let cost = finding.cost.as_ref().map(|cost| figures::quantity(cost.value, &cost.unit)).unwrap_or_default();
    let owns = finding.explained_range.map(figures::share_range).unwrap_or_default();
    let inner = Html::join([
        element("h3", "", &title),
        text_element("p", "", &phrases::sentence(&finding.summary)),
        pairs("inline", &[("costs", Html::text(&cost)), ("owns", Html::text(&owns)), ("validated on", Html::text(&finding.provenance))]),
        stacking(&["evidence", "value >", "from"], rows.collect()),
    ]);
    element("article", "", &inner)
}

/// A signal's name; resting on it shows what it means.
fn signal(name: &str) -> Html {
    match capture::signals::resolve(name) {
        Some(resolved) => Html::join([
            Html::figures(format!("<code title=\"{}\">", attribute(resolved.signal.meaning))),
            Html::text(name),
            Html::markup("</code>"),
        ]),
        None => code(name),
    }
}

/// What could not be established, and what each recording would decide.
pub(super) fn unknown(report: &Report) -> Html {
    let not_established = report.subject.not_established.iter().map(|item| text_element("li", "", item));
    let list = Html::join(not_established);
    let list = if list.is_empty() { list } else { element("ul", "", &list) };
    let recordings = phrases::recordings(report).into_iter().map(|recording| {
        let rows = recording.decides.iter().map(|unknown| {
            let bound = match phrases::could_own(unknown) {
                bound if bound.is_empty() => "without a bound".to_owned(),
                bound => bound,
            };
            let missing = unknown.missing.iter().map(|name| Html::join([signal(name), Html::markup(" ")]));
            vec![code(&unknown.check), Html::text(&bound), Html::join(missing)]
        });
        let cost = if recording.cost.is_empty() { String::new() } else { format!("Recording costs {}:", recording.cost) };
        let inner = Html::join([
            stacking(&["cannot tell", "could own >", "needs"], rows.collect()),
            text_element("p", "aside", &cost),
            command(recording.command),
        ]);
        element("article", "", &inner)
    });
    section("Unknown", "and what it would cost to know", &Html::join([list].into_iter().chain(recordings)))
}

/// Checks that looked and found nothing.
pub(super) fn cleared(report: &Report) -> Html {
    let rows = report.cleared.iter().map(|cleared| {
        let margin = cleared.margin.iter().map(|(name, value)| format!("{name} {}", figures::number(*value)));
        vec![code(&cleared.check), Html::text(&cleared.because), Html::text(&margin.collect::<Vec<_>>().join(", "))]
    });
    section("Looked at and clear", "", &stacking(&["check", "because", "margin"], rows.collect()))
}

/// Why to believe it.
pub(super) fn trust(report: &Report) -> Html {
    let mut items = phrases::trust(report);
    if !report.verdict.confidence_because.is_empty() {
        items.push(format!("confidence {}: {}", phrases::confidence(report.verdict.confidence), report.verdict.confidence_because));
    }
    let items = Html::join(items.iter().map(|item| text_element("li", "", item)));
    if items.is_empty() { items } else { section("Trust", "", &element("ul", "", &items)) }
}

/// What was measured: process layout, settings, sources.
pub(super) fn subject(report: &Report) -> Html {
    let subject = &report.subject;
    let form = &subject.engine_form;
    let settings = subject.configuration.iter().map(|setting| vec![signal(&setting.key), code(&setting.value), Html::text(&setting.from)]);
    let sources = subject.sources.iter().map(|source| {
        let read = if source.damaged { text_element("span", "pill doubt", "in part") } else { Html::text("whole") };
        vec![code(&source.name), Html::text(&source.format), Html::text(&figures::count(source.rows)), read]
    });
    let inner = Html::join([
        pairs(
            "facts",
            &[
                ("engine", Html::text(&format!("{} {}", subject.engine, subject.engine_version))),
                ("model", Html::text(&subject.model)),
                ("devices", Html::text(&phrases::devices(report))),
                ("replicas", Html::text(&subject.replicas.join(", "))),
                ("processes", Html::text(&form.kind)),
                ("channel", Html::text(&form.message_channel)),
                ("process to sample", code(&form.scheduling_process)),
                ("sample it with", code(&form.sample_with)),
                ("measurable parts", Html::text(&form.segments.join("; "))),
                ("layout read from", Html::text(&form.from)),
                ("evidence", Html::text(&subject.provenance)),
            ],
        ),
        stacking(&["setting", "value", "from"], settings.collect()),
        stacking(&["source", "read as", "rows >", "read"], sources.collect()),
    ]);
    section("Subject", "", &inner)
}

/// What was lost or doubtful in the input, worst first.
pub(super) fn issues(report: &Report) -> Html {
    let rows = phrases::issues_by_severity(report).into_iter().map(|issue| {
        let tone = match issue.severity.as_str() {
            "error" => "pill bad",
            "warning" => "pill doubt",
            _ => "pill none",
        };
        vec![
            text_element("span", tone, &issue.severity),
            Html::text(&phrases::place(issue)),
            Html::text(&figures::quantity(issue.count as f64, "count")),
            Html::join([Html::text(&issue.sentence), Html::markup(" "), text_element("small", "", &issue.code)]),
        ]
    });
    section("Issues of the input", "worst first", &stacking(&["", "place", "count >", "what it means"], rows.collect()))
}

/// The next command, and which document this page shows.
pub(super) fn footer(report: &Report) -> Html {
    let next = command(&report.next);
    let next = if next.is_empty() { next } else { section("Next", "", &next) };
    Html::join([
        next,
        element(
            "footer",
            "",
            &Html::join([Html::markup("inferoscope, document "), Html::text(&report.schema), Html::markup(". Times are UTC.")]),
        ),
    ])
}
