//! `dcgmi dmon -e <field ids>`: a header of short field names, a line of units, one row per entity and interval.
//!
//! The header comes again every few rows. Nothing tells a time. Columns are found by word, and by their place under the
//! header where a value has blanks in it. Both directions of PCIe and of NVLink are added. Rows of MIG instances keep their
//! name as device; those of CPUs, switches and links are left out, as are fields that explain no time.

use capture::Severity;

use crate::builder::Builder;
use crate::formats::device_rows::{DeviceRows, Measure, Rounds, is_absent, mask, number};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::{Input, Line};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "dcgmi_dmon", stage: Stage::Clocked, sniff, read };

/// Lines before the header that are looked at.
const MAX_LINES_BEFORE: usize = 40;
/// Most columns of a header; dcgmi takes 128 fields.
const MAX_COLUMNS: usize = 200;

/// Fields by short name. Of several that mean one signal the first of this list that the header has is taken.
const FIELDS: &[(&str, Measure)] = &[
    ("SMACT", Measure::plain("gpu.sm_active", "")),
    ("SMOCC", Measure::plain("gpu.sm_occupancy", "")),
    ("TENSO", Measure::plain("gpu.tensor_active", "")),
    ("DRAMA", Measure::plain("gpu.dram_active", "")),
    ("GPUTL", Measure::percent("gpu.busy")),
    ("GRACT", Measure::plain("gpu.busy", "")),
    ("MCUTL", Measure::percent("gpu.memory_busy")),
    ("POWER", Measure::plain("gpu.power", "W")),
    ("PMLMT", Measure::plain("gpu.power_limit", "W")),
    ("TMPTR", Measure::plain("gpu.temperature", "C")),
    ("SMCLK", Measure::mhz("gpu.sm_clock")),
    ("MMCLK", Measure::mhz("gpu.mem_clock")),
    ("SMMAX", Measure::mhz("gpu.sm_clock_max")),
    ("MMMAX", Measure::mhz("gpu.mem_clock_max")),
    ("FBUSD", Measure::mib("gpu.memory_used", "")),
    ("FBTTL", Measure::mib("gpu.memory_total", "")),
    ("PCITX", Measure::plain("gpu.pcie_bytes", "")),
    ("PCIRX", Measure::plain("gpu.pcie_bytes", "")),
    ("TXTPT", Measure::times("gpu.pcie_bytes", "KB/s", 1e3)),
    ("RXTPT", Measure::times("gpu.pcie_bytes", "KB/s", 1e3)),
    ("NVLTX", Measure::plain("gpu.nvlink_bytes", "")),
    ("NVLRX", Measure::plain("gpu.nvlink_bytes", "")),
    ("NTXBWLT", Measure::times("gpu.nvlink_bytes", "MB/s", 1e6)),
    ("NRXBWLT", Measure::times("gpu.nvlink_bytes", "MB/s", 1e6)),
];

/// Fields whose values are added: the two directions of a link.
const SUMMED: &[&str] = &["gpu.pcie_bytes", "gpu.nvlink_bytes"];

/// What a column holds, and where its name starts in the header.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column {
    start: usize,
    field: Field,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Skip,
    Mask,
    Value(Measure),
}

fn sniff(probe: &Probe<'_>) -> Confidence {
    if !probe.is_text() {
        return Confidence::No;
    }
    let is_header = |line: &[u8]| header(&String::from_utf8_lossy(line)).is_some();
    if probe.lines().filter(|line| !line.is_empty()).take(MAX_LINES_BEFORE).any(is_header) { Confidence::Sure } else { Confidence::No }
}

/// Words of a line with the bytes at which they start.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split([' ', '\t']).filter(|word| !word.is_empty()).map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// The columns behind the entity of a header line: `#Entity   GPUTL   SMACT`.
fn header(line: &str) -> Option<Vec<Column>> {
    let mut found = words(line).skip_while(|(_, word)| *word == "#");
    found.next().filter(|(_, word)| matches!(word.trim_start_matches('#'), "Entity" | "EntityId"))?;
    line.trim_start().starts_with('#').then_some(())?;
    let names: Vec<(usize, &str)> = found.take(MAX_COLUMNS).collect();
    let is_there = |name: &str| names.iter().any(|(_, known)| *known == name);
    // The profiling counters of a link stand for its plain ones, whichever direction was asked for.
    let first = |measure: &Measure| FIELDS.iter().find(|(name, it)| it.signal == measure.signal && is_there(name)).map(|(_, it)| *it);
    let field = |name: &str| match FIELDS.iter().find(|(known, _)| *known == name) {
        Some((_, measure)) if first(measure) == Some(*measure) => Field::Value(*measure),
        _ if name == "DVCCTR" => Field::Mask,
        _ => Field::Skip,
    };
    Some(names.iter().map(|&(start, name)| Column { start, field: field(name) }).collect())
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut reader = Reader::default();
    while let Some(line) = input.next_line() {
        reader.line(line, builder);
    }
    reader.finish(builder);
}

#[derive(Default)]
struct Reader {
    columns: Vec<Column>,
    rows: DeviceRows,
    rounds: Rounds,
    other_entities: u64,
}

impl Reader {
    fn line(&mut self, line: Line<'_>, builder: &mut Builder<'_>) {
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim_end();
        if text.trim_start().starts_with('#') {
            builder.facts.simulated |= text.starts_with("# inferoscope: simulated");
            self.columns = header(text).unwrap_or_else(|| std::mem::take(&mut self.columns));
            return;
        }
        let Some((entity, values_from)) = entity(text).filter(|_| !self.columns.is_empty()) else { return };
        let place = || format!("line {}", line.number);
        if !line.complete {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "line_cut", &place(), || {
                "expected a line end, found the end of the text; the last row is left out".to_string()
            });
            return;
        }
        let device = match entity {
            Entity::Gpu(number) => number.to_string(),
            Entity::Instance(name) => name.to_string(),
            Entity::Other => {
                self.other_entities += 1;
                return;
            }
        };
        if !self.row(&device, text, values_from, builder) {
            builder.issue_once(Severity::Warning, "damaged_row", &place(), || {
                format!("expected {} values behind the entity, found something else; the row is left out", self.columns.len())
            });
        }
    }

    /// Adds a row; false when it is none.
    fn row(&mut self, device: &str, text: &str, values_from: usize, builder: &mut Builder<'_>) -> bool {
        let cells: Option<Vec<&str>> = if words(&text[values_from..]).count() == self.columns.len() {
            Some(words(&text[values_from..]).map(|(_, word)| word).collect())
        } else {
            let ends = self.columns.iter().skip(1).map(|column| column.start).chain([text.len()]);
            self.columns.iter().zip(ends).map(|(column, end)| text.get(column.start..end.min(text.len())).map(str::trim)).collect()
        };
        let Some(cells) = cells else { return false };
        let t_ns = self.rounds.time(device);
        let mut sums = [None; SUMMED.len()];
        for (cell, column) in cells.iter().zip(&self.columns) {
            let is_read = match column.field {
                _ if is_absent(cell) => true,
                Field::Skip => true,
                Field::Mask => mask(cell).map(|mask| self.rows.reasons(t_ns, device, mask, builder)).is_some(),
                Field::Value(measure) => match (number(cell), SUMMED.iter().position(|signal| *signal == measure.signal)) {
                    (Some(value), Some(at)) => {
                        sums[at] = Some(sums[at].unwrap_or(0.0) + measure.to_base(value));
                        true
                    }
                    (Some(value), None) => {
                        self.rows.add(t_ns, device, measure.signal, measure.to_base(value), builder);
                        true
                    }
                    (None, _) => false,
                },
            };
            if !is_read {
                builder.issue_once(Severity::Warning, "unreadable_cell", "", || {
                    "expected a number, found something else; the value is left out".to_string()
                });
            }
        }
        for (signal, sum) in SUMMED.iter().zip(sums) {
            if let Some(sum) = sum {
                self.rows.add(t_ns, device, signal, sum, builder);
            }
        }
        true
    }

    fn finish(self, builder: &mut Builder<'_>) {
        if self.rows.is_empty() {
            builder.refuse("no_rows", "expected rows of values below the header of dcgmi dmon, found none");
            return;
        }
        if self.other_entities > 0 {
            let sentence = "expected rows of GPUs, found rows of other entities (CPUs, switches, links) too; they are left out";
            builder.issue(Severity::Note, "other_entities", "", self.other_entities, sentence);
        }
        self.rows.finish(builder);
        self.rounds.report(builder);
    }
}

#[derive(Debug, PartialEq)]
enum Entity<'a> {
    Gpu(&'a str),
    Instance(&'a str),
    Other,
}

/// The entity a row is about, and where its values start; `None` for lines that are no rows (units, messages).
fn entity(text: &str) -> Option<(Entity<'_>, usize)> {
    let mut found = words(text);
    let (start, kind) = found.next()?;
    let (at, number) = found.next()?;
    let end = at + number.len();
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'/');
    let entity = match kind {
        "GPU" => Entity::Gpu(number),
        "GPU-I" | "GPU-CI" => Entity::Instance(&text[start..end]),
        "CPU" | "CORE" | "Switch" | "Link" | "VGPU" | "ConnectX" => Entity::Other,
        _ => return None,
    };
    is_number.then_some((entity, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_age_are_read() {
        let busy = Column { start: 10, field: Field::Value(Measure::percent("gpu.busy")) };
        assert_eq!(header("#Entity   GPUTL"), Some(vec![busy]));
        assert_eq!(header("# EntityId  GPUTL  GRACT").map(|columns| columns[1].field), Some(Field::Skip));
        assert_eq!(header("# Entity  DVNAM  DVCCTR").map(|columns| columns[1].field), Some(Field::Mask));
        assert_eq!(header("ID            W"), None);
        assert_eq!(header("Entity GPUTL"), None);
    }

    #[test]
    fn rows_name_their_entity() {
        assert_eq!(entity("GPU 7     0.1"), Some((Entity::Gpu("7"), 5)));
        assert_eq!(entity("  GPU-I 12  0.1"), Some((Entity::Instance("GPU-I 12"), 10)));
        assert_eq!(entity("CPU 0  1"), Some((Entity::Other, 5)));
        assert_eq!(entity("ID    W"), None);
        assert_eq!(entity("GPU x 1"), None);
    }
}
