//! The fuzz functions over samples and mutations, on stable and in about a second: every format gets every sample.

use std::fs;
use std::time::{Duration, Instant};

use crate::shown::data;

/// A small generator with a fixed seed: the same mutations in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

fn samples() -> Vec<Vec<u8>> {
    let names = ["vllm-cpu/bench.json", "vllm-cpu/command.txt", "vllm-cpu/host.jsonl", "vllm-cpu/metrics.prom.gz", "vllm-cpu/proxy.jsonl"];
    let logs = ["vllm-cpu/server.log", "vllm-old/server.log", "speculation.log", "client.jsonl"];
    let telemetry = ["gpu/nvidia-smi.csv", "gpu/dmon.txt", "gpu/dcgmi-dmon.txt", "gpu/dcgm.prom", "spans/otlp.jsonl"];
    let traces = ["traces/nsys_2026.sqlite", "traces/rocprofv3.json", "traces/rocprofv3.pftrace"];
    let stacks = ["stacks/py-spy-raw.txt", "stacks/py-spy-dump.txt", "stacks/py-spy-dump.json"];
    let engines =
        ["sglang.log", "llama_cpp.log", "tensorrt_llm.log", "tgi.log", "vllm_gpu.log", "nginx.conf", "sglang.prom", "tensorrt_llm.prom"];
    let engines = engines.map(|name| format!("engines/{name}"));
    let names = names.iter().chain(&logs).chain(&telemetry).chain(&stacks).chain(&traces).map(ToString::to_string);
    let mut samples: Vec<Vec<u8>> = names.chain(engines).map(|name| fs::read(data(&name)).unwrap()).collect();
    let results = fs::read_dir(data("load-results")).unwrap().map(|file| file.unwrap().path());
    samples.extend(results.collect::<std::collections::BTreeSet<_>>().into_iter().map(|path| fs::read(path).unwrap()));
    // The start of a scrape, unpacked, so that mutations reach the text.
    let mut text = Vec::new();
    let packed = fs::File::open(data("vllm-cpu/metrics.prom.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(packed), &mut text).unwrap();
    samples.push(text[..20_000].to_vec());
    // Traces, unpacked for the same reason; the shortest, since every format reads every sample.
    for name in ["triton_example", "inference_2022"] {
        let mut text = Vec::new();
        let packed = fs::File::open(data(&format!("traces/{name}.json.gz"))).unwrap();
        std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(packed), &mut text).unwrap();
        samples.push(text);
    }
    samples.push(
        concat!(
            r#"{"status":"success","data":["vllm:num_requests_running","up"]}"#,
            "\n",
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"vllm:e2e_request_latency_seconds_bucket","#,
            r#""le":"+Inf","instance":"a"},"values":[[1796036013.162,"2"],[1796036028.162,"NaN"]]}]},"warnings":["w"]}"#
        )
        .as_bytes()
        .to_vec(),
    );
    samples.push(b"schema = \"inferoscope.observations/1\"\n[[run]]\nflags = \"-tp 2\"\n[run.signals]\n\"kernel.time.gemm\" = \"> 1 ms\"\n[[run.sweep]]\n\"client.class\" = \"x\"\n".to_vec());
    samples
}

fn mutate(sample: &[u8], dice: &mut Dice) -> Vec<u8> {
    const TOKENS: &[&[u8]] = &[
        b"\"",
        b"{",
        b"}",
        b"[",
        b"\n",
        b"\r",
        b"\\",
        b"1e308",
        b"-",
        b"\xff",
        b"\x00",
        b"le=\"",
        b"# SCRAPE ts=1 dur=1\n",
        b"99999999999999999999",
        b"=",
        b"-9223372036.854775808",
        b"9223372036.854775807",
        b"NaN",
        b"'",
    ];
    let mut bytes = sample.to_vec();
    for _ in 0..=dice.roll(8) {
        let at = dice.roll(bytes.len());
        match dice.roll(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = dice.roll(256) as u8,
            2 => drop(bytes.splice(at..at, TOKENS[dice.roll(TOKENS.len())].iter().copied())),
            3 => {
                let end = (at + dice.roll(200)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => drop(bytes.drain(at..(at + dice.roll(50)).min(bytes.len()))),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.roll(8);
                }
            }
        }
    }
    bytes
}

#[test]
fn no_format_panics_on_samples_their_prefixes_or_mutations() {
    let samples = samples();
    for sample in &samples {
        for (_, run) in ingest::fuzz::ALL {
            run(sample);
        }
    }
    let mut dice = Dice(0x5eed_1234_5678_9abc);
    let until = Instant::now() + Duration::from_secs(1);
    let mut rounds = 0;
    while Instant::now() < until {
        let sample = &samples[dice.roll(samples.len())];
        let bytes = mutate(sample, &mut dice);
        let (name, run) = ingest::fuzz::ALL[dice.roll(ingest::fuzz::ALL.len())];
        let outcome = std::panic::catch_unwind(|| run(&bytes));
        assert!(outcome.is_ok(), "`{name}` panicked in round {rounds} on {:?}", String::from_utf8_lossy(&bytes));
        rounds += 1;
    }
    assert!(rounds > 0);
}

#[test]
fn every_prefix_of_every_sample_imports() {
    let mut dice = Dice(0xfeed_1234_5678_9abc);
    for sample in samples() {
        for _ in 0..12 {
            ingest::fuzz::any(&sample[..dice.roll(sample.len())]);
        }
    }
}
