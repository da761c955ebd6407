//! The page.

use analysis::contract::Report;
use expect_test::{Expect, expect};
use report::views::html::{Curve, render};

use crate::fixtures::{self, TWO_THIRTY_ONE_NS};

/// The words of a page in reading order, one block per line: tags, style and drawings left out.
fn check(report: &Report, expected: &Expect) {
    let page = render(report, &curves());
    let body = page.split_once("<main ").unwrap().1;
    let mut words = String::new();
    let mut in_svg = 0;
    for piece in body.split('<') {
        let Some((tag, text)) = piece.split_once('>') else { continue };
        match tag.split(' ').next().unwrap() {
            "svg" => in_svg += 1,
            "/svg" => in_svg -= 1,
            "p" | "h1" | "h2" | "h3" | "tr" | "li" | "dl" | "section" | "figure" | "pre" | "footer" | "article" => words.push('\n'),
            "td" | "th" | "dt" | "dd" | "span" | "small" | "b" => words.push(' '),
            _ => {}
        }
        if in_svg == 0 {
            words.push_str(text);
        }
    }
    let lines: Vec<String> =
        words.lines().map(|line| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")).collect();
    let text = lines.iter().filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n");
    expected.assert_eq(&text.replace('\u{a0}', " "));
}

/// Ten minutes of the target case at one scrape per second, with a minute missing.
fn curves() -> Vec<Curve> {
    let start_ns = TWO_THIRTY_ONE_NS - 120_000_000_000;
    let times = || (0..600).filter(|at| !(400..460).contains(at)).map(|at| (at, start_ns + at * 1_000_000_000));
    let curve = |title: &str, unit: &str, value: &dyn Fn(i64) -> f64, threshold: Option<f64>| Curve {
        title: title.into(),
        unit: unit.into(),
        points: times().map(|(at, time_ns)| (time_ns, value(at))).collect(),
        threshold,
        mark_onset: true,
    };
    let wave = |at: i64, period: f64| (at as f64 / period).sin();
    vec![
        curve(
            "requests running",
            "request",
            &|at| if at < 120 { 18.0 + 6.0 * wave(at, 9.0) } else { 32.0 - f64::from(at % 7 == 0) },
            Some(32.0),
        ),
        curve("requests waiting", "request", &|at| if at < 120 { 0.0 } else { 22.6 + 5.0 * wave(at, 23.0) + 2.0 * wave(at, 3.1) }, None),
        curve("KV cache used", "ratio", &|at| if at < 120 { 0.05 + 0.01 * wave(at, 9.0) } else { 0.09 }, Some(1.0)),
        curve("TTFT mean", "s", &|at| if at < 120 { 0.11 } else { 2.51 + 0.4 * wave(at, 31.0) }, Some(1.0)),
    ]
}

#[test]
fn the_target_case_reads_in_the_order_of_the_screen() {
    check(
        &fixtures::open_loop_32(),
        &expect![[r#"
            inferoscope vllm 0.33.0, meta-llama/Llama-3.1-8B-Instruct, NVIDIA H100 80GB HBM3 2026-07-14 02:48Z to 02:58Z, 10 min
            SCHEDULING
            batch_cap_reached
            explains 97 % of the excess TTFT, confidence 0.9
            Requests wait 2.4 s for one of 32 seats (max_num_seqs) while 91 % of the KV cache is free, steps have room.
            Since 02:31Z, still so at 02:58Z; 1 of 1 engine.
            measured server.ttft.mean 2.51 s against 110 ms (own unqueued floor) lost 13,536 request-seconds population 5,640 requests limit asked for client.ttft.p99 1.00 s device time 31 % compute, 44 % memory, 25 % waiting
            Do h1
            --max-num-seqs 64
            now 32, start-up dump; restart, 74 s to reload.
            expect now after
            TTFT mean decides 2.51 s 0.10..0.20 s
            queue 2.40 s 0..0.05 s
            TPOT mean guard 12.8 ms 12.4..14.0 ms
            TPOT p99 guard up to 16 ms
            throughput 9.4 req/s, unchanged (arrivals); ceiling 9.7 → 13.9 undo if vllm:num_preemptions_total moves or TPOT mean passes 14 ms risk TPOT rises with the batch: by at most 1.2 ms rollback --max-num-seqs 32, restart versions &gt;=0.6
            What would prove this wrong: queue time stays above 0.5 s once 64 seats are free. Next suspect: overload.
            Where 5.69 s went seen at the server
            mean of 5,640 requests in 10 min: 5.69 s
            slowest 5 %, 282 requests: 9.90 s
            part layer mean share slowest 5 % share
            api application 0.01 s &lt;1 % 0.05 s 1 %
            tokenize application 0.02 s &lt;1 % 0.05 s 1 %
            queue scheduling 2.40 s 42 % 6.53 s 66 %
            prefill kernel 0.07 s 1 % 0.08 s 1 %
            decode 2.1x memory floor hardware 3.18 s 56 % 3.17 s 32 %
            unattributed 0.01 s &lt;1 % 0.02 s &lt;1 %
            Limits of this server, lowest first now 9.40 req/s, the line across
            what binds at of now from
            32 seats 9.74 req/s 1.04x step law 7.6 + 0.167 B ms at B = 32
            64 seats 13.8 req/s 1.47x step law at B = 64
            KV full 21.2 req/s 2.26x capacity over mean tokens of a request
            device 24.0 req/s 2.55x step law, B without bound
            Popular fixes, here
            fix gain per request price because
            more seats first choice 2.36 s free flag arrivals fit into 64 seats
            FP8 weights works too 2.31 s accuracy shorter steps free the seats sooner
            a second GPU works too 2.38 s money halves the arrivals per engine
            more KV memory no gain none restart 91 % of the cache is free
            larger token budget no gain none restart steps reach it 2 % of the time
            shorter max_model_len no gain none restart nothing is reserved for it
            speculative decoding cannot tell restart no draft was ever measured here
            Over time
            requests running last 32 requests, highest 32 requests, limit 32 requests
            02:29Z 02:31Z 02:38Z
            requests waiting last 24.6 requests, highest 29.6 requests
            02:29Z 02:31Z 02:38Z
            KV cache used last 9 %, highest 9 %, limit 100 %
            02:29Z 02:31Z 02:38Z
            TTFT mean last 2.69 s, highest 2.91 s, limit 1.00 s
            02:29Z 02:31Z 02:38Z
            Path each question rules something out
            Is it slow before the first token? yes TTFT 2.51 s, TPOT steady at 12.8 ms rules out kernel
            Queue or prefill? queue 2.40 s against 0.07 s
            Is the KV cache full? no 9 % used rules out memory
            Are requests preempted? no 0 in 10 min
            Do steps stand at the token budget? no 2 % of steps
            Are all seats taken while requests wait? yes 32 of 32 in 97 % of the waiting
            Would more seats carry more? yes X(64)/X(32) = 1.42
            Findings
            batch_cap_reached the cause, 97 % scheduling
            Running stands at 32 of 32 in 97 % of the waiting while 91 % of the KV cache is free.
            costs 2.33 s owns 93..98 % validated on recorded
            evidence value from
            engine.running.p50 32 requests metrics.prom
            engine.waiting.mean 22.6 requests metrics.prom
            kv.usage.mean 9 % metrics.prom
            config.max_num_seqs 32 engine.log, start-up dump
            clock_throttling true, not the cause hardware
            power cap active, memory clock unmoved.
            validated on recorded
            evidence value from
            gpu.power 698 W dcgm.prom
            Unknown and what it would cost to know
            proxies and client (no evidence there)
            cannot tell could own needs
            host_bound_engine 80.0 ms, 3 % engine.host_gap
            Recording costs 1 % of one core for 60 s, no restart:
            inferoscope record --pid 4711 --sample-threads --for 60s -o host.capture
            Looked at and clear
            check because margin
            kv_thrash no preemption in 10 min preemptions 0
            token_budget_reached steps at the budget 2 % of the time at_budget 0.0200
            Trust
            Little&#39;s law closes to 0.6 %
            600 of 600 scrapes
            no counter reset
            confidence 0.9: counter sums that Little&#39;s law closes; no rival could own more than 3 %
            Subject
            engine vllm 0.33.0 model meta-llama/Llama-3.1-8B-Instruct devices NVIDIA H100 80GB HBM3 replicas 10.0.0.7:8000 processes api+core channel zmq process to sample EngineCore_0 layout read from log prefix evidence recorded
            setting value from
            config.max_num_seqs 32 start-up dump
            config.max_num_batched_tokens 8192 start-up dump
            config.max_model_len 32768 command line
            config.gpu_memory_utilization 0.9 default of 0.33
            source read as rows read
            metrics.prom prometheus text 84,600 whole
            engine.log vllm log 1,204 whole
            Next
            inferoscope verify before.capture after.capture --hypothesis h1
            inferoscope, document inferoscope.report/1. Times are UTC.
        "#]],
    );
}

#[test]
fn thin_evidence_starts_with_the_recording() {
    check(
        &fixtures::insufficient(),
        &expect![[r#"
            inferoscope vllm 0.33.0, meta-llama/Llama-3.1-8B-Instruct, NVIDIA H100 80GB HBM3 2026-07-14 02:48Z to 02:58Z, 10 min
            INSUFFICIENT EVIDENCE
            no layer explains the slow decode
            TPOT is 48 ms, about 3.7x its memory floor, and nothing here tells host time from device time.
            02:48Z to 02:58Z; 1 engine.
            measured server.tpot.mean 48.0 ms against 13.0 ms (step law) population 5,640 requests limit asked for client.ttft.p99 1.00 s device time 31 % compute, 44 % memory, 25 % waiting
            Record what decides most
            host_bound_engine
            could own 35.0 ms, 73 % of the slow decode.
            inferoscope record --pid 4711 --sample-threads --metrics http://10.0.0.7:8000/metrics --for 60s -o host.capture
            costs 1 % of one core for 60 s, no restart records engine.host_gap, proc.gil_wait
            Over time
            requests running last 32 requests, highest 32 requests, limit 32 requests
            02:29Z 02:38Z
            requests waiting last 24.6 requests, highest 29.6 requests
            02:29Z 02:38Z
            KV cache used last 9 %, highest 9 %, limit 100 %
            02:29Z 02:38Z
            TTFT mean last 2.69 s, highest 2.91 s, limit 1.00 s
            02:29Z 02:38Z
            Path each question rules something out
            Is the device busy between steps? cannot tell no trace, no thread samples
            Unknown and what it would cost to know
            engine version
            which GPU
            cannot tell could own needs
            host_bound_engine 35.0 ms, 73 % engine.host_gap proc.gil_wait
            Recording costs 1 % of one core for 60 s, no restart:
            inferoscope record --pid 4711 --sample-threads --metrics http://10.0.0.7:8000/metrics --for 60s -o host.capture
            cannot tell could own needs
            graph_fallback 12.0 ms, 30 % engine.host_gap
            graph_padding 100 µs, under 1 % engine.host_gap
            clock_throttling without a bound engine.host_gap
            Recording costs 1 % of one core for 60 s, no restart:
            inferoscope record --pid 4711 --sample-threads --for 60s -o host.capture
            Looked at and clear
            check because margin
            kv_thrash no preemption in 10 min preemptions 0
            token_budget_reached steps at the budget 2 % of the time at_budget 0.0200
            Trust
            2 of 2 scrapes
            no counter reset
            confidence 0.4: two scrapes
            Subject
            engine vllm 0.33.0 model meta-llama/Llama-3.1-8B-Instruct devices NVIDIA H100 80GB HBM3 replicas 10.0.0.7:8000 processes api+core channel zmq process to sample EngineCore_0 layout read from log prefix evidence recorded
            setting value from
            config.max_num_seqs 32 start-up dump
            config.max_num_batched_tokens 8192 start-up dump
            config.max_model_len 32768 command line
            config.gpu_memory_utilization 0.9 default of 0.33
            source read as rows read
            metrics.prom prometheus text 84,600 whole
            engine.log vllm log 1,204 whole
            Issues of the input worst first
            place count what it means
            error engine.log, line 1204 3 The file ends inside a line; expected a time stamp, found 17 bytes of it. truncated
            warning metrics.prom, 02:48:31 1 Only two scrapes, 10 min apart; rates are means over all of it. scrape_gap
            Next
            inferoscope diagnose before.capture host.capture
            inferoscope, document inferoscope.report/1. Times are UTC.
        "#]],
    );
}

#[test]
fn a_healthy_page() {
    check(
        &fixtures::healthy(),
        &expect![[r#"
            inferoscope vllm 0.33.0, meta-llama/Llama-3.1-8B-Instruct, NVIDIA H100 80GB HBM3 2026-07-14 02:48Z to 02:58Z, 10 min
            HEALTHY
            nothing material is slow
            confidence 0.9
            TTFT p99 is 0.31 s, no queue, and decode runs at 1.2x its memory floor.
            02:48Z to 02:58Z; 1 engine.
            measured server.ttft.p99 310 ms against 1.00 s (slo) population 5,640 requests limit asked for client.ttft.p99 1.00 s device time 31 % compute, 44 % memory, 25 % waiting
            What would prove this wrong: a client-side TTFT far above the server&#39;s.
            Where 2.50 s went seen at the server
            mean of 2,460 requests in 10 min: 2.50 s
            The slowest requests are not split: only histograms exist, no request rows.
            part layer mean share
            tokenize application 0.02 s 1 %
            queue scheduling &lt;0.01 s &lt;1 %
            prefill kernel 0.09 s 4 %
            decode 1.2x memory floor hardware 2.38 s 95 %
            unattributed 0.01 s &lt;1 %
            Limits of this server, lowest first now 4.10 req/s, the line across
            what binds at of now from
            32 seats 9.74 req/s 2.38x step law 7.6 + 0.167 B ms at B = 32
            64 seats 13.8 req/s 3.38x step law at B = 64
            KV full 21.2 req/s 5.17x capacity over mean tokens of a request
            device 24.0 req/s 5.85x step law, B without bound
            Over time
            requests running last 32 requests, highest 32 requests, limit 32 requests
            02:29Z 02:38Z
            requests waiting last 24.6 requests, highest 29.6 requests
            02:29Z 02:38Z
            KV cache used last 9 %, highest 9 %, limit 100 %
            02:29Z 02:38Z
            TTFT mean last 2.69 s, highest 2.91 s, limit 1.00 s
            02:29Z 02:38Z
            Findings
            bandwidth_bound_decode a limit, not a fault hardware
            decode at 1.2x the time its bytes need.
            costs 2.33 s owns 93..98 % validated on recorded
            evidence value from
            engine.running.p50 32 requests metrics.prom
            engine.waiting.mean 22.6 requests metrics.prom
            kv.usage.mean 9 % metrics.prom
            config.max_num_seqs 32 engine.log, start-up dump
            Unknown and what it would cost to know
            proxies and client (no evidence there)
            cannot tell could own needs
            slow_tokenization 1.00 ms, under 1 % engine.host_gap
            proxy_buffering 0 s, 0 % engine.host_gap
            Recording costs 1 % of one core for 60 s, no restart:
            inferoscope record --pid 4711 --sample-threads --for 60s -o host.capture
            Looked at and clear
            check because margin
            kv_thrash no preemption in 10 min preemptions 0
            token_budget_reached steps at the budget 2 % of the time at_budget 0.0200
            Trust
            Little&#39;s law closes to 0.6 %
            600 of 600 scrapes
            no counter reset
            confidence 0.9: every phase measured
            Subject
            engine vllm 0.33.0 model meta-llama/Llama-3.1-8B-Instruct devices NVIDIA H100 80GB HBM3 replicas 10.0.0.7:8000 processes api+core channel zmq process to sample EngineCore_0 layout read from log prefix evidence recorded
            setting value from
            config.max_num_seqs 32 start-up dump
            config.max_num_batched_tokens 8192 start-up dump
            config.max_model_len 32768 command line
            config.gpu_memory_utilization 0.9 default of 0.33
            source read as rows read
            metrics.prom prometheus text 84,600 whole
            engine.log vllm log 1,204 whole
            Next
            inferoscope record http://10.0.0.7:8000/metrics -o next.capture
            inferoscope, document inferoscope.report/1. Times are UTC.
        "#]],
    );
}

#[test]
fn hostile_strings_stay_text() {
    let curve = Curve { title: "</title><script>alert(1)</script>\u{1b}".into(), unit: "\"><b>".into(), ..curves()[0].clone() };
    let page = render(&fixtures::hostile(), &[curve]);
    let lower = page.to_lowercase();
    for forbidden in ["<script", "<img", "<b>", "javascript:alert(1)\"", "]]></style"] {
        assert!(!lower.contains(forbidden), "{forbidden}");
    }
    assert_eq!(lower.matches("<style>").count(), 1);
    assert_eq!(lower.matches("</style>").count(), 1);
    assert!(!page.chars().any(|sign| sign.is_control() && sign != '\n'));
    assert!(!page.contains("NaN") && !page.contains("inf%") && !page.contains("inf\""));
    assert!(page.len() < 200_000, "{} bytes", page.len());
    check_tags(&page);
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    for report in [
        fixtures::open_loop_32(),
        fixtures::healthy(),
        fixtures::insufficient(),
        fixtures::layer_only(),
        fixtures::trace_only(),
        fixtures::empty(),
    ] {
        let page = render(&report, &curves());
        for forbidden in ["src=", "href=", "url(", "@import", "<script", "<link", "<iframe", "onload", "NaN"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        check_tags(&page);
    }
}

/// Every tag is closed in order, and no attribute holds a bare quote.
fn check_tags(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in page.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("a bare `<`: {piece}"));
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !matches!(name, "meta" | "!doctype") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn a_thousand_issues_are_cut_and_counted() {
    let mut report = fixtures::insufficient();
    report.issues =
        (0..1000).map(|at| analysis::contract::InputIssue { place: format!("line {at}"), ..report.issues[0].clone() }).collect();
    let page = render(&report, &[]);
    assert_eq!(page.matches("<td class=\"\" data-label=\"place\">").count(), 300);
    assert!(page.contains("700 more rows in the JSON document"));
}
