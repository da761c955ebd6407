//! Tables as comma-separated values (RFC 4180): a header line, then a line per row.
//!
//! Times are integers in nanoseconds, unknown values are empty, lists are separated by spaces. Interned text and sources
//! stand as text, so that a file can be read alone.

use std::io::{self, Write};

use capture::{Capture, ColumnRef, Table, TableObserver};

/// Where a table's file is made.
pub trait Folder {
    /// What one file is written to.
    type File: Write;
    /// Starts the file of the table of this name.
    fn create(&mut self, table: &'static str) -> io::Result<Self::File>;
    /// Ends it.
    fn finish(&mut self, table: &'static str, file: Self::File) -> io::Result<()>;
}

/// Writes each table that has rows; tells the names of those written, with their number of rows.
pub fn write<F: Folder>(capture: &Capture, folder: &mut F) -> io::Result<Vec<(&'static str, usize)>> {
    let mut tables = Tables { capture, folder, written: Vec::new() };
    capture.tables.observe(&mut tables)?;
    Ok(tables.written)
}

struct Tables<'a, F> {
    capture: &'a Capture,
    folder: &'a mut F,
    written: Vec<(&'static str, usize)>,
}

impl<F: Folder> TableObserver for Tables<'_, F> {
    type Error = io::Error;

    fn observe<T: Table>(&mut self, table: &T) -> io::Result<()> {
        let row_count = table.row_count();
        if row_count == 0 {
            return Ok(());
        }
        let mut file = self.folder.create(T::NAME)?;
        write_rows(self.capture, &table.columns(), row_count, &mut file)?;
        self.folder.finish(T::NAME, file)?;
        self.written.push((T::NAME, row_count));
        Ok(())
    }
}

fn write_rows(capture: &Capture, columns: &[(&'static str, ColumnRef<'_>)], row_count: usize, out: &mut impl Write) -> io::Result<()> {
    let header: Vec<&str> = columns.iter().map(|(name, _)| if *name == "source_idx" { "source" } else { *name }).collect();
    writeln!(out, "{}", header.join(","))?;
    let mut line = String::new();
    for at in 0..row_count {
        line.clear();
        for (column_idx, (_, column)) in columns.iter().enumerate() {
            if column_idx > 0 {
                line.push(',');
            }
            push_cell(capture, column, at, &mut line);
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn push_cell(capture: &Capture, column: &ColumnRef<'_>, at: usize, line: &mut String) {
    match column {
        ColumnRef::I64(values) => push(line, values[at]),
        ColumnRef::I32(values) => push(line, values[at]),
        ColumnRef::U32(values) => push(line, values.at(at)),
        ColumnRef::F64(values) => push(line, values[at]),
        ColumnRef::OptI64(values) => values[at].into_iter().for_each(|value| push(line, value)),
        ColumnRef::Name(values) => push_text(capture.text(values.at(at)), line),
        ColumnRef::Source(values) => {
            let source = capture.manifest.sources.get(values.at(at).0 as usize);
            push_text(source.map_or("", |source| &source.name), line);
        }
        ColumnRef::ListF64(values) => {
            let texts: Vec<String> = values[at].iter().map(ToString::to_string).collect();
            push_text(&texts.join(" "), line);
        }
    }
}

fn push(line: &mut String, value: impl std::fmt::Display) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail.
    let _ = write!(line, "{value}");
}

fn push_text(text: &str, line: &mut String) {
    if text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use capture::{Sample, Source};
    use expect_test::expect;

    use super::*;

    #[derive(Default)]
    struct Shown(String);

    impl Folder for Shown {
        type File = Vec<u8>;
        fn create(&mut self, table: &'static str) -> io::Result<Vec<u8>> {
            self.0.push_str(&format!("== {table}\n"));
            Ok(Vec::new())
        }
        fn finish(&mut self, _: &'static str, file: Vec<u8>) -> io::Result<()> {
            self.0.push_str(&String::from_utf8(file).expect("text"));
            Ok(())
        }
    }

    #[test]
    fn text_is_quoted_where_it_must_be_and_unknown_values_are_empty() {
        let mut capture = Capture::new();
        let source_idx = capture.add_source(Source { name: "a, b.prom".into(), ..Source::default() });
        let (signal, labels) = (capture.intern("gpu.sm_active"), capture.intern("device=\"0\""));
        capture.tables.samples.push(Sample {
            t_ns: 1_796_036_992_409_000_001,
            run_idx: 0,
            point_idx: -1,
            signal,
            labels,
            value: 0.25,
            source_idx,
        });
        capture.tables.points.push(capture::Point { run_idx: 0, point_idx: 0, varied_value: 8.0, start_ns: Some(5), end_ns: None });
        let mut shown = Shown::default();
        let written = write(&capture, &mut shown).expect("memory does not fail");
        assert_eq!(written, [("points", 1), ("samples", 1)]);
        expect![[r#"
            == points
            run_idx,point_idx,varied_value,start_ns,end_ns
            0,0,8,5,
            == samples
            t_ns,run_idx,point_idx,signal,labels,value,source
            1796036992409000001,0,-1,gpu.sm_active,"device=""0""",0.25,"a, b.prom"
        "#]]
        .assert_eq(&shown.0);
    }
}
