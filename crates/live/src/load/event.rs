//! Server-sent events of an OpenAI-compatible stream: cut into lines as they come, read only for what a clock needs.
//!
//! Of a chunk are kept: whether it carries a role, reasoning, content or a tool call, what it says about usage, and why
//! the answer ended. Text is looked at for being empty or not, and goes no further. Understood are the chunks of chat and
//! completions, and the native ones of llama.cpp (`content`, `stop`) and TGI (`token`, `generated_text`).

use std::fmt;

use memchr::memchr;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Longest line of a stream.
const MAX_LINE_BYTES: usize = 4 << 20;

/// A line is longer than anything expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong;

/// Cuts a stream into lines; what is not complete is kept for the next piece.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Takes a piece and shows each complete line, without its end.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut on_line: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        while let Some(at) = memchr(b'\n', piece) {
            let (line, after) = (&piece[..at], &piece[at + 1..]);
            if self.rest.is_empty() {
                on_line(line.strip_suffix(b"\r").unwrap_or(line));
            } else {
                self.rest.extend_from_slice(line);
                on_line(self.rest.strip_suffix(b"\r").unwrap_or(&self.rest));
                self.rest.clear();
            }
            piece = after;
        }
        if self.rest.len() + piece.len() > MAX_LINE_BYTES {
            return Err(LineTooLong);
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }

    /// Shows what came after the last line end; some servers leave it out.
    pub(crate) fn finish(&mut self, mut on_line: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            on_line(&self.rest);
            self.rest.clear();
        }
    }
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Empty, a comment, or a field that says nothing about tokens.
    Nothing,
    /// `[DONE]`.
    Done,
    /// A chunk.
    Event(Event),
    /// Data that is no chunk.
    Unreadable,
}

/// What a chunk says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a chunk may carry any of these together")]
pub(crate) struct Event {
    pub(crate) has_role: bool,
    pub(crate) has_reasoning: bool,
    pub(crate) has_content: bool,
    pub(crate) has_tool: bool,
    pub(crate) is_error: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Option<Usage>,
    /// Tokens of this chunk, where it names their ids.
    pub(crate) token_count: Option<u32>,
}

impl Event {
    /// Whether it brings tokens of any kind.
    pub(crate) fn has_tokens(&self) -> bool {
        self.has_reasoning || self.has_content || self.has_tool
    }
}

/// Counts as the server tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) output_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCalls,
    Filter,
    Other,
}

impl Finish {
    /// The word of the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Filter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// Reads one line of a stream.
pub(crate) fn read_line(line: &[u8]) -> Line {
    let Some(data) = line.strip_prefix(b"data:") else {
        // A server that fails in the middle of a stream may send bare JSON.
        return if line.starts_with(b"{") { read_body(line).map_or(Line::Nothing, Line::Event) } else { Line::Nothing };
    };
    let data = data.trim_ascii();
    match data {
        b"" => Line::Nothing,
        b"[DONE]" => Line::Done,
        _ => read_body(data).map_or(Line::Unreadable, Line::Event),
    }
}

/// Reads one JSON document: a chunk, or a whole answer.
pub(crate) fn read_body(json: &[u8]) -> Option<Event> {
    let chunk: Chunk = serde_json::from_slice(json).ok()?;
    let first = chunk.choices;
    let is_native_end = chunk.stop == Some(true) || chunk.generated_text.0 > 0;
    Some(Event {
        has_role: first.has_role,
        has_reasoning: first.has_reasoning,
        has_content: first.has_content || chunk.content.0 > 0 || chunk.token.is_some(),
        has_tool: first.has_tool,
        is_error: chunk.error.0 > 0,
        finish: first.finish.or(is_native_end.then_some(Finish::Other)),
        usage: usage(&chunk),
        token_count: first.token_count.or(chunk.token.map(|_| 1)).or(chunk.tokens.map(|list| list.0)).filter(|count| *count > 0),
    })
}

fn usage(chunk: &Chunk) -> Option<Usage> {
    if let Some(wire) = &chunk.usage {
        return Some(Usage {
            prompt_tokens: wire.prompt_tokens,
            output_tokens: wire.completion_tokens,
            cached_tokens: wire.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens),
        });
    }
    if let Some(details) = &chunk.details {
        return Some(Usage { output_tokens: details.generated_tokens, ..Usage::default() });
    }
    let is_native = chunk.tokens_predicted.is_some() || chunk.tokens_evaluated.is_some();
    is_native.then_some(Usage { prompt_tokens: chunk.tokens_evaluated, output_tokens: chunk.tokens_predicted, cached_tokens: None })
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Choices,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Extent,
    #[serde(default)]
    content: Extent,
    #[serde(default)]
    tokens: Option<Extent>,
    #[serde(default)]
    stop: Option<bool>,
    #[serde(default)]
    tokens_predicted: Option<u64>,
    #[serde(default)]
    tokens_evaluated: Option<u64>,
    #[serde(default)]
    token: Option<IgnoredAny>,
    #[serde(default)]
    generated_text: Extent,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    generated_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default)]
    text: Extent,
    #[serde(default)]
    finish_reason: Reason,
    #[serde(default)]
    token_ids: Option<Extent>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    role: Extent,
    #[serde(default)]
    content: Extent,
    #[serde(default)]
    reasoning_content: Extent,
    #[serde(default)]
    reasoning: Extent,
    #[serde(default)]
    tool_calls: Extent,
    #[serde(default)]
    function_call: Extent,
    #[serde(default)]
    refusal: Extent,
}

/// Characters of a text, items of a list, 1 for an object or number, 0 for null and false. Nothing is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent(u32);

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExtentVisitor)
    }
}

struct ExtentVisitor;

impl<'de> Visitor<'de> for ExtentVisitor {
    type Value = Extent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Extent, E> {
        Ok(Extent(u32::try_from(text.len()).unwrap_or(u32::MAX)))
    }

    fn visit_unit<E>(self) -> Result<Extent, E> {
        Ok(Extent(0))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Extent, E> {
        Ok(Extent(u32::from(value)))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Extent, E> {
        Ok(Extent(1))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Extent, E> {
        Ok(Extent(1))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Extent, E> {
        Ok(Extent(1))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Extent, A::Error> {
        let mut count = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Extent(count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Extent, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Extent(1))
    }
}

/// `finish_reason`.
#[derive(Clone, Copy, Debug, Default)]
struct Reason(Option<Finish>);

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Reason;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or null")
            }
            fn visit_unit<E>(self) -> Result<Reason, E> {
                Ok(Reason(None))
            }
            fn visit_str<E>(self, word: &str) -> Result<Reason, E> {
                Ok(Reason(match word {
                    "" => None,
                    "stop" | "eos" | "eos_token" => Some(Finish::Stop),
                    "length" => Some(Finish::Length),
                    "tool_calls" | "function_call" => Some(Finish::ToolCalls),
                    "content_filter" => Some(Finish::Filter),
                    _ => Some(Finish::Other),
                }))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// All choices of a chunk in one.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "as in `Event`")]
struct Choices {
    has_role: bool,
    has_reasoning: bool,
    has_content: bool,
    has_tool: bool,
    finish: Option<Finish>,
    token_count: Option<u32>,
}

impl Choices {
    fn add(&mut self, choice: &Choice) {
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            self.has_role |= delta.role.0 > 0;
            self.has_reasoning |= delta.reasoning_content.0 > 0 || delta.reasoning.0 > 0;
            self.has_content |= delta.content.0 > 0 || delta.refusal.0 > 0;
            self.has_tool |= delta.tool_calls.0 > 0 || delta.function_call.0 > 0;
        }
        self.has_content |= choice.text.0 > 0;
        self.finish = self.finish.or(choice.finish_reason.0);
        if let Some(ids) = choice.token_ids.filter(|ids| ids.0 > 0) {
            self.token_count = Some(self.token_count.unwrap_or(0).saturating_add(ids.0));
        }
    }
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Choices;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }
            fn visit_unit<E>(self) -> Result<Choices, E> {
                Ok(Choices::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Choices, A::Error> {
                let mut all = Choices::default();
                while let Some(choice) = items.next_element::<Choice>()? {
                    all.add(&choice);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_any(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Event {
        match read_line(format!("data: {json}").as_bytes()) {
            Line::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_chunk_is_told_by_what_it_carries() {
        let role = event(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#);
        assert_eq!(role, Event { has_role: true, ..Event::default() });
        let thought = event(r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#);
        assert_eq!(thought, Event { has_reasoning: true, ..Event::default() });
        assert!(event(r#"{"choices":[{"delta":{"reasoning":"hm","content":null}}]}"#).has_reasoning);
        assert!(event(r#"{"choices":[{"delta":{"content":"\n"}}]}"#).has_content);
        assert!(event(r#"{"choices":[{"text":"a"}]}"#).has_content);
        assert!(event(r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#).has_tool);
        let last = event(r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#);
        assert_eq!((last.finish, last.has_tokens()), (Some(Finish::Length), false));
        assert!(event(r#"{"error":{"message":"out of memory","code":500}}"#).is_error);
        assert!(!event(r#"{"error":null,"choices":[]}"#).is_error);
    }

    #[test]
    fn counts_come_from_usage_and_token_ids() {
        let usage =
            event(r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#);
        let told = Usage { prompt_tokens: Some(7), output_tokens: Some(9), cached_tokens: Some(4) };
        assert_eq!(usage.usage, Some(told));
        assert_eq!(event(r#"{"choices":[{"delta":{"content":"a b"},"token_ids":[5,6]}]}"#).token_count, Some(2));
        assert_eq!(event(r#"{"choices":[{"delta":{"content":"a"}}],"usage":null}"#).usage, None);
    }

    #[test]
    fn native_streams_are_understood() {
        let llama = event(r#"{"index":0,"content":" a","tokens":[12],"stop":false,"tokens_predicted":3,"tokens_evaluated":11}"#);
        assert!(llama.has_content && llama.finish.is_none() && llama.token_count == Some(1));
        assert_eq!(llama.usage.unwrap().output_tokens, Some(3));
        assert_eq!(event(r#"{"content":"","tokens":[],"stop":true}"#).finish, Some(Finish::Other));
        let tgi = event(r#"{"index":2,"token":{"id":5,"text":" a"},"generated_text":null,"details":null}"#);
        assert!(tgi.has_content && tgi.finish.is_none() && tgi.token_count == Some(1));
        let end = event(r#"{"token":{"id":2,"text":"."},"generated_text":"a.","details":{"generated_tokens":2}}"#);
        assert_eq!((end.finish, end.usage.unwrap().output_tokens), (Some(Finish::Other), Some(2)));
    }

    #[test]
    fn anything_else_does_no_harm() {
        for text in ["", ": ping", "event: x", "id: 3", "data:"] {
            assert_eq!(read_line(text.as_bytes()), Line::Nothing, "{text}");
        }
        assert_eq!(read_line(b"data: [DONE]"), Line::Done);
        for text in ["data: {", "data: 3", "data: {\"choices\":3}", "data: {\"usage\":{\"completion_tokens\":-1}}"] {
            assert_eq!(read_line(text.as_bytes()), Line::Unreadable, "{text}");
        }
        assert!(event(r#"{"error":"x"}"#).is_error);
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"data: 1\r\n\r\ndata: 22\n\n\ndata: 333\n";
        for size in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.feed(piece, |line| seen.push(String::from_utf8_lossy(line).into_owned())).unwrap();
            }
            lines.finish(|_| panic!("nothing is left"));
            assert_eq!(seen, ["data: 1", "", "data: 22", "", "", "data: 333"], "pieces of {size}");
        }
        let mut lines = Lines::default();
        assert_eq!(lines.feed(&vec![b'x'; MAX_LINE_BYTES + 1], |_| ()), Err(LineTooLong));
    }
}
