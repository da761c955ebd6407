//! See `ingest::fuzz::nsys_sqlite`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::nsys_sqlite(data));
