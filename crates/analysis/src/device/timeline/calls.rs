//! Calls of the runtime and driver, and which of them launched an event: one call can launch many (a graph replay).

use capture::{HostEvents, Name, SourceIdx};

use super::api::Api;
use super::{NO_CALL, REPLAYS};
use crate::device::distribution::{Distribution, Quantiles};
use crate::device::few::Few;
use crate::device::near::partition_point_near;

/// Calls of one arm.
#[derive(Debug)]
pub struct Calls<'c> {
    pub(super) table: &'c HostEvents,
    /// Calls that wait, copy, replay graphs and load code, in order of start.
    pub(super) syncs: Vec<u32>,
    pub(super) copies: Vec<u32>,
    pub(super) graph_launches: Vec<u32>,
    pub(super) loads: Vec<u32>,
    pub(super) allocations: Vec<u32>,
    pub(super) names: CallNames,
    pub(super) groups: Few<(SourceIdx, u32), Group>,
    /// Start to start of successive launches by one thread with no synchronizing call between.
    pub(super) periods: Distribution,
}

/// All calls of one name.
#[derive(Clone, Debug)]
pub struct NamedCalls {
    /// The name.
    pub name: Name,
    /// What they do.
    pub api: Api,
    /// Time inside them.
    pub(super) lengths: Quantiles,
}

impl NamedCalls {
    /// Time inside the calls.
    pub fn time(&self) -> Distribution {
        self.lengths.clone().distribution()
    }
}

/// Names of calls, found by their number.
#[derive(Debug, Default)]
pub(super) struct CallNames {
    /// By name: place in the list and one, 0 for none.
    places: Vec<u32>,
    list: Vec<NamedCalls>,
}

impl CallNames {
    pub(super) fn new(names: usize) -> Self {
        Self { places: vec![0; names], list: Vec::new() }
    }

    /// The calls of a name; `text` gives it where it is new.
    #[inline]
    pub(super) fn entry<'t>(&mut self, name: Name, text: impl FnOnce() -> &'t str) -> Option<&mut NamedCalls> {
        let place = self.places.get_mut(name.0 as usize)?;
        if *place == 0 {
            self.list.push(NamedCalls { name, api: Api::of(text()), lengths: Quantiles::default() });
            *place = self.list.len() as u32;
        }
        self.list.get_mut(*place as usize - 1)
    }

    fn get(&self, name: Name) -> Option<&NamedCalls> {
        let place = *self.places.get(name.0 as usize)?;
        self.list.get((place as usize).checked_sub(1)?)
    }
}

/// Calls of one process in one file by correlation id. Ids repeat across processes.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Rows by id.
    launches: Vec<u32>,
}

impl Calls<'_> {
    /// Calls that wait, in order of start.
    pub fn syncs(&self) -> &[u32] {
        &self.syncs
    }

    /// Calls that copy, in order of start.
    pub fn copies(&self) -> &[u32] {
        &self.copies
    }

    /// Calls that replay graphs, in order of start.
    pub fn graph_launches(&self) -> &[u32] {
        &self.graph_launches
    }

    /// Calls that load code, in order of start.
    pub fn loads(&self) -> &[u32] {
        &self.loads
    }

    /// Calls that allocate or free, in order of start.
    pub fn allocations(&self) -> &[u32] {
        &self.allocations
    }

    /// Calls by name.
    pub fn by_name(&self) -> &[NamedCalls] {
        &self.names.list
    }

    /// Start to start of successive launches by one thread with no synchronizing call between.
    pub fn periods(&self) -> Distribution {
        self.periods
    }

    /// How many calls do one thing.
    pub fn count(&self, api: Api) -> u64 {
        self.names.list.iter().filter(|calls| calls.api == api).map(|calls| calls.lengths.count()).sum()
    }

    /// True when no call was recorded.
    pub fn is_empty(&self) -> bool {
        self.names.list.is_empty()
    }

    /// The calls of a process; where a recorder does not tell the process of device events, those of the only one.
    pub(super) fn group(&self, key: (SourceIdx, u32)) -> Option<&Group> {
        let of_source = || {
            let mut processes = self.groups.pairs().filter(|((source, _), _)| *source == key.0);
            let only = processes.next().filter(|_| key.1 == 0);
            only.filter(|_| processes.next().is_none()).map(|(_, group)| group)
        };
        self.groups.get(key).or_else(of_source)
    }

    /// The call of a process behind an event, with a mark where it replays a graph. `near` is where the process' last one was found.
    #[inline]
    pub(super) fn find(&self, group: Option<&Group>, correlation: u32, near: &mut usize) -> u32 {
        let (Some(group), 1..) = (group, correlation) else { return NO_CALL };
        match group.find(self.table, correlation, near) {
            call @ ..REPLAYS if !self.graph_launches.is_empty() && self.api(call) == Api::GraphLaunch => call | REPLAYS,
            call @ ..REPLAYS => call,
            _ => NO_CALL,
        }
    }

    /// What a call does; [`Api::Other`] for none.
    #[inline]
    pub fn api(&self, call: u32) -> Api {
        let name = self.table.name.get(call as usize);
        name.and_then(|name| self.names.get(*name)).map_or(Api::Other, |calls| calls.api)
    }

    /// Start of a call, ns.
    #[inline]
    pub fn start_ns(&self, call: u32) -> i64 {
        self.table.t_start_ns[call as usize]
    }

    /// End of a call, ns, not before its start.
    #[inline]
    pub fn end_ns(&self, call: u32) -> i64 {
        self.table.t_end_ns[call as usize].max(self.start_ns(call))
    }

    /// Name of a call.
    pub fn name(&self, call: u32) -> Name {
        self.table.name[call as usize]
    }

    /// File and process of a call.
    #[inline]
    pub fn process(&self, call: u32) -> (SourceIdx, u32) {
        (self.table.source_idx[call as usize], self.table.process[call as usize])
    }

    /// File, process and thread of a call.
    pub fn thread(&self, call: u32) -> (SourceIdx, u32, u32) {
        let at = call as usize;
        (self.table.source_idx[at], self.table.process[at], self.table.thread[at])
    }
}

impl Group {
    /// Of several calls with one id the earliest counts.
    pub(super) fn new(table: &HostEvents, mut launches: Vec<u32>) -> Self {
        let id = |row: u32| table.correlation[row as usize];
        launches.sort_by_key(|row| (id(*row), table.t_start_ns[*row as usize]));
        launches.dedup_by_key(|row| id(*row));
        Self { launches }
    }

    /// The call with an id. Work follows its launches: the search begins where the last one ended, at `near`.
    #[inline]
    fn find(&self, table: &HostEvents, id: u32, near: &mut usize) -> u32 {
        let id_at = |at: usize| table.correlation[self.launches[at] as usize];
        let at = partition_point_near(self.launches.len(), near, |at| id_at(at) < id);
        self.launches.get(at).copied().filter(|row| table.correlation[*row as usize] == id).unwrap_or(NO_CALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_id_and_of_several_the_earliest() {
        let mut table = HostEvents::default();
        for (t_start_ns, correlation) in (0..).zip([9, 3, 40, 4, 5, 9, 7, 1_000_000]) {
            table.push(capture::HostEvent { correlation, t_start_ns, ..Default::default() });
        }
        let group = Group::new(&table, (0..8).collect());
        let mut near = 0;
        for (id, row) in [(9, 0), (3, 1), (40, 2), (1_000_000, 7), (1, NO_CALL), (41, NO_CALL), (u32::MAX, NO_CALL)] {
            assert_eq!(group.find(&table, id, &mut near), row, "{id}");
        }
        assert_eq!(Group::new(&table, Vec::new()).find(&table, 1, &mut near), NO_CALL);
    }
}
