//! Calls by name, and for those that wait or copy the op or frame that made them.

use std::collections::BTreeMap;

use capture::{Name, SourceIdx};

use crate::device::distribution::Distribution;
use crate::device::timeline::{Api, Timeline};

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
    let mut places = places(timeline);
    let named = timeline.calls.by_name().iter();
    let mut totals: Vec<CallTotal> = named
        .map(|calls| CallTotal {
            name: timeline.text(calls.name).to_string(),
            api: calls.api,
            time: calls.time(),
            made_in: places.remove(&calls.name).unwrap_or_default(),
        })
        .collect();
    totals.sort_by(|a, b| b.time.total_ns.cmp(&a.time.total_ns).then_with(|| a.name.cmp(&b.name)));
    totals
}

/// By name of a call that waits or copies: where it was made. One sweep over the host's rows, with a stack per thread.
fn places(timeline: &Timeline<'_>) -> BTreeMap<Name, Vec<(String, u64)>> {
    let table = &timeline.capture().tables.host_events;
    let marks = &timeline.marks;
    if marks.scopes.is_empty() && marks.annotations.is_empty() {
        return BTreeMap::new();
    }
    let calls = timeline.calls.syncs().iter().chain(timeline.calls.copies()).map(|call| (*call, false));
    let scopes = marks.scopes.iter().chain(&marks.annotations).map(|row| (*row, true));
    let mut order: Vec<(u32, bool)> = calls.chain(scopes).collect();
    // Of two that start together the longer one is outside, and a call is inside of all.
    order.sort_unstable_by_key(|(row, is_scope)| {
        let at = *row as usize;
        (table.t_start_ns[at], !is_scope, std::cmp::Reverse(table.t_end_ns[at]), *row)
    });
    let mut open: BTreeMap<(SourceIdx, u32, u32), Vec<(i64, Name)>> = BTreeMap::new();
    let mut counts: BTreeMap<(Name, Name), u64> = BTreeMap::new();
    for (row, is_scope) in order {
        let at = row as usize;
        let thread = (table.source_idx[at], table.process[at], table.thread[at]);
        let (start, end) = (table.t_start_ns[at], table.t_end_ns[at]);
        if is_scope {
            let stack = open.entry(thread).or_default();
            while stack.last().is_some_and(|(until, _)| *until <= start) {
                stack.pop();
            }
            if stack.len() < DEEPEST {
                stack.push((end, table.name[at]));
            }
        } else if let Some(stack) = open.get(&thread)
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
