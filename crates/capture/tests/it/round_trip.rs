//! What is written is what is read.

use capture::store;
use expect_test::expect;
use proptest::prelude::*;

use crate::sample::{assert_same, canonical, files, issues, random};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_table_and_type_comes_back(seed: u64, max_rows in 0usize..60) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.capture");
        let capture = canonical(seed, max_rows);
        store::write(&capture, &path).unwrap();
        assert_same(&store::open(&path).unwrap(), &capture);
    }

    #[test]
    fn rows_in_any_order_come_back_sorted(seed: u64, max_rows in 0usize..60) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.capture");
        let mut capture = random(seed, max_rows);
        store::write(&capture, &path).unwrap();
        capture.tables.sort_canonical();
        capture.manifest.row_counts = capture.tables.row_counts().into_iter().map(|(name, rows)| (name.to_string(), rows as u64)).collect();
        assert_same(&store::open(&path).unwrap(), &capture);
    }

    #[test]
    fn the_same_capture_gives_the_same_bytes(seed: u64, max_rows in 0usize..60) {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one.capture"), dir.path().join("two.capture"));
        let capture = random(seed, max_rows);
        store::write(&capture, &one).unwrap();
        store::write(&capture.clone(), &two).unwrap();
        prop_assert_eq!(files(&one), files(&two));
    }
}

/// More rows than a row group, a page and a dictionary hold, and text that fills a page on its own.
#[test]
fn large_tables_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut capture = crate::sample::piece(0, 300_000);
    let request_ids: Vec<_> = (0..300_000).map(|at| capture.intern(&format!("cmpl-{at:032x}"))).collect();
    capture.tables.samples.labels = request_ids;
    let long = capture.intern(&"folded;stack;".repeat(200_000));
    for at in 0..5 {
        let row = capture::Note { run_idx: at, text: long, source_idx: capture::SourceIdx(0) };
        capture.tables.notes.push(row);
    }
    let list: Vec<f64> = (0..200_000).map(f64::from).collect();
    let (signal, labels) = (capture.intern("server.ttft"), capture::Name::EMPTY);
    for t_ns in 0..3 {
        capture.tables.histograms.push(capture::Histogram {
            t_ns,
            run_idx: 0,
            point_idx: -1,
            signal,
            labels,
            sum: 1.0,
            count: 1.0,
            bounds: list.clone(),
            cumulative: Vec::new(),
            source_idx: capture::SourceIdx(0),
        });
    }
    capture.canonicalize();
    store::write(&capture, &path).unwrap();
    assert!(store::open(&path).unwrap() == capture);
}

#[test]
fn an_empty_capture_is_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    store::write(&capture::Capture::default(), &path).unwrap();
    assert!(store::is_capture(&path));
    let found = store::open(&path).unwrap();
    assert_eq!(issues(&found), "");
    assert_eq!(found.manifest.kind, "inferoscope.capture");
}

/// A reader of Parquet that is not ours sees this.
#[test]
fn the_schema_is_self_describing() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut capture = canonical(7, 20);
    let row = capture::Histogram {
        t_ns: 1,
        run_idx: 2,
        point_idx: 3,
        signal: capture::Name::EMPTY,
        labels: capture::Name::EMPTY,
        sum: 0.5,
        count: 2.0,
        bounds: vec![1.0, f64::INFINITY],
        cumulative: vec![],
        source_idx: capture::SourceIdx(0),
    };
    capture.tables.histograms = capture::Histograms::default();
    capture.tables.histograms.push(row);
    store::write(&capture, &path).unwrap();
    let mut text = String::new();
    for table in ["histograms", "points", "chunks", "names"] {
        let file = std::fs::File::open(path.join(format!("{table}.parquet"))).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let mut schema = Vec::new();
        parquet::schema::printer::print_schema(&mut schema, reader.metadata().file_metadata().schema());
        text += &String::from_utf8(schema).unwrap();
        if table == "histograms" {
            let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
            text += &row.to_string();
            text.push('\n');
        }
    }
    expect![[r#"
        message histograms {
          REQUIRED INT64 t_ns (TIMESTAMP(NANOS,true));
          REQUIRED INT32 run_idx (INTEGER(32,false));
          REQUIRED INT32 point_idx;
          REQUIRED BYTE_ARRAY signal (STRING);
          REQUIRED BYTE_ARRAY labels (STRING);
          REQUIRED DOUBLE sum;
          REQUIRED DOUBLE count;
          REQUIRED group bounds (LIST) {
            REPEATED group list {
              REQUIRED DOUBLE element;
            }
          }
          REQUIRED group cumulative (LIST) {
            REPEATED group list {
              REQUIRED DOUBLE element;
            }
          }
          REQUIRED INT32 source_idx (INTEGER(32,false));
        }
        {t_ns: 1, run_idx: 2, point_idx: 3, signal: "", labels: "", sum: 0.5, count: 2.0, bounds: [1.0, inf], cumulative: [], source_idx: 0}
        message points {
          REQUIRED INT32 run_idx (INTEGER(32,false));
          REQUIRED INT32 point_idx;
          REQUIRED DOUBLE varied_value;
          OPTIONAL INT64 start_ns (TIMESTAMP(NANOS,true));
          OPTIONAL INT64 end_ns (TIMESTAMP(NANOS,true));
        }
        message chunks {
          REQUIRED INT64 t_ns (TIMESTAMP(NANOS,true));
          REQUIRED INT32 run_idx (INTEGER(32,false));
          REQUIRED BYTE_ARRAY vantage (STRING);
          REQUIRED BYTE_ARRAY request_id (STRING);
          REQUIRED INT32 attempt (INTEGER(32,false));
          REQUIRED INT32 chunk_idx (INTEGER(32,false));
          REQUIRED INT64 gap_ns;
          REQUIRED INT32 source_idx (INTEGER(32,false));
        }
        message names {
          REQUIRED BYTE_ARRAY text (STRING);
        }
    "#]]
    .assert_eq(&text);
}

/// Text goes through an encoder of ours; a reader that is not ours must find it.
#[test]
fn another_reader_finds_the_same_text() {
    use parquet::column::reader::ColumnReader;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut capture = crate::sample::piece(0, 280_000);
    let names: Vec<capture::Name> = (0..300).map(|at| capture.intern(&format!("signal.{at}"))).collect();
    let random = &mut crate::sample::Random(5);
    let mut signals = Vec::new();
    while signals.len() < 280_000 {
        let (name, run) = (names[random.below(300)], 1 + random.below(30) * random.below(2));
        signals.extend(std::iter::repeat_n(name, run));
    }
    signals.truncate(280_000);
    capture.tables.samples.signal = signals;
    store::write(&capture, &path).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(path.join("samples.parquet")).unwrap()).unwrap();
    let mut found = Vec::new();
    for group in 0..reader.num_row_groups() {
        let ColumnReader::ByteArrayColumnReader(mut column) = reader.get_row_group(group).unwrap().get_column_reader(3).unwrap() else {
            panic!("text is stored as text");
        };
        column.read_records(usize::MAX, None, None, &mut found).unwrap();
    }
    let expected = capture.tables.samples.signal.iter().map(|name| capture.text(*name).as_bytes());
    assert!(found.iter().map(parquet::data_type::ByteArray::data).eq(expected));
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    let mut capture = crate::sample::piece(0, 3);
    let text = capture.intern(&"x".repeat((16 << 20) + 1));
    capture.tables.samples.labels[1] = text;
    let error = store::write(&capture, &path).unwrap_err().to_string();
    expect!["table `samples`, column `labels`, row 1 holds 16777217 bytes: a value may have 16777216"].assert_eq(&error);
    capture.tables.samples.labels.pop();
    let error = store::write(&capture, &path).unwrap_err().to_string();
    expect!["table `samples` has 3 rows, but its column `labels` has 2 values"].assert_eq(&error);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays behind");
}
