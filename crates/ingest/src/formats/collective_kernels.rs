//! What the name of a communication kernel tells: operation and element type, where NCCL and RCCL spell them out.

use capture::tables::DeviceEvents;
use capture::{Collective, Name};

/// Operations as NCCL spells them in `ncclDevKernel_AllReduce_Sum_bf16_RING_LL`; longer names stand first.
const OPS: &[(&str, &str)] = &[
    ("AllReduce", "allreduce"),
    ("AllGather", "all_gather"),
    ("ReduceScatter", "reduce_scatter"),
    ("SendRecv", "send_recv"),
    ("Broadcast", "broadcast"),
    ("AllToAll", "all_to_all"),
    ("AlltoAll", "all_to_all"),
    ("Reduce", "reduce"),
    ("Gather", "gather"),
    ("Scatter", "scatter"),
];

/// Element types as they stand between underscores.
const TYPES: &[&str] = &[
    "bf16", "f16", "f32", "f64", "half", "float", "double", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "i8", "u8", "i32", "u32", "i64",
    "u64", "int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
];

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Operation in lower case.
    pub(super) op: &'static str,
    /// Element type, empty where not told.
    pub(super) dtype: &'static str,
}

/// What the name of a kernel tells; `None` when it is no collective or does not say which.
pub(super) fn told(kernel: &str) -> Option<Told> {
    let at = kernel.find("nccl").or_else(|| kernel.find("rccl"))?;
    let name = &kernel[at + 4..];
    let name = name.split(['(', '<', ' ']).next().unwrap_or(name);
    let op_of = |part: &str| OPS.iter().find(|(spelled, _)| part.starts_with(spelled)).map(|(_, op)| *op);
    let mut parts = name.split('_');
    let op = parts.by_ref().find_map(op_of)?;
    let dtype = TYPES.iter().find(|known| parts.clone().any(|part| part == **known)).copied().unwrap_or_default();
    Some(Told { op, dtype })
}

/// The row of the kernel at `at`, of which only the name tells something.
pub(super) fn row(device: &DeviceEvents, at: usize, op: Name, dtype: Name) -> Collective {
    Collective {
        t_start_ns: device.t_start_ns[at],
        t_end_ns: device.t_end_ns[at],
        run_idx: device.run_idx[at],
        rank: -1,
        device: device.device[at],
        op,
        sequence: -1,
        dtype,
        source_idx: device.source_idx[at],
        ..Collective::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_generation_tell_the_operation() {
        let told = |name: &str| told(name).map(|told| (told.op, told.dtype));
        assert_eq!(told("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)"), Some(("send_recv", "")));
        assert_eq!(told("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs<4096ul>)"), Some(("allreduce", "bf16")));
        assert_eq!(told("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)"), Some(("allreduce", "float")));
        assert_eq!(told("void ncclKernel_ReduceScatter_TREE_LL128_Sum_half"), Some(("reduce_scatter", "half")));
        assert_eq!(told("ncclDevKernel_Generic_1(ncclDevKernelArgs)"), None);
        assert_eq!(told("void at::native::reduce_kernel<512, 1>"), None);
    }
}
