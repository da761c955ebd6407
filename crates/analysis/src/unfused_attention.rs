//! Attention put together from products and a softmax, by the kernels recorded: no kernel attends, and a softmax with products
//! around it runs in many places.

use crate::device::{Category, FamilyTotal};
use crate::on_device::OnDevice;

/// A softmax in so many places is that of layers, not of sampling or of a last layer.
const LAYERS: u64 = 8;

/// What its softmaxes take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfusedAttention {
    /// Time of the softmaxes, all devices, ns.
    pub softmax_ns: i64,
    /// How many.
    pub softmaxes: u64,
    /// Family of the softmax.
    pub name: String,
}

impl UnfusedAttention {
    /// Reads it; nothing where a kernel attends, or no softmax runs in many places.
    pub fn read(device: &OnDevice<'_>) -> Option<Self> {
        let families = || device.view.lanes.iter().flat_map(|lane| &lane.families);
        let is_softmax = |of: &&FamilyTotal| of.category == Category::Norm && of.name.to_ascii_lowercase().contains("softmax");
        let softmaxes: u64 = families().filter(is_softmax).map(|of| of.count).sum();
        let products: u64 = families().filter(|of| of.category == Category::Gemm).map(|of| of.count).sum();
        let attends = families().any(|of| of.category == Category::Attention);
        let enough = softmaxes >= LAYERS.max(2 * device.steps) && products >= 2 * softmaxes;
        let name = families().find(is_softmax)?.family.clone();
        let softmax_ns = families().filter(is_softmax).map(|of| of.total_ns).fold(0, i64::saturating_add);
        (enough && !attends).then_some(Self { softmax_ns, softmaxes, name })
    }
}
