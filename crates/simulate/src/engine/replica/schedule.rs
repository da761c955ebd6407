//! What the next step serves: decoding sequences, prompts in work, new requests, and who has to make room.

use super::super::observe::Gate;
use super::super::pool::Hit;
use super::super::sequence::Sequence;
use super::super::waiting::Entry;
use super::{Inputs, Replica, Role};
use crate::config::{EngineConfig, Policy};
use crate::outcome::{Row, State};
use crate::workload::Workload;

/// A step in the making.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Tokens left of the budget.
    pub(super) budget: u32,
    /// Prompt tokens of each sequence, and pairs with earlier tokens.
    pub(super) chunks: Vec<(u32, u32, u64)>,
    /// Sequences that came with their KV and decode for the first time.
    pub(super) joined: Vec<u32>,
    /// Whether decoding sequences have their block of this step.
    is_decode_served: bool,
    /// Whether somebody was preempted.
    pub(super) has_preempted: bool,
    /// Why the head of the queue still waits.
    pub(super) gate: Option<Gate>,
    /// Whether decoding alone can change that.
    pub(super) is_fickle: bool,
}

impl Plan {
    /// Prompt tokens and pairs in all.
    pub(super) fn prefill(&self) -> (u32, u64) {
        self.chunks.iter().fold((0, 0), |(tokens, pairs), chunk| (tokens + chunk.1, pairs + chunk.2))
    }
}

/// Tokens of a chunk attend to those before it and to half of each other.
fn pairs(start: u32, chunk: u32) -> u64 {
    u64::from(chunk) * (u64::from(start) + u64::from(chunk) / 2)
}

impl Replica {
    /// Composes the next step.
    pub(super) fn plan<C: ?Sized>(&mut self, inputs: &Inputs<'_, C>, rows: &mut [Row]) -> Plan {
        let mut plan = Plan { budget: inputs.engine.max_num_batched_tokens, ..Plan::default() };
        self.serve_decoding(&mut plan, inputs, rows);
        self.serve_partials(&mut plan, inputs, rows);
        self.admit(&mut plan, inputs, rows);
        plan
    }

    fn serve_decoding<C: ?Sized>(&mut self, plan: &mut Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let engine = inputs.engine;
        let depth = engine.depth();
        let mut need = if depth == 0 { self.needs[(self.step % u64::from(engine.block_tokens)) as usize] } else { self.lookahead(engine) };
        while need > self.pool.free() {
            let Some(victim) = self.victim(engine.policy) else { break };
            need -= self.need_of(victim, engine);
            self.preempt(victim, plan, inputs, rows);
        }
        self.pool.take(need);
        if depth > 0 && need > 0 {
            self.book_lookahead(engine);
        }
        plan.is_decode_served = true;
        // The configuration was checked: every seat can decode within the budget.
        plan.budget -= self.decoding * (1 + depth);
    }

    /// Blocks that a sequence needs to decode in this step.
    fn need_of(&self, slot: u32, engine: &EngineConfig) -> u32 {
        let sequence = &self.slots[slot as usize];
        if !sequence.is_decoding {
            return 0;
        }
        if engine.speculation.is_some() {
            return (sequence.context + 1 + engine.depth()).div_ceil(engine.block_tokens).saturating_sub(sequence.blocks);
        }
        u32::from(sequence.context_at(self.step).is_multiple_of(engine.block_tokens))
    }

    /// Blocks for the tokens of this step and all drafts, over all decoding sequences.
    fn lookahead(&self, engine: &EngineConfig) -> u32 {
        self.running.iter().map(|&slot| self.need_of(slot, engine)).sum()
    }

    fn book_lookahead(&mut self, engine: &EngineConfig) {
        for at in 0..self.running.len() {
            let slot = self.running[at];
            let need = self.need_of(slot, engine);
            let sequence = &mut self.slots[slot as usize];
            sequence.blocks += need;
            sequence.private += need;
        }
    }

    /// The running request that matters least: admitted last, or by priority.
    fn victim(&self, policy: Policy) -> Option<u32> {
        match policy {
            Policy::Fcfs => self.running.last().copied(),
            Policy::Priority => self.running.iter().copied().max_by_key(|&slot| self.slots[slot as usize].entry.key()),
        }
    }

    /// Sends a running request back to the queue. Its whole blocks stay findable; what it did in this step is undone.
    fn preempt<C: ?Sized>(&mut self, slot: u32, plan: &mut Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let engine = inputs.engine;
        let sequence = self.slots[slot as usize];
        if let Some(at) = plan.chunks.iter().position(|chunk| chunk.0 == slot) {
            plan.budget += plan.chunks.swap_remove(at).1;
        }
        let mut private = sequence.private_at(self.step, engine.block_tokens);
        if sequence.is_decoding && plan.is_decode_served {
            private += if engine.speculation.is_none() { self.need_of(slot, engine) } else { 0 };
            plan.budget += 1 + engine.depth();
        }
        let context = sequence.context_at(self.step);
        let whole = (context / engine.block_tokens).saturating_sub(sequence.shared * self.pool.group_blocks());
        let findable = if engine.prefix_caching && !sequence.has_partial_group { private.min(whole) } else { 0 };
        self.pool.free_private(private - findable);
        self.pool.park(sequence.entry.request, findable);
        self.pool.release(&self.role.groups_of(sequence.entry.request, inputs.workload, engine)[..sequence.shared as usize]);
        let sent_ns = if sequence.is_decoding { self.sent_ns } else { sequence.entry.sent_ns };
        let entry = Entry {
            generated: sequence.generated_at(self.step),
            own_groups: sequence.shared,
            sent_ns,
            is_resumed: true,
            is_transferred: false,
            ..sequence.entry
        };
        self.remove(slot, engine, self.step.wrapping_sub(1));
        self.waiting.push(entry);
        self.blocked = None;
        let row = &mut rows[entry.request as usize];
        row.preemptions += 1;
        self.tally.preemptions += 1;
        plan.has_preempted = true;
    }

    fn serve_partials<C: ?Sized>(&mut self, plan: &mut Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let engine = inputs.engine;
        let mut at = 0;
        while at < self.partials.len() {
            let slot = self.partials[at];
            let sequence = self.slots[slot as usize];
            let chunk = chunk_of(sequence.target - sequence.computed, plan.budget, engine);
            if chunk == 0 {
                return;
            }
            let need = (sequence.computed + chunk).div_ceil(engine.block_tokens).saturating_sub(sequence.blocks);
            while need > self.pool.free() {
                let Some(victim) = self.victim(engine.policy) else { return };
                self.preempt(victim, plan, inputs, rows);
                if victim == slot {
                    return;
                }
            }
            // Preempted neighbors left the list.
            at = self.partials.iter().position(|&other| other == slot).map_or(self.partials.len(), |found| found + 1);
            self.pool.take(need);
            let sequence = &mut self.slots[slot as usize];
            sequence.blocks += need;
            sequence.private += need;
            self.compute(slot, chunk, plan, inputs.workload, engine);
        }
    }

    /// Books a chunk of a prompt and completes the groups it fills.
    fn compute(&mut self, slot: u32, chunk: u32, plan: &mut Plan, workload: &Workload, engine: &EngineConfig) {
        let sequence = &mut self.slots[slot as usize];
        plan.budget -= chunk;
        plan.chunks.push((slot, chunk, pairs(sequence.computed, chunk)));
        sequence.computed += chunk;
        let groups = self.role.groups_of(sequence.entry.request, workload, engine);
        let filled = sequence.computed / (self.pool.group_blocks() * engine.block_tokens);
        if sequence.has_partial_group && filled >= sequence.shared {
            let group = groups[sequence.shared as usize - 1];
            let before = self.pool.present(group);
            if self.pool.complete(group) {
                sequence.private -= self.pool.group_blocks() - before;
            }
            sequence.has_partial_group = false;
        }
        while !sequence.has_partial_group && !sequence.is_closed && sequence.shared < filled.min(groups.len() as u32) {
            if self.pool.register(groups[sequence.shared as usize]) {
                sequence.shared += 1;
                sequence.private -= self.pool.group_blocks();
            } else {
                sequence.is_closed = true;
            }
        }
    }

    /// Admits from the head of the queue while seats, budget and blocks last.
    fn admit<C: ?Sized>(&mut self, plan: &mut Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let engine = inputs.engine;
        if plan.has_preempted {
            plan.gate = Some(Gate::Kv);
            return;
        }
        while let Some(&entry) = self.waiting.peek() {
            if self.running.len() >= engine.max_num_seqs as usize {
                plan.gate = Some(Gate::Seats);
                return;
            }
            if let Err(gate) = self.admit_one(entry, plan, inputs, rows) {
                plan.gate = Some(gate);
                return;
            }
        }
    }

    /// Prompts in work that this step does not complete.
    fn unfinished_prompts(&self) -> u32 {
        let is_unfinished = |slot: &&u32| self.slots[**slot as usize].computed < self.slots[**slot as usize].target;
        self.partials.iter().filter(is_unfinished).count() as u32
    }

    /// Gives the head of the queue a seat, or says what holds it out.
    fn admit_one<C: ?Sized>(&mut self, entry: Entry, plan: &mut Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) -> Result<(), Gate> {
        let offer = self.offer(&entry, plan, inputs)?;
        self.waiting.pop();
        let row = &mut rows[entry.request as usize];
        if !entry.is_resumed && !entry.is_transferred {
            row.admitted_ns = self.clock_ns;
            row.cached_tokens = offer.target - offer.left;
            row.state = State::Running;
        }
        if entry.is_resumed {
            self.tally.recomputed_tokens += u64::from(offer.left);
        }
        let slot = self.settle(entry, &offer, inputs);
        if entry.is_transferred {
            plan.budget -= 1 + inputs.engine.depth();
            plan.joined.push(slot);
            self.start_decoding(slot, self.step, inputs.engine);
        } else {
            self.partials.push(slot);
            self.compute(slot, offer.chunk, plan, inputs.workload, inputs.engine);
        }
        Ok(())
    }

    /// What a waiting request would get in this step.
    fn offer<C: ?Sized>(&self, entry: &Entry, plan: &mut Plan, inputs: &Inputs<'_, C>) -> Result<Offer, Gate> {
        let engine = inputs.engine;
        let block_tokens = engine.block_tokens;
        let prompt = inputs.workload.requests()[entry.request as usize].prompt_tokens;
        let (target, hit) = if entry.is_transferred {
            (prompt, Hit::default())
        } else {
            // At least one token is computed, so that there is something to sample from.
            let target = prompt + entry.generated;
            let most = if engine.prefix_caching { (target - 1) / block_tokens } else { 0 };
            let groups = self.role.groups_of(entry.request, inputs.workload, engine);
            (target, self.pool.find(groups, entry.request, entry.own_groups, most))
        };
        let found = hit.blocks * block_tokens;
        let (left, decoded) = if entry.is_transferred { (0, 1 + engine.depth()) } else { (target - found, 0) };
        let chunk = chunk_of(left, plan.budget, engine);
        let is_cut = chunk < left;
        let has_no_budget = plan.budget == 0 || plan.budget < decoded || (is_cut && chunk == 0);
        if has_no_budget || (is_cut && self.unfinished_prompts() >= engine.max_partial_prefills) {
            return Err(Gate::Budget);
        }
        // Decoding in this very step takes the block after the last, drafts included.
        let now = if entry.is_transferred { target + decoded } else { found + chunk };
        let need = now.div_ceil(block_tokens) - hit.blocks;
        let reserved = if engine.reserve_full_prompt { target.div_ceil(block_tokens) - hit.blocks } else { 0 };
        let wanted = u64::from(need.max(reserved)) + u64::from(engine.watermark_blocks);
        if wanted > u64::from(self.pool.free() - hit.blocks_in_queue) {
            // With all blocks reserved, free blocks that hold something for the request count as much as empty ones. Else
            // it may get in once others have overwritten them.
            plan.is_fickle = hit.blocks_in_queue > 0 && (!engine.reserve_full_prompt || hit.surplus > 0);
            return Err(Gate::Kv);
        }
        Ok(Offer { target, left, chunk, need, hit })
    }

    /// Takes the blocks of an offer and a seat.
    fn settle<C: ?Sized>(&mut self, entry: Entry, offer: &Offer, inputs: &Inputs<'_, C>) -> u32 {
        let (engine, hit) = (inputs.engine, offer.hit);
        let held = &self.role.groups_of(entry.request, inputs.workload, engine)[..hit.groups as usize];
        let has_partial_group = held.last().is_some_and(|&group| self.pool.present(group) < self.pool.group_blocks());
        self.pool.hold(held);
        self.pool.unpark(entry.request, hit.parked);
        self.pool.take(offer.need);
        // Without drafts the block of the first decode step follows from the step counter, as for all that decode.
        let is_counted_later = entry.is_transferred && engine.depth() == 0;
        let blocks = if is_counted_later { offer.target.div_ceil(engine.block_tokens) } else { hit.blocks + offer.need };
        self.seat(Sequence {
            entry,
            order: self.admissions,
            output: self.output_of(inputs.workload.requests()[entry.request as usize].output_tokens),
            target: offer.target,
            computed: offer.target - offer.left,
            is_decoding: false,
            entered: 0,
            joined: 0,
            context: 0,
            generated: entry.generated,
            blocks,
            private: blocks - (hit.blocks - hit.parked),
            shared: hit.groups,
            has_partial_group,
            is_closed: false,
        })
    }
}

/// What a waiting request gets if it is admitted.
struct Offer {
    /// Tokens it has to have before the next one can be made.
    target: u32,
    /// Of those, not found in the cache.
    left: u32,
    /// Of those, computed in this step.
    chunk: u32,
    /// Blocks to take for that.
    need: u32,
    /// What was found.
    hit: Hit,
}

/// Tokens of a prompt with `left` to go that a step with `budget` computes; 0 when it has to wait.
fn chunk_of(left: u32, budget: u32, engine: &EngineConfig) -> u32 {
    if !engine.chunked_prefill {
        return if left <= budget { left } else { 0 };
    }
    left.min(budget).min(engine.long_prefill_tokens.unwrap_or(u32::MAX))
}

impl Role {
    /// The groups of a request's prompt that it fills to the end, as far as this replica looks for them.
    pub(super) fn groups_of<'a>(self, request: u32, workload: &'a Workload, engine: &EngineConfig) -> &'a [u32] {
        if self == Self::Decode || !engine.prefix_caching || workload.hash_block_tokens() == 0 {
            return &[];
        }
        let request = &workload.requests()[request as usize];
        let groups = workload.blocks(request);
        &groups[..groups.len().min((request.prompt_tokens / workload.hash_block_tokens()) as usize)]
    }
}
