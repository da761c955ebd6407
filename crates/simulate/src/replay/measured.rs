//! The record of a run as LLMServingSim's bench keeps it: `requests.jsonl`, `timeseries.csv`, `meta.json`.

use serde::Deserialize;
use thiserror::Error;

/// Why a record cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}, line {line}, `{field}`: expected {expected}, found `{found}`")]
pub struct RunError {
    /// Which part of the record.
    pub file: &'static str,
    /// From 1.
    pub line: u64,
    /// The field, or `line`.
    pub field: &'static str,
    /// What should be there.
    pub expected: &'static str,
    /// What is.
    pub found: String,
}

/// One request as the engine timed it; nanoseconds since the first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Output tokens.
    pub output_tokens: u32,
    /// It arrived at the front of the server. The clock of arrivals has another origin than the engine's; both are laid
    /// over each other where the way between was shortest.
    pub arrival_ns: i64,
    /// The engine took it in.
    pub queued_ns: i64,
    /// It was first scheduled.
    pub scheduled_ns: i64,
    /// Its first token was made.
    pub first_ns: i64,
    /// Its last token was made.
    pub last_ns: i64,
}

/// Gauges of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Seconds since the start of the recording.
    pub at_s: f64,
    /// Requests running.
    pub running: f64,
    /// Requests waiting.
    pub waiting: f64,
    /// KV cache in use, percent; 0 throughout means that it was not exported.
    pub kv_pct: f64,
    /// Prompt tokens per second.
    pub prompt_per_s: f64,
    /// Output tokens per second.
    pub output_per_s: f64,
}

/// Settings that decide what the scheduler may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// Seats per replica.
    pub max_num_seqs: u32,
    /// Token budget per step.
    pub max_num_batched_tokens: u32,
    /// Data-parallel replicas.
    pub replicas: u32,
    /// Blocks of the cache, when recorded.
    pub kv_blocks: Option<u32>,
    /// Tokens per block.
    pub block_tokens: u32,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// In order of arrival.
    pub requests: Vec<MeasuredRequest>,
    /// Gauges in order of time.
    pub gauges: Vec<Gauge>,
    /// Settings.
    pub settings: RunSettings,
}

/// Most requests and gauges of one record.
const MOST_ROWS: usize = 1_000_000;

#[derive(Deserialize)]
struct Line {
    input_toks: u32,
    output_toks: u32,
    arrival_time: f64,
    queued_ts: f64,
    scheduled_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
}

#[derive(Deserialize)]
struct Meta {
    engine_kwargs: Kwargs,
    kv_cache: Option<Cache>,
}

#[derive(Deserialize)]
struct Kwargs {
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    #[serde(default = "one")]
    data_parallel_size: u32,
}

#[derive(Deserialize)]
struct Cache {
    num_gpu_blocks: Option<u32>,
    block_size: Option<u32>,
}

fn one() -> u32 {
    1
}

fn refuse(file: &'static str, line: usize, field: &'static str, expected: &'static str, found: &str) -> RunError {
    RunError { file, line: line as u64 + 1, field, expected, found: found.chars().take(40).collect() }
}

impl MeasuredRun {
    /// Reads the three texts.
    pub fn read(requests: &str, timeseries: &str, meta: &str) -> Result<Self, RunError> {
        let meta: Meta = serde_json::from_str(meta)
            .map_err(|error| refuse("meta.json", error.line().saturating_sub(1), "line", "settings of a run", &error.to_string()))?;
        let cache = meta.kv_cache.as_ref();
        let settings = RunSettings {
            max_num_seqs: meta.engine_kwargs.max_num_seqs,
            max_num_batched_tokens: meta.engine_kwargs.max_num_batched_tokens,
            replicas: meta.engine_kwargs.data_parallel_size,
            kv_blocks: cache.and_then(|cache| cache.num_gpu_blocks),
            block_tokens: cache.and_then(|cache| cache.block_size).unwrap_or(16),
        };
        Ok(Self { requests: read_requests(requests)?, gauges: read_gauges(timeseries)?, settings })
    }
}

fn read_requests(text: &str) -> Result<Vec<MeasuredRequest>, RunError> {
    const FILE: &str = "requests.jsonl";
    let mut lines: Vec<Line> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(MOST_ROWS) {
        let parsed: Line =
            serde_json::from_str(line).map_err(|error| refuse(FILE, at, "line", "a request with its times", &error.to_string()))?;
        let times = [parsed.queued_ts, parsed.scheduled_ts, parsed.first_token_ts, parsed.last_token_ts];
        if !times.is_sorted() || times.iter().any(|time| !time.is_finite() || time.abs() > 4e9) {
            return Err(refuse(FILE, at, "queued_ts", "times that do not run backwards", &format!("{times:?}")));
        }
        if !parsed.arrival_time.is_finite() || parsed.arrival_time.abs() > 4e9 {
            return Err(refuse(FILE, at, "arrival_time", "seconds", &parsed.arrival_time.to_string()));
        }
        lines.push(parsed);
    }
    if lines.is_empty() {
        return Err(refuse(FILE, 0, "line", "at least one request", ""));
    }
    // The shortest way from front to engine counts as 0.
    let apart_s = lines.iter().map(|line| line.arrival_time - line.queued_ts).fold(f64::MIN, f64::max);
    let origin_s = lines.iter().map(|line| line.arrival_time - apart_s).fold(f64::MAX, f64::min);
    let ns = |seconds: f64| ((seconds - origin_s) * 1e9).round() as i64;
    let mut requests: Vec<MeasuredRequest> = lines
        .iter()
        .map(|line| MeasuredRequest {
            prompt_tokens: line.input_toks.max(1),
            output_tokens: line.output_toks.max(1),
            arrival_ns: ns(line.arrival_time - apart_s),
            queued_ns: ns(line.queued_ts),
            scheduled_ns: ns(line.scheduled_ts),
            first_ns: ns(line.first_token_ts),
            last_ns: ns(line.last_token_ts),
        })
        .collect();
    requests.sort_by_key(|request| request.arrival_ns);
    Ok(requests)
}

/// Columns of the gauge series.
const FIELDS: [&str; 6] = ["t", "running", "waiting", "kv_cache_pct", "prompt_throughput", "gen_throughput"];

fn read_gauges(text: &str) -> Result<Vec<Gauge>, RunError> {
    const FILE: &str = "timeseries.csv";
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split(',').map(str::trim).collect();
    let place = |field: &'static str| {
        header.iter().position(|name| *name == field).ok_or_else(|| refuse(FILE, 0, field, "a column of this name", &header.join(",")))
    };
    let mut places = FIELDS.map(|field| (field, 0));
    for (field, at) in &mut places {
        *at = place(field)?;
    }
    let mut gauges = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()).take(MOST_ROWS) {
        let cells: Vec<&str> = line.split(',').collect();
        let mut values = [0.0; FIELDS.len()];
        for (value, (field, place)) in values.iter_mut().zip(places) {
            let cell = cells.get(place).copied().unwrap_or_default();
            let number = cell.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            *value = number.ok_or_else(|| refuse(FILE, at, field, "a number", cell))?;
        }
        let [at_s, running, waiting, kv_pct, prompt_per_s, output_per_s] = values;
        gauges.push(Gauge { at_s, running, waiting, kv_pct, prompt_per_s, output_per_s });
    }
    Ok(gauges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str =
        r#"{"engine_kwargs": {"max_num_seqs": 4, "max_num_batched_tokens": 64}, "kv_cache": {"num_gpu_blocks": 9, "block_size": 16}}"#;
    const SERIES: &str = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1.0,3,2,5,2,13.5\n";

    fn request(queued_s: f64, scheduled_s: f64) -> String {
        format!(
            r#"{{"input_toks": 10, "output_toks": 2, "arrival_time": {}, "queued_ts": {queued_s}, "scheduled_ts": {scheduled_s}, "first_token_ts": 9.5, "last_token_ts": 9.75}}"#,
            1000.0 + queued_s
        )
    }

    #[test]
    fn a_record_with_two_clocks() {
        let run = MeasuredRun::read(&format!("{}\n\n{}\n", request(9.0, 9.25), request(8.0, 8.0)), SERIES, META).unwrap();
        let first = run.requests[0];
        assert_eq!((first.arrival_ns, first.queued_ns, first.scheduled_ns), (0, 0, 0));
        assert_eq!((first.first_ns, first.last_ns, run.requests[1].arrival_ns), (1_500_000_000, 1_750_000_000, 1_000_000_000));
        assert_eq!(run.gauges, [Gauge { at_s: 1.0, running: 5.0, waiting: 2.0, kv_pct: 13.5, prompt_per_s: 3.0, output_per_s: 2.0 }]);
        assert_eq!((run.settings.kv_blocks, run.settings.replicas), (Some(9), 1));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = |requests: &str, series: &str, meta: &str| MeasuredRun::read(requests, series, meta).unwrap_err().to_string();
        assert!(error("", SERIES, META).starts_with("requests.jsonl, line 1, `line`: expected at least one request"));
        assert!(error(&request(9.0, 8.0), SERIES, META).contains("`queued_ts`: expected times that do not run backwards"));
        assert!(error(&request(8.0, 8.0), "t,running\n", META).contains("timeseries.csv, line 1, `waiting`"));
        assert!(
            error(&request(8.0, 8.0), "t,running,waiting,kv_cache_pct,prompt_throughput,gen_throughput\n1,x,2,3,4,5\n", META)
                .contains("line 2, `running`: expected a number")
        );
        assert!(error(&request(8.0, 8.0), SERIES, "{}").starts_with("meta.json, line 1"));
    }
}
