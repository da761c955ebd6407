//! Rows of `devices`: what the trace says of its devices, and those that only appear in events.

use std::collections::{BTreeMap, BTreeSet};

use capture::tables::Device;

use crate::builder::Builder;

use super::columns::{Seen, fold};
use super::told::{DeviceProperties, Told};

/// Adds the devices; `used` are those with work.
pub(super) fn add(told: &Told, seen: Seen, used: &BTreeSet<u32>, builder: &mut Builder<'_>) {
    let by_id: BTreeMap<u32, &DeviceProperties> =
        (0i64..).zip(&told.devices).map(|(at, device)| (fold(device.id.unwrap_or(at)), device)).collect();
    // ROCm numbers devices in events otherwise than in the list; where all are alike, that does not matter.
    let alike = told.devices.first().filter(|first| told.devices.iter().all(|device| is_alike(device, first)));
    let ids: BTreeSet<u32> = if used.is_empty() { by_id.keys().copied().collect() } else { by_id.keys().chain(used).copied().collect() };
    for id in ids {
        let properties = by_id.get(&id).copied().or(alike).cloned().unwrap_or_default();
        // A rank works on its own device; without work the list is of one device, or the rank's is not known.
        let is_own = used.contains(&id) || (used.is_empty() && by_id.len() == 1);
        let row = Device {
            run_idx: builder.context.run_idx,
            device: id,
            rank: told.rank.filter(|_| is_own).and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1),
            world_size: count(told.world_size.unwrap_or_default()),
            host: builder.intern(&told.host),
            name: builder.intern(&properties.name),
            vendor: builder.intern(vendor(&properties.name, told, seen)),
            sm_count: count(properties.sm_count),
            max_warps_per_sm: count(properties.max_threads_per_sm / properties.warp_size.max(1)),
            memory_bytes: properties.memory_bytes.max(0),
            bandwidth_bytes_per_s: 0,
            source_idx: builder.source(),
        };
        builder.capture.tables.devices.push(row);
    }
    let names: BTreeSet<&str> = told.devices.iter().map(|device| device.name.as_str()).filter(|name| !name.is_empty()).collect();
    if let (Some(name), 1) = (names.first(), names.len()) {
        builder.capture.manifest.subject.device = (*name).to_string();
    }
}

fn is_alike(a: &DeviceProperties, b: &DeviceProperties) -> bool {
    let figures = |it: &DeviceProperties| (it.memory_bytes, it.sm_count, it.max_threads_per_sm, it.warp_size);
    a.name == b.name && figures(a) == figures(b)
}

fn count(value: i64) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

fn vendor(name: &str, told: &Told, seen: Seen) -> &'static str {
    const MARKS: &[(&str, &str)] = &[
        ("nvidia", "nvidia"),
        ("tesla", "nvidia"),
        ("geforce", "nvidia"),
        ("quadro", "nvidia"),
        ("amd", "amd"),
        ("instinct", "amd"),
        ("radeon", "amd"),
        ("intel", "intel"),
        ("artemis", "meta"),
        ("mtia", "meta"),
    ];
    let lower = name.to_ascii_lowercase();
    let by_name = MARKS.iter().find(|(mark, _)| lower.contains(mark)).map(|(_, vendor)| *vendor);
    by_name.unwrap_or(match seen {
        _ if told.is_rocm => "amd",
        Seen { hip: true, .. } => "amd",
        Seen { cuda: true, .. } => "nvidia",
        Seen { xpu: true, .. } => "intel",
        Seen { mtia: true, .. } => "meta",
        _ => "",
    })
}
