//! A change of a setting as an edited command line: what a person would type, or why nobody can.
//!
//! Only what a server is started with is edited, word by word: a flag is replaced where it stands, added where it does not,
//! switches are set or taken out. Changes outside the command line, and values that are advice in words, are refused.

use serde_json::Value;

use crate::contract::Change;

/// Switches that say the opposite of the setting they belong to: setting it on takes them out.
const OPPOSITES: &[&str] = &["--disable-radix-cache", "--disable-overlap-schedule"];
/// Switches beside those that begin with `--enable-`, `--disable-` or `--no-`; with `--no-` in front they say the opposite,
/// unless they have no such form.
const SWITCHES: &[(&str, bool)] =
    &[("--async-scheduling", true), ("--enforce-eager", false), ("--cache-prompt", true), ("--cont-batching", true)];
/// Flags whose value is a JSON object, and the key inside that a number belongs to.
const OBJECTS: &[(&str, &str)] =
    &[("--speculative-config", "num_speculative_tokens"), ("--kv-transfer-config", ""), ("--compilation-config", "")];

/// Flags that take several values.
const LISTS: &[&str] = &["--cudagraph-capture-sizes", "--cuda-graph-sizes", "--cuda-graph-bs", "--cuda-graphs"];

/// A flag and its new value as typed: `--max-num-seqs=64`, or a switch alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedChange {
    /// Flag with its dashes.
    pub flag: String,
    /// Value; `None` for a switch.
    pub value: Option<String>,
}

impl std::str::FromStr for TypedChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (flag, value) = text.split_once('=').map_or((text, None), |(flag, value)| (flag, Some(value.to_string())));
        let bare = flag.trim_start_matches('-');
        let is_name = bare.starts_with(|c: char| c.is_ascii_alphabetic())
            && bare.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !is_name || value.as_deref().is_some_and(|value| value.contains('\n')) {
            return Err(format!("expected a flag and its value, as in --max-num-seqs=64, found `{text}`"));
        }
        Ok(Self { flag: format!("--{bare}"), value })
    }
}

/// The words of a command with a hypothesis' change in them, or why they cannot have it.
///
/// # Errors
/// A sentence without its final stop.
pub fn edit(words: &[String], change: &Change) -> Result<Vec<String>, String> {
    let (flag, to) = (change.flag.as_str(), change.to.trim());
    if !flag.starts_with("--") {
        return Err(format!("`{flag}` is no flag of the command line"));
    }
    if let Some((_, key)) = OBJECTS.iter().find(|(object, _)| *object == flag) {
        return edit_object(words, flag, key, to);
    }
    if is_switch(flag) {
        let is_on = truth(to).ok_or_else(|| format!("`{to}` does not say whether `{flag}` is set"))?;
        return Ok(set_switch(words, flag, is_on != OPPOSITES.contains(&flag)));
    }
    if to.is_empty() {
        return Ok(without(words, flag));
    }
    let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    let is_list = LISTS.contains(&flag) && to.split_whitespace().all(is_number);
    if (to.split_whitespace().count() > 1 && !is_list) || (is_number(&change.from) && !is_number(to)) {
        return Err(format!("`{to}` is advice, not a value that `{flag}` takes"));
    }
    Ok(set(words, flag, to))
}

/// The words of a command with what was typed in them.
pub fn edit_typed(words: &[String], change: &TypedChange) -> Vec<String> {
    match &change.value {
        Some(value) => set(words, &change.flag, value),
        None => set_switch(words, &change.flag, true),
    }
}

/// The words as they would be typed into a shell.
pub fn quoted(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '=' | ',' | '@' | '+' | '%'))
    };
    let quote = |word: &String| if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

fn is_switch(flag: &str) -> bool {
    let starts = ["--enable-", "--disable-", "--no-"].iter().any(|start| flag.starts_with(start));
    starts || SWITCHES.iter().any(|(switch, _)| *switch == flag)
}

fn truth(to: &str) -> Option<bool> {
    match to {
        "on" | "true" | "True" | "1" => Some(true),
        "" | "off" | "false" | "False" | "0" | "none" => Some(false),
        _ => None,
    }
}

/// A flag's name without dashes in front, as both spellings of it compare.
fn name_of(word: &str) -> Option<String> {
    let bare = word.strip_prefix("--")?;
    let name = bare.split_once('=').map_or(bare, |(name, _)| name);
    Some(name.replace('_', "-"))
}

/// A word is a value unless it is a flag; negative numbers are values.
fn is_value(word: &str) -> bool {
    !word.starts_with('-') || word[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// Where the flag stands, and how many words it takes with its value.
fn find(words: &[String], flag: &str) -> Option<(usize, usize)> {
    let wanted = name_of(flag)?;
    let at = words.iter().position(|word| name_of(word).as_ref() == Some(&wanted))?;
    let is_joined = words[at].contains('=');
    // What follows a single value is the program's own, as the model behind a flag is.
    let most = if LISTS.contains(&format!("--{wanted}").as_str()) { usize::MAX } else { 1 };
    let values = words[at + 1..].iter().take(most).take_while(|word| is_value(word)).count();
    Some((at, if is_joined || is_switch(flag) { 1 } else { 1 + values }))
}

fn without(words: &[String], flag: &str) -> Vec<String> {
    let mut words = words.to_vec();
    while let Some((at, count)) = find(&words, flag) {
        words.drain(at..at + count);
    }
    words
}

fn set(words: &[String], flag: &str, value: &str) -> Vec<String> {
    let Some((at, count)) = find(words, flag) else {
        return words.iter().cloned().chain([flag.to_string()]).chain(values(flag, value)).collect();
    };
    let head = &words[at];
    let new = match head.split_once('=') {
        Some((name, _)) => vec![format!("{name}={value}")],
        None => [head.clone()].into_iter().chain(values(flag, value)).collect(),
    };
    words[..at].iter().cloned().chain(new).chain(words[at + count..].iter().cloned()).collect()
}

/// A value as words.
fn values(flag: &str, value: &str) -> Vec<String> {
    if LISTS.contains(&flag) { value.split_whitespace().map(ToString::to_string).collect() } else { vec![value.to_string()] }
}

fn set_switch(words: &[String], flag: &str, is_set: bool) -> Vec<String> {
    let bare = flag.trim_start_matches("--");
    let opposite = bare.strip_prefix("no-").map_or_else(|| format!("--no-{bare}"), |plain| format!("--{plain}"));
    let kept = without(&without(words, &opposite), flag);
    let has_opposite = flag.starts_with("--enable-") || SWITCHES.iter().any(|(switch, has)| *switch == flag && *has);
    let added = match (is_set, has_opposite) {
        (true, _) => Some(flag.to_string()),
        (false, true) => Some(opposite),
        (false, false) => None,
    };
    kept.into_iter().chain(added).collect()
}

/// A number inside the object that a flag takes; 0, or nothing, drops the flag.
fn edit_object(words: &[String], flag: &str, key: &str, to: &str) -> Result<Vec<String>, String> {
    if truth(to) == Some(false) {
        return match find(words, flag) {
            Some(_) => Ok(without(words, flag)),
            None => Err(format!("`{flag}` does not stand in the command, so that it cannot be dropped")),
        };
    }
    let refusal = || format!("`{flag}` takes an object, in which `{to}` has no known place");
    let number: u64 = to.parse().map_err(|_| refusal())?;
    let (at, _) = find(words, flag).filter(|_| !key.is_empty()).ok_or_else(refusal)?;
    let text = words[at].split_once('=').map(|(_, text)| text).or_else(|| words.get(at + 1).map(String::as_str)).unwrap_or_default();
    let mut object: Value = serde_json::from_str(text).map_err(|_| refusal())?;
    let slot = object.as_object_mut().ok_or_else(refusal)?;
    slot.insert(key.to_string(), number.into());
    Ok(set(words, flag, &object.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(ToString::to_string).collect()
    }

    fn change(flag: &str, from: &str, to: &str) -> Change {
        Change {
            lever: String::new(),
            flag: flag.into(),
            from: from.into(),
            to: to.into(),
            from_source: String::new(),
            needs: "restart".into(),
            reload_s: None,
            valid_for: String::new(),
            instruction: String::new(),
        }
    }

    fn check(line: &str, (flag, from, to): (&str, &str, &str), expected: &str) {
        let found = edit(&words(line), &change(flag, from, to));
        assert_eq!(found.map_or_else(|why| why, |words| quoted(&words)), expected, "{line} {flag} {to}");
    }

    #[test]
    fn a_flag_is_replaced_where_it_stands_and_added_where_it_does_not() {
        let seats = ("--max-num-seqs", "8", "64");
        check("vllm serve m --max-num-seqs 8 --port 1", seats, "vllm serve m --max-num-seqs 64 --port 1");
        check("vllm serve m --max_num_seqs=8", seats, "vllm serve m --max_num_seqs=64");
        check("vllm serve m", seats, "vllm serve m --max-num-seqs 64");
        check(
            "vllm serve m --cudagraph-capture-sizes 1 2 4 -tp 2",
            ("--cudagraph-capture-sizes", "", "8"),
            "vllm serve m --cudagraph-capture-sizes 8 -tp 2",
        );
        check("vllm serve --max-num-seqs 8 m", ("--max-num-seqs", "8", ""), "vllm serve m");
        check("vllm serve --max-num-seqs 8 m", seats, "vllm serve --max-num-seqs 64 m");
        check("s", ("--cuda-graph-bs", "", "1 2 4"), "s --cuda-graph-bs 1 2 4");
    }

    #[test]
    fn switches_are_set_turned_and_taken_out() {
        let caching = |to: &'static str| ("--enable-prefix-caching", "", to);
        check("s --no-enable-prefix-caching -x", caching("on"), "s -x --enable-prefix-caching");
        check("s --enable-prefix-caching", caching("off"), "s --no-enable-prefix-caching");
        check("s --enforce-eager", ("--enforce-eager", "true", "false"), "s");
        check("s --no-async-scheduling", ("--async-scheduling", "false", "on"), "s --async-scheduling");
        check("s --disable-radix-cache", ("--disable-radix-cache", "false", "on"), "s");
        check("s", ("--disable-overlap-schedule", "true", "off"), "s --disable-overlap-schedule");
    }

    #[test]
    fn objects_are_changed_inside_or_dropped() {
        let line = r#"s --speculative-config {"method":"ngram","num_speculative_tokens":5} -x"#;
        check(line, ("--speculative-config", "5", "0"), "s -x");
        check(line, ("--speculative-config", "5", "2"), r#"s --speculative-config '{"method":"ngram","num_speculative_tokens":2}' -x"#);
        check("s", ("--speculative-config", "", "0"), "`--speculative-config` does not stand in the command, so that it cannot be dropped");
        check("s", ("--kv-transfer-config", "", "x"), "`--kv-transfer-config` takes an object, in which `x` has no known place");
    }

    #[test]
    fn what_is_no_flag_is_refused() {
        check("s", ("proxy_buffering off;", "", "off"), "`proxy_buffering off;` is no flag of the command line");
        let advice = "`one more per two cores` is advice, not a value that `--api-server-count` takes";
        check("s", ("--api-server-count", "1", "one more per two cores"), advice);
        check("s", ("--tensor-parallel-size", "2", "more"), "`more` is advice, not a value that `--tensor-parallel-size` takes");
        check("s", ("--enable-prefix-caching", "", "perhaps"), "`perhaps` does not say whether `--enable-prefix-caching` is set");
    }

    #[test]
    fn a_typed_change_is_read_and_made() {
        let typed = |text: &str| text.parse::<TypedChange>().map(|change| quoted(&edit_typed(&words("s --no-a-b --n 1"), &change)));
        assert_eq!(typed("--n=2").unwrap(), "s --no-a-b --n 2");
        assert_eq!(typed("a-b").unwrap(), "s --n 1 --a-b");
        assert_eq!(typed("--no-a-b").unwrap(), "s --n 1 --no-a-b");
        for bad in ["", "--", "=1", "a b", "--n=1\n2"] {
            assert!(typed(bad).is_err(), "{bad}");
        }
        assert_eq!(quoted(&words("a $b 'c'")), r"a '$b' ''\''c'\'''");
    }
}
