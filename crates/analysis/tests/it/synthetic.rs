//! A synthetic capture: one engine scraped once a second under a steady open loop, with faults of chosen size.

use capture::{Capture, Histogram, Request, Sample, Setting, Source, SourceIdx};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_796_000_000 * SECOND;

/// What to inject. Times are per request, s.
#[derive(Clone, Debug)]
pub(crate) struct Synthetic {
    pub(crate) seconds: i64,
    /// Spacing of client rows; the engine itself is always busy.
    pub(crate) arrivals_per_s: f64,
    pub(crate) seats: f64,
    pub(crate) running: f64,
    /// Law of the server: a, b, c.
    pub(crate) law: (f64, f64, f64),
    pub(crate) prompt: f64,
    pub(crate) output: f64,
    /// Queue wait while seats are taken.
    pub(crate) seat_wait_s: f64,
    /// Queue wait while KV is full and requests are preempted.
    pub(crate) kv_wait_s: f64,
    /// Held by a proxy before the first piece.
    pub(crate) held_s: f64,
    /// Stretches all times.
    pub(crate) scale: f64,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            seconds: 120,
            arrivals_per_s: 6.0,
            seats: 16.0,
            running: 10.0,
            law: (0.008, 0.0002, 0.0),
            prompt: 200.0,
            output: 100.0,
            seat_wait_s: 0.0,
            kv_wait_s: 0.0,
            held_s: 0.0,
            scale: 1.0,
        }
    }
}

impl Synthetic {
    pub(crate) fn decode_s(&self) -> f64 {
        self.scale * (self.output - 1.0) * (self.law.0 + self.law.1 * self.running)
    }

    pub(crate) fn prefill_s(&self) -> f64 {
        self.scale * (self.law.0 + self.law.1 * self.running + self.law.2 * self.prompt)
    }

    pub(crate) fn queue_s(&self) -> f64 {
        self.scale * (self.seat_wait_s + self.kv_wait_s)
    }

    pub(crate) fn server_ttft_s(&self) -> f64 {
        self.queue_s() + self.prefill_s() + self.scale * 0.005
    }

    pub(crate) fn build(&self) -> Capture {
        let mut capture = Capture::new();
        capture.manifest.subject.engine = "vllm".into();
        capture.manifest.subject.provenance = "recorded".into();
        let source = capture.add_source(Source { name: "metrics.prom".into(), format: "prometheus_text".into(), ..Source::default() });
        self.add_settings(&mut capture, source);
        for at in 0..=self.seconds {
            self.add_scrape(&mut capture, source, at);
        }
        if self.held_s > 0.0 {
            self.add_rows(&mut capture);
        }
        capture.canonicalize();
        capture
    }

    fn add_settings(&self, capture: &mut Capture, source_idx: SourceIdx) {
        for (key, value) in [("config.max_num_seqs", self.seats), ("config.max_num_batched_tokens", 2048.0)] {
            let row = Setting {
                run_idx: 0,
                replica: capture.intern("0"),
                key: capture.intern(key),
                value: capture.intern(&value.to_string()),
                origin: capture.intern("command line"),
                line: 1,
                source_idx,
            };
            capture.tables.settings.push(row);
        }
    }

    /// Running requests in second `at`: at the seats while seats are the gate, else varying about the mean.
    fn running_at(&self, at: i64) -> f64 {
        if at < self.seconds / 2 && self.seat_wait_s > 0.0 { self.seats } else { (self.running * (0.5 + 0.1 * (at % 11) as f64)).round() }
    }

    /// Steps and finished requests up to second `at`.
    fn served_until(&self, at: i64) -> (f64, f64) {
        let steps = |second: i64| 1.0 / (self.law.0 + self.law.1 * self.running_at(second));
        (0..at).fold((0.0, 0.0), |(done_steps, done), second| {
            (done_steps + steps(second), done + steps(second) * self.running_at(second) / self.output)
        })
    }

    /// First half of the window waits for seats, second half for KV, so that both may be there at once.
    fn add_scrape(&self, capture: &mut Capture, source_idx: SourceIdx, at: i64) {
        let t_ns = START + (at as f64 * self.scale * 1e9) as i64;
        let (steps, done) = self.served_until(at);
        let half = self.seconds / 2;
        let in_first = at < half;
        // Integral of waiting over a half equals the sum of its waits.
        let all = self.served_until(self.seconds).1;
        let waiting = if in_first { self.seat_wait_s } else { self.kv_wait_s } * all / half as f64;
        let kv_bound = !in_first && self.kv_wait_s > 0.0;
        let preempted = if self.kv_wait_s > 0.0 { (at - half).max(0) as f64 } else { 0.0 };
        let gauges = [
            ("engine.running", self.running_at(at)),
            ("engine.waiting", waiting),
            ("kv.usage", if kv_bound { 1.0 } else { 0.3 }),
            ("kv.preemptions", preempted),
            ("kv.capacity", 100_000.0),
            ("kv.block_size", 16.0),
            ("server.output_tokens_total", done * self.output),
            ("server.prompt_tokens_total", done * self.prompt),
            ("server.computed_tokens_total", done * self.prompt),
        ];
        let labels = capture.intern(r#"engine="0",replica="0""#);
        for (signal, value) in gauges {
            let signal = capture.intern(signal);
            capture.tables.samples.push(Sample { t_ns, run_idx: 0, point_idx: -1, signal, labels, value, source_idx });
        }
        let e2e = self.server_ttft_s() + self.decode_s();
        let tpot = self.scale * (self.law.0 + self.law.1 * self.running);
        for (signal, mean) in [
            ("server.e2e", e2e),
            ("server.ttft", self.server_ttft_s()),
            ("server.queue_time", self.queue_s()),
            ("server.prefill_time", self.prefill_s()),
            ("server.decode_time", self.decode_s()),
            ("server.tpot", tpot),
            ("server.itl", tpot),
            ("server.prompt_tokens", self.prompt),
            ("server.output_tokens", self.output),
        ] {
            Self::add_histogram(capture, source_idx, (t_ns, signal, mean * done, done));
        }
        Self::add_histogram(capture, source_idx, (t_ns, "engine.step_tokens", steps * self.running, steps));
    }

    fn add_histogram(capture: &mut Capture, source_idx: SourceIdx, (t_ns, signal, sum, count): (i64, &str, f64, f64)) {
        let row = Histogram {
            t_ns,
            run_idx: 0,
            point_idx: -1,
            signal: capture.intern(signal),
            labels: capture.intern(r#"engine="0",replica="0""#),
            sum,
            count,
            bounds: vec![16.0, f64::INFINITY],
            cumulative: vec![count, count],
            source_idx,
        };
        capture.tables.histograms.push(row);
    }

    /// Client rows and gateway rows of requests whose stream is held for `held_s` and then delivered at once.
    fn add_rows(&self, capture: &mut Capture) {
        let client = capture.add_source(Source { name: "client.jsonl".into(), format: "client_jsonl".into(), ..Source::default() });
        let proxy = capture.add_source(Source { name: "proxy.jsonl".into(), format: "proxy_jsonl".into(), ..Source::default() });
        let count = (self.arrivals_per_s * self.seconds as f64) as i64;
        let ns = |s: f64| (s * 1e9) as i64;
        for at in 0..count {
            let sent = START + at * ns(self.scale / self.arrivals_per_s);
            let first = sent + ns(self.server_ttft_s() + self.scale * self.held_s);
            let done = (sent + ns(self.server_ttft_s() + self.decode_s())).max(first);
            let mut row = empty_request(capture, "client", &at.to_string(), sent, client);
            row.t_first_content_ns = Some(first);
            row.t_done_ns = Some(done);
            row.tokens_in = Some(self.prompt as i64);
            row.tokens_out = Some(self.output as i64);
            capture.tables.requests.push(row);
            let mut row = empty_request(capture, "gateway", &at.to_string(), sent, proxy);
            row.t_upstream_sent_ns = Some(sent);
            row.t_upstream_first_ns = Some(sent + ns(self.server_ttft_s()));
            row.t_first_content_ns = Some(first);
            row.t_done_ns = Some(done);
            capture.tables.requests.push(row);
            for chunk in 1..5u32 {
                let row = capture::Chunk {
                    t_ns: first + i64::from(chunk) * 1000,
                    run_idx: 0,
                    vantage: capture.intern("client"),
                    request_id: capture.intern(&at.to_string()),
                    attempt: 0,
                    chunk_idx: chunk,
                    gap_ns: 1000,
                    source_idx: client,
                };
                capture.tables.chunks.push(row);
            }
        }
    }
}

fn empty_request(capture: &mut Capture, vantage: &str, id: &str, t_sent_ns: i64, source_idx: SourceIdx) -> Request {
    Request {
        t_sent_ns,
        run_idx: 0,
        point_idx: -1,
        vantage: capture.intern(vantage),
        request_id: capture.intern(id),
        attempt: 0,
        status: Some(200),
        source_idx,
        ..Request::default()
    }
}
