//! Copies and memsets by direction and kind of memory.

use capture::Name;

use super::few::Few;
use super::intervals::RunningUnion;
use super::timeline::{Class, Event, Timeline};

/// All copies of one direction and kind of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyFlow {
    /// `HtoD`, `DtoH`, `DtoD`, `PtoP`, `memset`; as recorded where it has another form.
    pub direction: String,
    /// Kind of memory it comes from, `Pageable`, `Pinned`, `Device`; empty where not told (AMD does not).
    pub from: String,
    /// Kind of memory it goes to; empty where not told.
    pub to: String,
    /// Copies.
    pub count: u64,
    /// Bytes, as far as told.
    pub bytes: i64,
    /// Copies without a number of bytes.
    pub without_bytes: u64,
    /// Sum of their lengths, ns.
    pub total_ns: i64,
    /// Time with at least one of them running, ns.
    pub union_ns: i64,
    /// Time of those whose bytes are told, ns.
    pub told_ns: i64,
}

impl CopyFlow {
    /// Bytes/s while copies run, over those whose bytes are told.
    pub fn bandwidth_bytes_per_s(&self) -> Option<f64> {
        (self.told_ns > 0 && self.bytes > 0).then(|| self.bytes as f64 / (self.told_ns as f64 * 1e-9))
    }

    /// True when the host's memory is pageable: the driver stages such copies, and the call waits.
    pub fn is_pageable(&self) -> bool {
        self.from == "Pageable" || self.to == "Pageable"
    }

    /// True when bytes cross the link to the host.
    pub fn crosses_host_link(&self) -> bool {
        self.direction == "HtoD" || self.direction == "DtoH"
    }
}

/// Adds copies and memsets up in order of start.
#[derive(Clone, Debug, Default)]
pub struct CopyTally {
    by_name: Few<(bool, Name), (CopyFlow, RunningUnion)>,
}

impl CopyTally {
    /// Adds an event where it copies or fills.
    pub fn add(&mut self, timeline: &Timeline<'_>, event: &Event) {
        let is_memset = match event.class {
            Class::Copy => false,
            Class::Memset => true,
            Class::Compute | Class::Communication => return,
        };
        let name = if is_memset { Name::EMPTY } else { event.name };
        let (flow, union) = self.by_name.entry((is_memset, name), Default::default);
        let bytes = timeline.bytes(event);
        flow.count += 1;
        flow.bytes = flow.bytes.saturating_add(bytes);
        flow.without_bytes += u64::from(bytes == 0);
        flow.total_ns = flow.total_ns.saturating_add(event.duration_ns());
        flow.told_ns = flow.told_ns.saturating_add(if bytes > 0 { event.duration_ns() } else { 0 });
        union.add(event.start_ns, event.end_ns);
    }

    /// The flows, the most time first.
    pub fn flows(self, timeline: &Timeline<'_>) -> Vec<CopyFlow> {
        let named = |((is_memset, name), (flow, union)): ((bool, Name), (CopyFlow, RunningUnion))| {
            let (direction, from, to) = if is_memset { ("memset", "", "") } else { parts(timeline.text(name)) };
            CopyFlow { direction: direction.into(), from: from.into(), to: to.into(), union_ns: union.measure_ns(), ..flow }
        };
        let mut flows: Vec<CopyFlow> = self.by_name.into_pairs().map(named).collect();
        flows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| (&a.direction, &a.from, &a.to).cmp(&(&b.direction, &b.from, &b.to))));
        flows
    }
}

/// Direction and memory of `HtoD Pageable -> Device`.
fn parts(name: &str) -> (&str, &str, &str) {
    let (direction, memory) = name.split_once(' ').unwrap_or((name, ""));
    let (from, to) = memory.split_once("->").map_or(("", ""), |(from, to)| (from.trim(), to.trim()));
    (direction, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copys_name_holds_direction_and_memory() {
        assert_eq!(parts("HtoD Pageable -> Device"), ("HtoD", "Pageable", "Device"));
        assert_eq!(parts("DtoH Device -> Managed Static"), ("DtoH", "Device", "Managed Static"));
        assert_eq!(parts("DtoD"), ("DtoD", "", ""));
    }
}
