//! See `model::fuzz::model_runs_csv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| model::fuzz::model_runs_csv(data));
