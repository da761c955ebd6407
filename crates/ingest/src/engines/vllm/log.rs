//! vLLM's log lines: what each known message tells, as a list of matchers over the message text.
//!
//! Only numbers and names from known places of known messages are kept; free text (requests with their prompts,
//! exception texts) never is. The prefix, times and the reading itself are `formats/vllm_log.rs`.

use crate::builder::Builder;
use crate::number::parse_grouped;

mod periodic;
mod python;
mod start_up;

/// One line, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) t_ns: i64,
    pub(crate) level: &'a str,
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) line: u64,
}

/// Running totals that the log only tells per interval, and the place of the last step.
#[derive(Default)]
pub(crate) struct LogState {
    pub(crate) preemptions: f64,
    pub(crate) draft_tokens: f64,
    pub(crate) accepted_tokens: f64,
    pub(crate) last_step_end_ns: i64,
    /// The banner's "version" line was seen: a later "model" line belongs to it.
    pub(crate) start_up_seen: bool,
}

type Reader = fn(&Message<'_>, &mut LogState, &mut Builder<'_>) -> bool;

/// A known message: text it contains, and what reads it.
struct Known {
    part: &'static str,
    read: Reader,
}

const fn known(part: &'static str, read: Reader) -> Known {
    Known { part, read }
}

/// Messages of vLLM, most frequent first.
const LINES: &[&[Known]] = &[periodic::LINES, start_up::LINES, python::LINES];

/// Lines that carry what a user wrote: whatever they contain, none of it is read.
const REQUESTS: &[&str] = &["Received request ", "Added request ", "Generated response ", "prompt: ", "prompt_token_ids"];

/// Reads one message; false when it is none we know.
pub(crate) fn message(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if REQUESTS.iter().any(|part| message.text.contains(part)) {
        return false;
    }
    let lines = LINES.iter().flat_map(|list| list.iter());
    lines.filter(|known| message.text.contains(known.part)).any(|known| (known.read)(message, state, builder))
}

/// Looks for messages that need no engine in one line of an unknown log.
pub(crate) fn common_line(line: &[u8], number: u64, builder: &mut Builder<'_>) {
    if line.len() > 4096 {
        return;
    }
    let text = String::from_utf8_lossy(line);
    let message = Message { t_ns: 0, level: "", file: "", text: &text, line: number };
    let found = python::LINES.iter().find(|known| text.contains(known.part));
    if let Some(known) = found {
        (known.read)(&message, &mut LogState::default(), builder);
    }
}

/// Text that only vLLM writes.
const SIGNS: &[&str] = &["Avg generation throughput: ", " LLM engine (v", " KV cache size: ", "(EngineCore", "(APIServer pid="];
/// Text that vLLM writes and others may; two of them are a sign.
const HINTS: &[&str] = &["non-default args: ", " vLLM ", "vllm/", "[loggers.py:", "Waiting: ", "Running: "];

/// True when the head of a text shows that it is vLLM's log.
pub(crate) fn is_vllm(text: &[u8]) -> bool {
    let has = |part: &&&str| memchr::memmem::find(text, part.as_bytes()).is_some();
    SIGNS.iter().any(|sign| has(&sign)) || HINTS.iter().filter(has).count() >= 2
}

/// The number that follows `part`, thousands separators allowed.
pub(super) fn number_after(text: &str, part: &str) -> Option<f64> {
    let rest = &text[text.find(part)? + part.len()..];
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | 'e'))).unwrap_or(rest.len());
    parse_grouped(rest[..end].trim_end_matches(['.', ',']))
}

/// The word that follows `part`.
fn word_after<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    let rest = text[text.find(part)? + part.len()..].trim_start();
    let word = rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '"')).next()?;
    (!word.is_empty()).then_some(word)
}

fn log(message: &Message<'_>, builder: &mut Builder<'_>, kind: &str, fields: &[(&str, String)]) {
    let text: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    builder.log(message.t_ns, message.level, message.file, kind, &text.join(" "), message.line);
}

fn dump(message: &Message<'_>, builder: &mut Builder<'_>, key: &str, value: &str) {
    builder.setting(builder.context.replica_setting(), key, value, "start-up dump", message.line);
}

/// Labels of a sample read from this log.
pub(super) fn log_labels(builder: &Builder<'_>, engine: &str, more: &[(&str, &str)]) -> String {
    let mut pairs = vec![("replica", builder.context.replica_label()), ("engine", engine), ("source", "log")];
    pairs.extend_from_slice(more);
    capture::labels::canonical(&pairs)
}
