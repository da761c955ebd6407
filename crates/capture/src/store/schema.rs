//! How the columns of a table look to Parquet and to any Arrow tool.
//!
//! Times are `TIMESTAMP(NANOS, UTC)`, indices and counts unsigned, names plain text, lists the standard three levels.
//! Integers are delta-packed (times are sorted, most other integers repeat or grow), text that repeats has a dictionary.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use crate::manifest::SCHEMA_VERSION;
use crate::tables::ColumnRef;

/// Rows per row group: small enough to skip by time, large enough to pack well.
pub(super) const GROUP_ROWS: usize = 1 << 18;

/// Rows per page at most.
pub(super) const PAGE_ROWS: usize = 1 << 17;

/// A page is closed when it holds this much.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// Measured on 4 M samples: level 3 is no smaller than level 1 and takes longer.
pub(super) const ZSTD_LEVEL: i32 = 1;

/// True for columns that hold points in time; other `_ns` columns are durations.
pub(super) fn is_time(column: &str) -> bool {
    column.ends_with("_ns") && (column.starts_with("t_") || matches!(column, "start_ns" | "end_ns"))
}

/// The Parquet schema of a table.
pub(super) fn message(table: &str, columns: &[(&'static str, ColumnRef<'_>)]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> = columns.iter().map(|(name, column)| field(name, column).map(Arc::new)).collect();
    Ok(Arc::new(Type::group_type_builder(table).with_fields(fields?).build()?))
}

fn field(name: &str, column: &ColumnRef<'_>) -> Result<Type, ParquetError> {
    let unsigned = LogicalType::integer(32, false);
    let time = is_time(name).then_some(LogicalType::timestamp(true, TimeUnit::NANOS));
    let (physical, repetition, logical) = match column {
        ColumnRef::I64(_) => (Physical::INT64, Repetition::REQUIRED, time),
        ColumnRef::OptI64(_) => (Physical::INT64, Repetition::OPTIONAL, time),
        ColumnRef::I32(_) => (Physical::INT32, Repetition::REQUIRED, None),
        ColumnRef::U32(_) | ColumnRef::Source(_) => (Physical::INT32, Repetition::REQUIRED, Some(unsigned)),
        ColumnRef::F64(_) => (Physical::DOUBLE, Repetition::REQUIRED, None),
        ColumnRef::Name(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
        ColumnRef::ListF64(_) => return list(name),
    };
    Type::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical).build()
}

/// `required group NAME (LIST) { repeated group list { required double element } }`
fn list(name: &str) -> Result<Type, ParquetError> {
    let element = Type::primitive_type_builder("element", Physical::DOUBLE).with_repetition(Repetition::REQUIRED).build()?;
    let repeated = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(vec![Arc::new(element)]).build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(repeated)])
        .build()
}

/// How pages are compressed.
pub(super) fn compression() -> Result<Compression, ParquetError> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
}

/// How a table is encoded; dictionaries are `text_out`'s.
pub(super) fn properties(table: &str, columns: &[(&'static str, ColumnRef<'_>)]) -> Result<WriterProperties, ParquetError> {
    let about = vec![
        KeyValue::new("inferoscope.table".to_string(), table.to_string()),
        KeyValue::new("inferoscope.schema_version".to_string(), SCHEMA_VERSION.to_string()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(compression()?)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(about));
    if columns.first().is_some_and(|(_, column)| matches!(column, ColumnRef::I64(_) | ColumnRef::U32(_))) {
        properties = properties.set_sorting_columns(Some(vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }]));
    }
    for (name, column) in columns {
        let path = ColumnPath::from(*name);
        properties = match column {
            ColumnRef::Name(_) => properties.set_column_statistics_enabled(path, EnabledStatistics::None),
            ColumnRef::F64(_) => properties,
            ColumnRef::ListF64(_) => properties.set_column_statistics_enabled(
                ColumnPath::new(vec![(*name).into(), "list".into(), "element".into()]),
                EnabledStatistics::None,
            ),
            _ => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    Ok(properties.build())
}
