//! The device account: where every nanosecond between a device's first and last event went.
//!
//! Work in flight is counted once, by rank: what computes, then communication that no computing covers, then copies that
//! neither covers; the rest is idle. The four rows are the window exactly.

use std::ops::Range;

use super::intervals::RunningUnion;
use super::kernels::Category;
use super::timeline::{Class, Event, Lane, Timeline};

/// Count and time of the events of one category, overlaps counted as often as they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CategoryTotal {
    /// What they do.
    pub category: Category,
    /// Events.
    pub count: u64,
    /// Sum of their lengths, ns.
    pub total_ns: i64,
}

/// The account of one device, or of one step on it. All times ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneAccount {
    /// Start of the first event.
    pub start_ns: i64,
    /// End of the last one.
    pub end_ns: i64,
    /// Time between them.
    pub window_ns: i64,
    /// Time with anything in flight.
    pub busy_ns: i64,
    /// Time in which a computing kernel runs.
    pub compute_ns: i64,
    /// Time in which a communicating kernel runs.
    pub communication_ns: i64,
    /// Of that, the time in which none computes.
    pub exposed_communication_ns: i64,
    /// Time in which a copy or memset runs.
    pub copy_ns: i64,
    /// Of that, the time in which no kernel runs.
    pub exposed_copy_ns: i64,
    /// Time in which nothing runs.
    pub idle_ns: i64,
    /// Kernels, copies, memsets and replays recorded as one block.
    pub gpu_events: u64,
    /// Kernels.
    pub kernels: u64,
    /// Kernels replayed from graphs.
    pub graph_kernels: u64,
    /// Sum of the lengths of kernels.
    pub kernel_total_ns: i64,
    /// Of that, in graphs.
    pub graph_kernel_total_ns: i64,
    /// By category, the largest first.
    pub categories: Vec<CategoryTotal>,
}

impl LaneAccount {
    /// The account of the events at some places of a lane.
    pub fn at(timeline: &Timeline<'_>, lane: &Lane, places: Range<usize>) -> Self {
        let mut tally = Tally::default();
        timeline.events_at(lane, places).for_each(|event| tally.add(&event));
        tally.account()
    }

    /// Share of kernels that come from graphs; nothing without kernels.
    pub fn graph_share(&self) -> Option<f64> {
        (self.kernels > 0).then(|| self.graph_kernels as f64 / self.kernels as f64)
    }

    /// Time of one category, ns, overlaps counted as often as they run.
    pub fn category_ns(&self, category: Category) -> i64 {
        self.categories.iter().find(|total| total.category == category).map_or(0, |total| total.total_ns)
    }

    /// `part_ns` as a share of the window.
    pub fn share(&self, part_ns: i64) -> f64 {
        part_ns as f64 / self.window_ns.max(1) as f64
    }
}

/// Adds events up in order of their starts, in constant memory.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    span: Option<(i64, i64)>,
    busy: RunningUnion,
    compute: RunningUnion,
    communication: RunningUnion,
    kernel: RunningUnion,
    copy: RunningUnion,
    gpu_events: u64,
    kernels: [u64; 2],
    kernel_ns: [i64; 2],
    by_category: [(u64, i64); Category::ALL.len()],
}

impl Tally {
    /// Adds one event that starts no earlier than those before.
    pub fn add(&mut self, event: &Event) {
        let (start, end) = (event.start_ns, event.end_ns);
        self.span = Some(self.span.map_or((start, end), |span| (span.0, span.1.max(end))));
        self.busy.add(start, end);
        match event.class {
            Class::Compute => {
                self.compute.add(start, end);
                self.kernel.add(start, end);
            }
            Class::Communication => {
                self.communication.add(start, end);
                self.kernel.add(start, end);
            }
            Class::Copy | Class::Memset => self.copy.add(start, end),
        }
        let length = end - start;
        self.gpu_events += 1;
        if event.is_kernel() {
            let graph = usize::from(event.in_graph);
            self.kernels[graph] += 1;
            self.kernel_ns[graph] = self.kernel_ns[graph].saturating_add(length);
        }
        let (count, total_ns) = &mut self.by_category[event.category as usize];
        *count += 1;
        *total_ns = total_ns.saturating_add(length);
    }

    /// The account so far.
    pub fn account(&self) -> LaneAccount {
        let Some((start_ns, end_ns)) = self.span else { return LaneAccount::default() };
        let (busy_ns, compute_ns, kernel_ns) = (self.busy.measure_ns(), self.compute.measure_ns(), self.kernel.measure_ns());
        let account = LaneAccount {
            start_ns,
            end_ns,
            window_ns: end_ns - start_ns,
            busy_ns,
            compute_ns,
            communication_ns: self.communication.measure_ns(),
            exposed_communication_ns: kernel_ns - compute_ns,
            copy_ns: self.copy.measure_ns(),
            exposed_copy_ns: busy_ns - kernel_ns,
            idle_ns: end_ns - start_ns - busy_ns,
            gpu_events: self.gpu_events,
            kernels: self.kernels[0] + self.kernels[1],
            graph_kernels: self.kernels[1],
            kernel_total_ns: self.kernel_ns[0].saturating_add(self.kernel_ns[1]),
            graph_kernel_total_ns: self.kernel_ns[1],
            categories: self.categories(),
        };
        let rows = account.compute_ns + account.exposed_communication_ns + account.exposed_copy_ns + account.idle_ns;
        assert_eq!(rows, account.window_ns, "the rows of a device account are its window");
        account
    }

    fn categories(&self) -> Vec<CategoryTotal> {
        let totals = Category::ALL.iter().zip(self.by_category);
        let mut categories: Vec<CategoryTotal> = totals
            .filter(|(_, (count, _))| *count > 0)
            .map(|(&category, (count, total_ns))| CategoryTotal { category, count, total_ns })
            .collect();
        categories.sort_by_key(|total| (-total.total_ns, total.category));
        categories
    }
}
