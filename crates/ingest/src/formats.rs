//! The file formats we read, told apart by content.
//!
//! One file per format, one `mod` line and one entry in [`FORMATS`]. A format sniffs the head of a source and reads a
//! source into a [`Builder`]; it never sees a path or another source.

mod aiperf_json;
mod aiperf_jsonl;
mod attachment;
mod bench_result;
pub(crate) mod chunks;
mod client_jsonl;
mod client_row;
mod collective_kernels;
mod command_txt;
mod dcgmi_dmon;
mod device_rows;
mod engine_log;
mod figures;
mod genai_perf_json;
mod guidellm_json;
mod host_jsonl;
mod inference_perf_json;
pub(crate) mod json_lines;
mod kineto_json;
mod log_clock;
mod metric_objects;
mod nginx_conf;
mod nsys_sqlite;
mod nvidia_smi_csv;
mod nvidia_smi_dmon;
pub(crate) mod observations_toml;
mod otlp_json;
mod perf_analyzer_json;
mod perfetto_trackevent;
pub(crate) mod prometheus_text;
mod proxy_jsonl;
mod pyspy_dump;
mod pyspy_raw;
mod rocprofv3_json;
mod sglang_bench_jsonl;
pub(crate) mod stack_parts;
mod vllm_bench_json;
mod vllm_log;

use crate::builder::Builder;
use crate::input::Input;

/// How sure a format is that a source is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// It is something else.
    No,
    /// It can be read if nobody else claims it.
    Fallback,
    /// It looks like it.
    Likely,
    /// It says so.
    Sure,
}

/// What a format may look at to recognize a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    /// First bytes, unpacked.
    pub(crate) head: &'a [u8],
    /// True when the head is the whole source.
    pub(crate) is_whole: bool,
}

impl<'a> Probe<'a> {
    /// Lines of the head; a last line cut by the head's end is left out.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let whole = if self.is_whole { self.head.len() } else { memchr::memrchr(b'\n', self.head).unwrap_or(self.head.len()) };
        self.head[..whole].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)
    }

    /// The first byte that is no white space.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.head.trim_ascii_start().first().copied()
    }

    /// True when the head holds `needle`.
    pub(crate) fn has(&self, needle: &str) -> bool {
        memchr::memmem::find(self.head, needle.as_bytes()).is_some()
    }

    /// True when the head can be shown as text: no zero bytes, hardly any other control characters.
    pub(crate) fn is_text(&self) -> bool {
        let control = self.head.iter().filter(|byte| **byte < 9 || (**byte > 13 && **byte < 32 && **byte != 27)).count();
        control * 100 <= self.head.len()
    }
}

/// When a format is read: later stages are told what the earlier ones found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Sources with an absolute clock, or none.
    Clocked,
    /// Sources whose clock must be brought to that of the others.
    Floating,
}

/// One file format.
pub(crate) struct Format {
    /// Id as it stands in `Source::format`.
    pub(crate) id: &'static str,
    /// When it is read.
    pub(crate) stage: Stage,
    /// Tells whether a source is of this format.
    pub(crate) sniff: fn(&Probe<'_>) -> Confidence,
    /// Reads a source.
    pub(crate) read: fn(&mut Input<'_>, &mut Builder<'_>),
}

/// All formats; among equally sure ones the first wins.
pub(crate) const FORMATS: &[Format] = &[
    prometheus_text::FORMAT,
    vllm_log::FORMAT,
    vllm_bench_json::FORMAT,
    sglang_bench_jsonl::FORMAT,
    guidellm_json::FORMAT,
    aiperf_json::FORMAT,
    aiperf_jsonl::FORMAT,
    inference_perf_json::FORMAT,
    genai_perf_json::FORMAT,
    perf_analyzer_json::FORMAT,
    client_jsonl::FORMAT,
    proxy_jsonl::FORMAT,
    host_jsonl::FORMAT,
    nvidia_smi_csv::FORMAT,
    nvidia_smi_dmon::FORMAT,
    dcgmi_dmon::FORMAT,
    pyspy_raw::FORMAT,
    pyspy_dump::FORMAT,
    nsys_sqlite::FORMAT,
    rocprofv3_json::FORMAT,
    perfetto_trackevent::FORMAT,
    otlp_json::FORMAT,
    kineto_json::FORMAT,
    command_txt::FORMAT,
    observations_toml::FORMAT,
    engine_log::FORMAT,
    nginx_conf::FORMAT,
    attachment::FORMAT,
];

/// The format of a source.
pub(crate) fn sniff(probe: &Probe<'_>) -> &'static Format {
    let mut best = &attachment::FORMAT;
    let mut confidence = Confidence::No;
    for format in FORMATS {
        let found = (format.sniff)(probe);
        if found > confidence {
            (best, confidence) = (format, found);
        }
    }
    best
}
