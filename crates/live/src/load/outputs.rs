//! A load in other forms: the table on the screen, one JSON document, a CSV of requests, and the form of `vllm bench serve`.

use serde_json::{Map, Value, json};

use super::attempt::{Attempt, Counting};
use super::body::Api;
use super::figures::{Disagreement, Figures, Spread};
use super::health::Health;
use super::run::{LoadRun, Plan, Schedule};

/// The summary a person reads.
pub fn table(figures: &Figures, health: &Health, is_simulated: bool) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    if is_simulated {
        line("The server is simulated: these figures are no measurement of an engine.".into());
    }
    let limits = health.limits(figures);
    if !limits.is_empty() {
        line(format!("CLIENT-LIMITED: {}.", limits.join("; ")));
        line("Times below say more about this client and its machine than about the server.".into());
    }
    line(format!(
        "{} whole answers of {} requests in {:.1} s ({} failed, {} warm-up, {} cut off at the end)",
        figures.completed,
        figures.sent,
        figures.duration_s,
        figures.failed(),
        figures.warmup,
        figures.cut
    ));
    for (ending, count) in &figures.failures {
        line(format!("  {count} {}", ending.words()));
    }
    for (status, count) in &figures.statuses {
        line(format!("  {count} times status {status}"));
    }
    line(String::new());
    line(format!(
        "{:.2} requests/s, {:.1} output tokens/s, {:.1} prompt tokens/s; in flight {:.1} mean, {} most",
        figures.requests_per_s(),
        figures.output_per_s(),
        figures.prompt_per_s(),
        figures.concurrency_mean,
        figures.concurrency_max
    ));
    if let (Some(goodput), Some(frac)) = (figures.goodput_per_s(), figures.good_frac()) {
        line(format!("goodput {goodput:.2} requests/s: {:.1} % of the requests kept the limits", 100.0 * frac));
    }
    line(String::new());
    line(format!("{:24}{:>10}{:>10}{:>10}{:>10}{:>10}", "ms", "mean", "p50", "p90", "p99", "max"));
    for (name, spread) in rows(figures) {
        if spread.count > 0 {
            let ms = |seconds: f64| format!("{:>10.2}", seconds * 1e3);
            let cells = [spread.mean, spread.p50, spread.p90, spread.p99, spread.max].map(ms).concat();
            line(format!("{name:24}{cells}"));
        }
    }
    if let Some(counting) = figures.counting {
        line(format!("tokens counted by: {}", counting.words()));
    }
    let Disagreement { answers, counted, told } = figures.disagreement;
    if answers > 0 {
        line(format!(
            "  in {answers} answers tokenizer.json counts {counted} tokens and the server {told}, which was kept; is it this model's?"
        ));
    }
    line(String::new());
    line(client(health));
    text
}

fn rows(figures: &Figures) -> [(&'static str, &Spread); 9] {
    let has_reasoning = figures.content_ttft.p50 != figures.ttft.p50 || figures.content_ttft.count != figures.ttft.count;
    let none = &NONE;
    [
        ("TTFT, from sent", &figures.ttft),
        ("TTFT, from due", &figures.ttft_from_due),
        ("TTFT of content", if has_reasoning { &figures.content_ttft } else { none }),
        ("gap between chunks", &figures.chunk_gap),
        ("gap between tokens", &figures.token_gap),
        ("TPOT", &figures.tpot),
        ("whole, from sent", &figures.e2e),
        ("whole, from due", &figures.e2e_from_due),
        ("connecting", &figures.connect),
    ]
}

static NONE: Spread = Spread { count: 0, mean: 0.0, p50: 0.0, p90: 0.0, p95: 0.0, p99: 0.0, max: 0.0, deviation: 0.0 };

fn client(health: &Health) -> String {
    let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let percent = |frac: Option<f64>| frac.map_or("not told".to_string(), |frac| format!("{:.1} %", 100.0 * frac));
    format!(
        "client: sent late by {} (p99), loop late by {} (p99), {} of a core, {} in line for one",
        ms(health.slip.p99),
        ms(health.lag.p99),
        percent(health.cpu_frac),
        percent(health.wait_frac)
    )
}

fn spread_json(spread: &Spread) -> Value {
    json!({
        "count": spread.count, "mean_s": spread.mean, "p50_s": spread.p50, "p90_s": spread.p90, "p95_s": spread.p95,
        "p99_s": spread.p99, "max_s": spread.max,
    })
}

/// One run as a JSON document.
pub fn json(figures: &Figures, health: &Health, is_simulated: bool) -> Value {
    let failures: Map<String, Value> =
        figures.failures.iter().map(|(ending, count)| (ending.words().to_string(), (*count).into())).collect();
    let statuses: Map<String, Value> = figures.statuses.iter().map(|(status, count)| (status.to_string(), (*count).into())).collect();
    let limits = health.limits(figures);
    let Disagreement { answers, counted, told } = figures.disagreement;
    let differs = (answers > 0).then(|| json!({ "answers": answers, "counted": counted, "told": told }));
    json!({
        "schema": "inferoscope.load/1",
        "simulated": is_simulated,
        "client_limited": limits,
        "requests": {
            "sent": figures.sent, "completed": figures.completed, "failed": figures.failed(), "warmup": figures.warmup,
            "cut": figures.cut, "failures": failures, "statuses": statuses, "kept_limits": figures.good,
        },
        "duration_s": figures.duration_s,
        "tokens": {
            "prompt": figures.prompt_tokens, "cached": figures.cached_tokens, "output": figures.output_tokens,
            "chunks": figures.chunks, "counted_by": figures.counting.map(Counting::words),
            "tokenizer_differs": differs,
            "unreadable_lines": figures.unreadable,
        },
        "rates": {
            "requests_per_s": figures.requests_per_s(), "output_tokens_per_s": figures.output_per_s(),
            "prompt_tokens_per_s": figures.prompt_per_s(), "goodput_per_s": figures.goodput_per_s(),
        },
        "in_flight": { "mean": figures.concurrency_mean, "max": figures.concurrency_max },
        "ttft": spread_json(&figures.ttft),
        "ttft_from_due": spread_json(&figures.ttft_from_due),
        "content_ttft": spread_json(&figures.content_ttft),
        "first_event": spread_json(&figures.first_event),
        "chunk_gap": spread_json(&figures.chunk_gap),
        "token_gap": spread_json(&figures.token_gap),
        "tpot": spread_json(&figures.tpot),
        "e2e": spread_json(&figures.e2e),
        "e2e_from_due": spread_json(&figures.e2e_from_due),
        "connect": spread_json(&figures.connect),
        "client": {
            "schedule_slip": spread_json(&health.slip), "loop_lag": spread_json(&health.lag), "cpu_s": health.cpu_s,
            "cpu_frac": health.cpu_frac, "cpu_wait_frac": health.wait_frac, "new_connections": figures.new_connections,
        },
    })
}

/// One line per request; times in nanoseconds since the epoch, empty where nothing happened.
pub fn csv(levels: &[(f64, &LoadRun)]) -> String {
    let mut text = String::from(
        "level,index,warmup,ending,status,intended_ns,sent_ns,connected_ns,headers_ns,first_event_ns,first_role_ns,first_reasoning_ns,\
         first_content_ns,first_token_ns,last_token_ns,usage_ns,done_ns,prompt_tokens,cached_tokens,output_tokens,chunks,counted_by,\
         new_connection,finish,body_bytes\n",
    );
    for (value, run) in levels {
        for attempt in &run.attempts {
            csv_line(&mut text, *value, attempt);
        }
    }
    text
}

fn csv_line(text: &mut String, value: f64, attempt: &Attempt) {
    let time = |ns: Option<i64>| ns.map_or(String::new(), |ns| ns.to_string());
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    let counting = match attempt.counting {
        Counting::PerChunk => "chunk_usage",
        Counting::Tokenizer => "tokenizer",
        Counting::Total => "total_usage",
        Counting::Assumed => "one_per_chunk",
    };
    let cells = [
        value.to_string(),
        attempt.index.to_string(),
        u8::from(attempt.is_warmup).to_string(),
        attempt.ending.words().to_string(),
        attempt.status.map_or(String::new(), |status| status.to_string()),
        attempt.intended_ns.to_string(),
        time(attempt.sent_ns),
        time(attempt.connected_ns),
        time(attempt.headers_ns),
        time(attempt.first_event_ns),
        time(attempt.first_role_ns),
        time(attempt.first_reasoning_ns),
        time(attempt.first_content_ns),
        time(attempt.first_token_ns()),
        time(attempt.last_token_ns()),
        time(attempt.usage_ns),
        time(attempt.done_ns),
        count(attempt.prompt_tokens),
        count(attempt.cached_tokens),
        count(attempt.output_tokens),
        attempt.pieces.len().to_string(),
        counting.to_string(),
        u8::from(attempt.is_new_connection).to_string(),
        attempt.finish.unwrap_or_default().to_string(),
        attempt.body_bytes.to_string(),
    ];
    text.push_str(&cells.join(","));
    text.push('\n');
}

/// The form of `vllm bench serve --save-result --save-detailed`. Its ITL is the gap between chunks.
/// One line: totals stand before the lists, since readers look for them in the first bytes.
pub fn vllm_bench_json(plan: &Plan, figures: &Figures, run: &LoadRun) -> String {
    let counted: Vec<&Attempt> = run.attempts.iter().filter(|attempt| attempt.counts()).collect();
    let (endpoint, concurrency) = match (plan.api, plan.schedule) {
        (Api::Chat, Schedule::Closed { users, .. }) => ("openai-chat", Some(users)),
        (Api::Completions, Schedule::Closed { users, .. }) => ("openai", Some(users)),
        (Api::Chat, Schedule::Open) => ("openai-chat", None),
        (Api::Completions, Schedule::Open) => ("openai", None),
    };
    let seconds = |ns: i64| ns as f64 / 1e9;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("endpoint_type", endpoint.into());
    put("backend", endpoint.into());
    put("model_id", plan.model.clone().into());
    put("num_prompts", figures.sent.into());
    put("request_rate", "inf".into());
    put("max_concurrency", concurrency.into());
    put("duration", figures.duration_s.into());
    put("completed", figures.completed.into());
    put("failed", figures.failed().into());
    put("total_input_tokens", figures.prompt_tokens.into());
    put("total_output_tokens", figures.output_tokens.into());
    put("request_throughput", figures.requests_per_s().into());
    put("request_goodput", figures.goodput_per_s().into());
    put("output_throughput", figures.output_per_s().into());
    put("total_token_throughput", (figures.output_per_s() + figures.prompt_per_s()).into());
    put("max_concurrent_requests", figures.concurrency_max.into());
    for (name, spread) in [("ttft", &figures.ttft), ("tpot", &figures.tpot), ("itl", &figures.chunk_gap), ("e2el", &figures.e2e)] {
        let figures = [("mean", spread.mean), ("median", spread.p50), ("std", spread.deviation), ("p99", spread.p99)];
        for (statistic, value) in figures {
            put(&format!("{statistic}_{name}_ms"), (value * 1e3).into());
        }
    }
    let totals = Value::Object(std::mem::take(&mut object)).to_string();
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("input_lens", counted.iter().map(|attempt| attempt.prompt_tokens.unwrap_or(0)).collect());
    put("output_lens", counted.iter().map(|attempt| attempt.output_tokens.unwrap_or(0)).collect());
    let ttft = |attempt: &&Attempt| attempt.first_token_ns().map_or(0.0, |first| seconds(first - attempt.sent_or_started_ns()));
    put("ttfts", counted.iter().map(ttft).collect());
    let gaps = |attempt: &&Attempt| attempt.pieces.windows(2).map(|pair| seconds(pair[1].t_ns - pair[0].t_ns)).collect::<Value>();
    put("itls", counted.iter().map(gaps).collect());
    put("start_times", counted.iter().map(|attempt| seconds(attempt.sent_or_started_ns())).collect());
    put("errors", counted.iter().map(|_| "").collect());
    let lists = Value::Object(object).to_string();
    format!("{},{}\n", totals.trim_end_matches('}'), lists.trim_start_matches('{'))
}
