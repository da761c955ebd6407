//! Time and memory of the simulator on one core, and of a peer where it is installed.
//!
//! `cargo run --release -p simulate --example sim_bench`. The peer is the Python package `vllm-sr-sim`, imported by the
//! `python3` in the path (or the one that `INFEROSCOPE_PYTHON` names); without it its rows say so. Loads are generated,
//! so all serving figures printed here are simulated ones.
#![allow(clippy::print_stdout)] // a benchmark prints

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use simulate::config::{EngineConfig, Routing, Speculation, SystemConfig, Topology};
use simulate::cost::LinearCost;
use simulate::outcome::Row;
use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};
use simulate::{Request, Workload, simulate};

/// An 8B model on a device of 3.35 TB/s, roughly.
const LAW: LinearCost = LinearCost { a_s: 0.0076, b_s: 71e-6, c_s: 26.7e-6, d_s: 39e-9, e_s: 0.0 };
/// Requests per second: about two thirds of what this law serves.
const PER_S: f64 = 9.4;

fn load(count: usize, has_prefix: bool) -> Workload {
    Generator {
        count,
        arrivals: Arrivals::Poisson { per_s: PER_S },
        prompts: Lengths::LogNormal { median: 300.0, sigma: 0.8, most: 4_000 },
        outputs: Lengths::LogNormal { median: 180.0, sigma: 0.7, most: 2_000 },
        prefix: has_prefix.then_some(SharedPrefix { texts: 200, blocks: 8, block_tokens: 64 }),
        seed: 42,
    }
    .generate()
}

/// Largest resident set of this process so far, bytes; 0 where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn single(kv_blocks: u32) -> SystemConfig {
    SystemConfig::single(EngineConfig::vllm(kv_blocks))
}

fn ours(name: &str, workload: &Workload, config: &SystemConfig) {
    let count = workload.requests().len();
    let started = Instant::now();
    let Ok(outcome) = simulate(workload, config, &LAW) else { return };
    let run_s = started.elapsed().as_secs_f64();
    let summary = outcome.summary(workload);
    let tally = outcome.tally();
    let ttft = summary.ttft.map_or("saturated".to_string(), |ttft| format!("{:.1} ms", ttft.mean_ns / 1e6));
    println!(
        "{name:<34} {run_s:>8.3} s  {:>6.2} us/request  {:>5.1} ns/step  {} steps, running {:.1}, TTFT {ttft}, cached {:.2}, {:?}",
        run_s * 1e6 / count as f64,
        run_s * 1e9 / tally.steps as f64,
        tally.steps,
        summary.running_mean,
        summary.cached_frac,
        outcome.verdict,
    );
}

/// The peer's fleet simulation of one pool with one H100, fed the same requests: seconds, prompt, answer per line.
const PEER: &str = r"
import sys, time
try:
    from fleet_sim import Fleet, FleetConfig, PoolConfig, H100_80GB
    from fleet_sim.core.request import Request
except ImportError:
    print('not installed'); sys.exit()
rows = [line.split() for line in sys.stdin]
arrivals = [(float(a), Request(i, float(a), int(p), int(o))) for i, (a, p, o) in enumerate(rows)]
config = FleetConfig([PoolConfig('one', H100_80GB, 1, 8192)], 'RandomRouter')
started = time.perf_counter()
result = Fleet(config).run(arrivals)
took = time.perf_counter() - started
print(f'{took:.3f} s, {took * 1e6 / len(rows):.1f} us/request, {len(result.completed)} completed')
";

fn peer(count: usize) {
    let mut requests = String::new();
    for request in load(count, false).requests() {
        let arrival_s = request.arrival_ns as f64 / 1e9;
        writeln!(requests, "{arrival_s} {} {}", request.prompt_tokens, request.output_tokens).ok();
    }
    println!("vllm-sr-sim, the same {count} requests: {}", said_by_peer(&requests).unwrap_or_else(|error| error.to_string()));
}

fn said_by_peer(requests: &str) -> std::io::Result<String> {
    let python = std::env::var("INFEROSCOPE_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let mut child = Command::new(python).args(["-c", PEER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A peer that is not there ends before it reads everything.
        input.write_all(requests.as_bytes()).ok();
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    Ok(if said.is_empty() { "did not run".to_string() } else { said })
}

fn main() {
    println!("bytes per request: {} in the workload, {} in the outcome", size_of::<Request>(), size_of::<Row>());
    let (few, few_shared) = (load(10_000, false), load(10_000, true));
    ours("10,000 requests", &few, &single(30_000));
    ours("10,000, shared prefixes", &few_shared, &single(30_000));
    ours("10,000, step by step", &few, &SystemConfig { jump: false, ..single(30_000) });
    let before = peak_bytes();
    let many = load(1_000_000, false);
    ours("1,000,000 requests", &many, &single(30_000));
    println!("peak memory grew by {} bytes per request", peak_bytes().saturating_sub(before) / 1_000_000);
    ours("1,000,000, cache too small", &many, &single(1_000));
    let replicas = SystemConfig { topology: Topology::Unified { replicas: 8 }, routing: Routing::LeastRequests, ..single(30_000) };
    ours("1,000,000, 8 replicas", &many.faster(8.0), &replicas);
    let drafts = Speculation { acceptance: vec![0.7, 0.6, 0.5], draft_step_ns: 1_000_000, draft_seq_ns: 0 };
    let mut drafting = single(30_000);
    drafting.engine.speculation = Some(drafts);
    ours("10,000, three drafts", &few, &drafting);
    ours("1,000,000, shared prefixes", &load(1_000_000, true), &single(30_000));
    for count in [1_000, 10_000] {
        peer(count);
    }
}
