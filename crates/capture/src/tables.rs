//! The tables of a capture, one column a vector.
//!
//! Each table is declared once; the macro writes its row type, its columns, and what storage and merging need
//! (column access by name, name remapping, canonical order). Column order is sort order: time comes first.
//! A default row knows nothing, so a reader names what its source tells; only `point_idx` must be set, since 0 is a point.
//!
//! One file though long: it is the one list of tables and columns, looked up rather than read.

use crate::coded::Coded;
use crate::columns::ColumnStore as _;
pub use crate::columns::{Column, ColumnMut, ColumnRef};
use crate::ids::{Name, SourceIdx};

/// What every table can do; storage and merging work through this and know no table by name.
pub trait Table: Clone + Default {
    /// File stem and manifest key.
    const NAME: &'static str;
    /// Number of rows.
    fn row_count(&self) -> usize;
    /// Columns in declared order.
    fn columns(&self) -> Vec<(&'static str, ColumnRef<'_>)>;
    /// Columns in declared order, to be filled to equal length.
    fn columns_mut(&mut self) -> Vec<(&'static str, ColumnMut<'_>)>;
    /// True if the rows are in canonical order already.
    fn is_sorted(&self) -> bool {
        self.sorted_rows() == self.row_count()
    }
    /// How many rows, from the first on, stand in canonical order.
    fn sorted_rows(&self) -> usize;
    /// Sorts rows by all columns in declared order.
    fn sort_canonical(&mut self);
    /// Moves every index into another capture's index space.
    fn remap(&mut self, names: &[Name], sources: &[SourceIdx]);
    /// Appends all rows of `other`.
    fn append(&mut self, other: Self);
}

/// How the values of a column are held: each for itself, or by a byte as long as there are few.
macro_rules! store {
    ($type:ty) => { Vec<$type> };
    ($type:ty [coded]) => { Coded<$type> };
}

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $table:ident of $row:ident { $($(#[$column_doc:meta])* $column:ident: $type:ty $([$store:ident])?,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $row { $($(#[$column_doc])* pub $column: $type,)+ }

            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct $table { $($(#[$column_doc])* pub $column: store!($type $([$store])?),)+ }

            impl $table {
                /// Appends a row.
                pub fn push(&mut self, row: $row) { $(self.$column.push(row.$column);)+ }
                /// Makes room for this many more rows.
                pub fn reserve(&mut self, rows: usize) { $(self.$column.reserve_exact(rows);)+ }
                /// Row `at`, copied out.
                pub fn row(&self, at: usize) -> $row { $row { $($column: self.$column[at].clone(),)+ } }
                /// All rows, copied out one by one.
                pub fn rows(&self) -> impl Iterator<Item = $row> + '_ { (0..self.row_count()).map(|at| self.row(at)) }
                #[inline]
                fn order_rows(&self, a: usize, b: usize) -> std::cmp::Ordering {
                    // Mostly the first column decides.
                    const ORDER: &[fn(&$table, usize, usize) -> std::cmp::Ordering] = &[$(|table, a, b| Column::order(&table.$column[a], &table.$column[b])),+];
                    ORDER[0](self, a, b).then_with(|| self.order_equal_rows(a, b))
                }
                #[inline(never)]
                fn order_equal_rows(&self, a: usize, b: usize) -> std::cmp::Ordering {
                    std::cmp::Ordering::Equal $(.then_with(|| Column::order(&self.$column[a], &self.$column[b])))+
                }
            }

            impl Table for $table {
                const NAME: &'static str = stringify!($field);
                fn row_count(&self) -> usize { [$(self.$column.len()),+][0] }
                fn columns(&self) -> Vec<(&'static str, ColumnRef<'_>)> { vec![$((stringify!($column), self.$column.view()),)+] }
                fn columns_mut(&mut self) -> Vec<(&'static str, ColumnMut<'_>)> { vec![$((stringify!($column), self.$column.filled()),)+] }
                fn sorted_rows(&self) -> usize {
                    let rows = self.row_count();
                    (1..rows).find(|&at| self.order_rows(at - 1, at).is_gt()).unwrap_or(rows)
                }
                fn sort_canonical(&mut self) {
                    $(self.$column.settle_values();)+
                    let sorted = self.sorted_rows();
                    if sorted == self.row_count() { return; }
                    let mut order: Vec<u32> = (0..self.row_count() as u32).collect();
                    order.sort_by(|&a, &b| self.order_rows(a as usize, b as usize));
                    $(self.$column.reorder(&order, sorted);)+
                }
                fn remap(&mut self, names: &[Name], sources: &[SourceIdx]) {
                    $(self.$column.remap_values(names, sources);)+
                }
                fn append(&mut self, other: Self) { $(self.$column.append_values(other.$column);)+ }
            }
        )+

        /// Every table of a capture.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Tables { $($(#[$doc])* pub $field: $table,)+ }

        /// Something to be done to every table alike.
        pub trait TableVisitor {
            /// What can go wrong.
            type Error;
            /// Called once per table, in declared order.
            fn visit<T: Table>(&mut self, table: &mut T) -> Result<(), Self::Error>;
        }

        /// Something to be read from every table alike.
        pub trait TableObserver {
            /// What can go wrong.
            type Error;
            /// Called once per table, in declared order.
            fn observe<T: Table>(&mut self, table: &T) -> Result<(), Self::Error>;
        }

        impl Tables {
            /// Shows every table to the observer.
            pub fn observe<O: TableObserver>(&self, observer: &mut O) -> Result<(), O::Error> {
                $(observer.observe(&self.$field)?;)+
                Ok(())
            }
            /// Calls the visitor for every table.
            pub fn visit<V: TableVisitor>(&mut self, visitor: &mut V) -> Result<(), V::Error> {
                $(visitor.visit(&mut self.$field)?;)+
                Ok(())
            }
            /// Moves every index into another capture's index space.
            pub fn remap(&mut self, names: &[Name], sources: &[SourceIdx]) { $(self.$field.remap(names, sources);)+ }
            /// Appends all rows of `other`, which must share this index space.
            pub fn append(&mut self, other: Self) { $(self.$field.append(other.$field);)+ }
            /// Sorts every table by all its columns.
            pub fn sort_canonical(&mut self) { $(self.$field.sort_canonical();)+ }
            /// Name and row count of every table.
            pub fn row_counts(&self) -> Vec<(&'static str, usize)> { vec![$((<$table as Table>::NAME, self.$field.row_count()),)+] }
        }
    };
}

tables! {
    /// One arm or sweep: what was run and what differs from the first arm.
    runs: Runs of Run {
        /// Index of the arm; 0 is the baseline.
        run_idx: u32,
        /// Name of the arm.
        name: Name,
        /// What differs from the first arm.
        changed: Name,
        /// Command line of the server, secrets redacted.
        flags: Name,
        /// Signal that a sweep varies; empty if none.
        varied_signal: Name,
        /// Device of this arm where it overrides the subject.
        device: Name,
    }

    /// One point of a sweep within a run, and the value of the varied signal there.
    points: Points of Point {
        /// Arm.
        run_idx: u32,
        /// Position in the sweep.
        point_idx: i32,
        /// Value of the run's `varied_signal`.
        varied_value: f64,
        /// Start on the host clock, where known.
        start_ns: Option<i64>,
        /// End on the host clock, where known.
        end_ns: Option<i64>,
    }

    /// One value of one signal at one time. Counters hold the running total as scraped.
    samples: Samples of Sample {
        /// Host time; for typed values the start of the run (0 when there is no timeline).
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Sweep point or [`NO_POINT`](crate::ids::NO_POINT).
        point_idx: i32,
        /// Signal name with its statistic (`engine.running`, `client.ttft.p50`).
        signal: Name,
        /// Canonical label text, see [`labels`](crate::labels).
        labels: Name,
        /// Value in the signal's base unit.
        value: f64,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One scrape of one histogram: cumulative counts per bucket.
    histograms: Histograms of Histogram {
        /// Host time of the scrape.
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Sweep point or [`NO_POINT`](crate::ids::NO_POINT).
        point_idx: i32,
        /// Signal name without statistic (`server.ttft`).
        signal: Name,
        /// Canonical label text.
        labels: Name,
        /// Sum of all observations, base unit.
        sum: f64,
        /// Number of observations.
        count: f64,
        /// Upper bounds of the buckets, the last one infinite.
        bounds: Vec<f64>,
        /// Observations at or below each bound.
        cumulative: Vec<f64>,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One request as seen at one vantage. Times are host time; unknown ones are empty.
    requests: Requests of Request {
        /// Request sent (client) or received (gateway, server).
        t_sent_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Sweep point or [`NO_POINT`](crate::ids::NO_POINT).
        point_idx: i32,
        /// Vantage: `client`, `gateway`, `server`.
        vantage: Name,
        /// Request id, unique per vantage and attempt within its source.
        request_id: Name,
        /// 0 for the first attempt.
        attempt: u32,
        /// When the request was due.
        t_intended_ns: Option<i64>,
        /// Connection in hand.
        t_connected_ns: Option<i64>,
        /// Passed on to the upstream (gateway).
        t_upstream_sent_ns: Option<i64>,
        /// First byte from the upstream (gateway).
        t_upstream_first_ns: Option<i64>,
        /// Response headers.
        t_headers_ns: Option<i64>,
        /// First event of any kind.
        t_first_event_ns: Option<i64>,
        /// First event that carries a role.
        t_first_role_ns: Option<i64>,
        /// First reasoning token.
        t_first_reasoning_ns: Option<i64>,
        /// First content token, or the first token of any kind where the source does not tell them apart.
        t_first_content_ns: Option<i64>,
        /// Entered the engine's queue.
        t_queued_ns: Option<i64>,
        /// First scheduled.
        t_scheduled_ns: Option<i64>,
        /// Last token.
        t_last_token_ns: Option<i64>,
        /// Stream closed.
        t_done_ns: Option<i64>,
        /// Prompt tokens.
        tokens_in: Option<i64>,
        /// Output tokens.
        tokens_out: Option<i64>,
        /// Prompt tokens served from cache.
        tokens_cached: Option<i64>,
        /// Replica that served it.
        replica: Name,
        /// Class of request.
        class: Name,
        /// Times it was preempted.
        preemptions: Option<i64>,
        /// Finish reason or error text class.
        finish: Name,
        /// HTTP status.
        status: Option<i64>,
        /// 1 if this request opened a new connection, 0 if it reused one.
        new_connection: Option<i64>,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One block of a prompt, for reuse analysis; hashes are salted per capture.
    prefix_blocks: PrefixBlocks of PrefixBlock {
        /// When the request was sent.
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Request id.
        request_id: Name,
        /// Position of the block in the prompt.
        block_idx: u32,
        /// Salted hash of the block and all before it.
        hash: i64,
    }

    /// One span of a gateway or server trace.
    spans: Spans of Span {
        /// Start.
        t_start_ns: i64,
        /// End.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Trace id.
        trace_id: Name,
        /// Span id.
        span_id: Name,
        /// Parent span id.
        parent_id: Name,
        /// Span name.
        name: Name,
        /// Request id, where one is told.
        request_id: Name,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One delivered piece of a stream.
    chunks: Chunks of Chunk {
        /// Arrival.
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Vantage.
        vantage: Name,
        /// Request id.
        request_id: Name,
        /// Attempt.
        attempt: u32,
        /// Position in the stream, 0 is the first.
        chunk_idx: u32,
        /// Gap to the chunk before, 0 for the first.
        gap_ns: i64,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One engine iteration.
    steps: Steps of Step {
        /// Start.
        t_start_ns: i64,
        /// End.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Replica.
        replica: Name,
        /// Prompt tokens computed.
        prefill_tokens: Option<i64>,
        /// Sequences decoded.
        decode_seqs: Option<i64>,
        /// Prompt tokens taken from cache.
        cached_tokens: Option<i64>,
        /// Phase: prefill, decode, mixed.
        phase: Name,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// A kernel, copy, memset or opaque graph replay on a device stream.
    device_events: DeviceEvents of DeviceEvent {
        /// Start.
        t_start_ns: i64,
        /// End, not before the start.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32 [coded],
        /// Process that launched it, 0 where the recorder does not tell; correlation ids repeat across processes.
        process: u32 [coded],
        /// Device as the recorder numbers it.
        device: u32 [coded],
        /// Stream.
        stream: u32 [coded],
        /// `kernel`, `memcpy`, `memset`, `graph` (a replay recorded as one block).
        kind: Name [coded],
        /// Kernel name; of a copy its direction and memory: `HtoD Pageable -> Device`.
        name: Name,
        /// Launch as `key=value`, separated by spaces: `grid=148,1,1 block=256,1,1 regs=64 smem=0`; empty where not told.
        shape: Name,
        /// Correlation id with the launching call, 0 for none. One graph launch has many.
        correlation: u32,
        /// Graph node id, else 1 where the recorder says that it came from a graph, 0 where it does not.
        graph: u32 [coded],
        /// Bytes moved, 0 for none.
        byte_count: i64,
        /// Where it came from.
        source_idx: SourceIdx [coded],
    }

    /// A runtime call, op, annotation or python frame on a thread.
    host_events: HostEvents of HostEvent {
        /// Start.
        t_start_ns: i64,
        /// End, not before the start.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32 [coded],
        /// Process id.
        process: u32 [coded],
        /// Thread id.
        thread: u32 [coded],
        /// `runtime` and `driver` (calls of CUDA or HIP), `op`, `annotation`, `device_annotation`, `frame`, `overhead` (of the
        /// profiler), `os` (calls of the operating system), `off_cpu` (the thread runs on no CPU), `sync` (a wait for the device as its driver records it, beside
        /// the calls: it has a process and no thread).
        kind: Name [coded],
        /// Name; calls without their version suffix.
        name: Name,
        /// Correlation id, 0 for none.
        correlation: u32,
        /// Where it came from.
        source_idx: SourceIdx [coded],
    }

    /// What a recorder tells of one collective on one rank, beside its kernel in `device_events`.
    collectives: Collectives of Collective {
        /// Start of the kernel.
        t_start_ns: i64,
        /// End of the kernel.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Rank within the whole job, -1 where not told.
        rank: i32,
        /// Device as the recorder numbers it.
        device: u32,
        /// Operation in lower case without prefixes: `allreduce`, `all_gather`, `send`.
        op: Name,
        /// Process group or communicator.
        group: Name,
        /// Ranks in the group, 0 where not told.
        group_size: u32,
        /// Number of the operation within its group, -1 where not told.
        sequence: i64,
        /// Elements type.
        dtype: Name,
        /// Bytes put in by this rank, 0 where not told.
        bytes_in: i64,
        /// Bytes got by this rank, 0 where not told.
        bytes_out: i64,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// The sizes of a matrix product or attention, as its operator on the host tells them. Operators nest: of a call inside
    /// several the innermost counts.
    op_sizes: OpSizes of OpSize {
        /// Start of the operator.
        t_start_ns: i64,
        /// End, not before the start.
        t_end_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Process id.
        process: u32,
        /// Thread id.
        thread: u32,
        /// `matmul`, `attention`.
        op: Name,
        /// `key=value`, separated by spaces. Of a product `b` of `m` by `k` with `k` by `n`. Of attention `b` requests of `q`
        /// queries on `kv` keys with `hq` and `hkv` heads of `d` and `dv`, `causal`, and `window` keys at most; or `t` tokens of
        /// requests whose lengths the step's annotation tells.
        sizes: Name,
        /// Number format of the inputs (`bf16`, `f8e4m3`), empty where not told.
        dtype: Name,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// A device as a recorder describes it.
    devices: Devices of Device {
        /// Arm.
        run_idx: u32,
        /// Device as the recorder numbers it.
        device: u32,
        /// Rank of the process within the whole job, -1 where not told.
        rank: i32,
        /// Ranks of the whole job, 0 where not told.
        world_size: u32,
        /// Host, to tell equal numbers apart; empty where not told.
        host: Name,
        /// Name as the recorder writes it; empty where not told.
        name: Name,
        /// `nvidia`, `amd`, `intel`, `meta`; empty where not told.
        vendor: Name,
        /// Multiprocessors or compute units, 0 where not told.
        sm_count: u32,
        /// Warps one of them holds, 0 where not told.
        max_warps_per_sm: u32,
        /// Memory, bytes, 0 where not told.
        memory_bytes: i64,
        /// Memory bandwidth, bytes/s, 0 where not told.
        bandwidth_bytes_per_s: i64,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One sample of a thread's stack.
    stacks: Stacks of Stack {
        /// When; 0 where the source does not tell.
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Role of the process and name of the thread: `engine_core/MainThread`.
        role: Name,
        /// `gil` (runs with the interpreter lock), `active` (runs, or waits for the lock), `idle`; empty where not told.
        state: Name,
        /// Folded stack, the outermost frame first, frames separated by semicolons.
        folded: Name,
        /// Samples.
        weight: f64,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// One setting as one source states it.
    settings: Settings of Setting {
        /// Arm.
        run_idx: u32,
        /// Replica, empty for all.
        replica: Name,
        /// `config.` or `env.` name.
        key: Name,
        /// Value text, secrets redacted.
        value: Name,
        /// See [`settings::SOURCES`](crate::settings::SOURCES); a default says of which version.
        origin: Name,
        /// Line in the source, 0 for none.
        line: u32,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// Something an engine told in its log.
    logs: Logs of Log {
        /// Host time.
        t_ns: i64,
        /// Arm.
        run_idx: u32,
        /// Replica.
        replica: Name,
        /// Level.
        level: Name,
        /// Source file of the engine.
        file: Name,
        /// What kind of event: `banner`, `kv_capacity`, `periodic`, `preemption`, `recompile`, ...
        kind: Name,
        /// Fields as `key=value`, separated by spaces.
        fields: Name,
        /// Line in the log.
        line: u32,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// What was lost or doubtful in an input.
    issues: Issues of Issue {
        /// `error`, `warning`, `note`.
        severity: Name,
        /// Stable short id: `truncated_gzip`, `counter_reset`, ...
        code: Name,
        /// Source file.
        source: Name,
        /// Place: `line 12`, `byte 4096`, `scrape 7`; empty for the whole.
        place: Name,
        /// How often.
        count: i64,
        /// One sentence: what was expected, what was found, what it means.
        sentence: Name,
    }

    /// Free text a user wrote: shown, never parsed.
    notes: Notes of Note {
        /// Arm.
        run_idx: u32,
        /// The text.
        text: Name,
        /// Where it came from.
        source_idx: SourceIdx,
    }

    /// A file no importer knows.
    attachments: Attachments of Attachment {
        /// File name.
        name: Name,
        /// Size.
        byte_count: i64,
        /// Where it came from.
        source_idx: SourceIdx,
    }
}
