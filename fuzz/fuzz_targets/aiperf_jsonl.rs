//! See `ingest::fuzz::aiperf_jsonl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::aiperf_jsonl(data));
