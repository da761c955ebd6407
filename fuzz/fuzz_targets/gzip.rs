//! See `ingest::fuzz::gzip`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::gzip(data));
