//! The simulated engine and the books about it: what it made, what has left for whom, what its metrics and log tell.
//!
//! It has no clock: whoever holds it says what time it is. The server says the time of this machine, a rehearsal any other.

use bytes::Bytes;
use simulate::config::ConfigError;
use simulate::cost::LinearCost;
use simulate::online::{Delivery, Online};

use super::answer::Voice;
use super::fault::Setup;
use super::log::{self, Totals};
use super::metrics::{About, Counts, page};
use super::prompt::Asked;
use crate::load::Api;

/// A request as it came.
pub(super) struct Form<'a> {
    pub(super) api: Api,
    pub(super) model: &'a str,
    pub(super) asked: &'a Asked,
}

/// A piece of an answer that leaves the server.
pub(super) struct Piece {
    pub(super) request: u32,
    pub(super) at_ns: i64,
    pub(super) bytes: Bytes,
    /// Tokens of each chunk in it; empty for an answer that is no stream.
    pub(super) chunks: Vec<u32>,
    pub(super) cached_tokens: u32,
    pub(super) is_last: bool,
    /// Whether the request could not be served.
    pub(super) is_refused: bool,
}

/// An answer on its way.
struct Answer {
    voice: Voice,
    is_streamed: bool,
    /// What a proxy gathered, and the tokens of each chunk in it.
    gathered: String,
    chunks: Vec<u32>,
    /// Tokens delivered.
    told: u32,
    /// When the engine made its latest token.
    made_ns: Option<i64>,
}

/// The engine, its answers and its counts.
pub(super) struct Books {
    engine: Online<LinearCost>,
    setup: Setup,
    /// By number of the request; finished ones are empty.
    answers: Vec<Option<Answer>>,
    /// Per replica.
    counts: Vec<Counts>,
}

impl Books {
    /// An engine that nobody has asked anything yet.
    pub(super) fn new(setup: &Setup) -> Result<Self, ConfigError> {
        let engine = Online::new(setup.system.clone(), setup.cost)?;
        let counts = vec![Counts::default(); engine.states().len()];
        Ok(Self { engine, setup: setup.clone(), answers: Vec::new(), counts })
    }

    /// When something happens next.
    pub(super) fn next_ns(&self) -> Option<i64> {
        self.engine.next_ns()
    }

    /// Takes a request in and returns its number; `None` when the books are full.
    pub(super) fn submit(&mut self, now_ns: i64, form: &Form<'_>) -> Option<u32> {
        let asked = form.asked;
        let number = self.engine.submit(now_ns, asked.prompt_tokens, asked.output_tokens, &asked.blocks)?;
        let voice = Voice {
            api: form.api,
            id: number,
            model: form.model.to_string(),
            created_s: now_ns / 1_000_000_000,
            prompt_tokens: asked.prompt_tokens,
            cached_tokens: 0,
            has_usage: asked.has_usage,
            has_usage_per_chunk: asked.has_usage_per_chunk,
        };
        let is_streamed = asked.is_streamed;
        self.answers.push(Some(Answer { voice, is_streamed, gathered: String::new(), chunks: Vec::new(), told: 0, made_ns: None }));
        Some(number)
    }

    /// Does what is due by `now_ns`.
    pub(super) fn advance(&mut self, now_ns: i64, send: &mut impl FnMut(Piece)) {
        let mut deliveries = Vec::new();
        self.engine.advance(now_ns, |delivery| deliveries.push(delivery));
        for report in self.engine.take_steps() {
            let tokens = u64::from(report.decode_seqs) + report.prefill_tokens;
            self.counts[report.replica as usize].step_tokens.add(tokens as f64);
        }
        for delivery in deliveries {
            match delivery {
                Delivery::Made { request, at_ns, tokens, is_last } => self.made(request, at_ns, tokens, is_last),
                Delivery::Tokens { request, at_ns, tokens, is_last } => {
                    if let Some(piece) = self.tokens(request, at_ns, tokens, is_last) {
                        send(piece);
                    }
                }
                Delivery::Rejected { request, at_ns } => {
                    if let Some(piece) = self.rejected(request, at_ns) {
                        send(piece);
                    }
                }
            }
        }
    }

    /// The metrics page.
    pub(super) fn page(&self, model: &str, start_ns: i64) -> String {
        let engine = &self.setup.system.engine;
        let about = About {
            model,
            start_s: start_ns as f64 / 1e9,
            block_tokens: engine.block_tokens,
            has_prefix_caching: engine.prefix_caching,
            depth: engine.depth(),
            kv_dtype: self.setup.kv_dtype,
        };
        let replicas: Vec<_> = self.engine.states().into_iter().zip(&self.counts).collect();
        page(&about, &replicas)
    }

    /// The log's state lines, `span_s` after those before, of which `totals` are.
    pub(super) fn log(&self, now_ns: i64, span_s: f64, totals: &mut Vec<Totals>) -> Vec<String> {
        totals.resize(self.counts.len(), Totals::default());
        let states = self.engine.states();
        let lines = states.iter().zip(&self.counts).zip(totals.iter()).enumerate();
        let lines = lines.map(|(at, ((state, counts), before))| log::state(now_ns, at, state, counts, *before, span_s)).collect();
        *totals = self.counts.iter().map(Totals::of).collect();
        lines
    }

    /// Books what the engine made.
    fn made(&mut self, request: u32, at_ns: i64, tokens: u32, is_last: bool) {
        let row = *self.engine.row(request);
        let asked = *self.engine.request(request);
        let counts = &mut self.counts[row.replica as usize];
        counts.output_tokens += u64::from(tokens);
        // The API server gets a request behind the gateway and before its tokenizer.
        let arrival_ns = row.arrival_ns + self.setup.system.front.gateway_ns;
        let seconds = |ns: i64| ns as f64 / 1e9;
        let answer = self.answers[request as usize].as_mut();
        let before = answer.and_then(|answer| {
            answer.voice.cached_tokens = row.cached_tokens;
            answer.made_ns.replace(at_ns)
        });
        if let Some(before) = before {
            counts.gap.add(seconds(at_ns - before));
        } else {
            counts.ttft.add(seconds(at_ns - arrival_ns));
            counts.prompt_tokens += u64::from(asked.prompt_tokens);
            counts.prefix_queries += u64::from(asked.prompt_tokens);
            counts.prefix_hits += u64::from(row.cached_tokens);
        }
        if is_last {
            counts.finished += 1;
            counts.e2e.add(seconds(at_ns - arrival_ns));
            counts.queue.add(seconds(row.admitted_ns - row.reached_ns));
            counts.prefill.add(seconds(row.first_token_ns - row.admitted_ns));
            counts.decode.add(seconds(at_ns - row.first_token_ns));
            counts.inference.add(seconds(at_ns - row.admitted_ns));
            counts.prompt_length.add(f64::from(asked.prompt_tokens));
            counts.output_length.add(f64::from(asked.output_tokens));
            if asked.output_tokens > 1 {
                counts.tpot.add(seconds(at_ns - row.first_token_ns) / f64::from(asked.output_tokens - 1));
            }
        }
    }

    /// Tokens leave for the caller; nothing where a proxy gathers them.
    fn tokens(&mut self, request: u32, at_ns: i64, tokens: u32, is_last: bool) -> Option<Piece> {
        let slot = &mut self.answers[request as usize];
        let answer = slot.as_mut()?;
        let is_first = answer.told == 0;
        answer.told += tokens;
        if answer.is_streamed {
            if let Some(role) = answer.voice.role().filter(|_| is_first) {
                answer.gathered.push_str(&role);
            }
            answer.gathered.push_str(&answer.voice.tokens(tokens, answer.told, is_last));
            answer.chunks.push(tokens);
            if is_last {
                answer.gathered.push_str(&answer.voice.end(answer.told));
            }
        } else if is_last {
            answer.gathered = answer.voice.whole(answer.told);
        }
        let leaves = (is_last || answer.gathered.len() > self.setup.proxy_buffer_bytes) && !answer.gathered.is_empty();
        let piece = leaves.then(|| Piece {
            request,
            at_ns,
            bytes: Bytes::from(std::mem::take(&mut answer.gathered)),
            chunks: std::mem::take(&mut answer.chunks),
            cached_tokens: answer.voice.cached_tokens,
            is_last,
            is_refused: false,
        });
        if is_last {
            *slot = None;
        }
        piece
    }

    fn rejected(&mut self, request: u32, at_ns: i64) -> Option<Piece> {
        let answer = self.answers[request as usize].take()?;
        let error = r#"{"error":{"message":"the request is longer than the KV cache","type":"BadRequestError","code":400}}"#;
        let text = if answer.is_streamed { format!("data: {error}\n\ndata: [DONE]\n\n") } else { error.to_string() };
        Some(Piece { request, at_ns, bytes: Bytes::from(text), chunks: Vec::new(), cached_tokens: 0, is_last: true, is_refused: true })
    }
}
