//! A plan as text: the answer, what to do and what not to do, then the six steps, a line or two each.
//!
//! The first screen is for a glance; tables and all figures are in [`render_tables`] and in Markdown.

mod markdown;
mod tables;

use analysis::plan::document::{Action, Plan, PlanStatus, Predicted, Ranged, StepVerdict};

use super::terminal::TerminalOptions;
use super::terminal::screen::{Screen, Style};
use crate::{clean, figures, phrases};

pub use markdown::render as render_markdown;

/// Most actions of both kinds that the first screen shows, so that it stays one.
const ACTIONS: usize = 5;

/// Fewest of those against.
const AGAINST: usize = 2;

/// A plan on a terminal.
pub fn render(plan: &Plan, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    write_first(&mut screen, plan);
    screen.finish()
}

/// The first screen, then every step with its figures and tables, then what was assumed.
pub fn render_tables(plan: &Plan, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    write_first(&mut screen, plan);
    tables::write(&mut screen, plan);
    screen.finish()
}

fn write_first(screen: &mut Screen, plan: &Plan) {
    write_verdict(screen, plan);
    screen.blank();
    screen.labelled("load", &load(plan), Style::Plain);
    match (&plan.now, &plan.now_refused) {
        (Some(now), _) => screen.labelled("now", &now_words(now), Style::Plain),
        (None, Some(why)) => {
            screen.labelled("now", &format!("{}: {}", plan.subject.layout, clean::short(why, phrases::PHRASE_LIMIT)), Style::Plain);
        }
        (None, None) => {}
    }
    for (at, action) in plan.first.iter().enumerate() {
        write_action(screen, &format!("do {}", at + 1), action);
    }
    write_risks(screen, plan);
    write_against(screen, plan);
    if let Some(smallest) = &plan.smallest {
        screen.labelled("needs", &needs(plan, smallest.gpu_count, &smallest.layout), Style::Plain);
    }
    screen.blank();
    for (at, step) in plan.steps.iter().enumerate() {
        let label = format!("{} {}", at + 1, short_name(&step.step));
        screen.labelled(&label, &clean::short(&step.answer, phrases::SENTENCE_LIMIT), style(step.verdict));
    }
    screen.blank();
    screen.labelled("trust", &trust(plan), Style::Faint);
}

/// The word the screen starts with.
fn word(status: PlanStatus) -> (&'static str, Style) {
    match status {
        PlanStatus::KeptNow => ("KEPT AS IT IS", Style::Good),
        PlanStatus::KeptAfter => ("KEPT AFTER CHANGES", Style::Good),
        PlanStatus::NoLimits => ("PLAN", Style::Strong),
        PlanStatus::OutOfReach => ("OUT OF REACH", Style::Bad),
        PlanStatus::DoesNotFit => ("DOES NOT FIT", Style::Bad),
    }
}

fn write_verdict(screen: &mut Screen, plan: &Plan) {
    let (word, style) = word(plan.verdict.status);
    screen.row(&[(word, style), ("  ", Style::Plain), (&subject(plan), Style::Strong)]);
    screen.text(&phrases::sentence(&clean::short(&plan.verdict.sentence, phrases::SENTENCE_LIMIT)), Style::Plain);
}

/// `Llama-3-70B on 4 x A100 SXM4 80GB`.
fn subject(plan: &Plan) -> String {
    let subject = &plan.subject;
    let (model, gpu) = (clean::name(&subject.model, phrases::NAME_LIMIT), clean::name(&subject.gpu, phrases::NAME_LIMIT));
    format!("{model} on {} x {gpu}", subject.gpu_count)
}

/// The requests and the limits.
fn load(plan: &Plan) -> String {
    let workload = &plan.workload;
    let rate = workload.rate_per_s.map_or_else(|| "as many in flight as fit".to_owned(), |rate| figures::quantity(rate, "request/s"));
    let spread = |mean: f64, p: [f64; 3]| {
        let mean = figures::quantity(mean.round(), "token");
        if p[0] == p[2] { mean } else { format!("{mean} (p99 {})", figures::count(p[2] as u64)) }
    };
    let counted = if workload.request_count > 0 { format!(", {} requests", figures::count(workload.request_count)) } else { String::new() };
    let limits = if plan.goal.limits.is_empty() { "no limits".to_owned() } else { plan.goal.limits.join(", ") };
    format!(
        "{rate}, prompts {}, answers {} ({}{counted}); {limits}; {} first",
        spread(workload.prompt_tokens_mean, workload.prompt_tokens_p),
        spread(workload.output_tokens_mean, workload.output_tokens_p),
        clean::name(&workload.source, phrases::NAME_LIMIT),
        plan.goal.objective
    )
}

/// What runs now: layout, what binds, what it could serve and at what price.
fn now_words(now: &Predicted) -> String {
    let mut items =
        vec![now.layout.clone(), format!("mostly {}", now.binding), format!("TPOT bound {}", figures::seconds(now.tpot_bound_s))];
    items.push(format!("could serve {}", figures::quantity(now.capacity_per_s.mid, "request/s")));
    items.extend(now.goodput_per_s.map(|goodput| format!("goodput {}", with_range(goodput, "request/s"))));
    items.extend(now.cost_per_million_tokens.map(|cost| format!("USD {} per million tokens", figures::number(cost.mid))));
    items.join("; ")
}

fn write_action(screen: &mut Screen, label: &str, action: &Action) {
    let flag = action.flag.as_ref().map_or_else(String::new, |flag| format!(" ({})", clean::short(flag, phrases::PHRASE_LIMIT)));
    let text = format!("{}{flag}: {}", clean::short(&action.what, phrases::PHRASE_LIMIT), clean::short(&action.why, phrases::PHRASE_LIMIT));
    screen.labelled(label, &text, Style::Strong);
    if let Some(after) = &action.after {
        let moved = moved(action.before.as_ref(), after);
        screen.items("", moved.iter().map(String::as_str), "; ");
    }
}

/// Risks of what is to be done, each once.
fn write_risks(screen: &mut Screen, plan: &Plan) {
    let mut told: Vec<String> = Vec::new();
    for risk in plan.first.iter().filter_map(|action| action.risk.as_ref()) {
        let risk = clean::short(risk, phrases::PHRASE_LIMIT);
        if !told.contains(&risk) {
            told.push(risk);
        }
    }
    if !told.is_empty() {
        screen.labelled("risk", &told.join("; "), Style::Plain);
    }
}

/// `34.1 ms (18.0..64.4)`.
fn with_range(value: Ranged, unit: &str) -> String {
    let mid = figures::quantity(value.mid, unit);
    if value.low == value.high {
        return mid;
    }
    let range = figures::range([value.low, value.high], unit);
    let same = mid.split_once(' ').and_then(|(_, unit)| range.strip_suffix(unit)).map(str::trim_end);
    format!("{mid} ({})", same.unwrap_or(&range))
}

/// What moves, before and after, with ranges.
fn moved(before: Option<&Predicted>, after: &Predicted) -> Vec<String> {
    let one = |name: &str, unit: &str, before: Option<Ranged>, after: Option<Ranged>| {
        let after = after?;
        let Some(before) = before else { return Some(format!("{name} {}", with_range(after, unit))) };
        // In one unit, named once.
        let (from, to) = (figures::quantity(before.mid, unit), figures::quantity(after.mid, unit));
        let same = from.split_once(' ').zip(to.split_once(' ')).filter(|((_, from), (_, to))| from == to).map(|((number, _), _)| number);
        Some(format!("{name} {} -> {}", same.unwrap_or(&from), with_range(after, unit)))
    };
    let mut items = Vec::new();
    items.extend(one("TPOT", "s", before.map(|before| before.tpot_s), Some(after.tpot_s)));
    items.extend(one("TTFT", "s", before.and_then(|before| before.ttft_s), after.ttft_s));
    items.extend(one("up to", "request/s", before.map(|before| before.capacity_per_s), Some(after.capacity_per_s)));
    items.extend(one("goodput", "request/s", before.and_then(|before| before.goodput_per_s), after.goodput_per_s));
    if after.utilization.is_none() {
        items.extend(one("throughput", "token/s", before.map(|before| before.tokens_per_s), Some(after.tokens_per_s)));
    }
    let cost = |predicted: &Predicted| predicted.cost_per_million_tokens;
    items.extend(one("USD per million tokens", "count", before.and_then(cost), cost(after)));
    items
}

fn write_against(screen: &mut Screen, plan: &Plan) {
    let shown = ACTIONS.saturating_sub(plan.first.len()).clamp(AGAINST, AGAINST + 1);
    for (at, action) in plan.not.iter().take(shown).enumerate() {
        let text = format!("{}: {}", clean::short(&action.what, phrases::PHRASE_LIMIT), clean::short(&action.why, phrases::PHRASE_LIMIT));
        screen.labelled(if at == 0 { "do not" } else { "" }, &text, Style::Plain);
    }
    let more = plan.not.len().saturating_sub(shown);
    if more > 0 {
        screen.labelled("", &format!("and {more} more (--verbose)"), Style::Faint);
    }
}

/// How many devices would do.
fn needs(plan: &Plan, gpu_count: u32, layout: &str) -> String {
    let devices = if gpu_count == 1 { "1 GPU".to_owned() } else { format!("{gpu_count} GPUs") };
    let verdict = match gpu_count.cmp(&plan.subject.gpu_count) {
        std::cmp::Ordering::Less => "would do",
        std::cmp::Ordering::Equal => "is the fewest that does",
        std::cmp::Ordering::Greater => "would be needed",
    };
    let verdict = if gpu_count > 1 { verdict.replace("is the", "are the").replace("does", "do") } else { verdict.to_owned() };
    format!("{devices} {verdict} ({layout})")
}

/// A label of at most seven signs.
fn short_name(step: &str) -> &str {
    match step {
        "memory_footprint" => "fits",
        "prefix_structure" => "reuse",
        "batching" => "batch",
        "fragmentation" => "pages",
        "speculation" => "draft",
        "disaggregation" => "split",
        other => other,
    }
}

fn style(verdict: StepVerdict) -> Style {
    match verdict {
        StepVerdict::Do => Style::Strong,
        StepVerdict::CannotTell => Style::Doubt,
        StepVerdict::Fine | StepVerdict::DoNot => Style::Plain,
    }
}

/// What the figures rest on, in a line.
fn trust(plan: &Plan) -> String {
    let tier = plan.now.as_ref().or(plan.after.as_ref()).map_or("bound", |predicted| predicted.tier.as_str());
    let rests = match tier {
        "ratio" => "ratio to your measured TPOT",
        "calibrated" => "calibrated on published runs",
        _ => "bounds of the data sheet",
    };
    format!("{rests}; TTFT, goodput simulated; more: --verbose")
}
