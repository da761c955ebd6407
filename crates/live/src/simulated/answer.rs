//! The body of an answer: tokens as they come, in chunks of the chat or completions API.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::load::Api;

/// A body that is there, or that comes piece by piece.
pub(super) enum AnswerBody {
    /// The whole, once.
    Whole(Option<Bytes>),
    /// Pieces until the sender is dropped.
    Pieces(UnboundedReceiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => pieces.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }
}

/// What all chunks of an answer say.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    pub(super) api: Api,
    pub(super) id: u32,
    pub(super) model: String,
    pub(super) created_s: i64,
    pub(super) prompt_tokens: u32,
    pub(super) cached_tokens: u32,
    pub(super) has_usage_per_chunk: bool,
    pub(super) has_usage: bool,
}

impl Voice {
    fn head(&self, is_chunk: bool) -> String {
        let (prefix, object) = match (self.api, is_chunk) {
            (Api::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
            (Api::Chat, false) => ("chatcmpl", "chat.completion"),
            (Api::Completions, _) => ("cmpl", "text_completion"),
        };
        let model = serde_json::Value::from(self.model.as_str());
        format!(r#"{{"id":"{prefix}-simulated-{}","object":"{object}","created":{},"model":{model}"#, self.id, self.created_s)
    }

    fn usage(&self, output_tokens: u32) -> String {
        format!(
            r#","usage":{{"prompt_tokens":{},"completion_tokens":{output_tokens},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}}"#,
            self.prompt_tokens,
            self.prompt_tokens.saturating_add(output_tokens),
            self.cached_tokens
        )
    }

    /// The chunk with the role, where the API has one.
    pub(super) fn role(&self) -> Option<String> {
        let head = self.head(true);
        (self.api == Api::Chat).then(|| {
            format!("data: {head},\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"finish_reason\":null}}]}}\n\n")
        })
    }

    /// A chunk with tokens; `told` in all so far.
    pub(super) fn tokens(&self, count: u32, told: u32, is_last: bool) -> String {
        let words = words(count);
        let finish = if is_last { "\"length\"" } else { "null" };
        let choice = match self.api {
            Api::Chat => format!(r#"{{"index":0,"delta":{{"content":"{words}"}},"finish_reason":{finish}}}"#),
            Api::Completions => format!(r#"{{"index":0,"text":"{words}","finish_reason":{finish}}}"#),
        };
        let usage = if self.has_usage_per_chunk { self.usage(told) } else { String::new() };
        format!("data: {},\"choices\":[{choice}]{usage}}}\n\n", self.head(true))
    }

    /// What follows the last token.
    pub(super) fn end(&self, told: u32) -> String {
        let usage =
            if self.has_usage { format!("data: {},\"choices\":[]{}}}\n\n", self.head(true), self.usage(told)) } else { String::new() };
        usage + "data: [DONE]\n\n"
    }

    /// An answer that is no stream.
    pub(super) fn whole(&self, told: u32) -> String {
        let words = words(told);
        let choice = match self.api {
            Api::Chat => format!(r#"{{"index":0,"message":{{"role":"assistant","content":"{words}"}},"finish_reason":"length"}}"#),
            Api::Completions => format!(r#"{{"index":0,"text":"{words}","finish_reason":"length"}}"#),
        };
        format!("{},\"choices\":[{choice}]{}}}", self.head(false), self.usage(told))
    }
}

fn words(count: u32) -> String {
    " word".repeat(count as usize)
}
