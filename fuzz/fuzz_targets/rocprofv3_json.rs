//! See `ingest::fuzz::rocprofv3_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::rocprofv3_json(data));
