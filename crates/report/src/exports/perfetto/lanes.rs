//! Which track a slice goes to: slices of one track are nested or follow each other, so those that overlap get a lane more.

use std::collections::{BTreeSet, HashMap};
use std::io;

use super::sink::{Curve, Group, Lane, Sink, Slice};
use super::{MAX_LANES, Written};

/// A stream, thread or other row of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row(usize);

/// The trace while it is written.
#[derive(Debug)]
pub(super) struct Scene<S> {
    sink: S,
    origin_ns: i64,
    rows: Vec<RowState>,
    /// Process ids that stand for processes, and those given to other groups.
    taken_pids: BTreeSet<u32>,
    /// Numbers taken within each group.
    taken_tids: HashMap<u32, BTreeSet<u32>>,
    next_track: u64,
    written: Written,
}

#[derive(Debug)]
struct RowState {
    pid: u32,
    tid: u32,
    name: String,
    lanes: Vec<LaneState>,
}

#[derive(Debug)]
struct LaneState {
    track: u64,
    /// Ends of the open slices, innermost last.
    open: Vec<i64>,
}

impl<S: Sink> Scene<S> {
    /// An empty trace; `origin_ns` is the time that is written as 0.
    pub(super) fn new(sink: S, origin_ns: i64) -> Self {
        Self {
            sink,
            origin_ns,
            rows: Vec::new(),
            taken_pids: BTreeSet::new(),
            taken_tids: HashMap::new(),
            next_track: 1,
            written: Written::default(),
        }
    }

    /// Keeps a number for the process that has it.
    pub(super) fn reserve_pid(&mut self, pid: u32) {
        self.taken_pids.insert(pid);
    }

    /// Announces a group, with the number of a process or, for `None`, one of its own.
    pub(super) fn group(&mut self, pid: Option<u32>, name: &str) -> io::Result<u32> {
        let pid = pid.unwrap_or_else(|| free_number(&self.taken_pids, 1));
        self.taken_pids.insert(pid);
        self.sink.group(Group { pid, name })?;
        Ok(pid)
    }

    /// A row of slices of the group `pid`; `tid` is its number where that is free.
    pub(super) fn row(&mut self, pid: u32, tid: u32, name: &str) -> Row {
        self.rows.push(RowState { pid, tid, name: name.to_string(), lanes: Vec::new() });
        Row(self.rows.len() - 1)
    }

    /// A curve of the group `pid`.
    pub(super) fn curve(&mut self, pid: u32, name: &str, unit: &str) -> io::Result<u64> {
        let track = self.track();
        self.sink.curve(Curve { track, pid, name, unit })?;
        Ok(track)
    }

    /// A slice of a row. Those of one row come in the order of their starts, of equal starts the longest first.
    pub(super) fn slice(&mut self, row: Row, start_ns: i64, end_ns: i64, slice: &Slice<'_>) -> io::Result<()> {
        let end_ns = end_ns.max(start_ns);
        for at in 0..MAX_LANES {
            if self.rows[row.0].lanes.len() == at {
                self.open_lane(row)?;
            }
            let lane = &mut self.rows[row.0].lanes[at];
            while let Some(&ended_ns) = lane.open.last()
                && ended_ns <= start_ns
            {
                lane.open.pop();
                self.sink.end(lane.track, time(self.origin_ns, ended_ns))?;
            }
            if lane.open.last().is_none_or(|&outer_ns| outer_ns >= end_ns) {
                lane.open.push(end_ns);
                self.written.slice_count += 1;
                return self.sink.begin(lane.track, time(self.origin_ns, start_ns), slice);
            }
        }
        self.written.left_out_count += 1;
        Ok(())
    }

    /// A value of a curve; what is no number is no value.
    pub(super) fn value(&mut self, track: u64, t_ns: i64, value: f64) -> io::Result<()> {
        if !value.is_finite() {
            return Ok(());
        }
        self.written.value_count += 1;
        self.sink.value(track, time(self.origin_ns, t_ns), value)
    }

    /// Ends what is open.
    pub(super) fn finish(mut self) -> io::Result<Written> {
        for lane in self.rows.iter_mut().flat_map(|row| &mut row.lanes) {
            while let Some(end_ns) = lane.open.pop() {
                self.sink.end(lane.track, time(self.origin_ns, end_ns))?;
            }
        }
        self.sink.finish()?;
        Ok(self.written)
    }

    fn open_lane(&mut self, row: Row) -> io::Result<()> {
        let track = self.track();
        let state = &mut self.rows[row.0];
        let number = state.lanes.len() + 1;
        let name = if number == 1 { state.name.clone() } else { format!("{} ({number})", state.name) };
        let taken = self.taken_tids.entry(state.pid).or_default();
        let tid = free_number(taken, state.tid);
        taken.insert(tid);
        state.lanes.push(LaneState { track, open: Vec::new() });
        let pid = state.pid;
        self.sink.lane(Lane { track, pid, tid, name: &name })
    }

    fn track(&mut self) -> u64 {
        self.written.track_count += 1;
        self.next_track += 1;
        self.next_track - 1
    }
}

/// The wished number, or the next one that is free; there are fewer tracks than numbers.
fn free_number(taken: &BTreeSet<u32>, wish: u32) -> u32 {
    let mut number = wish;
    while taken.contains(&number) {
        number = number.wrapping_add(1);
    }
    number
}

fn time(origin_ns: i64, t_ns: i64) -> u64 {
    u64::try_from(i128::from(t_ns) - i128::from(origin_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::sink::Text;
    use super::*;

    /// Tells what it is told.
    #[derive(Default)]
    struct Told(Vec<String>);

    impl Sink for &mut Told {
        fn group(&mut self, group: Group<'_>) -> io::Result<()> {
            self.0.push(format!("group {} {}", group.pid, group.name));
            Ok(())
        }
        fn lane(&mut self, lane: Lane<'_>) -> io::Result<()> {
            self.0.push(format!("lane {} {}", lane.track, lane.name));
            Ok(())
        }
        fn curve(&mut self, curve: Curve<'_>) -> io::Result<()> {
            self.0.push(format!("curve {} {}", curve.track, curve.name));
            Ok(())
        }
        fn begin(&mut self, track: u64, t_ns: u64, slice: &Slice<'_>) -> io::Result<()> {
            self.0.push(format!("{track}: {t_ns} {}", slice.name.text));
            Ok(())
        }
        fn end(&mut self, track: u64, t_ns: u64) -> io::Result<()> {
            self.0.push(format!("{track}: {t_ns} end"));
            Ok(())
        }
        fn value(&mut self, track: u64, t_ns: u64, value: f64) -> io::Result<()> {
            self.0.push(format!("{track}: {t_ns} {value}"));
            Ok(())
        }
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(slices: &[(i64, i64)], expected: &[&str]) {
        let mut told = Told::default();
        let mut scene = Scene::new(&mut told, slices.iter().map(|(start, _)| *start).min().unwrap_or(0).min(0));
        let row = scene.row(1, 7, "s");
        for (at, &(start_ns, end_ns)) in slices.iter().enumerate() {
            let name = ["a", "b", "c", "d"][at];
            scene
                .slice(row, start_ns, end_ns, &Slice { name: Text::once(name), category: "", details: &[], flow_out: 0, flow_in: 0 })
                .unwrap();
        }
        scene.finish().unwrap();
        assert_eq!(told.0, expected);
    }

    #[test]
    fn nested_slices_share_a_lane() {
        check(&[(0, 10), (0, 4), (4, 10)], &["lane 1 s", "1: 0 a", "1: 0 b", "1: 4 end", "1: 4 c", "1: 10 end", "1: 10 end"]);
    }

    #[test]
    fn overlapping_slices_get_a_lane_more() {
        check(
            &[(0, 10), (5, 15), (12, 20)],
            &["lane 1 s", "1: 0 a", "lane 2 s (2)", "2: 5 b", "1: 10 end", "1: 12 c", "1: 20 end", "2: 15 end"],
        );
    }

    #[test]
    fn times_before_zero_are_moved_and_ends_before_starts_are_empty() {
        check(&[(-5, -9), (3, 3)], &["lane 1 s", "1: 0 a", "1: 0 end", "1: 8 b", "1: 8 end"]);
    }
}
