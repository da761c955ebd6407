//! The host code around waits and copies: the innermost operator and Python frame that enclose each such call.
//!
//! Operators and frames are most of a trace and are not kept; those around a `Synchronize` or a `Memcpy` say which line of
//! code waits. Calls come later in the file than the code around them, so candidates are held with their times only, and
//! when there are too many the longest stay: what encloses a call is no shorter than the call, and a call that costs time
//! is long. Which ones stay depends on the file alone, not on who read which part of it.

use capture::tables::{HostEvent, HostEvents};
use capture::{Name, SourceIdx};

/// Candidates of one source that stay; 24 bytes each, and half as many more while they are gathered.
pub(super) const MAX_CANDIDATES: usize = 1 << 19;

/// An operator or a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) start_ns: i64,
    pub(super) duration_ns: i64,
    pub(super) thread: u32,
    /// Name in the index space of its holder; the highest bits tell the kind.
    name_and_kind: u32,
}

const KIND_SHIFT: u32 = 30;
const NAME_MASK: u32 = (1 << KIND_SHIFT) - 1;

/// What encloses a call. The innermost frame is often a built-in one, which says what is done; the innermost one with a
/// place in a source file says who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enclosing {
    Op,
    BuiltIn,
    Frame,
}

const KINDS: [Enclosing; 3] = [Enclosing::Op, Enclosing::BuiltIn, Enclosing::Frame];

impl Candidate {
    fn kind_idx(self) -> usize {
        (self.name_and_kind >> KIND_SHIFT) as usize
    }

    fn name(self) -> Name {
        Name(self.name_and_kind & NAME_MASK)
    }

    fn with_name(mut self, name: Name) -> Self {
        self.name_and_kind = self.name_and_kind & !NAME_MASK | name.0 & NAME_MASK;
        self
    }

    fn end_ns(self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Candidates {
    held: Vec<Candidate>,
    /// Only longer ones are taken.
    longer_than_ns: i64,
    limit: usize,
}

impl Candidates {
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Vec::new(), longer_than_ns: -1, limit }
    }

    /// Shorter ones would not be held.
    #[inline]
    pub(super) fn min_ns(&self) -> i64 {
        self.longer_than_ns.saturating_add(1)
    }

    pub(super) fn add(&mut self, start_ns: i64, duration_ns: i64, thread: u32, name: Name, kind: Enclosing) {
        if self.held.len() >= self.limit.saturating_add(self.limit / 2) {
            self.keep_longest();
        }
        let name_and_kind = (kind as u32) << KIND_SHIFT | name.0 & NAME_MASK;
        self.held.push(Candidate { start_ns, duration_ns, thread, name_and_kind });
    }

    /// Keeps those longer than the longest that has to go: what is among the longest of all is among those of its part.
    fn keep_longest(&mut self) {
        if self.held.len() <= self.limit {
            return;
        }
        let by_length = |candidate: &Candidate| std::cmp::Reverse(candidate.duration_ns);
        let (_, first_to_go, _) = self.held.select_nth_unstable_by_key(self.limit, by_length);
        let longer_than_ns = first_to_go.duration_ns;
        self.longer_than_ns = longer_than_ns;
        self.held.retain(|candidate| candidate.duration_ns > longer_than_ns);
    }

    /// Moves the names into another index space.
    pub(super) fn remap(&mut self, names: &[Name]) {
        for candidate in &mut self.held {
            *candidate = candidate.with_name(names.get(candidate.name().0 as usize).copied().unwrap_or(Name::EMPTY));
        }
    }

    /// Takes those of another part of the file, which must share the index space.
    pub(super) fn append(&mut self, mut other: Self) {
        self.held.append(&mut other.held);
        self.keep_longest();
    }

    /// Everything held, as rows.
    pub(super) fn into_all(mut self, row: &RowOf, into: &mut HostEvents) {
        self.keep_longest();
        for candidate in &self.held {
            into.push(row.of(candidate));
        }
    }

    /// Adds rows for what encloses the calls in `calls`, given as (thread, start, end).
    pub(super) fn into_enclosing(mut self, mut calls: Vec<(u32, i64, i64)>, row: &RowOf, into: &mut HostEvents) {
        self.keep_longest();
        calls.sort_unstable();
        let order = |candidate: &Candidate| (candidate.thread, candidate.start_ns, std::cmp::Reverse(candidate.duration_ns));
        // Writers put events in order of time, kind by kind: a stable sort joins these runs.
        self.held.sort_by_key(order);
        let mut open: [Vec<usize>; KINDS.len()] = Default::default();
        let mut is_told = vec![false; self.held.len()];
        let mut next = 0;
        let mut thread = None;
        for (of_thread, start_ns, end_ns) in calls {
            if thread != Some(of_thread) {
                open.iter_mut().for_each(Vec::clear);
                thread = Some(of_thread);
            }
            while let Some(candidate) = self.held.get(next).filter(|it| (it.thread, it.start_ns) <= (of_thread, start_ns)) {
                if candidate.thread == of_thread {
                    let stack = &mut open[candidate.kind_idx()];
                    close_before(stack, &self.held, candidate.start_ns);
                    stack.push(next);
                }
                next += 1;
            }
            for stack in &mut open {
                close_before(stack, &self.held, start_ns);
                let innermost = stack.iter().rev().find(|at| self.held[**at].end_ns() >= end_ns);
                if let Some(&at) = innermost
                    && !std::mem::replace(&mut is_told[at], true)
                {
                    into.push(row.of(&self.held[at]));
                }
            }
        }
    }
}

/// Takes what ended before `t_ns` from the top of the stack.
fn close_before(stack: &mut Vec<usize>, held: &[Candidate], t_ns: i64) {
    while stack.last().is_some_and(|at| held[*at].end_ns() < t_ns) {
        stack.pop();
    }
}

/// What all rows of host code of a file share.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOf {
    pub(super) run_idx: u32,
    pub(super) process: u32,
    pub(super) op: Name,
    pub(super) frame: Name,
    pub(super) source_idx: SourceIdx,
    /// Added to the times of the file.
    pub(super) base_ns: i64,
}

impl RowOf {
    fn of(&self, candidate: &Candidate) -> HostEvent {
        HostEvent {
            t_start_ns: candidate.start_ns.saturating_add(self.base_ns),
            t_end_ns: candidate.end_ns().saturating_add(self.base_ns),
            run_idx: self.run_idx,
            process: self.process,
            thread: candidate.thread,
            kind: if KINDS.get(candidate.kind_idx()) == Some(&Enclosing::Op) { self.op } else { self.frame },
            name: candidate.name(),
            correlation: 0,
            source_idx: self.source_idx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_of_each_kind_is_told_once() {
        use Enclosing::{BuiltIn, Frame, Op};
        let mut candidates = Candidates::new(100);
        for (start, duration, thread, name, kind) in [
            (0, 100, 1, 1, Frame),
            (10, 20, 1, 2, Frame),
            (12, 10, 1, 3, Op),
            (11, 12, 1, 7, BuiltIn),
            (50, 5, 1, 4, Op),
            (12, 10, 2, 5, Op),
            (40, 2, 1, 6, Frame),
        ] {
            candidates.add(start, duration, thread, Name(name), kind);
        }
        let row = RowOf { run_idx: 0, process: 7, op: Name(20), frame: Name(21), source_idx: SourceIdx(0), base_ns: 1_000 };
        let mut rows = HostEvents::default();
        candidates.into_enclosing(vec![(1, 60, 61), (1, 13, 20), (1, 14, 15), (3, 13, 14)], &row, &mut rows);
        let told: Vec<(u32, u32)> = rows.rows().map(|row| (row.kind.0, row.name.0)).collect();
        assert_eq!(told, [(20, 3), (21, 7), (21, 2), (21, 1)]);
        assert_eq!(rows.t_start_ns[0], 1_012);
    }

    #[test]
    fn the_longest_stay_whoever_read_them() {
        let durations: Vec<i64> = (0..10_000i64).map(|at| at * 7_919 % 1_000).collect();
        let gather = |parts: usize| {
            let mut all = Candidates::new(1_000);
            for part in 0..parts {
                let mut own = Candidates::new(1_000);
                for (at, &duration) in durations.iter().enumerate().filter(|(at, _)| at % parts == part) {
                    if duration >= own.min_ns() {
                        own.add(at as i64, duration, 1, Name(1), Enclosing::Op);
                    }
                }
                all.append(own);
            }
            all.keep_longest();
            let mut held: Vec<(i64, i64)> = all.held.iter().map(|it| (it.duration_ns, it.start_ns)).collect();
            held.sort_unstable();
            held
        };
        let one = gather(1);
        assert!(one.len() <= 1_000 && one.len() > 900, "{}", one.len());
        assert_eq!(one, gather(3));
        assert_eq!(one, gather(7));
    }
}
