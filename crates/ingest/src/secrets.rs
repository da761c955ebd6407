//! Takes secrets out of free text before it enters a table.
//!
//! Settings are redacted by their key (`Builder::setting`); this is for command lines, URLs and values with structure
//! inside. It errs on the side of redacting.

use std::borrow::Cow;

use capture::settings::{REDACTED, is_secret};

/// Prefixes that service tokens start with.
const TOKEN_PREFIXES: &[&str] = &["hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ", "nvapi-"];

/// Longest `user:password` that is looked for before an `@`.
const MAX_LOGIN_BYTES: usize = 256;

/// Text without the secrets it shows: credentials in URLs, bearer tokens, service tokens, values of secret keys.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    url_credentials(text, &mut spans);
    host_credentials(text, &mut spans);
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

/// `user:password@host` without a scheme, as `scp` and proxies take it.
fn host_credentials(text: &str, spans: &mut Vec<(usize, usize)>) {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | '(' | '[' | '{' | '`');
    let mut done = 0;
    for (sign, _) in text.match_indices('@') {
        // No longer than names are, so that a text full of signs costs no more than its length.
        let from = (done.max(sign.saturating_sub(MAX_LOGIN_BYTES))..=sign).find(|&at| text.is_char_boundary(at)).unwrap_or(sign);
        let start =
            text[from..sign].rfind(is_end).map_or(from, |at| from + at + text[from + at..].chars().next().map_or(1, char::len_utf8));
        let Some((user, password)) = text[start..sign].split_once(':') else { continue };
        let host: &str =
            text[sign + 1..].split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))).next().unwrap_or_default();
        let is_user = !user.is_empty() && user.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+'));
        // An image is pinned by `name:tag@sha256:...`.
        if is_user && !password.is_empty() && !password.starts_with("//") && !host.is_empty() && !host.starts_with("sha") {
            spans.push((start, sign));
            done = sign + 1;
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

/// `key=value`, `key: value`, `"key": "value"`, also with `-` in the key and quotes that are escaped. A value in brackets
/// is one value.
fn pairs(text: &str, spans: &mut Vec<(usize, usize)>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for sign in memchr::memchr2_iter(b'=', b':', bytes) {
        if sign < done {
            continue;
        }
        let before = text[..sign].trim_end_matches([' ', '"', '\'', '\\']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name_start = before.rfind(|c: char| !is_name(c)).map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[name_start..];
        if name.is_empty() || !is_secret(name) {
            continue;
        }
        let (start, end) = value_span(text, sign, name);
        let value = &text[start..end];
        let is_count = name.ends_with("tokens") && value.bytes().all(|byte| byte.is_ascii_digit());
        if !value.is_empty() && !value.starts_with("//") && !is_count && !matches!(value, "None" | "null" | "false" | "False") {
            spans.push((start, end));
            done = end;
        }
    }
}

/// Where the value behind the sign of a pair starts and ends.
fn value_span(text: &str, sign: usize, name: &str) -> (usize, usize) {
    let bytes = text.as_bytes();
    let after = &text[sign + 1..];
    let is_json = bytes[sign] == b':';
    let is_skipped = |c: char| matches!(c, ' ' | '\t' | '"' | '\'' | '\\') || (is_json && matches!(c, '\n' | '\r'));
    let start = sign + 1 + (after.len() - after.trim_start_matches(is_skipped).len());
    if matches!(bytes.get(start), Some(b'[' | b'{' | b'(')) {
        return (start, bracket_end(text, start));
    }
    let quote_at = (sign + 1..start).rev().find(|&at| matches!(bytes[at], b'"' | b'\''));
    let end = match quote_at {
        Some(at) => {
            let is_escaped = bytes[at - 1] == b'\\';
            let closes = |to: usize| bytes[to] == bytes[at] && (to == start || (bytes[to - 1] == b'\\') == is_escaped);
            let close = (start..text.len()).find(|&to| closes(to)).unwrap_or(text.len());
            if is_escaped && close < text.len() && close > start { close - 1 } else { close }
        }
        None if is_header(name) => text[start..].find(['"', '\'', '\n']).map_or(text.len(), |to| start + to),
        None => value_end(text, start),
    };
    (start, end)
}

/// The end of a value in brackets; the end of the text where it is not closed.
fn bracket_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut quote, mut at) = (0usize, None, start);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (None, b'"' | b'\'') if bytes[at - 1] != b'\\' => quote = Some(bytes[at]),
            (None, b'[' | b'{' | b'(') => depth += 1,
            (None, b']' | b'}' | b')') => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn is_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("authorization") || name.ends_with("cookie")
}

/// A flag or the name of a variable.
fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// A command line as one text: secrets redacted, words with blanks quoted.
pub fn redact_command(words: &[String]) -> String {
    let mut clean = String::new();
    let mut in_secret = false;
    for word in words {
        let assigned = word.split_once('=').filter(|(name, value)| !value.is_empty() && is_word(name) && is_secret(name));
        let shown: Cow<'_, str> = if let Some((name, _)) = assigned {
            in_secret = false;
            Cow::Owned(format!("{name}={REDACTED}"))
        } else if word.starts_with('-') {
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
            (r#"{"api_keys":["a","SECRET"], "b": 1}"#, r#"{"api_keys":<redacted>, "b": 1}"#),
            (r#"{"secret":{"v":"SEC}RET"},"b":1}"#, r#"{"secret":<redacted>,"b":1}"#),
            (r#"{"tokens":["SECRET"]} tokens: 512"#, r#"{"tokens":<redacted>} tokens: 512"#),
            (r#"{\"api_key\": \"SECRET\", \"b\": 1}"#, r#"{\"api_key\": \"<redacted>\", \"b\": 1}"#),
            (r#"{"password": "a\"SECRET", "b": 1}"#, r#"{"password": "<redacted>", "b": 1}"#),
            (r#"{"api_keys": ["a", "SECRET"#, r#"{"api_keys": <redacted>"#),
            ("{'pw': 'SECRET'}", "{'pw': '<redacted>'}"),
            ("--header 'Cookie: session=SECRET; id=SECRET'", "--header 'Cookie: <redacted>'"),
            (
                "http://h/m?sig=S&signature=S&token=S&key=S&a=1",
                "http://h/m?sig=<redacted>&signature=<redacted>&token=<redacted>&key=<redacted>&a=1",
            ),
            ("scp user:p:w@host:path .", "scp <redacted>@host:path ."),
            ("docker run vllm:v1@sha256:abc", "docker run vllm:v1@sha256:abc"),
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
        let words: Vec<String> = ["DB_PASS=a,b;c", "NGC_API=x", "--api-key=a&b", "vllm"].iter().map(ToString::to_string).collect();
        assert_eq!(redact_command(&words), "DB_PASS=<redacted> NGC_API=<redacted> --api-key=<redacted> vllm");
    }
}
