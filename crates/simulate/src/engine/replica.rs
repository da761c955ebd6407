//! The state of one replica and its clock. What a step serves is decided in `schedule`, what comes of it in `progress`.

mod progress;
mod schedule;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::observe::{Audit, Gate, Observer, StepReport};
use super::pool::Pool;
use super::sequence::Sequence;
use super::stream::Stream;
use super::waiting::{Entry, Waiting};
use crate::config::{Delivery, EngineConfig};
use crate::cost::{StepCost, StepShape, whole_ns};
use crate::outcome::{Row, State, Tally};
use crate::rng::Rng;
use crate::workload::Workload;

/// What a replica does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Everything.
    Unified,
    /// Up to the first token.
    Prefill,
    /// From the second token on.
    Decode,
}

/// What all replicas share.
pub(crate) struct Inputs<'a, C: ?Sized> {
    pub(crate) workload: &'a Workload,
    pub(crate) engine: &'a EngineConfig,
    pub(crate) cost: &'a C,
    pub(crate) jump: bool,
}

/// How far a replica may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// No step starts at or after this time.
    pub(crate) until_ns: i64,
    /// Whether to stop when a request is done.
    pub(crate) until_finish: bool,
}

/// One engine.
pub(crate) struct Replica {
    index: u32,
    role: Role,
    /// When the next step starts.
    clock_ns: i64,
    step: u64,
    pool: Pool,
    waiting: Waiting,
    slots: Vec<Sequence>,
    vacant: Vec<u32>,
    /// Slots in order of admission.
    running: Vec<u32>,
    /// Slots whose prompt is not complete, in order of admission.
    partials: Vec<u32>,
    /// How many of the running decode, and their context.
    decoding: u32,
    context: u64,
    /// Decoding sequences that need a block in steps of each residue of the block size.
    needs: Vec<u32>,
    /// Step after which a sequence is done, its order, its slot; entries of preempted ones stay and are skipped.
    finishes: BinaryHeap<Reverse<(u64, u64, u32)>>,
    admissions: u64,
    /// Why the head of the queue waits, while nothing but a finished request can change that.
    blocked: Option<Gate>,
    stream: Stream,
    /// When the tokens of the last step left.
    sent_ns: i64,
    rng: Rng,
    tally: Tally,
    /// Requests done since the last look.
    finished: Vec<u32>,
    /// Requests done in the last step, which ends in the future of whoever asks while it runs.
    finished_last: u32,
}

impl Replica {
    pub(crate) fn new(index: u32, role: Role, engine: &EngineConfig, delivery: &Delivery, workload: &Workload, seed: u64) -> Self {
        let has_groups = engine.prefix_caching && role != Role::Decode;
        let distinct = if has_groups { workload.distinct_blocks() } else { 0 };
        let group_blocks = (workload.hash_block_tokens() / engine.block_tokens).max(1);
        Self {
            index,
            role,
            clock_ns: 0,
            step: 0,
            pool: Pool::new(engine.kv_blocks, distinct, group_blocks),
            waiting: Waiting::new(engine.policy),
            slots: Vec::new(),
            vacant: Vec::new(),
            running: Vec::new(),
            partials: Vec::new(),
            decoding: 0,
            context: 0,
            needs: vec![0; engine.block_tokens as usize],
            finishes: BinaryHeap::new(),
            admissions: 0,
            blocked: None,
            stream: Stream::new(delivery),
            sent_ns: 0,
            rng: Rng::new(seed, 0x100 + u64::from(index)),
            tally: Tally::default(),
            finished: Vec::new(),
            finished_last: 0,
        }
    }

    /// When its next step starts, `None` when it has nothing to do.
    pub(crate) fn next_start_ns(&self) -> Option<i64> {
        self.has_work().then_some(self.clock_ns)
    }

    fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty()
    }

    /// Requests that a balancer at `now_ns` counts as unfinished.
    pub(crate) fn outstanding(&self, now_ns: i64) -> u64 {
        let still = if self.clock_ns > now_ns { u64::from(self.finished_last) } else { 0 };
        self.waiting.len() as u64 + self.running.len() as u64 + still
    }

    /// Requests done since the last call, and when: all in the last step.
    pub(crate) fn take_finished(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.finished);
    }

    /// From now on prompts may name up to `distinct` blocks.
    pub(crate) fn grow(&mut self, distinct: u32) {
        self.pool.grow(distinct);
    }

    /// When the next step starts, and the last one ended.
    pub(crate) fn clock_ns(&self) -> i64 {
        self.clock_ns
    }

    /// When the tokens of the last step leave.
    pub(crate) fn sent_ns(&self) -> i64 {
        self.sent_ns
    }

    /// Shows each running request with the tokens made for it so far.
    pub(crate) fn progress(&self, mut show: impl FnMut(u32, u32)) {
        for &slot in &self.running {
            let sequence = &self.slots[slot as usize];
            show(sequence.entry.request, sequence.generated_at(self.step));
        }
    }

    /// First tokens made.
    pub(crate) fn first_tokens(&self) -> u64 {
        self.tally.first_tokens
    }

    /// How it stands; what only its driver counts is 0.
    pub(crate) fn state(&self) -> crate::online::ReplicaState {
        crate::online::ReplicaState {
            running: self.running.len() as u64,
            waiting: self.waiting.len() as u64,
            used_blocks: self.pool.total() - self.pool.free(),
            total_blocks: self.pool.total(),
            preemptions: self.tally.preemptions,
            prefill_tokens: self.tally.prefill_tokens,
            made_tokens: self.tally.decode_tokens + self.tally.first_tokens,
            steps: self.tally.steps,
            ..Default::default()
        }
    }

    /// The counts at the end.
    pub(crate) fn into_tally(self) -> Tally {
        let mut tally = self.tally;
        tally.gaps = self.stream.gaps;
        tally
    }

    /// Takes a request in at `now_ns`, which no step that already ran started after.
    pub(crate) fn accept<C: ?Sized>(&mut self, request: u32, now_ns: i64, row: &mut Row, inputs: &Inputs<'_, C>) {
        let wanted = &inputs.workload.requests()[request as usize];
        if !self.can_ever_run(wanted.prompt_tokens, self.output_of(wanted.output_tokens), inputs.engine) {
            row.state = State::Rejected;
            self.finished.push(request);
            return;
        }
        row.replica = self.index as u16;
        if !self.has_work() {
            self.clock_ns = self.clock_ns.max(now_ns);
        }
        let is_transferred = self.role == Role::Decode;
        let entry = Entry {
            priority: wanted.priority,
            reached_ns: now_ns,
            request,
            generated: u32::from(is_transferred),
            own_groups: 0,
            sent_ns: if is_transferred { row.client_first_ns } else { 0 },
            is_resumed: false,
            is_transferred,
        };
        if self.waiting.push(entry) {
            self.blocked = None;
        }
        self.tally.waiting_max = self.tally.waiting_max.max(self.waiting.len() as u64);
    }

    /// Tokens that this replica takes a request to.
    fn output_of(&self, output_tokens: u32) -> u32 {
        if self.role == Role::Prefill { 1 } else { output_tokens }
    }

    fn can_ever_run(&self, prompt: u32, output: u32, engine: &EngineConfig) -> bool {
        let tokens = u64::from(prompt) + u64::from(output) + u64::from(engine.depth());
        let blocks = tokens.div_ceil(u64::from(engine.block_tokens)) + u64::from(engine.watermark_blocks);
        // A preempted request computes its answer so far again, as one more prompt.
        let longest = u64::from(prompt) + u64::from(output) - 1;
        let fits_a_step = engine.chunked_prefill || longest <= u64::from(engine.max_num_batched_tokens);
        blocks <= u64::from(self.pool.total()) && fits_a_step && u32::try_from(tokens).is_ok()
    }

    /// Runs steps as far as `leave` allows and `steps_left` lasts.
    pub(crate) fn run_until<C: StepCost + ?Sized, O: Observer>(
        &mut self,
        leave: Leave,
        inputs: &Inputs<'_, C>,
        rows: &mut [Row],
        observer: &mut O,
        steps_left: &mut u64,
    ) {
        while self.clock_ns < leave.until_ns && self.has_work() && *steps_left > 0 {
            let glided = if inputs.jump && self.can_glide(inputs.engine) {
                self.glide(leave.until_ns, inputs, rows, observer, *steps_left)
            } else {
                0
            };
            *steps_left -= glided;
            if glided == 0 {
                self.iterate(inputs, rows, observer);
                *steps_left -= 1;
            }
            if leave.until_finish && !self.finished.is_empty() {
                return;
            }
        }
    }

    /// Whether the next steps can differ in nothing but context.
    fn can_glide(&self, engine: &EngineConfig) -> bool {
        let nobody_comes = self.waiting.is_empty() || self.blocked.is_some();
        self.decoding > 0 && self.partials.is_empty() && nobody_comes && engine.speculation.is_none()
    }

    /// Takes identical decode steps up to the next finished request, missing block or `until_ns`. Returns how many.
    fn glide<C: StepCost + ?Sized, O: Observer>(
        &mut self,
        until_ns: i64,
        inputs: &Inputs<'_, C>,
        rows: &mut [Row],
        observer: &mut O,
        steps_left: u64,
    ) -> u64 {
        let (start_ns, start_step, seqs) = (self.clock_ns, self.step, self.decoding);
        let finish_step = self.next_finish_step();
        let (mut left, mut taken) = (self.pool.free(), 0);
        let total = self.pool.total();
        let gate = if self.waiting.is_empty() { None } else { self.blocked };
        let host_ns = host_ns(inputs.engine, seqs);
        let mut shape = StepShape { decode_seqs: seqs, ..StepShape::default() };
        let mut residue = (self.step % self.needs.len() as u64) as usize;
        while self.step < finish_step && self.clock_ns < until_ns && self.step - start_step < steps_left {
            let need = self.needs[residue];
            if need > left {
                break;
            }
            residue = if residue + 1 == self.needs.len() { 0 } else { residue + 1 };
            (left, taken) = (left - need, taken + need);
            shape.context_tokens = self.context;
            let step_ns = step_ns(inputs.engine, whole_ns(inputs.cost.device_s(&shape)), host_ns);
            self.clock_ns = self.clock_ns.saturating_add(step_ns);
            self.sent_ns = self.stream.step(self.step, self.clock_ns, u64::from(seqs));
            self.tally.spend(step_ns, total - left, total);
            self.context += u64::from(seqs);
            self.step += 1;
        }
        let steps = self.step - start_step;
        if steps == 0 {
            return 0;
        }
        self.pool.take(taken);
        self.finished_last = 0;
        let span_ns = self.clock_ns - start_ns;
        self.tally.occupy(span_ns, steps, self.running.len() as u64, self.waiting.len() as u64, gate);
        self.tally.decode_tokens += steps * u64::from(seqs);
        self.tally.make(steps * u64::from(seqs), gate);
        self.finish_due(inputs, rows);
        let done = StepReport { steps, decode_seqs: seqs, made_tokens: steps * u64::from(seqs), start_ns, gate, ..self.report() };
        self.show(done, inputs.engine, observer);
        steps
    }

    /// Step after which the next sequence is done.
    fn next_finish_step(&mut self) -> u64 {
        while let Some(&Reverse((step, order, slot))) = self.finishes.peek() {
            let sequence = &self.slots[slot as usize];
            if sequence.order == order && sequence.is_decoding {
                return step;
            }
            self.finishes.pop();
        }
        u64::MAX
    }

    fn report(&self) -> StepReport {
        StepReport {
            replica: self.index,
            start_ns: self.clock_ns,
            end_ns: self.clock_ns,
            steps: 1,
            decode_seqs: 0,
            prefill_tokens: 0,
            made_tokens: 0,
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u64,
            gate: None,
            free_blocks: self.pool.free(),
            total_blocks: self.pool.total(),
            audit: None,
        }
    }

    fn show<O: Observer>(&self, mut report: StepReport, engine: &EngineConfig, observer: &mut O) {
        if observer.wants_audit() {
            report.audit = Some(self.audit(engine));
        }
        observer.step(&report);
    }

    fn audit(&self, engine: &EngineConfig) -> Audit {
        let (queued_blocks, held_blocks) = self.pool.recount();
        let running = || self.running.iter().map(|&slot| &self.slots[slot as usize]);
        Audit {
            private_blocks: running().map(|sequence| u64::from(sequence.private_at(self.step, engine.block_tokens))).sum(),
            held_blocks,
            queued_blocks,
            context_tokens: running()
                .filter(|sequence| sequence.is_decoding)
                .map(|sequence| u64::from(sequence.context_at(self.step)))
                .sum(),
            context_tokens_counted: self.context,
        }
    }
}

/// Time of the host for a step with this many sequences, nanoseconds.
fn host_ns(engine: &EngineConfig, seqs: u32) -> i64 {
    engine.host_step_ns.saturating_add(engine.host_seq_ns.saturating_mul(i64::from(seqs)))
}

/// A step's duration: host and device in parallel or one after the other, at least a nanosecond so that time passes.
fn step_ns(engine: &EngineConfig, device_ns: i64, host_ns: i64) -> i64 {
    let both_ns = if engine.async_scheduling { device_ns.max(host_ns) } else { device_ns.saturating_add(host_ns) };
    both_ns.max(1)
}
