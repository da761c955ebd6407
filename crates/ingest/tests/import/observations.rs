//! Typed numbers: what is read, and what is said of what cannot be right.

use std::fs;

use expect_test::{Expect, expect};

use crate::shown::{check, import, import_text};

fn check_text(text: &str, tables: &[&str], expected: Expect) {
    check(&import_text("observations.toml", text), tables, expected);
}

const GOOD: &str = r#"schema = "inferoscope.observations/1"

[subject]
engine = "vllm"
engine_version = "0.11.0"
model = "Llama-3.1-8B-Instruct"
gpu = "H100 SXM 80 GB"
gpu_count = 1
[subject.model_config]
num_hidden_layers = 32
params = 8.03e9

[complaint]
symptom = "throughput_plateau"
signal = "client.tpot.p50"

[[run]]
name = "direct"
flags = "HF_HOME=/cache vllm serve m --max-num-seqs 256 --no-enable-prefix-caching"
note = "Runs at night, engine.running = 4 is not read from here."
[run.signals]
"client.ttft.p50" = "22.4 ms"
"engine.running.p50" = 67
"client.tpot" = "180 token/s"
"gpu.temperature.max" = "> 90 degC"
"gpu.throttle_share.sw_power_cap.min" = 0.99
"gpu.throttle_reasons" = "sw_power_cap"
'gpu.sm_clock{phase="decode",device="0"}' = "1.98 GHz"
"kernel.time.norm/elementwise" = "12.28 us"
"config.graph_sizes" = [6, 12, 24]
"config.enforce_eager" = true
"spec.position_acceptance" = [0.7, 0.5]
"proc.cpu" = 3.83

[[run]]
name = "through the proxy"
changed = "nginx in front"
subject.gpu = "RTX 5090"
[[run.sweep]]
"client.concurrency" = 32
"client.throughput.output" = "3294 token/s"
[[run.sweep]]
"client.concurrency" = 64
"client.throughput.output.vs_baseline" = 0.9
[[run.sweep]]
"client.class" = "first stream"
"client.ttft" = "1 s"
"#;

#[test]
fn a_good_file_is_read_whole() {
    check_text(
        GOOD,
        &["subject", "runs", "points", "samples", "settings"],
        expect![[r#"
        subject vllm | 0.11.0 | typed | Llama-3.1-8B-Instruct | H100 SXM 80 GB | typed
        form api+core | assumed | zmq | engine_core
        run 0 direct |  | HF_HOME=/cache vllm serve m --max-num-seqs 256 --no-enable-prefix-caching |  | 
        run 1 through the proxy | nginx in front |  | client.concurrency | RTX 5090
        point 1.0 32
        point 1.1 64
        point 1.2 2
        0 0 client.tpot{} 0.005555555555555556
        0 0 client.ttft.p50{} 0.0224
        0 0 config.enforce_eager{} 1
        0 0 engine.running.p50{} 67
        0 0 gpu.sm_clock{device="0",phase="decode"} 1980000000
        0 0 gpu.temperature.max{mode="at_least"} 90
        0 0 gpu.throttle_reasons{reason="sw_power_cap"} 1
        0 0 gpu.throttle_share.min{reason="sw_power_cap"} 0.99
        0 0 kernel.time{category="norm/elementwise"} 0.00001228
        0 0 model.layers{} 32
        0 0 model.params{} 8030000000
        0 0 proc.cpu{} 3.83
        0 0 spec.position_acceptance{position="0"} 0.7
        0 0 spec.position_acceptance{position="1"} 0.5
        0 1.0 client.concurrency{} 32
        0 1.0 client.throughput.output{} 3294
        0 1.1 client.concurrency{} 64
        0 1.1 client.throughput.output.vs_baseline{} 0.9
        0 1.2 client.ttft{class="first stream"} 1
        set 0  | config.api_processes | 1 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.async_scheduling | false | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.chunked_prefill | true | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.data_parallel | 1 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.enforce_eager | true | typed (line 31)
        set 0  | config.gpu_memory_utilization | 0.9 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.graph_sizes | [6, 12, 24] | typed (line 30)
        set 0  | config.kv_dtype | auto | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.long_prefill_token_threshold | 0 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.max_num_batched_tokens | 8192 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.max_num_seqs | 256 | command line (line 19)
        set 0  | config.model | m | command line (line 19)
        set 0  | config.pipeline_parallel | 1 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.prefix_caching | false | command line (line 19)
        set 0  | config.scheduling_policy | fcfs | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.speculative_tokens | 0 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | config.tensor_parallel | 1 | default of 0.11.0 (H100 SXM 80 GB) (line 0)
        set 0  | env.HF_HOME | /cache | command line (line 19)
        ! note inverted_rate observations.toml [line 24] x1 `client.tpot` is a time and was given as the rate `180 token/s`; it is inverted
    "#]],
    );
    let subject = import_text("observations.toml", GOOD).manifest.subject;
    assert_eq!((subject.stated_symptom.as_str(), subject.stated_signal.as_str()), ("throughput_plateau", "client.tpot.p50"));
}

#[test]
fn what_cannot_be_right_names_line_and_nearest_and_the_rest_is_read() {
    let text = r#"schema = "inferoscope.observations/1"
[subject]
engin = "vllm"
[complaint]
symptom = "high_tfft"
signal = "client.tpto.p50"
[[run]]
name = "x"
files = ["missing.log", "../outside.log"]
[run.signals]
"server.tfft.p50" = "1 s"
"client.ttft.p50" = "3 GB"
"client.ttft.p95" = "3 parsec"
"client.ttft.p99" = "soon"
"gpu.busy" = 97
"engine.running" = -3
"engine.waiting" = true
'kv.usage{phse="decode"}' = 0.5
"client.e2e" = "2 s"
"#;
    check_text(
        text,
        &["samples"],
        expect![[r#"
        0 0 client.e2e{} 2
        ! error file_missing observations.toml [line 9] x1 expected the file `missing.log` beside this one, found none
        ! error file_outside observations.toml [line 9] x1 expected a file beside this one, found `../outside.log`; it is not read
        ! error impossible_value observations.toml [line 14] x1 `client.ttft.p99` has the unit `s`, found `soon`: expected a number, optionally followed by a unit
        ! error impossible_value observations.toml [line 15] x1 expected a ratio from 0 to 1 for `gpu.busy`, found 97; percent is written `97 %`
        ! error impossible_value observations.toml [line 16] x1 expected zero or more for `engine.running`, found -3
        ! error unknown_key observations.toml [line 3] x1 `engin` is no key of `subject`; the nearest is `engine`
        ! error unknown_signal observations.toml [line 11] x1 `server.tfft.p50` is no signal; the nearest is `server.ttft.p50`
        ! error unknown_signal observations.toml [line 18] x1 `phse` is no label; the nearest is `phase`
        ! error unknown_signal observations.toml [line 6] x1 `client.tpto.p50` is no signal; the nearest is `client.tpot.p50`
        ! error unknown_symptom observations.toml [line 5] x1 `high_tfft` is no symptom; the nearest is `high_ttft`
        ! error wrong_type observations.toml [line 17] x1 expected a value in `request` for `engine.waiting`, found boolean
        ! error wrong_unit observations.toml [line 12] x1 `client.ttft.p50` has the unit `s`, found `3 GB`: expected a value in `s`, found `GB`
        ! error wrong_unit observations.toml [line 13] x1 `client.ttft.p95` has the unit `s`, found `3 parsec`: unknown unit `parsec`
    "#]],
    );
}

#[test]
fn a_mistake_in_the_syntax_is_told_with_its_line() {
    let text = "schema = \"inferoscope.observations/1\"\n[[run]]\nname = \"x\n[run.signals]\n\"client.e2e\" = \"2 s\"\n";
    check_text(
        text,
        &["runs"],
        expect![[r#"
        run 0 x |  |  |  | 
        ! error damaged_toml observations.toml [line 3] x1 expected TOML, found a mistake: invalid basic string, expected `"`
    "#]],
    );
}

#[test]
fn files_of_a_run_are_read_into_it_and_only_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("observations.toml"), "schema = \"inferoscope.observations/1\"\n[[run]]\nname = \"a\"\n[[run]]\nname = \"b\"\nfiles = [\"engine.log\", \"m.prom\", \"proxy.conf\"]\n").unwrap();
    fs::write(
        path("engine.log"),
        "Engine 000: Avg prompt throughput: 1.5 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs\n",
    )
    .unwrap();
    fs::write(path("m.prom"), "vllm:num_preemptions_total 480\n").unwrap();
    fs::write(path("proxy.conf"), "location / {\n    proxy_pass http://backend;\n}\n").unwrap();
    fs::write(path("loose.prom"), "vllm:num_requests_waiting 7\n").unwrap();
    let whole = import(&[folder.path().to_path_buf()]);
    check(
        &whole,
        &["subject", "sources", "runs", "samples"],
        expect![[r#"
            subject vllm |  | metrics |  |  | recorded
            form api+core | assumed | zmq | engine_core
            source engine.log vllm_log rows=5 unmapped=0
            source loose.prom prometheus_text rows=1 unmapped=0
            source m.prom prometheus_text rows=1 unmapped=0
            source observations.toml observations_toml rows=2 unmapped=0
            source proxy.conf attachment rows=1 unmapped=0
            run 0 a |  |  |  | 
            run 1 b |  |  |  | 
            0 0 engine.waiting{engine="0",replica="0"} 7
            0 1 engine.running{engine="0",replica="0",source="log"} 3
            0 1 engine.waiting{engine="0",replica="0",source="log"} 4
            0 1 kv.preemptions{engine="0",replica="0"} 480
            0 1 server.throughput.output{engine="0",replica="0",source="log"} 2
            0 1 server.throughput.prompt{engine="0",replica="0",source="log"} 1.5
            ! note attachment proxy.conf [] x1 found text of no known format; tried prometheus_text, vllm_log, vllm_bench_json, client_jsonl, proxy_jsonl, host_jsonl, nvidia_smi_csv, nvidia_smi_dmon, dcgmi_dmon, pyspy_raw, pyspy_dump, otlp_json, command_txt, observations_toml; the file is kept as an attachment and not read
        "#]],
    );
    let named = import(&[path("observations.toml"), path("loose.prom")]);
    assert_eq!(whole, named, "the file alone brings what it names");
}

#[test]
fn values_that_contradict_one_another_are_told_with_their_line() {
    let text = "schema = \"inferoscope.observations/1\"\n[[run]]\n[run.signals]\n\"server.queue_time\" = \"900 ms\"\n\"server.ttft\" = \"400 ms\"\n\
                \"client.ttft.p99\" = \"1 s\"\n\"client.ttft.p50\" = \"2 s\"\n\"client.e2e.p50\" = \"3 s\"\n";
    check(
        &import_text("observations.toml", text),
        &["samples"],
        expect![[r#"
            0 0 client.e2e.p50{} 3
            0 0 client.ttft.p50{} 2
            0 0 client.ttft.p99{} 1
            0 0 server.queue_time{} 0.9
            0 0 server.ttft{} 0.4
            ! warning impossible_pair observations.toml [line 5] x1 expected `server.queue_time` of at most `server.ttft`, found 0.9 above 0.4; both are kept, one of them is wrong
            ! warning impossible_pair observations.toml [line 7] x1 expected `client.ttft.p50` of at most `client.ttft.p99`, found 2 above 1; both are kept, one of them is wrong
        "#]],
    );
}
