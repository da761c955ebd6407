//! Text from outside, made safe to show.
//!
//! Names, sentences and places in a report come from metrics, logs and command lines that anyone can shape. Control
//! characters would move a terminal's cursor, bidirectional marks would reorder a line, and a name of a megabyte would
//! bury the verdict. Markup is escaped by the view that writes markup.

/// One line without control, formatting or bidirectional characters; every kind of white space becomes one space.
pub fn line(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut pending_space = false;
    for sign in text.chars() {
        if sign.is_whitespace() && sign != '\u{a0}' {
            pending_space = !cleaned.is_empty();
        } else if !is_unsafe(sign) {
            if pending_space {
                cleaned.push(' ');
                pending_space = false;
            }
            cleaned.push(sign);
        }
    }
    cleaned
}

/// The same, keeping line breaks and indentation: for pages and listings.
pub fn block(text: &str) -> String {
    text.chars().map(|sign| if sign == '\t' { ' ' } else { sign }).filter(|sign| *sign == '\n' || !is_unsafe(*sign)).collect()
}

/// A cleaned line of at most `limit` characters, cut between words and ended with `...`; a figure that may have lost its unit goes too.
pub fn short(text: &str, limit: usize) -> String {
    let cleaned = line(text);
    let Some((cut, _)) = cleaned.char_indices().nth(limit) else { return cleaned };
    let kept = cleaned.char_indices().nth(limit.saturating_sub(3)).map_or(cut, |(at, _)| at);
    let end = cleaned[..kept].rfind(' ').filter(|space| *space > kept / 2).unwrap_or(kept);
    let mut shortened = cleaned[..end].trim_end();
    while let Some((before, last)) = shortened.rsplit_once(' ')
        && last.ends_with(|sign: char| sign.is_ascii_digit())
    {
        shortened = before.trim_end();
    }
    format!("{shortened}...")
}

/// A cleaned name of at most `limit` characters; the middle goes, since names differ at their ends.
pub fn name(text: &str, limit: usize) -> String {
    let cleaned = line(text);
    let length = cleaned.chars().count();
    if length <= limit {
        return cleaned;
    }
    let kept = limit.saturating_sub(3);
    let head: String = cleaned.chars().take(kept - kept / 2).collect();
    let tail: String = cleaned.chars().skip(length - kept / 2).collect();
    format!("{head}...{tail}")
}

/// Columns a text takes on a terminal: two for wide East Asian signs and emoji, none for combining marks.
pub fn columns(text: &str) -> usize {
    text.chars().map(sign_columns).sum()
}

/// Columns of one sign.
pub fn sign_columns(sign: char) -> usize {
    match u32::from(sign) {
        0x0300..=0x036f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Control characters, and the invisible ones that reorder, hide or join text.
pub(crate) fn is_unsafe(sign: char) -> bool {
    sign.is_control()
        || matches!(u32::from(sign), 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_escape() {
        assert_eq!(line("\u{1b}[31mred\u{1b}[0m\u{7}\u{9b}2J"), "[31mred[0m2J");
        assert_eq!(line("a\r\nb\tc  \u{2028}d "), "a b c d");
        assert_eq!(line("user\u{202e}gpj.exe\u{200b}\u{e0041}"), "usergpj.exe");
        assert_eq!(line("70 % größer 模型"), "70 % größer 模型");
        assert_eq!(block("a\n\tb\u{1b}[2J\r"), "a\n b[2J");
    }

    #[test]
    fn long_text_is_cut_between_words_and_long_names_in_the_middle() {
        assert_eq!(short("one two three four", 12), "one two...");
        assert_eq!(short("onetwothreefour", 12), "onetwothr...");
        assert_eq!(short("one two", 12), "one two");
        assert_eq!(short("waits of 2.41 s each", 17), "waits of...");
        assert_eq!(name("meta-llama/Llama-3.1-8B-Instruct", 20), "meta-llam...Instruct");
        assert_eq!(name("short", 20), "short");
        assert_eq!(name(&"é".repeat(100), 10).chars().count(), 10);
    }

    #[test]
    fn wide_signs_take_two_columns() {
        assert_eq!(columns("abc"), 3);
        assert_eq!(columns("模型"), 4);
        assert_eq!(columns("e\u{301}"), 1);
    }
}
