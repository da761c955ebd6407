//! A continuous-batching scheduler in the small: first come first served, seats, a token budget, chunked prompts, and
//! one step planned ahead of the one that runs, as vLLM does by default.
//!
//! Leaves out preemption (the KV cache is never short here), priorities and failures.

use std::collections::VecDeque;

use super::random::Random;

/// Times are multiples of this, so that the files stay small: steps come out in tenths of a millisecond.
pub(crate) const TICK_US: u64 = 100;

/// Cost of a step and the scheduler's limits.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    /// `max_num_seqs`.
    pub(crate) seats: usize,
    /// `max_num_batched_tokens`.
    pub(crate) token_budget: u32,
    /// KV block size in tokens.
    pub(crate) block_tokens: u32,
    /// Microseconds of any step, per decoding sequence, per prompt token.
    pub(crate) step_us: f64,
    pub(crate) sequence_us: f64,
    pub(crate) prompt_token_us: f64,
    /// Relative spread of a step's duration.
    pub(crate) noise: f64,
}

/// One request: what it asks for, and when what happened (microseconds since the load began).
#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    /// The client calls.
    pub(crate) sent_us: u64,
    /// The API server has the request.
    pub(crate) arrived_us: u64,
    /// It is tokenized and lies in the core's input.
    pub(crate) ready_us: u64,
    /// The core takes it in, between two steps.
    pub(crate) queued_us: u64,
    /// It gets a seat.
    pub(crate) scheduled_us: u64,
    /// The step that yields its first token; one token per step follows.
    pub(crate) first_step: usize,
}

impl Request {
    pub(crate) fn last_step(&self) -> usize {
        self.first_step + self.output_tokens as usize - 1
    }
}

/// One step and what the scheduler reports after it.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) end_us: u64,
    /// Output tokens, first tokens included.
    pub(crate) output_tokens: u32,
    /// Prompt tokens of the requests whose prompt this step completes (what the engine counts).
    pub(crate) completed_prompt_tokens: u32,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) kv_blocks: u32,
    /// Tokens scheduled, against the budget.
    pub(crate) scheduled_tokens: u32,
}

#[derive(Default)]
struct Plan {
    /// (slot in `requests`, tokens, yields an output token, prompt is done by it).
    parts: Vec<(usize, u32, bool, bool)>,
}

struct Seat {
    request: usize,
    /// Prompt tokens planned so far.
    prompt_planned: u32,
    /// Output tokens planned and delivered so far.
    output_planned: u32,
    output_done: u32,
}

struct State<'a> {
    engine: &'a Engine,
    requests: &'a mut [Request],
    seats: Vec<Seat>,
    waiting: VecDeque<usize>,
    steps: Vec<Step>,
    random: Random,
}

/// Runs `requests` to the end and fills in their times.
pub(crate) fn run(engine: &Engine, requests: &mut [Request], seed: u64) -> Vec<Step> {
    let mut state = State { engine, requests, seats: Vec::new(), waiting: VecDeque::new(), steps: Vec::new(), random: Random::new(seed) };
    let mut order: Vec<usize> = (0..state.requests.len()).collect();
    order.sort_by_key(|&request| state.requests[request].ready_us);
    let mut arriving = order.into_iter().peekable();
    let mut now_us = 0;
    let mut ahead: Option<Plan> = None;
    loop {
        while let Some(request) = arriving.next_if(|&request| state.requests[request].ready_us <= now_us) {
            state.requests[request].queued_us = now_us;
            state.waiting.push_back(request);
        }
        let planned = state.plan(now_us);
        match ahead.take() {
            Some(running) => {
                now_us = state.execute(&running, now_us);
                ahead = planned;
            }
            None if planned.is_some() => ahead = planned,
            None => match arriving.peek() {
                Some(&request) => now_us = state.requests[request].ready_us,
                None => return state.steps,
            },
        }
    }
}

impl State<'_> {
    /// The next step: seated requests first, then new ones while seats and budget last.
    fn plan(&mut self, now_us: u64) -> Option<Plan> {
        let mut budget = self.engine.token_budget;
        let mut plan = Plan::default();
        for seat in &mut self.seats {
            seat.take(&self.requests[seat.request], &mut budget, &mut plan);
        }
        while budget > 0 && self.seats.len() < self.engine.seats {
            let Some(request) = self.waiting.pop_front() else { break };
            self.requests[request].scheduled_us = now_us;
            let mut seat = Seat { request, prompt_planned: 0, output_planned: 0, output_done: 0 };
            seat.take(&self.requests[request], &mut budget, &mut plan);
            self.seats.push(seat);
        }
        (!plan.parts.is_empty()).then_some(plan)
    }

    /// Runs one step from `start_us` and hands out its tokens; returns its end.
    fn execute(&mut self, plan: &Plan, start_us: u64) -> u64 {
        let scheduled: u32 = plan.parts.iter().map(|part| part.1).sum();
        let decoding = plan.parts.iter().filter(|part| part.2 && !part.3).count() as u32;
        let cost_us = self.engine.step_us
            + self.engine.sequence_us * f64::from(decoding)
            + self.engine.prompt_token_us * f64::from(scheduled - decoding);
        let noisy_us = cost_us * (1.0 + self.engine.noise * self.random.normal());
        let end_us = start_us + (noisy_us / TICK_US as f64).round() as u64 * TICK_US;
        let (mut output_tokens, mut completed_prompt_tokens) = (0, 0);
        for &(request, _, yields, completes) in &plan.parts {
            if completes {
                self.requests[request].first_step = self.steps.len();
                completed_prompt_tokens += self.requests[request].prompt_tokens;
            }
            if yields {
                output_tokens += 1;
                if let Some(seat) = self.seats.iter_mut().find(|seat| seat.request == request) {
                    seat.output_done += 1;
                }
            }
        }
        let requests = &self.requests;
        self.seats.retain(|seat| seat.output_done < requests[seat.request].output_tokens);
        let kv_blocks = self.seats.iter().map(|seat| (seat.prompt_planned + seat.output_planned).div_ceil(self.engine.block_tokens)).sum();
        self.steps.push(Step {
            end_us,
            output_tokens,
            completed_prompt_tokens,
            running: self.seats.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_blocks,
            scheduled_tokens: scheduled,
        });
        end_us
    }
}

impl Seat {
    /// Takes this request's share of the next step from the budget.
    fn take(&mut self, request: &Request, budget: &mut u32, plan: &mut Plan) {
        if self.prompt_planned < request.prompt_tokens {
            let chunk = (request.prompt_tokens - self.prompt_planned).min(*budget);
            if chunk == 0 {
                return;
            }
            *budget -= chunk;
            self.prompt_planned += chunk;
            let completes = self.prompt_planned == request.prompt_tokens;
            self.output_planned += u32::from(completes);
            plan.parts.push((self.request, chunk, completes, completes));
        } else if self.output_planned < request.output_tokens && *budget > 0 {
            *budget -= 1;
            self.output_planned += 1;
            plan.parts.push((self.request, 1, true, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: Engine =
        Engine { seats: 4, token_budget: 512, block_tokens: 16, step_us: 7600.0, sequence_us: 79.0, prompt_token_us: 26.7, noise: 0.0 };

    /// `count` requests of 600 and 50 tokens, one every `gap_us`.
    fn load(count: u64, gap_us: u64) -> Vec<Request> {
        (0..count).map(|at| Request { prompt_tokens: 600, output_tokens: 50, ready_us: at * gap_us, ..Request::default() }).collect()
    }

    #[test]
    fn a_lone_request_pays_its_own_steps_only() {
        let mut requests = load(1, 0);
        let steps = run(&ENGINE, &mut requests, 1);
        // 512 and 88 prompt tokens, then 49 steps with one sequence.
        assert_eq!(steps.len(), 51);
        assert_eq!(steps[0].end_us, 21_300);
        assert_eq!(steps[requests[0].first_step].end_us, 21_300 + 9900);
        assert_eq!(steps[50].end_us, 31_200 + 49 * 7700);
        assert_eq!((requests[0].queued_us, requests[0].scheduled_us, requests[0].last_step()), (0, 0, 50));
    }

    #[test]
    fn seats_and_budget_hold_and_nobody_overtakes() {
        let mut requests = load(200, 90_000);
        let steps = run(&ENGINE, &mut requests, 1);
        assert!(steps.iter().all(|step| step.running <= 4 && step.scheduled_tokens <= 512));
        assert!(steps.iter().any(|step| step.waiting > 10), "four seats do not keep up with this load");
        assert!(requests.windows(2).all(|pair| pair[0].scheduled_us <= pair[1].scheduled_us));
        assert!(requests.iter().all(|request| request.ready_us <= request.queued_us && request.queued_us <= request.scheduled_us));
        assert_eq!(steps.iter().map(|step| u64::from(step.output_tokens)).sum::<u64>(), 200 * 50);
        assert_eq!(steps.iter().map(|step| u64::from(step.completed_prompt_tokens)).sum::<u64>(), 200 * 600);
        let last = steps[steps.len() - 1];
        assert_eq!((last.running, last.waiting, last.kv_blocks), (0, 0, 0));
    }
}
