//! Metrics of the Python web server and process that vLLM and SGLang share (prometheus-fastapi-instrumentator,
//! prometheus_client).
//!
//! They are about the API process only. `process_cpu_seconds_total` is left out: without the engine core's share it is
//! read as the whole server's.

use crate::engines::metric::{Metric, SeriesLabels, label};

/// Handlers that answer completions.
const HANDLERS: &[&str] = &["/generate", "/invocations", "/v1/messages", "/v1/responses", "/v2/models"];

fn is_completion(labels: &SeriesLabels) -> bool {
    let handler = label(labels, "handler");
    handler.ends_with("/completions") || handler.ends_with("/completions/batch") || HANDLERS.contains(&handler)
}

fn has_no_handler(labels: &SeriesLabels) -> bool {
    label(labels, "handler").is_empty()
}

/// The shared families. The high-resolution histogram has no handler: it counts every path and only stands in.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter("http_requests", "server.http_requests").only(is_completion),
    Metric::histogram("http_request_duration_seconds", "server.http_time").only(is_completion),
    Metric::histogram("http_request_duration_highr_seconds", "server.http_time").only(has_no_handler).fallback(),
    Metric::gauge("process_start_time_seconds", "server.start_time").max(),
];
