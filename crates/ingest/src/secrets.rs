//! Takes secrets out of free text before it enters a table.
//!
//! Settings are redacted by their key (`Builder::setting`); this is for command lines, URLs and values with structure
//! inside. It errs on the side of redacting.

use std::borrow::Cow;

use capture::settings::{REDACTED, is_secret};

/// Prefixes that service tokens start with.
const TOKEN_PREFIXES: &[&str] = &["hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ", "nvapi-"];

/// Text without the secrets it shows: credentials in URLs, bearer tokens, service tokens, values of secret keys.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    url_credentials(text, &mut spans);
    schemes(text, &mut spans);
    tokens(text, &mut spans);
    pairs(text, &mut spans);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable();
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in spans {
        if start >= at {
            clean.push_str(&text[at..start]);
            clean.push_str(REDACTED);
        }
        at = at.max(end);
    }
    clean.push_str(&text[at..]);
    Cow::Owned(clean)
}

fn url_credentials(text: &str, spans: &mut Vec<(usize, usize)>) {
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        let end = text[start..]
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace())
            .map_or(text.len(), |to| start + to);
        if let Some(sign) = text[start..end].rfind('@') {
            spans.push((start, start + sign));
        }
    }
}

fn schemes(text: &str, spans: &mut Vec<(usize, usize)>) {
    let lower = text.to_ascii_lowercase();
    for scheme in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(scheme) {
            let start = at + scheme.len();
            let end = value_end(text, start);
            let is_new_word = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if is_new_word && end > start + 5 {
                spans.push((start, end));
            }
        }
    }
}

fn tokens(text: &str, spans: &mut Vec<(usize, usize)>) {
    for prefix in TOKEN_PREFIXES {
        let mut done = 0;
        for (start, _) in text.match_indices(prefix) {
            let is_new_word = start == 0 || !text.as_bytes()[start - 1].is_ascii_alphanumeric();
            if start < done || !is_new_word {
                continue;
            }
            let end = text[start..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
                .map_or(text.len(), |to| start + to);
            done = end;
            if end - start >= 16 {
                spans.push((start, end));
            }
        }
    }
}

fn value_end(text: &str, start: usize) -> usize {
    text[start..]
        .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '}' | ')' | '&' | ';'))
        .map_or(text.len(), |to| start + to)
}

/// `key=value`, `key: value`, `"key": "value"`, also with `-` in the key.
fn pairs(text: &str, spans: &mut Vec<(usize, usize)>) {
    let bytes = text.as_bytes();
    for sign in memchr::memchr2_iter(b'=', b':', bytes) {
        let before = text[..sign].trim_end_matches([' ', '"', '\'']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name_start = before.rfind(|c: char| !is_name(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[name_start..];
        if name.is_empty() || !is_secret(name) {
            continue;
        }
        let after = &text[sign + 1..];
        let start = sign + 1 + (after.len() - after.trim_start_matches([' ', '"', '\'']).len());
        let quote = bytes[sign + 1..start].iter().rev().find(|byte| matches!(byte, b'"' | b'\'')).copied();
        let end = match quote {
            Some(quote) => memchr::memchr(quote, &bytes[start..]).map_or(text.len(), |to| start + to),
            None if is_header(name) => text[start..].find(['"', '\'', '\n']).map_or(text.len(), |to| start + to),
            None => value_end(text, start),
        };
        if end > start && !text[start..end].starts_with("//") && !matches!(&text[start..end], "None" | "null" | "false" | "False") {
            spans.push((start, end));
        }
    }
}

fn is_header(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("authorization")
}

/// A command line as one text: secrets redacted, words with blanks quoted.
pub(crate) fn redact_command(words: &[String]) -> String {
    let mut clean = String::new();
    let mut in_secret = false;
    for word in words {
        let shown: Cow<'_, str> = if word.starts_with('-') {
            in_secret = !word.contains('=') && is_secret(word);
            redact(word)
        } else if in_secret {
            Cow::Borrowed(REDACTED)
        } else {
            redact(word)
        };
        if !clean.is_empty() {
            clean.push(' ');
        }
        let is_plain = !shown.is_empty() && !shown.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '{'));
        if is_plain {
            clean.push_str(&shown);
        } else {
            clean.push('\'');
            clean.push_str(&shown.replace('\'', "'\\''"));
            clean.push('\'');
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_leave_and_the_rest_stays() {
        for (text, clean) in [
            ("http://user:pass@host:8000/metrics", "http://<redacted>@host:8000/metrics"),
            ("curl -H 'Authorization: Bearer abcdef123456' url", "curl -H 'Authorization: <redacted>' url"),
            ("--api-key=abc --max-num-batched-tokens=2048", "--api-key=<redacted> --max-num-batched-tokens=2048"),
            (r#"{"kv_connector": "x", "access_token": "zzz"}"#, r#"{"kv_connector": "x", "access_token": "<redacted>"}"#),
            ("token hf_abcdefghijklmnopqrst end", "token <redacted> end"),
            ("HF_TOKEN=hf_x vllm serve", "HF_TOKEN=<redacted> vllm serve"),
            ("max_num_seqs=4, tokenizer='/models/x'", "max_num_seqs=4, tokenizer='/models/x'"),
        ] {
            assert_eq!(redact(text), clean);
        }
    }

    #[test]
    fn every_value_of_a_secret_flag_is_redacted() {
        let words: Vec<String> =
            ["vllm", "serve", "m", "--api-key", "a", "b", "--port", "80", "--x", "{\"a\": 1}"].iter().map(ToString::to_string).collect();
        assert_eq!(redact_command(&words), "vllm serve m --api-key <redacted> <redacted> --port 80 --x '{\"a\": 1}'");
    }
}
