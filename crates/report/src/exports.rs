//! The tables of a capture in the formats of other tools: Perfetto, flame graphs, spreadsheets.
//!
//! Each export is written as it is read, row by row: what it holds beside the capture grows with the number of tracks and
//! distinct names, and with four bytes per event for their order, not with the size of the file.

pub mod csv;
pub mod folded;
pub mod perfetto;

use analysis::device::Category;
use analysis::device::kernels;
use capture::{Capture, Name};

/// Categories of device events, told from kind and name; each name is asked about once.
struct Categories {
    known: Vec<Option<(Name, &'static str)>>,
}

impl Categories {
    fn new(capture: &Capture) -> Self {
        Self { known: vec![None; capture.names.len()] }
    }

    fn of(&mut self, capture: &Capture, kind: Name, name: Name) -> &'static str {
        let ask = || match capture.text(kind) {
            "memcpy" | "memset" => Category::Copy,
            "graph" => Category::Graph,
            _ => kernels::kind(capture.text(name)).category,
        };
        let Some(slot) = self.known.get_mut(name.0 as usize) else { return ask().as_str() };
        match slot {
            Some((known, category)) if *known == kind => category,
            _ => slot.insert((kind, ask().as_str())).1,
        }
    }
}

/// What a device is called: its number, name and rank as far as a recorder tells, the process where several share a number,
/// the arm where there are several.
fn device_title(capture: &Capture, at: usize) -> String {
    let events = &capture.tables.device_events;
    let (run, device, process) = (events.run_idx[at], events.device[at], events.process[at]);
    let mut title = format!("{}GPU {device}", arm_prefix(capture, run));
    let devices = &capture.tables.devices;
    let rows = || (0..devices.device.len()).filter(|&row| devices.run_idx[row] == run && devices.device[row] == device);
    let own = rows().find(|&row| devices.source_idx[row] == events.source_idx[at]);
    if let Some(row) = own.or_else(|| rows().next()) {
        let name = capture.text(devices.name[row]);
        if !name.is_empty() {
            title.push_str(&format!(" {name}"));
        }
        if let Some(own) = own
            && devices.rank[own] >= 0
            && devices.world_size[own] != 1
        {
            title.push_str(&format!(", rank {}", devices.rank[own]));
        }
    }
    if process != 0 {
        title.push_str(&format!(", process {process}"));
    }
    title
}

/// `arm / ` where a capture has several arms, else nothing.
fn arm_prefix(capture: &Capture, run_idx: u32) -> String {
    let runs = &capture.tables.runs;
    if runs.run_idx.len() < 2 {
        return String::new();
    }
    let name = runs.run_idx.iter().position(|&known| known == run_idx).map_or("", |row| capture.text(runs.name[row]));
    if name.is_empty() { format!("arm {run_idx} / ") } else { format!("{name} / ") }
}
