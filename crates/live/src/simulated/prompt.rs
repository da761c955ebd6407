//! What a request asks for: how many tokens in and out, and which blocks its prompt has in common with others.
//!
//! A word is a token. The text itself is hashed block by block and dropped.

use serde::Deserialize;
use serde_json::Value;
use simulate::rng::split_mix;

/// Longest prompt and answer, tokens.
const MOST_TOKENS: u32 = 1_000_000;
/// Tokens of an answer when the request does not say.
const DEFAULT_OUTPUT_TOKENS: u32 = 16;

/// A request, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
    /// Hash of each whole block and all before it.
    pub(super) blocks: Vec<u64>,
    pub(super) is_streamed: bool,
    pub(super) has_usage: bool,
    pub(super) has_usage_per_chunk: bool,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    prompt: Option<Value>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    max_completion_tokens: Option<u32>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    #[serde(default)]
    continuous_usage_stats: bool,
}

/// Reads a request's body. The error says what is wrong, without any of the text.
pub(super) fn read(body: &[u8], block_tokens: u32) -> Result<Asked, &'static str> {
    let wire: Wire = serde_json::from_slice(body).map_err(|_| "expected a JSON object of the chat or completions API")?;
    let mut words = Words::new(block_tokens);
    for message in &wire.messages {
        words.add(&message.content);
    }
    wire.prompt.iter().for_each(|prompt| words.add(prompt));
    let output_tokens = wire.max_completion_tokens.or(wire.max_tokens).unwrap_or(DEFAULT_OUTPUT_TOKENS);
    if words.count == 0 || words.count > MOST_TOKENS || !(1..=MOST_TOKENS).contains(&output_tokens) {
        return Err("expected a prompt of 1 to 1000000 words and max_tokens from 1 to 1000000");
    }
    let options = wire.stream_options;
    Ok(Asked {
        prompt_tokens: words.count,
        output_tokens,
        blocks: words.blocks,
        is_streamed: wire.stream,
        has_usage: options.as_ref().is_some_and(|options| options.include_usage),
        has_usage_per_chunk: options.is_some_and(|options| options.continuous_usage_stats),
    })
}

struct Words {
    block_tokens: u32,
    count: u32,
    hash: u64,
    blocks: Vec<u64>,
}

impl Words {
    fn new(block_tokens: u32) -> Self {
        Self { block_tokens, count: 0, hash: 0, blocks: Vec::new() }
    }

    /// Text, or a list of texts or of parts with a `text`.
    fn add(&mut self, content: &Value) {
        match content {
            Value::String(text) => text.split_whitespace().for_each(|word| self.word(word)),
            Value::Array(parts) => {
                for part in parts {
                    self.add(part.get("text").unwrap_or(part));
                }
            }
            // A token's number.
            Value::Number(number) => self.word(&number.to_string()),
            _ => {}
        }
    }

    fn word(&mut self, word: &str) {
        for &byte in word.as_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.hash = split_mix(self.hash);
        self.count = self.count.saturating_add(1);
        if self.count.is_multiple_of(self.block_tokens) {
            self.blocks.push(self.hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_and_common_beginnings_found() {
        let ask =
            |text: &str| read(format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],"max_tokens":5}}"#).as_bytes(), 4).unwrap();
        let [first, second] = [ask("a b c d e f g h i"), ask("a b c d e f g x y")];
        assert_eq!((first.prompt_tokens, first.output_tokens, first.blocks.len()), (9, 5, 2));
        assert_eq!((first.blocks[0] == second.blocks[0], first.blocks[1] == second.blocks[1]), (true, false));
    }

    #[test]
    fn other_bodies_are_refused_or_read() {
        let tokens = |body: &str| read(body.as_bytes(), 16).map(|asked| asked.prompt_tokens);
        assert_eq!(tokens(r#"{"prompt":"a b"}"#), Ok(2));
        assert_eq!(tokens(r#"{"prompt":[1,2,3]}"#), Ok(3));
        assert_eq!(tokens(r#"{"messages":[{"content":[{"type":"text","text":"a b c"}]}]}"#), Ok(3));
        for body in ["", "[]", "{}", r#"{"prompt":""}"#, r#"{"prompt":"a","max_tokens":0}"#, r#"{"prompt":"a","max_tokens":-1}"#] {
            assert!(tokens(body).is_err(), "{body}");
        }
    }
}
