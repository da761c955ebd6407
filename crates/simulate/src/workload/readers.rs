//! Published request traces and request logs, told apart by their content, read line by line.
//!
//! A format is one row of [`Format::ALL`]: the names of its fields and the unit of its clock. A line that does not fit
//! is counted, the first ones are kept with field, expected and found, and reading goes on; a file of which most lines do
//! not fit is an error. Requests that produced no token (failed ones in BurstGPT) are counted apart.

mod csv_lines;
mod json_lines;

use std::io::BufRead;

use thiserror::Error;

use super::lines::{LineFault, Lines};
use super::{Builder, Request, Workload};

/// The schemas that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Mooncake (FAST 2025): JSON lines, `timestamp` in milliseconds, `hash_ids` of 512 tokens.
    Mooncake,
    /// Qwen-Bailian: JSON lines with `chat_id`, `timestamp` in seconds, `hash_ids` of 16 tokens.
    Bailian,
    /// LLMServingSim's record of a vLLM run, or its data set: JSON lines with `input_toks`, `output_toks`.
    EngineLog,
    /// Azure LLM inference 2023 and 2024: CSV with `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`.
    Azure,
    /// BurstGPT: CSV with `Timestamp` in seconds, `Request tokens`, `Response tokens`.
    BurstGpt,
    /// Bare lengths: CSV with `arrival_time_ns`, `input_toks`, `output_toks`.
    Lengths,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Mooncake, Self::Bailian, Self::EngineLog, Self::Azure, Self::BurstGpt, Self::Lengths];

    /// Tokens per id of `hash_ids`, 0 where the format has none.
    pub fn hash_block_tokens(self) -> u32 {
        match self {
            Self::Mooncake => 512,
            Self::Bailian => 16,
            _ => 0,
        }
    }
}

/// How much is read at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line.
    pub line_bytes: usize,
    /// Requests of the file (32 bytes each).
    pub requests: usize,
    /// Block ids of the file (4 bytes each, and about 16 for each different one while reading).
    pub blocks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 4 << 20, requests: 20_000_000, blocks: 200_000_000 }
    }
}

/// A line that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: u64,
    /// The field, or `line` when it is the line as a whole.
    pub field: &'static str,
    /// What the format has there.
    pub expected: &'static str,
    /// What was there, cut to 40 characters.
    pub found: String,
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The input ended with an error of the system.
    #[error("line {line}: could not read: {source}")]
    Io {
        /// Line in work, from 1.
        line: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The first line belongs to no format.
    #[error("line {line}: expected the header or first record of a request trace, found `{found}`")]
    Unknown {
        /// From 1.
        line: u64,
        /// Its start.
        found: String,
    },
    /// No line at all.
    #[error("expected a request trace, found no line")]
    Empty,
    /// Too much of it does not fit.
    #[error("{damaged} of {lines} lines do not fit; line {}, `{}`: expected {}, found `{}`", first.line, first.field, first.expected, first.found)]
    Damaged {
        /// How many lines do not fit.
        damaged: u64,
        /// How many there are.
        lines: u64,
        /// The first.
        first: Damage,
    },
    /// A limit was reached.
    #[error("line {line}: expected at most {limit} {what}, found more")]
    TooMuch {
        /// From 1.
        line: u64,
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// What a file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its requests.
    pub workload: Workload,
    /// Its schema.
    pub format: Format,
    /// Lines with text, header included.
    pub line_count: u64,
    /// Lines that do not fit.
    pub damaged_count: u64,
    /// The first of them, at most [`KEPT_DAMAGE`].
    pub damage: Vec<Damage>,
    /// Requests without an answer, left out.
    pub unanswered_count: u64,
}

/// How many damaged lines are kept with their reason.
pub const KEPT_DAMAGE: usize = 20;

/// One record as any of the formats has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    arrival_ns: i64,
    prompt_tokens: i64,
    output_tokens: i64,
    session: u32,
    blocks: Vec<u64>,
}

/// What is wrong with a line: field, expected, found.
type Fault = (&'static str, &'static str, String);

/// Reads lines of one of the two notations.
trait RecordReader {
    fn record(&mut self, line: &str, record: &mut Record) -> Result<(), Fault>;
}

/// Reads a trace. Damaged lines are counted; I/O errors, unknown formats and mostly damaged files are errors.
pub fn read<R: BufRead>(input: &mut R, limits: Limits) -> Result<Reading, ReadError> {
    let mut lines = Lines::new(input, limits.line_bytes);
    let Some((format, mut reader, first)) = opened(&mut lines)? else { return Err(ReadError::Empty) };
    let mut state = Collected { builder: Builder::default(), limits, line_count: 1, damaged_count: 0, damage: Vec::new(), unanswered: 0 };
    let mut record = Record::default();
    // A first line that is a record and not a header counts as any other.
    if let Some(text) = first {
        let outcome = reader.record(&text, &mut record);
        state.take(lines.number, outcome, &record)?;
    }
    loop {
        let number = lines.number + 1;
        let Some(line) = lines.next().map_err(|source| ReadError::Io { line: number, source })? else { break };
        let outcome = match line {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => reader.record(text, &mut record),
            Err(LineFault::TooLong) => Err(("line", "a shorter line", format!("more than {} bytes", limits.line_bytes))),
            Err(LineFault::NotText) => Err(("line", "UTF-8 text", "other bytes".to_string())),
        };
        state.line_count += 1;
        state.take(number, outcome, &record)?;
    }
    state.finish(format)
}

type Opened = (Format, Box<dyn RecordReader>, Option<String>);

/// The format by the first line with text.
fn opened<R: BufRead>(lines: &mut Lines<'_, R>) -> Result<Option<Opened>, ReadError> {
    loop {
        let number = lines.number + 1;
        let Some(line) = lines.next().map_err(|source| ReadError::Io { line: number, source })? else { return Ok(None) };
        let text = line.unwrap_or("not text").trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            continue;
        }
        if let Some(opened) = csv_lines::open(text) {
            return Ok(Some((opened.0, Box::new(opened.1), None)));
        }
        if let Some((format, reader)) = json_lines::open(text) {
            return Ok(Some((format, Box::new(reader), Some(text.to_string()))));
        }
        return Err(ReadError::Unknown { line: number, found: shortened(text) });
    }
}

/// At most 40 characters of what was found.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

struct Collected {
    builder: Builder,
    limits: Limits,
    line_count: u64,
    damaged_count: u64,
    damage: Vec<Damage>,
    unanswered: u64,
}

impl Collected {
    fn take(&mut self, line: u64, outcome: Result<(), Fault>, record: &Record) -> Result<(), ReadError> {
        let outcome = outcome.and_then(|()| request_of(record));
        match outcome {
            Ok(None) => self.unanswered += 1,
            Ok(Some(request)) => {
                self.room(line, "requests", self.builder.len() + 1, self.limits.requests)?;
                self.room(line, "block ids", self.builder.block_count() + record.blocks.len(), self.limits.blocks)?;
                self.builder.push(request, &record.blocks);
            }
            Err((field, expected, found)) => {
                self.damaged_count += 1;
                if self.damage.len() < KEPT_DAMAGE {
                    self.damage.push(Damage { line, field, expected, found: shortened(&found) });
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "reads as a question to the collection")]
    fn room(&self, line: u64, what: &'static str, count: usize, limit: usize) -> Result<(), ReadError> {
        if count > limit.min(u32::MAX as usize) { Err(ReadError::TooMuch { line, what, limit }) } else { Ok(()) }
    }

    fn finish(mut self, format: Format) -> Result<Reading, ReadError> {
        if self.damaged_count * 2 > self.line_count {
            let first = self.damage.swap_remove(0);
            return Err(ReadError::Damaged { damaged: self.damaged_count, lines: self.line_count, first });
        }
        Ok(Reading {
            workload: self.builder.finish(format.hash_block_tokens()),
            format,
            line_count: self.line_count,
            damaged_count: self.damaged_count,
            damage: self.damage,
            unanswered_count: self.unanswered,
        })
    }
}

/// The request of a record, nothing when there was no answer.
fn request_of(record: &Record) -> Result<Option<Request>, Fault> {
    let length = |field, tokens: i64| {
        u32::try_from(tokens).ok().filter(|&tokens| tokens <= MOST_TOKENS).ok_or((field, "0 to 100000000 tokens", tokens.to_string()))
    };
    let (prompt, output) = (length("prompt tokens", record.prompt_tokens)?, length("output tokens", record.output_tokens)?);
    if prompt == 0 || output == 0 {
        return Ok(None);
    }
    Ok(Some(Request { session: record.session, ..Request::new(record.arrival_ns, prompt, output) }))
}

/// Longest prompt or answer that is believed.
const MOST_TOKENS: u32 = 100_000_000;

#[cfg(test)]
mod tests;
