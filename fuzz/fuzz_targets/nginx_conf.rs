//! See `ingest::fuzz::nginx_conf`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::nginx_conf(data));
