//! Answers as an `observations.toml`, which the ordinary importer reads.

use super::{Answer, Arm, Kind, Question, Triage};

/// One of the two runs by itself; `None` when nothing about it was answered.
pub(super) fn alone(triage: &Triage, arm: Arm) -> Option<String> {
    let signals = signals(triage, arm);
    let is_now = arm == Arm::Now;
    (is_now || !signals.is_empty()).then(|| {
        let run = if is_now { now(triage) } else { "[[run]]\nname = \"before\"\n".to_string() };
        format!("{}\n{run}\n[run.signals]\n{signals}", head(triage))
    })
}

/// The file. A run `before` is written only when something about it was answered; it then comes first, as the baseline.
pub(super) fn write(triage: &Triage) -> String {
    let mut text = head(triage);
    let before = signals(triage, Arm::Before);
    if !before.is_empty() {
        text.push_str(&format!("\n[[run]]\nname = \"before\"\n\n[run.signals]\n{before}"));
    }
    text.push_str(&format!("\n{}\n[run.signals]\n{}", now(triage), signals(triage, Arm::Now)));
    text
}

fn head(triage: &Triage) -> String {
    let mut text = String::from("schema = \"inferoscope.observations/1\"\n");
    if !matches!(triage.engine(), "" | "other") {
        text.push_str(&format!("\n[subject]\nengine = {}\n", quoted(triage.engine())));
    }
    text.push_str(&format!("\n[complaint]\nsymptom = {}\n", quoted(triage.symptom())));
    text
}

fn now(triage: &Triage) -> String {
    let mut text = String::from("[[run]]\nname = \"now\"\n");
    if let Some((_, changed)) = known(triage).find(|(question, _)| matches!(question.kind, Kind::Changed(_))) {
        text.push_str(&format!("changed = {}\n", quoted(changed)));
    }
    text
}

fn known(triage: &Triage) -> impl Iterator<Item = (&'static Question, &str)> {
    triage.answers().iter().filter_map(|(question, answer)| match answer {
        Answer::Known(text) => Some((*question, text.as_str())),
        Answer::Unknown => None,
    })
}

fn signals(triage: &Triage, arm: Arm) -> String {
    let mut text = String::new();
    for (question, answer) in known(triage).filter(|(question, _)| question.arm == arm && !question.signal.is_empty()) {
        let value = match question.kind {
            Kind::YesNo => (answer == "yes").to_string(),
            _ => quoted(answer),
        };
        text.push_str(&format!("{} = {value}\n", quoted(question.signal)));
    }
    text
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::{parse, question};

    #[test]
    fn answers_are_written_as_a_person_would() {
        let mut triage = Triage::new("slower_after_feature").unwrap();
        for (id, typed) in [
            ("engine", "vllm"),
            ("changed", "speculation"),
            ("tpot_before", "20 ms"),
            ("server_tpot", "31 ms"),
            ("enforce_eager", "no"),
            ("draft_time", "-"),
        ] {
            triage.put(question(id).unwrap(), parse(question(id).unwrap(), typed).unwrap());
        }
        expect_test::expect![[r#"
            schema = "inferoscope.observations/1"

            [subject]
            engine = "vllm"

            [complaint]
            symptom = "slower_after_feature"

            [[run]]
            name = "before"

            [run.signals]
            "server.tpot.mean" = "20 ms"

            [[run]]
            name = "now"
            changed = "speculation"

            [run.signals]
            "server.tpot.mean" = "31 ms"
            "config.enforce_eager" = false
        "#]]
        .assert_eq(&triage.observations());
        assert_eq!(quoted("a\"b\\\n\u{7f}"), "\"a\\\"b\\\\\\u000A\\u007F\"");
    }
}
