//! The metrics page, in vLLM's names and buckets, fed by what the simulation did.

use std::fmt::Write as _;

use simulate::online::ReplicaState;

/// Buckets as in vLLM's `v1/metrics/loggers.py`, seconds.
const TTFT_S: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0];
const GAP_S: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const REQUEST_S: &[f64] =
    &[0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0];
const STEP_TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
const REQUEST_TOKENS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100_000.0];

/// A histogram of a family.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Buckets {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(super) fn add(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }
}

/// Counts of one replica since the start, beyond those of [`ReplicaState`].
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) ttft: Buckets,
    pub(super) gap: Buckets,
    pub(super) tpot: Buckets,
    pub(super) e2e: Buckets,
    pub(super) queue: Buckets,
    pub(super) prefill: Buckets,
    pub(super) decode: Buckets,
    pub(super) inference: Buckets,
    pub(super) step_tokens: Buckets,
    pub(super) prompt_length: Buckets,
    pub(super) output_length: Buckets,
    pub(super) finished: u64,
    pub(super) prompt_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) prefix_queries: u64,
    pub(super) prefix_hits: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            ttft: Buckets::new(TTFT_S),
            gap: Buckets::new(GAP_S),
            tpot: Buckets::new(GAP_S),
            e2e: Buckets::new(REQUEST_S),
            queue: Buckets::new(REQUEST_S),
            prefill: Buckets::new(REQUEST_S),
            decode: Buckets::new(REQUEST_S),
            inference: Buckets::new(REQUEST_S),
            step_tokens: Buckets::new(STEP_TOKENS),
            prompt_length: Buckets::new(REQUEST_TOKENS),
            output_length: Buckets::new(REQUEST_TOKENS),
            finished: 0,
            prompt_tokens: 0,
            output_tokens: 0,
            prefix_queries: 0,
            prefix_hits: 0,
        }
    }
}

/// What the page says about the whole.
pub(super) struct About<'a> {
    pub(super) model: &'a str,
    pub(super) start_s: f64,
    pub(super) block_tokens: u32,
    pub(super) has_prefix_caching: bool,
    /// Drafted tokens per sequence and step, 0 without speculation.
    pub(super) depth: u32,
    /// Number format of the KV cache.
    pub(super) kv_dtype: &'a str,
}

/// Writes the page.
pub(super) fn page(about: &About<'_>, replicas: &[(ReplicaState, &Counts)]) -> String {
    let mut page =
        Page { text: String::from("# simulated by inferoscope: timed by a scheduler simulation, no measurement of an engine\n"), about };
    let _ = writeln!(page.text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {:.3}", about.start_s);
    page.numbers("num_requests_running", "gauge", replicas, |(state, _)| state.running as f64);
    page.numbers("num_requests_waiting", "gauge", replicas, |(state, _)| state.waiting as f64);
    // Nothing here defers a request: there are no grammars, adapters or remote caches.
    page.by_label("num_requests_waiting_by_reason", "gauge", replicas, "reason", |(state, _)| {
        [("capacity", state.waiting as f64), ("deferred", 0.0)]
    });
    page.numbers("kv_cache_usage_perc", "gauge", replicas, |(state, _)| {
        f64::from(state.used_blocks) / f64::from(state.total_blocks.max(1))
    });
    page.numbers("num_preemptions_total", "counter", replicas, |(state, _)| state.preemptions as f64);
    page.numbers("prefix_cache_queries_total", "counter", replicas, |(_, counts)| counts.prefix_queries as f64);
    page.numbers("prefix_cache_hits_total", "counter", replicas, |(_, counts)| counts.prefix_hits as f64);
    page.numbers("prompt_tokens_total", "counter", replicas, |(_, counts)| counts.prompt_tokens as f64);
    page.by_label("prompt_tokens_by_source_total", "counter", replicas, "source", |(_, counts)| {
        let hits = counts.prefix_hits.min(counts.prompt_tokens);
        [("local_compute", (counts.prompt_tokens - hits) as f64), ("local_cache_hit", hits as f64)]
    });
    page.numbers("generation_tokens_total", "counter", replicas, |(_, counts)| counts.output_tokens as f64);
    page.finished(replicas);
    if about.depth > 0 {
        page.numbers("spec_decode_num_drafts_total", "counter", replicas, |(state, _)| state.drafts as f64);
        let depth = f64::from(about.depth);
        page.numbers("spec_decode_num_draft_tokens_total", "counter", replicas, |(state, _)| state.drafts as f64 * depth);
        page.numbers("spec_decode_num_accepted_tokens_total", "counter", replicas, |(state, _)| state.accepted_tokens as f64);
    }
    page.buckets("time_to_first_token_seconds", replicas, |counts| &counts.ttft);
    page.buckets("inter_token_latency_seconds", replicas, |counts| &counts.gap);
    page.buckets("time_per_output_token_seconds", replicas, |counts| &counts.gap);
    page.buckets("request_time_per_output_token_seconds", replicas, |counts| &counts.tpot);
    page.buckets("e2e_request_latency_seconds", replicas, |counts| &counts.e2e);
    page.buckets("request_queue_time_seconds", replicas, |counts| &counts.queue);
    page.buckets("request_prefill_time_seconds", replicas, |counts| &counts.prefill);
    page.buckets("request_decode_time_seconds", replicas, |counts| &counts.decode);
    page.buckets("request_inference_time_seconds", replicas, |counts| &counts.inference);
    page.buckets("iteration_tokens_total", replicas, |counts| &counts.step_tokens);
    page.buckets("request_prompt_tokens", replicas, |counts| &counts.prompt_length);
    page.buckets("request_generation_tokens", replicas, |counts| &counts.output_length);
    page.cache_config(replicas);
    page.text
}

struct Page<'a> {
    text: String,
    about: &'a About<'a>,
}

impl Page<'_> {
    fn labels(&self, replica: usize) -> String {
        format!("engine=\"{replica}\",model_name=\"{}\"", self.about.model)
    }

    fn kind(&mut self, name: &str, kind: &str) {
        let family = name.strip_suffix("_total").filter(|_| kind == "counter").unwrap_or(name);
        let _ = writeln!(self.text, "# TYPE vllm:{family} {kind}");
    }

    fn numbers(&mut self, name: &str, kind: &str, replicas: &[(ReplicaState, &Counts)], value: impl Fn(&(ReplicaState, &Counts)) -> f64) {
        self.kind(name, kind);
        for (at, replica) in replicas.iter().enumerate() {
            let labels = self.labels(at);
            let _ = writeln!(self.text, "vllm:{name}{{{labels}}} {}", value(replica));
        }
    }

    fn by_label(
        &mut self,
        name: &str,
        kind: &str,
        replicas: &[(ReplicaState, &Counts)],
        label: &str,
        values: impl Fn(&(ReplicaState, &Counts)) -> [(&'static str, f64); 2],
    ) {
        self.kind(name, kind);
        for (at, replica) in replicas.iter().enumerate() {
            let labels = self.labels(at);
            for (part, value) in values(replica) {
                let _ = writeln!(self.text, "vllm:{name}{{{labels},{label}=\"{part}\"}} {value}");
            }
        }
    }

    fn finished(&mut self, replicas: &[(ReplicaState, &Counts)]) {
        self.kind("request_success_total", "counter");
        for (at, (_, counts)) in replicas.iter().enumerate() {
            let labels = self.labels(at);
            let _ = writeln!(self.text, "vllm:request_success_total{{{labels},finished_reason=\"length\"}} {}", counts.finished);
        }
    }

    fn buckets(&mut self, name: &str, replicas: &[(ReplicaState, &Counts)], of: impl Fn(&Counts) -> &Buckets) {
        self.kind(name, "histogram");
        for (at, (_, counts)) in replicas.iter().enumerate() {
            let (labels, buckets) = (self.labels(at), of(counts));
            let mut sum = 0;
            for (at, count) in buckets.counts.iter().enumerate() {
                sum += count;
                let bound = buckets.bounds.get(at).map_or("+Inf".to_string(), |bound| format!("{bound:?}"));
                let _ = writeln!(self.text, "vllm:{name}_bucket{{{labels},le=\"{bound}\"}} {sum}");
            }
            let _ = writeln!(self.text, "vllm:{name}_count{{{labels}}} {sum}\nvllm:{name}_sum{{{labels}}} {}", buckets.sum);
        }
    }

    fn cache_config(&mut self, replicas: &[(ReplicaState, &Counts)]) {
        self.kind("cache_config_info", "gauge");
        for (at, (state, _)) in replicas.iter().enumerate() {
            let _ = writeln!(
                self.text,
                "vllm:cache_config_info{{engine=\"{at}\",block_size=\"{}\",cache_dtype=\"{}\",enable_prefix_caching=\"{}\",\
                 num_gpu_blocks=\"{}\"}} 1",
                self.about.block_tokens,
                self.about.kv_dtype,
                if self.about.has_prefix_caching { "True" } else { "False" },
                state.total_blocks
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read_as_that_of_vllm() {
        let mut counts = Counts { prompt_tokens: 70, ..Counts::default() };
        counts.ttft.add(0.03);
        counts.ttft.add(9999.0);
        let state = ReplicaState { running: 3, used_blocks: 5, total_blocks: 10, ..ReplicaState::default() };
        let about = About { model: "m", start_s: 1.0, block_tokens: 16, has_prefix_caching: true, depth: 4, kv_dtype: "auto" };
        let body = page(&about, &[(state, &counts), (state, &counts)]);
        assert!(body.starts_with("# simulated"));
        assert!(body.contains("vllm:time_to_first_token_seconds_bucket{engine=\"1\",model_name=\"m\",le=\"0.04\"} 1\n"), "{body}");
        assert!(body.contains("le=\"+Inf\"} 2\n"));
        let head = b"# SCRAPE ts=1796036992.000000000 dur=0.001\n";
        let scrape = [head.as_slice(), body.as_bytes()].concat();
        let scrapes = [ingest::Scrape { t_ns: 1_796_036_992_000_000_000, body: &scrape }];
        let capture = ingest::read_scrapes("simulated", &scrapes, &ingest::Options::default());
        assert_eq!(capture.manifest.subject.engine, "vllm");
        let signals: Vec<&str> = capture.tables.samples.signal.iter().map(|name| capture.text(*name)).collect();
        for wanted in ["engine.running", "kv.usage", "kv.capacity", "server.prompt_tokens_total", "spec.accepted_tokens"] {
            assert!(signals.contains(&wanted), "{wanted} in {signals:?}");
        }
        assert_eq!(
            capture.tables.issues.count.len(),
            0,
            "{:?}",
            capture.tables.issues.rows().map(|row| capture.text(row.sentence).to_string()).collect::<Vec<_>>()
        );
    }
}
