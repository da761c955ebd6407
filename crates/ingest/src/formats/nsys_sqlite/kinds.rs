//! The numbers of CUPTI as the words Kineto uses for them, so that both formats name the same thing alike.

/// Direction of a copy by `copyKind`.
const COPIES: [&str; 14] =
    ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"];
/// Kinds of memory by `memKind`.
const MEMORIES: [&str; 8] = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"];
/// Waits by `syncType`.
const SYNCS: [&str; 5] = ["Unknown", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];
/// What the profiler or the driver was busy with, by `overheadType`.
const OVERHEADS: [&str; 9] = [
    "Undefined",
    "Unknown",
    "Driver Compiler",
    "Buffer Flush",
    "Instrumentation",
    "Resource",
    "Runtime Triggered Module Loading",
    "Lazy Function Loading",
    "Command Buffer Full",
];
/// `copyKind` of copies that unified memory makes by itself.
const UNIFIED: std::ops::RangeInclusive<i64> = 11..=13;

fn word(words: &[&'static str], number: Option<i64>) -> &'static str {
    number.and_then(|number| usize::try_from(number).ok()).and_then(|at| words.get(at)).copied().unwrap_or("Unknown")
}

/// A copy by direction and memory: `HtoD Pinned -> Device`; only the direction where the memory is not told.
pub(super) fn copy(copy_kind: Option<i64>, from: Option<i64>, to: Option<i64>) -> String {
    let direction = word(&COPIES, copy_kind);
    if copy_kind.is_some_and(|kind| UNIFIED.contains(&kind)) && from.is_none() && to.is_none() {
        return format!("{direction} Managed -> Managed");
    }
    if from.is_none() && to.is_none() {
        return direction.to_string();
    }
    format!("{direction} {} -> {}", word(&MEMORIES, from), word(&MEMORIES, to))
}

/// The memory that a memset fills; nothing where it is not told.
pub(super) fn memory(kind: Option<i64>) -> &'static str {
    if kind.is_none() { "" } else { word(&MEMORIES, kind) }
}

/// A wait.
pub(super) fn sync(kind: Option<i64>) -> &'static str {
    word(&SYNCS, kind)
}

/// What the profiler or the driver was busy with.
pub(super) fn overhead(kind: Option<i64>) -> &'static str {
    word(&OVERHEADS, kind)
}

/// A call without the version that `nsys` keeps at its end: `cudaLaunchKernel_v7000`. `_v2` is part of a call's name.
pub(super) fn call(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((call, version)) if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) => call,
        _ => name,
    }
}

/// The process in a serialized id.
pub(super) fn process(global_id: Option<i64>) -> u32 {
    global_id.map_or(0, |id| (id >> 24 & 0xff_ffff) as u32)
}

/// The thread in a serialized id.
pub(super) fn thread(global_id: Option<i64>) -> u32 {
    global_id.map_or(0, |id| (id & 0xff_ffff) as u32)
}

/// A graph node's id in 32 bits, never 0 for a node: the upper half of the number is that of the graph.
pub(super) fn graph_node(node: Option<i64>, graph: Option<i64>) -> u32 {
    match node.filter(|id| *id != 0).or(graph.filter(|id| *id != 0)) {
        None => 0,
        Some(id) => u32::try_from(id).unwrap_or_else(|_| (((id >> 32) as u32).rotate_left(20) ^ id as u32).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_the_words_of_kineto() {
        assert_eq!(copy(Some(1), Some(1), Some(2)), "HtoD Pinned -> Device");
        assert_eq!((copy(Some(8), None, None), copy(Some(99), None, None)), ("DtoD".into(), "Unknown".into()));
        assert_eq!(copy(Some(12), None, None), "DtoH Managed -> Managed");
        assert_eq!((sync(Some(3)), sync(None), overhead(Some(8))), ("Stream Sync", "Unknown", "Command Buffer Full"));
        assert_eq!(call("cudaStreamGetCaptureInfo_v2_v11030"), "cudaStreamGetCaptureInfo_v2");
        assert_eq!((call("cuMemcpyHtoDAsync_v2"), call("cudaLaunchKernel")), ("cuMemcpyHtoDAsync_v2", "cudaLaunchKernel"));
        assert_eq!((process(Some(281_476_838_981_632)), thread(Some(281_476_838_981_743))), (111, 111));
    }

    #[test]
    fn graph_nodes_stay_apart_in_32_bits() {
        let nodes: std::collections::BTreeSet<u32> =
            (1..40).flat_map(|graph: i64| (0..200).map(move |node| graph_node(Some(graph << 32 | node), None))).collect();
        assert_eq!((nodes.len(), nodes.contains(&0)), (39 * 200, false));
        assert_eq!((graph_node(None, None), graph_node(Some(0), Some(7)), graph_node(Some(5), None)), (0, 7, 5));
    }
}
