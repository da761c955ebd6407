//! Splits a command line into words as a POSIX shell would: quotes, backslashes, nothing else.

/// The words of a command line. An unclosed quote ends at the end of the text.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') => match characters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                Some(other) => word.extend(['\\', other]),
                None => word.push('\\'),
            },
            (Some(_), inside) => word.push(inside),
            (None, '\'' | '"') => {
                quote = Some(character);
                in_word = true;
            }
            (None, '\\') => {
                if let Some(escaped) = characters.next()
                    && escaped != '\n'
                {
                    word.push(escaped);
                    in_word = true;
                }
            }
            (None, blank) if blank.is_whitespace() => {
                if std::mem::take(&mut in_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, plain) => {
                word.push(plain);
                in_word = true;
            }
        }
    }
    if in_word {
        words.push(word);
    }
    words
}

/// `NAME=value` as an assignment of an environment variable.
pub fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name =
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(words(r#"A=1 vllm serve 'a b' --x "{\"k\": 1}" c\ d"#), ["A=1", "vllm", "serve", "a b", "--x", "{\"k\": 1}", "c d"]);
        assert_eq!(words("  "), Vec::<String>::new());
        assert_eq!(words("''"), [""]);
        assert_eq!(assignment("VLLM_USE_V1=1"), Some(("VLLM_USE_V1", "1")));
        assert_eq!(assignment("--a=1"), None);
    }
}
