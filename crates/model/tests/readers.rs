//! Configurations and headers of checkpoints, read as their publishers wrote them, and damaged ones.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use expect_test::{Expect, expect};
use model::fuzz;
use model::memory::{Dtype, kv_bytes_of_sequence, kv_bytes_per_token, state_bytes_of_sequence};
use model::models;
use model::readers::{ReadModelError, config_json, gguf_header, safetensors_header, safetensors_index};
use proptest::prelude::*;

fn configs() -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs");
    let mut configs: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
        })
        .collect();
    configs.sort();
    configs
}

#[test]
fn every_configuration_gives_the_shape_in_the_table() {
    let configs = configs();
    assert!(configs.len() >= 27);
    for (name, bytes) in configs {
        let (read, row) = (config_json(&bytes).unwrap().shape, models::find(&name).unwrap());
        assert_eq!(row.name, name);
        // Norms per head and biases of routers differ between descriptions; all of them are below one in 5,000.
        let off = read.param_parts().total() / row.param_parts().total() - 1.0;
        assert!(off.abs() < 2e-4, "{name}: {off:+.6} {read:?}");
        assert!((read.active_param_count() / row.active_param_count() - 1.0).abs() < 2e-4, "{name}");
        assert_eq!(kv_bytes_per_token(&read, Dtype::Bf16), kv_bytes_per_token(row, Dtype::Bf16), "{name}");
        assert_eq!(kv_bytes_of_sequence(&read, Dtype::Bf16, 1e5), kv_bytes_of_sequence(row, Dtype::Bf16, 1e5), "{name}");
        assert_eq!(state_bytes_of_sequence(&read), state_bytes_of_sequence(row), "{name}");
        assert_eq!(read.kind(), row.kind(), "{name}");
    }
}

#[test]
fn formats_lengths_and_draft_layers() {
    let mut lines = String::new();
    for (name, bytes) in configs() {
        let config = config_json(&bytes).unwrap();
        lines.push_str(&format!("{name}: {} {:?} {:?} {}\n", config.family, config.weights, config.max_context, config.draft_layers));
    }
    expect![[r#"
        DeepSeek-V3: deepseek_v3 Some(Fp8) Some(163840) 1
        DeepSeek-V3.2: deepseek_v32 Some(Fp8) Some(163840) 1
        GLM-4.5: glm4_moe Some(Bf16) None 0
        GLM-5: glm_moe_dsa Some(Bf16) Some(202752) 1
        Gemma-2-9B: gemma2 Some(Bf16) Some(8192) 0
        Gemma-3-27B: gemma3_text Some(Bf16) None 0
        Jamba-1.5-Mini: jamba Some(Bf16) None 0
        Kimi-K2: kimi_k2 Some(Int4G128) Some(262144) 0
        Llama-3.1-405B: llama Some(Bf16) Some(131072) 0
        Llama-3.1-70B: llama Some(Bf16) Some(131072) 0
        Llama-3.1-8B: llama Some(Bf16) Some(131072) 0
        Llama-4-Maverick: llama4_text Some(Bf16) Some(1048576) 0
        Llama-4-Scout: llama4_text Some(Bf16) Some(10485760) 0
        MiMo-7B: mimo Some(Bf16) Some(32768) 1
        MiniMax-M2: minimax_m2 Some(Fp8) Some(196608) 0
        Mixtral-8x7B: mixtral Some(Bf16) Some(32768) 0
        Nemotron-3-Nano-30B-A3B: nemotron_h Some(Bf16) Some(262144) 0
        Nemotron-H-56B: nemotron_h Some(Bf16) Some(8192) 0
        Phi-3-medium: phi3 Some(Bf16) None 0
        Qwen2.5-7B: qwen2 Some(Bf16) None 0
        Qwen3-0.6B: qwen3 Some(Bf16) Some(40960) 0
        Qwen3-235B-A22B: qwen3_moe Some(Bf16) Some(40960) 0
        Qwen3-30B-A3B: qwen3_moe Some(Fp8) Some(40960) 0
        Qwen3-8B: qwen3 Some(Bf16) Some(40960) 0
        Qwen3-Next-80B-A3B: qwen3_next Some(Bf16) None 0
        Qwen3.5-397B-A17B: qwen3_5_moe_text Some(Bf16) Some(262144) 1
        gpt-oss-20b: gpt_oss Some(Mxfp4) Some(131072) 0
    "#]]
    .assert_eq(&lines);
}

#[test]
fn windows_states_and_latents_bound_the_cache() {
    let at = |name: &str, context: f64| kv_bytes_of_sequence(models::find(name).unwrap(), Dtype::Bf16, context);
    // Qwen3.5: 15 of 60 layers keep tokens (2 heads of 256), 45 keep a state of 4 MiB each.
    assert_eq!(kv_bytes_per_token(models::find("Qwen3.5-397B-A17B").unwrap(), Dtype::Bf16), 15.0 * 2.0 * 2.0 * 256.0 * 2.0);
    let state = state_bytes_of_sequence(models::find("Qwen3.5-397B-A17B").unwrap());
    assert!((state / (45.0 * 64.0 * 128.0 * 128.0 * 4.0) - 1.0).abs() < 0.03, "{state}");
    assert_eq!(at("Qwen3.5-397B-A17B", 0.0), state);
    // DeepSeek-V3 keeps 576 values per layer, V3.2 the same and a key of 128 in 8 bit with its scale.
    assert_eq!(kv_bytes_per_token(models::find("DeepSeek-V3").unwrap(), Dtype::Bf16), 70_272.0);
    assert_eq!(kv_bytes_per_token(models::find("DeepSeek-V3.2").unwrap(), Dtype::Bf16), 70_272.0 + 61.0 * 132.0);
    // gpt-oss: half of the layers see 128 tokens.
    let (short, long) = (at("gpt-oss-20b", 128.0), at("gpt-oss-20b", 128_000.0));
    assert!((long / short / 1000.0 - 0.5).abs() < 0.001, "{short} {long}");
}

fn refused(result: Result<impl Sized, ReadModelError>, expected: &Expect) {
    expected.assert_eq(&result.err().unwrap().to_string());
}

#[test]
fn configurations_that_say_too_little_are_refused() {
    refused(config_json(b"[]"), &expect!["config.json: expected an object, found a list"]);
    refused(config_json(b"{"), &expect!["config.json: expected JSON, found EOF while parsing an object at line 1 column 1"]);
    refused(config_json(b"{}"), &expect!["config.json: field `hidden_size`: expected a whole number above 0, found nothing"]);
    refused(
        config_json(br#"{"hidden_size": "wide"}"#),
        &expect![[r#"config.json: field `hidden_size`: expected a whole number of at most 268435455, found "wide""#]],
    );
    refused(
        config_json(br#"{"hidden_size": 8, "num_attention_heads": 16, "num_hidden_layers": 2}"#),
        &expect!["config.json: field `num_attention_heads`: expected no more heads than `hidden_size`, found 16"],
    );
    refused(
        config_json(br#"{"hidden_size": 8, "block_configs": [1]}"#),
        &expect!["config.json: field `block_configs`: expected layers of one width, found [1]"],
    );
}

/// A safetensors file with the tensors given: name, type, shape, bytes.
fn safetensors(tensors: &[(&str, &str, &str, u64)]) -> Vec<u8> {
    let mut at = 0;
    let mut entries = vec![r#""__metadata__": {"format": "pt"}"#.to_owned()];
    for (name, stored_type, shape, bytes) in tensors {
        entries.push(format!(r#""{name}": {{"dtype": "{stored_type}", "shape": {shape}, "data_offsets": [{at}, {}]}}"#, at + bytes));
        at += bytes;
    }
    let header = format!("{{{}}}", entries.join(", "));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file
}

#[test]
fn weights_are_counted_from_headers() {
    // FP8 with a scale per block of 128 x 128, as DeepSeek publishes it.
    let file = safetensors(&[
        ("model.layers.0.mlp.up_proj.weight", "F8_E4M3", "[256, 512]", 131_072),
        ("model.layers.0.mlp.up_proj.weight_scale_inv", "F32", "[2, 4]", 32),
        ("model.norm.weight", "BF16", "[512]", 1024),
    ]);
    let (tensors, mut weights) = safetensors_header(&file).unwrap();
    assert_eq!((tensors.len(), weights.tensor_count, weights.bytes, weights.scale_bytes), (3, 2, 132_128, 32));
    let by_type: Vec<_> = weights.by_type.iter().map(|(stored_type, bytes)| format!("{stored_type} {bytes}")).collect();
    assert_eq!(by_type, ["BF16 1024", "F32 32", "F8_E4M3 131072"]);
    weights.merge(&weights.clone());
    assert_eq!(weights.bytes, 264_256);

    refused(safetensors_header(b"1234"), &expect!["safetensors: expected 8 bytes of header length, found 4 bytes"]);
    refused(
        safetensors_header(&[0xff; 16]),
        &expect!["safetensors: expected a header of at most 64 MiB, found a length of 18446744073709551615 bytes"],
    );
    refused(safetensors_header(&file[..40]), &expect!["safetensors: expected a header of 349 bytes, found 32 bytes"]);
    refused(
        safetensors_header(&safetensors(&[("w", "BF16", "[4, 4]", 31)])),
        &expect!["safetensors: field `w.data_offsets`: expected as many bytes as `dtype` and `shape` say, found [0,31]"],
    );
    refused(
        safetensors_header(&safetensors(&[("w", "BF16", "[18446744073709551615, 9]", 31)])),
        &expect!["safetensors: field `w.shape`: expected a product below 2^64, found [18446744073709551615,9]"],
    );
}

#[test]
fn an_index_names_files_beside_it() {
    let index = safetensors_index(br#"{"metadata": {"total_size": 16060522496}, "weight_map": {"a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}}"#).unwrap();
    assert_eq!((index.total_bytes, index.tensor_count), (Some(16_060_522_496), 3));
    assert_eq!(index.files, ["m-1.safetensors", "m-2.safetensors"]);
    refused(
        safetensors_index(br#"{"weight_map": {"a": "../../etc/passwd"}}"#),
        &expect![[
            r#"model.safetensors.index.json: field `weight_map.a`: expected the name of a file beside the index, found "../../etc/passwd""#
        ]],
    );
}

/// A GGUF header made by hand.
fn gguf() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    let numbers = [
        ("llama.block_count", 32u32),
        ("llama.embedding_length", 4096),
        ("llama.feed_forward_length", 14_336),
        ("llama.attention.head_count", 32),
        ("llama.attention.head_count_kv", 8),
        ("llama.context_length", 131_072),
        ("llama.vocab_size", 128_256),
    ];
    let tensors = [
        ("token_embd.weight", [4096u64, 128_256], 12u32),
        ("blk.0.attn_q.weight", [4096, 4096], 12),
        ("output.weight", [4096, 128_256], 14),
    ];
    file.extend(3u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((numbers.len() as u64 + 2).to_le_bytes());
    text(&mut file, "general.architecture");
    file.extend(8u32.to_le_bytes());
    text(&mut file, "llama");
    for (key, value) in numbers {
        text(&mut file, key);
        file.extend(4u32.to_le_bytes());
        file.extend(value.to_le_bytes());
    }
    text(&mut file, "tokenizer.ggml.tokens");
    file.extend(9u32.to_le_bytes());
    file.extend(8u32.to_le_bytes());
    file.extend(3u64.to_le_bytes());
    for token in ["<s>", "a", "b"] {
        text(&mut file, token);
    }
    for (name, [columns, rows], kind) in tensors {
        text(&mut file, name);
        file.extend(2u32.to_le_bytes());
        file.extend(columns.to_le_bytes());
        file.extend(rows.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(0u64.to_le_bytes());
    }
    file
}

#[test]
fn a_gguf_header_gives_shape_and_weight() {
    let header = gguf_header(&gguf()).unwrap();
    let shape = header.shape.unwrap();
    // Norms of the published row included, the shape is that of Llama-3.1-8B.
    assert_eq!(shape.param_parts().total(), 8_030_261_248.0);
    assert_eq!((header.version, header.architecture.as_str(), header.max_context), (3, "llama", Some(131_072)));
    // Q4_K: 144 bytes per 256 values; Q6_K: 210.
    let values = 4096 * 128_256;
    assert_eq!(header.weights.by_type["Q4_K"], (values + 4096 * 4096) / 256 * 144);
    assert_eq!(header.weights.by_type["Q6_K"], values / 256 * 210);
    refused(gguf_header(b"GGML"), &expect!["GGUF: expected the letters `GGUF`, found GGML"]);
    refused(gguf_header(&gguf()[..60]), &expect!["GGUF: expected 8 bytes at offset 56, found 4 bytes"]);
    let mut claims = gguf();
    claims[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(gguf_header(&claims), &expect!["GGUF: expected at most 1048576 tensors, found 18446744073709551615"]);
}

/// Every function on one input.
fn all(data: &[u8]) {
    fuzz::model_config_json(data);
    fuzz::model_safetensors(data);
    fuzz::model_gguf(data);
    fuzz::model_runs_csv(data);
}

fn samples() -> Vec<Vec<u8>> {
    let mut samples: Vec<Vec<u8>> = configs().into_iter().map(|(_, bytes)| bytes).collect();
    samples.push(gguf());
    samples.push(safetensors(&[("w", "BF16", "[4, 4]", 32), ("w_scale", "F32", "[1]", 4)]));
    samples.push(br#"{"weight_map": {"a": "m.safetensors"}}"#.to_vec());
    let runs = include_str!("data/runs_experts.csv");
    let thinned: Vec<&str> = runs.lines().enumerate().filter(|(at, _)| at % 9 < 2).map(|(_, line)| line).collect();
    samples.push(thinned.join("\n").into_bytes());
    samples
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..300)) {
        all(&data);
    }

    #[test]
    fn cut_and_changed_samples_are_survived(at in any::<prop::sample::Index>(), cut in 0.0..1.0f64, edits in prop::collection::vec((0.0..1.0f64, any::<u8>()), 0..6)) {
        let samples = samples();
        let mut data = at.get(&samples).clone();
        data.truncate((data.len() as f64 * (0.3 + 0.7 * cut)) as usize);
        for (place, byte) in edits {
            let length = data.len();
            if let Some(slot) = data.get_mut((length as f64 * place) as usize) {
                *slot = byte;
            }
        }
        all(&data);
    }

    #[test]
    fn numbers_of_any_size_are_survived(place in any::<prop::sample::Index>(), value in any::<i64>()) {
        // One number of a configuration replaced by another.
        for (_, bytes) in configs() {
            let text = String::from_utf8(bytes).unwrap();
            let places: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).filter(|at| text.as_bytes()[*at].is_ascii_digit()).collect();
            let start = *place.get(&places);
            let end = start + text[start..].find(|c: char| !c.is_ascii_digit()).unwrap();
            fuzz::model_config_json(format!("{}{value}{}", &text[..start], &text[end..]).as_bytes());
        }
    }
}
