//! The dimensions of a busy device on one clock, beside the lone utilization figure that they replace.
//!
//! Utilization says that something ran. What ran shows in active multiprocessors, resident warps, memory and matrix
//! activity, and in how launches follow one another. Counters are averages over their sampling period: a kernel that is
//! shorter was not sampled, whatever the counter shows beside it.

use crate::contract::{DeviceCounter, DeviceDimensions};
use crate::device::LaneView;
use crate::device::timeline::Api;
use crate::evidence::{Evidence, Series};

/// Counters in the order of the report.
const COUNTERS: [&str; 5] = ["gpu.busy", "gpu.sm_active", "gpu.sm_occupancy", "gpu.dram_active", "gpu.tensor_active"];

/// Reads them for one device, over its window.
pub fn dimensions(evidence: &Evidence, lane: &LaneView, sync_ns: i64) -> DeviceDimensions {
    let window = (lane.account.start_ns, lane.account.end_ns);
    let read: Vec<(&str, Option<DeviceCounter>)> = COUNTERS
        .iter()
        .map(|&signal| (signal, series(evidence, signal, lane.device).and_then(|series| counter(signal, series, window))))
        .collect();
    let not_recorded =
        read.iter().filter(|(signal, counter)| counter.is_none() && *signal != "gpu.busy").map(|(signal, _)| (*signal).into()).collect();
    let counters: Vec<DeviceCounter> = read.into_iter().filter_map(|(_, counter)| counter).collect();
    let period_ns = counters.iter().map(|counter| counter.period_ns).filter(|period| *period > 0).max();
    DeviceDimensions {
        utilization: lane.account.share(lane.account.busy_ns),
        unsampled: period_ns.is_some_and(|period| lane.launches.kernel_p50_ns < period),
        counters,
        not_recorded,
        kernel_p50_ns: lane.launches.kernel_p50_ns,
        launch_interval_ns: lane.launches.host_period_ns,
        sync_wait_ns: sync_ns,
    }
}

/// Time the host spent in synchronizing calls, ns.
pub fn sync_wait_ns(view: &crate::device::DeviceView) -> i64 {
    view.calls_that(Api::Sync).1
}

/// The series of one device; a single one without a label is everybody's.
fn series<'e>(evidence: &'e Evidence, signal: &str, device: u32) -> Option<&'e Series> {
    let labelled = format!("{signal}{{device=\"{device}\"}}");
    evidence.host.get(&labelled).or_else(|| evidence.host.get(signal))
}

/// Mean over the samples inside the window, and their spacing. One sample tells no spacing.
fn counter(signal: &str, series: &Series, window: (i64, i64)) -> Option<DeviceCounter> {
    let from = series.t_ns.partition_point(|&t| t < window.0);
    let to = series.t_ns.partition_point(|&t| t <= window.1);
    let values = series.value.get(from..to).filter(|values| !values.is_empty())?;
    let times = &series.t_ns[from..to];
    let spans = i64::try_from(times.len() - 1).unwrap_or(i64::MAX);
    let period_ns = if spans > 0 { (times[times.len() - 1] - times[0]) / spans } else { 0 };
    Some(DeviceCounter {
        signal: signal.into(),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        samples: values.len() as u64,
        period_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_inside_the_window_and_missing_ones_are_said() {
        let mut evidence = Evidence::default();
        let series = Series { t_ns: vec![0, 100_000, 200_000, 900_000], value: vec![0.2, 0.4, 0.6, 1.0] };
        evidence.host.insert("gpu.dram_active{device=\"3\"}".into(), series);
        let mut lane = LaneView { device: 3, ..LaneView::default() };
        (lane.account.start_ns, lane.account.end_ns, lane.account.window_ns, lane.account.busy_ns) = (50_000, 250_000, 200_000, 150_000);
        lane.launches.kernel_p50_ns = 11_000;
        let dimensions = dimensions(&evidence, &lane, 0);
        let dram = &dimensions.counters[0];
        assert_eq!((dram.signal.as_str(), dram.samples, dram.period_ns), ("gpu.dram_active", 2, 100_000));
        assert!((dram.mean - 0.5).abs() < 1e-12 && (dimensions.utilization - 0.75).abs() < 1e-12);
        // An 11 us kernel under a 10 kHz counter is not sampled.
        assert!(dimensions.unsampled);
        assert_eq!(dimensions.not_recorded, ["gpu.sm_active", "gpu.sm_occupancy", "gpu.tensor_active"]);
    }
}
