//! See `ingest::fuzz::nvidia_smi_dmon`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::nvidia_smi_dmon(data));
