//! Holds the vocabulary of redaction against the words that verdicts look for: a word that analysis matches in what people
//! write, and that `capture/src/redact/words.rs` does not list, would make a shared capture answer differently.
//!
//! Words are read from the sources of `analysis`, since checks keep their lists to themselves: lists of words, and words
//! in `contains("...")`. Names of signals, settings and labels are not words people write.

use std::fs;
use std::path::{Path, PathBuf};

use capture::redact::{keeps_kind, keeps_model_word, keeps_setting, keeps_word};

use crate::workspace::{files, root};

/// Sources that match no text of a user: questions, texts of reports, names of signals; names of events keep the words by
/// which they are known (`analysis::device::shown`).
const NOT_READ: &[&str] = &[
    "/device/",
    "/triage",
    "/paths",
    "/slo",
    "/verify",
    "forms.rs",
    "apply.rs",
    "contract.rs",
    "flags.rs",
    "/evidence",
    "contrast.rs",
    "/whatif",
    "limits/simulated.rs",
];

/// Literals in those places which are matched against the program's own words only.
const OWN_WORDS: &[&str] = &[
    // statistics and quantities, put together to names of signals
    "p50",
    "p95",
    "p99",
    "mean",
    "min",
    "max",
    "ttft",
    "itl",
    "tpot",
    "e2e",
    "throughput",
    "prefill_time",
    "role=\\\"engine_core",
    // origins of settings
    "default",
    "dump",
    // labels
    "rank",
    "stage",
    "replica",
    "role",
    "process",
    "phase",
    "source=\\\"log\\\"",
    // origins of a clock, beginnings of flags
    "not joined",
    "--",
];
/// Files in which arrays are words of models' names.
const OF_MODELS: &[&str] = &["decode_bound.rs", "checks/dp_lockstep.rs"];
/// Settings of which redaction hides the key: they name a host.
const HIDDEN: &[&str] = &["config.host", "config.port"];

/// A string literal and what stands around it.
struct Literal<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// String literals of code without comments; raw strings and quotes as characters do not occur in what is read here.
fn literals(code: &str) -> Vec<Literal<'_>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at += code[at..].find('\n').unwrap_or(code.len() - at),
            b'\'' if bytes.get(at + 2) == Some(&b'\'') => at += 3,
            b'\'' if bytes.get(at + 1) == Some(&b'\\') => at += 4,
            b'"' => {
                let start = at;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let end = at.min(code.len());
                found.push(Literal { text: &code[start + 1..end], start, end: end + 1 });
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// Literals that are matched inside a text.
fn matched(code: &str) -> Vec<&str> {
    let all = literals(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let before = code[..all[at].start].trim_end();
        if [".contains(", ".starts_with("].iter().any(|call| before.ends_with(call)) {
            found.push(all[at].text);
        }
        let mut end = at + 1;
        while end < all.len() && code[all[end - 1].end..all[end].start].trim() == "," {
            end += 1;
        }
        if before.ends_with('[') && is_word_list(before, &code[all[end - 1].end..]) {
            found.extend(all[at..end].iter().map(|literal| literal.text));
        }
        at = end;
    }
    found
}

fn is_word_list(before: &str, after: &str) -> bool {
    let before = before.trim_end_matches(['[', '&']).trim_end();
    let after: String = after.trim_start_matches(',').split_whitespace().collect();
    let call = before.rsplit(['(', ';', '{']).nth(1).unwrap_or_default();
    let declared = before.ends_with('=') && before.rsplit('\n').next().is_some_and(|line| line.contains("const ") || line.contains("let "));
    declared
        || before.ends_with("change_names(here, there,")
        || before.ends_with("family(arm,")
        || call.ends_with("change_names")
        || [".iter().any(", ".into_iter().any(", ".iter().find(", ".into_iter().find_map(|role|"]
            .iter()
            .any(|use_| after.strip_prefix(']').is_some_and(|rest| rest.starts_with(use_)))
}

fn is_name(word: &str) -> bool {
    let vantage = word.split_once('.').map_or("", |(vantage, _)| vantage);
    capture::signals::resolve(word).is_some()
        || capture::signals::SIGNALS.iter().any(|signal| signal.name.split('.').next() == Some(vantage))
        || word.ends_with('.')
        || capture::signals::STATISTICS.iter().any(|statistic| word.strip_prefix('.') == Some(statistic))
}

fn sources() -> Vec<(PathBuf, String)> {
    sources_of("crates/analysis/src/")
}

fn sources_of(folder: &str) -> Vec<(PathBuf, String)> {
    let is_read = |file: &Path| {
        let text = file.to_string_lossy().replace('\\', "/");
        text.starts_with(folder) && file.extension().is_some_and(|end| end == "rs") && !NOT_READ.iter().any(|part| text.contains(part))
    };
    let read = |file: PathBuf| {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_string();
        (file, code)
    };
    files().unwrap().into_iter().filter(|file| is_read(file)).map(read).collect()
}

#[test]
fn redaction_keeps_every_word_that_a_verdict_looks_for() {
    let (mut missing, mut seen) = (Vec::new(), Vec::new());
    for (file, code) in sources() {
        let of_models = OF_MODELS.iter().any(|name| file.ends_with(name));
        for word in matched(&code).into_iter().filter(|word| !word.is_empty() && !is_name(word) && !OWN_WORDS.contains(word)) {
            let kept = keeps_word(word) || (of_models && keeps_model_word(word));
            if !kept && !word.starts_with("config.") && !word.starts_with("env.") {
                missing.push(format!("{}: `{word}`", file.display()));
            }
            seen.push(word.to_string());
        }
    }
    assert!(missing.is_empty(), "add to VOCABULARY in crates/capture/src/redact/words.rs:\n{}", missing.join("\n"));
    // A reader that goes blind would let everything pass.
    for known in ["cuda graph", "recompil", "numa", "nccl", "static", "nixl", "matmul", "total_tokens", "another ", "mixtral"] {
        assert!(seen.iter().any(|word| word == known), "`{known}` is looked for and was not seen here");
    }
}

#[test]
fn redaction_keeps_what_a_models_name_says() {
    let (_, code) = sources().into_iter().find(|(file, _)| file.ends_with("decode_bound.rs")).unwrap();
    let list = code.split_once("const FORMATS").unwrap().1.split_once("];").unwrap().0;
    let formats: Vec<&str> = literals(list).into_iter().map(|literal| literal.text).collect();
    assert!(formats.len() > 10 && formats.contains(&"nvfp4"));
    let missing: Vec<&str> = formats.into_iter().filter(|format| !keeps_model_word(format)).collect();
    assert!(missing.is_empty(), "add to MODEL_WORDS in crates/capture/src/redact/words.rs: {missing:?}");
}

#[test]
fn redaction_keeps_every_setting_that_a_verdict_reads() {
    let mut missing = Vec::new();
    let mut seen = 0;
    for (file, code) in sources() {
        let keys = literals(&code).into_iter().map(|literal| literal.text);
        for key in keys
            .filter(|key| (key.starts_with("config.") || key.starts_with("env.")) && !key.ends_with('.') && !key.contains(['{', ' ', '*']))
        {
            seen += 1;
            if !keeps_setting(key) && !HIDDEN.contains(&key) {
                missing.push(format!("{}: `{key}`", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "add to SETTINGS in crates/capture/src/redact/words.rs:\n{}", missing.join("\n"));
    assert!(seen > 50);
}

#[test]
fn redaction_keeps_every_kind_of_log_line() {
    let (mut missing, mut seen) = (Vec::new(), 0);
    for (file, code) in sources_of("crates/ingest/src/").into_iter().chain(sources()) {
        for literal in literals(&code) {
            let before = code[..literal.start].trim_end();
            let calls = ["log(message, builder,", ".logged.get(", ".logged.contains_key("];
            if calls.iter().any(|call| before.ends_with(call)) {
                seen += 1;
                if !keeps_kind(literal.text) {
                    missing.push(format!("{}: `{}`", file.display(), literal.text));
                }
            }
        }
    }
    assert!(missing.is_empty(), "add to WORDS in crates/capture/src/redact/words.rs:\n{}", missing.join("\n"));
    assert!(seen > 40, "only {seen} kinds were seen");
}
