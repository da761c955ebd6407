//! Plans for four situations a user has, as the screen shows them, and what cannot be planned with.

use expect_test::{Expect, ExpectFile, expect, expect_file};

use crate::program;

fn plan(args: &str) -> program::Run {
    program::run(["plan"].into_iter().chain(args.split_whitespace()))
}

fn check(args: &str, code: i32, expected: &ExpectFile) {
    let run = plan(args);
    assert_eq!((run.code, run.stderr.as_str()), (code, ""));
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert!(run.stdout.lines().count() <= 45, "{}", run.stdout);
    expected.assert_eq(&run.stdout);
}

fn recorded(file: &str) -> String {
    format!("{}/../simulate/tests/data/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// Four A100 carry a chat with a 70B: nothing to buy, nothing to build.
#[test]
fn a_chat_that_is_fine() {
    let args =
        "--model Llama-3-70B --gpu a100-sxm-80:4 --prompt-tokens 1200 --output-tokens 300 --rate 2 --slo ttft.p99=2s,tpot=60ms --price 2";
    check(args, 0, &expect_file!["plan/chat_70b_4xa100.txt"]);
}

/// 32B in 16 bit do not fit into 48 GB; in FP8 they do, with room for the load.
#[test]
fn a_model_that_does_not_fit() {
    let args = "--model Qwen3-32B --gpu l40s --prompt-tokens 1000 --output-tokens 300 --rate 0.5 --slo ttft=2s,tpot=80ms";
    check(args, 0, &expect_file!["plan/qwen3_32b_l40s.txt"]);
}

/// Tensor parallelism copies the latent cache of DeepSeek-R1 to every rank: attention in data parallel comes first.
#[test]
fn long_prompts_for_a_latent_cache() {
    let args = "--model DeepSeek-R1 --gpu h200-sxm:8 --prompt-tokens 8000 --output-tokens 500 --rate 2.4 --slo ttft=5s,tpot=60ms";
    check(args, 0, &expect_file!["plan/deepseek_r1_8xh200.txt"]);
}

/// The recorded run on a 4090 was bound by its KV cache; so is the plan for its requests.
#[test]
fn a_recorded_run_bound_by_its_cache() {
    let trace = recorded("vllm-runs/RTX4090_Llama-3.1-8B/requests.jsonl");
    let args = format!("--model Llama-3-8B --gpu rtx-4090 --workload {trace} --slo ttft.p99=2s,tpot=50ms");
    check(&args, 0, &expect_file!["plan/sharegpt_8b_4090.txt"]);
}

/// Below the bound no number of devices helps, and the bound is named.
#[test]
fn a_limit_nothing_keeps() {
    let args = "--model Llama-3.1-405B --gpu a100-sxm-40 --prompt-tokens 500 --output-tokens 100 --rate 1 --slo tpot=5ms";
    check(args, 1, &expect_file!["plan/out_of_reach.txt"]);
}

/// The shipped capture: 32 seats serve 9.74 requests/s, 64 would serve 13.85, by the step law fitted on the run itself.
#[test]
fn a_capture_is_the_baseline() {
    let case = format!("{}/../../cases/batch_cap_reached/open_loop_32/artifacts", env!("CARGO_MANIFEST_DIR"));
    let run = plan(&format!("--model Llama-3.1-8B --gpu h100-sxm --capture {case} --max-num-seqs 32 --slo ttft=0.5s,tpot=20ms --json"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let first = &document["first"];
    assert_eq!((first.as_array().unwrap().len(), first[0]["id"].as_str()), (1, Some("more_seats")), "{first}");
    let served = |when: &str| first[0][when]["capacity_per_s"]["mid"].as_f64().unwrap();
    assert!((served("before") / 9.74 - 1.0).abs() < 0.1 && (served("after") / 13.85 - 1.0).abs() < 0.1, "{first}");
    let tpot = &document["now"]["tpot_s"];
    assert_eq!((document["now"]["tier"].as_str(), &tpot["low"]), (Some("ratio"), &tpot["high"]));
}

#[test]
fn block_hashes_say_what_repeats() {
    let trace = recorded("mooncake_conversation_600.jsonl");
    let run = plan(&format!("--model Llama-3.1-8B --gpu h100-sxm:4 --workload {trace} --offline --json"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["schema"], "inferoscope.plan/1");
    let step = &document["steps"][1];
    assert_eq!(step["step"], "prefix_structure");
    let figure = |name: &str| {
        let figures = step["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"].as_str().unwrap().contains(name)).unwrap()["value"].as_f64().unwrap()
    };
    // The curve of the trace's first 600 requests, counted apart from this program: 0.173 with unlimited room.
    let (here, unlimited) = (figure("at this KV capacity"), figure("unlimited cache"));
    assert!(here > 0.0 && here <= unlimited && unlimited < 0.3, "{here} {unlimited}");
}

#[test]
fn tables_and_markdown_hold_every_step() {
    let args = "--model Llama-3.1-8B --gpu h100-sxm --prompt-tokens 500 --output-tokens 200 --objective throughput --price 3";
    let (verbose, markdown) = (plan(&format!("{args} --verbose")), plan(&format!("{args} --markdown")));
    assert_eq!((verbose.code, markdown.code), (0, 0));
    for step in ["memory_footprint", "prefix_structure", "batching", "fragmentation", "speculation", "disaggregation"] {
        assert!(verbose.stdout.contains(step) && markdown.stdout.contains(step), "{step}");
    }
    assert!(verbose.stdout.lines().all(|line| line.chars().count() <= 80), "{}", verbose.stdout);
    assert!(markdown.stdout.contains("USD per million tokens"), "{}", markdown.stdout);
}

#[test]
fn what_cannot_be_planned_with_is_named() {
    let check = |args: &str, expected: &Expect| {
        let run = plan(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""));
        expected.assert_eq(&run.stderr);
    };
    let lengths = "--prompt-tokens 500 --output-tokens 100";
    check(
        &format!("--model Llama-3.1-8 --gpu l40s {lengths}"),
        &expect![[r#"
        error: `Llama-3.1-8` is neither a file nor a model of the table
          cause: no model of the table is called `Llama-3.1-8`, or several differ; near it:
          Llama-3.1-8B
          Llama-3.1-70B
          Llama-3.2-1B
          Llama-3.2-3B
          Llama-2-13B
          Llama-3.1-405B
    "#]],
    );
    check(
        &format!("--model Llama-3.1-8B --gpu h100 {lengths}"),
        &expect![[r#"
        error: no GPU of the table is called `h100`, or several differ; near it:
          h100-nvl (H100 NVL 94GB)
          h100-pcie (H100 PCIe 80GB)
          h100-sxm (H100 SXM5 80GB)
          a10 (A10 24GB)
          a10g (A10G 24GB)
          h20 (H20 96GB)
    "#]],
    );
    check(
        &format!("--model Llama-3.1-8B --gpu l40s:0 {lengths}"),
        &expect![[r#"
        error: --gpu: expected a count from 1 to 1024 after `:`, found `0`
    "#]],
    );
    check(
        "--model Llama-3.1-8B --gpu l40s",
        &expect![[r#"
        error: expected requests to plan for: --workload FILE, --capture INPUT, or --prompt-tokens and --output-tokens
    "#]],
    );
    check(
        "--model Llama-3.1-8B --gpu l40s --prompt-tokens 0 --output-tokens 5",
        &expect![[r#"
        error: `prompt_tokens` must be from 1 to 10000000, found 0
    "#]],
    );
    check(
        &format!("--model Llama-3.1-8B --gpu l40s {lengths} --rate nan"),
        &expect![[r#"
        error: `rate` must be above 0 and at most 1e6 requests/s, found NaN
    "#]],
    );
    check(
        &format!("--model Llama-3.1-8B --gpu l40s:4 --tensor 3 {lengths}"),
        &expect![[r#"
        error: `tensor` must be a divisor of the number of devices, found 3
    "#]],
    );
    check(
        &format!("--model Llama-3.1-8B --gpu l40s {lengths} --acceptance 1.5"),
        &expect![[r#"
        error: `acceptance` must be from 0 to 1, found 1.5
    "#]],
    );
}

#[test]
fn files_that_are_no_model_and_no_trace_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let told = |args: &str| {
        let run = plan(args);
        assert_eq!(run.code, 2);
        run.stderr.replace(&folder.path().display().to_string(), "FOLDER")
    };
    let config = write("config.json", "{\"hidden_size\": 4096, \"num_attention_heads\": \"many\"}");
    let trace = write("trace.csv", "nothing,of,the,kind\n1,2,3,4\n");
    expect![[r#"
        error: `FOLDER/config.json` does not describe a model that is known
          cause: config.json: field `num_attention_heads`: expected a whole number of at most 268435455, found "many"
    "#]]
    .assert_eq(&told(&format!("--model {config} --gpu l40s --prompt-tokens 5 --output-tokens 5")));
    expect![[r#"
        error: could not use `FOLDER/trace.csv`
          cause: line 1: expected the header or first record of a request trace, found `nothing,of,the,kind`
    "#]]
    .assert_eq(&told(&format!("--model Llama-3.1-8B --gpu l40s --workload {trace}")));
    // A checkpoint's own header counts: 16 GB stated by the shape, 12 bytes by the header.
    write("config.json", include_str!("plan/tiny_config.json"));
    let header = r#"{"a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    let run = plan(&format!("--model {} --gpu l40s --prompt-tokens 5 --output-tokens 5 --json", folder.path().display()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("weights counted from headers: 0.00 GB in 1 tensors"), "{}", run.stdout);
}
