//! Reads what Python prints: dict and call reprs, and JSON, split at their top-level commas.
//!
//! Start-up dumps are no JSON (enums in `<..>`, nested dataclass reprs); all that is needed of them is key and value.

/// Splits `a=1, b=Foo(x=2), 'c': [1, 2]` (with or without surrounding braces or a call) into keys and value texts.
pub(crate) fn pairs(text: &str) -> Vec<(&str, &str)> {
    split_top(inner(text), ',')
        .into_iter()
        .filter_map(|part| {
            let at = part.char_indices().find(|(_, c)| matches!(c, '=' | ':'))?.0;
            let key = unquote(part[..at].trim());
            let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
            is_key.then(|| (key, part[at + 1..].trim()))
        })
        .collect()
}

/// Items of `[1, 2]` or `(1, 2)`.
pub(crate) fn items(text: &str) -> Vec<&str> {
    split_top(inner(text), ',').into_iter().map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// The value text of one key in a dict, call repr or JSON object.
pub(crate) fn get<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    pairs(text).into_iter().find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// Text as a setting shows it: quotes off, `True` as `true`, `<Enum.NAME: 0>` as `NAME`, `torch.x` as `x`.
pub(crate) fn plain(text: &str) -> String {
    let text = text.trim();
    match text {
        "True" => return "true".to_string(),
        "False" => return "false".to_string(),
        "None" | "null" => return "none".to_string(),
        _ => {}
    }
    if let Some(member) = text.strip_prefix('<').and_then(|rest| rest.split_once(':')).and_then(|(name, _)| name.rsplit_once('.')) {
        return member.1.to_string();
    }
    let text = unquote(text);
    text.strip_prefix("torch.").unwrap_or(text).to_string()
}

/// Without the quotes around it.
pub(crate) fn unquote(text: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

fn inner(text: &str) -> &str {
    let text = text.trim();
    let Some(open) = text.find(['{', '[', '(']) else { return text };
    let is_wrapped = text.ends_with(['}', ']', ')']) && text[..open].chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    if is_wrapped { &text[open + 1..text.len() - 1] } else { text }
}

fn split_top(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{' | '<') => depth += 1,
            (None, ')' | ']' | '}' | '>') => depth -= 1,
            (None, found) if found == separator && depth <= 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reprs_come_apart() {
        let text = "model='/m', speculative_config=SpeculativeConfig(method='ngram', num_spec_tokens=4), mode={'a': <M.NONE: 0>, 'b': [1, 2]}, eager=True";
        let found = pairs(text);
        assert_eq!(found.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["model", "speculative_config", "mode", "eager"]);
        assert_eq!(get(found[1].1, "num_spec_tokens"), Some("4"));
        assert_eq!(plain(get(found[2].1, "a").unwrap()), "NONE");
        assert_eq!(items(get(found[2].1, "b").unwrap()), ["1", "2"]);
        assert_eq!((plain("True"), plain("torch.bfloat16"), plain("'x'")), ("true".into(), "bfloat16".into(), "x".into()));
        assert_eq!(get(r#"{"method": "eagle", "num_speculative_tokens": 3}"#, "method").map(unquote), Some("eagle"));
    }
}
