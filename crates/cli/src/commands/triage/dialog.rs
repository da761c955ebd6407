//! Asking a person, line by line: question out, answer in. The end of the input ends the questions.

use std::io::{BufRead as _, Read as _};

use analysis::triage::{Answer, ORDERS, Question, Triage, is_settled, parse};
use anyhow::Context as _;
use report::clean;

use super::{Ended, judge};
use crate::out;

/// Longest line that is read as an answer.
const MAX_LINE: u64 = 4096;

/// What a person said to a question.
enum Reply {
    Answer(Answer),
    Back,
    Done,
}

/// Asks until something is settled, everything is asked, or the person has had enough.
pub(super) fn walk(symptom: Option<&str>) -> anyhow::Result<Ended> {
    out::print("Answer with a number and its unit. `?` explains, `-` means not known, `back` goes back, `done` ends.\n\n")?;
    let chosen = match symptom {
        Some(symptom) => Triage::new(symptom),
        None => ask_symptom()?,
    };
    let Some(mut triage) = chosen else { return Ok(Ended { triage: None, told: String::new() }) };
    let mut is_told = false;
    while let Some(question) = triage.next() {
        let asked = triage.answers().len();
        out::print(&format!("[{}/{}] {} ({})\n", asked + 1, asked + triage.open().count(), question.text, question.expects()))?;
        match ask(question, triage.engine())? {
            Reply::Answer(answer) => {
                let says = answer != Answer::Unknown;
                triage.put(question, answer);
                if says && !is_told && is_settled(&judge(&triage)) {
                    is_told = true;
                    if !wants_more(&triage)? {
                        break;
                    }
                }
            }
            Reply::Back if triage.back().is_none() => out::print("This is the first question.\n")?,
            Reply::Back => {}
            Reply::Done => break,
        }
    }
    let told = not_known(&triage);
    Ok(Ended { triage: Some(triage), told })
}

/// The complaint, by number or id.
fn ask_symptom() -> anyhow::Result<Option<Triage>> {
    out::print("What is slow?\n")?;
    for (at, order) in ORDERS.iter().enumerate() {
        out::print(&format!("  {}  {} ({})\n", at + 1, order.words, order.symptom))?;
    }
    loop {
        let Some(line) = line()? else { return Ok(None) };
        let numbered = line.parse::<usize>().ok().and_then(|number| ORDERS.get(number.checked_sub(1)?)).map(|order| order.symptom);
        if let Some(triage) = Triage::new(numbered.unwrap_or(&line)) {
            out::print("\n")?;
            return Ok(Some(triage));
        }
        if line == "done" {
            return Ok(None);
        }
        out::print(&format!(
            "Expected a number from 1 to {} or the word in brackets, found `{}`\n",
            ORDERS.len(),
            clean::short(&line, 60)
        ))?;
    }
}

fn ask(question: &'static Question, engine: &str) -> anyhow::Result<Reply> {
    loop {
        let Some(line) = line()? else { return Ok(Reply::Done) };
        match line.as_str() {
            "back" => return Ok(Reply::Back),
            "done" => return Ok(Reply::Done),
            "?" => out::print(&format!("  why: {}\n  how: {}\n", question.why, question.how(engine)))?,
            "" => out::print("  `-` when it is not known, `?` for an explanation\n")?,
            typed => match parse(question, typed) {
                Ok(answer) => {
                    if answer == Answer::Unknown {
                        out::print(&format!("  to find out: {}\n", question.how(engine)))?;
                    }
                    return Ok(Reply::Answer(answer));
                }
                Err(why) => out::print(&format!("  {}\n", clean::line(&why)))?,
            },
        }
    }
}

/// Says what is settled, and whether to go on; more answers make it surer or prove it wrong.
fn wants_more(triage: &Triage) -> anyhow::Result<bool> {
    let report = judge(triage);
    let check = report.verdict.check.unwrap_or_default();
    let left = triage.open().count();
    if left == 0 {
        return Ok(false);
    }
    out::print(&format!("\nThat settles it: {check}. {left} questions are left; go on? (yes or no)\n"))?;
    Ok(line()?.is_some_and(|line| matches!(line.as_str(), "y" | "yes")))
}

/// The questions without an answer, and what obtains it.
fn not_known(triage: &Triage) -> String {
    let unknown: Vec<String> = triage
        .answers()
        .iter()
        .filter(|(_, answer)| *answer == Answer::Unknown)
        .map(|(question, _)| format!("  {}\n    {}\n", question.text, question.how(triage.engine())))
        .collect();
    if unknown.is_empty() { "\n".into() } else { format!("\nNot known, and how to find out:\n{}\n", unknown.concat()) }
}

/// One line without its end; `None` when the input has ended. A line too long to be an answer is cut.
fn line() -> anyhow::Result<Option<String>> {
    out::print("> ")?;
    let mut stdin = std::io::stdin().lock();
    let mut bytes = Vec::new();
    (&mut stdin).take(MAX_LINE).read_until(b'\n', &mut bytes).context("could not read from stdin")?;
    if bytes.is_empty() {
        out::print("\n")?;
        return Ok(None);
    }
    if bytes.last() != Some(&b'\n') {
        stdin.skip_until(b'\n').context("could not read from stdin")?;
    }
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_string()))
}
