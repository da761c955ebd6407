//! One round of the loop as text: both runs side by side, the change, then the diagnosis and the verification as their own
//! views show them.

use analysis::contract::Status;
use analysis::round::{Round, RoundEnd, RoundLoad, RoundRun};

use super::terminal::screen::{Screen, Style};
use super::terminal::{self, TerminalOptions};
use super::verify;
use crate::{clean, figures, phrases};

/// A round on a terminal.
pub fn render(round: &Round, options: TerminalOptions) -> String {
    let mut text = titled("BEFORE", &round.before, options);
    text.push('\n');
    text.push_str(&terminal::render(&round.before.report, options));
    text.push('\n');
    text.push_str(&change(round, options));
    if let Some(after) = &round.after {
        text.push('\n');
        text.push_str(&titled("AFTER", after, options));
        text.push_str(&verdict_line(after, options));
        text.push('\n');
        text.push_str(&side_by_side(&round.before.load, &after.load, options));
    }
    if let Some(verification) = &round.verification {
        text.push('\n');
        text.push_str(&verify::render(verification, options));
    }
    text.push('\n');
    text.push_str(&places(round, options));
    text
}

fn titled(title: &str, run: &RoundRun, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    let load = &run.load;
    let failed = if load.failed > 0 { format!(", {} failed", load.failed) } else { String::new() };
    let what = format!("{} of {} requests answered{failed}; ready after {}", load.completed, load.sent, figures::seconds(run.ready_s));
    screen.row(&[(title, Style::Strong), ("  ", Style::Plain), (&what, Style::Plain)]);
    screen.command("run", &clean::line(&run.command));
    if load.simulated {
        screen.text("The server is simulated: its figures are no measurement of an engine.", Style::Doubt);
    }
    if !load.client_limited.is_empty() {
        let why = clean::short(&load.client_limited.join("; "), phrases::SENTENCE_LIMIT);
        screen.text(&format!("Client-limited: {why}; its times say more about the client than about the server."), Style::Doubt);
    }
    screen.finish()
}

fn verdict_line(run: &RoundRun, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    let headline = phrases::headline(&run.report);
    let style = match run.report.verdict.status {
        Status::Localized => Style::Bad,
        Status::Healthy => Style::Good,
        Status::InsufficientEvidence => Style::Doubt,
    };
    screen.row(&[("now ", Style::Plain), (&headline.word, style), ("  ", Style::Plain), (&headline.name, Style::Strong)]);
    screen.finish()
}

fn change(round: &Round, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    for why in &round.passed_over {
        screen.remark(0, &phrases::sentence(&clean::short(why, phrases::PHRASE_LIMIT)));
    }
    match (&round.change, round.ended) {
        (Some(change), end) => {
            let by = match change.hypothesis.as_str() {
                "none" => "as asked for".to_owned(),
                id => format!("hypothesis {}", clean::name(id, 20)),
            };
            let instruction = clean::short(&change.instruction, phrases::PHRASE_LIMIT);
            screen.row(&[("CHANGE", Style::Strong), ("  ", Style::Plain), (&format!("{instruction}   ({by})"), Style::Plain)]);
            screen.command("run", &clean::line(&change.command));
            if end == RoundEnd::NotAgreed {
                screen.text("Not made: nobody agreed to it; --yes does.", Style::Doubt);
            }
        }
        (None, _) => screen.text("No change of the command line is proposed: the loop ends here.", Style::Plain),
    }
    screen.finish()
}

/// The client's figures of both runs. They are not judged here: the verification says what moved beyond noise.
fn side_by_side(before: &RoundLoad, after: &RoundLoad, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    let seconds = |[mean, p99]: [f64; 2]| format!("{} (p99 {})", figures::seconds(mean), figures::seconds(p99));
    let rows = [
        ("TTFT", seconds(before.ttft_s), seconds(after.ttft_s)),
        ("TPOT", seconds(before.tpot_s), seconds(after.tpot_s)),
        ("whole", seconds(before.e2e_s), seconds(after.e2e_s)),
        ("requests/s", figures::number(before.requests_per_s), figures::number(after.requests_per_s)),
        ("tokens/s", figures::number(before.output_tokens_per_s), figures::number(after.output_tokens_per_s)),
    ];
    screen.row(&[(&format!("{:12}{:26}{}", "client", "before", "after"), Style::Faint)]);
    for (name, before, after) in rows {
        screen.row(&[(&format!("{name:12}{before:26}{after}"), Style::Plain)]);
    }
    screen.finish()
}

fn places(round: &Round, options: TerminalOptions) -> String {
    let mut screen = Screen::new(options);
    let before = clean::line(&round.before.evidence);
    match &round.after {
        Some(after) => screen.command("again", &format!("inferoscope verify {before} {}", clean::line(&after.evidence))),
        None => screen.command("again", &format!("inferoscope diagnose {before}")),
    }
    screen.finish()
}
