//! What kernels had to compute and to move, as far as the sizes of their operators were recorded.
//!
//! A kernel belongs to the innermost operator with sizes around the call that launched it; the kernels of one operator (a
//! product and the reduction behind it) are one piece of work. Replayed kernels have no operator: their sizes are those of
//! the capture. Of attention whose requests lie behind one another the annotation of the step says what they attend to.
//!
//! Floating point operations count a multiplication and an addition as two; bytes count each operand once, which is the least
//! that a kernel without the operand in its cache must move. Sources: `2 b m n k` and `4 h d` per pair of query and key, as in
//! Kaplan et al. 2020 and the FLOP counters of PyTorch (`torch/utils/flop_counter.py`).

use std::collections::BTreeMap;

use capture::{Name, SourceIdx};

use super::few::Few;
use super::kernels::{Category, family};
use super::steps::{StepLabel, StepPhase, Steps};
use super::timeline::{Class, Event, Timeline, is_time};

/// Kinds of work kept apart; what is beyond joins the last.
const MOST: usize = 4_096;

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A matrix product.
    Product,
    /// Attention of given lengths, or of the step's requests.
    Attention,
}

impl Operation {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Product => "matmul",
            Self::Attention => "attention",
        }
    }
}

/// Attention of requests that lie behind one another, summed over its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attended {
    /// Query heads, key heads, width of a head.
    pub heads: [f64; 3],
    /// Requests.
    pub seqs: f64,
    /// Queries.
    pub queries: f64,
    /// Pairs of a query and a key it may see, without windows.
    pub pairs: f64,
    /// Keys read, each once per request, without windows.
    pub keys: f64,
}

impl Attended {
    /// The same where each query sees at most so many keys: at most this much, for only sums over the requests are known.
    #[must_use]
    pub fn within(&self, window: f64) -> Self {
        Self { pairs: self.pairs.min(self.queries * window), keys: self.keys.min(self.seqs * window + self.queries), ..*self }
    }

    /// Floating point operations, and bytes with elements of a width.
    pub fn work(&self, element_bytes: f64) -> (f64, f64) {
        let [heads, kv_heads, width] = self.heads;
        (4.0 * heads * width * self.pairs, element_bytes * 2.0 * width * (heads * self.queries + kv_heads * self.keys))
    }
}

/// Operators of one kind, sizes and number format, of which one family of kernels took most of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Family of the kernel that took most of it.
    pub family: String,
    /// One full name of it.
    pub name: String,
    /// What that kernel does.
    pub category: Category,
    /// What was asked for.
    pub operation: Operation,
    /// `m=32 n=4096 k=1024`.
    pub sizes: String,
    /// `bf16`.
    pub dtype: String,
    /// Phase of the steps it was in.
    pub phase: StepPhase,
    /// Operators.
    pub count: u64,
    /// Time of their kernels, ns.
    pub time_ns: i64,
    /// Floating point operations of all.
    pub flops: f64,
    /// Bytes of all: each operand once.
    pub bytes: f64,
    /// Where lengths come from the step: the work is then at most this, for layers may look through windows.
    pub attended: Option<Attended>,
}

/// Bytes of an element; nothing for a format without a known width.
pub fn element_bytes(dtype: &str) -> Option<f64> {
    match dtype {
        "f64" => Some(8.0),
        "f32" => Some(4.0),
        "bf16" | "f16" => Some(2.0),
        "f8e4m3" | "f8e5m2" | "i8" | "u8" => Some(1.0),
        _ => None,
    }
}

/// Operators with sizes of one arm, by thread and start.
#[derive(Debug, Default)]
pub struct Operators {
    threads: Few<(SourceIdx, u32, u32), Vec<Placed>>,
}

/// One operator on its thread.
#[derive(Clone, Copy, Debug)]
struct Placed {
    start_ns: i64,
    end_ns: i64,
    row: u32,
    /// Place of the operator around it, or of itself.
    around: u32,
}

impl Operators {
    /// Reads them.
    pub fn read(timeline: &Timeline<'_>) -> Self {
        let table = &timeline.capture().tables.op_sizes;
        let mut operators = Self::default();
        let is_ours =
            |at: &usize| table.run_idx[*at] == timeline.run_idx() && is_time(table.t_start_ns[*at]) && is_time(table.t_end_ns[*at]);
        for at in (0..table.t_start_ns.len()).filter(is_ours) {
            let key = (table.source_idx[at], table.process[at], table.thread[at]);
            let placed = Placed { start_ns: table.t_start_ns[at], end_ns: table.t_end_ns[at], row: at as u32, around: 0 };
            operators.threads.entry(key, Vec::new).push(placed);
        }
        operators.threads.each(|thread| nest(thread));
        operators
    }

    /// Row of the innermost operator around a moment of a thread.
    fn at(&self, thread: (SourceIdx, u32, u32), t_ns: i64) -> Option<u32> {
        let own = self.threads.get(thread)?;
        let mut at = own.partition_point(|placed| placed.start_ns <= t_ns).checked_sub(1)?;
        while own[at].end_ns < t_ns {
            let around = own[at].around as usize;
            if around == at {
                return None;
            }
            at = around;
        }
        Some(own[at].row)
    }

    fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }
}

/// Sorts the operators of a thread and finds for each the one around it.
fn nest(thread: &mut [Placed]) {
    thread.sort_by_key(|placed| (placed.start_ns, std::cmp::Reverse(placed.end_ns), placed.row));
    let mut open: Vec<usize> = Vec::new();
    for at in 0..thread.len() {
        while open.last().is_some_and(|last| thread[*last].end_ns < thread[at].start_ns) {
            open.pop();
        }
        thread[at].around = open.last().copied().unwrap_or(at) as u32;
        open.push(at);
    }
}

/// Kernels of one operator on one device.
#[derive(Clone, Copy, Debug, Default)]
struct OfOperator {
    time_ns: i64,
    longest_ns: i64,
    longest: Name,
    category: Option<Category>,
}

/// Adds kernels up by operator.
#[derive(Debug)]
pub struct WorkTally<'t> {
    operators: &'t Operators,
    by_row: BTreeMap<u32, OfOperator>,
}

impl<'t> WorkTally<'t> {
    /// Begins a device.
    pub fn new(operators: &'t Operators) -> Self {
        Self { operators, by_row: BTreeMap::new() }
    }

    /// Adds an event where it is a kernel that computes for an operator with sizes.
    #[inline]
    pub fn add(&mut self, timeline: &Timeline<'_>, event: &Event) {
        if self.operators.is_empty() || event.class != Class::Compute || !event.is_launched() || event.by_graph_launch {
            return;
        }
        let calls = &timeline.calls;
        let Some(row) = self.operators.at(calls.thread(event.call), calls.start_ns(event.call)) else { return };
        let of = self.by_row.entry(row).or_default();
        of.time_ns = of.time_ns.saturating_add(event.duration_ns());
        if event.duration_ns() >= of.longest_ns {
            (of.longest_ns, of.longest, of.category) = (event.duration_ns(), event.name, Some(event.category));
        }
    }

    /// The work, the most time first.
    pub fn work(self, timeline: &Timeline<'_>, steps: &Steps) -> Vec<Work> {
        let table = &timeline.capture().tables.op_sizes;
        let mut families: BTreeMap<Name, String> = BTreeMap::new();
        let mut groups: BTreeMap<(Name, Name, Name, StepPhase), Work> = BTreeMap::new();
        let mut names: BTreeMap<(String, Name, Name, StepPhase), Name> = BTreeMap::new();
        for (row, of) in self.by_row {
            let at = row as usize;
            let step = steps.at((table.source_idx[at], table.process[at]), table.t_start_ns[at]);
            let phase = step.map_or(StepPhase::Unknown, |step| step.label.phase);
            let (sizes, dtype) = (timeline.text(table.sizes[at]), timeline.text(table.dtype[at]));
            let Some(told) = Told::read(timeline.text(table.op[at]), sizes, dtype, step.map(|step| &step.label)) else { continue };
            let family = families.entry(of.longest).or_insert_with(|| family(timeline.text(of.longest)));
            // Kernels of one family that differ in their tiles are one group.
            let first = *names.entry((family.clone(), table.sizes[at], table.dtype[at], phase)).or_insert(of.longest);
            let key = (first, table.sizes[at], table.dtype[at], phase);
            if groups.len() >= MOST && !groups.contains_key(&key) {
                continue;
            }
            let group = groups.entry(key).or_insert_with(|| Work {
                family: family.clone(),
                name: timeline.text(of.longest).to_string(),
                category: of.category.unwrap_or(Category::Other),
                operation: told.operation,
                sizes: sizes.to_string(),
                dtype: dtype.to_string(),
                phase,
                count: 0,
                time_ns: 0,
                flops: 0.0,
                bytes: 0.0,
                attended: None,
            });
            group.count += 1;
            group.time_ns = group.time_ns.saturating_add(of.time_ns);
            group.flops += told.flops;
            group.bytes += told.bytes;
            if let Some(more) = told.attended {
                let sum = group.attended.get_or_insert(Attended { heads: more.heads, ..Attended::default() });
                sum.seqs += more.seqs;
                sum.queries += more.queries;
                sum.pairs += more.pairs;
                sum.keys += more.keys;
            }
        }
        let mut work: Vec<Work> = groups.into_values().collect();
        work.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| (&a.family, &a.sizes, a.phase).cmp(&(&b.family, &b.sizes, b.phase))));
        work
    }
}

/// The work of one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    operation: Operation,
    flops: f64,
    bytes: f64,
    attended: Option<Attended>,
}

impl Told {
    fn read(op: &str, sizes: &str, dtype: &str, step: Option<&StepLabel>) -> Option<Self> {
        let element = element_bytes(dtype)?;
        let size = |key: &str| {
            let pair = sizes.split(' ').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key);
            pair.and_then(|(_, value)| value.parse::<f64>().ok()).filter(|value| value.is_finite() && *value >= 0.0)
        };
        if op == "matmul" {
            let (b, m, n, k) = (size("b")?, size("m")?, size("n")?, size("k")?);
            // What is multiplied in eight bits comes out in sixteen or more.
            let bytes = b * (element * (m * k + k * n) + element.max(2.0) * m * n);
            return Some(Self { operation: Operation::Product, flops: 2.0 * b * m * n * k, bytes, attended: None });
        }
        if op != "attention" {
            return None;
        }
        if let Some(tokens) = size("t") {
            let step = step?;
            let attended = Attended {
                heads: [size("hq")?, size("hkv")?, size("d")?],
                seqs: step.seqs()? as f64,
                queries: tokens.min(step.tokens? as f64),
                pairs: step.pairs? as f64,
                keys: step.keys? as f64,
            };
            let (flops, bytes) = attended.work(element);
            return Some(Self { operation: Operation::Attention, flops, bytes, attended: Some(attended) });
        }
        let (b, heads, kv_heads) = (size("b")?, size("hq")?, size("hkv")?);
        let (q, keys, d, dv) = (size("q")?, size("kv")?, size("d")?, size("dv")?);
        let window = size("window").unwrap_or(f64::INFINITY);
        let pairs = if size("causal") == Some(1.0) { causal_pairs(q, keys, window) } else { q * keys };
        let seen = if window.is_finite() { keys.min(q + window) } else { keys };
        let flops = 2.0 * b * heads * (d + dv) * pairs;
        let bytes = element * b * (heads * q + kv_heads * seen) * (d + dv);
        Some(Self { operation: Operation::Attention, flops, bytes, attended: None })
    }
}

/// Pairs of a query and a key where query i of `q` sees the keys up to its own place, the last query all of them, and at
/// most `window`.
fn causal_pairs(q: f64, keys: f64, window: f64) -> f64 {
    // Queries before the first key see nothing.
    let (first, last) = ((keys - q).max(0.0) + 1.0, keys);
    let sum = |from: f64, to: f64| if to >= from { (from + to) * (to - from + 1.0) / 2.0 } else { 0.0 };
    if last <= window {
        return sum(first, last);
    }
    sum(first, window.min(last)) + window * (last - window.max(first - 1.0)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_by_hand() {
        let by_hand = |q: i64, keys: i64, window: i64| (0..q).map(|i| (keys - q + i + 1).clamp(0, window)).sum::<i64>() as f64;
        for (q, keys, window) in [(5, 5, 100), (1, 90, 100), (3, 90, 8), (20, 25, 8), (20, 25, 24), (7, 3, 100), (64, 64, 1)] {
            assert_eq!(causal_pairs(q as f64, keys as f64, window as f64), by_hand(q, keys, window), "{q} {keys} {window}");
        }
        assert_eq!(causal_pairs(4.0, 6.0, f64::INFINITY), 3.0 + 4.0 + 5.0 + 6.0);
    }

    #[test]
    fn products_and_attention_by_hand() {
        let product = Told::read("matmul", "b=1 m=32 n=4096 k=1024", "bf16", None).unwrap();
        assert_eq!(product.flops, 2.0 * 32.0 * 4096.0 * 1024.0);
        assert_eq!(product.bytes, 2.0 * (32.0 * 1024.0 + 1024.0 * 4096.0 + 32.0 * 4096.0));
        let attention = Told::read("attention", "b=2 hq=8 hkv=2 q=1 kv=100 d=64 dv=64 causal=1", "f16", None).unwrap();
        assert_eq!(attention.flops, 4.0 * 2.0 * 8.0 * 64.0 * 100.0);
        assert_eq!(attention.bytes, 2.0 * 2.0 * 128.0 * (8.0 + 2.0 * 100.0));
        assert_eq!(Told::read("matmul", "b=1 m=32 n=4096", "bf16", None), None);
        assert_eq!(Told::read("matmul", "b=1 m=32 n=4096 k=1024", "", None), None);
    }

    #[test]
    fn windows_leave_what_lies_behind_them() {
        let name = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)";
        let label = StepLabel::read(name).unwrap();
        let told = Told::read("attention", "t=32 hq=64 hkv=8 d=64", "bf16", Some(&label)).unwrap();
        let attended = told.attended.unwrap();
        assert_eq!((attended.seqs, attended.queries, attended.pairs, attended.keys), (32.0, 32.0, 55086.0, 55086.0));
        assert_eq!(told.flops, 4.0 * 64.0 * 64.0 * 55086.0);
        assert_eq!(attended.within(128.0).pairs, 32.0 * 128.0);
    }
}
