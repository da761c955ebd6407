//! Calls by name, and for those that wait or copy the op or frame that made them.

use std::collections::BTreeMap;

use capture::{Name, SourceIdx};

use super::Distribution;
use crate::device::timeline::{Api, Timeline, is_time};

/// All calls of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTotal {
    /// Name of the call.
    pub name: String,
    /// What it does.
    pub api: Api,
    /// Time inside it.
    pub time: Distribution,
    /// Ops, frames or annotations in which it was made, with their number, the most frequent first; only of calls that wait
    /// or copy, and only where the recording holds them.
    pub made_in: Vec<(String, u64)>,
}

/// Most places named per call.
const PLACES: usize = 5;
/// Deepest nesting followed; real ones end at about a hundred frames.
const DEEPEST: usize = 512;

/// Calls by name, the most time first.
pub fn call_totals(timeline: &Timeline<'_>) -> Vec<CallTotal> {
    let calls = &timeline.calls;
    let mut lengths: BTreeMap<Name, (Api, Vec<i64>)> = BTreeMap::new();
    let mut last: Option<Name> = None;
    let mut run: Vec<i64> = Vec::new();
    let mut api = Api::Other;
    for call in calls.iter() {
        let name = calls.name(call);
        if last != Some(name) {
            if let Some(name) = last.replace(name) {
                lengths.entry(name).or_insert((api, Vec::new())).1.append(&mut run);
            }
            api = calls.api(call);
        }
        run.push(calls.end_ns(call) - calls.start_ns(call));
    }
    if let Some(name) = last {
        lengths.entry(name).or_insert((api, Vec::new())).1.append(&mut run);
    }
    let mut places = places(timeline);
    let mut totals: Vec<CallTotal> = lengths
        .into_iter()
        .map(|(name, (api, mut lengths))| CallTotal {
            name: timeline.text(name).to_string(),
            api,
            time: Distribution::of(&mut lengths),
            made_in: places.remove(&name).unwrap_or_default(),
        })
        .collect();
    totals.sort_by(|a, b| b.time.total_ns.cmp(&a.time.total_ns).then_with(|| a.name.cmp(&b.name)));
    totals
}

/// By name of a call that waits or copies: where it was made. One sweep over the host's rows, with a stack per thread.
fn places(timeline: &Timeline<'_>) -> BTreeMap<Name, Vec<(String, u64)>> {
    let names = &timeline.capture().names;
    let table = &timeline.capture().tables.host_events;
    let scopes: Vec<Name> = ["op", "frame", "annotation"].iter().filter_map(|kind| names.find(kind)).collect();
    let is_scope = |row: usize| scopes.contains(&table.kind[row]);
    if !(0..table.kind.len()).any(is_scope) {
        return BTreeMap::new();
    }
    let of_run =
        |row: &usize| table.run_idx[*row] == timeline.run_idx() && is_time(table.t_start_ns[*row]) && is_time(table.t_end_ns[*row]);
    let mut order: Vec<u32> = (0..table.kind.len()).filter(of_run).map(|row| row as u32).collect();
    // Of two that start together the longer one is outside.
    let key = |row: &u32| (table.t_start_ns[*row as usize], std::cmp::Reverse(table.t_end_ns[*row as usize]));
    if !order.is_sorted_by_key(key) {
        order.sort_by_key(key);
    }
    let mut open: BTreeMap<(SourceIdx, u32, u32), Vec<(i64, Name)>> = BTreeMap::new();
    let mut counts: BTreeMap<(Name, Name), u64> = BTreeMap::new();
    for row in order {
        let at = row as usize;
        let thread = (table.source_idx[at], table.process[at], table.thread[at]);
        let (start, end) = (table.t_start_ns[at], table.t_end_ns[at]);
        if is_scope(at) {
            let stack = open.entry(thread).or_default();
            while stack.last().is_some_and(|(until, _)| *until <= start) {
                stack.pop();
            }
            if stack.len() < DEEPEST {
                stack.push((end, table.name[at]));
            }
        } else if matches!(timeline.calls.api(row), Api::Sync | Api::Copy)
            && let Some(stack) = open.get(&thread)
            && let Some((_, scope)) = stack.iter().rev().find(|(until, _)| *until >= end)
        {
            *counts.entry((table.name[at], *scope)).or_default() += 1;
        }
    }
    let mut places: BTreeMap<Name, Vec<(String, u64)>> = BTreeMap::new();
    for ((call, scope), count) in counts {
        places.entry(call).or_default().push((timeline.text(scope).to_string(), count));
    }
    for list in places.values_mut() {
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list.truncate(PLACES);
    }
    places
}
