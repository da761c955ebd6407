//! See `ingest::fuzz::command_txt`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::command_txt(data));
