//! See `ingest::fuzz::pyspy_raw`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::pyspy_raw(data));
