//! A recording made row by row. Times in ns.

use analysis::device::DeviceView;
use capture::{Capture, Collective, Device, DeviceEvent, HostEvent, OpSize, Source, SourceIdx};

/// Rows of one arm.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) capture: Capture,
    /// File that rows are put in.
    pub(crate) file: SourceIdx,
    /// Process that rows are put in.
    pub(crate) process: u32,
    /// Device that events are put on.
    pub(crate) device: u32,
}

impl Recording {
    pub(crate) fn new() -> Self {
        let mut recording = Self { capture: Capture::new(), process: 7, ..Self::default() };
        recording.next_file("one.json");
        recording
    }

    /// Puts what follows into another file.
    pub(crate) fn next_file(&mut self, name: &str) {
        self.file = self.capture.add_source(Source { name: name.into(), ..Source::default() });
    }

    pub(crate) fn event(&mut self, kind: &str, name: &str, span: (i64, i64), stream: u32, correlation: u32) -> &mut Self {
        let (kind, name) = (self.capture.intern(kind), self.capture.intern(name));
        self.capture.tables.device_events.push(DeviceEvent {
            t_start_ns: span.0,
            t_end_ns: span.1,
            process: self.process,
            device: self.device,
            stream,
            kind,
            name,
            correlation,
            source_idx: self.file,
            ..DeviceEvent::default()
        });
        self
    }

    pub(crate) fn kernel(&mut self, name: &str, span: (i64, i64), correlation: u32) -> &mut Self {
        self.event("kernel", name, span, 7, correlation)
    }

    pub(crate) fn host(&mut self, kind: &str, name: &str, span: (i64, i64), correlation: u32) -> &mut Self {
        let (kind, name) = (self.capture.intern(kind), self.capture.intern(name));
        self.capture.tables.host_events.push(HostEvent {
            t_start_ns: span.0,
            t_end_ns: span.1,
            process: self.process,
            thread: 1,
            kind,
            name,
            correlation,
            source_idx: self.file,
            ..HostEvent::default()
        });
        self
    }

    pub(crate) fn call(&mut self, name: &str, span: (i64, i64), correlation: u32) -> &mut Self {
        self.host("runtime", name, span, correlation)
    }

    /// A kernel with the call that launched it.
    pub(crate) fn launched(&mut self, name: &str, called: i64, span: (i64, i64), correlation: u32) -> &mut Self {
        self.call("cudaLaunchKernel", (called, called + 2), correlation).kernel(name, span, correlation)
    }

    /// An operator with sizes around the calls it makes.
    pub(crate) fn sized(&mut self, op: &str, sizes: &str, dtype: &str, span: (i64, i64)) -> &mut Self {
        let [op, sizes, dtype] = [op, sizes, dtype].map(|text| self.capture.intern(text));
        self.capture.tables.op_sizes.push(OpSize {
            t_start_ns: span.0,
            t_end_ns: span.1,
            process: self.process,
            thread: 1,
            op,
            sizes,
            dtype,
            source_idx: self.file,
            ..OpSize::default()
        });
        self
    }

    pub(crate) fn rank(&mut self, rank: i32, name: &str) -> &mut Self {
        let name = self.capture.intern(name);
        let (device, source_idx) = (self.device, self.file);
        self.capture.tables.devices.push(Device { device, rank, world_size: 8, name, source_idx, ..Device::default() });
        self
    }

    pub(crate) fn collective(&mut self, op: &str, sequence: i64, span: (i64, i64), bytes: i64, group_size: u32) -> &mut Self {
        let (op, group) = (self.capture.intern(op), self.capture.intern("world"));
        self.capture.tables.collectives.push(Collective {
            t_start_ns: span.0,
            t_end_ns: span.1,
            rank: -1,
            device: self.device,
            op,
            group,
            group_size,
            sequence,
            bytes_in: bytes,
            bytes_out: bytes,
            source_idx: self.file,
            ..Collective::default()
        });
        self
    }

    pub(crate) fn view(&self) -> DeviceView {
        let mut capture = self.capture.clone();
        capture.canonicalize();
        DeviceView::read(&capture, 0).unwrap()
    }
}
