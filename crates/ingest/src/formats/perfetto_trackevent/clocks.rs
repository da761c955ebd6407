//! The clocks of a trace: which one a time was read from, and how it is compared with the others.
//!
//! All times are brought to one clock of the trace while it is read, and from there to real time at its end.

use std::collections::BTreeMap;

use super::wire::fields;

/// Ids of clocks that every trace may have.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// Ids from here belong to the sequence of packets that defines them.
const FIRST_OF_SEQUENCE: u32 = 64;
const MAX_CLOCKS: usize = 1 << 16;

/// Fields of a snapshot and of a clock in it.
const CLOCKS: u32 = 1;
const CLOCK_ID: u32 = 1;
const VALUE: u32 = 2;
const IS_INCREMENTAL: u32 = 3;
const MULTIPLIER: u32 = 4;

/// A clock that a sequence defines.
#[derive(Clone, Copy, Debug)]
struct Own {
    is_incremental: bool,
    multiplier_ns: i64,
    /// Last time read from an incremental clock.
    last_ns: i64,
    /// Added to get the time of the trace.
    offset_ns: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    own: BTreeMap<(u64, u32), Own>,
    /// Added to the times of a clock to get those of the trace's clock.
    to_trace: BTreeMap<u32, i64>,
    to_real: Option<i64>,
}

impl Clocks {
    /// Takes a snapshot that stands in a packet of `sequence`.
    pub(super) fn snapshot(&mut self, message: &[u8], sequence: u64) {
        let mut readings: Vec<(u32, i64, bool, i64)> = Vec::new();
        for (_, clock) in fields(message).filter(|(number, _)| *number == CLOCKS).take(64) {
            let (mut id, mut value, mut is_incremental, mut multiplier) = (0, 0, false, 1);
            for (number, field) in fields(clock.bytes()) {
                match number {
                    CLOCK_ID => id = field.int() as u32,
                    VALUE => value = field.signed(),
                    IS_INCREMENTAL => is_incremental = field.int() != 0,
                    MULTIPLIER => multiplier = field.signed().clamp(1, 1_000_000_000),
                    _ => {}
                }
            }
            readings.push((id, value, is_incremental, multiplier));
        }
        let of = |wanted: u32| readings.iter().find(|reading| reading.0 == wanted).map(|reading| reading.1);
        let Some(trace_ns) =
            of(BOOTTIME).or_else(|| readings.iter().find(|reading| reading.0 < FIRST_OF_SEQUENCE).map(|reading| reading.1))
        else {
            return;
        };
        if let Some(real_ns) = of(REALTIME).filter(|_| self.to_real.is_none()) {
            self.to_real = real_ns.checked_sub(trace_ns);
        }
        for &(id, value, is_incremental, multiplier_ns) in &readings {
            let value_ns = value.saturating_mul(multiplier_ns);
            let offset_ns = trace_ns.saturating_sub(value_ns);
            if id < FIRST_OF_SEQUENCE {
                self.to_trace.entry(id).or_insert(offset_ns);
            } else if self.own.len() < MAX_CLOCKS {
                self.own.insert((sequence, id), Own { is_incremental, multiplier_ns, last_ns: value_ns, offset_ns });
            }
        }
    }

    /// A time of the trace out of what a packet tells.
    pub(super) fn time(&mut self, value: u64, clock: Option<u32>, sequence: u64) -> Option<i64> {
        let value = i64::try_from(value).ok()?;
        let clock = clock.unwrap_or(BOOTTIME);
        if clock < FIRST_OF_SEQUENCE {
            return value.checked_add(self.to_trace.get(&clock).copied().unwrap_or(0));
        }
        let own = self.own.get_mut(&(sequence, clock))?;
        let value_ns = value.checked_mul(own.multiplier_ns)?;
        own.last_ns = if own.is_incremental { own.last_ns.checked_add(value_ns)? } else { value_ns };
        own.last_ns.checked_add(own.offset_ns)
    }

    /// Added to times of the trace to get real time, where a snapshot tells.
    pub(super) fn to_real(&self) -> Option<i64> {
        self.to_real
    }
}
