//! The same rows, read another way: serde_json holds the document, times are text added up digit by digit.

use std::collections::BTreeMap;

use capture::Capture;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "baseTimeNanoseconds")]
    base_ns: Option<i64>,
    #[serde(borrow, rename = "traceEvents")]
    events: Vec<Event<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    ph: Option<String>,
    cat: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
    #[serde(borrow)]
    dur: Option<&'a RawValue>,
    pid: Option<Value>,
    tid: Option<Value>,
    args: Option<BTreeMap<String, Value>>,
}

/// A row as text: kind, name, times, place, correlation, bytes.
type Row = String;

/// Microseconds with up to three decimals.
fn ns(text: &str) -> i64 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{decimals:0<3}").parse().unwrap()
}

fn integer(value: Option<&Value>) -> Option<i64> {
    value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()))
}

/// The rows that a trace should give.
pub(super) fn rows(text: &str) -> Vec<Row> {
    let document = if text.trim_start().starts_with('[') {
        Document { base_ns: None, events: serde_json::from_str(text).unwrap() }
    } else {
        serde_json::from_str(text).unwrap()
    };
    let base = document.base_ns.unwrap_or(0);
    let mut rows: Vec<Row> = document.events.iter().filter_map(|event| row(event, base)).collect();
    rows.sort();
    rows
}

fn row(event: &Event<'_>, base: i64) -> Option<Row> {
    if event.ph.as_deref() != Some("X") {
        return None;
    }
    let name = event.name.clone().unwrap_or_default();
    let argument = |key: &str| event.args.as_ref().and_then(|args| args.get(key));
    let kind = match event.cat.as_deref()? {
        "kernel" | "Kernel" => "kernel",
        "gpu_memcpy" => "memcpy",
        "gpu_memset" => "memset",
        "cuda_runtime" | "Runtime" => "runtime",
        "cuda_driver" => "driver",
        "cuda_sync" => "sync",
        "user_annotation" => "annotation",
        "cpu_op" if name.starts_with("ProfilerStep#") => "annotation",
        "gpu_user_annotation" => "device_annotation",
        "cpu_op" => "op",
        "python_function" => "frame",
        "overhead" => "overhead",
        _ => return None,
    };
    let is_device = ["kernel", "memcpy", "memset"].contains(&kind);
    let start = ns(event.ts?.get()) + base;
    let end = start + ns(event.dur?.get());
    let name = match kind {
        "memcpy" => name.trim_start_matches("Memcpy ").replacen('(', "", 1).trim_end_matches(')').to_string(),
        "frame" | "op" => name.split(" at 0x").next()?.to_string(),
        "sync" => argument("cuda_sync_kind").and_then(Value::as_str).map_or(name, str::to_string),
        _ => name,
    };
    let number = |key: &str, or: Option<&Value>| integer(argument(key)).or_else(|| integer(or));
    let has_correlation = !["annotation", "device_annotation", "frame", "op", "overhead"].contains(&kind);
    let correlation = if has_correlation { integer(argument("correlation")).unwrap_or(0).max(0) } else { 0 };
    let place = if is_device {
        let device = number("device", event.pid.as_ref())?;
        let stream = number("stream", event.tid.as_ref())?;
        format!("{} {}", device as u32, stream as u32)
    } else {
        format!("{}", integer(event.tid.as_ref())? as u32)
    };
    let bytes = if is_device { integer(argument("bytes")).unwrap_or(0) } else { 0 };
    Some(format!("{kind} {start} {end} {place} {correlation} {bytes} {name}"))
}

/// The rows that a capture has.
pub(super) fn rows_of(capture: &Capture) -> Vec<Row> {
    let device = capture.tables.device_events.rows().map(|row| {
        let (kind, name) = (capture.text(row.kind), capture.text(row.name));
        let place = format!("{} {}", row.device, row.stream);
        format!("{kind} {} {} {place} {} {} {name}", row.t_start_ns, row.t_end_ns, row.correlation, row.byte_count)
    });
    let host = capture.tables.host_events.rows().map(|row| {
        let (kind, name) = (capture.text(row.kind), capture.text(row.name));
        format!("{kind} {} {} {} {} 0 {name}", row.t_start_ns, row.t_end_ns, row.thread, row.correlation)
    });
    let mut rows: Vec<Row> = device.chain(host).collect();
    rows.sort();
    rows
}
