//! The file in which past predictions and their outcomes are kept: where it is, and appending to it.
//!
//! One line per verification, appended in one write under a lock, so that any number of runs may append at once. A line
//! that a crash cut short costs itself: the next append begins on a line of its own.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use analysis::track_record::{Entry, Ledger};
use anyhow::{Context as _, bail};
use report::clean;

/// Far more than anybody verifies; a larger file is something else.
const MAX_BYTES: u64 = 64 << 20;

/// Where the ledger is, if one is to be used.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LedgerArgs {
    /// File with past predictions and outcomes [default: inferoscope/ledger.jsonl in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FILE", conflicts_with = "no_ledger")]
    ledger: Option<PathBuf>,

    /// Neither read nor write past predictions and outcomes
    #[arg(long)]
    no_ledger: bool,
}

impl LedgerArgs {
    /// A file the user named, or none.
    pub(crate) fn named(ledger: Option<PathBuf>) -> Self {
        Self { no_ledger: ledger.is_none(), ledger }
    }

    /// The file; `None` when none is to be used, or nobody says where the user's data is.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        if self.no_ledger { None } else { self.ledger.clone().or_else(default_path) }
    }

    /// True when the user named the file, so that failing to use it is an error.
    pub(crate) fn is_named(&self) -> bool {
        self.ledger.is_some()
    }

    /// What is in it; nothing where there is no file yet. Damage, and a default file that cannot be read, are told and
    /// cost only themselves.
    pub(crate) fn read(&self) -> anyhow::Result<Ledger> {
        let Some(path) = self.path() else { return Ok(Ledger::default()) };
        match read(&path) {
            Ok(ledger) => Ok(ledger),
            Err(error) if self.is_named() => Err(error),
            Err(error) => {
                tell(&format!("past predictions are left out: {error:#}"));
                Ok(Ledger::default())
            }
        }
    }

    /// Appends `entry`, unless the ledger already says the same of the same pair.
    pub(crate) fn append(&self, entry: &Entry) -> anyhow::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        match append(&path, entry) {
            Err(error) if !self.is_named() => {
                tell(&format!("the outcome was not kept: {error:#}"));
                Ok(())
            }
            result => result,
        }
    }
}

/// `$XDG_DATA_HOME/inferoscope/ledger.jsonl`; a relative or empty value does not count, as the XDG specification has it.
pub(crate) fn default_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("inferoscope/ledger.jsonl"))
}

fn read(path: &Path) -> anyhow::Result<Ledger> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ledger::default()),
        opened => opened.with_context(|| format!("could not read ledger `{}`", path.display()))?,
    };
    let ledger = Ledger::read(&bytes_of(&file, path)?);
    tell_damage(path, &ledger);
    Ok(ledger)
}

fn bytes_of(file: &File, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("could not read ledger `{}`", path.display()))?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("`{}` is larger than 64 MiB, so it is not read as a ledger; name another file", path.display());
    }
    Ok(bytes)
}

fn tell_damage(path: &Path, ledger: &Ledger) {
    if let Some(first) = ledger.damaged.first() {
        let lines = if ledger.damaged.len() == 1 { "1 line".to_string() } else { format!("{} lines", ledger.damaged.len()) };
        let sentence = "expected an entry of `inferoscope.ledger/1`";
        tell(&format!("{lines} of ledger `{}` left out, the first is line {first}: {sentence}", path.display()));
    }
}

fn append(path: &Path, entry: &Entry) -> anyhow::Result<()> {
    let failed = || format!("could not write ledger `{}`", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(failed)?;
    file.lock().with_context(failed)?; // released when the file is closed, whatever happens
    let bytes = bytes_of(&file, path)?;
    let ledger = Ledger::read(&bytes);
    if bytes.iter().any(|byte| !byte.is_ascii_whitespace()) && ledger.entries.is_empty() {
        bail!("`{}` exists and holds no entry of a ledger, so it is not written to; name another file", path.display());
    }
    tell_damage(path, &ledger);
    let same = |known: &Entry| Entry { time_ns: entry.time_ns, ..known.clone() } == *entry;
    if ledger.entries.iter().any(same) {
        return Ok(());
    }
    let break_before = if bytes.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
    file.write_all(format!("{break_before}{}", entry.line()).as_bytes()).with_context(failed)
}

/// A remark on stderr; nobody is left to tell when it is closed.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "note: {}", clean::line(text));
}
