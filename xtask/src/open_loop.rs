//! The case `open_loop_32`: what a seat cap does to an open loop near saturation, and its twin without the cap.
//!
//! No GPU was at hand to record it, so a deterministic simulation writes what vLLM 0.33, its load generator and a
//! scraper would have written; every file says so in its first line or in `label`. The story: Llama-3.1-8B on one H100,
//! `--max-num-seqs 32`; traffic rises from 6 to 9.4 requests per second at 02:31, and from 02:48:40 a ten-minute
//! benchmark at that rate is recorded while the metrics are scraped. The twin repeats the same requests with 64 seats.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

#[path = "open_loop/bench.rs"]
mod bench;
#[path = "open_loop/engine.rs"]
mod engine;
#[path = "open_loop/figures.rs"]
mod figures;
#[path = "open_loop/log.rs"]
mod log;
#[path = "open_loop/metrics.rs"]
mod metrics;
#[path = "open_loop/random.rs"]
mod random;

use engine::{Engine, Request, Step, TICK_US};
use random::Random;

/// 2026-11-30 02:28:40 UTC, when the load begins; all times below count from it.
const LOAD_BEGINS_EPOCH_S: u64 = 1_796_005_720;
/// 02:27:06.4, as `/metrics` prints it.
const PROCESS_START_EPOCH: &str = "1.7960056264e+09";
/// 02:31:00: traffic rises.
const RISE_US: u64 = 140_000_000;
/// 02:48:40: the recorded benchmark begins, and with it the scrapes.
const WINDOW_US: u64 = 1_200_000_000;
/// Its requests, in exactly ten minutes.
const WINDOW_REQUESTS: usize = 5640;
const WINDOW_S: u64 = 600;
/// Load goes on after it, so that the window ends in mid-traffic.
const AFTER_US: u64 = 30_000_000;

const RATE_BEFORE_PER_S: f64 = 6.0;
const RATE_PER_S: f64 = 9.4;
/// Chosen among some thousands for a window with a queue near its long-run mean that neither grows nor
/// shrinks.
const SEED: u64 = 25_639;

/// Step time 7.6 ms + 79 us per sequence + 26.7 us per prompt token: with 900 tokens in and 250 out the prompts take
/// 0.096 ms of every token, so the engine behaves like 7.6 + 0.175 B ms.
const ENGINE: Engine =
    Engine { seats: 32, token_budget: 2048, block_tokens: 16, step_us: 7600.0, sequence_us: 79.0, prompt_token_us: 26.7, noise: 0.02 };
const BLOCKS: u32 = 24_248;
const MODEL: &str = "llama-3.1-8b";
const MODEL_PATH: &str = "meta-llama/Llama-3.1-8B-Instruct";
/// From the end of a step to its outputs in the API server, and to the client.
const TO_FRONTEND_US: u64 = 3000;
const TO_CLIENT_US: u64 = 4500;

/// One simulated run.
struct Run {
    seats: usize,
    /// In the order they were sent.
    requests: Vec<Request>,
    steps: Vec<Step>,
    window_from: usize,
}

impl Run {
    /// Requests of the recorded benchmark.
    fn window(&self) -> &[Request] {
        &self.requests[self.window_from..self.window_from + WINDOW_REQUESTS]
    }
}

/// The two cases and their seats.
const CASES: [(&str, usize); 2] = [("open_loop_32", 32), ("open_loop_32_fixed", 64)];

/// Writes the artifacts of `open_loop_32` and `open_loop_32_fixed` below `dir` (`cases/batch_cap_reached`).
pub(crate) fn generate(dir: &Path) -> io::Result<()> {
    for (case, seats) in CASES {
        let run = simulate(seats, SEED);
        let artifacts = dir.join(case).join("artifacts");
        fs::create_dir_all(&artifacts)?;
        write(&artifacts, "command.txt", command(seats).as_bytes())?;
        compress(&artifacts, "server.log.gz", &log::text(&run))?;
        compress(&artifacts, "metrics.prom.gz", &metrics::scrapes(&run))?;
        compress(&artifacts, "bench.json.gz", &bench::document(&run))?;
    }
    Ok(())
}

/// What the two runs show, for the person who generates them.
pub(crate) fn figures() -> String {
    CASES.iter().map(|(case, seats)| format!("{case}\n{}", figures::text(&simulate(*seats, SEED)))).collect::<Vec<_>>().concat()
}

fn command(seats: usize) -> String {
    format!(
        "# inferoscope: simulated\n\
         CUDA_VISIBLE_DEVICES=0 vllm serve {MODEL_PATH} --served-model-name {MODEL} --max-num-seqs {seats} \
         --max-num-batched-tokens 2048 --max-model-len 8192 --gpu-memory-utilization 0.8 --disable-uvicorn-access-log \
         --host 127.0.0.1 --port 8000\n"
    )
}

fn compress(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    // No time and no name in the header: the same text gives the same bytes.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    write(dir, name, &encoder.finish()?)
}

/// Writes beside the file and renames, so that a broken run leaves no half file.
fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let part = dir.join(format!("{name}.part"));
    fs::write(&part, bytes)?;
    fs::rename(part, dir.join(name))
}

/// Simulates the story with a number of seats.
fn simulate(seats: usize, seed: u64) -> Run {
    let mut random = Random::new(seed);
    let (times, window_from) = arrivals(&mut random);
    let mut requests: Vec<Request> = times.into_iter().map(|sent_us| request(&mut random, sent_us)).collect();
    let steps = engine::run(&Engine { seats, ..ENGINE }, &mut requests, seed ^ 0x5eed);
    Run { seats, requests, steps, window_from }
}

/// Lengths as the load generator's random data set draws them: 900 and 250 tokens, give or take 30 %.
fn request(random: &mut Random, sent_us: u64) -> Request {
    let ticks = |us: f64| us as u64 / TICK_US * TICK_US;
    let arrived_us = ticks(sent_us as f64 + random.between(1000.0, 2000.0));
    Request {
        prompt_tokens: random.between(630.0, 1171.0) as u32,
        output_tokens: random.between(175.0, 326.0) as u32,
        sent_us,
        arrived_us,
        ready_us: arrived_us + ticks(random.between(8000.0, 16000.0)),
        ..Request::default()
    }
}

/// Poisson arrivals of the whole story, with the index of the benchmark's first; the benchmark's are scaled to fill the
/// window, as its client does.
fn arrivals(random: &mut Random) -> (Vec<u64>, usize) {
    let mut times = Vec::new();
    let mut at_us = 0.0;
    loop {
        let rate = if at_us < RISE_US as f64 { RATE_BEFORE_PER_S } else { RATE_PER_S };
        at_us += random.exponential() / rate * 1e6;
        if at_us >= WINDOW_US as f64 {
            break;
        }
        times.push(at_us as u64);
    }
    let window_from = times.len();
    let gaps: Vec<f64> = (0..WINDOW_REQUESTS).map(|_| random.exponential()).collect();
    let scale = WINDOW_S as f64 * 1e6 / gaps.iter().sum::<f64>();
    at_us = WINDOW_US as f64;
    for gap in gaps {
        times.push(at_us as u64);
        at_us += gap * scale;
    }
    while at_us < (WINDOW_US + WINDOW_S * 1_000_000 + AFTER_US) as f64 {
        times.push(at_us as u64);
        at_us += random.exponential() / RATE_PER_S * 1e6;
    }
    (times, window_from)
}
