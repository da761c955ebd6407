//! See `ingest::fuzz::client_jsonl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::client_jsonl(data));
