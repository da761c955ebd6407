//! See `ingest::fuzz::nvidia_smi_csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::nvidia_smi_csv(data));
