//! Typed values that contradict one another: a part longer than its whole, a percentile above a higher one.
//!
//! Both values are kept, since nothing says which is wrong; the issue names the line.

use capture::Severity;
use capture::signals::STATISTICS;

use super::Reader;

/// Part and whole: of the same requests the first is never longer than the second, in the mean and in every percentile.
const PARTS: &[(&str, &str)] = &[
    ("server.queue_time", "server.ttft"),
    ("server.prefill_time", "server.ttft"),
    ("server.ttft", "server.e2e"),
    ("server.queue_time", "server.e2e"),
    ("server.prefill_time", "server.e2e"),
    ("server.decode_time", "server.e2e"),
    ("server.inference_time", "server.e2e"),
    ("server.prefill_time", "server.inference_time"),
    ("server.decode_time", "server.inference_time"),
    ("client.ttft", "client.e2e"),
];

/// Typed values are rounded; a part may exceed its whole by this much of it.
const ROUNDING: f64 = 0.01;

/// Most values of one run or sweep row that are compared.
const MAX_COMPARED: usize = 1_000;

/// One typed value.
pub(super) struct TypedValue {
    pub(super) signal: String,
    pub(super) statistic: String,
    pub(super) labels: String,
    pub(super) value: f64,
    pub(super) offset: usize,
}

impl TypedValue {
    /// `server.ttft.p99` as signal and statistic.
    pub(super) fn new(name: &str, labels: &str, value: f64, offset: usize) -> Self {
        let (signal, statistic) = match name.rsplit_once('.') {
            Some((signal, statistic)) if STATISTICS.contains(&statistic) => (signal, statistic),
            _ => (name, ""),
        };
        Self { signal: signal.to_string(), statistic: statistic.to_string(), labels: labels.to_string(), value, offset }
    }

    fn name(&self) -> String {
        if self.statistic.is_empty() { self.signal.clone() } else { format!("{}.{}", self.signal, self.statistic) }
    }

    fn percentile(&self) -> Option<u32> {
        self.statistic.strip_prefix('p')?.parse().ok()
    }
}

impl Reader<'_, '_> {
    /// Tells contradictions among the values of one run or sweep row, and forgets them.
    pub(super) fn check_pairs(&mut self) {
        let mut values = std::mem::take(&mut self.typed);
        values.truncate(MAX_COMPARED);
        for small in &values {
            for large in values.iter().filter(|large| large.labels == small.labels) {
                let is_part = PARTS.contains(&(small.signal.as_str(), large.signal.as_str())) && small.statistic == large.statistic;
                let is_lower = small.signal == large.signal && small.percentile().zip(large.percentile()).is_some_and(|(a, b)| a < b);
                if (is_part || is_lower) && small.value > large.value * (1.0 + ROUNDING) {
                    let place = self.place(large.offset.max(small.offset));
                    let sentence = format!(
                        "expected `{}` of at most `{}`, found {} above {}; both are kept, one of them is wrong",
                        small.name(),
                        large.name(),
                        small.value,
                        large.value
                    );
                    self.builder.issue(Severity::Warning, "impossible_pair", &place, 1, sentence);
                }
            }
        }
    }
}
