//! Prometheus text and OpenMetrics in the shapes they come in.

use std::io::Read as _;

use expect_test::expect;
use ingest::{Options, Scrape};

use crate::shown::{check, import, import_text};

#[test]
fn one_scrape_without_a_time_stands_at_zero() {
    let text = "vllm:num_preemptions_total 480\nvllm:num_requests_waiting 184\n";
    check(
        &import_text("metrics.prom", text),
        &["subject", "samples"],
        expect![[r#"
        subject vllm |  | metrics |  |  | recorded
        form api+core | assumed | zmq | engine_core
        0 0 engine.waiting{engine="0",replica="0"} 184
        0 0 kv.preemptions{engine="0",replica="0"} 480
    "#]],
    );
}

#[test]
fn old_and_new_names_are_one_signal_and_new_ones_win() {
    let text = "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\nvllm:num_requests_swapped 2\n\
                vllm:time_per_output_token_seconds_bucket{le=\"0.01\"} 1\nvllm:time_per_output_token_seconds_bucket{le=\"+Inf\"} 2\n\
                vllm:time_per_output_token_seconds_sum 0.5\nvllm:time_per_output_token_seconds_count 2\n";
    check(
        &import_text("m", text),
        &["samples", "histograms"],
        expect![[r#"
        0 0 engine.swapped{engine="0",replica="0"} 2
        0 0 kv.usage{engine="1",replica="0"} 0.5
        0 server.itl{engine="0",replica="0"} sum=0.5 count=2 [0.01, inf] [1.0, 2.0]
    "#]],
    );
    let both = format!("{text}vllm:kv_cache_usage_perc{{engine=\"1\"}} 0.25\n");
    let capture = import_text("m", &both);
    let usage: Vec<f64> = capture.tables.samples.rows().filter(|row| capture.text(row.signal) == "kv.usage").map(|row| row.value).collect();
    assert_eq!(usage, [0.25]);
}

#[test]
fn series_that_mean_one_thing_are_summed() {
    let text = "http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"} 10\n\
                http_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"5xx\"} 2\n\
                http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"} 5\n\
                http_requests_total{handler=\"/metrics\",method=\"GET\",status=\"2xx\"} 100\n\
                vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 70\n\
                vllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 30\n\
                vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 4\nvllm:num_requests_waiting 4\n";
    check(
        &import_text("m", text),
        &["samples"],
        expect![[r#"
            0 0 engine.waiting{engine="0",reason="capacity",replica="0"} 4
            0 0 engine.waiting{engine="0",replica="0"} 4
            0 0 server.cached_tokens_total{engine="0",replica="0",source="local_cache_hit"} 30
            0 0 server.computed_tokens_total{engine="0",replica="0"} 70
            0 0 server.http_requests{engine="0",replica="0"} 17
        "#]],
    );
}

#[test]
fn the_histogram_of_a_handler_wins_over_the_one_of_all_paths() {
    let histogram = |labels: &str, name: &str, count: u32| {
        let (open, close) =
            if labels.is_empty() { (String::new(), String::new()) } else { (format!("{{{labels}}}"), format!("{labels},")) };
        format!("{name}_bucket{{{close}le=\"+Inf\"}} {count}\n{name}_sum{open} {count}\n{name}_count{open} {count}\n")
    };
    let highr = histogram("", "http_request_duration_highr_seconds", 50);
    let handler = histogram("handler=\"/v1/completions\",method=\"POST\"", "http_request_duration_seconds", 20);
    check(
        &import_text("m", &format!("vllm:num_requests_running 1\n{highr}")),
        &["histograms"],
        expect![[r#"
        0 server.http_time{engine="0",replica="0"} sum=50 count=50 [inf] [50.0]
    "#]],
    );
    check(
        &import_text("m", &format!("{highr}{handler}")),
        &["histograms"],
        expect![[r#"
        0 server.http_time{engine="0",replica="0"} sum=20 count=20 [inf] [20.0]
    "#]],
    );
}

#[test]
fn samples_with_their_own_time_are_ordered_whatever_the_file_does() {
    let openmetrics = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3 1796036002.5\nvllm:num_requests_running 2 1796036001\n\
                       vllm:time_to_first_token_seconds_bucket{le=\"1\"} 1 1796036001 # {trace_id=\"x\"} 0.5 1796036000\n\
                       vllm:time_to_first_token_seconds_bucket{le=\"1\"} 2 1796036002.5\n\
                       vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 1 1796036001\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 4 1796036002.5\n\
                       vllm:time_to_first_token_seconds_sum 0.5 1796036001\nvllm:time_to_first_token_seconds_sum 9.5 1796036002.5\n# EOF\n";
    check(
        &import_text("m", openmetrics),
        &["samples", "histograms"],
        expect![[r#"
        1796036001000000000 0 engine.running{engine="0",replica="0"} 2
        1796036002500000000 0 engine.running{engine="0",replica="0"} 3
        1796036001000000000 server.ttft{engine="0",replica="0"} sum=0.5 count=1 [1.0, inf] [1.0, 1.0]
        1796036002500000000 server.ttft{engine="0",replica="0"} sum=9.5 count=4 [1.0, inf] [2.0, 4.0]
    "#]],
    );
    check(
        &import_text("m", "vllm:num_requests_running 3 1796036002500\n"),
        &["samples"],
        expect![[r#"
        1796036002500000000 0 engine.running{engine="0",replica="0"} 3
    "#]],
    );
}

#[test]
fn scrapes_in_a_row_of_files_take_their_time_from_the_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, running) in [("scrape-1796036000.prom", 1), ("scrape-1796036001500.prom", 2)] {
        std::fs::write(folder.path().join(name), format!("vllm:num_requests_running {running}\n")).unwrap();
    }
    check(
        &import(&[folder.path().to_path_buf()]),
        &["samples"],
        expect![[r#"
        1796036000000000000 0 engine.running{engine="0",replica="0"} 1
        1796036001500000000 0 engine.running{engine="0",replica="0"} 2
    "#]],
    );
    let folder = tempfile::tempdir().unwrap();
    for number in [8, 9, 10] {
        std::fs::write(folder.path().join(format!("scrape-{number:02}.prom")), format!("vllm:num_requests_running {number}\n")).unwrap();
    }
    check(
        &import(&[folder.path().to_path_buf()]),
        &["samples"],
        expect![[r#"
        0 0 engine.running{engine="0",replica="0"} 8
        1000000000 0 engine.running{engine="0",replica="0"} 9
        2000000000 0 engine.running{engine="0",replica="0"} 10
        ! warning scrapes_without_time scrape-08.prom [line 1] x1 expected a time for each of several scrapes, found none; they are spaced 1 s apart in the order found, so rates are not known
        ! warning scrapes_without_time scrape-09.prom [line 1] x1 expected a time for each of several scrapes, found none; they are spaced 1 s apart in the order found, so rates are not known
        ! warning scrapes_without_time scrape-10.prom [line 1] x1 expected a time for each of several scrapes, found none; they are spaced 1 s apart in the order found, so rates are not known
    "#]],
    );
}

#[test]
fn resets_restarts_and_a_clock_that_jumps_are_told_with_their_place() {
    let scrape = |ts: u32, start: u32, total: u32| {
        format!(
            "# SCRAPE ts={ts} dur=0.01\nprocess_start_time_seconds {start}\nvllm:generation_tokens_total {total}\nvllm:prompt_tokens_total {total}\n"
        )
    };
    let text = [
        scrape(100, 50, 5),
        scrape(101, 50, 9),
        scrape(102, 101, 1),
        scrape(99, 101, 2),
        "# SCRAPE ts=103 dur=5.0 error=TimeoutError\n".into(),
    ];
    check(
        &import_text("m", &text.concat()),
        &["samples"],
        expect![[r#"
        99000000000 0 server.output_tokens_total{engine="0",replica="0"} 2
        99000000000 0 server.prompt_tokens_total{engine="0",replica="0"} 2
        99000000000 0 server.scrape_time{engine="0",replica="0"} 0.01
        99000000000 0 server.start_time{engine="0",replica="0"} 101
        100000000000 0 server.output_tokens_total{engine="0",replica="0"} 5
        100000000000 0 server.prompt_tokens_total{engine="0",replica="0"} 5
        100000000000 0 server.scrape_time{engine="0",replica="0"} 0.01
        100000000000 0 server.start_time{engine="0",replica="0"} 50
        101000000000 0 server.output_tokens_total{engine="0",replica="0"} 9
        101000000000 0 server.prompt_tokens_total{engine="0",replica="0"} 9
        101000000000 0 server.scrape_time{engine="0",replica="0"} 0.01
        101000000000 0 server.start_time{engine="0",replica="0"} 50
        102000000000 0 server.output_tokens_total{engine="0",replica="0"} 1
        102000000000 0 server.prompt_tokens_total{engine="0",replica="0"} 1
        102000000000 0 server.scrape_time{engine="0",replica="0"} 0.01
        102000000000 0 server.start_time{engine="0",replica="0"} 101
        ! warning clock_backwards m [scrape 4 (line 13)] x1 expected scrapes in the order of their times, found one 3.000 s before its predecessor: the clock jumped back
        ! warning counter_reset m [scrape 3 (line 9)] x2 expected totals that only grow, found smaller ones: the totals start again here
        ! warning restart m [scrape 3 (line 9)] x1 a creation or start time changed: the server was restarted and its totals start again
        ! warning scrape_failed m [line 17] x1 expected an answer to a scrape, found an error; that moment is missing
    "#]],
    );
}

#[test]
fn doubtful_values_are_left_out_and_told() {
    let text = "vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc 93.5\n# TYPE vllm:num_preemptions_total histogram\n\
                vllm:num_preemptions_total 1\nvllm:num_preemptions_total 3\nthis is no sample\nvllm:prompt_tokens_total +Inf\n";
    check(
        &import_text("m", text),
        &["samples"],
        expect![[r#"
            0 0 kv.preemptions{engine="0",replica="0"} 3
            0 0 kv.usage{engine="0",replica="0"} 93.5
            ! note type_conflict m [vllm:num_preemptions_total] x1 `vllm:num_preemptions_total` is declared as `histogram`, which is not what this engine exports; it is read by its name
            ! warning duplicate_series m [] x1 expected each series once per scrape, found some again; the last value counts
            ! warning negative_value m [scrape 1 (line 1)] x1 expected a value of zero or more, found a negative one; the value is left out
            ! warning not_finite m [scrape 1 (line 1)] x2 expected a finite value, found NaN or infinity; the value is left out
            ! warning ratio_above_one m [scrape 1 (line 1)] x1 expected a ratio of at most 1, found more; the unit may be percent
            ! warning unreadable_line m [line 7] x1 expected `name{labels} value`, found something else; the line is left out
        "#]],
    );
}

#[test]
fn scrapes_taken_live_are_told_by_host_and_port() {
    let scrapes = [
        Scrape { t_ns: 1_000, body: b"vllm:num_requests_running 1\n" },
        Scrape { t_ns: 2_000, body: b"<html><body>502 Bad Gateway</body></html>\n" },
        Scrape { t_ns: 3_000, body: b"vllm:num_requests_running 2\n" },
    ];
    let capture = ingest::read_scrapes("http://user:secret@10.0.0.1:8000/metrics", &scrapes, &Options::default());
    check(
        &capture,
        &["sources", "samples"],
        expect![[r#"
            source http://10.0.0.1:8000/metrics prometheus_text rows=2 unmapped=0
            1000 0 engine.running{engine="0",replica="10.0.0.1:8000"} 1
            3000 0 engine.running{engine="0",replica="10.0.0.1:8000"} 2
            ! error not_metrics http://10.0.0.1:8000/metrics [answer 2] x1 expected Prometheus text, found an HTML page: the address answers, but not with metrics
        "#]],
    );
}

#[test]
fn a_scrape_without_a_believable_time_among_others_is_left_out() {
    let scrape = |ts: &str, total: u32| format!("# SCRAPE ts={ts} dur=0.01\nvllm:generation_tokens_total {total}\n");
    for odd in ["17960361X4.1", "", "1796036102500", "1e300", "0", "33332036102", "1764500102", "-5"] {
        let text = [scrape("1796036101", 1), scrape("1796036102", 2), scrape(odd, 3), scrape("1796036104", 4), scrape("1796036105", 5)];
        let capture = import_text("m", &text.concat());
        let totals: Vec<(i64, f64)> = capture
            .tables
            .samples
            .rows()
            .filter(|row| capture.text(row.signal) == "server.output_tokens_total")
            .map(|row| (row.t_ns / 1_000_000_000, row.value))
            .collect();
        let kept = [(1_796_036_101, 1.0), (1_796_036_102, 2.0), (1_796_036_104, 4.0), (1_796_036_105, 5.0)];
        assert_eq!(totals, kept, "`{odd}`");
        assert_eq!(capture.tables.samples.t_ns.len(), 8, "`{odd}`");
        let issues: Vec<String> =
            capture.tables.issues.rows().map(|row| format!("{} {}", capture.text(row.code), capture.text(row.place))).collect();
        assert_eq!(issues, ["scrape_time_unusable scrape 3 (line 5)"], "`{odd}`");
    }
    // Days apart is how some scrape: nothing is left out.
    let daily: String = (0..5).map(|day| scrape(&(1_796_036_101 + day * 200_000).to_string(), 1)).collect();
    assert_eq!(import_text("m", &daily).tables.samples.t_ns.len(), 10);
}

/// The answers of a recorded run: times and pages.
fn recorded_answers() -> Vec<(i64, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/kv_thrash/recorded/artifacts/metrics.prom.gz");
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    (1..)
        .map(|at| at * 1_000_000_000)
        .zip(text.split("# SCRAPE ").skip(1).map(|scrape| scrape.split_once('\n').unwrap().1.to_string()))
        .collect()
}

#[test]
fn answers_read_one_by_one_are_those_read_alone() {
    let mut answers = recorded_answers();
    answers.truncate(70);
    answers[3].1 = "<html><body>502 Bad Gateway</body></html>\n".into();
    answers[5].1 = "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n".into();
    answers[6].1.push_str("# HELP a long line\nlong_line 1\n");
    let name = "http://10.0.0.1:8000/metrics";
    let options = Options { max_line_bytes: 2_000, ..Options::default() };
    let mut reader = ingest::ScrapeReader::new(name);
    let (mut one_by_one, mut alone) = (capture::Capture::new(), capture::Capture::new());
    for (t_ns, page) in &answers {
        let scrape = Scrape { t_ns: *t_ns, body: page.as_bytes() };
        let piece = reader.read(&scrape, &options);
        assert_eq!(piece.manifest.subject.engine, "vllm", "{t_ns}");
        one_by_one.merge(piece);
        alone.merge(ingest::read_scrapes(name, &[scrape], &options));
    }
    let text = |capture: &capture::Capture| {
        let samples = capture.tables.samples.rows();
        let samples = samples.map(|row| format!("{} {} {} {}", row.t_ns, capture.text(row.signal), capture.text(row.labels), row.value));
        let histograms = capture.tables.histograms.rows().map(|row| {
            let (signal, labels) = (capture.text(row.signal), capture.text(row.labels));
            format!("{} {signal} {labels} {} {} {:?} {:?}", row.t_ns, row.sum, row.count, row.bounds, row.cumulative)
        });
        let mut rows: Vec<String> = samples.chain(histograms).collect();
        rows.sort();
        rows
    };
    let settings = |capture: &capture::Capture| {
        let rows = capture.tables.settings.rows();
        rows.map(|row| (capture.text(row.key).to_string(), capture.text(row.value).to_string())).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(text(&one_by_one), text(&alone));
    assert_eq!(settings(&one_by_one), settings(&alone));
    let (few, many) = (one_by_one.tables.settings.key.len(), alone.tables.settings.key.len());
    assert!(few * 20 < many && few > 0, "{few} {many}");
}
