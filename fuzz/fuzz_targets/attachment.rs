//! See `ingest::fuzz::attachment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::attachment(data));
