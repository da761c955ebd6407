//! Agents, kernels, operations and messages of one process, and the rows that wait for them.

use std::io::BufRead;

use capture::{Name, Severity};
use hashbrown::HashMap;

use crate::builder::Builder;
use crate::formats::collective_kernels;
use crate::json::{Json, JsonResult};

/// Most agents, kinds of records and operations of a kind.
const MAX_FEW: usize = 4_096;
/// Most kernels and messages that are named.
const MAX_NAMES: usize = 2_000_000;
/// Longest name kept.
const MAX_NAME_BYTES: usize = 8 << 10;
/// `type` of an agent that is a GPU.
const GPU: i64 = 2;

/// A processor.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    handle: u32,
    pub(super) is_gpu: bool,
    /// Number among the GPUs.
    pub(super) device: u32,
    pub(super) name: String,
    pub(super) cu_count: u32,
    pub(super) max_waves_per_cu: u32,
    pub(super) memory_bytes: i64,
}

/// A kernel: its name, and the registers of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kernel {
    name: Name,
    registers: u32,
}

/// What a row waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Kernel, and its launch: grid, workgroup, shared memory.
    Kernel(u32, [u32; 7]),
    /// Source and destination of a copy.
    Copy(u32, u32),
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Kind and operation.
    Operation(u32, u32),
    /// A range or mark: its message, else its operation.
    Message(u32, u32, u32),
}

/// See the module.
#[derive(Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    agents: Vec<Agent>,
    kernels: HashMap<u32, Kernel>,
    operations: Vec<Vec<String>>,
    messages: HashMap<u32, Name>,
    device_from: usize,
    host_from: usize,
    /// What the rows of this process wait for, in their order.
    pub(super) device_wants: Vec<Wanted>,
    pub(super) host_wants: Vec<Call>,
    unnamed: u64,
}

/// The lower half of a handle; handles are small numbers.
pub(super) fn handle<R: BufRead>(json: &mut Json<R>) -> JsonResult<u32> {
    let mut found = 0;
    if json.peek() != Some(b'{') {
        return Ok(json.i64()?.unwrap_or(0) as u32);
    }
    json.object(|key, json| {
        if key == "handle" {
            found = json.i64()?.unwrap_or(0) as u32;
            return Ok(());
        }
        json.skip()
    })?;
    Ok(found)
}

/// A small number; 0 for anything else.
pub(super) fn number<R: BufRead>(json: &mut Json<R>) -> JsonResult<u32> {
    Ok(json.i64()?.and_then(|value| u32::try_from(value).ok()).unwrap_or(0))
}

fn text<R: BufRead>(json: &mut Json<R>) -> JsonResult<String> {
    let mut text = json.scalar()?.unwrap_or_default();
    let end = (0..=MAX_NAME_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    Ok(text)
}

impl Process {
    pub(super) fn new(builder: &Builder<'_>) -> Self {
        let tables = &builder.capture.tables;
        Self { device_from: tables.device_events.t_start_ns.len(), host_from: tables.host_events.t_start_ns.len(), ..Self::default() }
    }

    /// The GPUs.
    pub(super) fn gpus(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|agent| agent.is_gpu)
    }

    fn agent_of(&self, handle: u32) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.handle == handle)
    }

    pub(super) fn agent<R: BufRead>(&mut self, json: &mut Json<R>) -> JsonResult<()> {
        let mut agent = Agent { device: u32::MAX, ..Agent::default() };
        let (mut product, mut simds_per_cu, mut waves_per_simd) = (String::new(), 0, 0);
        json.object(|key, json| {
            match key {
                "id" => agent.handle = handle(json)?,
                "type" => agent.is_gpu = json.i64()? == Some(GPU),
                "logical_node_type_id" => agent.device = json.i64()?.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX),
                "name" => agent.name = text(json)?,
                "product_name" => product = text(json)?,
                "cu_count" => agent.cu_count = number(json)?,
                "simd_per_cu" => simds_per_cu = number(json)?,
                "max_waves_per_simd" => waves_per_simd = number(json)?,
                "mem_banks" => json.array(|json| {
                    json.object(|key, json| {
                        if key == "size_in_bytes" || key == "size" {
                            agent.memory_bytes = agent.memory_bytes.max(json.i64()?.unwrap_or(0));
                            return Ok(());
                        }
                        json.skip()
                    })
                })?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        if !product.is_empty() {
            agent.name = product;
        }
        agent.max_waves_per_cu = simds_per_cu.saturating_mul(waves_per_simd);
        if agent.device == u32::MAX {
            agent.device = self.gpus().count() as u32;
        }
        if self.agents.len() < MAX_FEW {
            self.agents.push(agent);
        }
        Ok(())
    }

    pub(super) fn kernel<R: BufRead>(&mut self, json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
        let (mut id, mut registers) = (None, 0);
        let mut names = [const { String::new() }; 3];
        json.object(|key, json| {
            match key {
                "kernel_id" => id = json.i64()?.and_then(|id| u32::try_from(id).ok()),
                "arch_vgpr_count" => registers = number(json)?,
                "formatted_kernel_name" => names[0] = text(json)?,
                "demangled_kernel_name" => names[1] = text(json)?,
                "kernel_name" => names[2] = text(json)?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        let name = names.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
        if let Some(id) = id.filter(|_| !name.is_empty() && self.kernels.len() < MAX_NAMES) {
            let name = builder.intern(name.strip_suffix(".kd").unwrap_or(name));
            self.kernels.insert(id, Kernel { name, registers });
        }
        Ok(())
    }

    pub(super) fn strings<R: BufRead>(&mut self, json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
        json.object(|key, json| match key {
            "buffer_records" => json.array(|json| {
                let mut operations = Vec::new();
                json.object(|key, json| {
                    if key != "operations" {
                        return json.skip();
                    }
                    json.array(|json| {
                        let name = text(json)?;
                        if operations.len() < MAX_FEW {
                            operations.push(name);
                        }
                        Ok(())
                    })
                })?;
                if self.operations.len() < MAX_FEW {
                    self.operations.push(operations);
                }
                Ok(())
            }),
            "marker_api" => json.array(|json| self.message(json, builder)),
            _ => json.skip(),
        })
    }

    fn message<R: BufRead>(&mut self, json: &mut Json<R>, builder: &mut Builder<'_>) -> JsonResult<()> {
        let (mut id, mut message) = (None, String::new());
        json.object(|key, json| {
            match key {
                "key" => id = json.i64()?.and_then(|id| u32::try_from(id).ok()),
                "value" => message = json.lead()?.unwrap_or_default(),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        if let Some(id) = id.filter(|_| self.messages.len() < MAX_NAMES) {
            // A program writes what it likes into a message.
            let line = message.lines().next().unwrap_or_default();
            let name = builder.intern(&crate::secrets::redact(line));
            self.messages.insert(id, name);
        }
        Ok(())
    }

    fn operation(&self, kind: u32, operation: u32) -> Option<&str> {
        self.operations.get(kind as usize)?.get(operation as usize).map(String::as_str)
    }

    /// Gives the rows of this process their names.
    pub(super) fn finish(&mut self, builder: &mut Builder<'_>) {
        self.name_device(builder);
        self.name_host(builder);
        if self.unnamed > 0 {
            let sentence =
                "expected every record to have its name in `kernel_symbols` or `strings`, found none for some; they are called `unknown`";
            builder.issue(Severity::Warning, "unnamed_events", "", self.unnamed, sentence);
        }
    }

    fn name_device(&mut self, builder: &mut Builder<'_>) {
        let unknown = builder.intern("unknown");
        let mut shapes: HashMap<([u32; 7], u32), Name> = HashMap::new();
        for (at, wanted) in (self.device_from..).zip(std::mem::take(&mut self.device_wants)) {
            let (handle, name, shape) = match wanted {
                Wanted::Kernel(id, launch) => {
                    let kernel = self.kernels.get(&id).copied();
                    self.unnamed += u64::from(kernel.is_none());
                    let Kernel { name, registers } = kernel.unwrap_or(Kernel { name: unknown, registers: 0 });
                    let shape = shapes.get(&(launch, registers)).copied().unwrap_or_else(|| {
                        let shape = builder.intern(&shape(launch, registers));
                        if shapes.len() < MAX_NAMES {
                            shapes.insert((launch, registers), shape);
                        }
                        shape
                    });
                    (builder.capture.tables.device_events.device[at], name, shape)
                }
                Wanted::Copy(from, to) => {
                    let (handle, name) = self.copy(from, to);
                    (handle, builder.intern(name), Name::EMPTY)
                }
            };
            let device = self.agent_of(handle).map_or(0, |agent| agent.device);
            let events = &mut builder.capture.tables.device_events;
            (events.name[at], events.shape[at]) = (name, shape);
            events.device.set(at, device);
            events.process.set(at, self.pid);
            if let Some(told) = collective_kernels::told(builder.capture.text(name)) {
                let (op, dtype) = (builder.intern(told.op), builder.intern(told.dtype));
                let row = collective_kernels::row(&builder.capture.tables.device_events, at, op, dtype);
                builder.capture.tables.collectives.push(row);
            }
        }
    }

    /// The GPU that a copy belongs to, and the copy's name. Whether host memory is pinned is not told.
    fn copy(&self, from: u32, to: u32) -> (u32, &'static str) {
        let is_gpu = |handle| self.agent_of(handle).map(|agent| agent.is_gpu);
        match (is_gpu(from), is_gpu(to)) {
            (Some(false), Some(true)) => (to, "HtoD Host -> Device"),
            (Some(true), Some(false)) => (from, "DtoH Device -> Host"),
            (Some(true), Some(true)) if from != to => (to, "PtoP Device -> Device"),
            (Some(true), Some(true)) => (to, "DtoD Device -> Device"),
            (Some(false), Some(false)) => (to, "HtoH Host -> Host"),
            _ => (to, "Unknown"),
        }
    }

    fn name_host(&mut self, builder: &mut Builder<'_>) {
        let unknown = builder.intern("unknown");
        for (at, call) in (self.host_from..).zip(std::mem::take(&mut self.host_wants)) {
            let (message, kind, operation) = match call {
                Call::Operation(kind, operation) => (None, kind, operation),
                Call::Message(id, kind, operation) => (self.messages.get(&id).copied(), kind, operation),
            };
            let name = message.or_else(|| self.operation(kind, operation).map(|text| builder.capture.intern(text)));
            self.unnamed += u64::from(name.is_none());
            let events = &mut builder.capture.tables.host_events;
            events.name[at] = name.unwrap_or(unknown);
            events.process.set(at, self.pid);
        }
    }
}

/// A launch in workgroups and work items per group.
fn shape([gx, gy, gz, wx, wy, wz, shared]: [u32; 7], registers: u32) -> String {
    if wx == 0 || gx == 0 {
        return String::new();
    }
    let groups = |items: u32, group: u32| items.max(1).div_ceil(group.max(1));
    let launch = format!("grid={},{},{} block={wx},{},{}", groups(gx, wx), groups(gy, wy), groups(gz, wz), wy.max(1), wz.max(1));
    format!("{launch} regs={registers} smem={shared}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_counted_in_workgroups() {
        assert_eq!(shape([16384, 8, 1, 256, 1, 1, 512], 16), "grid=64,8,1 block=256,1,1 regs=16 smem=512");
        assert_eq!(shape([65, 2, 1, 64, 2, 1, 0], 0), "grid=2,1,1 block=64,2,1 regs=0 smem=0");
        assert_eq!(shape([0; 7], 0), "");
    }
}
