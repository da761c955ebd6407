//! See `ingest::fuzz::sglang_bench_jsonl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::sglang_bench_jsonl(data));
