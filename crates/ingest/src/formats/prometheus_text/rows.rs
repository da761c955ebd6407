//! Values of one scrape, gathered per row of the capture and written at its end.

use capture::{Histogram, Name, Sample, Severity, labels};
use hashbrown::HashMap;

use crate::builder::{Builder, NO_POINT};
use crate::engines::metric::{Fold, Metric, SeriesLabels, Shape, label};
use crate::engines::{Engine, Info, dcgm};

use super::series::{Catalog, Target};

/// Most buckets of one histogram; the rest is left out.
const MAX_BUCKETS: usize = 1_000;

/// Signals in blocks, and the same in tokens.
const IN_BLOCKS: &[(&str, &str)] =
    &[("kv.capacity_blocks", "kv.capacity"), ("kv.block_queries", "kv.prefix_queries"), ("kv.block_hits", "kv.prefix_hits")];

/// Which row of the capture: signal, labels, rank.
type Key = (Name, Name, u8);

struct Scalar {
    signal: Name,
    labels: Name,
    is_counter: bool,
    is_ratio: bool,
    is_start_time: bool,
    fold: Fold,
    rank: u8,
    scale: (f64, f64),
    value: f64,
    seen: u32,
    last: Option<f64>,
}

struct Bucketed {
    signal: Name,
    labels: Name,
    rank: u8,
    scale: f64,
    bounds: Vec<f64>,
    cumulative: Vec<f64>,
    seen: Vec<u32>,
    is_sorted: bool,
    sum: (f64, u32),
    count: (f64, u32),
    last_count: Option<f64>,
}

#[derive(Default)]
struct Created {
    value: f64,
    last: Option<f64>,
}

/// What went wrong in one scrape.
#[derive(Default)]
struct Doubts {
    not_finite: i64,
    negative: i64,
    resets: i64,
    out_of_range: i64,
    not_monotonic: i64,
    without_sum: i64,
    restarted: bool,
}

/// See the module.
pub(super) struct Rows {
    scrape: u32,
    scalars: Vec<Scalar>,
    scalar_of: HashMap<Key, u32>,
    histograms: Vec<Bucketed>,
    histogram_of: HashMap<Key, u32>,
    created: Vec<Created>,
    infos: Vec<Vec<(u32, f64)>>,
    scrape_time: (Name, Name),
    /// Created times are written one per series; a restart changes all of them.
    restarts: i64,
    saw_engine: bool,
    saw_gateway: bool,
    saw_model: bool,
    /// Host of the first device counters of the source.
    device_host: Option<String>,
}

impl Rows {
    pub(super) fn new(builder: &mut Builder<'_>) -> Self {
        let labels = labels::canonical(&[("replica", builder.context.replica_label()), ("engine", "0")]);
        Self {
            scrape: 1,
            scalars: Vec::new(),
            scalar_of: HashMap::new(),
            histograms: Vec::new(),
            histogram_of: HashMap::new(),
            created: Vec::new(),
            infos: Vec::new(),
            scrape_time: (builder.intern("server.scrape_time"), builder.intern(&labels)),
            restarts: 0,
            saw_engine: false,
            saw_gateway: false,
            saw_model: false,
            device_host: None,
        }
    }

    /// Notes that the source is this engine's.
    pub(super) fn saw_engine(&mut self, engine: &Engine, builder: &mut Builder<'_>) {
        if engine.is_gateway {
            if !self.saw_gateway {
                self.saw_gateway = true;
                builder.setting(builder.context.replica_setting(), "config.gateway", engine.id, "metrics", 0);
            }
            return;
        }
        if !self.saw_engine {
            self.saw_engine = true;
            let subject = &mut builder.capture.manifest.subject;
            subject.engine = engine.id.to_string();
            subject.engine_from = "metrics".to_string();
        }
    }

    fn row_labels(&mut self, metric: &Metric, engine: &Engine, found: &SeriesLabels, builder: &mut Builder<'_>) -> Name {
        if metric.is_device {
            dcgm::note_product(found, builder);
            let device = dcgm::device_of(found, &mut self.device_host);
            return builder.intern(&labels::canonical(&[("device", &device)]));
        }
        let model = label(found, "model_name");
        if !self.saw_model && !model.is_empty() {
            self.saw_model = true;
            builder.capture.manifest.subject.model = model.to_string();
        }
        if engine.is_gateway {
            // A gateway is no replica of an engine: its rows are told apart by where they were scraped.
            let mut pairs = vec![("process", builder.context.replica_label())];
            pairs.extend(metric.labels.iter().map(|(wire, ours)| (*ours, label(found, wire))));
            pairs.extend_from_slice(metric.tags);
            let text = labels::canonical(&pairs);
            return builder.intern(&text);
        }
        let core = label(found, engine.core_label);
        let core = if core.is_empty() { "0" } else { core };
        let mut pairs = vec![("replica", builder.context.replica_label()), ("engine", core)];
        pairs.extend(metric.labels.iter().map(|(wire, ours)| (*ours, label(found, wire))));
        pairs.extend_from_slice(metric.tags);
        let text = labels::canonical(&pairs);
        builder.intern(&text)
    }

    /// The row of a gauge or counter.
    pub(super) fn scalar(&mut self, metric: &Metric, engine: &Engine, found: &SeriesLabels, builder: &mut Builder<'_>) -> Target {
        let labels = self.row_labels(metric, engine, found, builder);
        let signal = builder.intern(metric.signal);
        let own = self.scalar_row(signal, labels, metric, builder);
        if metric.also.is_empty() {
            return own;
        }
        let also = builder.intern(metric.also);
        let also = self.scalar_row(also, labels, metric, builder);
        let (Target::Scalar(own), Target::Scalar(also)) = (own, also) else { return own };
        Target::Both(own, also)
    }

    fn scalar_row(&mut self, signal: Name, labels: Name, metric: &Metric, builder: &Builder<'_>) -> Target {
        let next = self.scalars.len() as u32;
        let at = *self.scalar_of.entry((signal, labels, metric.rank)).or_insert(next);
        if at < next {
            return Target::Scalar(at);
        }
        let name = builder.capture.text(signal);
        self.scalars.push(Scalar {
            signal,
            labels,
            is_counter: metric.shape == Shape::Counter,
            is_ratio: capture::signals::find(name).is_some_and(|signal| signal.unit == capture::units::Unit::Ratio),
            is_start_time: name == "server.start_time",
            fold: metric.fold,
            rank: metric.rank,
            scale: metric.scale,
            value: 0.0,
            seen: 0,
            last: None,
        });
        Target::Scalar(at)
    }

    /// The row of a histogram.
    pub(super) fn histogram(&mut self, metric: &Metric, engine: &Engine, found: &SeriesLabels, builder: &mut Builder<'_>) -> u32 {
        let labels = self.row_labels(metric, engine, found, builder);
        let signal = builder.intern(metric.signal);
        let next = self.histograms.len() as u32;
        let at = *self.histogram_of.entry((signal, labels, metric.rank)).or_insert(next);
        if at < next {
            return at;
        }
        self.histograms.push(Bucketed {
            signal,
            labels,
            rank: metric.rank,
            scale: metric.scale.0 / metric.scale.1,
            bounds: Vec::new(),
            cumulative: Vec::new(),
            seen: Vec::new(),
            is_sorted: true,
            sum: (0.0, 0),
            count: (0.0, 0),
            last_count: None,
        });
        at
    }

    /// A bucket of a histogram, by its `le` label.
    pub(super) fn bucket(&mut self, metric: &Metric, engine: &Engine, found: &SeriesLabels, builder: &mut Builder<'_>) -> Target {
        let Some(bound) = crate::number::parse_f64(label(found, "le").as_bytes()).filter(|bound| !bound.is_nan()) else {
            builder.issue_once(Severity::Warning, "bucket_without_bound", "", || {
                format!("expected a number in the label `le` of `{}`, found `{}`; the bucket is left out", metric.name, label(found, "le"))
            });
            return Target::Skip;
        };
        let bound = bound * metric.scale.0 / metric.scale.1;
        let at = self.histogram(metric, engine, found, builder);
        let row = &mut self.histograms[at as usize];
        if let Some(bucket) = row.bounds.iter().position(|known| *known == bound) {
            return Target::Bucket(at, bucket as u32);
        }
        if row.bounds.len() >= MAX_BUCKETS {
            builder.issue_once(Severity::Warning, "too_many_buckets", "", || {
                format!("expected at most {MAX_BUCKETS} buckets, found more in `{}`; the rest is left out", metric.name)
            });
            return Target::Skip;
        }
        row.is_sorted &= row.bounds.last().is_none_or(|last| *last < bound);
        row.bounds.push(bound);
        row.cumulative.push(0.0);
        row.seen.push(0);
        Target::Bucket(at, row.bounds.len() as u32 - 1)
    }

    /// A creation time.
    pub(super) fn created(&mut self) -> Target {
        self.created.push(Created::default());
        Target::Created(self.created.len() as u32 - 1)
    }

    /// An info series: settings now, constant values at every scrape.
    pub(super) fn info(&mut self, engine: &Engine, info: &Info, found: &SeriesLabels, builder: &mut Builder<'_>) -> Target {
        for (key, value) in &info.settings {
            builder.setting(builder.context.replica_setting(), key, value, "metrics", 0);
        }
        let mut values = Vec::new();
        for &(signal, value) in &info.samples {
            let metric = Metric::gauge("", signal).max();
            if let Target::Scalar(at) = self.scalar(&metric, engine, found, builder) {
                values.push((at, value));
            }
        }
        self.infos.push(values);
        Target::Info(self.infos.len() as u32 - 1)
    }

    /// Adds a value to its row. Of a series that comes twice in one scrape the last value counts.
    pub(super) fn apply(&mut self, catalog: &mut Catalog, series: u32, value: f64) {
        let before = catalog.note(series, value);
        match catalog.target(series) {
            Target::Skip => {}
            Target::Scalar(at) => self.add_scalar(at, value, before),
            Target::Both(at, also) => {
                self.add_scalar(at, value, before);
                self.add_scalar(also, value, before);
            }
            Target::Bucket(at, bucket) => {
                let (row, bucket) = (&mut self.histograms[at as usize], bucket as usize);
                let (slot, seen) = (&mut row.cumulative[bucket], &mut row.seen[bucket]);
                add(slot, seen, self.scrape, value, before);
            }
            Target::Sum(at) => {
                let row = &mut self.histograms[at as usize];
                add(&mut row.sum.0, &mut row.sum.1, self.scrape, value * row.scale, before.map(|before| before * row.scale));
            }
            Target::Count(at) => {
                let row = &mut self.histograms[at as usize];
                add(&mut row.count.0, &mut row.count.1, self.scrape, value, before);
            }
            Target::Created(at) => self.created[at as usize].value = value,
            Target::Info(at) => {
                for (scalar, value) in self.infos[at as usize].clone() {
                    self.add_scalar(scalar, value, None);
                }
            }
        }
    }

    fn add_scalar(&mut self, at: u32, value: f64, before: Option<f64>) {
        let row = &mut self.scalars[at as usize];
        let (times, over) = row.scale;
        let (value, before) = (value * times / over, before.map(|before| before * times / over));
        add_or_max(row.fold, &mut row.value, &mut row.seen, self.scrape, value, before);
    }

    /// Drops what was gathered since the last flush.
    pub(super) fn forget(&mut self) {
        self.scrape += 1;
    }

    /// The time one scrape took.
    pub(super) fn scrape_time(&self, t_ns: i64, took_s: f64, builder: &mut Builder<'_>) {
        // How long a gateway takes to answer says nothing about a server.
        let is_server = self.saw_engine || !self.saw_gateway;
        if is_server && took_s.is_finite() && took_s >= 0.0 {
            let (signal, labels) = self.scrape_time;
            let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
            builder.capture.tables.samples.push(Sample { t_ns, run_idx, point_idx: NO_POINT, signal, labels, value: took_s, source_idx });
        }
    }

    /// Writes the rows of one scrape.
    pub(super) fn flush(&mut self, t_ns: i64, place: &str, builder: &mut Builder<'_>) {
        let mut doubts = Doubts::default();
        self.flush_created(&mut doubts);
        self.flush_scalars(t_ns, &mut doubts, builder);
        self.flush_products(t_ns, builder);
        self.flush_histograms(t_ns, &mut doubts, builder);
        self.scrape += 1;
        self.report(&doubts, place, builder);
    }

    fn flush_created(&mut self, doubts: &mut Doubts) {
        for created in &mut self.created {
            doubts.restarted |= created.last.is_some_and(|last| last < created.value);
            created.last = Some(created.value);
        }
    }

    fn flush_scalars(&mut self, t_ns: i64, doubts: &mut Doubts, builder: &mut Builder<'_>) {
        let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
        for at in 0..self.scalars.len() {
            if self.scalars[at].seen != self.scrape || self.is_shadowed(at) {
                continue;
            }
            let row = &mut self.scalars[at];
            let value = row.value;
            if !value.is_finite() {
                doubts.not_finite += 1;
                continue;
            }
            if value < 0.0 {
                doubts.negative += 1;
                continue;
            }
            doubts.out_of_range += i64::from(row.is_ratio && value > 1.000_001);
            if row.is_counter {
                doubts.resets += i64::from(row.last.is_some_and(|last| value < last));
            } else if row.is_start_time {
                doubts.restarted |= row.last.is_some_and(|last| value != last);
                let replica = builder.context.replica_label().to_string();
                builder.facts.process_starts.insert(replica, (value * 1e9) as i64);
            }
            row.last = Some(value);
            let (signal, labels) = (row.signal, row.labels);
            builder.capture.tables.samples.push(Sample { t_ns, run_idx, point_idx: NO_POINT, signal, labels, value, source_idx });
        }
    }

    /// What an engine counts in blocks, in tokens as well.
    fn flush_products(&self, t_ns: i64, builder: &mut Builder<'_>) {
        let Some(size) = builder.capture.names.find("kv.block_size") else { return };
        let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
        for (blocks, tokens) in IN_BLOCKS {
            let Some(blocks) = builder.capture.names.find(blocks) else { continue };
            for row in self.scalars.iter().filter(|row| row.signal == blocks && row.seen == self.scrape && row.value.is_finite()) {
                let size = self.scalar_of.get(&(size, row.labels, 0)).map(|&at| &self.scalars[at as usize]);
                let Some(size) = size.filter(|size| size.seen == self.scrape && size.value.is_finite() && size.value > 0.0) else {
                    continue;
                };
                let (signal, labels, value) = (builder.intern(tokens), row.labels, row.value * size.value);
                builder.capture.tables.samples.push(Sample { t_ns, run_idx, point_idx: NO_POINT, signal, labels, value, source_idx });
            }
        }
    }

    /// True when the preferred row of the same signal and labels was seen in this scrape.
    fn is_shadowed(&self, at: usize) -> bool {
        let row = &self.scalars[at];
        let better = self.scalar_of.get(&(row.signal, row.labels, 0)).filter(|_| row.rank > 0);
        better.is_some_and(|&at| self.scalars[at as usize].seen == self.scrape)
    }

    fn is_histogram_shadowed(&self, at: usize) -> bool {
        let row = &self.histograms[at];
        let better = self.histogram_of.get(&(row.signal, row.labels, 0)).filter(|_| row.rank > 0);
        better.is_some_and(|&at| self.histograms[at as usize].count.1 == self.scrape)
    }

    fn flush_histograms(&mut self, t_ns: i64, doubts: &mut Doubts, builder: &mut Builder<'_>) {
        let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
        for at in 0..self.histograms.len() {
            if self.is_histogram_shadowed(at) {
                continue;
            }
            let row = &mut self.histograms[at];
            let Some((bounds, cumulative)) = row.buckets(self.scrape) else { continue };
            let (signal, labels) = (row.signal, row.labels);
            let count = *cumulative.last().expect("a histogram row has at least the infinite bucket");
            let has_sum = row.sum.1 == self.scrape;
            let sum = if has_sum { row.sum.0 } else { f64::NAN };
            if cumulative.iter().any(|value| !value.is_finite()) || (has_sum && !sum.is_finite()) {
                doubts.not_finite += 1;
                continue;
            }
            doubts.without_sum += i64::from(!has_sum);
            doubts.negative += i64::from(count < 0.0);
            doubts.not_monotonic += i64::from(cumulative.windows(2).any(|pair| pair[1] < pair[0]));
            doubts.resets += i64::from(row.last_count.is_some_and(|last| count < last));
            row.last_count = Some(count);
            builder.capture.tables.histograms.push(Histogram {
                t_ns,
                run_idx,
                point_idx: NO_POINT,
                signal,
                labels,
                sum,
                count,
                bounds,
                cumulative,
                source_idx,
            });
        }
    }

    fn report(&mut self, doubts: &Doubts, place: &str, builder: &mut Builder<'_>) {
        let mut warn = |count: i64, code: &'static str, sentence: &str| {
            if count > 0 {
                builder.issue(Severity::Warning, code, place, count, sentence);
            }
        };
        warn(doubts.not_finite, "not_finite", "expected a finite value, found NaN or infinity; the value is left out");
        warn(doubts.negative, "negative_value", "expected a value of zero or more, found a negative one; the value is left out");
        warn(doubts.out_of_range, "ratio_above_one", "expected a ratio of at most 1, found more; the unit may be percent");
        warn(doubts.not_monotonic, "histogram_not_monotonic", "expected cumulative bucket counts, found one below its predecessor");
        warn(doubts.without_sum, "histogram_without_sum", "expected the sum of a histogram, found none: its mean is not known");
        if doubts.restarted {
            self.restarts += 1;
            warn(1, "restart", "a creation or start time changed: the server was restarted and its totals start again");
        }
        warn(doubts.resets, "counter_reset", "expected totals that only grow, found smaller ones: the totals start again here");
    }
}

impl Bucketed {
    /// Bounds and cumulative counts of this scrape, ascending, the last bound infinite.
    fn buckets(&mut self, scrape: u32) -> Option<(Vec<f64>, Vec<f64>)> {
        let has_count = self.count.1 == scrape;
        if !self.is_sorted {
            self.is_sorted = self.bounds.is_sorted_by(|a, b| a < b);
        }
        let (mut bounds, mut cumulative) = if self.is_sorted && self.seen.iter().all(|seen| *seen == scrape) {
            (self.bounds.clone(), self.cumulative.clone())
        } else {
            let mut order: Vec<usize> = (0..self.bounds.len()).filter(|&at| self.seen[at] == scrape).collect();
            order.sort_by(|&a, &b| self.bounds[a].total_cmp(&self.bounds[b]));
            (order.iter().map(|&at| self.bounds[at]).collect(), order.iter().map(|&at| self.cumulative[at]).collect())
        };
        if bounds.last().is_none_or(|last| last.is_finite()) {
            if !has_count {
                return None;
            }
            bounds.push(f64::INFINITY);
            cumulative.push(self.count.0);
        }
        Some((bounds, cumulative))
    }
}

/// Joins the value of one more series of a row.
fn add_or_max(fold: Fold, slot: &mut f64, seen: &mut u32, scrape: u32, value: f64, before: Option<f64>) {
    if fold == Fold::Max && *seen == scrape {
        *slot = if before.is_some() { value } else { slot.max(value) };
    } else {
        add(slot, seen, scrape, value, before);
    }
}

fn add(slot: &mut f64, seen: &mut u32, scrape: u32, value: f64, before: Option<f64>) {
    if *seen == scrape {
        *slot += value - before.unwrap_or(0.0);
    } else {
        (*slot, *seen) = (value, scrape);
    }
}
