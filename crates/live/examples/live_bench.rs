//! What recording and tapping cost: `cargo run --release -p live --example live_bench`.
//!
//! Servers and callers are processes of their own, so that the figures are those of the recorder and of the proxy alone.
//! Record: 50 targets at 1 s for 60 s (the page is a recorded vLLM's). Tap: 256 streams of one chunk every 20 ms.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::needless_for_each)] // a bench prints, and ends where something is wrong

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use live::{Address, Processes, RecordPlan, TapPlan, record, tap};

const CASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/kv_thrash/recorded/artifacts/metrics.prom.gz");
const STREAMS: usize = 256;
const CHUNKS: usize = 250;
const CHUNK_GAP: Duration = Duration::from_millis(20);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("pages") => serve(&pages()),
        Some("streams") => serve(&[]),
        Some("call") => call(&arguments[2]),
        Some("record") => record_targets(arguments.get(2).map_or(60, |seconds| seconds.parse().unwrap())),
        Some("tap") => tap_streams(),
        _ => {
            record_targets(60);
            tap_streams();
        }
    }
}

fn pages() -> Vec<String> {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(CASE).unwrap()).read_to_string(&mut text).unwrap();
    text.split("# SCRAPE ").skip(1).filter_map(|scrape| scrape.split_once('\n')).map(|(_, page)| page.to_string()).collect()
}

/// Answers with pages in turn and stays connected, or with a stream where there are none; tells its port on stdout.
fn serve(pages: &[String]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for (count, stream) in listener.incoming().enumerate() {
        let mut stream = stream.unwrap();
        if let Some(page) = pages.get(count % pages.len().max(1)) {
            let (mut page, mut number) = (page, count);
            while stream.read(&mut [0; 2048]).is_ok_and(|read| read > 0) {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                number += 1;
                page = &pages[number % pages.len()];
            }
        } else {
            std::thread::Builder::new().stack_size(128 << 10).spawn(move || answer_stream(&mut stream)).unwrap();
        }
    }
}

fn answer_stream(stream: &mut TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    let data = "data: {\"id\":\"cmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
    let started = Instant::now();
    for chunk in 1..=CHUNKS as u32 {
        if write!(stream, "{:x}\r\n{data}\r\n", data.len()).is_err() {
            return;
        }
        std::thread::sleep((CHUNK_GAP * chunk).saturating_sub(started.elapsed()));
    }
    let _ = stream.write_all(b"0\r\n\r\n");
}

/// Reads that many streams at once.
fn call(address: &str) {
    let callers: Vec<_> = (0..STREAMS)
        .map(|number| {
            let address = address.to_string();
            let read = move || {
                std::thread::sleep(CHUNK_GAP.mul_f64(number as f64 / STREAMS as f64));
                let mut stream = TcpStream::connect(address).unwrap();
                let head = "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
                stream.write_all(head.as_bytes()).unwrap();
                let mut buffer = [0; 4096];
                let mut tail = Vec::new();
                while !tail.ends_with(b"\r\n0\r\n\r\n") {
                    let count = stream.read(&mut buffer).unwrap();
                    assert!(count > 0, "a stream ended early");
                    tail.extend_from_slice(&buffer[..count]);
                    let excess = tail.len().saturating_sub(7);
                    tail.drain(..excess);
                }
            };
            std::thread::Builder::new().stack_size(128 << 10).spawn(read).unwrap()
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}

fn helper(arguments: &[&str]) -> Child {
    Command::new(std::env::current_exe().unwrap()).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

fn port_of(child: &mut Child) -> u16 {
    let (mut text, mut byte, stdout) = (String::new(), [0], child.stdout.as_mut().unwrap());
    while stdout.read(&mut byte).unwrap() > 0 && byte[0] != b'\n' {
        text.push(byte[0] as char);
    }
    text.parse().unwrap()
}

/// CPU seconds of this process, and its largest resident memory in MB.
fn cost() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kb = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim_end_matches("kB").trim();
    ((ticks(11) + ticks(12)) / 100.0, peak_kb.parse::<f64>().unwrap() / 1024.0)
}

fn out(name: &str) -> std::path::PathBuf {
    let out = std::env::temp_dir().join(format!("inferoscope-{name}-{}.capture", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    out
}

fn record_targets(seconds: u64) {
    let mut servers: Vec<Child> = (0..50).map(|_| helper(&["pages"])).collect();
    let targets: Vec<Address> = servers.iter_mut().map(|server| format!("http://127.0.0.1:{}", port_of(server)).parse().unwrap()).collect();
    let plan = RecordPlan {
        targets,
        logs: Vec::new(),
        processes: Processes::None,
        python: false,
        nvml: None,
        out: out("record"),
        duration: Some(Duration::from_secs(seconds)),
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
        profile: None,
    };
    let before = cost().0;
    let growing = std::cell::Cell::new((before, 0.0));
    let told = record(&plan, &AtomicBool::new(false), &|_| growing.set(cost())).unwrap();
    let (cpu, peak) = cost();
    println!(
        "record: 50 targets, {} readings ({} failed), {} rows in {:.1} s: {:.2} % of a core and {:.0} MB while it grows; \
         {:.2} s CPU to finish it, {peak:.0} MB at most",
        told.scrape_count,
        told.failed_count,
        told.row_count,
        told.elapsed.as_secs_f64(),
        100.0 * (growing.get().0 - before) / told.elapsed.as_secs_f64(),
        growing.get().1,
        cpu - growing.get().0,
    );
    std::fs::remove_dir_all(&plan.out).unwrap();
    servers.iter_mut().for_each(|server| server.kill().unwrap());
}

fn tap_streams() {
    let mut server = helper(&["streams"]);
    let upstream = Address::base(&format!("http://127.0.0.1:{}", port_of(&mut server))).unwrap();
    let plan = TapPlan { listen: "127.0.0.1:0".parse().unwrap(), upstream, out: out("tap"), adds_ids: false, token: None };
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let before = cost().0;
    let away = std::sync::Arc::clone(&stop);
    let told = tap(&plan, &stop, &|told| {
        let (away, listen) = (std::sync::Arc::clone(&away), told.listen.unwrap().to_string());
        std::thread::spawn(move || {
            assert!(helper(&["call", &listen]).wait().unwrap().success());
            away.store(true, Ordering::Relaxed);
        });
    })
    .unwrap();
    println!(
        "tap: {STREAMS} streams, {} chunks: read to written p50 {:.1} us, p99 {:.1} us; {:.1} us CPU per chunk, recording included",
        told.chunk_count,
        told.delay_p50_ns as f64 / 1e3,
        told.delay_p99_ns as f64 / 1e3,
        1e6 * (cost().0 - before) / told.chunk_count as f64
    );
    std::fs::remove_dir_all(&plan.out).unwrap();
    server.kill().unwrap();
}
