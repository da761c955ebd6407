//! What an answer says, for as long as it takes to count its tokens: in memory while it comes, then in a thread that counts
//! and forgets it. Without a tokenizer nothing of this runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::tokenizer::Tokenizer;

/// Longest text of one answer; a longer one is not counted.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Texts that wait for the counting thread; beyond that they are not counted.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// The text of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    text: String,
    /// Where each piece ends, bytes.
    ends: Vec<usize>,
}

impl Said {
    /// Takes what a chunk, or a whole answer, says as one piece.
    pub(super) fn add(&mut self, json: &[u8]) {
        if self.text.len() <= MAX_TEXT_BYTES {
            push_text(json, &mut self.text);
        }
        self.ends.push(self.text.len());
    }
}

/// Tokens of one answer.
#[derive(Debug)]
pub(super) struct Counted {
    /// Number of the request.
    pub(super) index: usize,
    /// Tokens of each piece.
    pub(super) pieces: Vec<u32>,
}

/// The counting thread.
pub(super) struct Counter {
    texts: Sender<(usize, Said)>,
    waiting_bytes: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Counted>>,
}

impl Counter {
    pub(super) fn start(tokenizer: Tokenizer) -> std::io::Result<Self> {
        let (texts, incoming) = channel::<(usize, Said)>();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&waiting_bytes);
        let count = move || {
            let one = |(index, said): (usize, Said)| {
                waiting.fetch_sub(said.text.len(), Ordering::Relaxed);
                tokenizer.count(&said.text, &said.ends).map(|pieces| Counted { index, pieces })
            };
            incoming.into_iter().filter_map(one).collect()
        };
        let thread = std::thread::Builder::new().name("counter".into()).spawn(count)?;
        Ok(Self { texts, waiting_bytes, thread })
    }

    /// Hands over the text of an answer that has ended.
    pub(super) fn take(&self, index: usize, said: Said) {
        let bytes = said.text.len();
        let has_room = self.waiting_bytes.load(Ordering::Relaxed) + bytes <= MAX_WAITING_BYTES;
        if bytes <= MAX_TEXT_BYTES && has_room {
            self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            let _ = self.texts.send((index, said));
        }
    }

    /// Waits for the last count.
    pub(super) fn finish(self) -> Vec<Counted> {
        drop(self.texts);
        self.thread.join().unwrap_or_default()
    }
}

/// Adds the text of a line of a stream, or of a whole answer.
fn push_text(json: &[u8], text: &mut String) {
    let json = json.strip_prefix(b"data:").unwrap_or(json).trim_ascii();
    let Ok(chunk) = serde_json::from_slice::<Chunk>(json) else { return };
    for choice in &chunk.choices {
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            for part in
                [&delta.reasoning_content, &delta.reasoning, &delta.content, &delta.refusal, &delta.function_call, &delta.tool_calls]
            {
                text.push_str(&part.0);
            }
        }
        text.push_str(&choice.text.0);
    }
    text.push_str(&chunk.content.0);
    text.push_str(&chunk.token.0);
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    content: Text,
    #[serde(default)]
    token: Text,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default)]
    text: Text,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    reasoning_content: Text,
    #[serde(default)]
    reasoning: Text,
    #[serde(default)]
    content: Text,
    #[serde(default)]
    refusal: Text,
    #[serde(default)]
    function_call: Text,
    #[serde(default)]
    tool_calls: Text,
}

/// A text, or the texts of a list or of an object's speaking fields; anything else is empty.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.into()))
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Text, A::Error> {
        let mut all = String::new();
        while let Some(Text(item)) = items.next_element()? {
            all.push_str(&item);
        }
        Ok(Text(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Text, A::Error> {
        let mut all = String::new();
        while let Some(key) = entries.next_key::<String>()? {
            if matches!(key.as_str(), "text" | "name" | "arguments" | "function") {
                all.push_str(&entries.next_value::<Text>()?.0);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Text(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_kind_of_chunk_is_taken() {
        for (json, expected) in [
            (r#"data: {"choices":[{"index":0,"delta":{"content":" a\u00e9"},"finish_reason":null}],"usage":null}"#, " aé"),
            (r#"data: {"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}"#, "hm"),
            (r#"{"choices":[{"text":" b"}]}"#, " b"),
            (r#"{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"c"}]}}]}"#, "c"),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}"#,
                r#"f{"a":1}"#,
            ),
            (r#"{"index":0,"content":" d","tokens":[1],"stop":false}"#, " d"),
            (r#"{"index":2,"token":{"id":5,"text":" e"},"generated_text":null}"#, " e"),
            (r#"{"choices":[]}"#, ""),
            ("data: {", ""),
        ] {
            let mut text = String::new();
            push_text(json.as_bytes(), &mut text);
            assert_eq!(text, expected, "{json}");
        }
    }
}
