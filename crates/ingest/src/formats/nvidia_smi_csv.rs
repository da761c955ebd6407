//! `nvidia-smi --query-gpu=... --format=csv`, once or with `-l`: one row per device and round.
//!
//! The header names the columns and their units, in whatever order they were asked for; `nounits` leaves the units of the
//! cells out. Output without a header (`noheader`) cannot be told from other text and stays an attachment. Times are
//! local and brought to the host clock as those of logs. A second header starts the columns anew, so that appended runs
//! read. Left out: columns that explain no time (ECC, modes, serials), fan speed (percent of an unknown maximum).

use capture::clock_events;
use capture::{Severity, text_time};

use crate::builder::Builder;
use crate::civil::{Civil, digits};
use crate::formats::device_rows::{DeviceRows, Measure, Rounds, align, is_absent, mask, number};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::{Input, Line};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "nvidia_smi_csv", stage: Stage::Floating, sniff, read };

/// Lines before the header that are looked at: warnings of the driver, comments.
const MAX_LINES_BEFORE: usize = 20;
/// Most columns of a header; nvidia-smi knows about 200.
const MAX_COLUMNS: usize = 1_000;

/// Columns by name without unit. Where several mean the same signal the first of this list that is there is taken.
const COLUMNS: &[(&str, Measure)] = &[
    ("utilization.gpu", Measure::percent("gpu.busy")),
    ("utilization.memory", Measure::percent("gpu.memory_busy")),
    ("power.draw", Measure::plain("gpu.power", "W")),
    ("power.draw.average", Measure::plain("gpu.power", "W")),
    ("power.draw.instant", Measure::plain("gpu.power", "W")),
    ("enforced.power.limit", Measure::plain("gpu.power_limit", "W")),
    ("power.limit", Measure::plain("gpu.power_limit", "W")),
    ("clocks.current.sm", Measure::mhz("gpu.sm_clock")),
    ("clocks.sm", Measure::mhz("gpu.sm_clock")),
    ("clocks.current.memory", Measure::mhz("gpu.mem_clock")),
    ("clocks.mem", Measure::mhz("gpu.mem_clock")),
    ("clocks.max.sm", Measure::mhz("gpu.sm_clock_max")),
    ("clocks.max.memory", Measure::mhz("gpu.mem_clock_max")),
    ("clocks.max.mem", Measure::mhz("gpu.mem_clock_max")),
    ("temperature.gpu", Measure::plain("gpu.temperature", "C")),
    ("memory.used", Measure::mib("gpu.memory_used", "MiB")),
    ("memory.total", Measure::mib("gpu.memory_total", "MiB")),
    ("pcie.link.gen.current", Measure::plain("gpu.pcie_gen", "")),
    ("pcie.link.gen.gpucurrent", Measure::plain("gpu.pcie_gen", "")),
    ("pcie.link.width.current", Measure::plain("gpu.pcie_width", "")),
];

/// Columns that name a device, the best first.
const DEVICE_COLUMNS: &[&str] = &["index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid"];

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Skip,
    Time,
    Product,
    Mask,
    Reason(u64),
    Value(Measure),
}

fn sniff(probe: &Probe<'_>) -> Confidence {
    if matches!(probe.first_byte(), None | Some(b'{' | b'[' | b'<')) || !probe.is_text() {
        return Confidence::No;
    }
    let is_header = |line: &[u8]| Header::parse(&String::from_utf8_lossy(line)).is_some();
    if probe.lines().filter(|line| !line.is_empty()).take(MAX_LINES_BEFORE).any(is_header) { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut reader = Reader::default();
    while let Some(line) = input.next_line() {
        reader.line(line, builder);
    }
    reader.finish(builder);
}

/// A header line taken apart.
#[derive(Debug, Default, PartialEq)]
struct Header {
    columns: Vec<Column>,
    device: Option<usize>,
}

impl Header {
    /// The columns of a header line; `None` when it names no column that we read.
    fn parse(line: &str) -> Option<Self> {
        let names: Vec<&str> = line.split(',').take(MAX_COLUMNS).map(bare_name).collect();
        let preferred = |measure: &Measure| COLUMNS.iter().find(|(name, it)| it.signal == measure.signal && names.contains(name));
        let column = |name: &&str| match *name {
            "timestamp" => Column::Time,
            "name" | "gpu_name" => Column::Product,
            "clocks_event_reasons.active" | "clocks_throttle_reasons.active" => Column::Mask,
            name => match (COLUMNS.iter().find(|(known, _)| *known == name), reason_bit(name)) {
                (Some((_, measure)), _) if preferred(measure).is_some_and(|(best, _)| *best == name) => Column::Value(*measure),
                (_, Some(bit)) => Column::Reason(bit),
                _ => Column::Skip,
            },
        };
        let columns: Vec<Column> = names.iter().map(column).collect();
        let is_known = columns.iter().any(|column| matches!(column, Column::Value(_) | Column::Mask | Column::Reason(_)));
        let device = DEVICE_COLUMNS.iter().find_map(|name| names.iter().position(|known| known == name));
        is_known.then_some(Self { columns, device })
    }
}

/// `power.draw [W]` without its unit.
fn bare_name(cell: &str) -> &str {
    cell.split('[').next().unwrap_or_default().trim()
}

/// The bit of a column like `clocks_event_reasons.sw_power_cap`.
fn reason_bit(name: &str) -> Option<u64> {
    let reason = ["clocks_event_reasons.", "clocks_throttle_reasons."].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    clock_events::bit(reason)
}

#[derive(Default)]
struct Reader {
    header: Option<Header>,
    rows: DeviceRows,
    rounds: Rounds,
    span: Option<(i64, i64)>,
    last: Option<i64>,
    cells: Vec<(usize, usize)>,
}

impl Reader {
    fn line(&mut self, line: Line<'_>, builder: &mut Builder<'_>) {
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            builder.facts.simulated |= text.starts_with("# inferoscope: simulated");
            return;
        }
        // The first cell of a row is a time or a device, and has digits.
        let is_like_header = !text.split(',').next().unwrap_or_default().bytes().any(|byte| byte.is_ascii_digit());
        if (is_like_header || self.header.is_none())
            && let Some(header) = Header::parse(text)
        {
            self.header = Some(header);
            return;
        }
        let place = || format!("line {}", line.number);
        let Some(header) = self.header.take() else { return };
        if line.complete {
            if !self.row(&header, text, builder) {
                builder.issue_once(Severity::Warning, "damaged_row", &place(), || {
                    format!("expected {} cells with a time and numbers, found something else; the row is left out", header.columns.len())
                });
            }
        } else {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "line_cut", &place(), || {
                "expected a line end, found the end of the text; the last row is left out".to_string()
            });
        }
        self.header = Some(header);
    }

    /// Adds a row; false when it is none.
    fn row(&mut self, header: &Header, text: &str, builder: &mut Builder<'_>) -> bool {
        let mut start = 0;
        self.cells.clear();
        for cell in text.split(',').take(MAX_COLUMNS) {
            self.cells.push((start, start + cell.len()));
            start += cell.len() + 1;
        }
        if self.cells.len() != header.columns.len() {
            return false;
        }
        let cells = std::mem::take(&mut self.cells);
        let cell = |at: usize| text[cells[at].0..cells[at].1].trim();
        let device = header.device.map_or("0", cell);
        let time = header.columns.iter().position(|column| *column == Column::Time).map(cell);
        let t_ns = match time.map(local_time) {
            Some(Some(t_ns)) => Some(t_ns),
            Some(None) => None,
            None => Some(self.rounds.time(device)),
        };
        let read = t_ns.filter(|_| !is_absent(device)).map(|t_ns| {
            if time.is_some() {
                self.note_time(t_ns, header, builder);
            }
            self.values(header, (t_ns, device), cell, builder);
        });
        self.cells = cells;
        read.is_some()
    }

    fn note_time(&mut self, t_ns: i64, header: &Header, builder: &mut Builder<'_>) {
        let span = self.span.get_or_insert((t_ns, t_ns));
        *span = (span.0.min(t_ns), span.1.max(t_ns));
        if header.device.is_none() && self.last == Some(t_ns) {
            builder.issue_once(Severity::Warning, "devices_not_told", "", || {
                "expected a column that names the device (`index`, `uuid`, `pci.bus_id`), found none and several rows at one time: they are \
                 read as one device"
                    .to_string()
            });
        }
        self.last = Some(t_ns);
    }

    fn values<'c>(&mut self, header: &Header, row: (i64, &str), cell: impl Fn(usize) -> &'c str, builder: &mut Builder<'_>) {
        let (t_ns, device) = row;
        let mut reasons = None;
        for (at, column) in header.columns.iter().enumerate() {
            let text = cell(at);
            if is_absent(text) {
                continue;
            }
            let is_read = match column {
                Column::Skip | Column::Time => true,
                Column::Product => {
                    let subject = &mut builder.capture.manifest.subject;
                    if subject.device.is_empty() {
                        subject.device = text.to_string();
                    }
                    true
                }
                Column::Mask => mask(text).map(|mask| reasons = Some(reasons.unwrap_or(0) | mask)).is_some(),
                Column::Reason(bit) => {
                    let is_active = text == "Active";
                    reasons = Some(reasons.unwrap_or(0) | if is_active { *bit } else { 0 });
                    is_active || text == "Not Active"
                }
                Column::Value(measure) => {
                    let value = value_of(text, measure);
                    if let Some(value) = value {
                        self.rows.add(t_ns, device, measure.signal, measure.to_base(value), builder);
                    }
                    value.is_some()
                }
            };
            if !is_read {
                builder.issue_once(Severity::Warning, "unreadable_cell", "", || {
                    "expected a number in the unit of its column, found something else; the value is left out".to_string()
                });
            }
        }
        if let Some(mask) = reasons {
            self.rows.reasons(t_ns, device, mask, builder);
        }
    }

    fn finish(self, builder: &mut Builder<'_>) {
        if self.rows.is_empty() {
            builder.refuse("no_rows", "expected rows of values below the header of nvidia-smi, found none");
            return;
        }
        self.rows.finish(builder);
        self.rounds.report(builder);
        align(self.span, builder);
    }
}

/// `512.40 W` or `512.40`, in the column's unit.
fn value_of(cell: &str, measure: &Measure) -> Option<f64> {
    let (text, unit) = cell.split_once(' ').unwrap_or((cell, measure.unit));
    number(text).filter(|_| unit.trim() == measure.unit)
}

/// `2026/11/03 10:12:42.014` read as UTC, exactly.
fn local_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let is_time = bytes.len() >= 19 && matches!(bytes[4], b'/' | b'-') && bytes[7] == bytes[4] && bytes[13] == b':' && bytes[16] == b':';
    is_time.then_some(())?;
    let two = |at: usize| digits(&bytes[at..at + 2]).map(|value| value as i8);
    let civil = Civil { month: two(5)?, day: two(8)?, hour: two(11)?, minute: two(14)?, second: two(17)? };
    let whole = civil.utc_ns(i16::try_from(digits(&bytes[..4])?).ok()?)?;
    let fraction = match &bytes[19..] {
        [] => 0,
        [b'.', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            text_time::scaled_to_ns(rest, 9 - i32::try_from(rest.len()).ok()?)?
        }
        _ => return None,
    };
    whole.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_odd_ones_are_none() {
        assert_eq!(local_time("2026/11/03 10:12:42.014"), Some(1_793_700_762_014_000_000));
        assert_eq!(local_time("2026-11-03T10:12:42"), Some(1_793_700_762_000_000_000));
        for text in ["", "2026/11/03", "2026/13/03 10:12:42.014", "2026/11/03 10:12:42.", "2026/11/03 10:12:42.x", "é026/11/03 10:12:42"] {
            assert_eq!(local_time(text), None, "{text}");
        }
    }

    #[test]
    fn headers_prefer_one_column_per_signal() {
        let header = Header::parse("index, power.draw.instant [W], power.draw [W], name").unwrap();
        let power = Column::Value(Measure::plain("gpu.power", "W"));
        assert_eq!(header, Header { columns: vec![Column::Skip, Column::Skip, power, Column::Product], device: Some(0) });
        assert_eq!(Header::parse("index, name, pid"), None);
    }
}
