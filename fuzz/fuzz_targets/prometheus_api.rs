//! See `ingest::fuzz::prometheus_api`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::prometheus_api(data));
