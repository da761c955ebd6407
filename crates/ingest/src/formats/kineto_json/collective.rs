//! What NCCL's kernels tell of the collective they run.

use capture::tables::{Collective, DeviceEvent};

use super::args::CollectiveArgs;
use super::losses::Losses;
use super::texts::Texts;

/// Longest text of a group: lists of ranks grow with the job.
const MAX_GROUP_CHARS: usize = 256;

/// Spellings of operations, by what is left without prefixes, underscores and `tensor`.
const OPERATIONS: &[(&str, &str)] = &[
    ("allreduce", "allreduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
    ("barrier", "barrier"),
    ("send", "send"),
    ("recv", "recv"),
];

/// Bytes of one element.
const ELEMENT_BYTES: &[(&str, i64)] = &[
    ("byte", 1),
    ("char", 1),
    ("bool", 1),
    ("float8", 1),
    ("int8", 1),
    ("uint8", 1),
    ("short", 2),
    ("half", 2),
    ("bfloat16", 2),
    ("float16", 2),
    ("int16", 2),
    ("float32", 4),
    ("int32", 4),
    ("float64", 8),
    ("int64", 8),
    ("complexfloat", 8),
    ("double", 8),
    ("long", 8),
    ("float", 4),
    ("int", 4),
];

/// The collective that the kernel in `work` runs.
pub(super) fn row(told: &CollectiveArgs<'_>, work: &DeviceEvent, texts: &mut Texts, losses: &mut Losses, offset: u64) -> Collective {
    let name = texts.text(told.name, losses, offset);
    let dtype = texts.text(told.dtype, losses, offset).to_ascii_lowercase();
    let parts = [told.group_name, told.group_description, told.group_ranks].map(|part| texts.text(part, losses, offset));
    let group = parts.iter().map(AsRef::as_ref).filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(" ");
    let group: String = group.chars().take(MAX_GROUP_CHARS).collect();
    let bytes = |elements: Option<i64>| elements.unwrap_or_default().max(0).saturating_mul(element_bytes(&dtype));
    Collective {
        t_start_ns: work.t_start_ns,
        t_end_ns: work.t_end_ns,
        run_idx: work.run_idx,
        rank: -1,
        device: work.device,
        op: texts.names.intern(&operation(&name)),
        group: texts.names.intern(&group),
        group_size: told.group_size.and_then(|size| u32::try_from(size).ok()).unwrap_or_default(),
        sequence: told.sequence.unwrap_or(-1),
        dtype: texts.names.intern(&dtype),
        bytes_in: bytes(told.elements_in),
        bytes_out: bytes(told.elements_out),
        source_idx: work.source_idx,
    }
}

/// `_allgather_base` and `all_gather_into_tensor` are one operation.
fn operation(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let letters: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.strip_prefix("nccl").unwrap_or(&letters);
    let known = OPERATIONS.iter().find(|(spelling, _)| letters.starts_with(spelling));
    known.map_or_else(|| lower.trim_start_matches('_').to_string(), |(_, word)| (*word).to_string())
}

fn element_bytes(dtype: &str) -> i64 {
    ELEMENT_BYTES.iter().find(|(name, _)| dtype.starts_with(name)).map_or(0, |(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_all_spellings() {
        for (name, expected) in [
            ("allreduce", "allreduce"),
            ("allreduce_coalesced", "allreduce"),
            ("_allgather_base", "all_gather"),
            ("all_gather_into_tensor", "all_gather"),
            ("_reduce_scatter_base", "reduce_scatter"),
            ("all_to_allv", "all_to_all"),
            ("nccl:broadcast", "broadcast"),
            ("send", "send"),
            ("_own_thing", "own_thing"),
        ] {
            assert_eq!(operation(name), expected, "{name}");
        }
    }

    #[test]
    fn elements_have_their_size() {
        let sizes = ["bfloat16", "float", "float8_e4m3fn", "int", "long", "half", "unheard_of"].map(element_bytes);
        assert_eq!(sizes, [2, 4, 1, 4, 8, 2, 0]);
    }
}
