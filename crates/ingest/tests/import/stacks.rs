//! Stacks of Python processes: parts, roles, locks, and what must not enter.

use std::fs;

use capture::Capture;
use expect_test::expect;
use ingest::Options;

use crate::shown::{check, data, import, import_text};

#[test]
fn raw_stacks_give_shares_of_the_work_by_process() {
    check(
        &import(&[data("stacks/py-spy-raw.txt")]),
        &["sources", "samples", "stacks"],
        expect![[r#"
        source py-spy-raw.txt pyspy_raw rows=17 unmapped=0
        0 0 proc.frame_share{part="api_server",role="api_server"} 1
        0 0 proc.frame_share{part="idle",role="engine_core"} 0.6806020066889632
        0 0 proc.frame_share{part="model_forward",role="engine_core"} 0.743455497382199
        0 0 proc.frame_share{part="sampling",role="engine_core"} 0.04712041884816754
        0 0 proc.frame_share{part="scheduler",role="engine_core"} 0.2094240837696335
        stack api_server/MainThread  x12 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/entrypoints/openai/api_server.py:10);run_server (vllm/entrypoints/openai/api_server.py:7);encode (vllm/entrypoints/openai/api_server.py:3)
        stack api_server/MainThread  x105 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/entrypoints/openai/api_server.py:10);run_server (vllm/entrypoints/openai/api_server.py:7);encode (vllm/entrypoints/openai/api_server.py:3);dumps (json/__init__.py:231);JSONEncoder.encode (json/encoder.py:200);JSONEncoder.iterencode (json/encoder.py:258)
        stack api_server/MainThread  x182 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/entrypoints/openai/api_server.py:10);run_server (vllm/entrypoints/openai/api_server.py:8)
        stack engine_core/MainThread  x1 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:13);EngineCoreProc._process_input_queue (vllm/v1/engine/core.py:17);Queue.get (queue.py:165);Condition.__enter__ (threading.py:272)
        stack engine_core/MainThread  x108 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:13);EngineCoreProc._process_input_queue (vllm/v1/engine/core.py:17);Queue.get (queue.py:180);Condition.wait (threading.py:331)
        stack engine_core/MainThread  x13 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:21);Scheduler.schedule (vllm/v1/core/sched/scheduler.py:3)
        stack engine_core/MainThread  x20 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:21);Scheduler.schedule (vllm/v1/core/sched/scheduler.py:3);Scheduler.schedule.<locals>.<genexpr> (vllm/v1/core/sched/scheduler.py:3)
        stack engine_core/MainThread  x6 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:22)
        stack engine_core/MainThread  x142 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:22);GPUModelRunner.execute_model (vllm/v1/worker/gpu_model_runner.py:6);GPUModelRunner.execute_model.<locals>.<listcomp> (vllm/v1/worker/gpu_model_runner.py:6)
        stack engine_core/MainThread  x3 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:23);GPUModelRunner.sample_tokens (vllm/v1/worker/gpu_model_runner.py:8);Sampler.forward (vllm/v1/sample/sampler.py:3)
        stack engine_core/MainThread  x6 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:23);GPUModelRunner.sample_tokens (vllm/v1/worker/gpu_model_runner.py:8);Sampler.forward (vllm/v1/sample/sampler.py:3);Sampler.forward.<locals>.<genexpr> (vllm/v1/sample/sampler.py:3)
        stack engine_core/Output  x299 Thread._bootstrap (threading.py:1002);Thread._bootstrap_inner (threading.py:1045);Thread.run (threading.py:982);EngineCoreProc.process_output_sockets (vllm/v1/engine/core.py:26);Event.wait (threading.py:629);Condition.wait (threading.py:331)
    "#]],
    );
}

#[test]
fn dumps_tell_who_holds_the_lock() {
    check(
        &import(&[data("stacks/py-spy-dump.txt")]),
        &["sources", "samples", "stacks"],
        expect![[r#"
        source py-spy-dump.txt pyspy_dump rows=5 unmapped=0
        0 0 proc.frame_share{part="idle",role="engine_core"} 0.5
        stack engine_core/MainThread gil x1 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:22);GPUModelRunner.execute_model (vllm/v1/worker/gpu_model_runner.py:6);GPUModelRunner.execute_model.<locals>.<listcomp> (vllm/v1/worker/gpu_model_runner.py:6)
        stack engine_core/MainThread gil x1 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:23);GPUModelRunner.sample_tokens (vllm/v1/worker/gpu_model_runner.py:8);Sampler.forward (vllm/v1/sample/sampler.py:3);Sampler.forward.<locals>.<genexpr> (vllm/v1/sample/sampler.py:3)
        stack engine_core/Output idle x1 Thread._bootstrap (threading.py:1002);Thread._bootstrap_inner (threading.py:1045);Thread.run (threading.py:982);EngineCoreProc.process_output_sockets (vllm/v1/engine/core.py:26);Event.wait (threading.py:629);Condition.wait (threading.py:331)
        stack engine_core/Output idle x1 Thread._bootstrap_inner (threading.py:1045);Thread.run (threading.py:982);EngineCoreProc.process_output_sockets (vllm/v1/engine/core.py:26);Event.wait (threading.py:629);Condition.wait (threading.py:331)
        ! note few_stacks py-spy-dump.txt [engine_core] x1 expected at least 20 samples at work for shares by part, found 2 of `engine_core`; its stacks are kept without shares
    "#]],
    );
    check(
        &import(&[data("stacks/py-spy-dump.json")]),
        &["sources", "samples", "stacks"],
        expect![[r#"
        source py-spy-dump.json pyspy_dump rows=3 unmapped=0
        0 0 proc.frame_share{part="idle",role="engine_core"} 0.5
        stack engine_core/MainThread gil x1 _run_module_as_main (<frozen runpy>:198);_run_code (<frozen runpy>:88);<module> (vllm/v1/engine/core.py:28);EngineCoreProc.run_engine_core (vllm/v1/engine/core.py:10);EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:14);EngineCoreProc.step (vllm/v1/engine/core.py:22);GPUModelRunner.execute_model (vllm/v1/worker/gpu_model_runner.py:6);GPUModelRunner.execute_model.<locals>.<listcomp> (vllm/v1/worker/gpu_model_runner.py:6)
        stack engine_core/Output idle x1 Thread._bootstrap (threading.py:1002);Thread._bootstrap_inner (threading.py:1045);Thread.run (threading.py:982);EngineCoreProc.process_output_sockets (vllm/v1/engine/core.py:26);Event.wait (threading.py:629);Condition.wait (threading.py:331)
        ! note few_stacks py-spy-dump.json [engine_core] x1 expected at least 20 samples at work for shares by part, found 1 of `engine_core`; its stacks are kept without shares
    "#]],
    );
}

#[test]
fn many_dumps_give_shares_and_spinning_is_no_work() {
    let spin = "Thread 1 (active+gil): \"MainThread\"\n    recv_pyobj (zmq/sugar/socket.py:989)\n    recv_requests (sglang/srt/managers/scheduler.py:9)\n    run_scheduler_process (sglang/srt/managers/scheduler.py:99)\n";
    let work = "Thread 1 (active): \"MainThread\"\n    match_prefix (sglang/srt/mem_cache/radix_cache.py:9)\n    run_scheduler_process (sglang/srt/managers/scheduler.py:99)\n";
    let other = work.replace("match_prefix (sglang/srt/mem_cache/radix_cache.py:9)", "helper (mine.py:3)");
    let text = format!("{}{}{}", spin.repeat(70), work.repeat(24), other.repeat(6));
    check(
        &import_text("dumps.txt", &text),
        &["samples"],
        expect![[r#"
        0 0 proc.frame_share{part="scheduler",role="scheduler"} 1
        0 0 proc.frame_share{part="spin",role="scheduler"} 0.7
    "#]],
    );
}

fn holds(capture: &Capture, text: &str) -> bool {
    (0..capture.names.len()).any(|at| capture.text(capture::Name(at as u32)).contains(text))
}

#[test]
fn command_lines_and_values_never_enter() {
    for name in ["stacks/py-spy-raw.txt", "stacks/py-spy-dump.txt"] {
        assert!(fs::read_to_string(data(name)).unwrap().contains("sk-not-a-real-key"), "the sample holds what must not enter");
        assert!(!holds(&import(&[data(name)]), "sk-not"), "{name}");
    }
    let with_locals = "Process 1: python -m x --token secret-word\nThread 1 (active): \"MainThread\"\n    f (mine.py:1)\n        Arguments:\n            prompt: \"secret-word\"\n        Locals:\n            x: \"secret-word (a.py:3)\"\n";
    let json = "[{\"pid\": 1, \"thread_name\": \"M\", \"active\": true, \"owns_gil\": false, \"frames\": [{\"name\": \"f\", \"filename\": \"/home/u/mine.py\", \"short_filename\": null, \"line\": 1, \"locals\": [{\"name\": \"prompt\", \"addr\": 1, \"arg\": true, \"repr\": \"secret-word\"}]}], \"process_info\": {\"pid\": 1, \"command_line\": \"secret-word\"}}]";
    for text in [with_locals, json] {
        let capture = import_text("dump.txt", text);
        assert_eq!(capture.tables.stacks.folded.len(), 1);
        assert!(!holds(&capture, "secret-word"), "{text}");
    }
}

#[test]
fn damaged_stacks_are_read_up_to_the_damage() {
    let raw = "f (a.py:1);g (a.py:2) 30\nf (a.py:1) 2\nnonsense\nf (a.py:1);h (a.py:3) 10\nf (a.py:1);i (a.p";
    check(
        &import_text("raw.txt", raw),
        &["sources", "samples", "stacks"],
        expect![[r#"
        source raw.txt pyspy_raw rows=4 unmapped=0 damaged
        0 0 proc.frame_share{part="other"} 1
        stack   x2 f (a.py:1)
        stack   x30 f (a.py:1);g (a.py:2)
        stack   x10 f (a.py:1);h (a.py:3)
        ! warning damaged_row raw.txt [line 3] x1 expected `frame;frame;... count`, found something else; the line is left out
        ! warning line_cut raw.txt [line 5] x1 expected a line end, found the end of the text; the last line is left out
    "#]],
    );
    let dump = "Thread 1 (active): \"M\"\n    f (a.py:1)\nThread 2 (idle)\n    g (a.py:2)\n    h (a.p";
    check(
        &import_text("dump.txt", dump),
        &["sources", "stacks"],
        expect![[r#"
        source dump.txt pyspy_dump rows=3 unmapped=0 damaged
        stack  idle x1 g (a.py:2)
        stack M active x1 f (a.py:1)
        ! note few_stacks dump.txt [] x1 expected at least 20 samples at work for shares by part, found 1; its stacks are kept without shares
        ! warning line_cut dump.txt [last line] x1 expected a whole frame, found the end of the text; the last thread lacks its outer frames
    "#]],
    );
    let json =
        "[{\"active\": true, \"owns_gil\": true, \"frames\": [{\"name\": \"f\", \"filename\": \"a.py\", \"line\": 1}]}, {\"active\": tru";
    check(
        &import_text("dump.json", json),
        &["sources", "stacks"],
        expect![[r#"
        source dump.json pyspy_dump rows=1 unmapped=0 damaged
        stack  gil x1 f (a.py:1)
        ! note few_stacks dump.json [] x1 expected at least 20 samples at work for shares by part, found 1; its stacks are kept without shares
        ! warning damaged_json dump.json [byte 110] x1 expected `,` or `}`, found the end of the text; the rest is left out
    "#]],
    );
}

#[test]
fn no_truncation_of_stacks_panics_or_invents_samples() {
    for name in ["stacks/py-spy-raw.txt", "stacks/py-spy-dump.txt", "stacks/py-spy-dump.json"] {
        let whole = fs::read(data(name)).unwrap();
        let weight = |capture: &Capture| -> f64 { capture.tables.stacks.weight.iter().sum() };
        let all = weight(&ingest::read_bytes(name, &whole, &Options::default()));
        for end in (0..whole.len()).step_by(13) {
            assert!(weight(&ingest::read_bytes(name, &whole[..end], &Options::default())) <= all, "{name} cut at {end}");
        }
    }
}
