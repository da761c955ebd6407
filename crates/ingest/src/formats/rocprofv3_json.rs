//! rocprofv3's JSON (`--output-format json`): one process after another, each with its agents, names and records.
//!
//! Records name kernels, calls and agents by number; the tables of these may stand before or behind them, so rows are
//! kept with numbers and get their names when their process ends. Dispatches and copies become `device_events`; HIP, HSA,
//! RCCL and marker calls `host_events`. Grids are counted in workgroups, as CUDA counts them, and not in work items. Times
//! are nanoseconds of the machine's own clock. Left out: counters, scratch memory, allocations, PC samples, and with the
//! configuration every command line, path and environment variable.

mod names;
mod records;

use std::io::BufRead;

use capture::{Device, Severity};

use crate::builder::Builder;
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::{Json, JsonResult};

use names::{Agent, Process};

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "rocprofv3_json", stage: Stage::Clocked, sniff, read };

/// Most processes of one file.
const MAX_PROCESSES: usize = 4_096;

fn sniff(probe: &Probe<'_>) -> Confidence {
    if probe.first_byte() == Some(b'{') && probe.has("\"rocprofiler-sdk-tool\"") { Confidence::Sure } else { Confidence::No }
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    let mut json = Json::new(&mut *input);
    let mut count = 0;
    let outcome = json.object(|key, json| match key {
        // Tools that work on the file make one object of an array with one process.
        "rocprofiler-sdk-tool" if json.peek() == Some(b'{') => process(json, builder),
        "rocprofiler-sdk-tool" => json.array(|json| {
            count += 1;
            if count > MAX_PROCESSES { json.skip() } else { process(json, builder) }
        }),
        _ => json.skip(),
    });
    if let Err(error) = outcome {
        builder.damaged_json(&error);
    }
    let tables = &builder.capture.tables;
    if tables.device_events.t_start_ns.is_empty() && tables.host_events.t_start_ns.is_empty() {
        builder.refuse(
            "no_events",
            "expected dispatches, copies or calls below `buffer_records`, found none; record with `rocprofv3 --sys-trace`",
        );
        return;
    }
    builder.issue_once(Severity::Note, "session_start_unknown", "", || {
        "expected epoch times, found those of the machine's own clock, as rocprofv3 writes them; they cannot be compared with other sources"
            .to_string()
    });
}

/// Reads one process; what was read before damage is kept.
fn process<R: BufRead>(json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
    let mut process = Process::new(builder);
    let outcome = json.object(|key, json| match key {
        "metadata" => json.object(|key, json| {
            if key == "pid" {
                process.pid = json.i64()?.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
                return Ok(());
            }
            json.skip()
        }),
        "agents" => json.array(|json| process.agent(json)),
        "strings" => process.strings(json, builder),
        "kernel_symbols" => json.array(|json| process.kernel(json, builder)),
        "buffer_records" => records::read(json, &mut process, builder),
        _ => json.skip(),
    });
    process.finish(builder);
    describe(&process, builder);
    outcome
}

/// Writes the GPUs, and what they say of the subject.
fn describe(process: &Process, builder: &mut Builder<'_>) {
    let vendor = builder.intern("amd");
    let used: std::collections::BTreeSet<u32> = builder.capture.tables.device_events.device.changes().collect();
    builder.capture.manifest.subject.device_count = used.len() as u32;
    for Agent { device, name, cu_count, max_waves_per_cu, memory_bytes, .. } in process.gpus() {
        let subject = &mut builder.capture.manifest.subject;
        if subject.device.is_empty() && (used.contains(device) || used.is_empty()) {
            subject.device.clone_from(name);
        }
        let name = builder.intern(name);
        let row = Device {
            run_idx: builder.context.run_idx,
            device: *device,
            rank: -1,
            name,
            vendor,
            sm_count: *cu_count,
            max_warps_per_sm: *max_waves_per_cu,
            memory_bytes: *memory_bytes,
            source_idx: builder.source(),
            ..Device::default()
        };
        let devices = &mut builder.capture.tables.devices;
        if !devices.rows().any(|known| known == row) {
            devices.push(row);
        }
    }
}
