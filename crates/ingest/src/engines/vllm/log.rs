//! vLLM's log lines: what each known message tells, as a list of matchers over the message text.
//!
//! Only numbers and names from known places of known messages are kept; free text (requests with their prompts,
//! exception texts) never is. The prefix, times and the reading itself are `formats/vllm_log.rs`.

use crate::builder::Builder;
use crate::engines::log::{self as shared, Known, LogState, Message, any_server, dump, known, log, log_labels, number_after, word_after};

mod device;
mod periodic;
mod start_up;

/// Messages of vLLM, most frequent first.
const LINES: &[&[Known]] = &[periodic::LINES, start_up::LINES, device::LINES, any_server::LINES];

/// Reads one message; false when it is none we know.
pub(crate) fn message(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    shared::read(LINES.iter().copied().flatten(), message, state, builder)
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
