//! See `ingest::fuzz::host_jsonl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::host_jsonl(data));
