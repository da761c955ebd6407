//! The phases a request passes through: the rows of the request account; and the parts of a device's time, where only
//! a profiler capture was given and the account is of devices.

use crate::contract::Layer;

/// One exclusive part of a request's life, in the order a request meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Inside the caller: waiting for a connection of its own.
    Client,
    /// On the wire towards the server: connecting, sending the body.
    Transfer,
    /// Inside a gateway, before it passes the request on.
    Gateway,
    /// Inside the API process, and waiting for the engine core to take the request in.
    Api,
    /// Turning text into tokens.
    Tokenize,
    /// In the engine's queue, until first scheduled.
    Queue,
    /// First scheduled until the first token leaves the engine.
    Prefill,
    /// First token (as the outermost vantage saw it) until the last.
    Decode,
    /// Turning tokens into text.
    Detokenize,
    /// Tokens made but not yet delivered: held by a buffer on the way out.
    Stream,
    /// On a device: a kernel computes.
    Compute,
    /// On a device: a kernel communicates and none computes.
    Communication,
    /// On a device: a copy or memset runs and no kernel.
    Copy,
    /// On a device: nothing runs.
    Idle,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Self; 14] = [
        Self::Client,
        Self::Transfer,
        Self::Gateway,
        Self::Api,
        Self::Tokenize,
        Self::Queue,
        Self::Prefill,
        Self::Decode,
        Self::Detokenize,
        Self::Stream,
        Self::Compute,
        Self::Communication,
        Self::Copy,
        Self::Idle,
    ];

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Transfer => "transfer",
            Self::Gateway => "gateway",
            Self::Api => "api",
            Self::Tokenize => "tokenize",
            Self::Queue => "queue",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Detokenize => "detokenize",
            Self::Stream => "stream",
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Copy => "copy",
            Self::Idle => "idle",
        }
    }

    /// The layer most at home in this phase; other layers may own time in it.
    pub fn layer(self) -> Layer {
        match self {
            Self::Client | Self::Transfer | Self::Gateway | Self::Api | Self::Tokenize | Self::Detokenize | Self::Stream => {
                Layer::Application
            }
            Self::Queue => Layer::Scheduling,
            Self::Prefill | Self::Decode | Self::Compute | Self::Idle => Layer::Kernel,
            Self::Communication => Layer::Parallelism,
            Self::Copy => Layer::Hardware,
        }
    }

    /// The only layer whose failure modes may own this phase, where there is only one: everything outside the server
    /// is the application's.
    pub fn sole_layer(self) -> Option<Layer> {
        matches!(self, Self::Client | Self::Transfer | Self::Gateway | Self::Stream | Self::Tokenize | Self::Detokenize)
            .then_some(Layer::Application)
    }

    /// True for phases that pass before the first token reaches the caller.
    pub fn before_first_token(self) -> bool {
        !matches!(self, Self::Decode | Self::Detokenize) && !self.is_of_device()
    }

    /// True for the parts of a device's time.
    pub fn is_of_device(self) -> bool {
        matches!(self, Self::Compute | Self::Communication | Self::Copy | Self::Idle)
    }
}
