//! An answer as typed, and whether it can be right.

use capture::signals::resolve;
use capture::units::{Unit, parse_quantity};

use super::{Kind, Question};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As typed: `2.5 s`, `yes`, `vllm`.
    Known(String),
    /// Not known.
    Unknown,
}

/// Reads what was typed; `-` is not known. The error says what was expected.
pub fn parse(question: &Question, typed: &str) -> Result<Answer, String> {
    let typed = typed.trim();
    if typed == "-" {
        return Ok(Answer::Unknown);
    }
    match question.kind {
        Kind::Quantity => quantity(question, typed),
        Kind::YesNo => match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" | "on" | "1" => Ok(Answer::Known("yes".into())),
            "n" | "no" | "false" | "off" | "0" => Ok(Answer::Known("no".into())),
            _ => Err(format!("expected yes or no, found `{typed}`")),
        },
        Kind::Choice(words) | Kind::Engine(words) | Kind::Changed(words) => {
            let number = typed.parse::<usize>().ok().and_then(|number| words.get(number.checked_sub(1)?));
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(typed)).or(number);
            word.map(|word| Answer::Known((*word).to_string()))
                .ok_or_else(|| format!("expected one of {}, found `{typed}`", words.join(", ")))
        }
    }
}

fn quantity(question: &Question, typed: &str) -> Result<Answer, String> {
    let unit = resolve(question.signal).map_or(Unit::Count, |resolved| resolved.unit());
    let read = parse_quantity(typed, unit).map_err(|error| format!("{error}, as in `{}`; `-` when it is not known", example(unit)))?;
    let needs_unit = matches!(unit, Unit::Second | Unit::Byte | Unit::BytePerSecond | Unit::Hertz);
    if needs_unit && !typed.ends_with(|last: char| last.is_alphabetic()) {
        return Err(format!("expected a unit, as in `{}`, found `{typed}`", example(unit)));
    }
    if !read.value.is_finite() || read.value < 0.0 {
        return Err(format!("expected zero or more, found `{typed}`"));
    }
    // A share of one core may pass one; every other ratio is a part of a whole.
    if unit == Unit::Ratio && read.value > 1.0 && question.signal != "client.cpu" {
        return Err(format!("expected 0 to 1 or percent, as in `{}`, found `{typed}`", example(unit)));
    }
    Ok(Answer::Known(typed.to_string()))
}

/// How a value of this unit is typed.
pub(super) fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "250 ms",
        Unit::Byte => "16 GB",
        Unit::BytePerSecond => "900 GB/s",
        Unit::Hertz => "1980 MHz",
        Unit::Ratio => "9 %",
        Unit::RequestPerSecond => "9.4 request/s",
        Unit::TokenPerSecond => "1200 token/s",
        _ => "32",
    }
}

/// A quantity in its base unit.
pub(super) fn base_value(question: &Question, typed: &str) -> Option<f64> {
    parse_quantity(typed, resolve(question.signal)?.unit()).ok().map(|quantity| quantity.value)
}

impl Question {
    /// What an answer looks like: `250 ms`, `yes or no`, or the words to choose from.
    pub fn expects(&self) -> String {
        match self.kind {
            Kind::Quantity => format!("as in {}", example(resolve(self.signal).map_or(Unit::Count, |resolved| resolved.unit()))),
            Kind::YesNo => "yes or no".into(),
            Kind::Choice(words) | Kind::Engine(words) | Kind::Changed(words) => words.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triage::{QUESTIONS, question};

    fn read(id: &str, typed: &str) -> Result<Answer, String> {
        parse(question(id).unwrap(), typed)
    }

    #[test]
    fn answers_carry_units_and_wrong_ones_say_what_was_expected() {
        assert_eq!(read("server_ttft", " 2.5 s"), Ok(Answer::Known("2.5 s".into())));
        assert_eq!(read("server_ttft", "-"), Ok(Answer::Unknown));
        assert_eq!(read("server_ttft", "2.5"), Err("expected a unit, as in `250 ms`, found `2.5`".into()));
        assert_eq!(read("kv_usage", "97"), Err("expected 0 to 1 or percent, as in `9 %`, found `97`".into()));
        assert!(read("server_ttft", "3 GB").unwrap_err().contains("expected a value in `s`"));
        assert!(read("server_ttft", "-3 s").is_err() && read("max_num_seqs", "many").is_err());
        assert_eq!(read("prefix_caching", "N"), Ok(Answer::Known("no".into())));
        assert_eq!(read("engine", "1"), Ok(Answer::Known("vllm".into())));
        assert!(read("engine", "9999999999").unwrap_err().starts_with("expected one of vllm"));
    }

    #[test]
    fn every_question_has_a_signal_of_its_kind_and_a_way_to_its_answer() {
        let mut ids = std::collections::BTreeSet::new();
        for question in QUESTIONS {
            assert!(ids.insert(question.id), "{} twice", question.id);
            assert!(question.text.ends_with('?') && !question.why.is_empty(), "{}", question.id);
            assert!(!question.how("an engine nobody knows").is_empty(), "{}: no way to the answer", question.id);
            let unit = resolve(question.signal).map(|resolved| resolved.unit());
            let fits = match question.kind {
                Kind::Quantity => unit.is_some_and(|unit| !matches!(unit, Unit::Text | Unit::Flag)),
                Kind::YesNo => unit == Some(Unit::Flag),
                Kind::Choice(_) => unit == Some(Unit::Text),
                Kind::Engine(_) | Kind::Changed(_) => question.signal.is_empty(),
            };
            assert!(fits, "{}: `{}` is {unit:?}", question.id, question.signal);
            if question.kind == Kind::Quantity {
                assert_eq!(parse(question, example(unit.unwrap())).map(|answer| answer != Answer::Unknown), Ok(true), "{}", question.id);
            }
        }
    }
}
