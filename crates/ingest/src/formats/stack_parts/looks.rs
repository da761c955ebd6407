//! Looks at the threads of running Python processes, as rows of the kind that py-spy's files become.
//!
//! A look is one moment of one thread. What was seen since the last [`ThreadLooks::take`] becomes `stacks` at that time and
//! shares of the interpreter lock per process; what idled is written once a minute, since it says the same every second. At the
//! end stand the figures of the whole: where each role worked, and how long the engine waited for its lock. Memory is bounded:
//! so many different stacks, threads and frames, whatever the processes do. Values of variables never enter; of a path remains
//! what lies within its package, else the last name.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use capture::{Capture, Severity, Stack, labels};

use super::{Frame, IDLE, State, part_of, shares};
use crate::builder::{Builder, Context};
use crate::input::Finished;

/// Different stacks that are held at a time.
const MAX_STACKS: usize = 1024;
/// Frames of a stack, from the innermost outwards.
const MAX_FRAMES: usize = 48;
/// Processes of which shares are kept, also after their end.
const MAX_PROCESSES: usize = 512;
/// Threads by name that hold the lock of one process or wait for it, of which shares are kept.
const MAX_THREADS: usize = 64;
/// Bytes kept of a name.
const MAX_NAME_BYTES: usize = 128;
/// Takes after which what idled is written.
const IDLE_TAKES: u32 = 60;
/// Looks at a process from which its share of the whole recording means anything.
const MIN_LOOKS: u64 = 20;
/// Roles whose lock holds up the engine, the first that is there.
const ENGINE_ROLES: &[&str] = &["engine_core", "api_server", ""];

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// Whether it runs is not known.
    Unknown,
    /// It waits for something other than the interpreter lock.
    Idle,
    /// It runs without the interpreter lock.
    Active,
    /// It waits for the interpreter lock.
    LockWait,
    /// It runs with the interpreter lock.
    Lock,
}

impl ThreadState {
    /// As the table `stacks` has it.
    fn stored(self) -> State {
        match self {
            Self::Unknown => State::Unknown,
            Self::Idle => State::Idle,
            Self::Active | Self::LockWait => State::Active,
            Self::Lock => State::Gil,
        }
    }
}

/// A frame of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadFrame<'a> {
    /// Function with its class.
    pub function: &'a str,
    /// Path of its file.
    pub file: &'a str,
    /// Line, 0 where it is not known.
    pub line: u32,
}

/// Which process is looked at, and what can be known of it.
#[derive(Clone, Copy, Debug)]
pub struct LookedAt<'a> {
    /// Its id.
    pub process: u32,
    /// Its role, as other host evidence calls it.
    pub role: &'a str,
    /// Whether who holds the interpreter lock can be told.
    pub tells_holder: bool,
    /// Whether who waits for the interpreter lock can be told.
    pub tells_waits: bool,
}

/// How often the threads of one name had the lock or waited for it.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    held: u64,
    waited: u64,
    waited_in_all: u64,
}

#[derive(Debug, Default)]
struct Process {
    role: String,
    tells_holder: bool,
    tells_waits: bool,
    looks: u64,
    looks_in_all: u64,
    threads: BTreeMap<String, Counted>,
}

#[derive(Debug)]
struct Held {
    role: String,
    thread: String,
    state: ThreadState,
    folded: String,
    part: &'static str,
    weight: f64,
}

/// See the module.
#[derive(Debug)]
pub struct ThreadLooks {
    name: String,
    stacks: HashMap<u64, Held>,
    processes: BTreeMap<u32, Process>,
    /// Looks of the whole, by role and part.
    parts: BTreeMap<String, BTreeMap<&'static str, f64>>,
    left_out: u64,
    takes: u32,
}

impl ThreadLooks {
    /// Nothing seen yet; `name` is that of the source.
    pub fn new(name: &str) -> Self {
        let (stacks, processes, parts) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { name: name.to_string(), stacks, processes, parts, left_out: 0, takes: 0 }
    }

    /// Counts a look at a process, before its threads.
    pub fn look(&mut self, at: &LookedAt<'_>) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&at.process) {
            return;
        }
        let process = self.processes.entry(at.process).or_default();
        at.role.clone_into(&mut process.role);
        (process.tells_holder, process.tells_waits) = (at.tells_holder, at.tells_waits);
        process.looks += 1;
        process.looks_in_all += 1;
    }

    /// Adds a thread that was seen in the look; frames from the innermost outwards. One without frames runs no Python.
    pub fn thread<'f>(&mut self, at: &LookedAt<'_>, name: &str, state: ThreadState, frames: impl Iterator<Item = ThreadFrame<'f>> + Clone) {
        let name = cut(name);
        self.count(at.process, name, state);
        let frames = frames.take(MAX_FRAMES);
        let mut hasher = DefaultHasher::new();
        (at.process, name, state).hash(&mut hasher);
        frames.clone().for_each(|frame| frame.hash(&mut hasher));
        let key = hasher.finish();
        if let Some(held) = self.stacks.get_mut(&key) {
            held.weight += 1.0;
        } else if self.stacks.len() >= MAX_STACKS {
            self.left_out += 1;
        } else if let Some(held) = Held::new(at.role, name, state, frames) {
            self.stacks.insert(key, held);
        }
    }

    fn count(&mut self, process: u32, name: &str, state: ThreadState) {
        let (is_lock, is_wait) = (state == ThreadState::Lock, state == ThreadState::LockWait);
        let Some(process) = self.processes.get_mut(&process).filter(|_| is_lock || is_wait) else { return };
        if !process.threads.contains_key(name) {
            if process.threads.len() >= MAX_THREADS {
                return;
            }
            process.threads.insert(name.to_string(), Counted::default());
        }
        let Some(counted) = process.threads.get_mut(name) else { return };
        counted.held += u64::from(is_lock);
        counted.waited += u64::from(is_wait);
        counted.waited_in_all += u64::from(is_wait);
    }

    /// Looks since the beginning, all processes together.
    pub fn look_count(&self) -> u64 {
        self.processes.values().map(|process| process.looks_in_all).sum()
    }

    /// Bytes of text that the next take will hand over, about.
    pub fn byte_count(&self) -> usize {
        self.stacks.values().map(|held| held.folded.len() + held.thread.len() + size_of::<Held>()).sum()
    }

    /// Rows of what was seen since the last take, at `t_ns`.
    pub fn take(&mut self, t_ns: i64) -> Capture {
        self.takes += 1;
        let takes_idle = self.takes.is_multiple_of(IDLE_TAKES);
        self.rows(t_ns, takes_idle)
    }

    /// Rows that are left, and the figures of the whole.
    pub fn finish(mut self, t_ns: i64) -> Capture {
        let mut capture = self.rows(t_ns, true);
        let context = Context::default();
        let mut builder = self.builder(&context);
        for (role, parts) in &self.parts {
            shares(role, parts, &mut builder);
        }
        if let Some(wait) = self.engine_wait() {
            builder.sample(0, "proc.gil_wait", "", wait);
        }
        capture.merge(crate::read::conclude(vec![builder.finish(&Finished::default())]));
        capture
    }

    fn builder<'c>(&self, context: &'c Context) -> Builder<'c> {
        Builder::new(&self.name, super::super::pyspy_dump::FORMAT.id, context)
    }

    fn rows(&mut self, t_ns: i64, takes_idle: bool) -> Capture {
        let context = Context::default();
        let mut builder = self.builder(&context);
        let is_taken = |held: &Held| takes_idle || held.state != ThreadState::Idle;
        for (_, held) in self.stacks.extract_if(|_, held| is_taken(held)) {
            let role = if held.thread.is_empty() { held.role.clone() } else { format!("{}/{}", held.role, held.thread) };
            let row = Stack {
                t_ns,
                run_idx: context.run_idx,
                role: builder.intern(&role),
                state: builder.intern(held.state.stored().as_str()),
                folded: builder.intern(&held.folded),
                weight: held.weight,
                source_idx: builder.source(),
            };
            builder.capture.tables.stacks.push(row);
            *self.parts.entry(held.role).or_default().entry(held.part).or_insert(0.0) += held.weight;
        }
        for (id, process) in self.processes.iter_mut().filter(|(_, process)| process.looks > 0) {
            process.gauges(t_ns, *id, &mut builder);
        }
        if self.left_out > 0 {
            let sentence = format!("expected at most {MAX_STACKS} different stacks at a time, found more; the rest is left out");
            builder.issue(Severity::Note, "too_many_stacks", "", std::mem::take(&mut self.left_out), sentence);
        }
        crate::read::conclude(vec![builder.finish(&Finished::default())])
    }

    /// Share of time for which the engine's process waits for its lock: of the thread that waits most, in the worst process.
    fn engine_wait(&self) -> Option<f64> {
        let known = || self.processes.values().filter(|process| process.tells_waits && process.looks_in_all >= MIN_LOOKS);
        let base = |process: &Process| process.role.split('-').next().unwrap_or_default().to_string();
        let role = ENGINE_ROLES.iter().find(|role| known().any(|process| base(process) == **role))?;
        let most = |process: &Process| process.threads.values().map(|counted| counted.waited_in_all).max().unwrap_or(0);
        let shares = known().filter(|process| base(process) == *role);
        shares.map(|process| most(process) as f64 / process.looks_in_all as f64).reduce(f64::max)
    }
}

impl Process {
    /// Shares of the looks since the last take; a thread that ever had the lock is told of in each.
    fn gauges(&mut self, t_ns: i64, id: u32, builder: &mut Builder<'_>) {
        let looks = std::mem::take(&mut self.looks) as f64;
        let id = id.to_string();
        let mut most = 0;
        for (thread, counted) in &mut self.threads {
            most = most.max(std::mem::take(&mut counted.waited));
            let held = std::mem::take(&mut counted.held);
            if self.tells_holder {
                let labels = labels::canonical(&[("role", &self.role), ("process", &id), ("thread", thread)]);
                builder.sample(t_ns, "proc.gil_held", &labels, (held as f64 / looks).min(1.0));
            }
        }
        if self.tells_waits {
            let labels = labels::canonical(&[("role", &self.role), ("process", &id)]);
            builder.sample(t_ns, "proc.gil_wait", &labels, (most as f64 / looks).min(1.0));
        }
    }
}

impl Held {
    fn new<'f>(role: &str, thread: &str, state: ThreadState, frames: impl Iterator<Item = ThreadFrame<'f>>) -> Option<Self> {
        let frames: Vec<(ThreadFrame<'f>, String)> =
            frames.map(|frame| (frame, if frame.line > 0 { frame.line.to_string() } else { String::new() })).collect();
        let as_read: Vec<Frame<'_>> =
            frames.iter().map(|(frame, line)| Frame { function: cut(frame.function), file: frame.file, line }).collect();
        if as_read.is_empty() {
            return None;
        }
        let part = if state == ThreadState::Idle { IDLE } else { part_of(&as_read) };
        let mut folded = String::new();
        for frame in as_read.iter().rev() {
            frame.fold(cut(frame.own_file()), &mut folded);
        }
        Some(Self { role: role.to_string(), thread: thread.to_string(), state, folded, part, weight: 1.0 })
    }
}

/// A name without what is beyond its limit, and without what separates frames.
fn cut(name: &str) -> &str {
    let end = name.find([';', '\n']).unwrap_or(name.len()).min(MAX_NAME_BYTES);
    &name[..(0..=end).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The rows of a capture, one a line.
    fn check(capture: &Capture, expected: &Expect) {
        let stacks = capture.tables.stacks.rows().map(|row| {
            format!("{} {} [{}] {} x{}\n", row.t_ns, capture.text(row.role), capture.text(row.state), capture.text(row.folded), row.weight)
        });
        let samples = capture.tables.samples.rows();
        let samples =
            samples.map(|row| format!("{} {}{{{}}} {}\n", row.t_ns, capture.text(row.signal), capture.text(row.labels), row.value));
        let issues = capture.tables.issues.rows().map(|row| format!("{} x{}\n", capture.text(row.code), row.count));
        expected.assert_eq(&stacks.chain(samples).chain(issues).collect::<String>());
    }

    const ENGINE: LookedAt<'_> = LookedAt { process: 7, role: "engine_core", tells_holder: true, tells_waits: true };

    fn frame(function: &'static str, file: &'static str, line: u32) -> ThreadFrame<'static> {
        ThreadFrame { function, file, line }
    }

    fn seen(looks: &mut ThreadLooks, thread: &str, state: ThreadState, frames: &[ThreadFrame<'_>]) {
        looks.thread(&ENGINE, thread, state, frames.iter().copied());
    }

    #[test]
    fn a_second_becomes_stacks_and_shares_and_the_whole_figures() {
        let step = [
            frame("Scheduler.schedule", "/opt/venv/lib/python3.12/site-packages/vllm/v1/core/sched/scheduler.py", 545),
            frame("EngineCore.step", "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", 402),
            frame("main", "/home/someone/serve.py", 0),
        ];
        let wait = [frame("wait", "/usr/lib/python3.12/threading.py", 327)];
        let mut looks = ThreadLooks::new("python threads");
        for at in 0..20 {
            looks.look(&ENGINE);
            let (first, second) =
                if at < 15 { (ThreadState::Lock, ThreadState::LockWait) } else { (ThreadState::Active, ThreadState::Lock) };
            seen(&mut looks, "MainThread", first, &step);
            seen(&mut looks, "output", second, &step[1..]);
            seen(&mut looks, "idler", ThreadState::Idle, &wait);
        }
        check(
            &looks.take(1_000),
            &expect![[r#"
            1000 engine_core/MainThread [active] main (serve.py);EngineCore.step (vllm/v1/engine/core.py:402);Scheduler.schedule (vllm/v1/core/sched/scheduler.py:545) x5
            1000 engine_core/MainThread [gil] main (serve.py);EngineCore.step (vllm/v1/engine/core.py:402);Scheduler.schedule (vllm/v1/core/sched/scheduler.py:545) x15
            1000 engine_core/output [active] main (serve.py);EngineCore.step (vllm/v1/engine/core.py:402) x15
            1000 engine_core/output [gil] main (serve.py);EngineCore.step (vllm/v1/engine/core.py:402) x5
            1000 proc.gil_held{process="7",role="engine_core",thread="MainThread"} 0.75
            1000 proc.gil_held{process="7",role="engine_core",thread="output"} 0.25
            1000 proc.gil_wait{process="7",role="engine_core"} 0.75
        "#]],
        );
        check(
            &looks.finish(2_000),
            &expect![[r#"
            2000 engine_core/idler [idle] wait (threading.py:327) x20
            0 proc.frame_share{part="idle",role="engine_core"} 0.3333333333333333
            0 proc.frame_share{part="scheduler",role="engine_core"} 1
            0 proc.gil_wait{} 0.75
        "#]],
        );
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let at = LookedAt { tells_holder: false, tells_waits: false, ..ENGINE };
        let mut looks = ThreadLooks::new("python threads");
        for _ in 0..30 {
            looks.look(&at);
            looks.thread(&at, "", ThreadState::Unknown, [frame("f", "x.py", 1)].into_iter());
            looks.thread(&at, "native", ThreadState::Active, std::iter::empty());
        }
        check(
            &looks.finish(1_000),
            &expect![[r#"
            1000 engine_core [] f (x.py:1) x30
            0 proc.frame_share{part="other",role="engine_core"} 1
        "#]],
        );
    }

    #[test]
    fn stacks_beyond_the_limit_are_counted() {
        let mut looks = ThreadLooks::new("python threads");
        looks.look(&ENGINE);
        for line in 1..=MAX_STACKS as u32 + 5 {
            looks.thread(&ENGINE, "MainThread", ThreadState::Active, [frame("f", "x.py", line)].into_iter());
        }
        let capture = looks.take(1_000);
        assert_eq!(capture.tables.stacks.weight.len(), MAX_STACKS);
        assert_eq!(capture.tables.issues.count, [5]);
        assert!(looks.byte_count() == 0 && looks.take(2_000).tables.stacks.weight.is_empty());
    }
}
