//! Code that was compiled or loaded while the recording ran.

use std::collections::BTreeMap;

use crate::device::distribution::Distribution;
use crate::device::timeline::{Api, Timeline};

/// Everything of one name that compiled or loaded code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLoad {
    /// Name of the call, annotation or overhead.
    pub name: String,
    /// True where it compiles, false where finished code is loaded.
    pub compiles: bool,
    /// How often and how long.
    pub time: Distribution,
}

/// Words of ops, annotations and overheads that compile, in lower case.
const COMPILES: &[&str] = &[
    "compile_fx",
    "compile_inner",
    "backend_compile",
    "compile_file",
    "async_compile",
    "dynamo_timed",
    "inductor_compile",
    "compile_to_module",
    "driver compiler",
    "torchdynamo_compile",
    "triton_compile",
    "jit_compile",
    "entire_frame_compile",
];
/// Words of overheads that load finished code.
const LOADS: &[&str] = &["lazy function loading", "module loading"];

/// What compiled or loaded code, the most time first.
pub fn code_loads(timeline: &Timeline<'_>) -> Vec<CodeLoad> {
    let capture = timeline.capture();
    let table = &capture.tables.host_events;
    let marks = &timeline.marks;
    let mut meaning: Vec<Option<Option<bool>>> = vec![None; capture.names.len()];
    let mut found: BTreeMap<(bool, &str), Vec<i64>> = BTreeMap::new();
    let rows = [timeline.calls.loads(), &marks.overheads, &marks.annotations, &marks.scopes];
    for row in rows.into_iter().flatten().map(|row| *row as usize) {
        let Some(slot) = meaning.get_mut(table.name[row].0 as usize) else { continue };
        let text = capture.text(table.name[row]);
        if let Some(compiles) = *slot.get_or_insert_with(|| compiles(text)) {
            found.entry((compiles, text)).or_default().push((table.t_end_ns[row] - table.t_start_ns[row]).max(0));
        }
    }
    let mut loads: Vec<CodeLoad> = found
        .into_iter()
        .map(|((compiles, name), mut lengths)| CodeLoad { name: name.to_string(), compiles, time: Distribution::of(&mut lengths) })
        .collect();
    loads.sort_by(|a, b| b.time.total_ns.cmp(&a.time.total_ns).then_with(|| a.name.cmp(&b.name)));
    loads
}

/// The word by which a name is known to compile or load.
pub fn is_code(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    COMPILES.iter().chain(LOADS).copied().find(|word| lower.contains(word))
}

/// Whether a name compiles (true) or loads (false); nothing for all others.
fn compiles(name: &str) -> Option<bool> {
    let lower = name.to_ascii_lowercase();
    if COMPILES.iter().any(|word| lower.contains(word)) {
        return Some(true);
    }
    (LOADS.iter().any(|word| lower.contains(word)) || Api::of(name) == Api::Load).then_some(false)
}
