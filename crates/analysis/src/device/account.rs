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
    start_ns: Option<i64>,
    busy: RunningUnion,
    compute: RunningUnion,
    communication: RunningUnion,
    kernel: RunningUnion,
    copy: RunningUnion,
    /// Count and time by category, outside of graphs and in them.
    by_category: [[(u64, i64); Category::ALL.len()]; 2],
}

impl Tally {
    /// Adds one event that starts no earlier than those before.
    #[inline]
    pub fn add(&mut self, event: &Event) {
        let (start, end) = (event.start_ns, event.end_ns);
        if self.start_ns.is_none() {
            self.start_ns = Some(start);
        }
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
        let (count, total_ns) = &mut self.by_category[usize::from(event.in_graph)][event.category as usize];
        *count += 1;
        *total_ns = total_ns.saturating_add(end - start);
    }

    /// The account so far.
    pub fn account(&self) -> LaneAccount {
        let Some(start_ns) = self.start_ns else { return LaneAccount::default() };
        let end_ns = self.busy.end_ns();
        let [single, graph] = self.by_category.map(|totals| kernels(&totals));
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
            gpu_events: self.by_category.iter().flatten().map(|(count, _)| count).sum(),
            kernels: single.0 + graph.0,
            graph_kernels: graph.0,
            kernel_total_ns: single.1.saturating_add(graph.1),
            graph_kernel_total_ns: graph.1,
            categories: self.categories(),
        };
        let rows = account.compute_ns + account.exposed_communication_ns + account.exposed_copy_ns + account.idle_ns;
        assert_eq!(rows, account.window_ns, "the rows of a device account are its window");
        account
    }

    fn categories(&self) -> Vec<CategoryTotal> {
        let [single, graph] = &self.by_category;
        let both = single.iter().zip(graph).map(|(a, b)| (a.0 + b.0, a.1.saturating_add(b.1)));
        let totals = Category::ALL.iter().zip(both);
        let mut categories: Vec<CategoryTotal> = totals
            .filter(|(_, (count, _))| *count > 0)
            .map(|(&category, (count, total_ns))| CategoryTotal { category, count, total_ns })
            .collect();
        categories.sort_by_key(|total| (-total.total_ns, total.category));
        categories
    }
}

/// Count and time of those categories that are kernels.
fn kernels(totals: &[(u64, i64); Category::ALL.len()]) -> (u64, i64) {
    let is_kernel = |category: &Category| !matches!(category, Category::Copy | Category::Graph);
    let of_kernels = Category::ALL.iter().zip(totals).filter(|(category, _)| is_kernel(category));
    of_kernels.fold((0, 0), |sum, (_, total)| (sum.0 + total.0, sum.1.saturating_add(total.1)))
}
