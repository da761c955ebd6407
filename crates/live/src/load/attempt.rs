//! One request and everything noted about it.
//!
//! Times are nanoseconds of the host clock. A token of any kind counts as the first; the role chunk that many servers send
//! at once does not. Nothing of what was said is kept, neither way.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::time::Instant;

use super::event::{Event, Finish, Line, Lines, Usage, read_body, read_line};
use super::said::{Counter, Said};
use crate::http::{Connection, ExchangeError};

/// Largest answer that is not a stream.
const MAX_BODY_BYTES: usize = 64 << 20;

/// How output tokens are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counting {
    /// The server tells the count with each chunk.
    PerChunk,
    /// The user's tokenizer counts each chunk; where the server tells the total, it is kept.
    Tokenizer,
    /// The server tells the total; chunks of a request are taken as equally large.
    Total,
    /// The server tells nothing: each chunk is taken for one token.
    #[default]
    Assumed,
}

impl Counting {
    /// Whether the tokens of each chunk are known.
    pub(super) fn is_per_chunk(self) -> bool {
        matches!(self, Self::PerChunk | Self::Tokenizer)
    }

    /// As told to people.
    pub fn words(self) -> &'static str {
        match self {
            Self::PerChunk => "usage with each chunk",
            Self::Tokenizer => "tokenizer.json, chunk by chunk",
            Self::Total => "usage of the whole answer, chunks taken as equal",
            Self::Assumed => "one per chunk, assumed: the server tells no usage",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The load ended first.
    #[default]
    Cut,
    /// With a whole answer.
    Done,
    /// No connection.
    Connect,
    /// HTTP/2 was asked for, and the server does not speak it.
    NoHttp2,
    /// Not in time.
    Timeout,
    /// The connection broke, or what came is not HTTP.
    Broken,
    /// The stream closed cleanly before the answer was complete.
    Short,
    /// A status other than 2xx.
    Status,
    /// An error in the stream, or an answer that cannot be read.
    Refused,
    /// Without a single token.
    Empty,
}

impl Ending {
    /// The class of failure as stored; empty for a whole answer.
    pub fn class(self) -> &'static str {
        match self {
            Self::Done => "",
            Self::Cut => "abort",
            Self::Timeout => "timeout",
            Self::Connect | Self::NoHttp2 | Self::Broken | Self::Short => "connection",
            Self::Status | Self::Refused | Self::Empty => "error",
        }
    }

    /// As told to people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Done => "whole answer",
            Self::Cut => "cut off at the end of the load",
            Self::Connect => "no connection",
            Self::NoHttp2 => "asked for HTTP/2, which the server does not speak here",
            Self::Timeout => "not answered in time",
            Self::Broken => "connection broke",
            Self::Short => "stream closed before the answer was complete",
            Self::Status => "refused with a status",
            Self::Refused => "answered with an error",
            Self::Empty => "answered without a token",
        }
    }
}

impl From<ExchangeError> for Ending {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Connect(_) => Self::Connect,
            ExchangeError::NoHttp2 => Self::NoHttp2,
            ExchangeError::Timeout => Self::Timeout,
            ExchangeError::Broken(_) => Self::Broken,
            ExchangeError::TooLarge => Self::Refused,
        }
    }
}

/// A chunk that brought tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When its bytes were read.
    pub t_ns: i64,
    /// Tokens in it; 0 when the server does not tell.
    pub tokens: u32,
}

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Number in the workload.
    pub index: usize,
    /// Whether it only warms up.
    pub is_warmup: bool,
    /// When it was due.
    pub intended_ns: i64,
    /// When the load turned to it.
    pub started_ns: i64,
    /// When it had a connection.
    pub connected_ns: Option<i64>,
    /// Whether it opened the connection.
    pub is_new_connection: bool,
    /// When its first bytes went to the socket.
    pub sent_ns: Option<i64>,
    /// Head of the answer.
    pub headers_ns: Option<i64>,
    /// First event of any kind.
    pub first_event_ns: Option<i64>,
    /// First event with a role.
    pub first_role_ns: Option<i64>,
    /// First reasoning.
    pub first_reasoning_ns: Option<i64>,
    /// First content or tool call.
    pub first_content_ns: Option<i64>,
    /// The usage figures that count.
    pub usage_ns: Option<i64>,
    /// End of the answer.
    pub done_ns: Option<i64>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Why the answer ended.
    pub finish: Option<&'static str>,
    /// How the request ended.
    pub ending: Ending,
    /// Chunks with tokens, in order; empty without streaming.
    pub pieces: Vec<Piece>,
    /// Prompt tokens as the server tells.
    pub prompt_tokens: Option<u64>,
    /// Output tokens as the server tells, else as counted.
    pub output_tokens: Option<u64>,
    /// Prompt tokens from the server's cache.
    pub cached_tokens: Option<u64>,
    /// Output tokens by the user's tokenizer, where it counted.
    pub recounted_tokens: Option<u64>,
    /// How tokens are counted.
    pub counting: Counting,
    /// Lines of the stream that could not be read.
    pub unreadable_count: u32,
    /// Bytes of the body.
    pub body_bytes: u64,
}

impl Attempt {
    /// When it was sent, or the load turned to it.
    pub fn sent_or_started_ns(&self) -> i64 {
        self.sent_ns.unwrap_or(self.started_ns)
    }

    /// First token of any kind.
    pub fn first_token_ns(&self) -> Option<i64> {
        self.pieces.first().map(|piece| piece.t_ns)
    }

    /// Last token of any kind.
    pub fn last_token_ns(&self) -> Option<i64> {
        self.pieces.last().map(|piece| piece.t_ns)
    }

    /// Whether a tokenizer knows more than the server told.
    fn is_worth_counting(&self) -> bool {
        match self.counting {
            Counting::PerChunk | Counting::Tokenizer => false,
            // Without chunks the total is all there is to know.
            Counting::Total => !self.pieces.is_empty(),
            Counting::Assumed => true,
        }
    }

    /// Takes the tokenizer's counts. A total that the server tells is the truth: counts that miss it by more than what no text
    /// shows (an end token) are scaled to it.
    pub(super) fn recount(&mut self, counts: &[u32]) {
        let counts: Vec<u64> = counts.iter().map(|count| u64::from(*count).max(1)).collect();
        let own: u64 = counts.iter().sum();
        let told = self.output_tokens.filter(|_| self.counting == Counting::Total);
        let scale = told.filter(|told| told.abs_diff(own) > 1).unwrap_or(own);
        let mut so_far = 0;
        for (piece, count) in self.pieces.iter_mut().zip(&counts) {
            let scaled = |count: u64| (u128::from(count) * u128::from(scale) / u128::from(own)) as u64;
            let tokens = scaled(so_far + count) - scaled(so_far);
            piece.tokens = u32::try_from(tokens).unwrap_or(u32::MAX).max(1);
            so_far += count;
        }
        self.recounted_tokens = Some(own);
        self.output_tokens = told.or(Some(own));
        self.counting = Counting::Tokenizer;
    }

    /// Whether it counts: a whole answer that is no warm-up.
    pub fn counts(&self) -> bool {
        self.ending == Ending::Done && !self.is_warmup
    }
}

/// Sends the request and notes what comes. The answer's text is dropped piece by piece.
pub(crate) async fn exchange(
    attempt: &mut Attempt,
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
    is_streamed: bool,
    counter: Option<&Counter>,
    deadline: Instant,
) -> Result<(), ExchangeError> {
    let head = connection.send(request, deadline).await;
    attempt.sent_ns = connection.stamps().first_write_ns();
    let mut answer = head?;
    attempt.headers_ns = Some(connection.stamps().last_read_ns());
    attempt.status = Some(answer.status().as_u16());
    let is_good = answer.status().is_success();
    let bytes_before = connection.stamps().read_bytes();
    let said = counter.map(|_| Said::default());
    let mut reader = Reader { attempt, lines: Lines::default(), whole: Vec::new(), said, told: 0, is_done: false, is_error: false };
    let read = if is_good && is_streamed {
        connection.read(answer.body_mut(), deadline, |piece, t_ns| reader.stream(piece, t_ns)).await
    } else {
        connection.read(answer.body_mut(), deadline, |piece, t_ns| reader.collect(piece, t_ns)).await
    };
    reader.attempt.body_bytes = connection.stamps().read_bytes().saturating_sub(bytes_before);
    read?;
    let end_ns = connection.stamps().last_read_ns();
    reader.finish(end_ns, is_good, is_streamed);
    let uncounted = reader.said.filter(|_| reader.attempt.ending == Ending::Done && reader.attempt.is_worth_counting());
    if let (Some(counter), Some(said)) = (counter, uncounted) {
        counter.take(reader.attempt.index, said);
    }
    Ok(())
}

struct Reader<'a> {
    attempt: &'a mut Attempt,
    lines: Lines,
    whole: Vec<u8>,
    /// The text, where it may have to be counted.
    said: Option<Said>,
    /// Output tokens told so far.
    told: u64,
    is_done: bool,
    is_error: bool,
}

impl Reader<'_> {
    fn stream(&mut self, piece: &[u8], t_ns: i64) -> Result<(), ExchangeError> {
        let mut lines = std::mem::take(&mut self.lines);
        let fed = lines.feed(piece, |line| self.line(line, t_ns));
        self.lines = lines;
        fed.map_err(|_| ExchangeError::TooLarge)
    }

    fn collect(&mut self, piece: &[u8], _t_ns: i64) -> Result<(), ExchangeError> {
        if self.whole.len() + piece.len() > MAX_BODY_BYTES {
            return Err(ExchangeError::TooLarge);
        }
        self.whole.extend_from_slice(piece);
        Ok(())
    }

    fn line(&mut self, line: &[u8], t_ns: i64) {
        match read_line(line) {
            Line::Nothing => {}
            Line::Done => self.is_done = true,
            Line::Unreadable => self.attempt.unreadable_count += 1,
            Line::Event(event) => {
                self.event(&event, t_ns);
                if let Some(said) = self.said.as_mut().filter(|_| event.has_tokens()) {
                    said.add(line);
                }
            }
        }
    }

    fn event(&mut self, event: &Event, t_ns: i64) {
        let attempt = &mut *self.attempt;
        let note = |slot: &mut Option<i64>, is_seen: bool| {
            if is_seen && slot.is_none() {
                *slot = Some(t_ns);
            }
        };
        note(&mut attempt.first_event_ns, true);
        note(&mut attempt.first_role_ns, event.has_role);
        note(&mut attempt.first_reasoning_ns, event.has_reasoning);
        note(&mut attempt.first_content_ns, event.has_content || event.has_tool);
        self.is_error |= event.is_error;
        attempt.finish = attempt.finish.or(event.finish.map(Finish::word));
        let mut tokens = event.token_count;
        if let Some(usage) = event.usage {
            if let Some(total) = usage.output_tokens {
                // A first chunk that only brings the role may tell a total of 0.
                if event.has_tokens() && total > self.told {
                    tokens = u32::try_from(total - self.told).ok();
                }
                self.told = self.told.max(total);
            }
            take_usage(attempt, usage, t_ns);
        }
        if event.has_tokens() {
            attempt.pieces.push(Piece { t_ns, tokens: tokens.unwrap_or(0) });
        }
    }

    fn finish(&mut self, end_ns: i64, is_good: bool, is_streamed: bool) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line, end_ns));
        self.attempt.done_ns = Some(end_ns);
        if !is_good {
            self.attempt.ending = Ending::Status;
            return;
        }
        if !is_streamed {
            self.finish_whole(end_ns);
            return;
        }
        self.attempt.ending = if self.is_error {
            Ending::Refused
        } else if self.attempt.pieces.is_empty() {
            Ending::Empty
        } else if !self.is_done && self.attempt.finish.is_none() {
            Ending::Short
        } else {
            Ending::Done
        };
        settle_counts(self.attempt);
    }

    fn finish_whole(&mut self, end_ns: i64) {
        let Some(event) = read_body(&self.whole).filter(|event| !event.is_error) else {
            self.attempt.ending = Ending::Refused;
            return;
        };
        self.attempt.finish = event.finish.map(Finish::word);
        if let Some(usage) = event.usage {
            take_usage(self.attempt, usage, end_ns);
            self.attempt.counting = Counting::Total;
        }
        if let Some(said) = &mut self.said {
            said.add(&self.whole);
        }
        self.attempt.ending = if event.has_tokens() || event.finish.is_some() { Ending::Done } else { Ending::Empty };
    }
}

fn take_usage(attempt: &mut Attempt, usage: Usage, t_ns: i64) {
    attempt.usage_ns = Some(t_ns);
    attempt.prompt_tokens = usage.prompt_tokens.or(attempt.prompt_tokens);
    attempt.output_tokens = usage.output_tokens.or(attempt.output_tokens);
    attempt.cached_tokens = usage.cached_tokens.or(attempt.cached_tokens);
}

/// Which of the counts are good for what.
fn settle_counts(attempt: &mut Attempt) {
    let counted: u64 = attempt.pieces.iter().map(|piece| u64::from(piece.tokens)).sum();
    let is_each_told = attempt.pieces.iter().all(|piece| piece.tokens > 0);
    let agrees = attempt.output_tokens.is_none_or(|total| total.abs_diff(counted) <= 1);
    attempt.counting = if is_each_told && agrees {
        Counting::PerChunk
    } else if attempt.output_tokens.is_some_and(|total| total > 0) {
        Counting::Total
    } else {
        Counting::Assumed
    };
    if attempt.output_tokens.is_none_or(|total| total == 0) {
        attempt.output_tokens = Some(if is_each_told { counted } else { attempt.pieces.len() as u64 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recounted(told: Option<u64>, counts: &[u32]) -> (Option<u64>, Vec<u32>, Option<u64>) {
        let counting = if told.is_some() { Counting::Total } else { Counting::Assumed };
        // Without usage a chunk was taken for a token.
        let output_tokens = told.or(Some(counts.len() as u64));
        let pieces = counts.iter().map(|_| Piece { t_ns: 0, tokens: 0 }).collect();
        let mut attempt = Attempt { pieces, output_tokens, counting, ..Attempt::default() };
        attempt.recount(counts);
        (attempt.output_tokens, attempt.pieces.iter().map(|piece| piece.tokens).collect(), attempt.recounted_tokens)
    }

    #[test]
    fn the_servers_total_is_kept_and_chunks_are_scaled_to_it() {
        assert_eq!(recounted(None, &[4, 0, 3]), (Some(8), vec![4, 1, 3], Some(8)));
        // The end token has no text.
        assert_eq!(recounted(Some(9), &[4, 1, 3]), (Some(9), vec![4, 1, 3], Some(8)));
        assert_eq!(recounted(Some(16), &[4, 1, 3]), (Some(16), vec![8, 2, 6], Some(8)));
        assert_eq!(recounted(Some(5), &[4, 4, 2]), (Some(5), vec![2, 2, 1], Some(10)));
    }
}
