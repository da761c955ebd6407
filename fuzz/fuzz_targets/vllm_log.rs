//! See `ingest::fuzz::vllm_log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::vllm_log(data));
