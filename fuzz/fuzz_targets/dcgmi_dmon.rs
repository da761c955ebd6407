//! See `ingest::fuzz::dcgmi_dmon`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::dcgmi_dmon(data));
