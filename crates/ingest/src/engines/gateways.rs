//! What stands in front of engines and exports metrics: Dynamo's frontend, the inference gateway's endpoint picker, Envoy,
//! LiteLLM, SGLang's router. They are told as `config.gateway` and never are the subject: the engine is behind them.
//!
//! Traps: Dynamo's `queued_requests` holds requests until their first token, so it is first tokens awaited and not a
//! queue; its `kv_hit_rate` is what the router predicts; counters of Envoy clusters split by cluster; milliseconds in
//! Envoy and Dynamo's tokenizer metric; names of older releases (`inference_model_*`) stand beside today's
//! (`inference_objective_*`).

use crate::engines::Engine;
use crate::engines::metric::{Metric, SeriesLabels, label};

/// Dynamo's frontend and router.
pub(crate) const DYNAMO_FRONTEND: Engine = Engine::gateway("dynamo", &["dynamo_frontend_", "nv_llm_http_service_"], DYNAMO);
/// Dynamo's view of a worker.
pub(crate) const DYNAMO_COMPONENT: Engine = {
    let mut engine = Engine::gateway("dynamo", &["dynamo_component_", "dynamo_request_plane_", "dynamo_work_handler_"], DYNAMO_WORKER);
    engine.core_label = "dp_rank";
    engine
};
/// The endpoint picker of the Gateway API inference extension and llm-d.
pub(crate) const INFERENCE_GATEWAY: Engine = Engine::gateway("inference-gateway", &["inference_"], INFERENCE);
/// Envoy's own counters and histograms.
pub(crate) const ENVOY: Engine = Engine::gateway("envoy", &["envoy_"], ENVOY_METRICS);
/// Envoy AI Gateway, through OpenTelemetry's names.
pub(crate) const ENVOY_AI: Engine = Engine::gateway("envoy-ai-gateway", &["gen_ai_"], GEN_AI);
/// LiteLLM's proxy.
pub(crate) const LITELLM: Engine = Engine::gateway("litellm", &["litellm_"], LITELLM_METRICS);
/// SGLang's router.
pub(crate) const SGLANG_ROUTER: Engine = Engine::gateway("sglang-router", &["sgl_router_", "smg_"], ROUTER);

const DYNAMO: &[Metric] = &[
    Metric::gauge("inflight_requests", "gateway.in_flight"),
    Metric::gauge("queued_requests", "gateway.in_flight").tags(&[("phase", "prefill")]),
    Metric::gauge("router_queue_pending_requests", "gateway.in_flight").tags(&[("reason", "router")]),
    Metric::counter("requests", "gateway.requests").labels(&[("status", "finish")]),
    Metric::histogram("time_to_first_token_seconds", "gateway.ttft"),
    Metric::histogram("inter_token_latency_seconds", "gateway.itl"),
    Metric::histogram("request_duration_seconds", "gateway.e2e"),
    Metric::histogram("input_sequence_tokens", "server.prompt_tokens"),
    Metric::histogram("cached_tokens", "server.cached_tokens"),
    Metric::histogram("output_sequence_tokens", "server.output_tokens"),
    Metric::histogram("tokenizer_latency_ms", "server.tokenize_time").scale(1e-3),
    Metric::gauge("model_total_kv_blocks", "kv.capacity_blocks").max(),
    Metric::gauge("model_kv_cache_block_size", "kv.block_size").max(),
];

const DYNAMO_WORKER: &[Metric] = &[
    Metric::gauge("kvstats_gpu_cache_usage_percent", "kv.usage").max(),
    Metric::gauge("kvstats_total_blocks", "kv.capacity_blocks"),
    Metric::gauge("inflight_requests", "server.in_flight"),
    Metric::histogram("request_duration_seconds", "gateway.time").tags(&[("part", "worker")]),
    Metric::histogram("network_transit_seconds", "gateway.time").tags(&[("part", "network")]),
];

const INFERENCE: &[Metric] = &[
    Metric::counter("objective_request", "gateway.requests"),
    Metric::counter("model_request", "gateway.requests").fallback(),
    Metric::counter("objective_request_error", "gateway.errors").labels(&[("error_code", "reason")]),
    Metric::counter("model_request_error", "gateway.errors").labels(&[("error_code", "reason")]).fallback(),
    Metric::histogram("objective_request_duration_seconds", "gateway.e2e"),
    Metric::histogram("model_request_duration_seconds", "gateway.e2e").fallback(),
    Metric::histogram("model_request_ttft_seconds", "gateway.ttft"),
    Metric::histogram("model_request_tpot_seconds", "gateway.itl"),
    Metric::histogram("objective_request_sizes", "gateway.body_bytes"),
    Metric::histogram("model_request_sizes", "gateway.body_bytes").fallback(),
    Metric::gauge("objective_running_requests", "gateway.in_flight"),
    Metric::gauge("model_running_requests", "gateway.in_flight").fallback(),
    Metric::histogram("extension_scheduler_e2e_duration_seconds", "gateway.time").tags(&[("part", "director")]),
    Metric::histogram("extension_plugin_duration_seconds", "gateway.time").tags(&[("part", "plugins")]),
    Metric::histogram("extension_flow_control_request_enqueue_duration_seconds", "gateway.queue_time"),
    Metric::histogram("extension_flow_control_request_queue_duration_seconds", "gateway.queue_time"),
    Metric::gauge("pool_average_kv_cache_utilization", "kv.usage.mean").max(),
    Metric::gauge("pool_average_queue_size", "engine.waiting.mean").max(),
    Metric::gauge("pool_average_running_requests", "engine.running.mean").max(),
];

fn is_upstream(labels: &SeriesLabels) -> bool {
    !label(labels, "envoy_cluster_name").starts_with("xds")
}

const ENVOY_METRICS: &[Metric] = &[
    Metric::histogram("http_downstream_rq_time", "gateway.e2e").scale(1e-3),
    Metric::histogram("cluster_upstream_rq_time", "gateway.time").only(is_upstream).scale(1e-3).tags(&[("part", "upstream")]),
    Metric::histogram("cluster_upstream_cx_connect_ms", "gateway.upstream_setup_time").only(is_upstream).scale(1e-3),
    Metric::gauge("http_downstream_rq_active", "gateway.in_flight"),
    Metric::gauge("cluster_upstream_rq_pending_active", "gateway.in_flight").only(is_upstream).tags(&[("reason", "pending")]),
    Metric::counter("cluster_upstream_rq_retry", "gateway.errors").only(is_upstream).tags(&[("reason", "retry")]),
    Metric::counter("cluster_upstream_rq_timeout", "gateway.errors").only(is_upstream).tags(&[("reason", "timeout")]),
    Metric::counter("cluster_upstream_rq_pending_overflow", "gateway.errors").only(is_upstream).tags(&[("reason", "overflow")]),
    Metric::counter("http_downstream_rq", "gateway.requests"),
];

/// OpenTelemetry's names as exporters write them, with and without the unit.
const GEN_AI: &[Metric] = &[
    Metric::histogram("server_request_duration_seconds", "gateway.e2e"),
    Metric::histogram("server_request_duration", "gateway.e2e").fallback(),
    Metric::histogram("server_time_to_first_token_seconds", "gateway.ttft"),
    Metric::histogram("server_time_to_first_token", "gateway.ttft").fallback(),
    Metric::histogram("server_time_per_output_token_seconds", "gateway.itl"),
    Metric::histogram("server_time_per_output_token", "gateway.itl").fallback(),
];

const LITELLM_METRICS: &[Metric] = &[
    Metric::histogram("request_total_latency_metric", "gateway.e2e"),
    Metric::histogram("llm_api_latency_metric", "gateway.time").tags(&[("part", "upstream")]),
    Metric::histogram("llm_api_time_to_first_token_metric", "gateway.ttft"),
    Metric::histogram("overhead_latency_metric", "gateway.overhead"),
    Metric::histogram("request_queue_time_seconds", "gateway.queue_time"),
    Metric::gauge("in_flight_requests", "gateway.in_flight"),
    Metric::counter("proxy_total_requests_metric", "gateway.requests"),
    Metric::counter("proxy_failed_requests_metric", "gateway.errors"),
];

const ROUTER: &[Metric] = &[
    Metric::counter("requests", "gateway.requests"),
    Metric::histogram("request_duration_seconds", "gateway.e2e"),
    Metric::counter("request_errors", "gateway.errors"),
    Metric::gauge("running_requests", "gateway.in_flight"),
];
