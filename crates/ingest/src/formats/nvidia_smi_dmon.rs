//! `nvidia-smi dmon`: two header lines that start with `#`, then one row per device and second.
//!
//! Which columns there are depends on `-s`; the header comes again every few rows. `-o DT` adds date and local time in
//! front; `-o T` alone tells no day and counts as no time. `--format csv` puts commas between the same words. A `-` is a
//! value the device does not have. Left out: encoders, error counts, BAR1, violations (percent of an unknown whole).

use capture::Severity;

use crate::builder::Builder;
use crate::civil;
use crate::formats::device_rows::{DeviceRows, Measure, Rounds, align, is_absent, number};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::{Input, Line};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "nvidia_smi_dmon", stage: Stage::Floating, sniff, read };

/// Lines before the header that are looked at.
const MAX_LINES_BEFORE: usize = 20;
/// Most columns of a header.
const MAX_COLUMNS: usize = 200;

/// Columns by name. Both directions of PCIe are added.
const COLUMNS: &[(&str, Measure)] = &[
    ("pwr", Measure::plain("gpu.power", "")),
    ("gtemp", Measure::plain("gpu.temperature", "")),
    ("sm", Measure::percent("gpu.busy")),
    ("mem", Measure::percent("gpu.memory_busy")),
    ("mclk", Measure::mhz("gpu.mem_clock")),
    ("pclk", Measure::mhz("gpu.sm_clock")),
    ("fb", Measure::mib("gpu.memory_used", "")),
    ("rxpci", Measure::times("gpu.pcie_bytes", "", 1e6)),
    ("txpci", Measure::times("gpu.pcie_bytes", "", 1e6)),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Skip,
    Device,
    Date,
    Time,
    Value(Measure),
}

fn sniff(probe: &Probe<'_>) -> Confidence {
    if !probe.is_text() {
        return Confidence::No;
    }
    let is_header = |line: &[u8]| header(&String::from_utf8_lossy(line)).is_some();
    if probe.lines().filter(|line| !line.is_empty()).take(MAX_LINES_BEFORE).any(is_header) { Confidence::Sure } else { Confidence::No }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t', ',']).filter(|word| !word.is_empty())
}

/// The columns of a header line: `# gpu pwr gtemp ...`.
fn header(line: &str) -> Option<Vec<Column>> {
    let names = line.trim().strip_prefix('#')?;
    let column = |name: &str| match name {
        "gpu" => Column::Device,
        "Date" => Column::Date,
        "Time" => Column::Time,
        name => COLUMNS.iter().find(|(known, _)| *known == name).map_or(Column::Skip, |(_, measure)| Column::Value(*measure)),
    };
    let columns: Vec<Column> = words(names).take(MAX_COLUMNS).map(column).collect();
    let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
    // `pmon` has the same look and one row per process.
    let is_pmon = words(names).any(|name| name == "pid");
    let is_header = has(|column| *column == Column::Device) && has(|column| matches!(column, Column::Value(_))) && !is_pmon;
    is_header.then_some(columns)
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
    span: Option<(i64, i64)>,
}

impl Reader {
    fn line(&mut self, line: Line<'_>, builder: &mut Builder<'_>) {
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            builder.facts.simulated |= text.starts_with("# inferoscope: simulated");
            self.columns = header(text).unwrap_or_else(|| std::mem::take(&mut self.columns));
            return;
        }
        if self.columns.is_empty() {
            return;
        }
        let place = || format!("line {}", line.number);
        if !line.complete {
            builder.mark_damaged();
            builder.issue_once(Severity::Warning, "line_cut", &place(), || {
                "expected a line end, found the end of the text; the last row is left out".to_string()
            });
        } else if !self.row(text, builder) {
            builder.issue_once(Severity::Warning, "damaged_row", &place(), || {
                format!("expected {} words with a device, found something else; the row is left out", self.columns.len())
            });
        }
    }

    /// Adds a row; false when it is none.
    fn row(&mut self, text: &str, builder: &mut Builder<'_>) -> bool {
        if words(text).count() != self.columns.len() {
            return false;
        }
        let find = |wanted: Column| self.columns.iter().position(|column| *column == wanted).and_then(|at| words(text).nth(at));
        let Some(device) = find(Column::Device).filter(|device| device.bytes().all(|byte| byte.is_ascii_digit())) else { return false };
        let stamp = find(Column::Date).zip(find(Column::Time));
        let t_ns = match stamp {
            Some((date, time)) => local_time(date, time),
            None => Some(self.rounds.time(device)),
        };
        let Some(t_ns) = t_ns else { return false };
        if stamp.is_some() {
            let span = self.span.get_or_insert((t_ns, t_ns));
            *span = (span.0.min(t_ns), span.1.max(t_ns));
        }
        let mut pcie: Option<f64> = None;
        for (word, column) in words(text).zip(&self.columns) {
            let Column::Value(measure) = column else { continue };
            if is_absent(word) {
                continue;
            }
            match number(word).map(|value| measure.to_base(value)) {
                Some(value) if measure.signal == "gpu.pcie_bytes" => pcie = Some(pcie.unwrap_or(0.0) + value),
                Some(value) => self.rows.add(t_ns, device, measure.signal, value, builder),
                None => builder.issue_once(Severity::Warning, "unreadable_cell", "", || {
                    "expected a number, found something else; the value is left out".to_string()
                }),
            }
        }
        if let Some(value) = pcie {
            self.rows.add(t_ns, device, "gpu.pcie_bytes", value, builder);
        }
        true
    }

    fn finish(self, builder: &mut Builder<'_>) {
        if self.rows.is_empty() {
            builder.refuse("no_rows", "expected rows of values below the header of nvidia-smi dmon, found none");
            return;
        }
        self.rounds.report(builder);
        align(self.span, builder);
    }
}

/// `20261103` and `10:12:42` read as UTC.
fn local_time(date: &str, time: &str) -> Option<i64> {
    let time: String = time.chars().filter(|character| *character != ':').collect();
    civil::compact(format!("{date} {time}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_from_those_of_other_tools() {
        let power = Column::Value(Measure::plain("gpu.power", ""));
        assert_eq!(header("# gpu    pwr    enc"), Some(vec![Column::Device, power, Column::Skip]));
        assert_eq!(header("#Date       Time        gpu    pwr").map(|columns| columns.len()), Some(4));
        for line in ["# gpu        pid  type    sm   mem", "# Idx     W     C", "gpu pwr", "# sm mem", ""] {
            assert_eq!(header(line), None, "{line}");
        }
        assert_eq!(local_time("20261103", "10:12:42"), Some(1_793_700_762_000_000_000));
    }
}
