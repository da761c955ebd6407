//! OTLP traces: spans, requests at the server, and what must not enter.

use std::fs;

use capture::{Capture, Table as _};
use expect_test::expect;
use ingest::Options;

use crate::shown::{check, data, import, import_text};

#[test]
fn lines_of_the_collector_give_spans_and_requests() {
    let capture = import(&[data("spans/otlp.jsonl")]);
    check(
        &capture,
        &["subject", "sources", "spans", "requests"],
        expect![[r#"
            subject sglang |  | spans | meta-llama/Llama-3.1-8B-Instruct |  | recorded
            form api+schedulers+detokenizer | assumed | zmq | scheduler_TP0
            source otlp.jsonl otlp_json rows=5 unmapped=0
            span 1793700762012000123+1252000000 5b8efff798038103d269b633813fc60c | 051581bf3cb55c13 |  | POST /v1/completions | 
            span 1793700762014000123+1240500000 5b8efff798038103d269b633813fc60c | eee19b7ec3c1b174 | 051581bf3cb55c13 | llm_request | cmpl-bench-3f2a-7-0
            span 1793700762014000223+700000000 aaaabbbbccccddddeeeeffff00001111 | 1111222233334444 |  | Req 5d41402a | 5d41402a
            1793700762014000123 server,cmpl-bench-3f2a-7-0,,, - - - - 0.35012 1.23912 1.24000 Some(812)/Some(32)
            1793700762014000223 server,5d41402a,,,error - - - - 0.05000 - 0.70000 Some(100)/Some(9)
        "#]],
    );
    let row = capture.tables.requests.row(0);
    let since = |t_ns: Option<i64>| t_ns.map(|t_ns| t_ns - row.t_sent_ns);
    // First token by its own figure; queue and prefill lie before it, decode behind it.
    let parts = [row.t_queued_ns, row.t_scheduled_ns, row.t_first_content_ns, row.t_last_token_ns, row.t_done_ns].map(since);
    assert_eq!(parts, [Some(9_723_456), Some(210_123_456), Some(350_123_456), Some(1_239_123_456), Some(1_240_000_000)]);
    // SGLang's queue is longer than what lies before its first token: it starts when the request came.
    let row = capture.tables.requests.row(1);
    assert_eq!((row.t_queued_ns, row.tokens_cached), (Some(row.t_sent_ns), Some(64)));
}

#[test]
fn prompts_headers_and_keys_never_enter() {
    let capture = import(&[data("spans/otlp.jsonl")]);
    for word in ["secret", "Bearer", "sk-not", "kept out"] {
        assert!(fs::read_to_string(data("spans/otlp.jsonl")).unwrap().contains(word), "the sample holds `{word}`");
        let holds = (0..capture.names.len()).any(|at| capture.text(capture::Name(at as u32)).contains(word));
        assert!(!holds, "{word}");
    }
}

#[test]
fn one_document_reads_like_lines_and_protobufs_names_like_the_usual_ones() {
    let lines = fs::read_to_string(data("spans/otlp.jsonl")).unwrap();
    let first = lines.lines().next().unwrap();
    let pretty = first.replace("{\"", "{\n  \"").replace(",\"", ",\n  \"");
    let snake = pretty.replace("resourceSpans", "resource_spans").replace("scopeSpans", "scope_spans").replace("UnixNano", "_unix_nano");
    let snake = snake
        .replace("start_unix", "start_time_unix")
        .replace("startTime_unix", "start_time_unix")
        .replace("endTime_unix", "end_time_unix");
    let snake = snake.replace("traceId", "trace_id").replace("spanId", "span_id").replace("parentSpanId", "parent_span_id");
    let rows = |text: &str| {
        let capture = import_text("spans.json", text);
        (crate::shown::show(&capture, &["spans", "requests"]), capture.tables.spans.row_count())
    };
    assert_eq!(rows(&pretty), rows(first));
    assert_eq!(rows(&snake), rows(first));
    assert_eq!(rows(&pretty).1, 2);
}

#[test]
fn damaged_spans_are_left_out_and_the_rest_is_read() {
    let lines = fs::read_to_string(data("spans/otlp.jsonl")).unwrap();
    let (first, second) = lines.split_once('\n').unwrap();
    let backwards = first.replacen("\"endTimeUnixNano\":\"1793700763254500123\"", "\"endTimeUnixNano\":\"1793700762\"", 1);
    let text = format!("{backwards}\n{}\n{second}{}", &first[..300], &second[..200]);
    check(
        &import_text("spans.jsonl", &text),
        &["sources", "counts"],
        expect![[r#"
        source spans.jsonl otlp_json rows=3 unmapped=0 damaged
        runs=1 requests=1 spans=2 issues=3
        ! warning damaged_json spans.jsonl [line 2, byte 301] x1 expected the end of a string, found something else; the line is left out
        ! warning impossible_times spans.jsonl [eee19b7ec3c1b174] x1 expected the start and the end of a span in epoch nanoseconds, in order, found others; the span is left out
        ! warning line_cut spans.jsonl [line 4] x1 expected a whole JSON object, found the end of the text; the last line is left out
    "#]],
    );
    let pretty = first.replace(",\"", ",\n\"");
    check(
        &import_text("spans.json", &pretty[..pretty.len() - 400]),
        &["sources", "counts"],
        expect![[r#"
        source spans.json otlp_json rows=2 unmapped=0 damaged
        runs=1 requests=1 spans=1 issues=1
        ! warning damaged_json spans.json [byte 1838] x1 expected the end of a string, found the end of the text; the spans up to here are kept
    "#]],
    );
    check(
        &import_text("spans.json", "{\"resourceSpans\": []}"),
        &["counts"],
        expect![[r#"
        runs=1 issues=1
        ! error no_spans spans.json [] x1 expected spans with start and end below `resourceSpans`, found none
    "#]],
    );
}

#[test]
fn no_truncation_of_spans_panics_or_invents_one() {
    let whole = fs::read(data("spans/otlp.jsonl")).unwrap();
    let ids = |capture: &Capture| -> Vec<String> { capture.tables.spans.rows().map(|row| capture.text(row.span_id).to_string()).collect() };
    let all = ids(&ingest::read_bytes("spans.jsonl", &whole, &Options::default()));
    assert_eq!(all.len(), 3);
    for end in (0..whole.len()).step_by(3) {
        let cut = ids(&ingest::read_bytes("spans.jsonl", &whole[..end], &Options::default()));
        assert!(cut.iter().all(|id| all.contains(id)), "cut at {end}: {cut:?}");
    }
}
