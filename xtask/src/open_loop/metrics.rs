//! `/metrics` as vLLM 0.33 exposes it, scraped once a second into one text.
//!
//! Families that no analysis reads, `# HELP` lines and `_created` twins are left out, to keep the case small.

use std::fmt::Write as _;

use super::random::Random;
use super::{BLOCKS, LOAD_BEGINS_EPOCH_S, MODEL, PROCESS_START_EPOCH, Run, TO_FRONTEND_US, WINDOW_S, WINDOW_US};

const TTFT_S: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0];
const GAP_S: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST_S: &[f64] =
    &[0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0];
const TOKENS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];
const STEP_TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const HTTP_S: &[f64] = &[0.1, 0.5, 1.0];

/// A histogram whose sum is kept in integers, so that it prints as short as its samples.
struct Histogram {
    family: &'static str,
    bounds: &'static [f64],
    /// Sum units per printed unit: 1e6 for seconds, 1 for tokens.
    scale: f64,
    counts: Vec<u64>,
    sum: u64,
}

impl Histogram {
    fn seconds(family: &'static str, bounds: &'static [f64]) -> Self {
        Self { family, bounds, scale: 1e6, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    fn tokens(family: &'static str, bounds: &'static [f64]) -> Self {
        Self { family, bounds, scale: 1.0, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    fn observe(&mut self, value: u64, times: u64) {
        let bucket = self.bounds.iter().position(|bound| value as f64 / self.scale <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += times;
        self.sum += value * times;
    }

    /// `before` and `after` are the labels around `le`, in alphabetical order.
    fn print(&self, out: &mut String, before: &str, after: &str) {
        let family = self.family;
        let labels = |le: &str| format!("{{{before}le=\"{le}\"{after}}}");
        let plain = format!("{before}{}", after.trim_start_matches(','));
        let plain = plain.trim_end_matches(',');
        let _ = writeln!(out, "# TYPE {family} histogram");
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            let le = self.bounds.get(at).map_or("+Inf".to_owned(), |bound| number(*bound));
            let _ = writeln!(out, "{family}_bucket{} {}", labels(&le), number(seen as f64));
        }
        let _ = writeln!(out, "{family}_count{{{plain}}} {}", number(seen as f64));
        let _ = writeln!(out, "{family}_sum{{{plain}}} {}", number(self.sum as f64 / self.scale));
    }
}

/// A float as the Python client prints it: shortest digits, an exponent from 1e7 on.
fn number(value: f64) -> String {
    let text = format!("{value:?}");
    match text.find('.') {
        Some(point) if point > 6 => {
            let digits = format!("{}.{}{}", &text[..1], &text[1..point], &text[point + 1..]);
            format!("{}e+0{}", digits.trim_end_matches(['0', '.']), point - 1)
        }
        _ => text,
    }
}

/// Counters and gauges after some step.
struct Exporter<'a> {
    run: &'a Run,
    first_token: Histogram,
    gap: Histogram,
    per_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_size: Histogram,
    output_size: Histogram,
    step_size: Histogram,
    http: Histogram,
    prompt_tokens: u64,
    output_tokens: u64,
    finished: u64,
}

/// All scrapes of the window.
pub(crate) fn scrapes(run: &Run) -> String {
    let mut exporter = Exporter::new(run);
    let mut random = Random::new(41);
    let mut out = String::from("# inferoscope: simulated\n");
    // Requests by the step that gives their first and their last token.
    let (mut first, mut last) = (vec![Vec::new(); run.steps.len()], vec![Vec::new(); run.steps.len()]);
    for (at, request) in run.requests.iter().enumerate() {
        first[request.first_step].push(at);
        last[request.last_step()].push(at);
    }
    let mut next_step = 0;
    for scrape in 0..WINDOW_S {
        let at_us = WINDOW_US + scrape * 1_000_000 + 250_000;
        while next_step < run.steps.len() && run.steps[next_step].end_us + TO_FRONTEND_US <= at_us {
            exporter.record(next_step, &first[next_step], &last[next_step]);
            next_step += 1;
        }
        let ts = LOAD_BEGINS_EPOCH_S + at_us / 1_000_000;
        let _ = writeln!(out, "# SCRAPE ts={ts}.250 dur=0.{:03}", random.between(9.0, 14.0) as u32);
        exporter.print(&mut out, next_step - 1);
    }
    out
}

impl<'a> Exporter<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            run,
            first_token: Histogram::seconds("vllm:time_to_first_token_seconds", TTFT_S),
            gap: Histogram::seconds("vllm:inter_token_latency_seconds", GAP_S),
            per_token: Histogram::seconds("vllm:request_time_per_output_token_seconds", GAP_S),
            e2e: Histogram::seconds("vllm:e2e_request_latency_seconds", REQUEST_S),
            queue: Histogram::seconds("vllm:request_queue_time_seconds", REQUEST_S),
            prefill: Histogram::seconds("vllm:request_prefill_time_seconds", REQUEST_S),
            decode: Histogram::seconds("vllm:request_decode_time_seconds", REQUEST_S),
            prompt_size: Histogram::tokens("vllm:request_prompt_tokens", TOKENS),
            output_size: Histogram::tokens("vllm:request_generation_tokens", TOKENS),
            step_size: Histogram::tokens("vllm:iteration_tokens_total", STEP_TOKENS),
            http: Histogram::seconds("http_request_duration_seconds", HTTP_S),
            prompt_tokens: 0,
            output_tokens: 0,
            finished: 0,
        }
    }

    /// Takes in the outputs of one step.
    fn record(&mut self, at: usize, first: &[usize], last: &[usize]) {
        let step = self.run.steps[at];
        self.prompt_tokens += u64::from(step.completed_prompt_tokens);
        self.output_tokens += u64::from(step.output_tokens);
        self.step_size.observe(u64::from(step.completed_prompt_tokens + step.output_tokens), 1);
        let later = u64::from(step.output_tokens) - first.len() as u64;
        if later > 0 {
            self.gap.observe(step.end_us - self.run.steps[at - 1].end_us, later);
        }
        for &request in first {
            self.first_token.observe(step.end_us + TO_FRONTEND_US - self.run.requests[request].arrived_us, 1);
        }
        for &request in last {
            self.finish(request);
        }
    }

    fn finish(&mut self, at: usize) {
        let request = &self.run.requests[at];
        let (first_us, last_us) = (self.run.steps[request.first_step].end_us, self.run.steps[request.last_step()].end_us);
        let e2e_us = last_us + TO_FRONTEND_US - request.arrived_us;
        self.finished += 1;
        self.e2e.observe(e2e_us, 1);
        self.queue.observe(request.scheduled_us - request.queued_us, 1);
        self.prefill.observe(first_us - request.scheduled_us, 1);
        self.decode.observe(last_us - first_us, 1);
        self.per_token.observe((last_us - first_us) / u64::from(request.output_tokens - 1), 1);
        self.prompt_size.observe(u64::from(request.prompt_tokens), 1);
        self.output_size.observe(u64::from(request.output_tokens), 1);
        // The web server counts from a little earlier to a little later.
        self.http.observe(e2e_us + 3400, 1);
    }

    fn print(&self, out: &mut String, at: usize) {
        let step = self.run.steps[at];
        let own = format!("engine=\"0\",model_name=\"{MODEL}\"");
        let family = |out: &mut String, name: &str, kind: &str, rows: &[(&str, f64)]| {
            let _ = writeln!(out, "# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(out, "{name}{{{labels}}} {}", number(*value));
            }
        };
        let with = |label: &str, value: &str| format!("engine=\"0\",model_name=\"{MODEL}\",{label}=\"{value}\"");
        let _ = writeln!(out, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {PROCESS_START_EPOCH}");
        family(out, "vllm:num_requests_running", "gauge", &[(&own, f64::from(step.running))]);
        family(out, "vllm:num_requests_waiting", "gauge", &[(&own, f64::from(step.waiting))]);
        let waiting = [(with("reason", "capacity"), f64::from(step.waiting)), (with("reason", "deferred"), 0.0)];
        family(out, "vllm:num_requests_waiting_by_reason", "gauge", &waiting.each_ref().map(|(labels, value)| (labels.as_str(), *value)));
        let used = f64::from(step.kv_blocks) / f64::from(BLOCKS - 1);
        family(out, "vllm:kv_cache_usage_perc", "gauge", &[(&own, used)]);
        let (prompt, output) = (self.prompt_tokens as f64, self.output_tokens as f64);
        family(out, "vllm:prefix_cache_queries_total", "counter", &[(&own, prompt)]);
        family(out, "vllm:prefix_cache_hits_total", "counter", &[(&own, 0.0)]);
        family(out, "vllm:num_preemptions_total", "counter", &[(&own, 0.0)]);
        family(out, "vllm:prompt_tokens_total", "counter", &[(&own, prompt)]);
        let sources = ["local_compute", "local_cache_hit", "external_kv_transfer"].map(|source| with("source", source));
        family(out, "vllm:prompt_tokens_by_source_total", "counter", &[(&sources[0], prompt), (&sources[1], 0.0), (&sources[2], 0.0)]);
        family(out, "vllm:prompt_tokens_cached_total", "counter", &[(&own, 0.0)]);
        family(out, "vllm:generation_tokens_total", "counter", &[(&own, output)]);
        let reasons = ["stop", "length", "abort", "error", "repetition"]
            .map(|reason| format!("engine=\"0\",finished_reason=\"{reason}\",model_name=\"{MODEL}\""));
        let finished = |reason: usize| if reason == 1 { self.finished as f64 } else { 0.0 };
        let rows: Vec<(&str, f64)> = reasons.iter().enumerate().map(|(at, labels)| (labels.as_str(), finished(at))).collect();
        family(out, "vllm:request_success_total", "counter", &rows);
        let after = format!(",model_name=\"{MODEL}\"");
        for histogram in self.engine_histograms() {
            histogram.print(out, "engine=\"0\",", &after);
        }
        let _ = writeln!(out, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{}}} 1.0", cache_config());
        let http = "handler=\"/v1/completions\",method=\"POST\",status=\"2xx\"";
        family(out, "http_requests_total", "counter", &[(http, self.finished as f64)]);
        self.http.print(out, "handler=\"/v1/completions\",", ",method=\"POST\"");
    }

    fn engine_histograms(&self) -> [&Histogram; 10] {
        [
            &self.prompt_size,
            &self.output_size,
            &self.step_size,
            &self.first_token,
            &self.gap,
            &self.per_token,
            &self.e2e,
            &self.queue,
            &self.prefill,
            &self.decode,
        ]
    }
}

fn cache_config() -> String {
    let tokens = BLOCKS * 16;
    let concurrency = number(f64::from(tokens) / 8192.0);
    let bytes = u64::from(tokens) * 131_072;
    format!(
        "_block_size_resolved=\"True\",block_size=\"16\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",\
         gpu_memory_utilization=\"0.8\",is_attention_free=\"False\",kv_cache_max_concurrency=\"{concurrency}\",\
         kv_cache_memory_bytes=\"{bytes}\",kv_cache_size_tokens=\"{tokens}\",num_cpu_blocks=\"None\",num_gpu_blocks=\"{BLOCKS}\",\
         num_gpu_blocks_override=\"None\",prefix_caching_hash_algo=\"sha256\",sliding_window=\"None\",\
         user_specified_block_size=\"False\""
    )
}
