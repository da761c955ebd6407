//! What several views say in the same words: the headline, when and for whom, what limits the trust, what a change is.
//!
//! Everything here is plain text, cleaned of control characters; a view adds its own markup and layout.

use analysis::contract::{Accounts, Change, Direction, Finding, Hypothesis, InputIssue, Prediction, Remedy, Report, Role, Status, Unknown};

use crate::{clean, clock, figures};

/// Characters of a sentence before it is cut.
pub(crate) const SENTENCE_LIMIT: usize = 600;
/// Characters of a phrase inside a line.
pub(crate) const PHRASE_LIMIT: usize = 240;
/// Characters of a name.
pub(crate) const NAME_LIMIT: usize = 60;
/// Rows of a table on a page; the document has them all.
pub(crate) const ROW_LIMIT: usize = 300;
/// Share of the loss from which a check matters.
const MATERIAL: f64 = 0.05;
/// Confidence from which the screen asks for no reason.
const HIGH_CONFIDENCE: f64 = 0.9;

/// The verdict in three parts.
#[derive(Clone, Debug)]
pub(crate) struct Headline {
    /// `SCHEDULING`, `HEALTHY`, `INSUFFICIENT EVIDENCE`.
    pub(crate) word: String,
    /// The failure mode, or what stands in its place.
    pub(crate) name: String,
    /// How much it explains and how sure that is.
    pub(crate) claim: String,
}

/// The verdict in one line.
pub(crate) fn headline(report: &Report) -> Headline {
    let verdict = &report.verdict;
    let confidence = format!("confidence {}", confidence(verdict.confidence));
    match verdict.status {
        Status::Localized => Headline {
            word: verdict.layer.map_or("LOCALIZED".to_owned(), |layer| layer.as_str().to_uppercase()),
            name: verdict.check.as_deref().map_or("failure mode not decided".to_owned(), |check| clean::name(check, NAME_LIMIT)),
            claim: format!("{}, {confidence}", explained(report)),
        },
        Status::Healthy => Headline { word: "HEALTHY".to_owned(), name: "nothing material is slow".to_owned(), claim: confidence },
        Status::InsufficientEvidence => {
            Headline { word: "INSUFFICIENT EVIDENCE".to_owned(), name: format!("no layer explains {}", noun(report)), claim: String::new() }
        }
    }
}

/// How a sentence calls the loss.
pub(crate) fn noun(report: &Report) -> String {
    match clean::short(&report.symptom.noun, NAME_LIMIT) {
        noun if noun.is_empty() => "the loss".to_owned(),
        noun => noun,
    }
}

/// `explains 97 % of the excess TTFT`; the interval instead where it is wider than a tenth.
fn explained(report: &Report) -> String {
    let share = match (report.verdict.explained, report.verdict.explained_range) {
        (_, Some([low, high])) if high - low > 0.1 => figures::share_range([low, high]),
        (Some(share), _) => figures::share(share),
        (None, Some(range)) => figures::share_range(range),
        (None, None) => return format!("its share of {} is not measurable here", noun(report)),
    };
    format!("explains {share} of {}", noun(report))
}

/// `0.9`, `0.75`.
pub(crate) fn confidence(value: f64) -> String {
    if !value.is_finite() {
        return figures::UNKNOWN.to_owned();
    }
    let text = format!("{value:.2}");
    text.strip_suffix('0').unwrap_or(&text).to_owned()
}

/// Since when, whether it is still so, on how many engines; empty when nothing of it is known.
pub(crate) fn since(report: &Report) -> String {
    let window = &report.window;
    let mut phrase = if clock::is_wall_time(window.start_ns) && window.end_ns >= window.start_ns {
        let from_ns = window.onset_ns.unwrap_or(window.start_ns);
        let times = clock::together(&[from_ns, window.end_ns]);
        let (from, end) = (&times[0], &times[1]);
        match (window.onset_ns, window.ongoing) {
            (Some(_), Some(true)) => format!("Since {from}, still so at {end}"),
            (Some(_), Some(false)) => format!("Began {from}, over by {end}"),
            (Some(_), None) => format!("Since {from}"),
            (None, Some(true)) if report.verdict.status == Status::Localized => format!("All of {from} to {end}"),
            (None, Some(false)) => format!("{from} to {end}, over at the end"),
            (None, _) => format!("{from} to {end}"),
        }
    } else {
        String::new()
    };
    if window.engines > 0 {
        let counted = match report.verdict.status {
            Status::Localized if window.affected > 0 => format!("{} of {}", window.affected, window.engines),
            _ => window.engines.to_string(),
        };
        let engines = format!("{counted} {}", if window.engines == 1 { "engine" } else { "engines" });
        phrase = if phrase.is_empty() { engines } else { format!("{phrase}; {engines}") };
    }
    let rule = clean::short(&report.symptom.population.rule, NAME_LIMIT);
    if !matches!(rule.as_str(), "" | "all") && !phrase.is_empty() {
        phrase = format!("{phrase}; {rule}");
    }
    if phrase.is_empty() { phrase } else { format!("{phrase}.") }
}

/// What a reader must know before believing the verdict: simulated or typed evidence, an unvalidated check, why the confidence is low.
pub(crate) fn caveats(report: &Report) -> Vec<String> {
    let mut caveats = Vec::new();
    match report.subject.provenance.as_str() {
        "simulated" => caveats.push("Simulated evidence: an engine model made these figures, no hardware did.".to_owned()),
        "typed" => caveats.push("Typed evidence: the figures were entered by hand, nothing was measured here.".to_owned()),
        "report" => caveats.push("Reported evidence: the figures come from a published report.".to_owned()),
        _ => {}
    }
    let localized = report.verdict.status == Status::Localized;
    match cause(report).map(|finding| finding.provenance.as_str()) {
        Some("simulated") if localized => caveats.push("This check is validated on simulated evidence only.".to_owned()),
        Some("typed") if localized => caveats.push("Unvalidated: only typed evidence has ever exercised this check.".to_owned()),
        _ => {}
    }
    let because = clean::short(&report.verdict.confidence_because, PHRASE_LIMIT);
    if report.verdict.confidence < HIGH_CONFIDENCE && !because.is_empty() && report.verdict.status != Status::InsufficientEvidence {
        caveats.push(format!("Confidence {}: {}", confidence(report.verdict.confidence), sentence(&because)));
    }
    caveats
}

/// Ends a phrase with a full stop.
pub(crate) fn sentence(phrase: &str) -> String {
    if phrase.is_empty() || phrase.ends_with(['.', '!', '?']) { phrase.to_owned() } else { format!("{phrase}.") }
}

/// The finding the verdict names, or the first cause of the verdict's layer.
pub(crate) fn cause(report: &Report) -> Option<&Finding> {
    let verdict = &report.verdict;
    match &verdict.check {
        Some(check) => report.findings.iter().find(|finding| &finding.check == check),
        None => report.findings.iter().find(|finding| finding.role == Role::Cause && Some(finding.layer) == verdict.layer),
    }
}

/// The first advice of the cause, where there is one.
pub(crate) fn advice(report: &Report) -> Option<&Hypothesis> {
    cause(report).and_then(|finding| finding.hypotheses.first()).filter(|_| report.verdict.status == Status::Localized)
}

/// The change itself: `--max-num-seqs 64`.
pub(crate) fn change(change: &Change) -> String {
    let instruction = if change.instruction.is_empty() { format!("{} {}", change.flag, change.to) } else { change.instruction.clone() };
    clean::short(&instruction, PHRASE_LIMIT)
}

/// Where it stands now: `now 32, start-up dump`; empty when unknown.
pub(crate) fn present(change: &Change) -> String {
    let (from, source) = (clean::name(&change.from, NAME_LIMIT), clean::short(&change.from_source, NAME_LIMIT));
    match (from.is_empty(), source.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("now {from}"),
        (false, false) => format!("now {from}, {source}"),
    }
}

/// What it takes: `restart, 74 s to reload`; empty when unknown.
pub(crate) fn interruption(change: &Change) -> String {
    let needs = match change.needs.as_str() {
        "none" => "no restart".to_owned(),
        needs => clean::short(needs, NAME_LIMIT),
    };
    let reload = change.reload_s.map(|reload_s| format!("{} to reload", figures::duration(reload_s)));
    [needs, reload.unwrap_or_default()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// A prediction in words.
#[derive(Clone, Debug)]
pub(crate) struct Predicted {
    /// `TTFT mean`.
    pub(crate) label: String,
    /// Value now; empty when not measured.
    pub(crate) from: String,
    /// Best figure with its interval, the interval alone, or the direction after.
    pub(crate) to: String,
}

/// The words for a prediction: an interval where there is one, the direction where not.
pub(crate) fn predicted(prediction: &Prediction) -> Predicted {
    let label = if prediction.label.is_empty() { &prediction.signal } else { &prediction.label };
    let moved = figures::movement(prediction.from, prediction.to, &prediction.unit);
    let to = match (&moved.to, prediction.direction, prediction.to) {
        (None, Direction::Down, _) => "falls".to_owned(),
        (None, Direction::Up, _) => "rises".to_owned(),
        (None, Direction::Unchanged, _) => "unchanged".to_owned(),
        (Some(_), Direction::Up, Some([_, high])) if moved.from.is_none() => format!("up to {}", figures::upper(high, &prediction.unit)),
        (Some(to), _, _) => match prediction.from.zip(prediction.expected) {
            Some((from, expected)) => format!("{} ({to})", figures::quantity(from * expected.mid, &prediction.unit)),
            None => to.clone(),
        },
    };
    Predicted { label: clean::name(label, NAME_LIMIT), from: moved.from.unwrap_or_default(), to }
}

/// What a prediction is to the change: the one that decides, a guard that must hold, or neither (empty).
pub(crate) fn part(prediction: &Prediction) -> &'static str {
    match (prediction.primary, prediction.guard) {
        (true, _) => "decides",
        (false, true) => "guard",
        (false, false) => "",
    }
}

/// What a finding is to the symptom, in words.
pub(crate) fn role(finding: &Finding) -> String {
    match (finding.role, finding.explained) {
        (Role::Cause, Some(share)) => format!("the cause, {}", figures::share(share)),
        (Role::Cause, None) => "the cause".to_owned(),
        (Role::Contributes, Some(share)) => format!("contributes {}", figures::share(share)),
        (Role::Contributes, None) => "contributes".to_owned(),
        (Role::TrueNotCause, _) => "true, not the cause".to_owned(),
        (Role::Limit, _) => "a limit, not a fault".to_owned(),
        (Role::Context, _) => "context".to_owned(),
    }
}

/// What stands under a table that was cut; empty where it was not.
pub(crate) fn more_rows(more: usize) -> String {
    if more == 0 { String::new() } else { format!("{} more rows in the JSON document", figures::count(more as u64)) }
}

/// Fixes of one verdict, in the order given.
pub(crate) fn remedies<'a>(report: &'a Report, verdict: &str) -> Vec<&'a Remedy> {
    report.futile.iter().filter(|remedy| remedy.verdict == verdict).collect()
}

/// Requests per second as offered, else as counted over the window; empty when neither is known.
pub(crate) fn present_rate(report: &Report) -> Option<f64> {
    if report.accounts.arrivals_per_s.is_some() {
        return report.accounts.arrivals_per_s;
    }
    let window_s = window_s(report)?;
    (report.accounts.request_count > 0).then(|| report.accounts.request_count as f64 / window_s)
}

/// The window with its date: `2026-07-14 02:48Z to 02:58Z, 10 min`; empty when no source carries times.
pub(crate) fn window(report: &Report) -> String {
    let window = &report.window;
    let length = window_s(report).map(figures::duration);
    if !clock::is_wall_time(window.start_ns) {
        return length.unwrap_or_default();
    }
    let length = length.map(|length| format!(", {length}")).unwrap_or_default();
    format!("{}{length}", clock::dated_span(window.start_ns, window.end_ns))
}

/// Length of the window in seconds, where it has one.
pub(crate) fn window_s(report: &Report) -> Option<f64> {
    let length_ns = report.window.end_ns.checked_sub(report.window.start_ns)?;
    (length_ns > 0).then_some(length_ns as f64 / 1e9)
}

/// Checks that could not tell: what could own most first, those without a bound last.
pub(crate) fn unknown_by_size(report: &Report) -> Vec<&Unknown> {
    let size = |unknown: &Unknown| {
        let amount = unknown.could_own.as_ref().map(|amount| amount.value);
        (unknown.could_own_share.or(amount.map(|_| 0.0)).unwrap_or(-1.0), amount.unwrap_or(0.0))
    };
    let mut sorted: Vec<&Unknown> = report.unknown.iter().collect();
    sorted.sort_by(|left, right| {
        let (left, right) = (size(left), size(right));
        right.0.total_cmp(&left.0).then(right.1.total_cmp(&left.1))
    });
    sorted
}

/// The check whose recording would decide most, among those that say how to record it: the largest material one, else one that
/// nothing bounds, else the largest.
pub(crate) fn decisive(report: &Report) -> Option<&Unknown> {
    let recordable: Vec<&Unknown> = unknown_by_size(report).into_iter().filter(|unknown| !unknown.record_with.is_empty()).collect();
    let material = |unknown: &&Unknown| unknown.could_own_share.is_some_and(|share| share >= MATERIAL);
    let unbounded = |unknown: &&Unknown| unknown.could_own_share.is_none() && unknown.could_own.is_none();
    let found = recordable.iter().copied().find(|unknown| material(unknown));
    found.or_else(|| recordable.iter().copied().find(|unknown| unbounded(unknown))).or(recordable.first().copied())
}

/// One recording, and the checks it would decide.
pub(crate) struct Recording<'a> {
    /// The command; empty when none is known.
    pub(crate) command: &'a str,
    /// What it costs.
    pub(crate) cost: &'a str,
    /// Checks, what could own most first.
    pub(crate) decides: Vec<&'a Unknown>,
}

/// The checks that could not tell, by the recording they need: one command often decides several. The cost is that of the first.
pub(crate) fn recordings(report: &Report) -> Vec<Recording<'_>> {
    let mut recordings: Vec<Recording<'_>> = Vec::new();
    for unknown in unknown_by_size(report) {
        match recordings.iter_mut().find(|recording| recording.command == unknown.record_with) {
            Some(recording) => recording.decides.push(unknown),
            None => recordings.push(Recording { command: &unknown.record_with, cost: &unknown.record_cost, decides: vec![unknown] }),
        }
    }
    recordings
}

/// Whether a finding competes for a verdict that names a layer only.
pub(crate) fn is_candidate(report: &Report, finding: &Finding) -> bool {
    let verdict = &report.verdict;
    verdict.status == Status::Localized && verdict.check.is_none() && Some(finding.layer) == verdict.layer
}

/// How many the symptom is about: `220 requests`, `6 steps on devices`, `1 device`.
pub(crate) fn counted(report: &Report) -> String {
    let n = report.symptom.population.n;
    let has_steps = report.accounts.device.iter().flat_map(|device| &device.steps).any(|phase| phase.steps > 0);
    let (one, many) = match report.accounts.vantage.as_str() {
        "device" if has_steps => ("step on a device", "steps on devices"),
        "device" => ("device", "devices"),
        _ => ("request", "requests"),
    };
    format!("{} {}", figures::count(n), if n == 1 { one } else { many })
}

/// What a recording would settle: the most the check could own of the loss, or of recorded devices whether computing itself
/// could be faster.
pub(crate) fn at_stake(report: &Report, unknown: &Unknown) -> String {
    let owns_nothing = unknown.could_own_share.or(unknown.could_own.as_ref().map(|amount| amount.value)).is_some_and(|most| most < 5e-4);
    if owns_nothing && report.accounts.vantage == "device" {
        return "tells whether computing itself could be faster".to_owned();
    }
    match could_own(unknown) {
        bound if bound.is_empty() => "nothing bounds what it owns".to_owned(),
        bound => format!("could own {bound} of {}", noun(report)),
    }
}

/// Most a check that could not tell could still own: `0.08 s, 3 %`; empty when nothing bounds it.
pub(crate) fn could_own(unknown: &Unknown) -> String {
    let amount = unknown.could_own.as_ref().map(|amount| figures::quantity(amount.value, &amount.unit));
    let share = unknown.could_own_share.map(figures::share);
    [amount, share].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Why to believe the report, item by item.
pub(crate) fn trust(report: &Report) -> Vec<String> {
    let trust = &report.trust;
    let mut items = Vec::new();
    if let Some(gap) = trust.little_gap {
        items.push(match trust.little_tolerance {
            Some(allowed) if gap.abs() > allowed => {
                format!("Little's law is off by {}, {} allowed", figures::fine_share(gap.abs()), figures::fine_share(allowed))
            }
            _ => format!("Little's law closes to {}", figures::fine_share(gap.abs())),
        });
    }
    if let Some([read, expected]) = trust.scrapes {
        items.push(format!("{} of {} scrapes", figures::count(read), figures::count(expected)));
    }
    match trust.counter_resets {
        0 if trust.scrapes.is_some() => items.push("no counter reset".to_owned()),
        0 => {}
        1 => items.push("1 counter reset".to_owned()),
        resets => items.push(format!("{} counter resets", figures::count(resets))),
    }
    if let Some(error_ns) = trust.clock_error_ns {
        items.push(format!("clocks joined within {}", figures::nanoseconds(error_ns)));
    }
    items.extend(trust.remarks.iter().map(|remark| clean::short(remark, PHRASE_LIMIT)));
    items
}

/// Issues, worst first.
pub(crate) fn issues_by_severity(report: &Report) -> Vec<&InputIssue> {
    let rank = |issue: &InputIssue| match issue.severity.as_str() {
        "error" => 0,
        "warning" => 1,
        _ => 2,
    };
    let mut sorted: Vec<&InputIssue> = report.issues.iter().collect();
    sorted.sort_by_key(|issue| (rank(issue), std::cmp::Reverse(issue.count)));
    sorted
}

/// Where an issue is: `engine.log, line 120`.
pub(crate) fn place(issue: &InputIssue) -> String {
    let (source, place) = (clean::name(&issue.source, NAME_LIMIT), clean::short(&issue.place, NAME_LIMIT));
    [source, place].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `8 x NVIDIA H100`; empty when unknown.
pub(crate) fn devices(report: &Report) -> String {
    match (report.subject.gpu_count, clean::name(&report.subject.gpu, NAME_LIMIT)) {
        (_, gpu) if gpu.is_empty() => String::new(),
        (0 | 1, gpu) => gpu,
        (gpu_count, gpu) => format!("{gpu_count} x {gpu}"),
    }
}

/// What was measured, as far as it is known: `vllm 0.33.0, model, 8 x NVIDIA H100`.
pub(crate) fn subject(report: &Report) -> String {
    let subject = &report.subject;
    let engine = format!("{} {}", clean::name(&subject.engine, NAME_LIMIT), clean::name(&subject.engine_version, NAME_LIMIT));
    let parts = [engine.trim().to_owned(), clean::name(&subject.model, NAME_LIMIT), devices(report)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Whose time an account shows: `mean of 220 requests`, or the one typical case that somebody typed.
pub(crate) fn population(accounts: &Accounts) -> String {
    if accounts.vantage == "typed" {
        "one typical case".to_owned()
    } else {
        format!("mean of {} requests", figures::count(accounts.request_count))
    }
}

/// Where an account was taken: `seen at the client`, `as typed`; empty when not known.
pub(crate) fn seen(accounts: &Accounts) -> String {
    match accounts.vantage.as_str() {
        "" => String::new(),
        "typed" => "as typed".to_owned(),
        vantage => format!("seen at the {}", clean::name(vantage, NAME_LIMIT)),
    }
}
