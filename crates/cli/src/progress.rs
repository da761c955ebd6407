//! Progress on stderr: only for people (stderr is a terminal), and only for work that takes longer than a second.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when the work takes long, and is gone when it is done.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    is_watched: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress {
    /// Starts the clock.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), is_watched: std::io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    /// Tells a person something worth knowing before the answer.
    pub(crate) fn note(&self, text: &str) {
        if self.is_watched {
            // A note that cannot be written is no reason to stop.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }

    /// Shows how far the work is.
    pub(crate) fn show(&self, what: &str, done: u64, total: u64) {
        if !self.is_watched || self.started.elapsed() < PATIENCE {
            return;
        }
        let Ok(mut slot) = self.bar.lock() else { return };
        let bar = slot.get_or_insert_with(|| ProgressBar::new(total).with_style(style()));
        bar.set_length(total);
        bar.set_position(done.min(total));
        bar.set_message(what.to_string());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Ok(slot) = self.bar.get_mut()
            && let Some(bar) = slot.take()
        {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar())
}
