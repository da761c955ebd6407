//! Why a device was idle: each stretch in which nothing runs on it is charged by the event that ends it.
//!
//! Until its launching call began the host was late, and in that time the host sat in a synchronizing call, was held up
//! by the profiler, allocated or freed memory, waited for data, had lost its CPU, was between two steps, or did something else. From the call on the work was launched and not yet
//! running. Work without a call in the recording tells nothing: `unlinked`. The parts add up to the idle time.

use std::collections::BTreeMap;
use std::ops::Range;

use capture::{Name, SourceIdx};

use super::few::Few;
use super::intervals::{self, Run};
use super::near::partition_point_near;
use super::timeline::{Event, Lane, NO_CALL, Timeline};

/// Idle time by cause, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleParts {
    /// Launched, not yet running.
    pub launch_ns: i64,
    /// The host was late and did something else.
    pub host_ns: i64,
    /// The host was late since it sat in a synchronizing call.
    pub sync_ns: i64,
    /// The host was late since it was between two steps.
    pub between_steps_ns: i64,
    /// The host was late since it allocated or freed device memory.
    pub allocation_ns: i64,
    /// The host was late since it waited for the next batch of a data loader.
    pub data_ns: i64,
    /// The host was late since its thread was off its CPU, without waiting for anything that was recorded.
    pub off_cpu_ns: i64,
    /// The host was late since the profiler held it up or code was loaded.
    pub profiler_ns: i64,
    /// The work that ends it has no launch in the recording.
    pub unlinked_ns: i64,
}

impl IdleParts {
    /// Number of causes.
    pub const COUNT: usize = 9;

    /// The parts by name, in order of the account.
    pub fn named(&self) -> [(&'static str, i64); Self::COUNT] {
        [
            ("launch", self.launch_ns),
            ("host", self.host_ns),
            ("sync", self.sync_ns),
            ("between_steps", self.between_steps_ns),
            ("allocation", self.allocation_ns),
            ("data", self.data_ns),
            ("off_cpu", self.off_cpu_ns),
            ("profiler", self.profiler_ns),
            ("unlinked", self.unlinked_ns),
        ]
    }

    /// All of it, ns.
    pub fn total_ns(&self) -> i64 {
        self.named().iter().map(|(_, ns)| ns).sum()
    }

    /// Time in which the host was late, whatever it did, ns.
    pub fn host_late_ns(&self) -> i64 {
        self.host_ns + self.sync_ns + self.between_steps_ns + self.profiler_ns + self.allocation_ns + self.data_ns + self.off_cpu_ns
    }

    /// Adds the parts of another device or stretch.
    pub fn add(&mut self, other: &Self) {
        self.launch_ns = self.launch_ns.saturating_add(other.launch_ns);
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
        self.sync_ns = self.sync_ns.saturating_add(other.sync_ns);
        self.between_steps_ns = self.between_steps_ns.saturating_add(other.between_steps_ns);
        self.allocation_ns = self.allocation_ns.saturating_add(other.allocation_ns);
        self.data_ns = self.data_ns.saturating_add(other.data_ns);
        self.off_cpu_ns = self.off_cpu_ns.saturating_add(other.off_cpu_ns);
        self.profiler_ns = self.profiler_ns.saturating_add(other.profiler_ns);
        self.unlinked_ns = self.unlinked_ns.saturating_add(other.unlinked_ns);
    }
}

/// No launch from a framework takes this long, ns: the slowest dispatch in Python takes some hundred microseconds.
const LONGEST_LAUNCH_NS: i64 = 1_000_000;
/// Between queued kernels of one stream a device needs some microseconds at most, ns.
const LONGEST_START_NS: i64 = 20_000;

/// Idle time of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// All of it: adds up to the account's idle time.
    pub parts: IdleParts,
    /// Of it what is certain to be idle: stretches between two pieces of work of one stream, both launched in the
    /// recording. Elsewhere another recording may hold what ran.
    pub trusted: IdleParts,
    /// Of the trusted time the host's part in stretches that began while the host sat in a synchronizing call, as far as it
    /// had waited there before: with that time it could have run ahead. Part of host, sync, between steps or profiler above.
    pub after_sync_ns: i64,
    /// Number of those stretches.
    pub after_sync_gaps: u64,
    /// Of the trusted launch time what follows a late call: nothing was queued, so that the start of the work waited for too.
    pub late_start_ns: i64,
    /// Of the trusted time of a host that was late for no known reason what lies in stretches longer than any launch takes:
    /// data loading, allocation, first use. The launches themselves are the rest.
    pub long_host_ns: i64,
    /// Number of those stretches.
    pub long_host_gaps: u64,
    /// Of the trusted launch time before queued work what lies in stretches as short as the start of a kernel is.
    pub short_start_ns: i64,
    /// Stretches that ended since the host was late, not counting unlinked ones.
    pub host_late_gaps: u64,
    /// Stretches that ended with work that had been launched before they began.
    pub queued_gaps: u64,
    /// Stretches that ended with unlinked work.
    pub unlinked_gaps: u64,
    /// The longest stretch, ns, and when it began.
    pub longest_ns: i64,
    /// Start of the longest stretch.
    pub longest_start_ns: i64,
}

/// What is kept of the work that ended last.
#[derive(Clone, Copy, Debug)]
pub struct Last {
    end_ns: i64,
    stream: u32,
    is_launched: bool,
    /// Where its process' synchronizing calls were looked through last.
    near: usize,
}

impl Default for Last {
    fn default() -> Self {
        Self { end_ns: i64::MIN, stream: 0, is_launched: false, near: 0 }
    }
}

/// What the host did over time, for one arm: kept as unions so that each stretch is a search.
#[derive(Debug, Default)]
pub struct HostStates {
    processes: Few<(SourceIdx, u32), ProcessStates>,
    profiler: BTreeMap<SourceIdx, Vec<Run>>,
    /// By thread, when it was off its CPU and not in a call that waits.
    off_cpu: Few<(SourceIdx, u32, u32), Vec<Run>>,
}

/// What one process did over time.
#[derive(Debug, Default)]
struct ProcessStates {
    sync: Vec<Run>,
    steps: Vec<Run>,
    allocation: Vec<Run>,
    data: Vec<Run>,
}

/// Calls of the allocator that take less are no reason to be late, ns.
const SHORT_ALLOCATION_NS: i64 = 20_000;
/// How frameworks mark the wait for a batch.
pub(super) const DATA_RANGES: [&str; 2] = ["enumerate(DataLoader)", "dataloader.__next__"];

impl HostStates {
    /// Reads them; `steps` are the host's intervals of engine steps by file and process.
    pub fn read(timeline: &Timeline<'_>, steps: BTreeMap<(SourceIdx, u32), Vec<Run>>) -> Self {
        let mut states = Self::default();
        let calls = &timeline.calls;
        for &call in calls.syncs() {
            states.processes.entry(calls.process(call), Default::default).sync.push((calls.start_ns(call), calls.end_ns(call)));
        }
        for &call in calls.allocations() {
            let run = (calls.start_ns(call), calls.end_ns(call));
            if run.1 - run.0 >= SHORT_ALLOCATION_NS {
                states.processes.entry(calls.process(call), Default::default).allocation.push(run);
            }
        }
        for (process, runs) in steps {
            states.processes.entry(process, Default::default).steps = runs;
        }
        states.processes.each(|process| {
            process.sync = intervals::union(std::mem::take(&mut process.sync));
            process.steps = intervals::union(std::mem::take(&mut process.steps));
            process.allocation = intervals::union(std::mem::take(&mut process.allocation));
        });
        states.read_data(timeline);
        states.read_off_cpu(timeline);
        let table = &timeline.capture().tables.host_events;
        for row in timeline.marks.overheads.iter().map(|row| *row as usize) {
            states.profiler.entry(table.source_idx[row]).or_default().push((table.t_start_ns[row], table.t_end_ns[row]));
        }
        for runs in states.profiler.values_mut() {
            *runs = intervals::union(std::mem::take(runs));
        }
        states
    }

    /// Reads the ranges in which a process waits for data.
    fn read_data(&mut self, timeline: &Timeline<'_>) {
        let table = &timeline.capture().tables.host_events;
        let mut is_data: BTreeMap<Name, bool> = BTreeMap::new();
        for row in timeline.marks.annotations.iter().map(|row| *row as usize) {
            let name = table.name[row];
            let is_data = *is_data.entry(name).or_insert_with(|| DATA_RANGES.iter().any(|range| timeline.text(name).starts_with(range)));
            if is_data {
                let key = (table.source_idx[row], table.process[row]);
                self.processes.entry(key, Default::default).data.push((table.t_start_ns[row], table.t_end_ns[row]));
            }
        }
        self.processes.each(|process| process.data = intervals::union(std::mem::take(&mut process.data)));
    }

    /// Reads when threads were off their CPU. What they spent in calls of the operating system they may have waited for by
    /// choice; without such calls in the recording nothing tells a wait from a lost CPU.
    fn read_off_cpu(&mut self, timeline: &Timeline<'_>) {
        let (table, marks) = (&timeline.capture().tables.host_events, &timeline.marks);
        if marks.os_calls.is_empty() {
            return;
        }
        let by_thread = |rows: &[u32]| {
            let mut runs: Few<(SourceIdx, u32, u32), Vec<Run>> = Few::default();
            for row in rows.iter().map(|row| *row as usize) {
                let key = (table.source_idx[row], table.process[row], table.thread[row]);
                runs.entry(key, Vec::new).push((table.t_start_ns[row], table.t_end_ns[row]));
            }
            runs.each(|runs| *runs = intervals::union(std::mem::take(runs)));
            runs
        };
        let (off_cpu, waits) = (by_thread(&marks.off_cpu), by_thread(&marks.os_calls));
        for (thread, runs) in off_cpu.into_pairs() {
            let lost = intervals::minus(&runs, waits.get(thread).map_or(&[][..], Vec::as_slice));
            self.off_cpu.entry(thread, || lost);
        }
    }

    /// How long the host of `process` has sat in a synchronizing call at that moment; 0 where it does not.
    fn waited_ns(&self, process: (SourceIdx, u32), at: i64, near: &mut usize) -> i64 {
        let Some(runs) = self.processes.get(process).map(|states| &states.sync) else { return 0 };
        runs[..partition_point_near(runs.len(), near, |place| runs[place].0 <= at)]
            .last()
            .filter(|run| run.1 >= at)
            .map_or(0, |run| at - run.0)
    }

    /// Splits the time in which a thread was late: a synchronizing call of its process first, then the profiler, allocation,
    /// data, a lost CPU, then the time between steps.
    fn split(&self, thread: (SourceIdx, u32, u32), late: Run) -> IdleParts {
        let process = (thread.0, thread.1);
        let states = self.processes.get(process);
        let sync = states.map_or(&[][..], |states| &states.sync);
        let steps = states.map_or(&[][..], |states| &states.steps);
        let profiler = self.profiler.get(&process.0).map_or(&[][..], Vec::as_slice);
        let allocation = states.map_or(&[][..], |states| &states.allocation);
        let data = states.map_or(&[][..], |states| &states.data);
        let off_cpu = self.off_cpu.get(thread).map_or(&[][..], Vec::as_slice);
        let reasons = [sync, profiler, allocation, data, off_cpu];
        if reasons.iter().all(|runs| intervals::covered_ns(runs, late) == 0) {
            // Most stretches end here, without a list of their own.
            let between = between_ns(steps, &[late]);
            return IdleParts { between_steps_ns: between, host_ns: late.1 - late.0 - between, ..IdleParts::default() };
        }
        let mut rest = vec![late];
        let [sync_ns, profiler_ns, allocation_ns, data_ns, off_cpu_ns] = reasons.map(|runs| {
            let inside: Vec<Run> = intervals::within(runs, late).collect();
            let taken = intervals::measure(&intervals::intersection(&rest, &inside));
            rest = intervals::minus(&rest, &inside);
            taken
        });
        let between = between_ns(steps, &rest);
        IdleParts {
            sync_ns,
            profiler_ns,
            allocation_ns,
            data_ns,
            off_cpu_ns,
            between_steps_ns: between,
            host_ns: intervals::measure(&rest) - between,
            ..IdleParts::default()
        }
    }
}

/// Time outside of all steps, but behind the first and before the last.
fn between_ns(steps: &[Run], rest: &[Run]) -> i64 {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return 0 };
    let inside = |run: &Run| (run.0.clamp(first.0, last.1), run.1.clamp(first.0, last.1));
    rest.iter().map(inside).map(|run| (run.1 - run.0) - intervals::covered_ns(steps, run)).sum()
}

impl Idle {
    /// Splits the idle time between the events at some places of a lane.
    pub fn at(timeline: &Timeline<'_>, lane: &Lane, places: Range<usize>, host: &HostStates) -> Self {
        let mut idle = Self::default();
        let mut last = Last::default();
        timeline.events_at(lane, places).for_each(|event| idle.add(timeline, host, &mut last, &event));
        idle
    }

    /// Adds the next event in order of start; `last` is the one so far to end last.
    #[inline]
    pub fn add(&mut self, timeline: &Timeline<'_>, host: &HostStates, last: &mut Last, event: &Event) {
        if event.start_ns > last.end_ns && last.end_ns != i64::MIN {
            self.charge(timeline, host, last, event);
        }
        if event.end_ns > last.end_ns {
            *last = Last { end_ns: event.end_ns, stream: event.stream, is_launched: event.is_launched(), near: last.near };
        }
    }

    /// Charges the stretch between the last work to end and the event that ends it.
    fn charge(&mut self, timeline: &Timeline<'_>, host: &HostStates, last: &mut Last, event: &Event) {
        let (start, end) = (last.end_ns, event.start_ns);
        if end - start > self.longest_ns {
            (self.longest_ns, self.longest_start_ns) = (end - start, start);
        }
        if event.call == NO_CALL {
            self.unlinked_gaps += 1;
            self.parts.unlinked_ns = self.parts.unlinked_ns.saturating_add(end - start);
            return;
        }
        let called = timeline.calls.start_ns(event.call).clamp(start, end);
        let mut parts = if called > start {
            self.host_late_gaps += 1;
            host.split(timeline.calls.thread(event.call), (start, called))
        } else {
            self.queued_gaps += 1;
            IdleParts::default()
        };
        parts.launch_ns = end - called;
        self.parts.add(&parts);
        if last.is_launched && last.stream == event.stream {
            self.trusted.add(&parts);
            self.tell(host.waited_ns(timeline.calls.process(event.call), start, &mut last.near), called - start, &parts);
        }
    }

    /// What more is told of a stretch that is trusted: `late_ns` until the call began, the host having waited before.
    fn tell(&mut self, waited_ns: i64, late_ns: i64, parts: &IdleParts) {
        if late_ns <= 0 {
            let is_short = parts.launch_ns <= LONGEST_START_NS;
            self.short_start_ns = self.short_start_ns.saturating_add(if is_short { parts.launch_ns } else { 0 });
            return;
        }
        self.late_start_ns = self.late_start_ns.saturating_add(parts.launch_ns);
        if waited_ns > 0 {
            self.after_sync_ns = self.after_sync_ns.saturating_add(late_ns.min(waited_ns));
            self.after_sync_gaps += 1;
        }
        if parts.host_ns > LONGEST_LAUNCH_NS {
            self.long_host_ns = self.long_host_ns.saturating_add(parts.host_ns);
            self.long_host_gaps += 1;
        }
    }
}
