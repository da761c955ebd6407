//! A capture as analysis reads it: series per engine, typed figures, effective settings, request rows.
//!
//! One [`Evidence`] is one arm (`run_idx`) of one capture. It interprets nothing beyond putting rows side by side.

mod figures;
mod histograms;
mod logs;
mod requests;
mod series;
mod settings;

use std::collections::BTreeMap;

use capture::{Capture, labels};

use crate::device::DeviceView;

pub use figures::{Figure, Figures, Point};
pub use histograms::{HistogramDelta, HistogramSeries};
pub use logs::Logged;
pub use requests::{Gap, RequestRow};
pub use series::Series;
pub use settings::{Setting, Settings};

/// One engine instance: a replica and, under data parallelism, the engine rank inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId {
    /// Replica label.
    pub replica: String,
    /// Engine rank label.
    pub engine: String,
}

impl EngineId {
    /// `0`, or `1/3` for rank 3 of replica 1.
    pub fn text(&self) -> String {
        if self.engine.is_empty() || self.engine == "0" { self.replica.clone() } else { format!("{}/{}", self.replica, self.engine) }
    }
}

/// Series and histograms of one engine instance, by `signal` or `signal{other labels}`.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    series: BTreeMap<String, Series>,
    histograms: BTreeMap<String, HistogramSeries>,
}

impl Engine {
    /// A series by name; extra labels follow in braces: `engine.waiting{reason="deferred"}`.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.get(name)
    }

    /// All series with their names, labels included, in name order.
    pub fn all_series(&self) -> impl Iterator<Item = (&str, &Series)> {
        self.series.iter().map(|(name, series)| (name.as_str(), series))
    }

    /// A histogram by signal name.
    pub fn histogram(&self, name: &str) -> Option<&HistogramSeries> {
        self.histograms.get(name)
    }

    /// Growth of a counter over the window, resets handled.
    pub fn growth(&self, name: &str) -> Option<f64> {
        self.series(name).map(Series::growth)
    }

    /// Growth of a histogram over the window, resets handled; a lone scrape gives its lifetime totals.
    pub fn observed(&self, name: &str) -> Option<HistogramDelta> {
        self.histogram(name).map(HistogramSeries::delta)
    }
}

/// One arm of a capture.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Index of the arm.
    pub run_idx: u32,
    /// Name of the arm and what changed, as typed.
    pub run_name: String,
    /// What differs from the first arm, as typed.
    pub changed: String,
    /// Device of this arm where it states its own.
    pub device: String,
    /// Engine instances in label order.
    pub engines: BTreeMap<EngineId, Engine>,
    /// Series and histograms of a gateway's own metrics, by `signal{labels}`.
    pub gateway_metrics: Engine,
    /// Process, host and device series (labels `role`, `process`, `device`), by `signal{labels}`: `gpu.power{device="0"}`.
    pub host: BTreeMap<String, Series>,
    /// Typed and summary figures.
    pub figures: Figures,
    /// Effective settings.
    pub settings: Settings,
    /// Requests at the client, finished ones, by send time.
    pub client: Vec<RequestRow>,
    /// Requests at a gateway, by receive time.
    pub gateway: Vec<RequestRow>,
    /// Requests as the server's own spans tell them, by receive time.
    pub server: Vec<RequestRow>,
    /// Gaps between delivered chunks at the client.
    pub gaps: Vec<Gap>,
    /// True when client rows and scrapes have no moment in common: their clocks are not joined, so that only counts and
    /// durations may be compared.
    pub client_apart: bool,
    /// Sweep points, if the arm is a sweep.
    pub sweep_point_count: usize,
    /// True when the gauges come from periodic log lines instead of scrapes.
    pub from_log: bool,
    /// Requests waiting as the engines' periodic log lines tell; they often reach further back than the scrapes.
    pub logged_waiting: Vec<Series>,
    /// The warm-up that was left out.
    pub warm_up: Option<crate::onset::Change>,
    /// Rows before this time are left out, host clock, ns.
    pub from_ns: i64,
    /// Lines of logs by kind (`recompile`, `graph_capture_failed`).
    pub logged: BTreeMap<String, Logged>,
    /// Seconds from start-up log lines until the engine answers again, where told.
    pub reload_s: Option<f64>,
    /// What profiler captures tell of the devices.
    pub device_view: Option<DeviceView>,
}

impl Evidence {
    /// Reads one arm. Where it begins with a warm-up, that is left out and said.
    pub fn read(capture: &Capture, run_idx: u32) -> Self {
        Self { device_view: DeviceView::read(capture, run_idx), ..Self::read_requests(capture, run_idx) }
    }

    /// The same without what profiler captures tell of the devices.
    pub fn read_requests(capture: &Capture, run_idx: u32) -> Self {
        let whole = Self::read_from(capture, run_idx, i64::MIN);
        match crate::onset::warm_up_end(&whole) {
            Some(change) => Self { warm_up: Some(change), ..Self::read_from(capture, run_idx, change.at_ns) },
            None => whole,
        }
    }

    /// Reads one arm from a time on; what has no time is read always.
    fn read_from(capture: &Capture, run_idx: u32, from_ns: i64) -> Self {
        let mut evidence = Self { run_idx, from_ns, ..Self::default() };
        for row in capture.tables.runs.rows().filter(|row| row.run_idx == run_idx) {
            capture.text(row.name).clone_into(&mut evidence.run_name);
            capture.text(row.changed).clone_into(&mut evidence.changed);
            capture.text(row.device).clone_into(&mut evidence.device);
        }
        evidence.sweep_point_count = capture.tables.points.run_idx.iter().filter(|&&run| run == run_idx).count();
        series::read(capture, &mut evidence);
        histograms::read(capture, &mut evidence);
        evidence.settings = Settings::read(capture, run_idx);
        requests::read(capture, &mut evidence);
        evidence.client_apart = evidence.is_client_apart();
        evidence.reload_s = settings::reload_s(capture, run_idx);
        evidence.logged = logs::read(capture, run_idx);
        evidence
    }

    /// Arms of a capture in order; at least arm 0.
    pub fn arms(capture: &Capture) -> Vec<u32> {
        let tables = &capture.tables;
        let mut arms: Vec<u32> = [&tables.runs.run_idx, &tables.samples.run_idx, &tables.histograms.run_idx, &tables.requests.run_idx]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        // Millions of rows of few arms: one of each stretch will do.
        arms.extend(tables.device_events.run_idx.changes());
        arms.push(0);
        arms.sort_unstable();
        arms.dedup();
        arms
    }

    /// True for a row of this arm that is not from before its start; 0 stands for no time.
    fn takes(&self, run_idx: u32, t_ns: i64) -> bool {
        run_idx == self.run_idx && (t_ns == 0 || t_ns >= self.from_ns)
    }

    /// True when both client rows and scrapes tell times, and none lies among the others.
    fn is_client_apart(&self) -> bool {
        let Some((first, last)) = self.scrape_window() else { return false };
        let times = || self.client.iter().filter(|row| row.t_sent_ns != 0);
        times().next().is_some() && times().all(|row| row.t_sent_ns > last || row.t_done_ns.unwrap_or(row.t_sent_ns) < first)
    }

    /// First and last time of any scrape or request, host clock; log lines only where nothing else tells time. Requests
    /// of a clock that is not joined tell none.
    pub fn window(&self) -> Option<(i64, i64)> {
        let scrapes = self.engines.values().flat_map(|engine| engine.series.values().flat_map(Series::ends));
        let joined = self.client.iter().filter(|_| !self.client_apart);
        let requests = joined.flat_map(|row| [Some(row.t_sent_ns), row.t_done_ns]).flatten();
        let times: Vec<i64> = scrapes.chain(requests).filter(|&t| t > 0).collect();
        Some((*times.iter().min()?, *times.iter().max()?))
    }

    /// First and last scrape of any engine.
    pub fn scrape_window(&self) -> Option<(i64, i64)> {
        let times: Vec<i64> =
            self.engines.values().filter_map(|engine| engine.series("engine.running")).flat_map(Series::ends).filter(|&t| t > 0).collect();
        Some((*times.iter().min()?, *times.iter().max()?))
    }

    /// Sum over engines of a counter's growth.
    pub fn growth(&self, name: &str) -> Option<f64> {
        sum(self.engines.values().filter_map(|engine| engine.growth(name)))
    }

    /// Sum over engines of a histogram's growth.
    pub fn observed(&self, name: &str) -> Option<HistogramDelta> {
        let mut total: Option<HistogramDelta> = None;
        for delta in self.engines.values().filter_map(|engine| engine.observed(name)) {
            total = Some(total.map_or_else(
                || delta.clone(),
                |mut sum| {
                    sum.add(&delta);
                    sum
                },
            ));
        }
        total
    }

    /// Mean of a histogram's new observations, all engines.
    pub fn mean(&self, name: &str) -> Option<f64> {
        self.observed(name)?.mean()
    }

    /// Seconds the load client's main thread waited for a CPU, and ran.
    pub fn client_cpu_s(&self) -> Option<(f64, f64)> {
        self.main_thread_s("load_client")
    }

    /// Seconds the main thread of the first process with this role waited for a CPU, and ran.
    pub fn main_thread_s(&self, role: &str) -> Option<(f64, f64)> {
        let label = format!("role=\"{role}");
        let growth = |signal: &str| {
            let of_role = |name: &str| name.starts_with(signal) && name.contains(&label);
            self.host.iter().find(|(name, _)| of_role(name)).map(|(_, series)| series.growth())
        };
        growth("proc.runqueue_wait{").zip(growth("proc.run_time{"))
    }

    /// Cores the main thread of a process with this role kept busy over the recording; typed, or by its run time.
    pub fn main_thread_cores(&self, role: &str) -> Option<f64> {
        let label = format!("role=\"{role}");
        let series = self.host.iter().find(|(name, _)| name.starts_with("proc.run_time{") && name.contains(&label));
        let measured = series.and_then(|(_, series)| {
            let span_s = (series.t_ns.last()? - series.t_ns.first()?) as f64 * 1e-9;
            (span_s > 0.0).then(|| series.growth() / span_s)
        });
        let typed = |label: &str| {
            self.figures.by_label("proc.cpu", label).into_iter().find(|(name, _)| name.starts_with(role)).map(|(_, cores)| cores)
        };
        measured.or_else(|| typed("role")).or_else(|| typed("process"))
    }

    /// True when at least two scrapes span time, so that rates and gates can be taken.
    pub fn has_timeline(&self) -> bool {
        self.engines.values().any(|engine| engine.series("engine.running").is_some_and(|series| series.len() >= 3))
    }

    /// Scrapes of the engine with the most of them.
    pub fn scrape_count(&self) -> usize {
        self.engines.values().filter_map(|engine| engine.series("engine.running")).map(Series::len).max().unwrap_or(0)
    }
}

fn sum(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.fold(None, |total, value| Some(total.unwrap_or(0.0) + value))
}

/// Splits label text into the engine it belongs to and what is left.
fn engine_of(text: &str) -> (EngineId, String) {
    let mut id = EngineId { replica: String::new(), engine: String::new() };
    let mut rest: Vec<(String, String)> = Vec::new();
    for (key, value) in labels::pairs(text) {
        match key.as_str() {
            "replica" => id.replica = value,
            "engine" => id.engine = value,
            _ => rest.push((key, value)),
        }
    }
    let pairs: Vec<(&str, &str)> = rest.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    (id, labels::canonical(&pairs))
}

fn with_labels(signal: &str, rest: &str) -> String {
    if rest.is_empty() { signal.to_string() } else { format!("{signal}{{{rest}}}") }
}
