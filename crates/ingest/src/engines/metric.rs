//! How one metric family of an engine becomes a signal.

/// What kind of family the engine exports. The declared `# TYPE` tells suffixes apart; this tells what we expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A level.
    Gauge,
    /// A running total.
    Counter,
    /// Buckets, sum and count.
    Histogram,
}

/// What to do with several series of one scrape that become one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Add them.
    Sum,
    /// Keep the largest (ratios, start times).
    Max,
}

/// Labels of a series as found.
pub(crate) type SeriesLabels = [(String, String)];

/// The value of one label.
pub(crate) fn label<'a>(labels: &'a SeriesLabels, key: &str) -> &'a str {
    labels.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value.as_str())
}

/// One row of an engine's map. Several rows may share a name; the first whose `only` holds is taken.
#[derive(Clone, Copy)]
pub(crate) struct Metric {
    /// Family name without prefix and without `_total`, `_bucket`, `_sum`, `_count`.
    pub(crate) name: &'static str,
    /// Expected kind.
    pub(crate) shape: Shape,
    /// Signal it becomes.
    pub(crate) signal: &'static str,
    /// Labels kept: name on the wire, name in the capture.
    pub(crate) labels: &'static [(&'static str, &'static str)],
    /// Series this row is for.
    pub(crate) only: fn(&SeriesLabels) -> bool,
    /// How several series join.
    pub(crate) fold: Fold,
    /// Labels added to what the series carries: they tell two families of one signal apart.
    pub(crate) tags: &'static [(&'static str, &'static str)],
    /// A second signal that grows with the same series (hits are queries too). Gauges and counters only.
    pub(crate) also: &'static str,
    /// 0 is preferred; a row of rank 1 is dropped in a scrape that also has the rank 0 of the same signal and labels.
    pub(crate) rank: u8,
    /// What values are multiplied with and then divided by to reach the signal's base unit: two factors keep percent exact.
    pub(crate) scale: (f64, f64),
    /// True for a device's own counters: rows get the label `device`, and neither `replica` nor `engine`.
    pub(crate) is_device: bool,
}

const fn any(_: &SeriesLabels) -> bool {
    true
}

impl Metric {
    const fn new(name: &'static str, shape: Shape, signal: &'static str) -> Self {
        Self {
            name,
            shape,
            signal,
            labels: &[],
            only: any,
            fold: Fold::Sum,
            tags: &[],
            also: "",
            rank: 0,
            scale: (1.0, 1.0),
            is_device: false,
        }
    }

    /// A level.
    pub(crate) const fn gauge(name: &'static str, signal: &'static str) -> Self {
        Self::new(name, Shape::Gauge, signal)
    }

    /// A running total.
    pub(crate) const fn counter(name: &'static str, signal: &'static str) -> Self {
        Self::new(name, Shape::Counter, signal)
    }

    /// A histogram.
    pub(crate) const fn histogram(name: &'static str, signal: &'static str) -> Self {
        Self::new(name, Shape::Histogram, signal)
    }

    /// Keeps labels.
    pub(crate) const fn labels(mut self, labels: &'static [(&'static str, &'static str)]) -> Self {
        self.labels = labels;
        self
    }

    /// Takes only some series.
    pub(crate) const fn only(mut self, only: fn(&SeriesLabels) -> bool) -> Self {
        self.only = only;
        self
    }

    /// Keeps the largest of several series.
    pub(crate) const fn max(mut self) -> Self {
        self.fold = Fold::Max;
        self
    }

    /// Adds labels of ours.
    pub(crate) const fn tags(mut self, tags: &'static [(&'static str, &'static str)]) -> Self {
        self.tags = tags;
        self
    }

    /// Values are in this many base units.
    pub(crate) const fn scale(mut self, scale: f64) -> Self {
        self.scale = (scale, 1.0);
        self
    }

    /// Counts into a second signal as well.
    pub(crate) const fn also(mut self, signal: &'static str) -> Self {
        self.also = signal;
        self
    }

    /// Values are in percent.
    pub(crate) const fn percent(mut self) -> Self {
        self.scale = (1.0, 100.0);
        self
    }

    /// A device's own counter.
    pub(crate) const fn device(mut self) -> Self {
        self.is_device = true;
        self
    }

    /// Used only where no rank 0 of the same signal is.
    pub(crate) const fn fallback(mut self) -> Self {
        self.rank = 1;
        self
    }
}
