//! What every engine's log reader shares: a line taken apart, lists of known messages, and where their facts go.
//!
//! An engine's log is a table of [`Known`] messages over the message text. What a message becomes:
//!
//! | fact | where it goes |
//! |---|---|
//! | a setting in effect | `settings`, from "start-up dump" |
//! | a level or a total at that time | `samples`, label `source="log"` |
//! | an event | `logs`, with a kind and `key=value` fields |
//! | an iteration | `steps` |
//!
//! Only numbers and names from known places of known messages are kept; free text (requests with their prompts,
//! exception texts) never is. Prefixes, times and the reading itself are `formats/vllm_log.rs` and
//! `formats/engine_log.rs`.

pub(crate) mod any_server;

use std::collections::BTreeMap;

use capture::Step;

use crate::builder::Builder;
use crate::number::parse_grouped;

/// One line, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) t_ns: i64,
    pub(crate) level: &'a str,
    pub(crate) file: &'a str,
    /// Rank prefix of the line (`TP0`, `DP1 TP2`), empty for none.
    pub(crate) rank: &'a str,
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
    /// Totals by signal and labels.
    totals: BTreeMap<String, f64>,
}

/// Most different totals of one log.
const MAX_TOTALS: usize = 10_000;

impl LogState {
    /// Adds to a total and gives its new value.
    pub(crate) fn grow(&mut self, signal: &str, labels: &str, by: f64) -> f64 {
        let key = format!("{signal}{{{labels}}}");
        if self.totals.len() >= MAX_TOTALS && !self.totals.contains_key(&key) {
            return by;
        }
        let total = self.totals.entry(key).or_insert(0.0);
        *total += by.max(0.0);
        *total
    }
}

/// Reads a message; false when it is none of its kind.
pub(crate) type Reader = fn(&Message<'_>, &mut LogState, &mut Builder<'_>) -> bool;

/// A known message: text it contains, and what reads it.
pub(crate) struct Known {
    pub(crate) part: &'static str,
    pub(crate) read: Reader,
}

pub(crate) const fn known(part: &'static str, read: Reader) -> Known {
    Known { part, read }
}

/// An engine's log, for `formats/engine_log.rs`.
pub(crate) struct LogLines {
    /// Text that only this engine writes.
    pub(crate) signs: &'static [&'static str],
    /// Known messages, most frequent first.
    pub(crate) lines: &'static [Known],
}

/// Lines that carry what a user wrote: whatever they contain, none of it is read.
const REQUESTS: &[&str] = &["Received request ", "Added request ", "Generated response ", "prompt: ", "prompt_token_ids", "Receive: obj="];

/// Reads one message with the first known one that takes it; false when there is none.
pub(crate) fn read<'k>(
    lines: impl IntoIterator<Item = &'k Known>,
    message: &Message<'_>,
    state: &mut LogState,
    builder: &mut Builder<'_>,
) -> bool {
    if REQUESTS.iter().any(|part| message.text.contains(part)) {
        return false;
    }
    lines.into_iter().filter(|known| message.text.contains(known.part)).any(|known| (known.read)(message, state, builder))
}

/// Adds to a total and writes its value at the time of the line. Before a total's first line stands a zero: the log told
/// of none until then.
pub(crate) fn count(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>, signal: &str, labels: &str, by: f64) {
    let is_first = !state.totals.contains_key(&format!("{signal}{{{labels}}}"));
    let total = state.grow(signal, labels, by);
    // A lone line without time stands at 0, where there is no before.
    if is_first && total > 0.0 && message.t_ns > 0 {
        builder.sample(message.t_ns.saturating_sub(1), signal, labels, 0.0);
    }
    builder.sample(message.t_ns, signal, labels, total);
}

/// The number that follows `part`, thousands separators allowed.
pub(crate) fn number_after(text: &str, part: &str) -> Option<f64> {
    leading_number(&text[text.find(part)? + part.len()..])
}

/// The number a text starts with.
pub(crate) fn leading_number(rest: &str) -> Option<f64> {
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | 'e'))).unwrap_or(rest.len());
    parse_grouped(rest[..end].trim_end_matches(['.', ',']))
}

/// The word that follows `part`.
pub(crate) fn word_after<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    let rest = text[text.find(part)? + part.len()..].trim_start();
    let word = rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ')' | '"')).next()?;
    (!word.is_empty()).then_some(word)
}

/// The list in brackets that follows `part`, brackets included: `[1, 2, 4]`.
pub(crate) fn list_after<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    let rest = text[text.find(part)? + part.len()..].trim_start();
    let end = rest.strip_prefix('[')?.find(']')?;
    let list = &rest[..end + 2];
    list[1..=end].chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ')).then_some(list)
}

/// Adds a row of the log with its kind and fields.
pub(crate) fn log(message: &Message<'_>, builder: &mut Builder<'_>, kind: &str, fields: &[(&str, String)]) {
    let text: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    builder.log(message.t_ns, message.level, message.file, kind, &text.join(" "), message.line);
}

/// Adds a setting in effect.
pub(crate) fn dump(message: &Message<'_>, builder: &mut Builder<'_>, key: &str, value: &str) {
    builder.setting(builder.context.replica_setting(), key, value, "start-up dump", message.line);
}

/// Settings of one log that are looked through for one to overrule: a start-up has a few dozen.
const MAX_OVERRULED: usize = 2_000;

/// Like [`dump`], for a line that overrules what an earlier line of the same log said.
pub(crate) fn overrule(message: &Message<'_>, builder: &mut Builder<'_>, key: &str, value: &str) {
    let (key_name, value_name, origin) = (builder.intern(key), builder.intern(value), builder.intern("start-up dump"));
    let settings = &mut builder.capture.tables.settings;
    let mut is_known = false;
    for at in (0..settings.key.len().min(MAX_OVERRULED))
        .filter(|&at| settings.key[at] == key_name && settings.origin[at] == origin)
        .collect::<Vec<_>>()
    {
        settings.value[at] = value_name;
        settings.line[at] = u32::try_from(message.line).unwrap_or(u32::MAX);
        is_known = true;
    }
    if !is_known {
        dump(message, builder, key, value);
    }
}

/// Adds the sizes of captured graphs: the list, and its largest.
pub(crate) fn dump_graph_sizes(message: &Message<'_>, builder: &mut Builder<'_>, list: &str) {
    let sizes = list.trim_matches(['[', ']']).split(',').filter_map(|size| size.trim().parse::<u32>().ok());
    let Some(largest) = sizes.max() else { return };
    dump(message, builder, "config.graph_sizes", list);
    dump(message, builder, "config.graph_max_size", &largest.to_string());
}

/// Labels of a sample read from this log.
pub(crate) fn log_labels(builder: &Builder<'_>, engine: &str, more: &[(&str, &str)]) -> String {
    let mut pairs = vec![("replica", builder.context.replica_label()), ("engine", engine), ("source", "log")];
    pairs.extend_from_slice(more);
    capture::labels::canonical(&pairs)
}

/// One iteration as a log tells it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Iteration {
    pub(crate) elapsed_ns: i64,
    pub(crate) prefill_tokens: Option<i64>,
    pub(crate) decode_seqs: Option<i64>,
    pub(crate) cached_tokens: Option<i64>,
}

/// Adds a row of `steps`. Logs have whole seconds: steps are laid end to end within their second.
pub(crate) fn add_step(message: &Message<'_>, iteration: Iteration, state: &mut LogState, builder: &mut Builder<'_>) {
    let elapsed_ns = iteration.elapsed_ns;
    let end = state.last_step_end_ns.saturating_add(elapsed_ns).clamp(message.t_ns, message.t_ns.saturating_add(999_999_999));
    state.last_step_end_ns = end;
    let phase = match (iteration.prefill_tokens.unwrap_or(0) > 0, iteration.decode_seqs.unwrap_or(0) > 0) {
        (true, true) => "mixed",
        (true, false) => "prefill",
        (false, true) => "decode",
        (false, false) => "",
    };
    let replica = builder.context.replica_label().to_string();
    let row = Step {
        t_start_ns: end.saturating_sub(elapsed_ns),
        t_end_ns: end,
        run_idx: builder.context.run_idx,
        replica: builder.intern(&replica),
        prefill_tokens: iteration.prefill_tokens,
        decode_seqs: iteration.decode_seqs,
        cached_tokens: iteration.cached_tokens,
        phase: builder.intern(phase),
        source_idx: builder.source(),
    };
    builder.capture.tables.steps.push(row);
}
