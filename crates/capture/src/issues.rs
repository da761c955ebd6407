//! How bad an issue is. Issues are rows of the `issues` table: what was lost, where, and how much.

/// Severity of an issue with the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something worth knowing that costs nothing.
    Note,
    /// Evidence was lost or had to be repaired; checks that used the source are less sure.
    Warning,
    /// A source could not be used at all.
    Error,
}

impl Severity {
    /// The word used in tables and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Code of the issue that names a profiler's timeline which was left out unread, since nothing of it was asked for.
pub const PROFILE_SKIPPED: &str = "profile_skipped";
