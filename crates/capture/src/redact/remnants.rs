//! What stays of a text that is not shown: words of the published vocabulary and sizes, so that verdicts stay the same.
//!
//! A kept piece is made of vocabulary only, and pieces are joined by `;`, which no word contains: nothing that was not in
//! the text can be read out of what is left of it.

use super::{Redaction, words};

/// Parts of a text, in its order.
enum Part<'t> {
    /// Made of vocabulary alone.
    Known(&'t str),
    /// Anything else.
    Other(&'t str),
}

/// A hash, then the vocabulary in the text.
pub(super) fn named(text: &str, redaction: &Redaction<'_>) -> String {
    let mut pieces = vec![redaction.hash(text)];
    pieces.extend(known(text, words::VOCABULARY).map(str::to_string));
    pieces.join(";")
}

/// The vocabulary in a text alone.
pub(super) fn words_of(text: &str) -> String {
    known(text, words::VOCABULARY).collect::<Vec<_>>().join(";")
}

/// What differs between two runs, in vocabulary. A run that is of another machine or model keeps that, and hashes by which
/// runs of the same one are known.
pub(super) fn changed(text: &str, redaction: &Redaction<'_>) -> String {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let Some(beginning) = words::ELSEWHERE.iter().find(|beginning| lower.starts_with(**beginning)) else {
        return words_of(text);
    };
    let mut pieces: Vec<String> = Vec::new();
    for part in parts(&text[beginning.len()..], words::VOCABULARY) {
        match part {
            Part::Known(piece) => pieces.push(piece.to_string()),
            Part::Other(gap) => {
                let spoken = gap.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
                pieces.extend(spoken.map(|word| redaction.hash(word)));
            }
        }
    }
    format!("{beginning}{}", pieces.join(";"))
}

/// The public name of a model or a number in its place, then what its name says of size and number format: `122B-A10B FP8`.
pub(super) fn model(name: &str, redaction: &Redaction<'_>) -> String {
    if name.is_empty() {
        return String::new();
    }
    let mut shown = (redaction.model)(name).unwrap_or_else(|| format!("m-{}", redaction.number(name)));
    let said = shown.to_ascii_lowercase();
    let is_new = |piece: &&str| !said.contains(&piece.to_ascii_lowercase());
    for size in name_words(name).filter(|word| is_size(word)).filter(is_new) {
        shown.push(if size.starts_with(['a', 'A']) { '-' } else { ' ' });
        shown.push_str(size);
    }
    for piece in known(name, words::MODEL_WORDS).filter(is_new) {
        shown.push(' ');
        shown.push_str(piece);
    }
    shown
}

fn name_words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
}

/// `70B`, `0.6b`, `A12B`; no model has a longer one.
fn is_size(word: &str) -> bool {
    let digits = word.strip_prefix(['a', 'A']).unwrap_or(word).strip_suffix(['b', 'B']).unwrap_or_default();
    (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && digits.parse::<f64>().is_ok()
}

fn known<'t>(text: &'t str, vocabulary: &[&str]) -> impl Iterator<Item = &'t str> {
    parts(text, vocabulary).into_iter().filter_map(|part| match part {
        Part::Known(piece) => Some(piece),
        Part::Other(_) => None,
    })
}

/// Splits a text at the vocabulary; words that overlap or touch are one piece, so that each is still found in it.
fn parts<'t>(text: &'t str, vocabulary: &[&str]) -> Vec<Part<'t>> {
    let lower = text.to_ascii_lowercase();
    let mut spans: Vec<(usize, usize)> =
        vocabulary.iter().flat_map(|word| lower.match_indices(word).map(|(at, _)| (at, at + word.len()))).collect();
    spans.sort_unstable();
    let mut found = Vec::new();
    let mut end = 0;
    let mut spans = spans.into_iter().peekable();
    while let Some((from, mut to)) = spans.next() {
        while let Some((_, further)) = spans.next_if(|(next, _)| *next <= to) {
            to = to.max(further);
        }
        if from > end {
            found.push(Part::Other(&text[end..from]));
        }
        found.push(Part::Known(&text[from..to]));
        end = to;
    }
    if end < text.len() {
        found.push(Part::Other(&text[end..]));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(_: &str) -> Option<String> {
        None
    }

    fn nothing(_: &str) -> String {
        String::new()
    }

    fn with(check: impl FnOnce(&Redaction<'_>)) {
        check(&Redaction { salt: "salt", model: &no, device: &no, event: &nothing });
    }

    #[test]
    fn vocabulary_stays_and_nothing_else_does() {
        with(|redaction| {
            assert_eq!(changed("Bob's board with CUDA graph capture instead of --enforce-eager", redaction), "CUDA graph capture;eager");
            assert_eq!(changed("midnight rollout", redaction), "");
            let pool = named("zeus prefill pool 3", redaction);
            assert!(pool.starts_with('x') && pool.ends_with(";prefill;pool") && !pool.contains("zeus"), "{pool}");
            // Neither a hash nor the mark between pieces makes a word of the vocabulary.
            assert!(words::VOCABULARY.iter().chain(words::MODEL_WORDS).all(|word| !word.contains(';')));
            assert!(words::VOCABULARY.iter().all(|word| !word.bytes().all(|byte| byte == b'x' || byte.is_ascii_hexdigit())));
            assert!(words::MODEL_WORDS.iter().all(|word| !word.bytes().all(|byte| byte.is_ascii_digit())));
        });
    }

    #[test]
    fn runs_of_another_machine_are_told_apart_but_not_told() {
        with(|redaction| {
            let one = changed("Another machine: zeus", redaction);
            let same = changed("another machine: zeus, eager", redaction);
            let other = changed("another machine: hera", redaction);
            assert!(one.starts_with("another x") && same.starts_with(&one) && same.ends_with(";eager"), "{one} {same}");
            assert!(!other.starts_with(&one) && !one.starts_with(&other));
            assert!(!one.contains("zeus") && !one.contains("machine"));
        });
    }

    #[test]
    fn a_model_keeps_what_its_weights_take() {
        with(|redaction| {
            let shown = model("acme/Bert-122B-A10B FP8 by roberta", redaction);
            let (hash, rest) = shown.split_once(' ').unwrap();
            assert_eq!(rest, "122B-A10B FP8");
            assert!(hash.starts_with("m-") && hash[2..].bytes().all(|byte| byte.is_ascii_digit()), "{hash}");
            assert!(model("private", redaction).starts_with("m-") && model("", redaction).is_empty());
            let public = |_: &str| Some("Llama-3.3-70B".to_string());
            let known = Redaction { salt: "salt", model: &public, device: &no, event: &nothing };
            assert_eq!(model("/srv/llama-3.3-70b-FP8", &known), "Llama-3.3-70B FP8");
        });
    }

    #[test]
    fn any_text_is_taken_apart_at_whole_letters() {
        with(|redaction| {
            for text in ["", "é", "normé", "ßgemmß norm", "\u{130}eager\u{130}", "another é", "4 bıt q4é"] {
                let _ = (named(text, redaction), changed(text, redaction), model(text, redaction));
            }
        });
    }
}
