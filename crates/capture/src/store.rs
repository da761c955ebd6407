//! Captures on disk: one Parquet file per table, written in closed segments, compacted into a finished capture.
