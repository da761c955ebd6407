//! Where the time of each device went, as a profiler recorded it: computing, exchange and copies that nothing hides, idle
//! time by cause.
//!
//! The device that computes least is shown part by part, the others in a line each.

use analysis::contract::DeviceAccount;

use super::account::{Line, write_lines};
use super::screen::{Screen, Style};
use crate::{clean, device_words, figures};

/// Other devices on the screen.
const OTHERS: usize = 7;

pub(super) fn write(screen: &mut Screen, devices: &[DeviceAccount]) {
    let computing = |device: &DeviceAccount| device.compute_ns as f64 / device.window_ns.max(1) as f64;
    let Some(shown) = (0..devices.len()).min_by(|a, b| computing(&devices[*a]).total_cmp(&computing(&devices[*b]))) else { return };
    let device = &devices[shown];
    let title = format!("where {} went on device {}", figures::nanoseconds(device.window_ns), device_words::title(device));
    screen.text(&title, Style::Plain);
    write_lines(screen, &lines(device), device.window_ns as f64 * 1e-9, None);
    for remark in device_words::remarks(device) {
        screen.remark(2, &remark);
    }
    let others: Vec<&DeviceAccount> = devices.iter().enumerate().filter(|(at, _)| *at != shown).map(|(_, device)| device).collect();
    for other in others.iter().take(OTHERS) {
        screen.text(&format!("  device {}: {}", clean::name(&other.device, 24), device_words::brief(other)), Style::Plain);
    }
    if others.len() > OTHERS {
        screen.remark(2, &format!("and {} more devices", others.len() - OTHERS));
    }
}

fn lines(device: &DeviceAccount) -> Vec<Line> {
    device_words::parts(device)
        .into_iter()
        .map(|part| Line {
            label: part.name.to_string(),
            mean_s: part.ns as f64 * 1e-9,
            share: part.ns as f64 / device.window_ns.max(1) as f64,
            tail_share: None,
            remark: part.remark,
        })
        .collect()
}
