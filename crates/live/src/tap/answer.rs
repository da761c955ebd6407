//! What an answer's body tells of times and counts: events of a stream, or one document. Its texts are looked at and forgotten.

use serde_json::Value;

use super::rows::{Passage, Rows};

/// Bytes of one event, or of a document, that are looked at.
const MAX_LOOKED_AT: usize = 1 << 20;

/// A body under way.
#[derive(Debug)]
pub(super) struct Answer {
    is_stream: bool,
    is_packed: bool,
    /// The line of the stream, or the document, so far; `None` once it is too long.
    text: Option<Vec<u8>>,
    chunk_count: u32,
    last_chunk_ns: Option<i64>,
}

/// What a delta holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delta {
    has_role: bool,
    has_reasoning: bool,
    has_content: bool,
}

impl Answer {
    pub(super) fn new(is_stream: bool, is_packed: bool) -> Self {
        Self { is_stream, is_packed, text: Some(Vec::new()), chunk_count: 0, last_chunk_ns: None }
    }

    /// Takes content that arrived at `t_ns`. Returns how many pieces of a stream it ended.
    pub(super) fn take(&mut self, bytes: &[u8], t_ns: i64, passage: &mut Passage, rows: &Rows) -> u64 {
        if self.is_packed {
            return 0;
        }
        if !self.is_stream {
            self.keep(bytes);
            return 0;
        }
        let before = self.chunk_count;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.keep(part);
            if part.ends_with(b"\n") {
                let line = self.text.replace(Vec::new());
                self.line(line.as_deref(), t_ns, passage, rows);
            }
        }
        u64::from(self.chunk_count - before)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(text) = self.text.as_mut().filter(|text| text.len() + bytes.len() <= MAX_LOOKED_AT) {
            text.extend_from_slice(bytes);
        } else {
            self.text = None;
        }
    }

    /// One line of a stream; an event of completions is one line. `None`: a line too long to look at.
    fn line(&mut self, line: Option<&[u8]>, t_ns: i64, passage: &mut Passage, rows: &Rows) {
        let data = match line.map(<[u8]>::trim_ascii) {
            Some(line) => match line.strip_prefix(b"data:") {
                Some(data) if data.trim_ascii() != b"[DONE]" => Some(data.trim_ascii()),
                _ => return,
            },
            None => None,
        };
        passage.first_event_ns.get_or_insert(t_ns);
        let event = data.and_then(|data| serde_json::from_slice::<Value>(data).ok());
        let delta = event.as_ref().map_or(Delta { has_content: true, ..Delta::default() }, |event| {
            read_counts(event, passage);
            delta_of(event)
        });
        if delta.has_role {
            passage.first_role_ns.get_or_insert(t_ns);
        }
        if delta.has_reasoning {
            passage.first_reasoning_ns.get_or_insert(t_ns);
        }
        if delta.has_content {
            passage.first_content_ns.get_or_insert(t_ns);
        }
        if delta.has_content || delta.has_reasoning {
            passage.last_token_ns = Some(t_ns);
            let gap_ns = self.last_chunk_ns.map_or(0, |last| t_ns.saturating_sub(last));
            rows.chunk(&passage.id, t_ns, self.chunk_count, gap_ns);
            self.chunk_count += 1;
            self.last_chunk_ns = Some(t_ns);
        }
    }

    /// The body is over.
    pub(super) fn finish(&mut self, passage: &mut Passage) {
        if !self.is_stream
            && let Some(document) = self.text.take().and_then(|text| serde_json::from_slice::<Value>(&text).ok())
        {
            read_counts(&document, passage);
        }
    }
}

/// What a choice's delta, or what stands for it in other dialects, holds.
fn delta_of(event: &Value) -> Delta {
    let is_full = |value: Option<&Value>| match value {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        Some(Value::Object(parts)) => !parts.is_empty(),
        _ => false,
    };
    let choice = event.pointer("/choices/0");
    let delta = choice.and_then(|choice| choice.get("delta")).unwrap_or(&Value::Null);
    let has = |key: &str| is_full(delta.get(key));
    let elsewhere = [choice.and_then(|choice| choice.get("text")), event.get("content"), event.get("text"), event.pointer("/token/text")];
    // `event.delta` is text in the Responses API and an object with text in the Messages API.
    let other = [event.get("delta").filter(|delta| delta.is_string()), event.pointer("/delta/text")];
    Delta {
        has_role: has("role"),
        has_reasoning: has("reasoning_content") || has("reasoning") || is_full(event.pointer("/delta/thinking")),
        has_content: has("content") || has("tool_calls") || elsewhere.into_iter().chain(other).any(is_full),
    }
}

/// Token counts and the reason of the end, as far as they are told.
fn read_counts(event: &Value, passage: &mut Passage) {
    let usage = [event.get("usage"), event.pointer("/response/usage")].into_iter().flatten().find(|usage| usage.is_object());
    if let Some(usage) = usage {
        let count = |keys: [&str; 2]| keys.iter().find_map(|key| usage.get(key)?.as_i64());
        passage.tokens_in = count(["prompt_tokens", "input_tokens"]).or(passage.tokens_in);
        passage.tokens_out = count(["completion_tokens", "output_tokens"]).or(passage.tokens_out);
        passage.tokens_cached = usage.pointer("/prompt_tokens_details/cached_tokens").and_then(Value::as_i64).or(passage.tokens_cached);
    }
    if let Some(reason) = event.pointer("/choices/0/finish_reason").and_then(Value::as_str) {
        let known = ["stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error", "eos_token"];
        passage.finish = known.iter().find(|known| **known == reason).unwrap_or(&"other").to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_reasoning_and_content_are_told_apart_wherever_the_stream_is_cut() {
        let stream = concat!(
            ": keep-alive\n\n",
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n",
            "data: [DONE]\n\n"
        );
        let (rows, mut passage, mut answer) = (Rows::new("x"), Passage::default(), Answer::new(true, false));
        let mut pieces = 0;
        for (at, byte) in (1..).zip(stream.as_bytes()) {
            pieces += answer.take(&[*byte], at, &mut passage, &rows);
        }
        let ends: Vec<i64> = (1..).zip(stream.bytes()).filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        assert_eq!(pieces, 3);
        assert_eq!((passage.first_event_ns, passage.first_role_ns), (Some(ends[2]), Some(ends[2])));
        assert_eq!((passage.first_reasoning_ns, passage.first_content_ns), (Some(ends[4]), Some(ends[6])));
        assert_eq!((passage.last_token_ns, passage.finish.as_str()), (Some(ends[8]), "stop"));
        assert_eq!((passage.tokens_in, passage.tokens_out, passage.tokens_cached), (Some(5), Some(3), Some(2)));
        let capture = rows.take(true).unwrap();
        assert_eq!(capture.tables.chunks.gap_ns, [0, ends[6] - ends[4], ends[8] - ends[6]]);
    }
}
