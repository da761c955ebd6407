//! A recorded run of a real engine, simulated from its own arrivals, beside what was measured.
//!
//! [`measured`] reads the record (times per request, a gauge series, settings), [`calibrate`] fits the step law on it,
//! [`replay`] simulates the same requests with that law and sets both side by side. A law fitted on a run and tried on
//! the same run is a test of the scheduler's rules and not of foresight; [`forecast`] with a [`KernelProfile`] is one.

mod calibrate;
mod compare;
mod kernel_profile;
mod measured;

pub use calibrate::{Calibration, Floors, calibrate};
pub use compare::{Binding, Figures, LITTLE_LIMIT_FRAC, Little, Replay, forecast, replay};
pub use kernel_profile::KernelProfile;
pub use measured::{Gauge, MeasuredRequest, MeasuredRun, RunError, RunSettings};
