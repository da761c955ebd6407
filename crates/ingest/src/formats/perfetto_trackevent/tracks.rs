//! Tracks: where slices stand. Some are threads, some are queues of a device, some are counters.

use hashbrown::HashMap;

use super::wire::{fields, text};

/// Most tracks of one trace.
const MAX_TRACKS: usize = 1 << 20;
/// Deepest chain of parents that is followed.
const MAX_PARENTS: usize = 16;
const MAX_NAME_BYTES: usize = 512;

/// Fields of a track, a process and a thread.
mod field {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const STATIC_NAME: u32 = 10;
    pub(super) const PID: u32 = 1;
    pub(super) const TID: u32 = 2;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const THREAD_NAME: u32 = 5;
}

/// What a descriptor tells of a track.
#[derive(Clone, Debug, Default)]
struct Track {
    name: String,
    parent: u64,
    pid: Option<u32>,
    tid: Option<u32>,
    is_counter: bool,
}

/// What a slice on a track stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// A queue of a device.
    Device { process: u32, device: u32, stream: u32, is_copy: bool },
    /// A thread, or anything else.
    Host { process: u32, thread: u32 },
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    known: HashMap<u64, Track>,
    lanes: HashMap<u64, Lane>,
}

impl Tracks {
    /// Takes a descriptor; false when there are too many.
    pub(super) fn describe(&mut self, message: &[u8]) -> bool {
        let mut track = Track::default();
        let mut uuid = 0;
        for (number, value) in fields(message) {
            match number {
                field::UUID => uuid = value.int(),
                field::NAME | field::STATIC_NAME => track.name = short(&text(value)),
                field::PARENT => track.parent = value.int(),
                field::COUNTER => track.is_counter = true,
                field::PROCESS => part(value.bytes(), field::PROCESS_NAME, &mut track),
                field::THREAD => part(value.bytes(), field::THREAD_NAME, &mut track),
                _ => {}
            }
        }
        if self.known.len() >= MAX_TRACKS && !self.known.contains_key(&uuid) {
            return false;
        }
        // A later descriptor may tell more, also of the tracks below.
        self.lanes.clear();
        self.known.insert(uuid, track);
        true
    }

    /// The name of a counter track.
    pub(super) fn counter(&self, uuid: u64) -> Option<&str> {
        self.known.get(&uuid).filter(|track| track.is_counter).map(|track| track.name.as_str())
    }

    /// Where slices on a track stand.
    pub(super) fn lane(&mut self, uuid: u64) -> Lane {
        if let Some(lane) = self.lanes.get(&uuid) {
            return *lane;
        }
        let lane = self.find(uuid);
        if self.lanes.len() < MAX_TRACKS {
            self.lanes.insert(uuid, lane);
        }
        lane
    }

    fn find(&self, uuid: u64) -> Lane {
        let (mut process, mut thread, mut names) = (None, None, Vec::new());
        let mut next = uuid;
        for _ in 0..MAX_PARENTS {
            let Some(track) = self.known.get(&next) else { break };
            names.push(track.name.as_str());
            process = process.or(track.pid);
            thread = thread.or(track.tid);
            if track.parent == 0 || track.parent == next {
                break;
            }
            next = track.parent;
        }
        let process = process.unwrap_or(0);
        match device(&names) {
            Some((device, stream)) => {
                let is_copy = names.first().is_some_and(|name| name.to_ascii_lowercase().starts_with("copy"));
                Lane::Device { process, device, stream: stream.or(thread).unwrap_or(0), is_copy }
            }
            // A track of its own kind is told apart by its number.
            None => Lane::Host { process, thread: thread.or(number_after(&names, "THREAD")).unwrap_or(uuid as u32) },
        }
    }
}

fn part(message: &[u8], name_field: u32, track: &mut Track) {
    let is_thread = name_field == field::THREAD_NAME;
    for (number, value) in fields(message) {
        match number {
            field::PID => track.pid = u32::try_from(value.int()).ok(),
            field::TID if is_thread => track.tid = u32::try_from(value.int()).ok(),
            number if number == name_field && track.name.is_empty() => track.name = short(&text(value)),
            _ => {}
        }
    }
}

fn short(name: &str) -> String {
    let end = (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    name[..end].to_string()
}

/// Device and queue by the names of a track and those above it; `None` for the host.
///
/// rocprofv3 writes `COMPUTE AGENT [4] STREAM [1] (GPU)` and `COPY to AGENT [4] STREAM [1] (GPU)`; writers of PyTorch put
/// `stream 7` below `GPU 0`.
fn device(names: &[&str]) -> Option<(u32, Option<u32>)> {
    let is_agent = names.iter().any(|name| name.contains("(GPU)") || name.starts_with("COMPUTE ") || name.starts_with("COPY to "));
    let is_stream = names.first().is_some_and(|name| name.to_ascii_lowercase().starts_with("stream"));
    let gpu = number_after(names, "GPU");
    if !(is_agent || is_stream || gpu.is_some()) {
        return None;
    }
    let device = number_after(names, "AGENT").or(gpu).unwrap_or(0);
    Some((device, ["STREAM", "QUEUE", "THREAD"].iter().find_map(|word| number_after(names, word))))
}

/// The number behind a word, in brackets or not: `STREAM [7]`, `stream 7`.
fn number_after(names: &[&str], word: &str) -> Option<u32> {
    names.iter().find_map(|name| {
        let upper = name.to_ascii_uppercase();
        let rest = &upper[upper.find(word)? + word.len()..];
        let rest = rest.trim_start_matches([' ', '[', ':', '#']);
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_of_devices_are_known_by_their_names() {
        assert_eq!(device(&["COMPUTE AGENT [4] STREAM [1] (GPU)"]), Some((4, Some(1))));
        assert_eq!(device(&["COPY to AGENT [5] THREAD [2] (GPU)"]), Some((5, Some(2))));
        assert_eq!(device(&["COMPUTE GPU [0] QUEUE [3] (GPU)"]), Some((0, Some(3))));
        assert_eq!(device(&["stream 7", "GPU 2"]), Some((2, Some(7))));
        assert_eq!(device(&["THREAD 1 (4711)"]), None);
        assert_eq!(device(&["VLLM::EngineCore"]), None);
        assert_eq!(device(&["gpu_worker"]), None);
    }
}
