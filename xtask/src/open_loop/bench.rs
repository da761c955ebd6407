//! The result file of the load generator, with one row per request of the recorded benchmark.

use std::fmt::Write as _;

use super::random::Random;
use super::{MODEL, MODEL_PATH, Run, TO_CLIENT_US, WINDOW_US};

/// Client's own clock at the start of the window, 10 us units like all times here.
const CLOCK_START: u64 = 918_244_117;
const UNITS_PER_S: f64 = 1e5;

/// Times of one request as the client sees them, in units of 10 us.
struct Row {
    sent: u64,
    first: u64,
    latency: u64,
    gaps: Vec<u64>,
    prompt_tokens: u32,
}

/// The JSON document, on one line as the tool writes it.
pub(crate) fn document(run: &Run) -> String {
    let rows = rows(run);
    let seconds = |units: u64| units as f64 / UNITS_PER_S;
    let duration_s = rows.iter().map(|row| seconds(row.sent + row.latency)).fold(0.0, f64::max) - seconds(rows[0].sent);
    let prompts: u64 = rows.iter().map(|row| u64::from(row.prompt_tokens)).sum();
    let outputs: u64 = rows.iter().map(|row| row.gaps.len() as u64 + 1).sum();
    let count = rows.len() as f64;
    let mut random = Random::new(43);
    let mut out = format!(
        "{{\"date\": \"20261130-025849\", \"endpoint_type\": \"openai\", \"backend\": \"openai\", \"label\": \"inferoscope: simulated\", \
         \"model_id\": \"{MODEL}\", \"tokenizer_id\": \"{MODEL_PATH}\", \"num_prompts\": {}, \"request_rate\": 9.4, \"burstiness\": 1.0, \
         \"max_concurrency\": null, \"duration\": {duration_s:?}, \"completed\": {}, \"failed\": 0, \"total_input_tokens\": {prompts}, \
         \"total_output_tokens\": {outputs}, \"request_throughput\": {:?}, \"request_goodput\": null, \"output_throughput\": {:?}, \
         \"total_token_throughput\": {:?}",
        rows.len(),
        rows.len(),
        count / duration_s,
        outputs as f64 / duration_s,
        (prompts + outputs) as f64 / duration_s,
    );
    list(&mut out, "input_lens", rows.iter().map(|row| row.prompt_tokens.to_string()));
    list(&mut out, "output_lens", rows.iter().map(|row| (row.gaps.len() + 1).to_string()));
    list(&mut out, "ttfts", rows.iter().map(|row| format!("{:?}", seconds(row.first))));
    let gaps = |row: &Row| row.gaps.iter().map(|gap| format!("{:?}", seconds(*gap))).collect::<Vec<_>>().join(", ");
    list(&mut out, "itls", rows.iter().map(|row| format!("[{}]", gaps(row))));
    list(&mut out, "latencies", rows.iter().map(|row| format!("{:?}", seconds(row.latency))));
    list(&mut out, "start_times", rows.iter().map(|row| format!("{:?}", seconds(CLOCK_START + row.sent))));
    list(&mut out, "queue_times", rows.iter().map(|_| format!("{:?}", random.between(8.0, 24.0).floor() / UNITS_PER_S)));
    list(&mut out, "errors", rows.iter().map(|_| "\"\"".to_owned()));
    summary(&mut out, &rows);
    out.push_str("}\n");
    out
}

fn rows(run: &Run) -> Vec<Row> {
    run.window()
        .iter()
        .map(|request| {
            let seen = |step: usize| (run.steps[step].end_us + TO_CLIENT_US) / 10;
            let sent = (request.sent_us - WINDOW_US) / 10;
            let (first, last) = (request.first_step, request.last_step());
            Row {
                sent,
                first: seen(first) - sent - WINDOW_US / 10,
                latency: seen(last) - sent - WINDOW_US / 10,
                gaps: (first + 1..=last).map(|step| seen(step) - seen(step - 1)).collect(),
                prompt_tokens: request.prompt_tokens,
            }
        })
        .collect()
}

fn list(out: &mut String, name: &str, values: impl Iterator<Item = String>) {
    let _ = write!(out, ", \"{name}\": [{}]", values.collect::<Vec<_>>().join(", "));
}

/// Peaks per second, then mean, median, deviation and percentiles of each latency.
fn summary(out: &mut String, rows: &[Row]) {
    let end = rows.iter().map(|row| row.sent + row.latency).max().unwrap_or(0) / 100_000 + 1;
    let (mut tokens, mut in_flight) = (vec![0u32; end as usize], vec![0u32; end as usize]);
    for row in rows {
        let mut at = row.sent + row.first;
        tokens[(at / 100_000) as usize] += 1;
        for gap in &row.gaps {
            at += gap;
            tokens[(at / 100_000) as usize] += 1;
        }
        for second in row.sent / 100_000..=(row.sent + row.latency) / 100_000 {
            in_flight[second as usize] += 1;
        }
    }
    let most = |counts: &[u32]| counts.iter().copied().max().unwrap_or(0);
    let _ = write!(
        out,
        ", \"max_output_tokens_per_s\": {:?}, \"max_concurrent_requests\": {}, \"rtfx\": 0.0",
        f64::from(most(&tokens)),
        most(&in_flight)
    );
    let ms = |units: f64| units / 100.0;
    statistics(out, "ttft", rows.iter().map(|row| ms(row.first as f64)).collect());
    statistics(out, "tpot", rows.iter().map(|row| ms((row.latency - row.first) as f64 / row.gaps.len() as f64)).collect());
    statistics(out, "itl", rows.iter().flat_map(|row| row.gaps.iter().map(|gap| ms(*gap as f64))).collect());
    statistics(out, "e2el", rows.iter().map(|row| ms(row.latency as f64)).collect());
}

fn statistics(out: &mut String, name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    // Linear between ranks.
    let percentile = |p: f64| {
        let rank = p / 100.0 * (values.len() - 1) as f64;
        let (low, above) = (rank.floor() as usize, rank.fract());
        values[low] + above * (values[(low + 1).min(values.len() - 1)] - values[low])
    };
    let _ = write!(out, ", \"mean_{name}_ms\": {mean:?}, \"median_{name}_ms\": {:?}, \"std_{name}_ms\": {deviation:?}", percentile(50.0));
    for p in [50, 90, 95, 99] {
        let _ = write!(out, ", \"p{p}_{name}_ms\": {:?}", percentile(f64::from(p)));
    }
}
