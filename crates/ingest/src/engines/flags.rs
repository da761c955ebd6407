//! Server flags of any engine: kebab and snake case, `--flag=value`, `--no-flag`, short forms, dotted and JSON values.
//!
//! What differs between engines is a [`FlagMap`]. A flag outside the map keeps its own name under `config.`, so that
//! nothing a user set is lost. One idea has one key whatever the engine calls it (`max_num_seqs`, `kv_dtype`).

use crate::engines::FlagSetting;
use crate::literal;

/// How one engine spells its flags.
pub(crate) struct FlagMap {
    /// Flag (snake case) and the `config.` name it sets, where the two differ.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Flags that say the opposite of the `config.` flag they set (`disable_radix_cache`, `prefix_caching`).
    pub(crate) opposites: &'static [(&'static str, &'static str)],
    /// Short flags and what they stand for.
    pub(crate) short: &'static [(&'static str, &'static str)],
    /// Switches that take no value and do not start with `enable_`, `disable_` or `no_`.
    pub(crate) switches: &'static [&'static str],
    /// Values that hold further settings: flag, key inside, flag that the key stands for.
    pub(crate) nested: &'static [(&'static str, &'static str, &'static str)],
    /// Brings a value to its base unit, given the `config.` name.
    pub(crate) in_base_unit: fn(&str, &str) -> String,
    /// Index of the first word after the program, when the words start this engine's server.
    pub(crate) start: fn(&[String]) -> Option<usize>,
    /// True when the first word behind the program is the model.
    pub(crate) model_first: bool,
}

impl FlagMap {
    /// True when a command line starts this engine's server.
    pub(crate) fn is_command(&self, line: &str) -> bool {
        (self.start)(&crate::shell::words(line)).is_some()
    }

    /// Settings of a command line, or of a list of flags alone.
    pub(crate) fn settings(&self, words: &[String]) -> Vec<FlagSetting> {
        let start = (self.start)(words);
        let words = &words[start.unwrap_or(0).min(words.len())..];
        let mut found = Vec::new();
        let mut at = 0;
        if start.is_some()
            && self.model_first
            && let Some(model) = words.first().filter(|word| !word.starts_with('-') && *word != "serve")
        {
            self.add("model", model, &mut found);
            at = 1;
        }
        while at < words.len() {
            let Some(flag) = self.parse(&words[at]) else {
                at += 1;
                continue;
            };
            at += 1;
            if let Some(value) = flag.value {
                self.add(&flag.name, value, &mut found);
            } else if self.is_switch(&flag) {
                self.add(&flag.name, if flag.negated { "false" } else { "true" }, &mut found);
            } else {
                let count = words[at..].iter().take_while(|word| is_value(word)).count();
                let values = words[at..at + count].join(" ");
                self.add(&flag.name, if count == 0 { "true" } else { &values }, &mut found);
                at += count;
            }
        }
        found
    }

    /// Adds one flag, in base units and under its `config.` name.
    pub(crate) fn add(&self, flag: &str, value: &str, found: &mut Vec<FlagSetting>) {
        if let Some((outer, inner)) = flag.split_once('.') {
            for (_, _, target) in self.nested.iter().filter(|(known, key, _)| *known == outer && *key == inner) {
                self.add(target, value, found);
            }
            return;
        }
        if self.nested.iter().any(|(outer, ..)| *outer == flag) {
            for (_, inner, target) in self.nested.iter().filter(|(outer, ..)| *outer == flag) {
                if let Some(text) = literal::get(value, inner).filter(|text| !matches!(*text, "None" | "null")) {
                    self.add(target, text, found);
                }
            }
            return;
        }
        if let Some((_, key)) = self.opposites.iter().find(|(known, _)| *known == flag)
            && let Some(is_off) = truth(&plain_value(value))
        {
            found.push(FlagSetting { key: format!("config.{key}"), value: (!is_off).to_string() });
            return;
        }
        let key = self.keys.iter().find(|(known, _)| *known == flag).map_or(flag, |(_, key)| *key);
        let value = (self.in_base_unit)(key, &plain_value(value));
        found.push(FlagSetting { key: format!("config.{key}"), value });
    }

    fn parse<'a>(&self, word: &'a str) -> Option<Flag<'a>> {
        if is_value(word) || word.len() < 2 {
            return None;
        }
        let bare = word.trim_start_matches('-');
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        let (head, rest) = name.split_once('.').map_or((name, ""), |(head, rest)| (head, rest));
        let mut snake = head.replace('-', "_");
        if !word.starts_with("--")
            && let Some((_, long)) = self.short.iter().find(|(short, _)| *short == head)
        {
            snake = (*long).to_string();
        }
        let negated = word.starts_with("--no-");
        if negated {
            snake = snake["no_".len()..].to_string();
        }
        if !rest.is_empty() {
            snake = format!("{snake}.{}", rest.replace('-', "_"));
        }
        Some(Flag { name: snake, negated, value })
    }

    fn is_switch(&self, flag: &Flag<'_>) -> bool {
        let name = flag.name.as_str();
        flag.negated || name.starts_with("enable_") || name.starts_with("disable_") || self.switches.contains(&name)
    }
}

struct Flag<'a> {
    name: String,
    negated: bool,
    value: Option<&'a str>,
}

/// A word is a value unless it is a flag; negative numbers are values.
fn is_value(word: &str) -> bool {
    !word.starts_with('-') || word[1..].starts_with(|c: char| c.is_ascii_digit())
}

fn truth(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "1" => Some(true),
        "false" | "False" | "0" => Some(false),
        _ => None,
    }
}

/// Value text as settings show it; lists keep their brackets.
pub(crate) fn plain_value(text: &str) -> String {
    crate::secrets::redact(&literal::plain(text)).into_owned()
}

/// A count that may be written `16k` (1000s) or `16K` (1024s).
pub(crate) fn human_count(value: &str) -> String {
    let factor = match value.as_bytes().last() {
        Some(b'k') => 1e3,
        Some(b'K') => 1024.0,
        Some(b'm') => 1e6,
        Some(b'M') => 1_048_576.0,
        Some(b'g') => 1e9,
        Some(b'G') => 1_073_741_824.0,
        _ => return value.to_string(),
    };
    value[..value.len() - 1].parse::<f64>().map_or_else(|_| value.to_string(), |count| format!("{}", (count * factor) as i64))
}

/// Values as they are.
pub(crate) fn as_is(_: &str, value: &str) -> String {
    value.to_string()
}

/// Index behind the first word that a test accepts.
pub(crate) fn behind(words: &[String], is_program: impl Fn(&str) -> bool) -> Option<usize> {
    words.iter().position(|word| is_program(word)).map(|at| at + 1)
}

/// True when a word is this program, with or without its folder.
pub(crate) fn is_program(word: &str, name: &str) -> bool {
    word == name || word.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'))
}

/// Index behind a `program command` pair.
pub(crate) fn behind_command(words: &[String], program: &str, command: &str) -> Option<usize> {
    words.windows(2).position(|pair| is_program(&pair[0], program) && pair[1] == command).map(|at| at + 2)
}
