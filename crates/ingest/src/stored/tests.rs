//! What answers of a Prometheus server become: an error, or the rows of a capture.

use expect_test::{Expect, expect};

use super::*;

/// Adds answers and shows what became of them: an error, or the rows of the capture.
fn check(answers: &[&str], expected: &Expect) {
    let mut stored = Stored::new("http://ada:lace@prom:9090");
    let outcome = answers.iter().map(|answer| stored.add(answer.as_bytes())).collect::<Result<Vec<_>, _>>();
    let text = match outcome {
        Err(error) => format!("{error}\n"),
        Ok(_) => shown(&stored.finish()),
    };
    expected.assert_eq(&text);
}

fn shown(capture: &Capture) -> String {
    let mut text = String::new();
    for source in &capture.manifest.sources {
        text.push_str(&format!("source {} ({})\n", source.name, source.format));
    }
    for row in capture.tables.samples.rows() {
        text.push_str(&format!("{} {}{{{}}} {}\n", row.t_ns, capture.text(row.signal), capture.text(row.labels), row.value));
    }
    for row in capture.tables.histograms.rows() {
        text.push_str(&format!(
            "{} {}{{{}}} {:?} {:?} sum {}\n",
            row.t_ns,
            capture.text(row.signal),
            capture.text(row.labels),
            row.bounds,
            row.cumulative,
            row.sum
        ));
    }
    for row in capture.tables.issues.rows() {
        text.push_str(&format!("issue {} x{}: {}\n", capture.text(row.code), row.count, capture.text(row.sentence)));
    }
    text
}

fn matrix(series: &[(&str, &str)]) -> String {
    let list: Vec<String> = series.iter().map(|(metric, values)| format!(r#"{{"metric":{{{metric}}},"values":[{values}]}}"#)).collect();
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#, list.join(","))
}

const AT: &str = r#""job":"vllm","instance":"10.0.0.1:8000","engine":"0","model_name":"m""#;

#[test]
fn series_of_a_target_become_the_rows_of_its_scrapes() {
    let running = format!(r#""__name__":"vllm:num_requests_running",{AT}"#);
    let bucket = |name: &str, le: &str| format!(r#""__name__":"vllm:time_to_first_token_seconds{name}",{AT}{le}"#);
    let other = r#""__name__":"process_start_time_seconds","job":"node","instance":"10.0.0.1:9100""#;
    let start = format!(r#""__name__":"process_start_time_seconds",{AT}"#);
    let (up, took) = (format!(r#""__name__":"up",{AT}"#), format!(r#""__name__":"scrape_duration_seconds",{AT}"#));
    let first = matrix(&[
        (&running, r#"[1796036013.162,"2"],[1796036028.162,"3"]"#),
        (&bucket("_bucket", r#","le":"0.5""#), r#"[1796036013.162,"4"]"#),
        (&bucket("_bucket", r#","le":"+Inf""#), r#"[1796036013.162,"6"]"#),
        (&bucket("_sum", ""), r#"[1796036013.162,"2.5"]"#),
        (&bucket("_count", ""), r#"[1796036013.162,"6"]"#),
    ]);
    let second = matrix(&[
        (&running, r#"[1796036028.162,"3"]"#),
        (other, r#"[1796036013.162,"1"]"#),
        (&start, r#"[1796036013.162,"1796036000"]"#),
        (&up, r#"[1796036013.162,"1"],[1796036043.162,"0"]"#),
        (&took, r#"[1796036013.162,"0.004"]"#),
    ]);
    check(
        &[&first, &second],
        &expect![[r#"
        source http://prom:9090 {instance="10.0.0.1:8000",job="vllm"} (prometheus_api)
        1796036013162000000 engine.running{engine="0",replica="0"} 2
        1796036013162000000 server.scrape_time{engine="0",replica="0"} 0.004
        1796036013162000000 server.start_time{engine="0",replica="0"} 1796036000
        1796036028162000000 engine.running{engine="0",replica="0"} 3
        1796036013162000000 server.ttft{engine="0",replica="0"} [0.5, inf] [4.0, 6.0] sum 2.5
        issue scrape_failed x1: expected an answer to a scrape, found an error; that moment is missing
    "#]],
    );
}

/// The same name under two targets, told apart by the first label that can.
#[test]
fn targets_become_replicas() {
    let series =
        |pod: &str, instance: &str| format!(r#""__name__":"vllm:num_requests_running","job":"j","pod":"{pod}","instance":"{instance}""#);
    let one = matrix(&[(&series("a", "h:1"), r#"[1796036013,"1"]"#), (&series("b", "h:1"), r#"[1796036013,"2"]"#)]);
    check(
        &[&one],
        &expect![[r#"
        source http://prom:9090 {instance="h:1",job="j",pod="a"} (prometheus_api)
        source http://prom:9090 {instance="h:1",job="j",pod="b"} (prometheus_api)
        1796036013000000000 engine.running{engine="0",replica="a"} 1
        1796036013000000000 engine.running{engine="0",replica="b"} 2
    "#]],
    );
    let two = matrix(&[
        (&series("a", "h:1"), r#"[1796036013,"1"]"#),
        (&series("b", "h:1"), r#"[1796036013,"2"]"#),
        (&series("a", "h:2"), r#"[1796036013,"3"]"#),
    ]);
    check(
        &[&two],
        &expect![[r#"
        source http://prom:9090 {instance="h:1",job="j",pod="a"} (prometheus_api)
        source http://prom:9090 {instance="h:1",job="j",pod="b"} (prometheus_api)
        source http://prom:9090 {instance="h:2",job="j",pod="a"} (prometheus_api)
        1796036013000000000 engine.running{engine="0",replica="j/a/h:1"} 1
        1796036013000000000 engine.running{engine="0",replica="j/a/h:2"} 3
        1796036013000000000 engine.running{engine="0",replica="j/b/h:1"} 2
    "#]],
    );
}

#[test]
fn times_outside_the_slice_are_not_taken() {
    let mut stored = Stored::new("http://prom:9090");
    stored.begin_slice(1_796_036_013_000_000_000, 1_796_036_014_000_000_000);
    let values = r#"[1796036013,"1"],[1796036013.001,"2"],[1796036014,"3"],[1796036014.001,"4"]"#;
    let running = format!(r#""__name__":"vllm:num_requests_running",{AT}"#);
    assert_eq!(stored.add(matrix(&[(&running, values)]).as_bytes()), Ok(2));
    assert_eq!(stored.engine_instances(), ["10.0.0.1:8000"]);
}

#[test]
fn what_is_no_answer_is_named() {
    check(
        &["<html>"],
        &expect![[r#"
        expected an answer with `status` and a `data` of the Prometheus API, found an HTML page
    "#]],
    );
    check(
        &["# HELP up x\n"],
        &expect![[r#"
        expected an answer with `status` and a `data` of the Prometheus API, found metrics text: this is a metrics page, not a Prometheus server
    "#]],
    );
    check(
        &[""],
        &expect![[r#"
        expected an answer with `status` and a `data` of the Prometheus API, found nothing
    "#]],
    );
    check(
        &[r#"{"a": 1}"#],
        &expect![[r#"
        expected an answer with `status` and a `data` of the Prometheus API, found a JSON document without them
    "#]],
    );
    check(
        &[r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#],
        &expect![[r#"
        expected an answer with `status` and a `data` of the Prometheus API, found a result of type `vector`
    "#]],
    );
    check(
        &[r#"{"status":"error","errorType":"bad_data","error":"unknown function"}"#],
        &expect![[r#"
        the server answers `bad_data`: unknown function
    "#]],
    );
}

/// Whatever is cut off, there is an error or an answer, and an answer that is cut is never taken in part.
#[test]
fn a_cut_answer_leaves_nothing_behind() {
    let running = format!(r#""__name__":"vllm:num_requests_running",{AT}"#);
    let whole = matrix(&[(&running, r#"[1796036013.162,"2"],[1796036028.162,"NaN"]"#)]);
    for end in 0..whole.len() {
        let mut stored = Stored::new("x");
        assert!(stored.add(&whole.as_bytes()[..end]).is_err(), "{end}");
        assert_eq!(stored.sample_count(), 0, "{end}");
    }
}

#[test]
fn warnings_of_the_server_and_native_histograms_are_told() {
    let answer = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{"__name__":"vllm:num_requests_running",{AT}}},"values":[[1,"1"],["x"],7],"histograms":[[1,{{"count":"3"}}]]}}]}},"warnings":["token=abc is missing"],"infos":["i"]}}"#
    );
    check(
        &[&answer],
        &expect![[r#"
        source http://prom:9090 {instance="10.0.0.1:8000",job="vllm"} (prometheus_api)
        1000000000 engine.running{engine="0",replica="0"} 1
        issue native_histogram x1: expected histograms with a series per bucket, found native ones; they are left out
        issue server_warning x1: the server warned: token=<redacted> is missing
    "#]],
    );
}

#[test]
fn names_are_sorted_by_who_serves_them() {
    let answer = r#"{"status":"success","data":["vllm:num_requests_running","vllm:time_to_first_token_seconds_bucket","vllm:generation_tokens_total",
        "vllm:cache_config_info","vllm:unheard_of","process_start_time_seconds","up","go_gc_duration_seconds"]}"#;
    let names = read_names(answer.as_bytes()).unwrap();
    expect![[r#"
        StoredNames {
            engine: [
                "vllm:cache_config_info",
                "vllm:generation_tokens_total",
                "vllm:num_requests_running",
                "vllm:time_to_first_token_seconds_bucket",
            ],
            shared: [
                "process_start_time_seconds",
                "up",
            ],
            unmapped_count: 1,
            total_count: 8,
        }
    "#]]
    .assert_eq(&format!("{names:#?}\n"));
}
