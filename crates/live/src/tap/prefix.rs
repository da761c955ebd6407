//! Salted hashes of a prompt's blocks, by which prompts that begin alike are known, and no text.
//!
//! A block is 16 token ids, or 64 bytes of text (about 16 tokens of English; engines cut by tokens, so blocks of text only
//! bound what a cache can reuse). The hash of a block covers all before it: SipHash keyed by a random salt that is made for the
//! recording and kept nowhere, so that nobody can test a guess against it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde_json::Value;

/// Bytes of text in a block.
const BLOCK_BYTES: usize = 64;
/// Token ids in a block.
const BLOCK_TOKENS: usize = 16;
/// Blocks told of one prompt.
const MAX_BLOCKS: usize = 8192;

/// Hashes of the whole blocks of a request body's prompt, first to last; empty where no prompt is found.
pub(super) fn blocks(body: &[u8], salt: &RandomState) -> Vec<i64> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let prompt = ["prompt", "messages", "input", "inputs", "text"].iter().find_map(|key| body.get(key));
    match prompt {
        Some(Value::Array(ids)) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            let bytes = ids.iter().filter_map(Value::as_u64).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
            chained(&bytes, BLOCK_TOKENS * size_of::<u64>(), salt)
        }
        Some(prompt) => {
            let mut text = Vec::new();
            // A system prompt and tools stand before the messages in every chat template known.
            for key in ["system", "tools"] {
                body.get(key).into_iter().for_each(|value| gather(value, &mut text));
            }
            gather(prompt, &mut text);
            chained(&text, BLOCK_BYTES, salt)
        }
        None => Vec::new(),
    }
}

/// All text in order, one part apart from the next.
fn gather(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::String(part) => {
            text.extend_from_slice(part.as_bytes());
            text.push(0);
        }
        Value::Array(parts) => parts.iter().for_each(|part| gather(part, text)),
        Value::Object(parts) => {
            // The role stands first in every template, whatever the caller's order.
            parts.get("role").into_iter().for_each(|role| gather(role, text));
            parts.iter().filter(|(key, _)| *key != "role").for_each(|(_, part)| gather(part, text));
        }
        other => text.extend_from_slice(other.to_string().as_bytes()),
    }
}

fn chained(bytes: &[u8], block_bytes: usize, salt: &RandomState) -> Vec<i64> {
    let mut before = 0;
    let hash = |block: &[u8]| {
        let mut hasher = salt.build_hasher();
        hasher.write_u64(before);
        hasher.write(block);
        before = hasher.finish();
        before.cast_signed()
    };
    bytes.chunks_exact(block_bytes).take(MAX_BLOCKS).map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_begin_alike_share_their_first_blocks() {
        let salt = RandomState::new();
        let of = |system: &str, user: &str| {
            let body = serde_json::json!({"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]});
            blocks(body.to_string().as_bytes(), &salt)
        };
        let shared = "You are a helpful assistant. ".repeat(10);
        let (one, other) = (of(&shared, &"a".repeat(200)), of(&shared, &"b".repeat(200)));
        let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        assert_eq!((same, one.len()), ((7 + shared.len()) / BLOCK_BYTES, (7 + shared.len() + 1 + 5 + 200 + 1) / BLOCK_BYTES));
        assert_ne!(one.last(), other.last());
        let ids: Vec<u64> = (0..40).collect();
        let body = serde_json::json!({"prompt": ids}).to_string();
        assert_eq!(blocks(body.as_bytes(), &salt).len(), 2);
        assert_ne!(blocks(body.as_bytes(), &salt), blocks(body.as_bytes(), &RandomState::new()));
        assert!(blocks(b"not json", &salt).is_empty() && blocks(b"{}", &salt).is_empty());
    }
}
