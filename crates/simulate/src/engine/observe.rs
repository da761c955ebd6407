//! Looking over the scheduler's shoulder: one report per step, or per run of identical steps.

/// Why the first waiting request still waits after a step was composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// All seats (`max_num_seqs`) are taken.
    Seats,
    /// Its KV blocks are not free, or a running request was preempted in this step.
    Kv,
    /// The step's token budget is spent, or the prompt does not fit in the rest and may not be cut.
    Budget,
}

/// What one step, or a run of identical ones, did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// Which replica.
    pub replica: u32,
    /// Start of the first step, nanoseconds.
    pub start_ns: i64,
    /// End of the last.
    pub end_ns: i64,
    /// How many steps.
    pub steps: u64,
    /// Sequences that decoded in each.
    pub decode_seqs: u32,
    /// Prompt tokens computed.
    pub prefill_tokens: u64,
    /// Tokens made.
    pub made_tokens: u64,
    /// Requests running after it.
    pub running: u32,
    /// Requests waiting after it.
    pub waiting: u64,
    /// Why the first of them waits.
    pub gate: Option<Gate>,
    /// Free blocks.
    pub free_blocks: u32,
    /// All blocks.
    pub total_blocks: u32,
    /// Blocks counted one by one, when the observer asked for it.
    pub audit: Option<Audit>,
}

/// Blocks counted anew from sequences, groups and queue, to hold against the running counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Blocks that only one sequence holds.
    pub private_blocks: u64,
    /// Blocks of groups that somebody holds.
    pub held_blocks: u64,
    /// Blocks in the free queue.
    pub queued_blocks: u64,
    /// Context of all decoding sequences, in tokens.
    pub context_tokens: u64,
    /// The running count of the same.
    pub context_tokens_counted: u64,
}

/// Receives reports.
pub trait Observer {
    /// Whether reports carry an [`Audit`], which costs a pass over everything per step.
    fn wants_audit(&self) -> bool {
        false
    }

    /// One step, or a run of them, is over.
    fn step(&mut self, report: &StepReport);
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    fn step(&mut self, _report: &StepReport) {}
}
