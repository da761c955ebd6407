//! Server logs of several ages.

use expect_test::expect;

use ingest::Options;

use crate::shown::{check, data, import, import_text};

#[test]
fn a_log_alone_tells_version_settings_and_load() {
    let capture = import(&[data("vllm-cpu/server.log")]);
    check(
        &capture,
        &["subject", "clocks", "logs", "samples"],
        expect![[r#"
            subject vllm | 0.32.0 | log | tiny-llama | CPU | recorded
            form api+core | log prefixes | zmq | engine_core
            clock server.log log local time 0 ±2000000000000000000 no year in the log, 1972 assumed; assumed UTC; no other source to compare with
            91969419000000000 INFO api_utils.py arguments count=6
            91969419000000000 INFO api_utils.py banner version=0.32.0
            91969419000000000 INFO core.py config version=0.32.0
            91969419000000000 WARNING vllm.py eager 
            91969420000000000 INFO default_loader.py weights_loaded seconds=0.04
            91969420000000000 INFO kv_cache_utils.py kv_capacity tokens=349440
            91969420000000000 INFO kv_cache_utils.py max_concurrency tokens_per_request=4096 requests=85.31
            91969420000000000 INFO weight_utils.py checkpoint gib=0.02
            91969421000000000 INFO core.py engine_initialized seconds=0.54
            91969432000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=406.7 output_tokens_per_s=53.6 running=2 waiting=0 kv_usage_frac=0.001 prefix_hit_frac=0
            91969442000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=169.4 output_tokens_per_s=51.1 running=1 waiting=0 kv_usage_frac=0.001 prefix_hit_frac=0
            91969452000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=286 output_tokens_per_s=95.9 running=0 waiting=0 kv_usage_frac=0 prefix_hit_frac=0
            91969462000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=373.2 output_tokens_per_s=138.2 running=1 waiting=0 kv_usage_frac=0 prefix_hit_frac=0
            91969472000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=223.5 output_tokens_per_s=74.3 running=1 waiting=0 kv_usage_frac=0 prefix_hit_frac=0
            91969420000000000 0 kv.capacity{engine="0",replica="0",source="log"} 349440
            91969432000000000 0 engine.running{engine="0",replica="0",source="log"} 2
            91969432000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969432000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969432000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.001
            91969432000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 53.6
            91969432000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 406.7
            91969442000000000 0 engine.running{engine="0",replica="0",source="log"} 1
            91969442000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969442000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969442000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.001
            91969442000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 51.1
            91969442000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 169.4
            91969452000000000 0 engine.running{engine="0",replica="0",source="log"} 0
            91969452000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969452000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969452000000000 0 kv.usage{engine="0",replica="0",source="log"} 0
            91969452000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 95.9
            91969452000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 286
            91969462000000000 0 engine.running{engine="0",replica="0",source="log"} 1
            91969462000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969462000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969462000000000 0 kv.usage{engine="0",replica="0",source="log"} 0
            91969462000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 138.2
            91969462000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 373.2
            91969472000000000 0 engine.running{engine="0",replica="0",source="log"} 1
            91969472000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969472000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969472000000000 0 kv.usage{engine="0",replica="0",source="log"} 0
            91969472000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 74.3
            91969472000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 223.5
            ! note log_without_year server.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
}

#[test]
fn an_old_log_tells_swaps_preemptions_and_blocks() {
    let capture = import(&[data("vllm-old")]);
    check(
        &capture,
        &["subject", "logs", "samples", "settings"],
        expect![[r#"
            subject vllm | 0.6.4 | log | meta-llama/Llama-3.1-8B-Instruct |  | recorded
            form api+core | assumed | zmq | engine_core
            79833580000000000 INFO api_server.py banner version=0.6.4
            79833581000000000 INFO llm_engine.py config version=0.6.4
            79833598000000000 INFO model_runner.py model_loaded gib=14.9888
            79833607000000000 INFO gpu_executor.py kv_capacity blocks=2170
            79833609000000000 INFO gpu_executor.py max_concurrency tokens_per_request=8192 requests=4.24
            79833630000000000 INFO model_runner.py graphs_captured seconds=19 gib=0.26
            79833670000000000 INFO metrics.py periodic engine=0 prompt_tokens_per_s=812.4 output_tokens_per_s=402.9 running=31 swapped=0 waiting=12 kv_usage_frac=0.973
            79833672000000000 WARNING scheduler.py preemption mode=RECOMPUTE total=51
            79833680000000000 INFO metrics.py periodic engine=0 prompt_tokens_per_s=640 output_tokens_per_s=388.1 running=30 swapped=0 waiting=14 kv_usage_frac=0.991
            79833670000000000 0 engine.running{engine="0",replica="0",source="log"} 31
            79833670000000000 0 engine.swapped{engine="0",replica="0",source="log"} 0
            79833670000000000 0 engine.waiting{engine="0",replica="0",source="log"} 12
            79833670000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            79833670000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.973
            79833670000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 402.9
            79833670000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 812.4
            79833672000000000 0 kv.preemptions{engine="0",replica="0",source="log"} 51
            79833680000000000 0 engine.running{engine="0",replica="0",source="log"} 30
            79833680000000000 0 engine.swapped{engine="0",replica="0",source="log"} 0
            79833680000000000 0 engine.waiting{engine="0",replica="0",source="log"} 14
            79833680000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.991
            79833680000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 388.1
            79833680000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 640
            set 0  | config.async_scheduling | false | default of 0.6.4 (line 0)
            set 0  | config.block_size | 16 | default of 0.6.4 (line 0)
            set 0  | config.chunked_prefill | false | default of 0.6.4 (line 0)
            set 0  | config.dtype | bfloat16 | start-up dump (line 2)
            set 0  | config.enforce_eager | false | start-up dump (line 2)
            set 0  | config.gpu_memory_utilization | 0.9 | default of 0.6.4 (line 0)
            set 0  | config.kv_dtype | auto | start-up dump (line 2)
            set 0  | config.max_model_len | 8192 | start-up dump (line 2)
            set 0  | config.max_num_batched_tokens | 8192 | default of 0.6.4 (line 0)
            set 0  | config.max_num_seqs | 256 | default of 0.6.4 (line 0)
            set 0  | config.num_gpu_blocks | 2170 | start-up dump (line 4)
            set 0  | config.num_scheduler_steps | 1 | start-up dump (line 2)
            set 0  | config.pipeline_parallel | 1 | start-up dump (line 2)
            set 0  | config.prefix_caching | false | start-up dump (line 2)
            set 0  | config.quantization | none | start-up dump (line 2)
            set 0  | config.speculative_tokens | 0 | start-up dump (line 2)
            set 0  | config.swap_space | 4294967296 | default of 0.6.4 (line 0)
            set 0  | config.tensor_parallel | 1 | start-up dump (line 2)
            ! note log_without_year server.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
}

#[test]
fn speculation_is_read() {
    let capture = import(&[data("speculation.log")]);
    check(
        &capture,
        &["samples"],
        expect![[r#"
            91969317000000000 0 engine.running{engine="0",replica="0",source="log"} 3
            91969317000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969317000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969317000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.003
            91969317000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 18.2
            91969317000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 328
            91969317000000000 0 spec.acceptance_length{engine="0",replica="0",source="log"} 1
            91969317000000000 0 spec.acceptance_rate{engine="0",replica="0",source="log"} 0
            91969317000000000 0 spec.accepted_tokens{engine="0",replica="0",source="log"} 0
            91969317000000000 0 spec.draft_tokens{engine="0",replica="0",source="log"} 300
            91969327000000000 0 engine.running{engine="0",replica="0",source="log"} 5
            91969327000000000 0 engine.waiting{engine="0",replica="0",source="log"} 0
            91969327000000000 0 kv.prefix_hit_ratio{engine="0",replica="0",source="log"} 0
            91969327000000000 0 kv.usage{engine="0",replica="0",source="log"} 0.004
            91969327000000000 0 server.throughput.output{engine="0",replica="0",source="log"} 79.2
            91969327000000000 0 server.throughput.prompt{engine="0",replica="0",source="log"} 269.4
            91969327000000000 0 spec.acceptance_length{engine="0",replica="0",source="log"} 1.01
            91969327000000000 0 spec.acceptance_rate{engine="0",replica="0",source="log"} 0.0013157894736842105
            91969327000000000 0 spec.accepted_tokens{engine="0",replica="0",source="log"} 4
            91969327000000000 0 spec.draft_tokens{engine="0",replica="0",source="log"} 3340
            ! note log_without_year speculation.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
}

#[test]
fn iterations_become_steps_laid_end_to_end() {
    let line = |second: u32, prefill: u32, decode: u32, ms: f64| {
        format!(
            "(EngineCore_DP0 pid=7) INFO 11-30 10:00:{second:02} [core.py:300] Engine 000: Iteration(1): 1 context requests, {prefill} context tokens, \
             {decode} generation requests, {decode} generation tokens, iteration elapsed time: {ms} ms, GPU KV cache usage: 1.0%\n"
        )
    };
    let text = [line(1, 80, 0, 30.0), line(1, 0, 4, 10.5), line(1, 64, 4, 25.0), line(3, 0, 4, 10.0)].concat();
    let capture = import_text("server.log", &text);
    let base = capture.tables.steps.t_end_ns[0];
    let shown: Vec<String> = capture
        .tables
        .steps
        .rows()
        .map(|row| {
            let times = (row.t_start_ns - base, row.t_end_ns - base);
            format!("{times:?} {:?} {:?} {}", row.prefill_tokens, row.decode_seqs, capture.text(row.phase))
        })
        .collect();
    expect![[r#"
        (-30000000, 0) Some(80) Some(0) prefill
        (0, 10500000) Some(0) Some(4) decode
        (10500000, 35500000) Some(64) Some(4) mixed
        (1990000000, 2000000000) Some(0) Some(4) decode"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn fragments_without_times_or_prefixes_are_read() {
    let text = "GPU KV cache size: 77,088 tokens\nRunning: 72 reqs, Waiting: 184 reqs, GPU KV cache usage: 100.0%\n";
    check(
        &import_text("engine.log", text),
        &["samples"],
        expect![[r#"
        0 0 engine.running{engine="0",replica="0",source="log"} 72
        0 0 engine.waiting{engine="0",replica="0",source="log"} 184
        0 0 kv.capacity{engine="0",replica="0",source="log"} 77088
        0 0 kv.usage{engine="0",replica="0",source="log"} 1
    "#]],
    );
}

#[test]
fn a_new_year_and_another_zone_are_found() {
    let log = "INFO 12-31 18:59:59 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, \
               Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\nINFO 01-01 00:00:09 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, \
               Avg generation throughput: 1.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.log"), log).unwrap();
    // 2026-12-31 23:59:50 to 2027-01-01 05:00:20 UTC: the log was written five hours west of it.
    let scrape = |ts: u32| format!("# SCRAPE ts={ts} dur=0.1\nvllm:num_requests_running 1\n");
    let scrapes = [scrape(1_798_761_590), scrape(1_798_779_620)].concat();
    std::fs::write(folder.path().join("metrics.prom"), scrapes).unwrap();
    let capture = import(&[folder.path().to_path_buf()]);
    check(
        &capture,
        &["clocks", "logs"],
        expect![[r#"
        clock server.log log local time 18000000000000 ±1000000000 zone in whole quarters of an hour; covers the same time as the other sources
        1798761599000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=1 output_tokens_per_s=1 running=1 waiting=0 kv_usage_frac=0.01
        1798779609000000000 INFO loggers.py periodic engine=0 prompt_tokens_per_s=1 output_tokens_per_s=1 running=2 waiting=0 kv_usage_frac=0.01
    "#]],
    );
}

#[test]
fn an_unknown_log_is_an_attachment_but_common_lines_are_seen() {
    let text =
        "[rank1]:W0716 01:10:47.676000 567101 torch/_dynamo/convert_frame.py:984] [0/8] torch._dynamo hit config.recompile_limit (8)\n";
    check(
        &import_text("engine.log", text),
        &["sources", "logs"],
        expect![[r#"
            source engine.log engine_log rows=3 unmapped=0
            80097047676000000 WARNING torch/_dynamo/convert_frame.py recompile limit=8 rank=1
            ! note log_without_year engine.log [] x1 expected a source that tells the year of the log, found none; its times stand in 1972
        "#]],
    );
    check(
        &import_text("runner.log", "max_concurrency=256 (source=fallback)\n"),
        &["sources", "counts"],
        expect![[r#"
            source runner.log attachment rows=1 unmapped=0
            runs=1 issues=1 attachments=1
            ! note attachment runner.log [] x1 found a text log of no known engine; none of the 27 known formats fits; the file is kept as an attachment and not read
        "#]],
    );
}

/// A log that grows is read in pieces: engine and format by its beginning, zone and year by when the piece was written.
#[test]
fn pieces_of_a_growing_log_stand_where_they_were_written() {
    let hour_ns = 3_600_000_000_000;
    let head = "[2026-11-30 10:00:00] server_args=ServerArgs(model_path='m', port=30000)\n";
    let line = "[2026-11-30 12:00:05] Decode batch, #running-req: 3, #token: 500, token usage: 0.05, gen throughput (token/s): 90.1, #queue-req: 2\n";
    let local_ns = "2026-11-30T12:00:05Z".parse::<jiff::Timestamp>().unwrap().as_nanosecond() as i64;
    let options = Options::default();
    let mut told = Vec::new();
    for (written_ns, lines) in [(local_ns - 2 * hour_ns + 1, line), (local_ns + 5 * hour_ns, line)] {
        let piece = ingest::LogLines { head: head.as_bytes(), lines: lines.as_bytes(), written_ns, replica: Some("a:1") };
        let capture = ingest::read_log_lines("server.log", &piece, &options).expect("the head tells the engine");
        let running = capture.tables.samples.rows().find(|row| capture.text(row.signal) == "engine.running").unwrap();
        assert!(capture.text(running.labels).contains("replica=\"a:1\""), "{}", capture.text(running.labels));
        told.push(((running.t_ns - local_ns) / hour_ns, running.value));
    }
    assert_eq!(told, [(-2, 3.0), (5, 3.0)]);
    let unknown = ingest::LogLines { head: b"hello\nworld\n", lines: b"hello\n", written_ns: local_ns, replica: None };
    assert!(ingest::read_log_lines("x.log", &unknown, &options).is_none());
}
