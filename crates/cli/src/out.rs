//! Writing to stdout. A reader that goes away (`| head -1`) is no error.

use std::io::{ErrorKind, Write as _};

use anyhow::Context as _;

/// Writes the whole of `text` to stdout and flushes it.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("could not write to stdout"),
        _ => Ok(()),
    }
}
