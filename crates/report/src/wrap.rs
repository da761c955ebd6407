//! Lines of a given width that never part a figure from its unit.
//!
//! [`glue`] puts a no-break space wherever a reader must not find a line's end: `2.51 s`, `97 %`, `32 of 32`,
//! `--max-num-seqs 64`. [`wrap`] then breaks at plain spaces only. A single word longer than the line is cut hard, unless it
//! is a figure. Commands break at spaces outside quotes with a trailing backslash, so they still paste.

use crate::clean;

/// The space at which no line ends.
pub const NO_BREAK: char = '\u{a0}';

/// Digits beyond which a word is no figure anyone measured.
const LONGEST_FIGURE: usize = 40;

/// Units a figure is written with, without the punctuation behind them.
const UNITS: &[&str] = &[
    "%",
    "s",
    "ms",
    "µs",
    "us",
    "ns",
    "min",
    "h",
    "d",
    "x",
    "B",
    "kB",
    "KB",
    "MB",
    "GB",
    "TB",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "B/s",
    "kB/s",
    "MB/s",
    "GB/s",
    "TB/s",
    "GiB/s",
    "tok/s",
    "token/s",
    "tokens/s",
    "req/s",
    "request/s",
    "requests/s",
    "token",
    "tokens",
    "request",
    "requests",
    "request-seconds",
    "W",
    "kW",
    "Hz",
    "kHz",
    "MHz",
    "GHz",
    "°C",
    "degC",
    "rpm",
];

/// Replaces the spaces inside figures by no-break spaces.
pub fn glue(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut glued = String::with_capacity(text.len());
    for (at, word) in words.iter().enumerate() {
        glued.push_str(word);
        let Some(next) = words.get(at + 1) else { break };
        let after_next = words.get(at + 2).copied().unwrap_or_default();
        let before = if at > 0 { words[at - 1] } else { "" };
        let unit = is_figure(word) && UNITS.contains(&next.trim_end_matches(['.', ',', ';', ':', ')', '?']));
        let ratio =
            is_figure(word) && *next == "of" && starts_figure(after_next) || *word == "of" && is_figure(before) && starts_figure(next);
        let bound = matches!(*word, "under" | "over") && is_figure(next) && after_next.starts_with('%');
        let flag = word.starts_with("--") && word.len() > 2 && starts_figure(next);
        let arrow = *word == "->" && is_figure(before) || *next == "->" && is_figure(word) && starts_figure(after_next);
        glued.push(if unit || ratio || bound || flag || arrow { NO_BREAK } else { ' ' });
    }
    glued
}

/// Wraps a line of text; the result holds plain spaces only. Empty text gives no line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let glued = glue(text);
    flow(glued.split(' ').filter(|word| !word.is_empty()), " ", width)
}

/// Lines of whole items with a separator between them; at a line's end its mark stays where there is room. An item wider than
/// the line is wrapped.
pub fn flow<'a>(items: impl Iterator<Item = &'a str>, separator: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let fitting = |item: &str| if clean::columns(item) <= width { vec![item.to_owned()] } else { cut(item, width) };
    fill(items.map(fitting), separator, width)
}

/// Wraps a shell command at spaces outside quotes; all lines but the last end in a backslash.
pub fn command(text: &str, width: usize) -> Vec<String> {
    let mut lines = fill(shell_words(text).into_iter().map(|word| vec![word]), " ", width.saturating_sub(2));
    let last = lines.len().saturating_sub(1);
    for line in lines.iter_mut().take(last) {
        line.push_str(" \\");
    }
    lines
}

/// Whether a text looks like a command to paste rather than a sentence about one.
pub fn is_command(text: &str) -> bool {
    let words = shell_words(text);
    let starts_low = text.starts_with(|first: char| first.is_ascii_lowercase() || matches!(first, '.' | '/' | '-'));
    let sentence = words.iter().any(|word| !word.starts_with(['\'', '"']) && word.ends_with([',', ';', '.', ':']));
    starts_low && !sentence
}

/// Fills lines with items, whatever their size. An item comes in pieces; each piece but the last ends its line.
fn fill(items: impl Iterator<Item = Vec<String>>, separator: &str, width: usize) -> Vec<String> {
    let mark = separator.trim_end();
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for mut pieces in items {
        let Some(first) = pieces.first() else { continue };
        let joined = used + clean::columns(separator) + clean::columns(first);
        if let Some(line) = lines.last_mut() {
            if joined <= width && pieces.len() == 1 {
                line.push_str(separator);
                line.push_str(first);
                used = joined;
                continue;
            }
            if used + clean::columns(mark) <= width {
                line.push_str(mark);
            }
        }
        used = pieces.last().map_or(0, |last| clean::columns(last));
        lines.append(&mut pieces);
    }
    lines.into_iter().map(|line| line.replace(NO_BREAK, " ")).collect()
}

/// A long item in pieces of at most `width` columns: at its spaces, then at its no-break spaces, then hard inside a word; a figure
/// stays whole.
fn cut(item: &str, width: usize) -> Vec<String> {
    let glued = glue(item);
    let space = [' ', NO_BREAK].into_iter().find(|space| glued.contains(*space));
    if let Some(space) = space {
        return flow(glued.split(space).filter(|word| !word.is_empty()), " ", width);
    }
    if is_figure(item) && item.len() <= LONGEST_FIGURE {
        return vec![item.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for sign in item.chars() {
        let wide = clean::sign_columns(sign);
        if used + wide > width {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(sign);
        }
        used += wide;
    }
    pieces
}

/// A whole figure: `2.4`, `5,640`, `(0.10..0.20`, `<1`, `14.0`.
fn is_figure(word: &str) -> bool {
    starts_figure(word) && word.ends_with(|last: char| last.is_ascii_digit())
}

/// A word that begins as a figure does, whatever follows it: `32,`, `64)`, `600`.
fn starts_figure(word: &str) -> bool {
    let bare = word.trim_start_matches(['(', '[', '<', '>', '~', '≈', '+', '-', '±', '=']);
    let body = bare.trim_end_matches(['.', ',', ';', ':', ')', ']', '?']);
    body.starts_with(|first: char| first.is_ascii_digit())
        && body.chars().all(|sign| sign.is_ascii_digit() || matches!(sign, '.' | ',' | '/' | ':' | '-' | '+' | 'e' | 'x'))
}

/// Splits at spaces outside single and double quotes; an unclosed quote runs to the end.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for sign in text.chars() {
        match (sign, quote) {
            (' ', None) => words.push(String::new()),
            ('\'' | '"', None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            _ => {}
        }
        if let Some(word) = words.last_mut()
            && !(sign == ' ' && quote.is_none())
        {
            word.push(if sign == ' ' { NO_BREAK } else { sign });
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(lines: &[String], expected: &Expect) {
        expected.assert_eq(&lines.iter().map(|line| format!("{line}|\n")).collect::<Vec<_>>().concat());
    }

    #[test]
    fn figures_keep_their_units() {
        let text = "Requests wait 2.4 s for one of 32 seats while 91 % of the cache is free (at 1,234.5 tok/s), under 1 % lost, \
                    32 of 32 taken; set --max-num-seqs 64, then 12.4..14.0 ms.";
        check(
            &wrap(text, 20),
            &expect![[r#"
            Requests wait 2.4 s|
            for one of 32 seats|
            while 91 % of the|
            cache is free (at|
            1,234.5 tok/s),|
            under 1 % lost,|
            32 of 32 taken; set|
            --max-num-seqs 64,|
            then 12.4..14.0 ms.|
        "#]],
        );
    }

    #[test]
    fn a_word_longer_than_the_line_is_cut_but_a_figure_is_not() {
        check(
            &wrap("see aaaaaaaaaabbbbbbbbbbcccc and 123,456,789,012,345 tokens", 10),
            &expect![[r#"
                see|
                aaaaaaaaaa|
                bbbbbbbbbb|
                cccc and|
                123,456,789,012,345|
                tokens|
            "#]],
        );
        check(&wrap("", 10), &expect![[r#""#]]);
    }

    #[test]
    fn items_stay_whole_and_the_mark_stays_where_there_is_room() {
        let items = ["KV full? no, 9 %", "preempted? 0", "step at token budget? no, 2 %"];
        check(
            &flow(items.into_iter(), ". ", 34),
            &expect![[r#"
                KV full? no, 9 %. preempted? 0.|
                step at token budget? no, 2 %|
            "#]],
        );
        check(
            &flow(items.into_iter(), ". ", 20),
            &expect![[r#"
                KV full? no, 9 %.|
                preempted? 0.|
                step at token|
                budget? no, 2 %|
            "#]],
        );
    }

    #[test]
    fn commands_still_paste() {
        let text = "inferoscope record --prometheus 'http://host:9090/api?query=a b c' --window 30m -o run.capture";
        check(
            &command("curl http://10.0.0.1:9090/a/very/long/address/that/must/not/be/cut -s", 30),
            &expect![[r#"
            curl \|
            http://10.0.0.1:9090/a/very/long/address/that/must/not/be/cut \|
            -s|
        "#]],
        );
        check(
            &command(text, 40),
            &expect![[r#"
            inferoscope record --prometheus \|
            'http://host:9090/api?query=a b c' \|
            --window 30m -o run.capture|
        "#]],
        );
        assert!(is_command(text));
        assert!(!is_command("restart with --disable-log-stats off, then scrape again"));
        assert!(!is_command("Ask the owner of the proxy"));
    }

    proptest! {
        #[test]
        fn wrapping_loses_no_word_and_keeps_to_the_width(text in "[a-z0-9%., ]{0,200}", width in 12usize..100) {
            let lines = wrap(&text, width);
            let words = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(words(&lines.concat()), words(&text));
            for line in &lines {
                let unbroken = glue(line).split(' ').count() == 1;
                prop_assert!(clean::columns(line) <= width || unbroken, "{line:?} is wider than {width}");
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", width in 0usize..30) {
            wrap(&text, width);
            command(&text, width);
        }
    }
}
