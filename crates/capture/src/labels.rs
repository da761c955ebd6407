//! Canonical label text: `device="0",phase="decode"`, keys sorted, no braces, empty for none.

/// Known labels of signals; an importer maps what it finds to these or drops it.
pub const KNOWN: &[&str] = &[
    "category", "class", "device", "engine", "finish", "kernel", "mode", "part", "phase", "position", "process", "rank", "reason",
    "replica", "role", "source", "stage", "thread",
];

/// Builds canonical label text from pairs; later duplicates of a key win, empty values are dropped.
pub fn canonical(pairs: &[(&str, &str)]) -> String {
    let mut sorted: Vec<(&str, &str)> = Vec::with_capacity(pairs.len());
    for &(key, value) in pairs {
        match sorted.iter_mut().find(|(known, _)| *known == key) {
            Some(slot) => slot.1 = value,
            None => sorted.push((key, value)),
        }
    }
    sorted.retain(|(_, value)| !value.is_empty());
    sorted.sort_unstable();
    let mut text = String::new();
    for (key, value) in sorted {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(key);
        text.push_str("=\"");
        for character in value.chars() {
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(if character == '\n' { ' ' } else { character });
        }
        text.push('"');
    }
    text
}

/// Splits canonical label text into pairs.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut end = after.len();
        let mut escaped = false;
        for (at, character) in after.char_indices() {
            if escaped {
                value.push(character);
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if character == '"' {
                end = at + 1;
                break;
            } else {
                value.push(character);
            }
        }
        found.push((key.trim_start_matches(',').to_string(), value));
        rest = &after[end..];
    }
    found
}

/// The value of one label in canonical label text.
pub fn get(text: &str, key: &str) -> Option<String> {
    pairs(text).into_iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_is_sorted_and_reads_back() {
        let text = canonical(&[("phase", "decode"), ("device", "0"), ("device", "1\"x"), ("rank", "")]);
        assert_eq!(text, r#"device="1\"x",phase="decode""#);
        assert_eq!(get(&text, "device").as_deref(), Some("1\"x"));
        assert_eq!(get(&text, "phase").as_deref(), Some("decode"));
        assert_eq!(get(&text, "rank"), None);
    }
}
