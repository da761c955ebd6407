//! What becomes of the text in each column of each table.

use crate::labels;
use crate::settings::{REDACTED, SOURCES};
use crate::signals::resolve;

use super::{Redaction, remnants, words};

/// What becomes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Policy {
    /// A salted hash.
    Hash,
    /// Nothing.
    Drop,
    /// A salted hash and the words of the vocabulary in it.
    Named,
    /// The words of the vocabulary in it, and whether it speaks of another system.
    Changed,
    /// Kept when it is a small number, else as a name: replica `0`, device `3`.
    Index,
    /// Kept when the program itself uses the word, else hashed.
    Word,
    /// Kept when it is a signal, else hashed.
    Signal,
    /// Label text: known keys, each value by itself.
    Labels,
    /// `key=value` pairs: of values numbers and words of the program.
    Fields,
    /// `line 12`.
    Place,
    /// Where a setting was read, without the details.
    Origin,
    /// The public name of a device, else a hash.
    Device,
    /// Frames of a stack, each hashed by itself.
    Frames,
    /// A kernel, call or range: the words by which it is known, then a hash.
    Event,
}

/// Columns that are not simply hashed.
const POLICIES: &[(&str, &str, Policy)] = &[
    ("runs", "name", Policy::Named),
    ("runs", "changed", Policy::Changed),
    ("runs", "flags", Policy::Drop),
    ("runs", "varied_signal", Policy::Signal),
    ("runs", "device", Policy::Device),
    ("samples", "signal", Policy::Signal),
    ("samples", "labels", Policy::Labels),
    ("histograms", "signal", Policy::Signal),
    ("histograms", "labels", Policy::Labels),
    ("requests", "vantage", Policy::Word),
    ("requests", "replica", Policy::Index),
    ("requests", "finish", Policy::Word),
    ("chunks", "vantage", Policy::Word),
    ("steps", "replica", Policy::Index),
    ("steps", "phase", Policy::Word),
    ("device_events", "kind", Policy::Word),
    ("device_events", "name", Policy::Event),
    ("device_events", "shape", Policy::Fields),
    ("host_events", "kind", Policy::Word),
    ("host_events", "name", Policy::Event),
    ("collectives", "op", Policy::Word),
    ("collectives", "dtype", Policy::Word),
    ("op_sizes", "op", Policy::Word),
    ("op_sizes", "sizes", Policy::Fields),
    ("op_sizes", "dtype", Policy::Word),
    ("devices", "name", Policy::Device),
    ("devices", "vendor", Policy::Word),
    ("stacks", "role", Policy::Word),
    ("stacks", "state", Policy::Word),
    ("stacks", "folded", Policy::Frames),
    ("settings", "replica", Policy::Index),
    ("settings", "origin", Policy::Origin),
    ("logs", "replica", Policy::Index),
    ("logs", "level", Policy::Word),
    ("logs", "file", Policy::Drop),
    ("logs", "kind", Policy::Word),
    ("logs", "fields", Policy::Fields),
    ("issues", "severity", Policy::Word),
    ("issues", "code", Policy::Word),
    ("issues", "place", Policy::Place),
    ("issues", "sentence", Policy::Drop),
];

/// The policy of a column; `None` for those that [`setting`] has already brought into the new names.
pub(super) fn of(table: &str, column: &str) -> Option<Policy> {
    if table == "settings" && matches!(column, "key" | "value") {
        return None;
    }
    let written = POLICIES.iter().find(|(of_table, of_column, _)| *of_table == table && *of_column == column);
    Some(written.map_or(Policy::Hash, |(.., policy)| *policy))
}

impl Policy {
    /// The text that takes the place of `text`.
    pub(super) fn apply(self, text: &str, redaction: &Redaction<'_>) -> String {
        if text.is_empty() {
            return String::new();
        }
        let unless = |kept: Option<&str>| kept.map_or_else(|| redaction.hash(text), str::to_string);
        match self {
            Self::Hash => redaction.hash(text),
            Self::Drop => String::new(),
            Self::Named => remnants::named(text, redaction),
            Self::Changed => remnants::changed(text, redaction),
            Self::Index => index(text).or_else(|| words::kept(text)).map_or_else(|| remnants::named(text, redaction), str::to_string),
            Self::Word => unless(words::kept(text)),
            Self::Signal => unless(resolve(text).map(|_| text)),
            Self::Labels => labels_of(text, redaction),
            Self::Fields => fields(text),
            Self::Place => place(text),
            Self::Origin => SOURCES.iter().find(|known| text.starts_with(**known)).map_or_else(String::new, ToString::to_string),
            Self::Device => (redaction.device)(text).unwrap_or_else(|| unless(words::kept(text))),
            Self::Event => event(text, redaction),
            Self::Frames => text.split(';').map(|frame| redaction.hash(frame)).collect::<Vec<_>>().join(";"),
        }
    }
}

/// Words come first: some are known only at the start of a name.
fn event(text: &str, redaction: &Redaction<'_>) -> String {
    let shown = (redaction.event)(text);
    match shown.as_str() {
        "" => redaction.hash(text),
        whole if whole == text => shown,
        words => format!("{words};{}", redaction.hash(text)),
    }
}

/// A small number, as an index is.
fn index(text: &str) -> Option<&str> {
    (text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn labels_of(text: &str, redaction: &Redaction<'_>) -> String {
    let pairs: Vec<(String, String)> = labels::pairs(text)
        .into_iter()
        .filter(|(key, _)| labels::KNOWN.contains(&key.as_str()))
        .map(|(key, value)| {
            let kept = index(&value).or_else(|| words::kept(&value)).map(str::to_string);
            (key, kept.unwrap_or_else(|| remnants::named(&value, redaction)))
        })
        .collect();
    labels::canonical(&pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>())
}

fn fields(text: &str) -> String {
    let is_key = |key: &str| !key.is_empty() && key.len() <= 32 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let kept = |value: &str| {
        if is_number(value) || is_number_list(value) || words::kept(value).is_some() {
            value.to_string()
        } else {
            remnants::words_of(value).replace(' ', "_")
        }
    };
    let pairs = text.split(' ').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| is_key(key));
    let pairs = pairs.map(|(key, value)| (key, kept(value))).filter(|(_, value)| !value.is_empty());
    pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn place(text: &str) -> String {
    let is_place = text
        .split_once(' ')
        .is_some_and(|(what, number)| words::PLACES.contains(&what) && number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_place { text.to_string() } else { String::new() }
}

/// A number as settings write it.
fn is_number(text: &str) -> bool {
    text.len() <= 24 && text.parse::<f64>().is_ok() && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// `[1, 2, 4]`, the sizes of captured graphs; `0,1`, visible devices.
fn is_number_list(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    !inside.is_empty() && inside.split(',').all(|item| is_number(item.trim()))
}

/// Key and value of a setting: a known key keeps a value that is a number or one of its known words.
pub(super) fn setting(key: &str, value: &str, redaction: &Redaction<'_>) -> (String, String) {
    if !is_known_key(key) {
        let (vantage, name) = key.split_once('.').unwrap_or(("config", key));
        let vantage = if matches!(vantage, "config" | "env" | "kv" | "model") { vantage } else { "config" };
        // What differs between two runs may be an environment variable alone.
        let shown = if vantage == "env" { remnants::named(name, redaction) } else { redaction.hash(name) };
        return (format!("{vantage}.{shown}"), redaction.hash(value));
    }
    let is_plain = value.is_empty() || value == REDACTED || is_number(value) || is_number_list(value) || words::is_setting_value(value);
    let names_model = matches!(key, "config.model" | "config.served_model_name" | "config.model_tag");
    let shown = if is_plain {
        value.to_string()
    } else if names_model {
        (redaction.model)(value).unwrap_or_else(|| redaction.hash(value))
    } else {
        remnants::named(value, redaction)
    };
    (key.to_string(), shown)
}

/// True for a key of the vocabulary, of this program's list or of a variable that engines read.
pub(super) fn is_known_key(key: &str) -> bool {
    if resolve(key).is_some() || words::SETTINGS.contains(&key) {
        return true;
    }
    let name = key.strip_prefix("env.").unwrap_or_default();
    let is_variable = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    is_variable && words::VARIABLES.iter().any(|prefix| name.starts_with(prefix))
}
