//! What a call of the runtime or driver does.

/// What a call does, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Api {
    /// Launches one kernel.
    Launch,
    /// Replays a graph.
    GraphLaunch,
    /// Copies.
    Copy,
    /// Fills.
    Memset,
    /// Waits for the device.
    Sync,
    /// Begins or ends the capture of a graph.
    Capture,
    /// Loads or links code.
    Load,
    /// Allocates or frees.
    Memory,
    /// Anything else.
    Other,
}

impl Api {
    /// True for the replay of a graph.
    pub fn is_graph_launch(self) -> bool {
        self == Self::GraphLaunch
    }

    /// True for a call that can put work on a device.
    pub fn is_launch(self) -> bool {
        matches!(self, Self::Launch | Self::GraphLaunch | Self::Copy | Self::Memset)
    }

    /// Reads the name of a call of CUDA or HIP.
    pub fn of(name: &str) -> Self {
        if name.contains("GraphLaunch") {
            Self::GraphLaunch
        } else if name.contains("Launch") {
            Self::Launch
        } else if name.contains("Memcpy") {
            Self::Copy
        } else if name.contains("Memset") {
            Self::Memset
        } else if name.contains("Synchronize") {
            Self::Sync
        } else if name.contains("BeginCapture") || name.contains("EndCapture") {
            Self::Capture
        } else if ["ModuleLoad", "LibraryLoad", "LinkComplete", "LinkCreate", "nvrtcCompile", "hiprtcCompile"]
            .iter()
            .any(|part| name.contains(part))
        {
            Self::Load
        } else if name.contains("Malloc") || name.contains("Free") || name.contains("MemAlloc") {
            Self::Memory
        } else {
            Self::Other
        }
    }
}
