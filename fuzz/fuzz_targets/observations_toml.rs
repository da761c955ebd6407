//! See `ingest::fuzz::observations_toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::observations_toml(data));
