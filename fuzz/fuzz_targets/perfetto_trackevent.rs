//! See `ingest::fuzz::perfetto_trackevent`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::perfetto_trackevent(data));
