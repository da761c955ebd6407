//! Traces made up by proptest, written in the layouts that real writers use.

use proptest::prelude::*;
use serde_json::{Value, json};

/// A trace: its events, and whether times are relative.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    events: Vec<Vec<(String, String)>>,
    has_base: bool,
}

/// How it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// `None` for one line.
    indent: Option<usize>,
    /// Kineto's own: head of an event on one line, arguments on one.
    is_kineto: bool,
    is_bare: bool,
    events_first: bool,
    sorted_keys: bool,
    blank_lines: bool,
}

pub(super) fn any_layout() -> impl Strategy<Value = Layout> {
    let indent = prop_oneof![Just(None), (0usize..5).prop_map(Some)];
    (indent, any::<bool>(), prop::bool::weighted(0.2), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(indent, is_kineto, is_bare, events_first, sorted_keys, blank_lines)| Layout {
            indent,
            is_kineto,
            is_bare,
            events_first,
            sorted_keys,
            blank_lines,
        },
    )
}

/// Names as bad as they come, valid JSON still.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z_:<>(), 0-9]{1,40}",
        Just("quote \" backslash \\ slash / tab \t end\\".to_string()),
        Just("looks like the end},\n  {\n    \"ph\": \"X\"".to_string()),
        Just("\u{e9}\u{4e2d}\u{1f600}\u{1}".to_string()),
        Just("ProfilerStep#3".to_string()),
        Just("<built-in method item of Tensor object at 0x7f00>".to_string()),
    ]
}

fn any_event() -> impl Strategy<Value = Vec<(String, String)>> {
    let cats = prop::sample::select(vec![
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "cuda_runtime",
        "cuda_driver",
        "cuda_sync",
        "user_annotation",
        "gpu_user_annotation",
        "cpu_op",
        "cpu_op",
        "python_function",
        "python_function",
        "python_function",
        "overhead",
        "ac2g",
        "Trace",
        "cpu_instant_event",
    ]);
    // Around now in microseconds, so that an `f64` would lose the nanoseconds.
    let ts = 1_700_000_000_000_000u64..1_700_000_100_000_000;
    let duration = prop_oneof![0u64..2_000, 0u64..100_000_000];
    (cats, any_name(), ts, 0u32..1_000, duration, -1i64..200, 0u32..4_000_000_000, any::<[bool; 4]>()).prop_map(
        |(cat, name, ts, decimals, dur_ns, stream, correlation, [has_decimals, has_args, has_nested, as_text])| {
            let name = if cat == "gpu_memcpy" { "Memcpy HtoD (Pageable -> Device)".to_string() } else { name };
            let ph = match cat {
                "ac2g" => "s",
                "cpu_instant_event" => "i",
                _ => "X",
            };
            let ts = if has_decimals { format!("{ts}.{decimals:03}") } else { ts.to_string() };
            let mut event = vec![
                ("ph".to_string(), json!(ph).to_string()),
                ("cat".to_string(), json!(cat).to_string()),
                ("name".to_string(), json!(name).to_string()),
                ("pid".to_string(), if as_text { json!("7") } else { json!(7) }.to_string()),
                ("tid".to_string(), json!(stream).to_string()),
                ("ts".to_string(), ts),
            ];
            if ph == "X" {
                event.push(("dur".to_string(), format!("{}.{:03}", dur_ns / 1_000, dur_ns % 1_000)));
            }
            if has_args {
                event.push(("args".to_string(), args(has_nested, as_text, stream, correlation, dur_ns).to_string()));
            }
            event
        },
    )
}

fn args(has_nested: bool, as_text: bool, stream: i64, correlation: u32, bytes: u64) -> Value {
    let mut args =
        json!({ "External id": 12, "correlation": correlation, "stream": stream, "device": 3, "bytes": bytes, "grid": [1, 2, 3] });
    if as_text {
        args["stream"] = json!(stream.to_string());
    }
    if has_nested {
        args["Input Dims"] = json!([[1, 2], [], [[3]]]);
        args["kernels"] = json!([{ "name": "a", "x": 1 }, { "name": "}, {\"ph\"" }, {}]);
    }
    args
}

pub(super) fn any_trace() -> impl Strategy<Value = Trace> {
    (prop::collection::vec(any_event(), 0..40), any::<bool>()).prop_map(|(events, has_base)| Trace { events, has_base })
}

/// The text of a trace.
pub(super) fn text(trace: &Trace, layout: Layout) -> String {
    let events: Vec<String> = trace.events.iter().map(|event| event_text(event, layout)).collect();
    let (open, close) = match layout.indent {
        Some(indent) => (format!("\n{}", " ".repeat(indent)), "\n".to_string()),
        None => (String::new(), String::new()),
    };
    let separator = if layout.indent.is_some() { format!(",{open}") } else { ", ".to_string() };
    let list = format!("[{open}{}{close}]", events.join(&separator));
    if layout.is_bare {
        return list;
    }
    let base = if trace.has_base { "\"baseTimeNanoseconds\": 1000000000000, " } else { "" };
    let about = format!("\"schemaVersion\": 1, \"own\": {{\"a\": [{{\"ph\": 1}}, {{\"name\": \"x\"}}]}}, {base}\"traceName\": \"t\"");
    if layout.events_first { format!("{{\"traceEvents\": {list}, {about}}}") } else { format!("{{{about}, \"traceEvents\": {list}}}\n") }
}

fn event_text(event: &[(String, String)], layout: Layout) -> String {
    let mut members = event.to_vec();
    if layout.sorted_keys {
        members.sort();
    }
    let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    match layout.indent {
        None => format!("{{{}}}", members.join(", ")),
        Some(indent) => {
            let outer = " ".repeat(indent);
            let inner = " ".repeat(2 * indent);
            let blank = if layout.blank_lines { "\n" } else { "" };
            let separator = if layout.is_kineto { ", ".to_string() } else { format!(",{blank}\n{inner}") };
            format!("{{\n{inner}{}\n{blank}{outer}}}", members.join(&separator))
        }
    }
}
