//! See `model::fuzz::model_gguf`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| model::fuzz::model_gguf(data));
