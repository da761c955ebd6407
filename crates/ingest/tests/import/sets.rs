//! Whole sets of files as recorded: scrapes, log, results, gateway, host, command.

use std::fs;

use expect_test::expect;

use crate::shown::{check, data, import};

#[test]
fn a_recorded_case_becomes_one_capture() {
    let capture = import(&[data("vllm-cpu")]);
    check(
        &capture,
        &["subject", "sources", "clocks", "runs", "counts"],
        expect![[r#"
            subject vllm | 0.32.0 | log | tiny-llama | CPU | recorded
            form api+core | log prefixes | zmq | engine_core
            source bench.json vllm_bench_json rows=57 unmapped=0
            source command.txt command_txt rows=10 unmapped=0
            source host.jsonl host_jsonl rows=64 unmapped=0
            source metrics.prom.gz prometheus_text rows=203 unmapped=18
            source proxy.jsonl proxy_jsonl rows=5 unmapped=0
            source server.log vllm_log rows=68 unmapped=0
            clock bench.json client monotonic 1796031394879690000 ±1000000000 the last request ends when the result is dated (whole seconds); assumed UTC; covers the same time as the other sources
            clock server.log log local time 0 ±1000000000 first line follows the start of the process by its metric; zone in whole quarters of an hour
            run 0  |  | VLLM_CPU_KVCACHE_SPACE=1 VLLM_ENABLE_V1_MULTIPROCESSING=0 OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 vllm serve /models/tiny-llama --served-model-name tiny-llama --enforce-eager --host 127.0.0.1 --port 8000 --max-model-len 4096 |  | 
            runs=1 samples=268 histograms=56 requests=8 chunks=21 settings=46 logs=14 issues=2
            ! note other_requests proxy.jsonl [line 1] x2 requests for other paths than completions (metrics, health) are left out
            ! note unmapped_families metrics.prom.gz [] x18 metric families without a signal here, left out: http_request_size_bytes, http_response_size_bytes, process_cpu_seconds_total, process_max_fds, process_open_fds, process_resident_memory_bytes, process_virtual_memory_bytes, python_gc_collections_total, python_gc_objects_collected_total, python_gc_objects_uncollectable_total, python_info, vllm:engine_sleep_state, vllm:mm_cache_hits_total, vllm:mm_cache_queries_total, vllm:prompt_tokens_cached_total, vllm:request_max_num_generation_tokens, vllm:request_params_max_tokens, vllm:request_params_n
        "#]],
    );
}

#[test]
fn settings_say_where_they_come_from() {
    let capture = import(&[data("vllm-cpu")]);
    check(
        &capture,
        &["settings"],
        expect![[r#"
            set 0  | config.api_processes | 1 | default of 0.32.0 (CPU) (line 0)
            set 0  | config.async_scheduling | false | default of 0.32.0 (CPU) (line 0)
            set 0  | config.block_size | 128 | metrics (line 0)
            set 0  | config.chunked_prefill | true | start-up dump (line 18)
            set 0  | config.compilation_mode | NONE | start-up dump (line 18)
            set 0  | config.data_parallel | 1 | start-up dump (line 18)
            set 0  | config.disable_custom_all_reduce | true | start-up dump (line 18)
            set 0  | config.dtype | bfloat16 | start-up dump (line 18)
            set 0  | config.enforce_eager | true | command line (line 1)
            set 0  | config.enforce_eager | true | command line (non-default args in the log) (line 7)
            set 0  | config.enforce_eager | true | start-up dump (line 12)
            set 0  | config.enforce_eager | true | start-up dump (line 18)
            set 0  | config.gpu_memory_utilization | 0.92 | metrics (line 0)
            set 0  | config.graph_mode | NONE | start-up dump (line 18)
            set 0  | config.graph_sizes | [] | start-up dump (line 18)
            set 0  | config.host | 127.0.0.1 | command line (line 1)
            set 0  | config.host | 127.0.0.1 | command line (non-default args in the log) (line 7)
            set 0  | config.kv_cache_memory_bytes | 1073741824 | metrics (line 0)
            set 0  | config.kv_dtype | auto | metrics (line 0)
            set 0  | config.kv_dtype | auto | start-up dump (line 18)
            set 0  | config.kv_offload_backend | native | metrics (line 0)
            set 0  | config.long_prefill_token_threshold | 0 | default of 0.32.0 (CPU) (line 0)
            set 0  | config.max_model_len | 4096 | command line (line 1)
            set 0  | config.max_model_len | 4096 | command line (non-default args in the log) (line 7)
            set 0  | config.max_model_len | 4096 | start-up dump (line 11)
            set 0  | config.max_model_len | 4096 | start-up dump (line 18)
            set 0  | config.max_num_batched_tokens | 2048 | default of 0.32.0 (CPU) (line 0)
            set 0  | config.max_num_seqs | 128 | default of 0.32.0 (CPU) (line 0)
            set 0  | config.model | /models/tiny-llama | command line (line 1)
            set 0  | config.model | /models/tiny-llama | command line (non-default args in the log) (line 7)
            set 0  | config.moe_backend | auto | start-up dump (line 18)
            set 0  | config.num_gpu_blocks | 2730 | metrics (line 0)
            set 0  | config.pipeline_parallel | 1 | start-up dump (line 18)
            set 0  | config.port | 8000 | command line (line 1)
            set 0  | config.prefix_caching | true | metrics (line 0)
            set 0  | config.prefix_caching | true | start-up dump (line 18)
            set 0  | config.quantization | none | start-up dump (line 18)
            set 0  | config.scheduling_policy | fcfs | default of 0.32.0 (CPU) (line 0)
            set 0  | config.served_model_name | tiny-llama | command line (line 1)
            set 0  | config.speculative_tokens | 0 | start-up dump (line 18)
            set 0  | config.structured_output_backend | auto | start-up dump (line 18)
            set 0  | config.tensor_parallel | 1 | start-up dump (line 18)
            set 0  | env.NUMBA_NUM_THREADS | 1 | command line (line 1)
            set 0  | env.OMP_NUM_THREADS | 1 | command line (line 1)
            set 0  | env.VLLM_CPU_KVCACHE_SPACE | 1 | command line (line 1)
            set 0  | env.VLLM_ENABLE_V1_MULTIPROCESSING | 0 | command line (line 1)
            ! note other_requests proxy.jsonl [line 1] x2 requests for other paths than completions (metrics, health) are left out
            ! note unmapped_families metrics.prom.gz [] x18 metric families without a signal here, left out: http_request_size_bytes, http_response_size_bytes, process_cpu_seconds_total, process_max_fds, process_open_fds, process_resident_memory_bytes, process_virtual_memory_bytes, python_gc_collections_total, python_gc_objects_collected_total, python_gc_objects_uncollectable_total, python_info, vllm:engine_sleep_state, vllm:mm_cache_hits_total, vllm:mm_cache_queries_total, vllm:prompt_tokens_cached_total, vllm:request_max_num_generation_tokens, vllm:request_params_max_tokens, vllm:request_params_n
        "#]],
    );
}

#[test]
fn requests_at_client_and_gateway_keep_their_times() {
    let capture = import(&[data("vllm-cpu"), data("client.jsonl")]);
    check(
        &capture,
        &["requests"],
        expect![[r#"
            1796036628266100000 gateway,3,,, - - 0.00010 0.07110 0.23860 - 0.23860 None/None
            1796036628748900000 gateway,6,,, - - 0.00000 0.11560 1.21660 - 1.21680 None/None
            1796036628798600000 gateway,7,,, - - 0.00000 0.11240 1.19010 - 1.19050 None/None
            1796036628853000000 gateway,5,,, - - 0.00000 0.13290 0.99270 - 0.99280 None/None
            1796036628937700000 gateway,4,,, - - 0.00000 0.15970 0.76540 - 0.76540 None/None
            1796036670470050000 client,0,,, -0.00013 - - - 0.79634 0.79636 0.79655 Some(49)/Some(48)
            1796036670755390000 client,1,,, -0.00010 - - - 0.59594 0.59600 0.59615 Some(135)/Some(32)
            1796036671952950000 client,2,,, -0.00044 - - - 0.54659 0.54666 0.54705 Some(81)/Some(48)
            1796037500036870000 client,0,,, -0.00001 0.00127 - - 0.08495 0.87641 0.87656 Some(74)/Some(16)
            1796037500158900000 client,4,,, -0.00001 0.00079 - - 0.45777 1.08123 1.08129 Some(77)/Some(24)
            1796037500187230000 client,5,,, -0.00001 0.00111 - - 0.42961 0.84886 0.84889 Some(136)/Some(16)
            ! note other_requests proxy.jsonl [line 1] x2 requests for other paths than completions (metrics, health) are left out
            ! note unmapped_families metrics.prom.gz [] x18 metric families without a signal here, left out: http_request_size_bytes, http_response_size_bytes, process_cpu_seconds_total, process_max_fds, process_open_fds, process_resident_memory_bytes, process_virtual_memory_bytes, python_gc_collections_total, python_gc_objects_collected_total, python_gc_objects_uncollectable_total, python_info, vllm:engine_sleep_state, vllm:mm_cache_hits_total, vllm:mm_cache_queries_total, vllm:prompt_tokens_cached_total, vllm:request_max_num_generation_tokens, vllm:request_params_max_tokens, vllm:request_params_n
            ! warning clock_not_joined client.jsonl [] x1 expected times in common with the other sources, found none, and its clock is not joined: no ids pair its 3 requests with the 5 of the gateway; the engine's counters never grew by its 3 requests from one idle scrape to another; its durations and counts are used, its moments are not
        "#]],
    );
}

#[test]
fn first_and_last_scrape_give_the_recorded_means() {
    let capture = import(&[data("vllm-cpu/metrics.prom.gz")]);
    let mean = |signal: &str| {
        let rows: Vec<_> = capture.tables.histograms.rows().filter(|row| capture.text(row.signal) == signal).collect();
        let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
        format!("{signal} {:.5} over {}", (last.sum - first.sum) / (last.count - first.count), last.count - first.count)
    };
    let means =
        ["server.ttft", "server.queue_time", "server.prefill_time", "server.itl", "server.tpot", "server.e2e", "engine.step_tokens"];
    let shown: Vec<String> = means.into_iter().map(mean).collect();
    expect![[r#"
        server.ttft 0.09655 over 130
        server.queue_time 0.00002 over 130
        server.prefill_time 0.07737 over 130
        server.itl 0.01752 over 3934
        server.tpot 0.01750 over 130
        server.e2e 0.62668 over 130
        engine.step_tokens 7.86618 over 2040"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn results_one_after_another_are_a_sweep_and_together_they_are_classes() {
    let folder = tempfile::tempdir().unwrap();
    let bench = fs::read_to_string(data("vllm-cpu/bench.json")).unwrap();
    for (users, date) in [(1, "20261130-110032"), (8, "20261130-110232"), (4, "20261130-110432")] {
        let text = bench.replace("20261130-110432", date).replace("\"max_concurrency\": null", &format!("\"max_concurrency\": {users}"));
        fs::write(folder.path().join(format!("bench-{users:02}.json")), text).unwrap();
    }
    let capture = import(&[folder.path().to_path_buf()]);
    check(
        &capture,
        &["runs", "points", "counts"],
        expect![[r#"
            run 0  |  |  | client.concurrency | 
            point 0.0 1
            point 0.1 4
            point 0.2 8
            runs=1 points=3 samples=102 requests=9 chunks=63
        "#]],
    );
    let points: std::collections::BTreeSet<i32> = capture.tables.requests.point_idx.iter().copied().collect();
    assert_eq!(points.into_iter().collect::<Vec<_>>(), [0, 1, 2]);

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bench-0.json"), &bench).unwrap();
    fs::write(folder.path().join("bench-1.json"), bench.replace("20261130-110432", "20261130-110433")).unwrap();
    let capture = import(&[folder.path().to_path_buf()]);
    check(
        &capture,
        &["runs", "points", "requests"],
        expect![[r#"
        run 0  |  |  |  | 
        1796036670470050000 client,bench-0/0,bench-0,, -0.00013 - - - 0.79634 0.79636 0.79655 Some(49)/Some(48)
        1796036670755390000 client,bench-0/1,bench-0,, -0.00010 - - - 0.59594 0.59600 0.59615 Some(135)/Some(32)
        1796036671470050000 client,bench-1/0,bench-1,, -0.00013 - - - 0.79634 0.79636 0.79655 Some(49)/Some(48)
        1796036671755390000 client,bench-1/1,bench-1,, -0.00010 - - - 0.59594 0.59600 0.59615 Some(135)/Some(32)
        1796036671952950000 client,bench-0/2,bench-0,, -0.00044 - - - 0.54659 0.54666 0.54705 Some(81)/Some(48)
        1796036672952950000 client,bench-1/2,bench-1,, -0.00044 - - - 0.54659 0.54666 0.54705 Some(81)/Some(48)
    "#]],
    );
}

#[test]
fn replicas_are_told_by_file_name() {
    let folder = tempfile::tempdir().unwrap();
    for replica in ["0", "1"] {
        fs::copy(data("vllm-cpu/metrics.prom.gz"), folder.path().join(format!("metrics-{replica}.prom.gz"))).unwrap();
    }
    let command = fs::read_to_string(data("vllm-cpu/command.txt")).unwrap();
    let second = command.replace("--max-model-len 4096", "--max-model-len 8192");
    fs::write(folder.path().join("command.txt"), format!("{command}{second}")).unwrap();
    let capture = import(&[folder.path().to_path_buf()]);
    let labels: std::collections::BTreeSet<&str> = capture.tables.histograms.labels.iter().map(|name| capture.text(*name)).collect();
    expect![[r#"
        engine="0",replica="0"
        engine="0",replica="1""#]]
    .assert_eq(&labels.into_iter().collect::<Vec<_>>().join("\n"));
    let lengths: Vec<String> = capture
        .tables
        .settings
        .rows()
        .filter(|row| capture.text(row.key) == "config.max_model_len")
        .map(|row| format!("{}={}", capture.text(row.replica), capture.text(row.value)))
        .collect();
    assert_eq!(lengths, ["0=4096", "1=8192"]);
}
