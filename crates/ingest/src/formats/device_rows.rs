//! What the readers of GPU telemetry share: values per device, masks of clock events, rows without a time, local time.
//!
//! Every value becomes a `gpu.*` sample with the label `device`. A mask of clock event reasons stays a mask in
//! `gpu.throttle_reasons`; at the end of a source each device also gets the share of its samples in which each reason was
//! active, as `gpu.throttle_share`.

use std::collections::{BTreeMap, BTreeSet};

use capture::clock_events::REASONS;
use capture::units::Unit;
use capture::{ClockAlignment, Name, Sample, Severity, labels, signals};

use crate::builder::{Builder, NO_POINT};
use crate::clocks;
use crate::number::parse_f64;

/// Most devices of one source; a host has 16, a rack a few hundred.
const MAX_DEVICES: usize = 4096;
/// Spacing given to rows of which only the order is known: the tools' own default.
const ORDER_STEP_NS: i64 = 1_000_000_000;
/// Ratios above 1 by no more than rounding.
const RATIO_SLACK: f64 = 1.000_001;

/// How a column or field becomes a signal: `value * times / per`, two factors so that percent stays exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    pub(super) signal: &'static str,
    /// Unit as the tool writes it, empty where it writes none.
    pub(super) unit: &'static str,
    pub(super) times: f64,
    pub(super) per: f64,
}

impl Measure {
    const fn new(signal: &'static str, unit: &'static str, times: f64, per: f64) -> Self {
        Self { signal, unit, times, per }
    }

    /// In the signal's own unit.
    pub(super) const fn plain(signal: &'static str, unit: &'static str) -> Self {
        Self::new(signal, unit, 1.0, 1.0)
    }

    /// In percent.
    pub(super) const fn percent(signal: &'static str) -> Self {
        Self::new(signal, "%", 1.0, 100.0)
    }

    /// In MHz.
    pub(super) const fn mhz(signal: &'static str) -> Self {
        Self::new(signal, "MHz", 1e6, 1.0)
    }

    /// In units of 2^20 bytes, whatever the tool calls them.
    pub(super) const fn mib(signal: &'static str, unit: &'static str) -> Self {
        Self::new(signal, unit, 1_048_576.0, 1.0)
    }

    /// In any other multiple of the base unit.
    pub(super) const fn times(signal: &'static str, unit: &'static str, times: f64) -> Self {
        Self::new(signal, unit, times, 1.0)
    }

    /// The value in the base unit.
    pub(super) fn to_base(self, value: f64) -> f64 {
        value * self.times / self.per
    }
}

#[derive(Default)]
struct Device {
    labels: Name,
    masks: u64,
    active: [u64; REASONS.len()],
}

/// Rows of one source, by device.
#[derive(Default)]
pub(super) struct DeviceRows {
    devices: BTreeMap<String, Device>,
    /// Signals seen so far, as interned, and whether they are ratios; a source has a dozen.
    signals: Vec<(&'static str, Name, bool)>,
    rows: u64,
    last_t_ns: i64,
}

impl DeviceRows {
    /// True when nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds one value in the signal's base unit; what no device can read is left out and told.
    pub(super) fn add(&mut self, t_ns: i64, device: &str, signal: &'static str, value: f64, builder: &mut Builder<'_>) {
        if !value.is_finite() || value < 0.0 {
            builder.issue_once(Severity::Warning, "impossible_value", "", || {
                format!("expected values of zero or more, found others (first in `{signal}`); they are left out")
            });
            return;
        }
        let (signal_name, is_ratio) = self.signal(signal, builder);
        if is_ratio && value > RATIO_SLACK {
            builder.issue_once(Severity::Warning, "ratio_above_one", "", || {
                format!("expected ratios of at most 1, found more (first in `{signal}`); the unit may be percent")
            });
        }
        let Some(labels) = self.device(device, builder).map(|device| device.labels) else { return };
        let (run_idx, source_idx) = (builder.context.run_idx, builder.source());
        let row = Sample { t_ns, run_idx, point_idx: NO_POINT, signal: signal_name, labels, value, source_idx };
        builder.capture.tables.samples.push(row);
        self.rows += 1;
        self.last_t_ns = self.last_t_ns.max(t_ns);
    }

    /// Adds a mask of clock event reasons.
    pub(super) fn reasons(&mut self, t_ns: i64, device: &str, mask: u64, builder: &mut Builder<'_>) {
        self.add(t_ns, device, "gpu.throttle_reasons", mask as f64, builder);
        if let Some(device) = self.devices.get_mut(device) {
            device.masks += 1;
            for (count, (bit, _)) in device.active.iter_mut().zip(REASONS) {
                *count += u64::from(mask & bit != 0);
            }
        }
    }

    fn signal(&mut self, signal: &'static str, builder: &mut Builder<'_>) -> (Name, bool) {
        if let Some((_, name, is_ratio)) = self.signals.iter().find(|(known, ..)| *known == signal) {
            return (*name, *is_ratio);
        }
        let is_ratio = signals::find(signal).is_some_and(|row| row.unit == Unit::Ratio);
        self.signals.push((signal, builder.intern(signal), is_ratio));
        (self.signals[self.signals.len() - 1].1, is_ratio)
    }

    fn device(&mut self, device: &str, builder: &mut Builder<'_>) -> Option<&mut Device> {
        if !self.devices.contains_key(device) {
            if self.devices.len() >= MAX_DEVICES {
                builder.issue_once(Severity::Warning, "too_many_devices", "", || {
                    format!("expected at most {MAX_DEVICES} devices, found more; the rest is left out")
                });
                return None;
            }
            let labels = builder.intern(&labels::canonical(&[("device", device)]));
            self.devices.insert(device.to_string(), Device { labels, ..Device::default() });
        }
        self.devices.get_mut(device)
    }

    /// Writes the shares of the reasons, at the time of the last row.
    pub(super) fn finish(&self, builder: &mut Builder<'_>) {
        for (name, device) in self.devices.iter().filter(|(_, device)| device.masks > 0) {
            for (count, (_, reason)) in device.active.iter().zip(REASONS) {
                let labels = labels::canonical(&[("device", name), ("reason", reason)]);
                builder.sample(self.last_t_ns, "gpu.throttle_share", &labels, *count as f64 / device.masks as f64);
            }
        }
    }
}

/// Times for rows that say none: a device that comes again starts the next round, and rounds are a second apart.
#[derive(Default)]
pub(super) struct Rounds {
    seen: BTreeSet<String>,
    round: i64,
    /// Rows that got their time here.
    pub(super) rows: u64,
}

impl Rounds {
    /// Time of the next row, which is about `device`.
    pub(super) fn time(&mut self, device: &str) -> i64 {
        if self.seen.contains(device) || self.seen.len() >= MAX_DEVICES {
            self.seen.clear();
            self.round += 1;
        }
        self.seen.insert(device.to_string());
        self.rows += 1;
        (self.round + 1) * ORDER_STEP_NS
    }

    /// Says that the times are not real.
    pub(super) fn report(&self, builder: &mut Builder<'_>) {
        if self.rows > 0 {
            let sentence = "expected a time in each row, found none; rounds of rows are laid a second apart, so that only their order and \
                            their mean mean something";
            builder.issue(Severity::Note, "rows_without_time", "", self.rows, sentence);
        }
    }
}

/// Words that stand for a value that is not there.
pub(super) fn is_absent(cell: &str) -> bool {
    let bare = cell.trim_start_matches('[').trim_end_matches(']');
    matches!(bare, "" | "-" | "N/A" | "Not Supported" | "Insufficient Permissions" | "Unknown" | "Not Found")
}

/// A number, as the tools write it.
pub(super) fn number(cell: &str) -> Option<f64> {
    parse_f64(cell.as_bytes())
}

/// A mask of reasons: hex, or a decimal number.
pub(super) fn mask(cell: &str) -> Option<u64> {
    match cell.strip_prefix("0x").or_else(|| cell.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => cell.parse().ok(),
    }
}

/// Brings rows in local time to the host clock, and says how.
pub(super) fn align(span: Option<(i64, i64)>, builder: &mut Builder<'_>) {
    let Some(span) = span else { return };
    let shift = clocks::find_shift(span, None, builder.context);
    if shift.offset_ns != 0 {
        builder.capture.tables.samples.t_ns.iter_mut().for_each(|t_ns| *t_ns = t_ns.saturating_add(shift.offset_ns));
    }
    let shifted = [span.0, span.1].map(|t_ns| t_ns.saturating_add(shift.offset_ns));
    builder.facts.local_span = Some((shifted[0], shifted[1]));
    if !shift.overlaps {
        let sentence = "expected the rows to cover the time of the other sources, found no time in common: they may be of another run";
        builder.issue(Severity::Warning, "telemetry_apart", "", 1, sentence);
    }
    let source = builder.name().to_string();
    builder.capture.manifest.clocks.push(ClockAlignment {
        source,
        domain: "local time".to_string(),
        offset_ns: shift.offset_ns,
        error_ns: shift.error_ns,
        method: shift.method,
        ..ClockAlignment::default()
    });
}
