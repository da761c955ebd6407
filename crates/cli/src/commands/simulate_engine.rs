//! `inferoscope simulate-engine`: a server to try the other verbs on, timed by the scheduler simulation.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use live::simulated::{Fault, Flags, ServeConfig, Server, Setup};

use crate::exit::Exit;
use crate::out;

/// Serve simulated answers, with faults to find
///
/// An OpenAI-compatible server on this machine. Nothing is computed: a simulation of vLLM's scheduler decides when each token
/// leaves, and fills /metrics and the log on stdout. Its step times are assumed (an 8B model on an H100). A fault sets the
/// mechanism up differently, with a strength from 0 to 1; figures are never edited. A word is a token.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 stopped, 2 could not run")]
pub(crate) struct Args {
    /// Port on the loopback; 0 for a free one
    #[arg(long, value_name = "N", default_value_t = 8000)]
    port: u16,

    /// Address to listen on; beyond the loopback a token is needed
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,

    /// Environment variable that holds the bearer token which requests must have
    #[arg(long, value_name = "NAME")]
    token_from: Option<String>,

    /// Model name to tell
    #[arg(long, value_name = "NAME", default_value = "simulated-8b")]
    model: String,

    /// Build a fault in, as in small-kv=0.8; may be given more than once
    #[arg(long, value_name = "NAME=STRENGTH", help = fault_help())]
    fault: Vec<Fault>,

    #[command(flatten)]
    flags: FlagArgs,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Flags of vLLM; what is typed wins over a fault.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(next_help_heading = "Flags of vLLM that it takes; they win over a fault")]
struct FlagArgs {
    /// Requests that run together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_num_seqs: Option<u32>,

    /// Tokens of one step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    max_num_batched_tokens: Option<u32>,

    /// Tokens of one prompt in one step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    long_prefill_token_threshold: Option<u32>,

    /// KV blocks of 16 tokens
    #[arg(long, visible_alias = "kv-blocks", value_name = "N", value_parser = clap::value_parser!(u32).range(64..=100_000_000))]
    num_gpu_blocks_override: Option<u32>,

    /// Number format of the KV cache; fp8 doubles the blocks
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = ["auto", "fp8"])]
    kv_cache_dtype: String,

    /// Find prefixes of prompts again, as it does by default
    #[arg(long, overrides_with = "no_enable_prefix_caching")]
    enable_prefix_caching: bool,

    /// Compute every prompt whole
    #[arg(long)]
    no_enable_prefix_caching: bool,

    /// Prepare a step while the one before runs, as it does by default
    #[arg(long, overrides_with = "no_async_scheduling")]
    async_scheduling: bool,

    /// Prepare a step when the one before is done
    #[arg(long)]
    no_async_scheduling: bool,

    /// Tokens of an answer that are sent together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    stream_interval: Option<u32>,

    /// Processes that turn text into tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    api_server_count: Option<u32>,
}

impl FlagArgs {
    fn flags(&self) -> Flags {
        let switch = |is_on: bool, is_off: bool| is_on.then_some(true).or(is_off.then_some(false));
        Flags {
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            long_prefill_token_threshold: self.long_prefill_token_threshold,
            num_gpu_blocks_override: self.num_gpu_blocks_override,
            has_fp8_cache: self.kv_cache_dtype == "fp8",
            prefix_caching: switch(self.enable_prefix_caching, self.no_enable_prefix_caching),
            async_scheduling: switch(self.async_scheduling, self.no_async_scheduling),
            stream_interval: self.stream_interval,
            api_server_count: self.api_server_count,
        }
    }
}

fn fault_help() -> String {
    format!("Build a fault in, as in small-kv=0.8; may be given more than once: {}", Fault::names().collect::<Vec<_>>().join(", "))
}

/// Serves until it is interrupted.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let token = args.token_from.as_deref().map(token).transpose()?;
    let mut setup = Setup::default();
    setup.system.seed = args.seed;
    let faults: Vec<String> = args.fault.iter().map(|fault| format!("# fault {fault}: {}", fault.apply(&mut setup))).collect();
    args.flags.flags().apply(&mut setup);
    let listen = SocketAddr::new(args.listen, args.port);
    let server = Server::bind(ServeConfig { listen, token, model: args.model.clone(), setup })?;
    let address = server.address().context("could not learn the address")?;
    out::print(&format!("# simulated engine on http://{address}, step times are assumed\n"))?;
    for fault in &faults {
        out::print(&format!("{fault}\n"))?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    live::on_interrupt(move |exit_code| {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(exit_code);
        }
    })
    .context("could not listen for interrupts")?;
    server.serve(&stop, &|line| {
        // A log that nobody reads any more is no reason to stop serving.
        let _ = out::print(&format!("{line}\n"));
    })?;
    Ok(Exit::Done)
}

fn token(name: &str) -> anyhow::Result<String> {
    let token = std::env::var(name).with_context(|| format!("expected the token in the environment variable `{name}`"))?;
    let token = token.trim().to_string();
    anyhow::ensure!(token.len() >= 16, "expected a token of at least 16 characters in `{name}`, found a shorter one");
    Ok(token)
}
