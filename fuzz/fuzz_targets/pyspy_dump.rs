//! See `ingest::fuzz::pyspy_dump`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::pyspy_dump(data));
