//! A load in the form of AIPerf's `profile_export.jsonl`: one line per request, its names, its units.
//!
//! Output tokens are the server's count where it tells one. What AIPerf notes of the wire beyond a connection's reuse is left out, and a
//! request cut off at the end is one that was cancelled.

use serde_json::{Map, Value, json};

use super::attempt::{Attempt, Ending};
use super::run::LoadRun;

/// The lines, warm-up included as a phase of its own, in the order of the workload.
pub fn aiperf_jsonl(run: &LoadRun) -> String {
    let mut text = String::new();
    for attempt in &run.attempts {
        text.push_str(&line(attempt).to_string());
        text.push('\n');
    }
    text
}

fn line(attempt: &Attempt) -> Value {
    let mut line = json!({ "metadata": metadata(attempt), "metrics": metrics(attempt) });
    if !matches!(attempt.ending, Ending::Done | Ending::Cut) {
        // Words alone are read as what they sound like: a status is no refused connection.
        let message = match (attempt.ending, attempt.status) {
            (Ending::Status, Some(status)) => format!("HTTP status {status}"),
            (ending, _) => ending.words().to_string(),
        };
        line["error"] = json!({ "code": attempt.status, "type": attempt.ending.class(), "message": message });
    }
    line
}

fn metadata(attempt: &Attempt) -> Value {
    let phase = if attempt.is_warmup { "warmup" } else { "profiling" };
    json!({
        "session_num": attempt.index,
        "x_request_id": format!("load-{}", attempt.index),
        "turn_index": 0,
        "credit_issued_ns": attempt.intended_ns,
        "request_start_ns": attempt.sent_or_started_ns(),
        "request_ack_ns": attempt.headers_ns,
        "request_end_ns": attempt.done_ns.or(attempt.last_token_ns()),
        "benchmark_phase": phase,
        "was_cancelled": attempt.ending == Ending::Cut,
    })
}

fn metrics(attempt: &Attempt) -> Value {
    let sent_ns = attempt.sent_or_started_ns();
    let ms = |from_ns: i64, to_ns: i64| (to_ns - from_ns) as f64 / 1e6;
    let mut metrics = Map::new();
    let mut put = |name: &str, value: Value, unit: &str| {
        if !value.is_null() {
            metrics.insert(name.to_string(), json!({ "value": value, "unit": unit }));
        }
    };
    let since = |to_ns: Option<i64>| to_ns.map_or(Value::Null, |to_ns| ms(sent_ns, to_ns).into());
    put("time_to_first_token", since(attempt.first_token_ns()), "ms");
    put("time_to_first_output_token", since(attempt.first_content_ns), "ms");
    put("request_latency", since(attempt.done_ns.filter(|_| attempt.ending == Ending::Done)), "ms");
    let gaps: Vec<f64> = attempt.pieces.windows(2).map(|pair| ms(pair[0].t_ns, pair[1].t_ns)).collect();
    if let Some(second) = gaps.first() {
        put("time_to_second_token", (*second).into(), "ms");
    }
    let decode_ms = attempt.first_token_ns().zip(attempt.last_token_ns()).map(|(first, last)| ms(first, last));
    if let (Some(decode_ms), Some(tokens @ 2..)) = (decode_ms, attempt.output_tokens) {
        put("inter_token_latency", (decode_ms / (tokens - 1) as f64).into(), "ms");
        put("decode_duration", decode_ms.into(), "ms");
    }
    if !gaps.is_empty() {
        put("inter_chunk_latency", gaps.into(), "ms");
    }
    put("input_sequence_length", attempt.prompt_tokens.into(), "tokens");
    put("output_sequence_length", attempt.output_tokens.into(), "tokens");
    put("usage_prompt_tokens", attempt.usage_ns.and(attempt.prompt_tokens).into(), "tokens");
    put("usage_completion_tokens", attempt.usage_ns.and(attempt.output_tokens).into(), "tokens");
    if attempt.connected_ns.is_some() {
        put("http_req_connection_reused", u8::from(!attempt.is_new_connection).into(), "ratio");
    }
    Value::Object(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Piece;

    /// What is written is read back as the same requests.
    #[test]
    fn requests_come_back_as_they_were() {
        let base = 1_796_032_752_000_000_000;
        let pieces = [100, 120, 145].map(|at| Piece { t_ns: base + at * 1_000_000, tokens: 1 });
        let good = Attempt {
            index: 7,
            intended_ns: base - 5_000_000,
            started_ns: base,
            sent_ns: Some(base),
            connected_ns: Some(base),
            is_new_connection: true,
            headers_ns: Some(base + 90_000_000),
            first_content_ns: Some(pieces[0].t_ns),
            usage_ns: Some(base + 146_000_000),
            done_ns: Some(base + 146_000_000),
            status: Some(200),
            ending: Ending::Done,
            pieces: pieces.to_vec(),
            prompt_tokens: Some(32),
            output_tokens: Some(3),
            ..Attempt::default()
        };
        let refused = Attempt {
            index: 8,
            intended_ns: base,
            started_ns: base,
            done_ns: Some(base + 1_000_000),
            status: Some(503),
            ending: Ending::Status,
            ..Attempt::default()
        };
        let warmup = Attempt { is_warmup: true, index: 9, ..good.clone() };
        let text: String = [&warmup, &good, &refused].map(|attempt| format!("{}\n", line(attempt))).concat();
        let capture = ingest::read_bytes("profile_export.jsonl", text.as_bytes(), &ingest::Options::default());
        assert_eq!(capture.manifest.sources[0].format, "aiperf_jsonl");
        let rows: Vec<capture::Request> = capture.tables.requests.rows().collect();
        assert_eq!(rows.len(), 2);
        let row = &rows.iter().find(|row| row.tokens_out == Some(3)).unwrap();
        assert_eq!((row.t_sent_ns, row.t_intended_ns, row.t_headers_ns), (base, Some(base - 5_000_000), Some(base + 90_000_000)));
        assert_eq!((row.t_first_content_ns, row.t_last_token_ns), (Some(pieces[0].t_ns), Some(pieces[2].t_ns)));
        assert_eq!((row.tokens_in, row.new_connection, capture.text(row.finish)), (Some(32), Some(1), ""));
        let chunks: Vec<i64> = capture.tables.chunks.rows().map(|chunk| chunk.gap_ns).collect();
        assert_eq!(chunks.into_iter().filter(|gap| *gap > 0).collect::<Vec<i64>>(), [20_000_000, 25_000_000]);
        let row = &rows.iter().find(|row| row.tokens_out.is_none()).unwrap();
        assert_eq!((row.status, capture.text(row.finish)), (Some(503), "error"));
    }
}
