//! How much of a device its kernels fill, by the shape of their launch: a kernel of fewer blocks than multiprocessors leaves
//! the others empty, whatever its registers and shared memory allow.
//!
//! Only NVIDIA's recorders tell blocks; AMD's tell work-items under the same name. Short kernels are left out: they are over
//! before the device is filled.

use capture::Name;

use super::few::Few;
use super::kernels::family;
use super::timeline::{Class, Event, Lane, Timeline};

/// Kernels that take less say nothing, ns.
const SHORT_NS: i64 = 20_000;
/// A kernel on at most this share of the multiprocessors leaves the device nearly empty: so few cannot ask the memory for
/// half of what it delivers (an H100 multiprocessor loads 64 bytes a cycle, 132 of them three times what the memory gives).
const NEARLY_EMPTY: f64 = 1.0 / 8.0;
/// Names of such kernels kept.
const MOST: usize = 1_024;

/// Kernels of one name that leave the device nearly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thin {
    /// Family.
    pub family: String,
    /// One full name.
    pub name: String,
    /// Most blocks of one launch.
    pub blocks: u64,
    /// Kernels.
    pub count: u64,
    /// Sum of their lengths, ns.
    pub total_ns: i64,
}

/// What is known of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Time of computing kernels that are long enough to judge, ns.
    pub long_ns: i64,
    /// Of that, of kernels whose blocks are told, ns.
    pub known_ns: i64,
    /// Kernels on at most an eighth of the multiprocessors, the most time first.
    pub thin: Vec<Thin>,
}

impl Fill {
    /// Time of the kernels that leave the device nearly empty, ns.
    pub fn thin_ns(&self) -> i64 {
        self.thin.iter().map(|thin| thin.total_ns).fold(0, i64::saturating_add)
    }
}

/// Adds kernels of one device up.
#[derive(Debug)]
pub struct FillTally {
    /// Multiprocessors, 0 where blocks or they are not known.
    sm_count: u32,
    blocks: Few<Name, Option<u64>>,
    long_ns: i64,
    known_ns: i64,
    thin: Few<Name, (u64, u64, i64)>,
}

impl FillTally {
    /// Begins a device.
    pub fn new(lane: &Lane) -> Self {
        let sm_count = if lane.vendor == "amd" { 0 } else { lane.sm_count };
        Self { sm_count, blocks: Few::default(), long_ns: 0, known_ns: 0, thin: Few::default() }
    }

    /// Adds an event where it is a long kernel that computes.
    #[inline]
    pub fn add(&mut self, timeline: &Timeline<'_>, event: &Event) {
        let duration_ns = event.duration_ns();
        if duration_ns < SHORT_NS || event.class != Class::Compute || event.is_replay {
            return;
        }
        self.long_ns = self.long_ns.saturating_add(duration_ns);
        let shape = timeline.capture().tables.device_events.shape[event.row as usize];
        let Some(blocks) = *self.blocks.entry(shape, || blocks(timeline.text(shape))) else { return };
        if self.sm_count == 0 {
            return;
        }
        self.known_ns = self.known_ns.saturating_add(duration_ns);
        let is_full = blocks as f64 > NEARLY_EMPTY * f64::from(self.sm_count);
        if is_full || (self.thin.len() >= MOST && self.thin.get(event.name).is_none()) {
            return;
        }
        let (most, count, total_ns) = self.thin.entry(event.name, || (0, 0, 0));
        *most = (*most).max(blocks);
        *count += 1;
        *total_ns = total_ns.saturating_add(duration_ns);
    }

    /// What is known.
    pub fn fill(self, timeline: &Timeline<'_>) -> Fill {
        let thin = self.thin.into_pairs().map(|(name, (blocks, count, total_ns))| {
            let name = timeline.text(name);
            Thin { family: family(name), name: name.to_string(), blocks, count, total_ns }
        });
        let mut thin: Vec<Thin> = thin.collect();
        thin.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
        Fill { long_ns: self.long_ns, known_ns: self.known_ns, thin }
    }
}

/// Blocks of a launch: `grid=148,1,1 block=256,1,1`.
fn blocks(shape: &str) -> Option<u64> {
    let grid = shape.split(' ').find_map(|pair| pair.strip_prefix("grid="))?;
    let blocks = grid.split(',').try_fold(1u64, |blocks, size| blocks.checked_mul(size.parse().ok()?))?;
    (blocks > 0).then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_product_of_the_grid() {
        assert_eq!(blocks("grid=148,2,1 block=256,1,1 regs=64"), Some(296));
        for unknown in ["", "block=256,1,1", "grid=0,1,1", "grid=a,1,1", "grid=99999999999,99999999999,9"] {
            assert_eq!(blocks(unknown), None, "{unknown}");
        }
    }
}
