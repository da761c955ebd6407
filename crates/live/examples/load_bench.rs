//! How exact and how cheap the load client is: reported against true times, and CPU time per chunk.
//!
//! `cargo run --release -p live --example load_bench`. The server is part of this process, on a thread of its own, and
//! notes when it really wrote each chunk; CPU time is that of the client's threads alone. A busy machine spoils the times
//! and says so in the last columns.
//!
//! `load_bench serve paced|flood` is the server alone, for clients of any make (`cargo xtask bench load`): it tells its address, and
//! once its input ends the truth as one line of JSON, times in ms.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/support/known_http2.rs"]
mod known_http2;
#[allow(dead_code)] // the tests use more of it
#[path = "../tests/support/known_server.rs"]
mod known_server;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use known_server::{Script, Usage, percentile, plan, start};
use live::load::{self, Figures, HttpVersion, Plan, Schedule, Slo};

const WORDS_ARE_TOKENS: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
    "pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
    "model":{"type":"WordLevel","vocab":{"[UNK]":0,"tok":1},"unk_token":"[UNK]"}}"#;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", "paced"] => return serve(paced()),
        ["serve", "flood"] => return serve(flood()),
        _ => {}
    }
    println!("paced: first token after 200 ms, a chunk of one token each 20 ms, 64 chunks; errors are reported less true, ms");
    println!(
        "{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}  client-limited",
        "streams", "TTFT p50", "TTFT p99", "gap p50", "gap p99", "failed", "us/chunk", "lag p99", "in line"
    );
    for streams in [64, 256, 1024] {
        // Users that all connect in the same moment measure how the server accepts.
        row(HttpVersion::Http1, streams, 3 * streams, paced(), Duration::from_secs(1));
    }
    println!("paced, over HTTP/2");
    row(HttpVersion::Http2, 64, 192, paced(), Duration::from_secs(1));
    row(HttpVersion::Http2, 256, 768, paced(), Duration::from_secs(1));
    println!("flood: 256 chunks as fast as the server can, 512000 chunks in all");
    for streams in [16, 64, 256] {
        row(HttpVersion::Http1, streams, 2000, flood(), Duration::ZERO);
    }
    println!("flood, over HTTP/2");
    row(HttpVersion::Http2, 64, 2000, flood(), Duration::ZERO);
    println!("flood, counted with a tokenizer in which a word is a token");
    let path = std::env::temp_dir().join(format!("inferoscope-bench-{}.json", std::process::id()));
    std::fs::write(&path, WORDS_ARE_TOKENS).unwrap();
    let tokenizer = Some(load::Tokenizer::read(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    counted_row(tokenizer, HttpVersion::Http1, 64, 2000, flood(), Duration::ZERO);
}

fn paced() -> Script {
    Script { chunks: 64, usage: Usage::Total, ..Script::default() }
}

fn flood() -> Script {
    Script { ttft: Duration::ZERO, interval: Duration::ZERO, chunks: 256, usage: Usage::Total, ..Script::default() }
}

fn serve(script: Script) {
    let (address, truth) = start(script);
    println!("{address}");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink()); // an input that breaks is over as well
    let truth = truth.lock().unwrap();
    let ms = |values: &[f64], share: f64| 1e3 * percentile(values, share);
    println!(
        "{{\"requests\": {}, \"chunks\": {}, \"ttft_p50\": {}, \"ttft_p99\": {}, \"gap_p50\": {}, \"gap_p99\": {}}}",
        truth.requests,
        truth.gaps_s.len() + truth.ttft_s.len(),
        ms(&truth.ttft_s, 0.5),
        ms(&truth.ttft_s, 0.99),
        ms(&truth.gaps_s, 0.5),
        ms(&truth.gaps_s, 0.99)
    );
}

fn row(http: HttpVersion, streams: u32, requests: u32, script: Script, ramp: Duration) {
    counted_row(None, http, streams, requests, script, ramp);
}

fn counted_row(tokenizer: Option<load::Tokenizer>, http: HttpVersion, streams: u32, requests: u32, script: Script, ramp: Duration) {
    let (address, truth) = if http == HttpVersion::Http2 { known_http2::start(script) } else { start(script) };
    let server = live::Address::base(&format!("http://{address}")).unwrap();
    let schedule = Schedule::Closed { users: streams, think: Duration::ZERO, ramp };
    let plan = Plan { http, tokenizer, most_in_flight: streams, ..plan(server, requests as usize, 1.0, [32, 64], schedule) };
    let run = load::run(&plan, &Arc::new(AtomicBool::new(false)), &|_| {}).unwrap();
    let figures = Figures::of(&run.attempts, Slo::default());
    let truth = truth.lock().unwrap();
    let off = |seen: f64, values: &[f64], share: f64| format!("{:>10.3}", 1e3 * (seen - percentile(values, share)));
    let per_chunk = run.health.cpu_s.map_or("not told".into(), |cpu| format!("{:.2}", 1e6 * cpu / figures.chunks.max(1) as f64));
    println!(
        "{streams:>8}{}{}{}{}{:>10}{per_chunk:>12}{:>10.2}{:>9.1}%  {}",
        off(figures.ttft.p50, &truth.ttft_s, 0.5),
        off(figures.ttft.p99, &truth.ttft_s, 0.99),
        off(figures.chunk_gap.p50, &truth.gaps_s, 0.5),
        off(figures.chunk_gap.p99, &truth.gaps_s, 0.99),
        figures.failed(),
        1e3 * run.health.lag.p99,
        100.0 * run.health.wait_frac.unwrap_or(f64::NAN),
        run.health.limits(&figures).join("; ")
    );
}
