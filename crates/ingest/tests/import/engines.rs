//! Every engine from its metrics alone and from its log alone, exact values, ranks that repeat one another, units.
//!
//! Samples are made from the engines' own names (SOURCES.md); values are chosen so that each can be told by hand.

use expect_test::expect;

use crate::shown::{check, data, import, import_text};

fn sample(name: &str) -> capture::Capture {
    import(&[data(&format!("engines/{name}"))])
}

/// A log's settings and levels without its events.
const OF_LOG: &[&str] = &["subject", "samples", "settings"];

#[test]
fn sglang_metrics_count_each_rank_once_in_base_units() {
    check(
        &sample("sglang.prom"),
        &["subject", "samples", "histograms", "settings"],
        expect![[r#"
            subject sglang |  | metrics | m |  | recorded
            form api+schedulers+detokenizer | assumed | zmq | scheduler_TP0
            0 0 engine.graph_steps{engine="0",mode="decode_cuda_graph",replica="0"} 90
            0 0 engine.graph_steps{engine="0",mode="decode_none",replica="0"} 10
            0 0 engine.running{engine="0",replica="0"} 67
            0 0 engine.running{engine="1",replica="0"} 40
            0 0 engine.waiting{engine="0",replica="0"} 3
            0 0 kv.block_size{engine="0",replica="0"} 1
            0 0 kv.capacity{engine="0",replica="0"} 2980168
            0 0 kv.capacity_bytes{engine="0",replica="0"} 2147483648
            0 0 kv.preemptions{engine="0",replica="0"} 5
            0 0 kv.prefix_hits{engine="0",replica="0"} 200
            0 0 kv.prefix_queries{engine="0",replica="0"} 1000
            0 0 kv.usage{engine="0",replica="0"} 0.61
            0 0 server.cached_tokens_total{engine="0",replica="0",source="device"} 200
            0 0 server.computed_tokens_total{engine="0",replica="0"} 800
            0 0 spec.acceptance_length{engine="0",replica="0"} 2.4
            0 kv.transfer_time{engine="0",replica="0"} sum=0.14 count=2 [0.05, inf] [1.0, 2.0]
            0 server.queue_time{engine="0",replica="0"} sum=1.5 count=7 [0.5, inf] [6.0, 7.0]
            0 server.ttft{engine="0",replica="0"} sum=0.8 count=7 [0.1, inf] [5.0, 7.0]
            set 0  | config.block_size | 1 | metrics (line 0)
        "#]],
    );
}

#[test]
fn sglang_log_tells_batches_limits_and_retractions() {
    check(
        &sample("sglang.log"),
        &["subject", "samples", "settings", "logs"],
        expect![[r#"
            subject sglang |  | log | Qwen/Qwen3-0.6B |  | recorded
            form api+schedulers+detokenizer | log prefixes | zmq | scheduler_TP0
            1761055334000000000 0 kv.capacity{engine="0",replica="0",source="log"} 368500
            1761055334000000000 0 kv.capacity_bytes{engine="0",replica="0",source="log"} 42262478192.64
            1761055338000000000 0 kv.capacity{engine="0",replica="0",source="log"} 368500
            1761055379999999999 0 engine.graph_steps{engine="0",mode="eager",replica="0",source="log"} 0
            1761055379999999999 0 kv.prefix_hits{engine="0",replica="0",source="log"} 0
            1761055379999999999 0 kv.prefix_queries{engine="0",replica="0",source="log"} 0
            1761055379999999999 0 server.computed_tokens_total{engine="0",replica="0",source="log"} 0
            1761055380000000000 0 engine.graph_steps{engine="0",mode="eager",replica="0",source="log"} 1
            1761055380000000000 0 engine.running{engine="0",replica="0",source="log"} 40
            1761055380000000000 0 engine.waiting{engine="0",replica="0",source="log"} 1
            1761055380000000000 0 kv.prefix_hits{engine="0",replica="0",source="log"} 100
            1761055380000000000 0 kv.prefix_queries{engine="0",replica="0",source="log"} 400
            1761055380000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.01
            1761055380000000000 0 server.computed_tokens_total{engine="0",replica="0",source="log"} 300
            1761055380000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 1201.5
            1761055381000000000 0 engine.graph_steps{engine="0",mode="eager",replica="0",source="log"} 2
            1761055381000000000 0 engine.running{engine="0",replica="0",source="log"} 67
            1761055381000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            1761055381000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.24
            1761055381000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 3012.4
            1761055381000000000 0 spec.acceptance_length{engine="0",replica="0",source="log"} 2.35
            1761055381000000000 0 spec.acceptance_rate{engine="0",replica="0",source="log"} 0.45
            1761055381999999999 0 engine.graph_steps{engine="0",mode="graph",replica="0",source="log"} 0
            1761055382000000000 0 engine.graph_steps{engine="0",mode="graph",replica="0",source="log"} 1
            1761055382000000000 0 engine.running{engine="0",replica="0",source="log"} 20
            1761055382000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            1761055382000000000 0 kv.prefix_hits{engine="0",replica="0",source="log"} 350
            1761055382000000000 0 kv.prefix_queries{engine="0",replica="0",source="log"} 700
            1761055382000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.31
            1761055382000000000 0 server.computed_tokens_total{engine="0",replica="0",source="log"} 350
            1761055382000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 900
            1761055383000000000 0 engine.graph_steps{engine="0",mode="graph",replica="0",source="log"} 2
            1761055383000000000 0 engine.running{engine="0",replica="0",source="log"} 24
            1761055383000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            1761055383000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.08
            1761055383000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 4100
            1761055383999999999 0 kv.preemptions{engine="0",replica="0",source="log"} 0
            1761055384000000000 0 kv.preemptions{engine="0",replica="0",source="log"} 2
            1761055385000000000 0 kv.preemptions{engine="0",replica="0",source="log"} 3
            set 0  | config.async_scheduling | true | start-up dump (line 1)
            set 0  | config.attention_backend | fa3 | start-up dump (line 1)
            set 0  | config.block_size | 1 | start-up dump (line 1)
            set 0  | config.chunked_prefill | true | start-up dump (line 10)
            set 0  | config.data_parallel | 1 | start-up dump (line 1)
            set 0  | config.disable_custom_all_reduce | true | start-up dump (line 3)
            set 0  | config.enforce_eager | false | start-up dump (line 1)
            set 0  | config.gpu_memory_utilization | 0.88 | start-up dump (line 1)
            set 0  | config.graph_max_size | 32 | start-up dump (line 1)
            set 0  | config.graph_max_size | 32 | start-up dump (line 8)
            set 0  | config.graph_sizes | [1, 2, 4, 8, 12, 16, 24, 32] | start-up dump (line 1)
            set 0  | config.graph_sizes | [1, 2, 4, 8, 12, 16, 24, 32] | start-up dump (line 8)
            set 0  | config.max_model_len | 40960 | start-up dump (line 10)
            set 0  | config.max_num_batched_tokens | 4096 | start-up dump (line 10)
            set 0  | config.max_num_seqs | 2048 | start-up dump (line 10)
            set 0  | config.max_prefill_tokens | 16384 | start-up dump (line 10)
            set 0  | config.model | Qwen/Qwen3-0.6B | start-up dump (line 1)
            set 0  | config.prefix_caching | true | start-up dump (line 1)
            set 0  | config.scheduling_policy | fcfs | start-up dump (line 1)
            set 0  | config.stream_interval | 1 | start-up dump (line 1)
            set 0  | config.tensor_parallel | 2 | start-up dump (line 1)
            1761055321000000000   config count=15
            1761055330000000000   nccl version=2.27.5
            1761055331000000000   custom_all_reduce_off reason=no_p2p
            1761055332000000000   weights_loading 
            1761055334000000000   kv_capacity tokens=368500 gib=39.36
            1761055334000000000   weights_loaded seconds=1.85 gib=1.2
            1761055338000000000   graphs_captured seconds=3.21 gib=0.15
            1761055338000000000   kv_capacity tokens=368500 free_gib=5.75
            1761055339000000000   engine_initialized 
            1761055380000000000   prefill engine=0 new_seqs=2 new_tokens=300 cached_tokens=100 kv_usage_frac=0.01 running=40 waiting=1 prompt_tokens_per_s=1201.5 graph=false
            1761055381000000000   periodic engine=0 running=67 kv_usage_frac=0.24 acceptance_length=2.35 acceptance_frac=0.45 output_tokens_per_s=3012.4 waiting=0 graph=false
            1761055382000000000   prefill engine=0 new_seqs=1 new_tokens=50 cached_tokens=250 kv_usage_frac=0.31 running=20 waiting=0 pending_tokens=0 prompt_tokens_per_s=900 graph=true
            1761055383000000000   periodic engine=0 running=24 kv_usage_frac=0.08 output_tokens_per_s=4100 waiting=0 graph=true
            1761055384000000000   preemption mode=RETRACT count=2 new_token_ratio=0.1474
            1761055385000000000   preemption mode=RETRACT count=1 new_token_ratio=0.2
        "#]],
    );
}

#[test]
fn llama_cpp_metrics_tell_computed_from_cached() {
    check(
        &sample("llama_cpp.prom"),
        &["subject", "samples"],
        expect![[r#"
        subject llama.cpp |  | metrics |  |  | recorded
        form single process | assumed | in process | llama-server
        0 0 engine.forward_time{category="decode",engine="0",replica="0"} 25.25
        0 0 engine.forward_time{category="prefill",engine="0",replica="0"} 12.5
        0 0 engine.running{engine="0",replica="0"} 4
        0 0 engine.step_seqs.mean{engine="0",replica="0"} 2.5
        0 0 engine.steps{engine="0",replica="0"} 130
        0 0 engine.waiting{engine="0",replica="0"} 46
        0 0 kv.prefix_hits{engine="0",replica="0"} 1000
        0 0 kv.prefix_queries{engine="0",replica="0"} 4000
        0 0 kv.usage{engine="0",replica="0"} 0.42
        0 0 server.computed_tokens_total{engine="0",replica="0"} 3000
        0 0 server.output_tokens_total{engine="0",replica="0"} 500
        ! note unmapped_families llama_cpp.prom [] x1 metric families without a signal here, left out: llamacpp:prompt_tokens_seconds
    "#]],
    );
}

#[test]
fn llama_cpp_log_tells_prompts_and_layers() {
    check(
        &sample("llama_cpp.log"),
        &["subject", "samples", "settings", "logs"],
        expect![[r#"
            subject llama.cpp | 4567 | log |  |  | recorded
            form single process | assumed | in process | llama-server
            0 0 model.offloaded_layers{engine="0",replica="0",source="log"} 20
            1000000000 0 kv.capacity{engine="0",replica="0",source="log"} 16384
            1000000000 0 kv.capacity_bytes{engine="0",replica="0",source="log"} 2147483648
            2000000000 0 server.prompt_tokens{engine="0",replica="0",source="log"} 809
            2999999999 0 server.computed_tokens_total{engine="0",replica="0",source="log"} 0
            3000000000 0 server.computed_tokens{engine="0",replica="0",source="log"} 809
            3000000000 0 server.computed_tokens_total{engine="0",replica="0",source="log"} 809
            3000000000 0 server.prefill_time{engine="0",replica="0",source="log"} 8.00012
            3999999999 0 server.output_tokens_total{engine="0",replica="0",source="log"} 0
            4000000000 0 server.decode_time{engine="0",replica="0",source="log"} 2.5
            4000000000 0 server.output_tokens{engine="0",replica="0",source="log"} 100
            4000000000 0 server.output_tokens_total{engine="0",replica="0",source="log"} 100
            4000000000 0 server.tpot{engine="0",replica="0",source="log"} 0.025
            4999999999 0 spec.accepted_tokens{engine="0",replica="0",source="log"} 0
            4999999999 0 spec.draft_tokens{engine="0",replica="0",source="log"} 0
            5000000000 0 spec.accepted_tokens{engine="0",replica="0",source="log"} 171
            5000000000 0 spec.draft_tokens{engine="0",replica="0",source="log"} 297
            5999999999 0 kv.prefix_hits{engine="0",replica="0",source="log"} 0
            5999999999 0 kv.prefix_queries{engine="0",replica="0",source="log"} 0
            6000000000 0 kv.prefix_hits{engine="0",replica="0",source="log"} 809
            6000000000 0 kv.prefix_queries{engine="0",replica="0",source="log"} 900
            6000000000 0 server.cached_tokens{engine="0",replica="0",source="log"} 809
            6000000000 0 server.prompt_tokens{engine="0",replica="0",source="log"} 900
            set 0  | config.flash_attention | 1 | start-up dump (line 10)
            set 0  | config.kv_dtype | f16 | start-up dump (line 11)
            set 0  | config.layers | 33 | start-up dump (line 5)
            set 0  | config.max_model_len | 4096 | start-up dump (line 7)
            set 0  | config.max_num_batched_tokens | 2048 | start-up dump (line 8)
            set 0  | config.max_num_seqs | 4 | start-up dump (line 6)
            set 0  | config.max_num_seqs | 4 | start-up dump (line 12)
            set 0  | config.offloaded_layers | 20 | start-up dump (line 5)
            set 0  | config.prefix_caching | true | default of 4567 (line 0)
            set 0  | config.split_mode | layer | default of 4567 (line 0)
            set 0  | config.tensor_parallel | 1 | default of 4567 (line 0)
            set 0  | config.threads | 8 | start-up dump (line 2)
            set 0  | config.ubatch_size | 512 | start-up dump (line 9)
            0   banner version=4567
            0   offloaded layers=20 of=33
            1000000000   kv_capacity mib=2048 tokens=16384
            2000000000   engine_initialized 
            3000000000   prompt_evaluated seconds=8.00012 tokens=809
            4000000000   evaluated seconds=2.5 tokens=100
            6000000000   deferred 
            6000000000   prompt tokens=900 cached=809
            ! note lines_without_time llama_cpp.log [] x7 expected times in the log, found none; its lines are laid 1 s apart in their order, so rates are not known
        "#]],
    );
}

#[test]
fn tensorrt_llm_blocks_become_tokens() {
    check(
        &sample("tensorrt_llm.prom"),
        &["subject", "samples", "histograms"],
        expect![[r#"
        subject tensorrt-llm |  | metrics | m |  | recorded
        form api+workers | assumed | zmq; mpi between ranks | worker_rank0
        0 0 engine.running{engine="0",replica="0"} 12
        0 0 engine.step_time{engine="0",replica="0"} 0.025
        0 0 engine.waiting{engine="0",replica="0"} 30
        0 0 kv.block_hits{engine="0",replica="0"} 30
        0 0 kv.block_queries{engine="0",replica="0"} 100
        0 0 kv.block_size{engine="0",replica="0"} 32
        0 0 kv.capacity{engine="0",replica="0"} 32000
        0 0 kv.capacity_blocks{engine="0",replica="0"} 1000
        0 0 kv.prefix_hits{engine="0",replica="0"} 960
        0 0 kv.prefix_queries{engine="0",replica="0"} 3200
        0 0 kv.usage{engine="0",replica="0"} 0.62
        0 0 server.finished{engine="0",finish="stop",replica="0"} 9
        0 server.ttft{engine="0",replica="0"} sum=4.5 count=9 [0.1, inf] [1.0, 9.0]
    "#]],
    );
}

#[test]
fn tensorrt_llm_log_tells_iterations_of_rank_zero() {
    check(
        &sample("tensorrt_llm.log"),
        &["subject", "samples", "settings", "logs", "counts"],
        expect![[r#"
            subject tensorrt-llm | 1.1.0 | log |  |  | recorded
            form api+workers | log prefixes | zmq; mpi between ranks | worker_rank0
            1768544401000000000 0 kv.capacity{engine="0",replica="0",source="log"} 98304
            1768544401000000000 0 kv.capacity_bytes{engine="0",replica="0",source="log"} 12884901888
            1768544417000000000 0 engine.host_step_time{engine="0",replica="0",source="log"} 0.0505
            1768544417000000000 0 engine.running{engine="0",replica="0",source="log"} 3
            1768544418000000000 0 engine.device_step_time{engine="0",replica="0",source="log"} 0.008
            1768544418000000000 0 engine.host_step_time{engine="0",replica="0",source="log"} 0.02
            1768544418000000000 0 engine.running{engine="0",replica="0",source="log"} 5
            1768544418000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.31
            1768544419675999999 0 engine.recompile_limit_hits{engine="0",replica="0",source="log"} 0
            1768544419676000000 0 engine.recompile_limit_hits{engine="0",replica="0",source="log"} 1
            set 0  | config.async_scheduling | true | start-up dump (line 2)
            set 0  | config.capacity_policy | MAX_UTILIZATION | start-up dump (line 2)
            set 0  | config.capacity_policy | MAX_UTILIZATION | start-up dump (line 3)
            set 0  | config.chunked_prefill | false | default of 1.1.0 (line 0)
            set 0  | config.gpu_memory_utilization | 0.8 | start-up dump (line 2)
            set 0  | config.graph_max_size | 8 | start-up dump (line 2)
            set 0  | config.graph_sizes | [1, 2, 4, 8] | start-up dump (line 2)
            set 0  | config.max_model_len | 8192 | start-up dump (line 2)
            set 0  | config.max_num_batched_tokens | 4096 | start-up dump (line 2)
            set 0  | config.max_num_seqs | 64 | start-up dump (line 2)
            set 0  | config.pipeline_parallel | 1 | default of 1.1.0 (line 0)
            set 0  | config.prefix_caching | true | start-up dump (line 2)
            set 0  | config.tensor_parallel | 2 | start-up dump (line 2)
            0   banner version=1.1.0
            1768544401000000000 INFO  capacity_policy name=MAX_UTILIZATION
            1768544401000000000 INFO  capacity_policy name=MAX_UTILIZATION
            1768544401000000000 INFO  kv_capacity tokens=98304 gib=12
            1768544419676000000 WARNING torch/_dynamo/convert_frame.py recompile limit=8 rank=0
            runs=1 samples=10 steps=2 settings=13 logs=5
        "#]],
    );
}

#[test]
fn tgi_metrics() {
    check(
        &sample("tgi.prom"),
        &["subject", "samples", "histograms"],
        expect![[r#"
        subject tgi |  | metrics |  |  | recorded
        form router+shards | assumed | grpc over a unix socket | text-generation-router
        0 0 engine.running{engine="0",replica="0"} 5
        0 0 engine.waiting{engine="0",replica="0"} 3
        0 0 kv.capacity{engine="0",replica="0"} 51200
        0 0 server.finished{engine="0",replica="0"} 148
        0 0 server.rejected{engine="0",reason="overloaded",replica="0"} 2
        0 engine.step_time{engine="0",phase="decode",replica="0"} sum=25 count=1000 [inf] [1000.0]
        0 engine.step_time{engine="0",phase="prefill",replica="0"} sum=2 count=10 [inf] [10.0]
        0 server.queue_time{engine="0",replica="0"} sum=74 count=148 [0.1, inf] [100.0, 148.0]
    "#]],
    );
}

#[test]
fn tgi_log_tells_parts_of_requests() {
    check(
        &sample("tgi.log"),
        OF_LOG,
        expect![[r#"
        subject tgi |  | log |  |  | recorded
        form router+shards | assumed | grpc over a unix socket | text-generation-router
        1721092245000000000 0 kv.capacity{engine="0",replica="0",source="log"} 51200
        1721092247123456000 0 server.e2e{engine="0",replica="0",source="log"} 1.25
        1721092247123456000 0 server.inference_time{engine="0",replica="0",source="log"} 1.2140875
        1721092247123456000 0 server.queue_time{engine="0",replica="0",source="log"} 0.035500000000000004
        1721092247123456000 0 server.tokenize_time{engine="0",replica="0",source="log"} 0.0004125
        1721092247123456000 0 server.tpot{engine="0",replica="0",source="log"} 0.060704375
        set 0  | config.attention_backend | flashinfer | start-up dump (line 1)
        set 0  | config.graph_max_size | 32 | start-up dump (line 4)
        set 0  | config.graph_sizes | [32, 16, 8, 4, 2, 1] | start-up dump (line 4)
        set 0  | config.max_num_batched_tokens | 4096 | start-up dump (line 2)
        set 0  | config.prefix_caching | true | start-up dump (line 1)
        set 0  | config.tensor_parallel | 2 | start-up dump (line 3)
    "#]],
    );
}

#[test]
fn dynamo_is_a_gateway_and_no_engine() {
    check(
        &sample("dynamo.prom"),
        &["subject", "samples", "histograms", "settings"],
        expect![[r#"
        subject  |  |  |  |  | recorded
        form  |  |  | 
        0 0 gateway.in_flight{phase="prefill",process="0"} 7
        0 0 gateway.in_flight{process="0"} 20
        0 0 gateway.requests{finish="error",process="0"} 2
        0 0 gateway.requests{finish="success",process="0"} 90
        0 0 kv.usage{process="0"} 0.3
        0 server.tokenize_time{process="0"} sum=0.27 count=90 [0.005, inf] [80.0, 90.0]
        set 0  | config.gateway | dynamo | metrics (line 0)
    "#]],
    );
}

#[test]
fn gateways_are_told_under_old_and_new_names() {
    check(
        &sample("gateways.prom"),
        &["subject", "samples", "histograms", "settings"],
        expect![[r#"
        subject  |  |  | m |  | recorded
        form  |  |  | 
        0 0 engine.waiting.mean{process="0"} 4.5
        0 0 gateway.requests{process="0"} 12
        0 gateway.e2e{process="0"} sum=4 count=10 [0.5, inf] [8.0, 10.0]
        0 gateway.overhead{process="0"} sum=0.06 count=3 [inf] [3.0]
        set 0  | config.gateway | inference-gateway | metrics (line 0)
    "#]],
    );
}

#[test]
fn vllm_log_tells_graphs_kernels_and_links() {
    check(
        &sample("vllm_gpu.log"),
        &["subject", "samples", "settings", "logs"],
        expect![[r#"
            subject vllm | 0.11.0 | log | m | NVIDIA H100 80GB HBM3 | recorded
            form api+core | log prefixes | zmq | engine_core
            89633080999999999 0 engine.compile_time{engine="0",replica="0",source="log"} 0
            89633081000000000 0 engine.compile_time{engine="0",replica="0",source="log"} 20.25
            89633098000000000 0 kv.capacity{engine="0",replica="0",source="log"} 439040
            89633561000000000 0 engine.running{engine="0",replica="0",source="log"} 16
            89633561000000000 0 engine.waiting{engine="0",reason="deferred",replica="0",source="log"} 1
            89633561000000000 0 engine.waiting{engine="0",replica="0",source="log"} 2
            89633561000000000 0 kernel.dram_bytes{engine="0",replica="0",source="log"} 1500500000000
            89633561000000000 0 kv.preemptions{engine="0",replica="0",source="log"} 3
            89633561000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            89633561000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.045
            89633561000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 2431.8
            89633561000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 390
            set 0  | comm.transport | shm | start-up dump (line 6)
            set 0  | config.api_processes | 1 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.async_scheduling | false | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.attention_backend | FLASH_ATTN | start-up dump (line 8)
            set 0  | config.chunked_prefill | true | start-up dump (line 2)
            set 0  | config.compilation_mode | 3 | start-up dump (line 2)
            set 0  | config.data_parallel | 1 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.disable_custom_all_reduce | true | start-up dump (line 3)
            set 0  | config.enforce_eager | false | start-up dump (line 2)
            set 0  | config.gpu_memory_utilization | 0.9 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.graph_mode | PIECEWISE | start-up dump (line 12)
            set 0  | config.graph_sizes | [4, 2, 1] | start-up dump (line 2)
            set 0  | config.kv_dtype | auto | start-up dump (line 2)
            set 0  | config.long_prefill_token_threshold | 0 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.max_model_len | 16384 | start-up dump (line 2)
            set 0  | config.max_num_batched_tokens | 8192 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.max_num_seqs | 1024 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.pipeline_parallel | 1 | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.prefix_caching | true | start-up dump (line 2)
            set 0  | config.scheduling_policy | fcfs | default of 0.11.0 (NVIDIA H100 80GB HBM3) (line 0)
            set 0  | config.speculative_method | eagle3 | start-up dump (line 2)
            set 0  | config.speculative_model | draft | start-up dump (line 2)
            set 0  | config.speculative_tokens | 3 | start-up dump (line 2)
            set 0  | config.tensor_parallel | 2 | start-up dump (line 2)
            set 0  | env.NCCL_P2P_DISABLE | 1 | start-up dump (line 7)
            89633050000000000 INFO api_server.py banner version=0.11.0
            89633060000000000 INFO core.py config version=0.11.0
            89633061000000000   transport transport=p2p via=P2P/CUMEM
            89633061000000000   transport transport=shm via=SHM/direct/direct
            89633061000000000 INFO pynccl.py nccl version=2.27.3
            89633061000000000 WARNING custom_all_reduce.py custom_all_reduce_off reason=no_p2p
            89633065000000000 INFO cuda.py attention_backend name=FLASH_ATTN
            89633066000000000 WARNING fused_moe.py moe_default_config E=128 N=768 device_name=NVIDIA_H100_80GB_HBM3 dtype=fp8_w8a8
            89633080000000000 INFO backends.py compiled part=graph seconds=12.5 cached=false
            89633081000000000 INFO monitor.py compiled part=total seconds=20.25 cached=false
            89633082000000000 WARNING gpu_model_runner.py graph_mode_lowered from=FULL_AND_PIECEWISE to=PIECEWISE
            89633098000000000   graphs_capturing of=mixedprefill-decode mode=PIECEWISE count=3
            89633098000000000 INFO kv_cache_utils.py kv_capacity tokens=439040
            89633098000000000 INFO kv_cache_utils.py max_concurrency tokens_per_request=16384 requests=26.8
            89633100000000000 INFO gpu_model_runner.py graphs_captured seconds=2 gib=0.61
            89633561000000000 INFO loggers.py mfu tflops_per_s=123.4 gb_per_s=1500.5
            89633561000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=390 output_tokens_per_s=2431.8 running=16 waiting=2 deferred=1 preemptions=3 kv_usage_frac=0.045 prefix_hit_frac=0
            ! note log_without_year vllm_gpu.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
}

#[test]
fn nginx_says_whether_it_gathers_answers() {
    check(
        &sample("nginx.conf"),
        &["settings"],
        expect![[r#"
        set 0  | config.gateway | nginx | start-up dump (nginx configuration) (line 11)
        set 0  | config.keepalive | 32 | start-up dump (nginx configuration) (line 4)
        set 0  | config.proxy_buffering | false | start-up dump (nginx configuration) (line 15)
        set 0  | config.proxy_http_version | 1.1 | start-up dump (nginx configuration) (line 13)
        set 0  | config.proxy_read_timeout | 600 | start-up dump (nginx configuration) (line 12)
        ! note several_locations nginx.conf [line 11] x2 several locations hand requests on; `/v1/` is taken as the one of the model server
    "#]],
    );
}

/// The deciding line of each public report, as pasted.
#[test]
fn pasted_lines_give_their_facts() {
    let graphs = "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4, 8, 12, 16, 24, 32], avail mem=7.10 GB\n\
        Capture target decode CUDA graph end. elapsed=0.89 s, mem usage=0.15 GB, avail mem=6.95 GB\n\
        max_total_num_tokens=2980168, chunked_prefill_size=4096, max_running_requests=4096, context_len=32768\n";
    check(
        &import_text("engine.log", graphs),
        &["subject", "settings", "samples"],
        expect![[r#"
        subject sglang |  | log |  |  | recorded
        form api+schedulers+detokenizer | assumed | zmq | scheduler_TP0
        set 0  | config.chunked_prefill | true | start-up dump (line 3)
        set 0  | config.graph_max_size | 32 | start-up dump (line 1)
        set 0  | config.graph_mode | full | start-up dump (line 1)
        set 0  | config.graph_sizes | [1, 2, 4, 8, 12, 16, 24, 32] | start-up dump (line 1)
        set 0  | config.max_model_len | 32768 | start-up dump (line 3)
        set 0  | config.max_num_batched_tokens | 4096 | start-up dump (line 3)
        set 0  | config.max_num_seqs | 4096 | start-up dump (line 3)
        0 0 kv.capacity{engine="0",replica="0",source="log"} 2980168
    "#]],
    );
    let slot = "slot 0 : in cache: 0 tokens | to process: 809 tokens\nslot 0 : kv cache rm - [0, end)\n";
    check(
        &import_text("engine.log", slot),
        &["subject", "samples"],
        expect![[r#"
            subject llama.cpp |  | log |  |  | recorded
            form single process | assumed | in process | llama-server
            0 0 kv.prefix_hits{engine="0",replica="0",source="log"} 0
            0 0 kv.prefix_queries{engine="0",replica="0",source="log"} 809
            0 0 server.cached_tokens{engine="0",replica="0",source="log"} 0
            0 0 server.prompt_tokens{engine="0",replica="0",source="log"} 809
        "#]],
    );
    let tokenizer =
        "UserWarning: Using a slow tokenizer. This might cause a significant slowdown. Consider using a fast tokenizer instead.\n";
    check(
        &import_text("engine.log", tokenizer),
        &["subject", "settings", "logs"],
        expect![[r#"
        subject  |  |  |  |  | recorded
        form  |  |  | 
        set 0  | config.slow_tokenizer | true | start-up dump (line 1)
        0   slow_tokenizer 
    "#]],
    );
    let proxy = "location / {\n    proxy_pass http://backend;\n    proxy_set_header Host $host;\n}\n";
    check(
        &import_text("proxy.conf", proxy),
        &["settings"],
        expect![[r#"
        set 0  | config.gateway | nginx | start-up dump (nginx configuration) (line 2)
        set 0  | config.proxy_buffering | true | default of nginx (line 2)
        set 0  | config.proxy_http_version | 1.0 | default of nginx (line 2)
    "#]],
    );
}

#[test]
fn damaged_samples_tell_what_was_lost() {
    let log = std::fs::read_to_string(data("engines/sglang.log")).unwrap();
    let cut = log.find("#cached-token").unwrap();
    check(
        &import_text("sglang.log", &log[..cut]),
        &["counts"],
        expect![[r#"
            runs=1 samples=3 settings=21 logs=10
        "#]],
    );
    let conf = "server {\n  location /v1/ {\n    proxy_pass http://b;\n    proxy_buffering off;\n";
    check(
        &import_text("proxy.conf", conf),
        &["settings"],
        expect![[r#"
        set 0  | config.gateway | nginx | start-up dump (nginx configuration) (line 3)
        set 0  | config.proxy_buffering | false | start-up dump (nginx configuration) (line 4)
        set 0  | config.proxy_http_version | 1.0 | default of nginx (line 3)
        ! warning unbalanced_braces proxy.conf [] x1 expected a closing brace for every block, found an uneven number; the file may be cut, what stands in it is read
    "#]],
    );
    check(
        &import_text(
            "sglang.prom",
            "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{tp_rank=\"0\"} x\nsglang:num_queue_reqs 4\nsglang:token_usage 42\n",
        ),
        &["subject", "samples"],
        expect![[r#"
            subject sglang |  | metrics |  |  | recorded
            form api+schedulers+detokenizer | assumed | zmq | scheduler_TP0
            0 0 engine.waiting{engine="0",replica="0"} 4
            0 0 kv.usage{engine="0",replica="0"} 42
            ! warning ratio_above_one sglang.prom [scrape 1 (line 1)] x1 expected a ratio of at most 1, found more; the unit may be percent
            ! warning unreadable_line sglang.prom [line 2] x1 expected `name{labels} value`, found something else; the line is left out
        "#]],
    );
}

#[test]
fn commands_of_every_engine_are_read() {
    let commands = "python3 -m sglang.launch_server --model-path m --max-running-requests 64\n";
    check(
        &import_text("command.txt", commands),
        &["subject", "settings"],
        expect![[r#"
        subject sglang |  | command line | m |  | 
        form api+schedulers+detokenizer | assumed | zmq | scheduler_TP0
        set 0  | config.max_num_seqs | 64 | command line (line 1)
        set 0  | config.model | m | command line (line 1)
    "#]],
    );
    check(
        &import_text("command.txt", "llama-server -m m.gguf -np 4\n"),
        &["subject", "settings"],
        expect![[r#"
        subject llama.cpp |  | command line | m.gguf |  | 
        form single process | assumed | in process | llama-server
        set 0  | config.max_num_seqs | 4 | command line (line 1)
        set 0  | config.model | m.gguf | command line (line 1)
    "#]],
    );
    check(
        &import_text("command.txt", "trtllm-serve m --max_batch_size 8\n"),
        &["subject", "settings"],
        expect![[r#"
            subject tensorrt-llm |  | command line | m |  | 
            form api+workers | assumed | zmq; mpi between ranks | worker_rank0
            set 0  | config.max_num_seqs | 8 | command line (line 1)
            set 0  | config.model | m | command line (line 1)
        "#]],
    );
    check(
        &import_text("command.txt", "text-generation-launcher --model-id m --max-batch-size 8\n"),
        &["subject", "settings"],
        expect![[r#"
            subject tgi |  | command line | m |  | 
            form router+shards | assumed | grpc over a unix socket | text-generation-router
            set 0  | config.max_num_seqs | 8 | command line (line 1)
            set 0  | config.model | m | command line (line 1)
        "#]],
    );
    check(
        &import_text("command.txt", "lmdeploy serve api_server m --tp 2\n"),
        &["subject", "settings"],
        expect![[r#"
        subject lmdeploy |  | command line | m |  | 
        form single process | assumed | in process | api_server
        set 0  | config.model | m | command line (line 1)
        set 0  | config.tensor_parallel | 2 | command line (line 1)
    "#]],
    );
}
