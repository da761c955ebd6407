//! See `ingest::fuzz::engine_log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::engine_log(data));
