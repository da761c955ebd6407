//! See `ingest::fuzz::proxy_jsonl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::proxy_jsonl(data));
