//! Just enough of Rust's syntax to find functions and their length: comments and literals are blanked, braces counted.

/// A function and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Lines from `fn` to the closing brace.
    pub(super) line_count: usize,
}

/// The part of a file before its own test module.
pub(super) fn without_tests(text: &str) -> &str {
    let mut start = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let opens_tests = lines.peek().is_some_and(|next| next.starts_with("mod ") && next.trim_end().ends_with('{'));
        if line.trim_end() == "#[cfg(test)]" && opens_tests {
            return &text[..start];
        }
        start += line.len();
    }
    text
}

/// All functions with a body, nested ones included.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let code = blanked(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = at == 0 || !is_word_byte(code.as_bytes()[at - 1]);
        let name: String = code[at + 3..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !is_word || name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(&code.as_bytes()[at..]) {
            let line_count = 1 + code[at..=at + end].matches('\n').count();
            found.push(Function { name, line_count });
        }
    }
    found
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offset of the brace that closes the first body; nothing for a declaration.
fn body_end(code: &[u8]) -> Option<usize> {
    let (mut braces, mut others) = (0usize, 0isize);
    for (at, byte) in code.iter().enumerate() {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others -= 1,
            b';' if braces == 0 && others == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text with comments and literals turned into spaces, byte for byte, line ends kept.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    while code.len() < bytes.len() {
        let at = code.len();
        let length =
            if at > 0 && is_word_byte(bytes[at - 1]) && !matches!(bytes[at], b'"' | b'\'') { 0 } else { literal_or_comment(&bytes[at..]) };
        if length == 0 {
            code.push(bytes[at]);
        } else {
            let end = (at + length).min(bytes.len());
            code.extend(bytes[at..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
        }
    }
    String::from_utf8_lossy(&code).into_owned()
}

/// Length of the comment or literal at the start, 0 for code.
fn literal_or_comment(rest: &[u8]) -> usize {
    let line = |rest: &[u8]| rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    match rest {
        [b'/', b'/', ..] => line(rest),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest),
        [b'b' | b'c', b'"', ..] => 1 + quoted(&rest[1..]),
        [b'b', b'\'', ..] => 1 + literal_or_comment(&rest[1..]),
        [b'r', b'"' | b'#', ..] => raw(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw(rest, 2),
        [b'\'', b'\\', ..] => 2 + rest.iter().skip(3).position(|&byte| byte == b'\'').map_or(0, |end| end + 2),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A raw string whose `r` stands before `prefix`; 0 for a raw identifier.
fn raw(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = prefix + hashes + 1;
    rest[body..].windows(end.len()).position(|window| window == end).map_or(rest.len(), |at| body + at + end.len())
}

/// A character literal (`'x'`, `'é'`); 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    (2..=5)
        .find(|&end| rest.get(end) == Some(&b'\'') && !rest[1..end].contains(&b'\n') && (end == 2 || rest[1] >= 0x80))
        .map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<(String, usize)> {
        functions(text).into_iter().map(|function| (function.name, function.line_count)).collect()
    }

    #[test]
    fn braces_in_literals_and_comments_do_not_count() {
        let text = r##"
fn first<'a>(x: &'a str) -> bool {
    let _ = ['{', '\'', '}', 'é'];
    let _ = [b'"', b'{', b'\'', b'\\'];
    // } fn not_one() {
    /* } /* nested } */ */
    let _ = "}\"}" == r#"} " }"# || b"}" == br"}";
    x.is_empty()
}

trait Shape {
    fn declared(&self, sides: [u8; 2]);
    fn given(&self) {
        fn inner() {}
        inner()
    }
}
"##;
        let expected = [("first", 8), ("given", 4), ("inner", 1)].map(|(name, lines)| (name.to_string(), lines));
        assert_eq!(sizes(text), expected);
    }

    #[test]
    fn function_pointers_and_raw_names_are_no_functions() {
        assert_eq!(sizes("struct A { run: fn (u8) -> u8, r#fn: u8 }\nconst B: fn() = || ();"), []);
    }

    #[test]
    fn tests_are_not_counted() {
        assert_eq!(without_tests("fn a() {}\n#[cfg(test)]\nmod tests {\n}\n"), "fn a() {}\n");
        let outside = "#[cfg(test)]\nmod edges;\nfn a() {}\n";
        assert_eq!(without_tests(outside), outside);
    }
}
