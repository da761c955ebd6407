//! What comes of a step: tokens, finished requests, prompts that turn into decoding sequences.

use std::cmp::Reverse;

use super::super::observe::{Observer, StepReport};
use super::super::sequence::Sequence;
use super::schedule::Plan;
use super::{Inputs, Replica, Role, host_ns, step_ns};
use crate::config::EngineConfig;
use crate::cost::{StepCost, StepShape, whole_ns};
use crate::outcome::{Row, State};

impl Replica {
    /// One step: composed, timed, booked.
    pub(super) fn iterate<C: StepCost + ?Sized, O: Observer>(&mut self, inputs: &Inputs<'_, C>, rows: &mut [Row], observer: &mut O) {
        let engine = inputs.engine;
        let plan = self.plan(inputs, rows);
        let (prefill_tokens, prefill_pairs) = plan.prefill();
        if self.decoding == 0 && plan.chunks.is_empty() {
            // Whoever was preempted left room: the next plan is another one.
            if !plan.has_preempted {
                self.refuse_head(rows);
            }
            return;
        }
        let seqs = self.decoding;
        let draft_tokens = seqs * engine.depth();
        let shape = StepShape { decode_seqs: seqs, draft_tokens, prefill_tokens, context_tokens: self.context, prefill_pairs };
        let draft_ns = engine.speculation.as_ref().map_or(0, |speculation| {
            if seqs == 0 { 0 } else { speculation.draft_step_ns.saturating_add(speculation.draft_seq_ns.saturating_mul(i64::from(seqs))) }
        });
        let device_ns = whole_ns(inputs.cost.device_s(&shape)).saturating_add(draft_ns);
        let span_ns = step_ns(engine, device_ns, host_ns(engine, seqs + plan.chunks.len() as u32));
        let start_ns = self.clock_ns;
        self.clock_ns = start_ns.saturating_add(span_ns);
        let gate = if self.waiting.is_empty() { None } else { plan.gate };
        self.blocked = if plan.has_preempted || plan.is_fickle { None } else { gate.filter(|gate| *gate != super::Gate::Budget) };
        self.tally.spend(span_ns, self.pool.total() - self.pool.free(), self.pool.total());
        self.tally.occupy(span_ns, 1, self.running.len() as u64, self.waiting.len() as u64, gate);
        let made_tokens = self.book(&plan, inputs, rows);
        self.tally.make(made_tokens, gate);
        self.tally.prefill_tokens += u64::from(prefill_tokens);
        let done =
            StepReport { decode_seqs: seqs, prefill_tokens: u64::from(prefill_tokens), made_tokens, start_ns, gate, ..self.report() };
        self.show(done, engine, observer);
    }

    /// Nothing runs and the head of the queue cannot: it never will.
    fn refuse_head(&mut self, rows: &mut [Row]) {
        debug_assert!(false, "a request that can never run was taken in");
        if let Some(entry) = self.waiting.pop() {
            rows[entry.request as usize].state = State::Rejected;
            self.finished.push(entry.request);
        }
    }

    /// Books the tokens of the step that just ended. Returns how many were made.
    fn book<C: ?Sized>(&mut self, plan: &Plan, inputs: &Inputs<'_, C>, rows: &mut [Row]) -> u64 {
        let engine = inputs.engine;
        let step = self.step;
        self.step += 1;
        self.finished_last = 0;
        let (decoded, has_done) =
            if engine.speculation.is_some() { self.advance_by_drafts(engine) } else { (u64::from(self.decoding), false) };
        if engine.speculation.is_none() {
            self.context += u64::from(self.decoding);
        }
        self.tally.decode_tokens += decoded;
        let mut completed = std::mem::take(&mut self.partials);
        completed.retain(|&slot| {
            let is_complete = self.slots[slot as usize].computed == self.slots[slot as usize].target;
            if !is_complete {
                self.partials.push(slot);
            }
            is_complete
        });
        let made = decoded + completed.len() as u64;
        self.sent_ns = self.stream.step(step, self.clock_ns, made);
        for &slot in &plan.joined {
            let sequence = &mut self.slots[slot as usize];
            sequence.joined = step;
            self.stream.pause(sequence.entry.sent_ns, self.sent_ns);
            self.stream.join(step);
        }
        if has_done {
            self.finish_drafted(inputs, rows);
        }
        if engine.speculation.is_none() {
            self.finish_due(inputs, rows);
        }
        for slot in completed {
            self.first_token(slot, step, inputs, rows);
        }
        made
    }

    /// Each decoding sequence verifies its drafts: it advances by one token and those accepted in a row. Returns the tokens
    /// made, and whether a sequence is done.
    fn advance_by_drafts(&mut self, engine: &EngineConfig) -> (u64, bool) {
        let Some(speculation) = &engine.speculation else { return (0, false) };
        let (mut made, mut has_done) = (0, false);
        for &slot in &self.running {
            let sequence = &mut self.slots[slot as usize];
            if !sequence.is_decoding {
                continue;
            }
            let accepted = speculation.acceptance.iter().take_while(|share| self.rng.uniform() < **share).count() as u32;
            let tokens = (1 + accepted).min(sequence.output - sequence.generated);
            sequence.context += tokens;
            sequence.generated += tokens;
            sequence.entered = self.step;
            self.context += u64::from(tokens);
            made += u64::from(tokens);
            has_done |= sequence.generated == sequence.output;
        }
        (made, has_done)
    }

    /// Ends the sequences whose last token was just verified.
    fn finish_drafted<C: ?Sized>(&mut self, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let is_done = |slot: &u32| {
            let sequence = &self.slots[*slot as usize];
            sequence.is_decoding && sequence.generated == sequence.output
        };
        let done: Vec<u32> = self.running.iter().copied().filter(is_done).collect();
        for slot in done {
            self.finish(slot, inputs, rows);
        }
    }

    /// Ends the sequences whose last step this was.
    pub(super) fn finish_due<C: ?Sized>(&mut self, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        while self.next_finish_step() == self.step {
            let Some(Reverse((_, _, slot))) = self.finishes.pop() else { return };
            self.finish(slot, inputs, rows);
        }
    }

    /// A prompt is complete: the step made its next token.
    fn first_token<C: ?Sized>(&mut self, slot: u32, step: u64, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let (clock_ns, sent_ns) = (self.clock_ns, self.sent_ns);
        let sequence = &mut self.slots[slot as usize];
        sequence.generated += 1;
        sequence.joined = step;
        self.tally.first_tokens += u64::from(sequence.generated == 1);
        let row = &mut rows[sequence.entry.request as usize];
        if sequence.generated == 1 {
            (row.first_token_ns, row.client_first_ns) = (clock_ns, sent_ns);
        } else {
            self.stream.pause(sequence.entry.sent_ns, sent_ns);
        }
        self.stream.join(step);
        if sequence.generated == sequence.output {
            self.finish(slot, inputs, rows);
        } else {
            self.start_decoding(slot, self.step, inputs.engine);
        }
    }

    /// A running sequence decodes from step `entered` on.
    pub(super) fn start_decoding(&mut self, slot: u32, entered: u64, engine: &EngineConfig) {
        let sequence = &mut self.slots[slot as usize];
        sequence.is_decoding = true;
        sequence.entered = entered;
        sequence.context = sequence.target;
        self.decoding += 1;
        self.context += u64::from(sequence.target);
        let (residue, finish) = (residue_of(sequence, engine), entered + u64::from(sequence.output - sequence.generated));
        if engine.speculation.is_none() {
            self.finishes.push(Reverse((finish, sequence.order, slot)));
            self.needs[residue] += 1;
        }
    }

    /// Gives a seat to a sequence.
    pub(super) fn seat(&mut self, sequence: Sequence) -> u32 {
        self.admissions += 1;
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(sequence);
        } else {
            self.slots[slot as usize] = sequence;
        }
        self.running.push(slot);
        self.tally.running_max = self.tally.running_max.max(self.running.len() as u64);
        slot
    }

    /// Takes a sequence off its seat; its latest token left in step `last`. Blocks are the caller's business.
    pub(super) fn remove(&mut self, slot: u32, engine: &EngineConfig, last: u64) {
        let sequence = self.slots[slot as usize];
        let order = |other: &u32| self.slots[*other as usize].order;
        if let Ok(at) = self.running.binary_search_by_key(&sequence.order, order) {
            self.running.remove(at);
        }
        if sequence.is_decoding {
            self.decoding -= 1;
            self.context -= u64::from(sequence.context_at(self.step));
            if engine.speculation.is_none() {
                self.needs[residue_of(&sequence, engine)] -= 1;
            }
            self.stream.leave(sequence.joined, last);
        } else {
            self.partials.retain(|&other| other != slot);
        }
        self.slots[slot as usize].is_decoding = false;
        self.vacant.push(slot);
    }

    /// The last token of a sequence left: its seat and blocks are free.
    fn finish<C: ?Sized>(&mut self, slot: u32, inputs: &Inputs<'_, C>, rows: &mut [Row]) {
        let sequence = self.slots[slot as usize];
        let engine = inputs.engine;
        self.pool.free_private(sequence.private_at(self.step, engine.block_tokens));
        let request = sequence.entry.request;
        self.pool.release(&self.role.groups_of(request, inputs.workload, engine)[..sequence.shared as usize]);
        if !sequence.is_decoding {
            self.stream.leave(sequence.joined, self.step - 1);
        }
        self.remove(slot, engine, self.step - 1);
        self.blocked = None;
        self.finished.push(request);
        self.finished_last += 1;
        let wanted = inputs.workload.requests()[request as usize].output_tokens;
        let row = &mut rows[request as usize];
        if self.role == Role::Prefill && wanted > 1 {
            return;
        }
        (row.last_token_ns, row.client_last_ns) = (self.clock_ns, self.sent_ns);
        if self.stream.is_held_back() {
            row.client_first_ns = row.client_last_ns;
        }
        row.state = State::Done;
    }
}

/// Steps of this residue of the block size are those in which the sequence starts a new block.
fn residue_of(sequence: &Sequence, engine: &EngineConfig) -> usize {
    let size = u64::from(engine.block_tokens);
    ((sequence.entered % size + size - u64::from(sequence.context) % size) % size) as usize
}
