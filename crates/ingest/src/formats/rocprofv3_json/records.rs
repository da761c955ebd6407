//! The records of one process: dispatches, copies and calls.

use std::io::BufRead;

use capture::{DeviceEvent, HostEvent, Name, Severity};

use crate::builder::Builder;
use crate::json::{Json, JsonResult};

use super::names::{Call, Process, Wanted, handle, number};

/// Most records of one file.
const MAX_EVENTS: usize = 48_000_000;
/// Longest believable event.
const MAX_EVENT_NS: i64 = 1_000_000_000_000_000;

/// Lists of calls, and the kind they become.
const CALLS: &[(&str, &str)] = &[
    ("hip_api", "runtime"),
    ("hsa_api", "driver"),
    ("marker_api", "annotation"),
    ("rccl_api", "annotation"),
    ("rocdecode_api", "annotation"),
    ("rocjpeg_api", "annotation"),
];

/// What records of every list have.
#[derive(Default)]
struct Record {
    start_ns: Option<i64>,
    end_ns: Option<i64>,
    thread: u32,
    kind: u32,
    operation: u32,
    correlation: u32,
    stream: u32,
    queue: u32,
    agent: u32,
    from: u32,
    to: u32,
    byte_count: i64,
    kernel: u32,
    launch: [u32; 7],
}

/// Reads the lists below `buffer_records`.
pub(super) fn read<R: BufRead>(json: &mut Json<R>, process: &mut Process, builder: &mut Builder<'_>) -> JsonResult<()> {
    json.object(|list, json| match list {
        "kernel_dispatch" => json.array(|json| {
            let record = Record::read(json)?;
            let wanted = Wanted::Kernel(record.kernel, record.launch);
            record.add_device("kernel", record.agent, wanted, process, builder);
            Ok(())
        }),
        "memory_copy" => json.array(|json| {
            let record = Record::read(json)?;
            record.add_device("memcpy", record.to, Wanted::Copy(record.from, record.to), process, builder);
            Ok(())
        }),
        _ => match CALLS.iter().find(|(known, _)| *known == list) {
            Some((_, kind)) => json.array(|json| {
                let record = Record::read(json)?;
                record.add_host(kind, list == "marker_api", process, builder);
                Ok(())
            }),
            None => json.skip(),
        },
    })
}

impl Record {
    fn read<R: BufRead>(json: &mut Json<R>) -> JsonResult<Self> {
        let mut record = Self::default();
        json.object(|key, json| record.field(key, json))?;
        Ok(record)
    }

    fn field<R: BufRead>(&mut self, key: &str, json: &mut Json<R>) -> JsonResult<()> {
        match key {
            "start_timestamp" => self.start_ns = json.i64()?,
            "end_timestamp" => self.end_ns = json.i64()?,
            "thread_id" => self.thread = number(json)?,
            "kind" => self.kind = number(json)?,
            "operation" => self.operation = number(json)?,
            "correlation_id" => json.object(|key, json| {
                if key == "internal" {
                    self.correlation = number(json)?;
                    return Ok(());
                }
                json.skip()
            })?,
            "stream_id" => self.stream = handle(json)?,
            "src_agent_id" => self.from = handle(json)?,
            "dst_agent_id" => self.to = handle(json)?,
            "bytes" => self.byte_count = json.i64()?.unwrap_or(0).max(0),
            "dispatch_info" => json.object(|key, json| self.dispatch(key, json))?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn dispatch<R: BufRead>(&mut self, key: &str, json: &mut Json<R>) -> JsonResult<()> {
        match key {
            "agent_id" => self.agent = handle(json)?,
            "queue_id" => self.queue = handle(json)?,
            "kernel_id" => self.kernel = number(json)?,
            "group_segment_size" => self.launch[6] = number(json)?,
            "grid_size" => self.extent(0, json)?,
            "workgroup_size" => self.extent(3, json)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    fn extent<R: BufRead>(&mut self, from: usize, json: &mut Json<R>) -> JsonResult<()> {
        json.object(|key, json| {
            match key {
                "x" => self.launch[from] = number(json)?,
                "y" => self.launch[from + 1] = number(json)?,
                "z" => self.launch[from + 2] = number(json)?,
                _ => json.skip()?,
            }
            Ok(())
        })
    }

    /// Start and end, unless no event can have them or there are too many events.
    fn span(&self, rows: usize, builder: &mut Builder<'_>) -> Option<(i64, i64)> {
        let span = self.start_ns.zip(self.end_ns);
        let span = span.filter(|(start, end)| *start > 0 && (0..=MAX_EVENT_NS).contains(&end.saturating_sub(*start)));
        if span.is_none() {
            builder.issue_once(Severity::Warning, "impossible_times", "", || {
                "expected records to have a start and, not before it, an end, found others; they are left out".to_string()
            });
        } else if rows >= MAX_EVENTS {
            builder.issue_once(Severity::Warning, "too_many_events", "", || {
                format!("expected at most {MAX_EVENTS} records, found more; the rest is left out")
            });
            return None;
        }
        span
    }

    fn add_device(&self, kind: &str, agent: u32, wanted: Wanted, process: &mut Process, builder: &mut Builder<'_>) {
        let rows = builder.capture.tables.device_events.t_start_ns.len();
        let Some((t_start_ns, t_end_ns)) = self.span(rows, builder) else { return };
        let kind = builder.intern(kind);
        builder.capture.tables.device_events.push(DeviceEvent {
            t_start_ns,
            t_end_ns,
            run_idx: builder.context.run_idx,
            process: 0,
            // The agent, until the process ends and tells which device it is.
            device: agent,
            stream: if self.stream == 0 { self.queue } else { self.stream },
            kind,
            name: Name::EMPTY,
            shape: Name::EMPTY,
            correlation: self.correlation,
            graph: 0,
            byte_count: self.byte_count,
            source_idx: builder.source(),
        });
        process.device_wants.push(wanted);
    }

    fn add_host(&self, kind: &str, is_marker: bool, process: &mut Process, builder: &mut Builder<'_>) {
        let rows = builder.capture.tables.host_events.t_start_ns.len();
        let Some((t_start_ns, t_end_ns)) = self.span(rows, builder) else { return };
        let kind = builder.intern(kind);
        builder.capture.tables.host_events.push(HostEvent {
            t_start_ns,
            t_end_ns,
            run_idx: builder.context.run_idx,
            process: 0,
            thread: self.thread,
            kind,
            name: Name::EMPTY,
            correlation: if is_marker { 0 } else { self.correlation },
            source_idx: builder.source(),
        });
        process.host_wants.push(if is_marker {
            Call::Message(self.correlation, self.kind, self.operation)
        } else {
            Call::Operation(self.kind, self.operation)
        });
    }
}
