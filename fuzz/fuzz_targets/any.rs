//! See `ingest::fuzz::any`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::any(data));
