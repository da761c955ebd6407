//! A capture as a trace for the Perfetto UI: devices with their streams, processes with their threads, curves of gauges, and
//! the findings of a diagnosis over them.
//!
//! Two forms: protobuf `TrackEvent`s, compact, and Chrome's JSON. Both hold the same slices. What is left out: requests and
//! spans, whose lanes would number thousands, and counters, whose totals say nothing to the eye.

mod chrome_json;
mod curves;
mod findings;
mod lanes;
mod protobuf;
mod rows;
mod sink;
mod trackevent;

use std::io::{self, Write};

use analysis::contract::Report;
use capture::Capture;

use self::chrome_json::ChromeJson;
use self::lanes::Scene;
use self::sink::Sink;
use self::trackevent::TrackEvents;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Protobuf, `.pftrace`.
    TrackEvent,
    /// Chrome's Trace Event Format, `.json`.
    ChromeJson,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Slices.
    pub slice_count: u64,
    /// Values of curves.
    pub value_count: u64,
    /// Lanes and curves.
    pub track_count: u64,
    /// Events left out, since more of them than [`MAX_LANES`] overlap on one stream or thread.
    pub left_out_count: u64,
}

/// Lanes that one stream or thread may take where its events overlap without being nested.
pub const MAX_LANES: usize = 16;

/// First second of the year 2000: times before it are no wall time.
const FIRST_WALL_NS: i64 = 946_684_800_000_000_000;

/// Writes the trace of `capture`, with the findings of `report` over it.
pub fn write(capture: &Capture, report: &Report, form: Form, out: &mut dyn Write) -> io::Result<Written> {
    let (first_ns, last_ns) = span(capture).unwrap_or((0, 0));
    let wall_ns = u64::try_from(first_ns).ok().filter(|_| first_ns >= FIRST_WALL_NS);
    let origin_ns = first_ns.min(0);
    match form {
        Form::TrackEvent => fill(Scene::new(TrackEvents::start(out, wall_ns)?, origin_ns), capture, report, (first_ns, last_ns)),
        Form::ChromeJson => fill(Scene::new(ChromeJson::start(out)?, origin_ns), capture, report, (first_ns, last_ns)),
    }
}

fn fill<S: Sink>(mut scene: Scene<S>, capture: &Capture, report: &Report, (first_ns, last_ns): (i64, i64)) -> io::Result<Written> {
    rows::reserve_processes(capture, &mut scene);
    findings::write(report, first_ns, last_ns, &mut scene)?;
    rows::write_steps(capture, &mut scene)?;
    rows::write_device_events(capture, &mut scene)?;
    rows::write_host_events(capture, &mut scene)?;
    curves::write(capture, &mut scene)?;
    scene.finish()
}

/// First and last time of what is drawn; times of 0 are unknown where others are wall time.
fn span(capture: &Capture) -> Option<(i64, i64)> {
    let tables = &capture.tables;
    let starts = [&tables.device_events.t_start_ns, &tables.host_events.t_start_ns, &tables.steps.t_start_ns, &tables.samples.t_ns];
    let ends = [&tables.device_events.t_end_ns, &tables.host_events.t_end_ns, &tables.steps.t_end_ns, &tables.samples.t_ns];
    // Typed figures have no time: they stand at 0. Where there are events, curves do not widen the window.
    let has_events = starts[..3].iter().any(|column| !column.is_empty());
    let counts = if has_events { 3 } else { 4 };
    let fold = |columns: &[&Vec<i64>], pick: fn(i64, i64) -> i64| {
        let times = columns.iter().take(counts).flat_map(|column| column.iter().copied());
        times.filter(|t_ns| has_events || *t_ns != 0).reduce(pick)
    };
    Some((fold(&starts, i64::min)?, fold(&ends, i64::max)?))
}
