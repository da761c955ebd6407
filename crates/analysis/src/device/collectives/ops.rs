//! Operations: what they are called and what they put on the bus.

/// The operation in a kernel's name: `ncclDevKernel_AllReduce_Sum_bf16_RING_LL` is `allreduce`. Empty where it does not tell.
pub fn op_of_kernel(name: &str) -> &'static str {
    let lower: String = name.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    let known = [
        ("reducescatter", "reduce_scatter"),
        ("allgather", "all_gather"),
        ("allreduce", "allreduce"),
        ("crossdevicereduce", "allreduce"),
        ("alltoall", "all_to_all"),
        ("sendrecv", "sendrecv"),
        ("broadcast", "broadcast"),
        ("dispatch", "dispatch"),
        ("combine", "combine"),
        ("reduce", "reduce"),
    ];
    known.iter().find(|(word, _)| lower.contains(word)).map_or("", |(_, op)| op)
}

/// An operation without spelling: `_allgather_base`, `all_gather` and `allgather` are one.
fn plain(op: &str) -> String {
    op.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Bytes by which an operation is counted: all data of the group for those that gather or scatter, one rank's for the rest.
pub(super) fn payload_bytes(op: &str, bytes_in: i64, bytes_out: i64) -> i64 {
    let op = plain(op);
    if op.contains("allgather") {
        bytes_out.max(bytes_in)
    } else if op.contains("reducescatter") {
        bytes_in.max(bytes_out)
    } else if bytes_in > 0 {
        bytes_in
    } else {
        bytes_out.max(0)
    }
}

/// Bytes on the bus per byte counted, for `ranks` ranks; nothing where the number of ranks is needed and unknown.
pub fn bus_factor(op: &str, ranks: u32) -> Option<f64> {
    let op = plain(op);
    let n = f64::from(ranks);
    let known = ranks >= 2;
    if op.contains("allreduce") {
        known.then(|| 2.0 * (n - 1.0) / n)
    } else if op.contains("allgather") || op.contains("reducescatter") || op.contains("alltoall") {
        known.then(|| (n - 1.0) / n)
    } else if ["send", "recv", "broadcast", "reduce", "gather", "scatter"].iter().any(|word| op.contains(word)) {
        Some(1.0)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_from_kernels() {
        for (name, op) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)", "sendrecv"),
            ("ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)", "reduce_scatter"),
            ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ""),
            ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "allreduce"),
            ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ] {
            assert_eq!(op_of_kernel(name), op, "{name}");
        }
    }

    #[test]
    fn the_bus_carries_what_the_operation_needs() {
        assert_eq!(bus_factor("allreduce", 8), Some(1.75));
        assert_eq!(bus_factor("_allgather_base", 4), Some(0.75));
        assert_eq!(bus_factor("send", 0), Some(1.0));
        assert_eq!((bus_factor("allreduce", 0), bus_factor("", 8)), (None, None));
        assert_eq!(
            (payload_bytes("all_gather", 10, 80), payload_bytes("reduce_scatter", 80, 10), payload_bytes("allreduce", 40, 40)),
            (80, 80, 40)
        );
    }
}
