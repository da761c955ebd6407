//! Captures to write: every table, every column type, edge values included.

use std::convert::Infallible;
use std::fs;
use std::path::Path;

use capture::{Capture, ColumnMut, Name, Source, SourceIdx, Table, TableVisitor};

/// A small deterministic generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn integer(&mut self) -> i64 {
        match self.below(8) {
            0 => [i64::MIN, i64::MAX, 0, -1][self.below(4)],
            1 => self.next().cast_signed(),
            _ => 1_796_036_013_000_000_000 + (self.next() % 1_000_000_000).cast_signed(),
        }
    }

    fn float(&mut self) -> f64 {
        match self.below(8) {
            0 => [f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE, f64::NAN][self.below(5)],
            1 => f64::from_bits(self.next() >> 2),
            _ => self.below(500) as f64 / 4.0,
        }
    }
}

struct Fill<'a> {
    random: &'a mut Random,
    max_rows: usize,
    names: u32,
    sources: u32,
}

impl TableVisitor for Fill<'_> {
    type Error = Infallible;

    fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Infallible> {
        let rows = self.random.below(self.max_rows + 1);
        let random = &mut *self.random;
        for (_, column) in table.columns_mut() {
            match column {
                ColumnMut::I64(out) => out.extend((0..rows).map(|_| random.integer())),
                ColumnMut::I32(out) => out.extend((0..rows).map(|_| random.integer() as i32)),
                ColumnMut::U32(out) => out.extend((0..rows).map(|_| random.integer() as u32)),
                ColumnMut::F64(out) => out.extend((0..rows).map(|_| random.float())),
                ColumnMut::OptI64(out) => out.extend((0..rows).map(|_| (random.below(3) > 0).then(|| random.integer()))),
                ColumnMut::Name(out) => out.extend((0..rows).map(|_| Name(random.below(self.names as usize) as u32))),
                ColumnMut::Source(out) => out.extend((0..rows).map(|_| SourceIdx(random.below(self.sources as usize) as u32))),
                ColumnMut::ListF64(out) => out.extend((0..rows).map(|_| (0..random.below(5)).map(|_| random.float()).collect())),
            }
        }
        Ok(())
    }
}

/// A capture whose tables have up to `max_rows` rows each, in no order.
pub(crate) fn random(seed: u64, max_rows: usize) -> Capture {
    let random = &mut Random(seed);
    let mut capture = Capture::new();
    for at in 0..random.below(40) {
        let text = match random.below(5) {
            0 => "π \"quoted\" \\ line\nbreak \u{1F600}".repeat(random.below(4)),
            1 => "x".repeat(random.below(3000)),
            _ => format!("engine.running.{at}"),
        };
        capture.intern(&text);
    }
    for at in 0..random.below(4) {
        let name = format!("source {at}");
        capture.add_source(Source { name, format: "prometheus".into(), byte_count: random.next(), damaged: at == 2, ..Source::default() });
    }
    capture.manifest.subject.engine = "vllm".into();
    let (names, sources) = (capture.names.len() as u32, capture.manifest.sources.len() as u32);
    let Ok(()) = capture.tables.visit(&mut Fill { random, max_rows, names, sources });
    capture
}

/// The same, in canonical form.
pub(crate) fn canonical(seed: u64, max_rows: usize) -> Capture {
    let mut capture = random(seed, max_rows);
    capture.canonicalize();
    capture
}

/// A piece of a recording: `rows` samples of one signal from `first` on, 1 ms apart, each with its number as value.
pub(crate) fn piece(first: u32, rows: u32) -> Capture {
    let mut capture = Capture::new();
    let source_idx = capture.add_source(Source { name: "http://engine/metrics".into(), format: "prometheus".into(), ..Source::default() });
    let (signal, labels) = (capture.intern("engine.running"), capture.intern("replica=\"a\""));
    for at in first..first + rows {
        let t_ns = 1_796_036_013_000_000_000 + i64::from(at) * 1_000_000;
        capture.tables.samples.push(capture::Sample { t_ns, run_idx: 0, point_idx: -1, signal, labels, value: f64::from(at), source_idx });
    }
    let name = capture.intern("baseline");
    let empty = Name::EMPTY;
    capture.tables.runs.push(capture::Run { run_idx: 0, name, changed: empty, flags: empty, varied_signal: empty, device: empty });
    capture
}

/// Compares captures by what they hold; floats by their bits, but for the kinds of NaN.
pub(crate) fn assert_same(found: &Capture, expected: &Capture) {
    assert_eq!(found.manifest, expected.manifest);
    assert_eq!(found.names, expected.names);
    assert_eq!(format!("{:?}", found.tables), format!("{:?}", expected.tables));
}

/// The issues of a capture as a user reads them, one a line.
pub(crate) fn issues(capture: &Capture) -> String {
    let text = |name| capture.text(name);
    let line = |issue: capture::Issue| {
        let (severity, code, source) = (text(issue.severity), text(issue.code), text(issue.source));
        format!("{severity} {code} {source} [{}] x{}: {}\n", text(issue.place), issue.count, text(issue.sentence))
    };
    capture.tables.issues.rows().map(line).collect()
}

/// Every file below `dir`, relative to it, with its bytes.
pub(crate) fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
