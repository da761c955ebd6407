//! What the readers of Python stacks share: frames, the part of serving a stack is in, and the shares of the parts.
//!
//! `proc.frame_share` of a part is its share of the samples in which its process worked. Samples that idle or spin are not
//! work: their shares (parts `idle` and `spin`) are of all samples of the process. Command lines and values of variables,
//! which py-spy can print, never enter.

pub(crate) mod looks;
mod rules;

use std::collections::BTreeMap;

use capture::{Name, Severity, Stack, labels};

use crate::builder::Builder;
use rules::{IDLE, OTHER, ROLES, RULES, Rule, SPIN};

/// Most different stacks of one source.
const MAX_STACKS: usize = 1_000_000;
/// Most frames of one stack; what is further out is left out.
const MAX_FRAMES: usize = 400;
/// Working samples from which shares mean anything: then one sample is 5 %.
const MIN_WORKING: f64 = 20.0;

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// The source does not tell.
    Unknown,
    /// Not running.
    Idle,
    /// Running, or waiting for the interpreter lock.
    Active,
    /// Running with the interpreter lock.
    Gil,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Gil => "gil",
        }
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Function with its class.
    pub(super) function: &'a str,
    /// Path of the file.
    pub(super) file: &'a str,
    /// Line, empty where it is not known.
    pub(super) line: &'a str,
}

impl<'a> Frame<'a> {
    /// `Queue.get (queue.py:171)`, `run (x.py)` or `main`.
    pub(super) fn parse(text: &'a str) -> Self {
        let text = text.trim();
        let Some((function, rest)) = text.rsplit_once(" (").filter(|(_, rest)| rest.ends_with(')')) else {
            return Self { function: text, file: "", line: "" };
        };
        let place = &rest[..rest.len() - 1];
        match place.rsplit_once(':').filter(|(_, line)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())) {
            Some((file, line)) => Self { function, file, line },
            None => Self { function, file: place, line: "" },
        }
    }

    fn bare_function(&self) -> &'a str {
        self.function.rsplit('.').next().unwrap_or_default()
    }

    fn is_in(&self, file: &str) -> bool {
        if let Some(folder) = file.strip_suffix('/') {
            let mut rest = self.file;
            while let Some(at) = rest.find(folder) {
                let starts = at == 0 || rest.as_bytes()[at - 1] == b'/';
                if starts && rest.as_bytes().get(at + folder.len()) == Some(&b'/') {
                    return true;
                }
                rest = &rest[at + folder.len()..];
            }
            return false;
        }
        self.file.strip_suffix(file).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    }

    /// The path from the package on, where it is in one.
    fn in_package(&self) -> Option<&'a str> {
        ["site-packages/", "dist-packages/"].iter().find_map(|root| self.file.rsplit_once(root)).map(|(_, inside)| inside)
    }

    /// The path from the package on; of other absolute paths the last two names, which hold no user's.
    fn short_file(&self) -> &'a str {
        self.in_package().unwrap_or_else(|| {
            let is_absolute = self.file.starts_with('/');
            let names = self.file.rmatch_indices('/').nth(1).filter(|_| is_absolute).map_or(0, |(at, _)| at + 1);
            &self.file[names..]
        })
    }

    /// The path from the package on, else the last name.
    fn own_file(&self) -> &'a str {
        self.in_package().unwrap_or_else(|| self.file.rsplit('/').next().unwrap_or_default())
    }

    /// Adds the frame, with `file` for its path, to a folded stack.
    fn fold(&self, file: &str, folded: &mut String) {
        if !folded.is_empty() {
            folded.push(';');
        }
        folded.push_str(self.function);
        if !file.is_empty() {
            let colon = if self.line.is_empty() { "" } else { ":" };
            folded.push_str(&format!(" ({file}{colon}{})", self.line));
        }
    }
}

/// The part that a stack is in; frames from the innermost outwards.
pub(super) fn part_of(frames: &[Frame<'_>]) -> &'static str {
    for (depth, frame) in frames.iter().enumerate() {
        let function = frame.bare_function();
        let fits = |rule: &&Rule| {
            (depth == 0 || !rule.is_leaf)
                && (rule.function.is_empty() || rule.function == function)
                && frame.is_in(rule.file)
                && (rule.under.is_empty() || frames[depth + 1..].iter().any(|outer| outer.bare_function() == rule.under))
        };
        if let Some(rule) = RULES.iter().find(fits) {
            return rule.part;
        }
    }
    OTHER
}

fn role_of(frames: &[Frame<'_>]) -> Option<&'static str> {
    let role = |frame: &Frame<'_>| {
        let function = frame.bare_function();
        ROLES.iter().find(|(file, name, _)| *name == function && frame.is_in(file)).map(|(_, _, role)| *role)
    };
    frames.iter().rev().find_map(role)
}

/// Stack, thread name, state and process: what makes rows one.
type Key = (u32, Name, Name, State, &'static str);

/// Stacks of one source.
#[derive(Default)]
pub(super) struct Stacks {
    weights: BTreeMap<Key, f64>,
    /// Role of each process, by its number within the source.
    roles: BTreeMap<u32, &'static str>,
    too_many: u64,
    folded: String,
}

impl Stacks {
    /// True when nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Adds a stack of a thread of the source's `process`; frames from the innermost outwards.
    pub(super) fn add(
        &mut self,
        (process, thread, state): (u32, &str, State),
        frames: &[Frame<'_>],
        weight: f64,
        builder: &mut Builder<'_>,
    ) {
        let frames = &frames[..frames.len().min(MAX_FRAMES)];
        if let Some(role) = role_of(frames) {
            self.roles.entry(process).or_insert(role);
        }
        let part = if state == State::Idle { IDLE } else { part_of(frames) };
        self.folded.clear();
        for frame in frames.iter().rev() {
            frame.fold(frame.short_file(), &mut self.folded);
        }
        let key = (process, builder.intern(thread), builder.intern(&self.folded), state, part);
        if self.weights.len() >= MAX_STACKS && !self.weights.contains_key(&key) {
            self.too_many += 1;
            return;
        }
        *self.weights.entry(key).or_insert(0.0) += weight;
    }

    /// Writes the rows and the shares.
    pub(super) fn finish(self, builder: &mut Builder<'_>) {
        let mut shares: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
        for (&(process, thread, folded, state, part), &weight) in &self.weights {
            let process_role = self.roles.get(&process).copied().unwrap_or_default();
            let role = match (process_role, builder.capture.text(thread)) {
                (role, "") => role.to_string(),
                ("", thread) => thread.to_string(),
                (role, thread) => format!("{role}/{thread}"),
            };
            let row = Stack {
                t_ns: 0,
                run_idx: builder.context.run_idx,
                role: builder.intern(&role),
                state: builder.intern(state.as_str()),
                folded,
                weight,
                source_idx: builder.source(),
            };
            builder.capture.tables.stacks.push(row);
            *shares.entry(process_role).or_default().entry(part).or_insert(0.0) += weight;
        }
        for (role, parts) in &shares {
            add_shares(role, parts, builder);
        }
        if self.too_many > 0 {
            let sentence = format!("expected at most {MAX_STACKS} different stacks, found more; the rest is left out");
            builder.issue(Severity::Warning, "too_many_stacks", "", self.too_many, sentence);
        }
    }
}

fn add_shares(role: &str, parts: &BTreeMap<&str, f64>, builder: &mut Builder<'_>) {
    let working = shares(role, parts, builder);
    if working < MIN_WORKING {
        let of = if role.is_empty() { String::new() } else { format!(" of `{role}`") };
        let sentence = format!(
            "expected at least {MIN_WORKING} samples at work for shares by part, found {working}{of}; its stacks are kept without shares"
        );
        builder.issue(Severity::Note, "few_stacks", role, 1, sentence);
    }
}

/// Adds the shares of a role's parts, and says how many samples were at work.
fn shares(role: &str, parts: &BTreeMap<&str, f64>, builder: &mut Builder<'_>) -> f64 {
    let total: f64 = parts.values().sum();
    let is_work = |part: &str| part != IDLE && part != SPIN;
    let working: f64 = parts.iter().filter(|(part, _)| is_work(part)).map(|(_, weight)| weight).sum();
    for (part, weight) in parts {
        let labels = labels::canonical(&[("part", part), ("role", role)]);
        if !is_work(part) {
            builder.sample(0, "proc.frame_share", &labels, weight / total);
        } else if working >= MIN_WORKING {
            builder.sample(0, "proc.frame_share", &labels, weight / working);
        }
    }
    working
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(stack: &str) -> &'static str {
        let frames: Vec<Frame<'_>> = stack.split(';').rev().map(Frame::parse).collect();
        part_of(&frames)
    }

    #[test]
    fn the_innermost_known_frame_decides() {
        for (stack, expected) in [
            (
                "EngineCoreProc.run_busy_loop (vllm/v1/engine/core.py:703);_process_input_queue (vllm/v1/engine/core.py:712);Queue.get (queue.py:171);Condition.wait (threading.py:327)",
                IDLE,
            ),
            (
                "step (vllm/v1/engine/core.py:402);schedule (vllm/v1/core/sched/scheduler.py:545);find_longest_cache_hit (vllm/v1/core/kv_cache_coordinator.py:231)",
                "scheduler",
            ),
            ("step (vllm/v1/engine/core.py:402)", "scheduler"),
            (
                "sample_tokens (vllm/v1/worker/gpu_worker.py:745);sample_tokens (vllm/v1/worker/gpu_model_runner.py:4399);forward (vllm/v1/sample/sampler.py:9);topk (torch/_tensor.py:1)",
                "sampling",
            ),
            (
                "sample_tokens (vllm/v1/worker/gpu_model_runner.py:4399);_bookkeeping_sync (vllm/v1/worker/gpu_model_runner.py:3471);_to_list (vllm/v1/worker/gpu_model_runner.py:7112)",
                SPIN,
            ),
            ("execute_model (vllm/v1/worker/gpu_model_runner.py:1);Event.synchronize (torch/cuda/streams.py:231)", SPIN),
            (
                "worker_busy_loop (vllm/v1/executor/multiproc_executor.py:1);dequeue (vllm/distributed/device_communicators/shm_broadcast.py:2);acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:3)",
                SPIN,
            ),
            (
                "event_loop_overlap (sglang/srt/managers/scheduler.py:1);recv_requests (sglang/srt/managers/scheduler.py:2);recv_pyobj (zmq/sugar/socket.py:989)",
                SPIN,
            ),
            (
                "event_loop_overlap (sglang/srt/managers/scheduler.py:1);recv_requests (sglang/srt/managers/scheduler.py:2);recv_pyobj (zmq/sugar/socket.py:989);_deserialize (zmq/sugar/socket.py:850)",
                "ipc",
            ),
            (
                "process_input_sockets (vllm/v1/engine/core.py:900);decode (/opt/x/lib/python3.12/site-packages/vllm/v1/serial_utils.py:3)",
                "ipc",
            ),
            ("generate (vllm/v1/engine/async_llm.py:1);_encode_plus (transformers/tokenization_utils_fast.py:2)", "tokenizer"),
            ("decode (transformers/tokenization_utils_base.py:2);_decode (transformers/tokenization_utils_fast.py:2)", "detokenizer"),
            ("grammar_bitmask (vllm/v1/structured_output/__init__.py:1)", "grammar"),
            ("main (mine.py:1)", OTHER),
            ("forward (notvllm/v1/worker/x.py:1)", OTHER),
        ] {
            assert_eq!(part(stack), expected, "{stack}");
        }
    }

    #[test]
    fn frames_are_taken_apart() {
        let frame = Frame::parse("    <listcomp> (/home/u/app/mine.py:4)");
        assert_eq!((frame.function, frame.short_file(), frame.line), ("<listcomp>", "app/mine.py", "4"));
        assert_eq!(Frame::parse("f (<frozen os>:27)").file, "<frozen os>");
        assert_eq!(Frame::parse("main"), Frame { function: "main", file: "", line: "" });
    }
}
