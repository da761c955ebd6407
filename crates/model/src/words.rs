//! Splitting device and model names into comparable words, so that spelling does not decide what is found.

/// Most bytes of a name that are looked at; real names are far shorter.
const LONGEST_NAME: usize = 256;

/// Lower-case words of `name`: split at anything but letters, digits and a point between digits, and where leading
/// letters meet a digit (`qwen2.5` is `qwen`, `2.5`; `8x7b` stays whole).
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = name.char_indices().take_while(|(at, _)| *at < LONGEST_NAME).map(|(_, c)| c.to_ascii_lowercase()).peekable();
    while let Some(c) = rest.next() {
        let point = c == '.' && word.ends_with(|last: char| last.is_ascii_digit()) && rest.peek().is_some_and(char::is_ascii_digit);
        if !c.is_ascii_alphanumeric() && !point {
            end(&mut words, &mut word);
            continue;
        }
        if c.is_ascii_digit() && !word.is_empty() && word.chars().all(|seen| seen.is_ascii_alphabetic()) {
            end(&mut words, &mut word);
        }
        word.push(c);
    }
    end(&mut words, &mut word);
    words
}

/// True when `phrase` stands in `words` without a gap.
pub(crate) fn contains(words: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && words.windows(phrase.len()).any(|window| window == phrase)
}

fn end(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_where_a_reader_would() {
        for (name, expected) in [
            ("NVIDIA H100 80GB HBM3", "nvidia h 100 80gb hbm 3"),
            ("NVIDIA A100-SXM4-80GB", "nvidia a 100 sxm 4 80gb"),
            ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen qwen 2.5 7b instruct awq"),
            ("Mixtral-8x7B-v0.1", "mixtral 8x7b v 0.1"),
            ("v0.", "v 0"),
            ("...", ""),
        ] {
            assert_eq!(words(name).join(" "), expected, "{name}");
        }
    }
}
