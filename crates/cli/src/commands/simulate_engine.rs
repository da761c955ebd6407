//! `inferoscope simulate-engine`: a server to try the other verbs on, timed by the scheduler simulation.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use live::simulated::{Fault, ServeConfig, Server, Setup};

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

    /// Requests that run together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_num_seqs: Option<u32>,

    /// Tokens of one step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    max_num_batched_tokens: Option<u32>,

    /// KV blocks of 16 tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=100_000_000))]
    kv_blocks: Option<u32>,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn fault_help() -> String {
    format!("Build a fault in, as in small-kv=0.8; may be given more than once: {}", Fault::names().collect::<Vec<_>>().join(", "))
}

/// Serves until it is interrupted.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let token = args.token_from.as_deref().map(token).transpose()?;
    let mut setup = Setup::default();
    let engine = &mut setup.system.engine;
    setup.system.seed = args.seed;
    engine.max_num_seqs = args.max_num_seqs.unwrap_or(engine.max_num_seqs);
    engine.max_num_batched_tokens = args.max_num_batched_tokens.unwrap_or(engine.max_num_batched_tokens);
    engine.kv_blocks = args.kv_blocks.unwrap_or(engine.kv_blocks);
    let faults: Vec<String> = args.fault.iter().map(|fault| format!("# fault {fault}: {}", fault.apply(&mut setup))).collect();
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
