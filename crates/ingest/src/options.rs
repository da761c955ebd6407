//! Limits of an import. Every limit exists so that a hostile or mistaken input costs bounded memory and time.

use std::fmt;

use crate::builder::MAX_REQUESTS;

/// How far an import has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sources finished.
    pub sources_done: usize,
    /// Sources found.
    pub sources_total: usize,
    /// Bytes read so far, as found (before unpacking).
    pub bytes_done: u64,
}

/// Limits, and where to report progress.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Most bytes read of one source as found; the rest is left out with an issue.
    pub max_source_bytes: u64,
    /// Most bytes one source may unpack to; the rest is left out with an issue.
    pub max_decoded_bytes: u64,
    /// Longest line that is looked at; longer ones are skipped with an issue.
    pub max_line_bytes: usize,
    /// Most files taken from the inputs; the rest is left out with an issue.
    pub max_files: usize,
    /// Most request rows taken from one source; the rest is left out with an issue.
    pub max_requests: usize,
    /// Takes every operator and Python frame of a trace, which are most of it; without, only those around waits and copies.
    pub host_frames: bool,
    /// Leaves timelines of profilers out unread, with a note: for those who ask about requests alone.
    pub skip_profiles: bool,
    /// Threads that read one large trace; 0 for as many as there are cores.
    pub threads: usize,
    /// Called after each source.
    pub progress: Option<&'a dyn Fn(Progress)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            max_source_bytes: 16 << 30,
            max_decoded_bytes: 16 << 30,
            max_line_bytes: 8 << 20,
            max_files: 100_000,
            max_requests: MAX_REQUESTS,
            host_frames: false,
            skip_profiles: false,
            threads: 0,
            progress: None,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("max_source_bytes", &self.max_source_bytes)
            .field("max_decoded_bytes", &self.max_decoded_bytes)
            .field("max_line_bytes", &self.max_line_bytes)
            .field("max_files", &self.max_files)
            .field("max_requests", &self.max_requests)
            .field("host_frames", &self.host_frames)
            .field("skip_profiles", &self.skip_profiles)
            .field("threads", &self.threads)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}
