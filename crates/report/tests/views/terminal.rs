//! The first screen.

use analysis::contract::Report;
use expect_test::{Expect, expect};
use report::clean;
use report::views::terminal::{TerminalOptions, render};

use crate::fixtures;

const PLAIN_80: TerminalOptions = TerminalOptions { width: 80, color: false, blocks: false };

/// The screen, with every line held to the width.
fn check(report: &Report, options: TerminalOptions, expected: &Expect) {
    let screen = render(report, options);
    for line in screen.lines() {
        assert!(clean::columns(line) <= options.width, "wider than {}: {line}", options.width);
        assert_eq!(line, line.trim_end(), "white space at the end of a line");
    }
    expected.assert_eq(&screen);
}

#[test]
fn the_target_case_fits_25_lines_of_80_columns() {
    let report = fixtures::open_loop_32();
    assert!(render(&report, PLAIN_80).lines().count() <= 25);
    check(
        &report,
        PLAIN_80,
        &expect![[r#"
            SCHEDULING  batch_cap_reached   explains 97 % of the excess TTFT, confidence 0.9
            Requests wait 2.4 s for one of 32 seats (max_num_seqs) while 91 % of the KV
            cache is free, steps have room. Since 02:31Z, still so at 02:58Z; 1 of 1 engine.

            do      --max-num-seqs 64  (now 32, start-up dump); restart, 74 s to reload
            expect  TTFT mean   2.51 s  -> 0.10..0.20 s    queue 2.40 s -> 0..0.05 s
                    TPOT mean   12.8 ms -> 12.4..14.0 ms   p99 up to 16 ms
                    throughput  9.4 req/s, unchanged (arrivals); ceiling 9.7 -> 13.9
            no gain more KV memory, larger token budget, shorter max_model_len
            dearer  FP8 weights (accuracy), a second GPU (money) work too; the flag is free
            undo if vllm:num_preemptions_total moves or TPOT mean passes 14 ms

            where 5.69 s went   mean of 5,640 requests in 10 min         slowest 5 %: 9.90 s
              api, tokenize   0.03 s   1 %                                       1 %
              queue           2.40 s  42 %  ########                            66 %
              prefill         0.07 s   1 %                                       1 %
              decode          3.18 s  56 %  ###########  2.1x memory floor      32 %
              unattributed    0.01 s  <1 %                                      <1 %
            path    slow before the first token? yes, decode steady. queue or prefill? queue
                    KV full? no, 9 %. preempted? 0. step at token budget? no, 2 %.
                    seats taken? 32 of 32 in 97 % of the waiting. headroom at 64? 1.4x
            also    power cap active, memory clock unmoved: true, not the cause
            unknown proxies and client (no evidence there); host_bound_engine, at most 3 %
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes; no counter reset
            next    inferoscope verify before.capture after.capture --hypothesis h1
        "#]],
    );
}

#[test]
fn blocks_and_width_120() {
    check(
        &fixtures::open_loop_32(),
        TerminalOptions { width: 120, color: false, blocks: true },
        &expect![[r#"
            SCHEDULING  batch_cap_reached   explains 97 % of the excess TTFT, confidence 0.9
            Requests wait 2.4 s for one of 32 seats (max_num_seqs) while 91 % of the KV cache is free, steps have room. Since
            02:31Z, still so at 02:58Z; 1 of 1 engine.

            do      --max-num-seqs 64  (now 32, start-up dump); restart, 74 s to reload
            expect  TTFT mean   2.51 s  -> 0.10..0.20 s    queue 2.40 s -> 0..0.05 s
                    TPOT mean   12.8 ms -> 12.4..14.0 ms   p99 up to 16 ms
                    throughput  9.4 req/s, unchanged (arrivals); ceiling 9.7 -> 13.9
            no gain more KV memory, larger token budget, shorter max_model_len
            dearer  FP8 weights (accuracy), a second GPU (money) work too; the flag is free
            undo if vllm:num_preemptions_total moves or TPOT mean passes 14 ms

            where 5.69 s went   mean of 5,640 requests in 10 min         slowest 5 %: 9.90 s
              api, tokenize   0.03 s   1 %  ▏                                    1 %
              queue           2.40 s  42 %  ████████▌                           66 %
              prefill         0.07 s   1 %  ▎                                    1 %
              decode          3.18 s  56 %  ███████████▏  2.1x memory floor     32 %
              unattributed    0.01 s  <1 %                                      <1 %
            path    slow before the first token? yes, decode steady. queue or prefill? queue. KV full? no, 9 %. preempted? 0.
                    step at token budget? no, 2 %. seats taken? 32 of 32 in 97 % of the waiting. headroom at 64? 1.4x
            also    power cap active, memory clock unmoved: true, not the cause
            unknown proxies and client (no evidence there); host_bound_engine, at most 3 %
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes; no counter reset
            next    inferoscope verify before.capture after.capture --hypothesis h1
        "#]],
    );
}

#[test]
fn width_60_wraps_between_figures() {
    check(
        &fixtures::open_loop_32(),
        TerminalOptions { width: 60, ..PLAIN_80 },
        &expect![[r#"
            SCHEDULING  batch_cap_reached
            explains 97 % of the excess TTFT, confidence 0.9
            Requests wait 2.4 s for one of 32 seats (max_num_seqs) while
            91 % of the KV cache is free, steps have room. Since 02:31Z,
            still so at 02:58Z; 1 of 1 engine.

            do      --max-num-seqs 64  (now 32, start-up dump); restart,
                    74 s to reload
            expect  TTFT mean   2.51 s  -> 0.10..0.20 s
                    queue       2.40 s  -> 0..0.05 s
                    TPOT mean   12.8 ms -> 12.4..14.0 ms
                    TPOT p99    up to 16 ms
                    throughput  9.4 req/s, unchanged (arrivals); ceiling
                                9.7 -> 13.9
            no gain more KV memory, larger token budget,
                    shorter max_model_len
            dearer  FP8 weights (accuracy), a second GPU (money) work
                    too; the flag is free
            undo if vllm:num_preemptions_total moves or TPOT mean passes
                    14 ms

            where 5.69 s went   mean of 5,640 requests in 10 min
                                                     slowest 5 %: 9.90 s
              api, tokenize   0.03 s   1 %                   1 %
              queue           2.40 s  42 %  ######          66 %
              prefill         0.07 s   1 %                   1 %
              decode          3.18 s  56 %  ########        32 %
                2.1x memory floor
              unattributed    0.01 s  <1 %                  <1 %
            path    slow before the first token? yes, decode steady.
                    queue or prefill? queue. KV full? no, 9 %.
                    preempted? 0. step at token budget? no, 2 %.
                    seats taken? 32 of 32 in 97 % of the waiting.
                    headroom at 64? 1.4x
            also    power cap active, memory clock unmoved: true, not
                    the cause
            unknown proxies and client (no evidence there);
                    host_bound_engine, at most 3 %
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes;
                    no counter reset
            next    inferoscope verify before.capture after.capture \
                    --hypothesis h1
        "#]],
    );
}

#[test]
fn a_healthy_server_shows_the_distance_to_its_limits() {
    check(
        &fixtures::healthy(),
        PLAIN_80,
        &expect![[r#"
            HEALTHY  nothing material is slow   confidence 0.9
            TTFT p99 is 0.31 s, no queue, and decode runs at 1.2x its memory floor. 02:48Z
            to 02:58Z; 1 engine.

            looked  server.ttft.p99 310 ms against 1.00 s (slo); 2 checks clear;
                    2 cannot tell
            bound   decode at 1.2x the time its bytes need: a limit, not a fault
            limits  now 9.40 req/s -> 9.74 req/s (32 seats, 1.04x now) ->
                    13.8 req/s (64 seats) -> 21.2 req/s (KV full) -> 24.0 req/s (device)
            margins kv_thrash: no preemption in 10 min
                    token_budget_reached: steps at the budget 2 % of the time
            unless  a client-side TTFT far above the server's

            where 2.50 s went   mean of 2,460 requests in 10 min
              tokenize         0.02 s   1 %
              queue           <0.01 s  <1 %
              prefill          0.09 s   4 %  #
              decode           2.38 s  95 %  ###################  1.2x memory floor
              unattributed     0.01 s  <1 %
              slowest requests not shown: nothing here splits their time
            unknown proxies and client (no evidence there); 2 checks, under 1 % each
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes; no counter reset
            next    inferoscope record http://10.0.0.7:8000/metrics -o next.capture
        "#]],
    );
}

#[test]
fn thin_evidence_names_the_recording_that_decides() {
    check(
        &fixtures::insufficient(),
        PLAIN_80,
        &expect![[r#"
            INSUFFICIENT EVIDENCE  no layer explains the slow decode
            TPOT is 48 ms, about 3.7x its memory floor, and nothing here tells host time
            from device time. 02:48Z to 02:58Z; 1 engine.

            decides host_bound_engine: could own 35.0 ms, 73 % of the slow decode; needs
                    engine.host_gap, proc.gil_wait
            record  inferoscope record --pid 4711 --sample-threads --metrics \
                    http://10.0.0.7:8000/metrics --for 60s -o host.capture
            costs   1 % of one core for 60 s, no restart

            path    device busy between steps? cannot tell
            unknown engine version; which GPU; graph_fallback, at most 30 %;
                    1 more, under 1 %; clock_throttling, without a bound
            trust   2 of 2 scrapes; no counter reset
            input   2 issues; worst: error in engine.log, line 1204: The file ends inside a
                    line; expected a time stamp, found 17 bytes of it (3 times)
            next    inferoscope diagnose before.capture host.capture
        "#]],
    );
}

#[test]
fn a_sure_layer_without_a_failure_mode_says_between_what() {
    check(
        &fixtures::layer_only(),
        PLAIN_80,
        &expect![[r#"
            SCHEDULING  failure mode not decided
            explains 55..80 % of the excess TTFT, confidence 0.6
            Requests wait 2.4 s in the engine's queue; whether for a seat or for the device
            is open. Since 02:31Z, still so at 02:58Z; 1 of 1 engine.
            Simulated evidence: an engine model made these figures, no hardware did.
            Confidence 0.6: seat cap and overload predict the same queue without a step law.

            limits  now 9.40 req/s -> 9.74 req/s (32 seats, 1.04x now) ->
                    13.8 req/s (64 seats) -> 21.2 req/s (KV full) -> 24.0 req/s (device)
            between batch_cap_reached 45 %, overload 26 %
            decides host_bound_engine: could own 480 ms, 20 % of the excess TTFT; needs
                    engine.step_time
            record  restart with --enable-logging-iteration-details, then scrape for 5 min
            costs   a restart; one log line per step
            unless  queue time falls while running and arrivals stay; then overload

            where 5.69 s went   mean of 5,640 requests in 10 min
              api, tokenize   0.03 s   1 %
              queue           2.40 s  42 %  ########
              prefill         0.07 s   1 %
              decode          3.18 s  56 %  ###########  2.1x memory floor
              unattributed    0.01 s  <1 %
              slowest requests not shown: nothing here splits their time
            path    slow before the first token? yes, decode steady. queue or prefill? queue
                    KV full? no, 9 %. preempted? 0. step at token budget? no, 2 %.
                    seats taken? 32 of 32 in 97 % of the waiting. headroom at 64? 1.4x
            unknown proxies and client (no evidence there)
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes; no counter reset
            next    inferoscope verify before.capture after.capture --hypothesis h1
        "#]],
    );
}

#[test]
fn an_empty_report_is_a_short_screen() {
    check(
        &fixtures::empty(),
        PLAIN_80,
        &expect![[r#"
        INSUFFICIENT EVIDENCE  no layer explains the loss
    "#]],
    );
}

#[test]
fn hostile_strings_reach_no_terminal() {
    for color in [false, true] {
        let screen = render(&fixtures::hostile(), TerminalOptions { color, ..PLAIN_80 });
        let ours = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[1;31m", "\u{1b}[1;33m", "\u{1b}[1;32m"];
        let bare = ours.iter().fold(screen.clone(), |text, code| text.replace(code, ""));
        assert!(!bare.chars().any(|sign| sign.is_control() && sign != '\n'), "{bare:?}");
        assert!(screen.lines().count() < 80, "{} lines", screen.lines().count());
    }
    check(
        &fixtures::hostile(),
        PLAIN_80,
        &expect![[r#"
            SCHEDULING  xxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxx
            explains 97 % of | a | b | # heading ``` [x](javascript:alert(1)), confidence
            unknown
            | a | b | # heading ``` [x](javascript:alert(1)). 1 of 1 engine; reversed.

            limits  unknown (reversed) ->
                    13.8 <script...cript> ("' onload='x' "quoted" &amp; & <img src=x>) ->
                    21.2 | a | b...rt(1)) (reversed) ->
                    24.0 <script...cript> ("' onload='x' "quoted" &amp; & <img src=x>)
            unless  "' onload='x' "quoted" &amp; & <img src=x>; then [2J]0;owned31m

            where 5.69 s went   mean of 5,640 requests                   slowest 5 %: 9.90 s
              <scrip...cript> unknown  <1 %                                      1 %
                "' onload='x' "quoted" &amp; & <img src=x>
              [2J]0;owned31m   0.02 s     ?  ####################                1 %
                | a | b | # heading ``` [x](javascript:alert(1))
              reversed         2.40 s  42 %  ########                           66 %
                xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
              <scrip...cript>  0.07 s   1 %                                      1 %
                "' onload='x' "quoted" &amp; & <img src=x>
              [2J]0;owned31m   3.18 s  56 %  ###########                        32 %
                | a | b | # heading ``` [x](javascript:alert(1))
              reversed         0.01 s  <1 %                                     <1 %
                xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
            path    <script>alert(1)</script>. reversed. [2J]0;owned31m.
                    <script>alert(1)</script>. reversed. [2J]0;owned31m.
                    <script>alert(1)</script>
            also    [2J]0;owned31m: the cause, 97 %
                    [2J]0;owned31m: true, not the cause
            unknown <script>alert(1)</script>;
                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxxxxxxxxxx, at most
                    3 %
            trust   Little's law closes to 0.6 %; 600 of 600 scrapes; no counter reset
            input   1 issue: [5m: ]]></style><script>alert(1)</script>
            next    [2J]0;owned31m
        "#]],
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let reports = [fixtures::open_loop_32(), fixtures::healthy(), fixtures::insufficient(), fixtures::layer_only(), fixtures::trace_only()];
    for report in &reports {
        for width in 40..=130 {
            for blocks in [false, true] {
                let screen = render(report, TerminalOptions { width, blocks, color: false });
                for line in screen.lines() {
                    assert!(clean::columns(line) <= width, "wider than {width}: {line}");
                }
            }
        }
    }
}

#[test]
fn a_trace_without_requests_shows_the_devices() {
    check(
        &fixtures::trace_only(),
        PLAIN_80,
        &expect![[r#"
            KERNEL  launch_bound_steps
            its share of the device's idle time is not measurable here, confidence 0.6
            The device waits for launches: 929 kernels in 84.5 ms, 86 % of it idle.
            Unvalidated: only typed evidence has ever exercised this check.
            Confidence 0.6: capped: no recorded case backs this check yet.

            do      drop --enforce-eager; restart
            expect  graph share  0 %, rises
            undo if memory for graphs leaves less than 2 GiB of KV cache

            where 84.5 ms went on device 0 NVIDIA B200: 929 kernels and copies
              compute         11.6 ms  14 %  ###  moe 40 %, gemm 35 %, attention 25 %
              idle            72.9 ms  86 %  #################  launch came late 72.4 ms
              utilization 14 %; a launch every 90.0 us; not recorded: sm_active, dram_active
              prefill steps by the sizes recorded: under 1 % of the memory bandwidth, 1 % of
              the arithmetic; compute allows 900 us, they take 84.5 ms (b200-sxm)
              kernels against b200-sxm: nvjet_tst 16 % of the time at 42 % of its compute
              bound; fmha_kernel 4 % of the time at 8 % of its memory bound, each too short
              to judge
              roofline not known: sizes of 75 % of the kernels' time: record with
              torch.profiler.profile(record_shapes=True)
            device 1: compute 95 %, idle 5 %
            trust   clocks joined within 12.4 us
            next    inferoscope verify before.capture after.capture --hypothesis h1
        "#]],
    );
}

#[test]
fn color_adds_nothing_but_escape_sequences() {
    let report = fixtures::open_loop_32();
    let colored = render(&report, TerminalOptions { color: true, ..PLAIN_80 });
    let mut bare = String::new();
    for (at, piece) in colored.split('\u{1b}').enumerate() {
        bare.push_str(if at == 0 { piece } else { piece.split_once('m').unwrap().1 });
    }
    assert_eq!(bare, render(&report, PLAIN_80));
    assert!(colored.starts_with("\u{1b}[1;31mSCHEDULING\u{1b}[0m  \u{1b}[1mbatch_cap_reached\u{1b}[0m"), "{colored}");
}
