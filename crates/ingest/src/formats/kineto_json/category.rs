//! What an event is, by its `cat`: every spelling that PyTorch's profiler has used, on CUDA, ROCm, XPU and MTIA.

/// What becomes of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Category {
    /// A kernel on a device.
    Kernel,
    /// A copy on a device.
    Memcpy,
    /// A fill on a device.
    Memset,
    /// Work of an MTIA device; its waits are no work.
    MtiaWork,
    /// A call of the runtime (CUDA, HIP, XPU, MTIA).
    Runtime,
    /// A call of the driver.
    Driver,
    /// A wait, told beside the call that waits.
    Sync,
    /// A range that a program marked on the host.
    Annotation,
    /// The same range on the device.
    DeviceAnnotation,
    /// Time that the profiler itself took.
    Overhead,
    /// An operator on the host.
    Op,
    /// A Python frame.
    Frame,
    /// Values of a counter.
    Counter,
    /// Links, spans, memory events: nothing that the tables hold.
    Skipped,
    /// A word that no known version writes.
    #[default]
    Unknown,
}

impl Category {
    pub(super) fn of(cat: &[u8]) -> Self {
        match cat {
            b"python_function" => Self::Frame,
            b"cpu_op" | b"Operator" | b"hpu_op" => Self::Op,
            b"kernel" | b"Kernel" => Self::Kernel,
            b"gpu_memcpy" | b"Memcpy" => Self::Memcpy,
            b"gpu_memset" | b"Memset" => Self::Memset,
            b"mtia_ccp_events" => Self::MtiaWork,
            b"cuda_runtime" | b"Runtime" | b"hip_runtime" | b"xpu_runtime" | b"mtia_runtime" | b"glow_runtime" | b"privateuse1_runtime" => {
                Self::Runtime
            }
            b"cuda_driver" | b"hip_driver" | b"xpu_driver" | b"privateuse1_driver" => Self::Driver,
            b"cuda_sync" | b"xpu_sync" => Self::Sync,
            b"user_annotation" => Self::Annotation,
            b"gpu_user_annotation" => Self::DeviceAnnotation,
            b"overhead" => Self::Overhead,
            b"hardware_counters" | b"mtia_counters" | b"xpu_scope_profiler" => Self::Counter,
            b"ac2g"
            | b"fwdbwd"
            | b"async_cpu_to_gpu"
            | b"async_gpu"
            | b"cpu_instant_event"
            | b"Trace"
            | b"external_correlation"
            | b"cuda_event"
            | b"cuda_profiler_range"
            | b"collective_comm"
            | b"mtia_insight" => Self::Skipped,
            _ => Self::Unknown,
        }
    }

    /// True when the arguments of such an event are of use.
    #[inline]
    pub(super) fn has_arguments(self) -> bool {
        matches!(
            self,
            Self::Kernel | Self::Memcpy | Self::Memset | Self::MtiaWork | Self::Runtime | Self::Driver | Self::Sync | Self::Counter
        )
    }
}
