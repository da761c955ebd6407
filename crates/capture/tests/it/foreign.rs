//! Tables that another writer of Parquet made: other encodings, other columns, other units.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use capture::store;
use expect_test::expect;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use crate::damage::change;
use crate::sample::issues;

const SAMPLES: &str = "message samples {
    optional int64 t_ns (TIMESTAMP(NANOS,true));
    required int64 added_later;
    required int32 run_idx (INTEGER(32,false));
    required binary signal (STRING);
    optional binary labels (STRING);
    required double value;
    required int32 source_idx (INTEGER(32,false));
}";

/// Replaces the samples of a capture by ten rows of a file with this schema; row 3 has no time and no labels.
fn write_samples(path: &Path, schema: &str, properties: WriterProperties) {
    let file = fs::File::create(path.join("samples.parquet")).unwrap();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for group in 0..2 {
        let rows = group * 5..group * 5 + 5;
        let def: Vec<i16> = rows.clone().map(|row| i16::from(row != 3)).collect();
        let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
        let mut out = writer.next_row_group().unwrap();
        let mut at = 0;
        while let Some(mut column) = out.next_column().unwrap() {
            let ints: Vec<i64> = rows.clone().filter(|row| at > 0 || *row != 3).map(|row| 1_000 + row).collect();
            let small: Vec<i32> = rows.clone().map(|_| 0).collect();
            let floats: Vec<f64> = rows.clone().map(|row| row as f64).collect();
            match at {
                0 => column.typed::<Int64Type>().write_batch(&ints, Some(&def), None),
                1 => column.typed::<Int64Type>().write_batch(&ints, None, None),
                3 => column.typed::<ByteArrayType>().write_batch(&vec![text("engine.running"); 5], None, None),
                4 => {
                    let texts: Vec<ByteArray> = rows.clone().filter(|row| *row != 3).map(|row| text(&format!("rank=\"{row}\""))).collect();
                    column.typed::<ByteArrayType>().write_batch(&texts, Some(&def), None)
                }
                5 => column.typed::<DoubleType>().write_batch(&floats, None, None),
                _ => column.typed::<Int32Type>().write_batch(&small, None, None),
            }
            .unwrap();
            column.close().unwrap();
            at += 1;
        }
        out.close().unwrap();
    }
    writer.close().unwrap();
}

/// A capture without hashes, as another tool would write it.
fn opened(schema: &str, properties: WriterProperties) -> capture::Capture {
    opened_changed(schema, properties, |_| ())
}

/// The same, with the bytes of the table changed.
fn opened_changed(schema: &str, properties: WriterProperties, change: impl FnOnce(&mut Vec<u8>)) -> capture::Capture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.capture");
    fs::create_dir(&path).unwrap();
    let sources = r#"[{"name": "trace.json"}]"#;
    let manifest = format!(r#"{{"kind": "inferoscope.capture", "schema_version": 1, "sources": {sources}, "unknown": {{}}}}"#);
    fs::write(path.join("manifest.json"), manifest).unwrap();
    write_samples(&path, schema, properties);
    let mut bytes = fs::read(path.join("samples.parquet")).unwrap();
    change(&mut bytes);
    fs::write(path.join("samples.parquet"), bytes).unwrap();
    store::open(&path).unwrap()
}

fn layouts() -> [WriterProperties; 6] {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap());
    let builder = WriterProperties::builder;
    [
        builder().build(),
        builder().set_compression(zstd).build(),
        builder().set_writer_version(WriterVersion::PARQUET_2_0).set_compression(zstd).build(),
        builder().set_writer_version(WriterVersion::PARQUET_2_0).set_dictionary_enabled(false).set_encoding(Encoding::PLAIN).build(),
        builder().set_dictionary_enabled(false).set_compression(zstd).set_data_page_row_count_limit(2).set_write_batch_size(1).build(),
        builder()
            .set_column_dictionary_enabled("t_ns".into(), false)
            .set_column_encoding("t_ns".into(), Encoding::DELTA_BINARY_PACKED)
            .build(),
    ]
}

/// Every way to lay out the same values reads the same: unknown columns are passed over, missing ones filled.
#[test]
fn other_layouts_read_the_same() {
    let layouts = layouts();
    let mut told = Vec::new();
    for properties in layouts {
        let capture = opened(SAMPLES, properties);
        let samples = &capture.tables.samples;
        assert_eq!(samples.t_ns, [0, 1000, 1001, 1002, 1004, 1005, 1006, 1007, 1008, 1009]);
        assert_eq!(samples.value, [3.0, 0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(samples.point_idx, [-1; 10], "a column the file lacks");
        let labels: Vec<&str> = samples.labels.iter().map(|name| capture.text(*name)).collect();
        assert_eq!(labels[..3], ["", "rank=\"0\"", "rank=\"1\""]);
        told.push(issues(&capture));
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]));
    expect![[r#"
        warning empty_value samples.parquet [labels] x1: Expected a value in every row, found 1 empty ones: they read as 0 or as no text.
        warning empty_value samples.parquet [t_ns] x1: Expected a value in every row, found 1 empty ones: they read as 0 or as no text.
        warning unverified_table manifest.json [blocks] x1: Expected the hashes of every table, found none for samples.parquet: changes to them go unseen.
    "#]]
    .assert_eq(&told[0]);
}

#[test]
fn what_cannot_be_taken_is_told() {
    let layouts = [
        SAMPLES.replace("NANOS", "MICROS"),
        SAMPLES.replace("required double value", "required double renamed"),
        SAMPLES.replace("optional int64 t_ns (TIMESTAMP(NANOS,true))", "optional int64 value").replace("double value", "double t_ns"),
    ];
    let told: String = layouts.iter().map(|schema| issues(&opened(schema, WriterProperties::builder().build())) + "\n").collect();
    expect![[r#"
        error damaged_table samples.parquet [] x0: Nothing of this table could be read: expected nanoseconds in column `t_ns`, found a coarser unit.
        warning unverified_table manifest.json [blocks] x1: Expected the hashes of every table, found none for samples.parquet: changes to them go unseen.

        warning empty_value samples.parquet [labels] x1: Expected a value in every row, found 1 empty ones: they read as 0 or as no text.
        warning empty_value samples.parquet [t_ns] x1: Expected a value in every row, found 1 empty ones: they read as 0 or as no text.
        warning missing_column samples.parquet [value] x10: Expected a column `value`, found none: its values read as 0.
        warning unverified_table manifest.json [blocks] x1: Expected the hashes of every table, found none for samples.parquet: changes to them go unseen.

        warning damaged_table samples.parquet [2 row groups from 0] x10: 10 rows are left out: column `t_ns`: expected values of type I64, found F64.
        warning unverified_table manifest.json [blocks] x1: Expected the hashes of every table, found none for samples.parquet: changes to them go unseen.

    "#]].assert_eq(&told);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Pages that are not compressed let every change through to the decoders.
    #[test]
    fn changed_layouts_are_survived(seed: u64, layout in 0usize..6) {
        let properties = layouts().into_iter().nth(layout).unwrap();
        let mut capture = opened_changed(SAMPLES, properties, |bytes| change(bytes, seed));
        let rows = capture.tables.samples.t_ns.len();
        prop_assert!(rows % 5 == 0 || !issues(&capture).is_empty());
        capture.canonicalize();
    }
}
