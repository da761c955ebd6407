//! How requests are put to a server: who asks, in which form, which load, and how long it is waited for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use live::load::{self, Api, Axis, Dialect, HttpVersion, LoadRun, Plan, Tokenizer};
use live::{Address, Authorization};

use super::offer::OfferArgs;
use crate::progress::Progress;
use crate::quantity;

/// The requests and the way they are sent.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Endpoint
    #[arg(long, value_name = "API", default_value = "chat", value_parser = ["chat", "completions"])]
    api: String,

    /// How the server is spoken to [default: as its model list says]
    #[arg(long, value_name = "DIALECT", value_parser = ["openai", "vllm", "sglang", "tgi", "llama.cpp"])]
    dialect: Option<String>,

    /// Model to ask for [default: the first of the server's list]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Where a bearer token stands: env:NAME or file:PATH
    #[arg(long, value_name = "PLACE")]
    bearer: Option<String>,

    /// Speak HTTP/2, one request at a time on a connection: agreed upon over https, taken for granted over http
    #[arg(long)]
    http2: bool,

    /// Ask for whole answers instead of streams
    #[arg(long)]
    no_stream: bool,

    /// A tokenizer.json at hand: prompts get exactly their tokens by it, and tokens are counted where the server does not tell
    /// them with each chunk
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// Let answers end before their limit
    #[arg(long)]
    may_end_early: bool,

    #[command(flatten)]
    pub(crate) offer: OfferArgs,

    /// First requests, which warm up and do not count
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: usize,

    /// Send nothing after this [default: 30s without --requests and --replay]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    duration: Option<Duration>,

    /// Longest wait for an answer
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::duration)]
    timeout: Duration,

    /// Longest wait for answers after the last request
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    drain: Duration,

    /// Most requests in flight
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    in_flight: u32,
}

/// Who is asked, and with what.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) server: &'a Address,
    pub(crate) authorization: Option<&'a Authorization>,
    pub(crate) target: &'a load::Target,
    pub(crate) tokenizer: Option<&'a Tokenizer>,
}

impl AskArgs {
    /// Who asks.
    pub(crate) fn authorization(&self) -> anyhow::Result<Option<Authorization>> {
        Ok(self.bearer.as_deref().map(Authorization::bearer).transpose()?)
    }

    /// The tokenizer that was named.
    pub(crate) fn tokenizer(&self) -> anyhow::Result<Option<Tokenizer>> {
        Ok(self.tokenizer.as_deref().map(Tokenizer::read).transpose()?)
    }

    /// What is known of the server; asked only for what was not typed.
    pub(crate) fn target(&self, server: &Address, authorization: Option<&Authorization>) -> anyhow::Result<load::Target> {
        let typed = self.dialect.as_deref().and_then(|id| Dialect::ALL.into_iter().find(|dialect| dialect.id() == id));
        let asked = load::ask(server, authorization);
        let model = self.model.clone();
        match (asked, typed, model) {
            (Ok(target), typed, model) => {
                Ok(load::Target { model: model.unwrap_or(target.model), dialect: typed.unwrap_or(target.dialect), ..target })
            }
            (Err(_), Some(dialect), Some(model)) => Ok(load::Target { model, dialect, is_simulated: false }),
            (Err(error), ..) => Err(error).context("could not ask the server for its model; with --model and --dialect it is not asked"),
        }
    }

    /// The load, or one level of it.
    pub(crate) fn plan(&self, asked: &Asked<'_>, level: Option<(Axis, f64)>) -> anyhow::Result<Plan> {
        let Asked { server, authorization, target, tokenizer } = *asked;
        let is_open_ended = self.offer.requests.is_none() && self.offer.replay.is_none();
        let duration = self.duration.or_else(|| is_open_ended.then_some(Duration::from_secs(30)));
        let schedule = self.offer.schedule(level, duration);
        Ok(Plan {
            server: server.clone(),
            authorization: authorization.cloned(),
            http: if self.http2 { HttpVersion::Http2 } else { HttpVersion::Http1 },
            api: if self.api == "chat" { Api::Chat } else { Api::Completions },
            dialect: target.dialect,
            model: target.model.clone(),
            is_streamed: !self.no_stream,
            may_end_early: self.may_end_early,
            workload: self.offer.workload(schedule, level, duration)?,
            tokenizer: tokenizer.cloned(),
            schedule,
            warmup: self.warmup,
            duration,
            timeout: self.timeout,
            drain: self.drain,
            most_in_flight: self.in_flight,
            seed: self.offer.seed,
        })
    }
}

/// Runs one load and shows how far it is; `what` opens the line.
pub(crate) fn run_shown(plan: &Plan, stop: &std::sync::Arc<std::sync::atomic::AtomicBool>, what: &str) -> Result<LoadRun, load::LoadError> {
    let progress = Progress::new();
    let total_ms = plan.duration.map_or(0, |duration| duration.as_millis() as u64);
    let request_count = plan.workload.requests().len() as u64;
    let show = |seen: load::Seen| {
        let message = format!("{what}{} in flight, {} answered, {} failed", seen.in_flight, seen.done, seen.failed);
        match plan.duration {
            Some(_) => progress.show(&message, seen.elapsed.as_millis() as u64, total_ms),
            None => progress.show(&message, seen.done + seen.failed, request_count),
        }
    };
    load::run(plan, stop, &show)
}
