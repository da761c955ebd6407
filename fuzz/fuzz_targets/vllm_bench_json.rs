//! See `ingest::fuzz::vllm_bench_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::vllm_bench_json(data));
