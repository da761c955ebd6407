//! The host code around waits and copies: the innermost operator and Python frame that enclose each such call.
//!
//! Operators and frames are most of a trace and are not kept; those around a `Synchronize` or a `Memcpy` say which line of
//! code waits. Calls come later in the file than the code around them, so candidates are held with their times only, and
//! when there are too many the shorter half goes: what encloses a call is no shorter than the call, and a call that costs
//! time is long.

use capture::tables::{HostEvent, HostEvents};
use capture::{Name, SourceIdx};

/// Candidates held for one source; 24 bytes each.
pub(super) const MAX_CANDIDATES: usize = 1 << 19;

/// An operator or a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) start_ns: i64,
    pub(super) duration_ns: i64,
    pub(super) thread: u32,
    /// Name in the index space of its holder; the highest bit tells frames.
    name_and_kind: u32,
}

const FRAME_BIT: u32 = 1 << 31;

impl Candidate {
    fn is_frame(self) -> bool {
        self.name_and_kind & FRAME_BIT != 0
    }

    fn name(self) -> Name {
        Name(self.name_and_kind & !FRAME_BIT)
    }

    fn end_ns(self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    held: Vec<Candidate>,
    /// Shorter ones are not taken any more.
    shortest_ns: i64,
    limit: usize,
}

impl Candidates {
    pub(super) fn new(limit: usize) -> Self {
        Self { held: Vec::new(), shortest_ns: 0, limit }
    }

    /// True when one of this duration would be held.
    pub(super) fn wants(&self, duration_ns: i64) -> bool {
        duration_ns >= self.shortest_ns
    }

    pub(super) fn add(&mut self, start_ns: i64, duration_ns: i64, thread: u32, name: Name, is_frame: bool) {
        if self.held.len() >= self.limit {
            self.drop_shorter_half();
        }
        let name_and_kind = name.0 | if is_frame { FRAME_BIT } else { 0 };
        self.held.push(Candidate { start_ns, duration_ns, thread, name_and_kind });
    }

    fn drop_shorter_half(&mut self) {
        let middle = self.held.len() / 2;
        let (_, median, _) = self.held.select_nth_unstable_by_key(middle, |candidate| candidate.duration_ns);
        // All of one duration: the later ones are not taken.
        self.shortest_ns = median.duration_ns.saturating_add(1);
        let shortest = self.shortest_ns;
        self.held.retain(|candidate| candidate.duration_ns >= shortest);
    }

    /// Moves the names into another index space and appends.
    pub(super) fn absorb(&mut self, other: Self, names: &[Name]) {
        self.held.extend(other.held.into_iter().map(|mut candidate| {
            let name = names.get(candidate.name().0 as usize).copied().unwrap_or(Name::EMPTY);
            candidate.name_and_kind = name.0 | candidate.name_and_kind & FRAME_BIT;
            candidate
        }));
    }

    /// Everything held, as rows.
    pub(super) fn into_all(self, row: &RowOf, into: &mut HostEvents) {
        for candidate in &self.held {
            into.push(row.of(candidate));
        }
    }

    /// Adds rows for what encloses the calls in `calls`, given as (thread, start, end).
    pub(super) fn into_enclosing(mut self, mut calls: Vec<(u32, i64, i64)>, row: &RowOf, into: &mut HostEvents) {
        calls.sort_unstable();
        let order = |candidate: &Candidate| (candidate.thread, candidate.start_ns, std::cmp::Reverse(candidate.duration_ns));
        self.held.sort_unstable_by_key(order);
        let mut open: [Vec<usize>; 2] = Default::default();
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
                    let stack = &mut open[usize::from(candidate.is_frame())];
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
            kind: if candidate.is_frame() { self.frame } else { self.op },
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
        let mut candidates = Candidates::new(100);
        for (start, duration, thread, name, is_frame) in [
            (0, 100, 1, 1, true),
            (10, 20, 1, 2, true),
            (12, 10, 1, 3, false),
            (50, 5, 1, 4, false),
            (12, 10, 2, 5, false),
            (40, 2, 1, 6, true),
        ] {
            candidates.add(start, duration, thread, Name(name), is_frame);
        }
        let row = RowOf { run_idx: 0, process: 7, op: Name(20), frame: Name(21), source_idx: SourceIdx(0), base_ns: 0 };
        let mut rows = HostEvents::default();
        candidates.into_enclosing(vec![(1, 60, 61), (1, 13, 20), (1, 14, 15), (3, 13, 14)], &row, &mut rows);
        let told: Vec<(u32, u32)> = rows.rows().map(|row| (row.kind.0, row.name.0)).collect();
        assert_eq!(told, [(20, 3), (21, 2), (21, 1)]);
    }

    #[test]
    fn too_many_candidates_lose_the_short_ones() {
        let mut candidates = Candidates::new(1_000);
        for at in 0..10_000 {
            if candidates.wants(at % 100) {
                candidates.add(at, at % 100, 1, Name(1), false);
            }
        }
        assert!(candidates.held.len() <= 1_000 && candidates.shortest_ns > 50);
        let mut same = Candidates::new(10);
        for at in 0..1_000 {
            if same.wants(5) {
                same.add(at, 5, 1, Name(1), false);
            }
        }
        assert!(same.held.len() <= 10);
    }
}
