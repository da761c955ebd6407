//! What the terminal can show: width, color, block characters.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use report::views::terminal::TerminalOptions;

/// Width the screens are made for; a narrower terminal gets its own width.
const DEFAULT_WIDTH: usize = 80;
/// Below this no screen is readable.
pub(crate) const MIN_WIDTH: usize = 40;
/// Above this a line is hard to follow.
pub(crate) const MAX_WIDTH: usize = 120;

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// How to draw on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    width: usize,
    color: bool,
    blocks: bool,
}

/// What the environment says about stdout.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
struct Surroundings {
    is_terminal: bool,
    no_color: bool,
    is_dumb: bool,
    is_utf8: bool,
    width: Option<usize>,
}

impl Screen {
    /// How to draw on this process's stdout.
    pub(crate) fn of_stdout(choice: ColorChoice) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find(|name| set(name)).and_then(|name| std::env::var(name).ok());
        let around = Surroundings {
            is_terminal,
            no_color: set("NO_COLOR"),
            is_dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
            is_utf8: locale.is_some_and(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8")),
            width: is_terminal.then(|| console::Term::stdout().size_checked()).flatten().map(|(_, columns)| columns as usize),
        };
        Self::decide(choice, &around)
    }

    fn decide(choice: ColorChoice, around: &Surroundings) -> Self {
        let auto = around.is_terminal && !around.no_color && !around.is_dumb;
        let color = match choice {
            ColorChoice::Auto => auto,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let width = around.width.map_or(DEFAULT_WIDTH, |width| width.clamp(MIN_WIDTH, DEFAULT_WIDTH));
        Self { width, color, blocks: around.is_terminal && around.is_utf8 && !around.is_dumb }
    }

    /// Options for the terminal views; `width` is the user's wish.
    pub(crate) fn options(&self, width: Option<usize>) -> TerminalOptions {
        TerminalOptions { width: width.unwrap_or(self.width), color: self.color, blocks: self.blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> Surroundings {
        Surroundings { is_terminal: true, no_color: false, is_dumb: false, is_utf8: true, width: Some(120) }
    }

    #[test]
    fn color_is_for_terminals_that_want_it() {
        let color = |choice, around: &Surroundings| Screen::decide(choice, around).color;
        assert!(color(ColorChoice::Auto, &terminal()));
        assert!(!color(ColorChoice::Auto, &Surroundings { no_color: true, ..terminal() }));
        assert!(!color(ColorChoice::Auto, &Surroundings { is_dumb: true, ..terminal() }));
        assert!(!color(ColorChoice::Auto, &Surroundings { is_terminal: false, ..terminal() }));
        assert!(color(ColorChoice::Always, &Surroundings { is_terminal: false, no_color: true, ..terminal() }));
        assert!(!color(ColorChoice::Never, &terminal()));
    }

    #[test]
    fn a_narrow_terminal_is_respected_and_a_wide_one_stays_at_80() {
        let width = |width| Screen::decide(ColorChoice::Auto, &Surroundings { width, ..terminal() }).width;
        assert_eq!((width(Some(120)), width(Some(60)), width(Some(7)), width(None)), (80, 60, 40, 80));
    }

    #[test]
    fn block_characters_need_a_terminal_that_knows_them() {
        assert!(Screen::decide(ColorChoice::Never, &terminal()).blocks);
        assert!(!Screen::decide(ColorChoice::Always, &Surroundings { is_utf8: false, ..terminal() }).blocks);
        assert!(!Screen::decide(ColorChoice::Always, &Surroundings { is_terminal: false, ..terminal() }).blocks);
    }
}
