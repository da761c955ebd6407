//! Work on the device: kernels, copies, memsets and replays of graphs that were recorded as one block.

use capture::{DeviceEvent, Name, Severity};
use hashbrown::HashMap;

use crate::formats::collective_kernels::{self, Told};
use crate::sqlite::Row;

use super::kinds;
use super::part::{Export, NameById, Part};

/// Most launch shapes told apart.
const MAX_SHAPES: usize = 1_000_000;
/// A large reservation is made for no more rows than this; a file may claim any number.
const MAX_RESERVED: usize = 16_000_000;

const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const MEMCPY: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const MEMSET: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const GRAPH_TRACE: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

/// What the four tables share, in the order of every column list here.
const SHARED: [&str; 6] = ["start", "end", "deviceId", "streamId", "correlationId", "globalPid"];

pub(super) fn read(export: &Export<'_>) -> Part {
    let mut part = Part::default();
    reserve(export, &mut part);
    kernels(export, &mut part);
    copies(export, &mut part);
    memsets(export, &mut part);
    graphs(export, &mut part);
    part
}

/// Makes room once, so that growing a column never holds it twice.
fn reserve(export: &Export<'_>, part: &mut Part) {
    let rows = |table: &str| export.database.table(table).and_then(|table| export.database.last_rowid(table)).unwrap_or(0).max(0);
    let total = [KERNEL, MEMCPY, MEMSET, GRAPH_TRACE].iter().fold(0i64, |sum, table| sum.saturating_add(rows(table)));
    // A row takes at least 20 bytes in the file.
    let total = usize::try_from(total).unwrap_or(usize::MAX).min(export.database.byte_count() / 20).min(MAX_RESERVED);
    part.device.reserve(total);
}

/// What the tables share, read from a row; `None` for an event that cannot have happened.
fn event(export: &Export<'_>, row: &Row<'_>, table: &'static str, part: &mut Part) -> Option<DeviceEvent> {
    let Some((t_start_ns, t_end_ns)) = export.span(row.int(0), row.int(1)) else {
        part.impossible(table);
        return None;
    };
    let process = kinds::process(row.int(5));
    let device = row.int(2).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    Some(DeviceEvent {
        t_start_ns,
        t_end_ns,
        run_idx: export.run_idx,
        process,
        device: export.ordinals.device(process, device),
        stream: row.int(3).and_then(|id| u32::try_from(id).ok()).unwrap_or(0),
        correlation: part.correlation(row.int(4)),
        source_idx: export.source_idx,
        ..DeviceEvent::default()
    })
}

fn columns(more: &[&'static str]) -> Vec<&'static str> {
    SHARED.iter().chain(more).copied().collect()
}

fn kernels(export: &Export<'_>, part: &mut Part) {
    let has = |column: &str| export.database.table(KERNEL).is_some_and(|table| table.has(column));
    let name = ["demangledName", "shortName", "mangledName"].into_iter().find(|column| has(column)).unwrap_or("demangledName");
    let more = [
        name,
        "graphNodeId",
        "graphId",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
    ];
    let columns = columns(&more);
    let kind = part.intern("kernel");
    let mut names = NameById::default();
    let mut shapes = Shapes::default();
    part.scan(export.database, KERNEL, &columns, |row, part| {
        let Some(event) = event(export, row, KERNEL, part) else { return };
        let name = names.get(row.int(6), &export.strings, part, |text| text);
        let shape = shapes.get(row, part);
        let graph = kinds::graph_node(row.int(7), row.int(8));
        part.device.push(DeviceEvent { kind, name, shape, graph, ..event });
    });
    collectives(part);
}

/// The launch shapes of kernels, each spelled once.
#[derive(Default)]
struct Shapes {
    known: HashMap<[u32; 9], Name>,
    last: Option<([u32; 9], Name)>,
}

impl Shapes {
    fn get(&mut self, row: &Row<'_>, part: &mut Part) -> Name {
        let mut key = [0u32; 9];
        for (at, part) in key.iter_mut().enumerate() {
            *part = row.int(9 + at).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
        }
        if let Some((_, name)) = self.last.filter(|(last, _)| *last == key) {
            return name;
        }
        let name = match self.known.get(&key) {
            Some(name) => *name,
            // A kernel has at least one block of one thread: without them nothing was told.
            None if key[0] == 0 || key[3] == 0 || self.known.len() >= MAX_SHAPES => Name::EMPTY,
            None => {
                let name = part.intern(&shape(key, !row.is_null(15)));
                self.known.insert(key, name);
                name
            }
        };
        self.last = Some((key, name));
        name
    }
}

fn shape([gx, gy, gz, bx, by, bz, registers, fixed, dynamic]: [u32; 9], has_registers: bool) -> String {
    let launch = format!("grid={gx},{gy},{gz} block={bx},{by},{bz}");
    let shared = u64::from(fixed) + u64::from(dynamic);
    if has_registers { format!("{launch} regs={registers} smem={shared}") } else { launch }
}

/// What the names of the kernels read so far tell of collectives.
fn collectives(part: &mut Part) {
    let told: Vec<Option<Told>> = part.names.iter().map(collective_kernels::told).collect();
    if told.iter().all(Option::is_none) {
        return;
    }
    let interned: Vec<Option<(Name, Name)>> =
        told.iter().map(|told| told.map(|told| (part.intern(told.op), part.intern(told.dtype)))).collect();
    for at in 0..part.device.t_start_ns.len() {
        if let Some(Some((op, dtype))) = interned.get(part.device.name[at].0 as usize) {
            let row = collective_kernels::row(&part.device, at, *op, *dtype);
            part.collectives.push(row);
        }
    }
}

fn copies(export: &Export<'_>, part: &mut Part) {
    let columns = columns(&["bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"]);
    let kind = part.intern("memcpy");
    let mut names: HashMap<[Option<i64>; 3], Name> = HashMap::new();
    part.scan(export.database, MEMCPY, &columns, |row, part| {
        let Some(event) = event(export, row, MEMCPY, part) else { return };
        let [copy, from, to] = [row.int(7), row.int(8), row.int(9)];
        let known = names.get(&[copy, from, to]).copied();
        let name = known.unwrap_or_else(|| {
            let name = part.intern(&kinds::copy(copy, from, to));
            if names.len() < MAX_SHAPES {
                names.insert([copy, from, to], name);
            }
            name
        });
        let byte_count = row.int(6).unwrap_or(0).max(0);
        part.device.push(DeviceEvent { kind, name, byte_count, graph: kinds::graph_node(row.int(10), None), ..event });
    });
}

fn memsets(export: &Export<'_>, part: &mut Part) {
    let columns = columns(&["bytes", "memKind", "graphNodeId"]);
    let kind = part.intern("memset");
    part.scan(export.database, MEMSET, &columns, |row, part| {
        let Some(event) = event(export, row, MEMSET, part) else { return };
        let name = part.intern(kinds::memory(row.int(7)));
        let byte_count = row.int(6).unwrap_or(0).max(0);
        part.device.push(DeviceEvent { kind, name, byte_count, graph: kinds::graph_node(row.int(8), None), ..event });
    });
}

fn graphs(export: &Export<'_>, part: &mut Part) {
    let columns = columns(&["graphId", "graphExecId"]);
    let kind = part.intern("graph");
    let mut replays = 0u64;
    part.scan(export.database, GRAPH_TRACE, &columns, |row, part| {
        let Some(event) = event(export, row, GRAPH_TRACE, part) else { return };
        let id = row.int(6).or(row.int(7)).unwrap_or(0);
        let name = part.intern(&format!("graph {id}"));
        replays += 1;
        part.device.push(DeviceEvent { kind, name, graph: kinds::graph_node(Some(id), Some(1)), ..event });
    });
    if replays > 0 {
        part.issue(Severity::Warning, "graphs_not_expanded", "", replays, || {
            "expected the kernels of graph replays, found each replay as one block: what runs inside is not known; record with \
             `nsys profile --cuda-graph-trace=node`, which costs some time per kernel"
                .to_string()
        });
    }
}
