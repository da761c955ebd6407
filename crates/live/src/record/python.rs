//! Where the threads of the engine's Python processes stand, and who holds the interpreter lock, 20 times a second.
//!
//! Memory is read from outside with `py-spy`, without pausing anything: a look that meets a stack while it changes fails or
//! shows a part of it, which matters little in a sum. A thread of its own looks, and rests 19 times the CPU time that looking took,
//! so that it needs a twentieth of a core at most; with many threads it looks less often. Of what it may not or cannot look at it
//! says so once, with what would allow it. Values of variables are never read.

mod interpreter;
mod permission;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ingest::ThreadLooks;

use self::interpreter::{Interpreter, LookError, OpenError};
use super::outbox::{Outbox, Piece};
use super::processes::{self, Processes};
use crate::window::host_time_ns;

/// Source name of what is seen.
const SOURCE: &str = "python threads";
/// Time between two looks, where they are quick.
const PERIOD: Duration = Duration::from_millis(50);
/// Rest after a look, in times of the CPU time it took.
const REST: u32 = 19;
/// Time between two takes of what was seen.
const TAKE: Duration = Duration::from_secs(1);
/// Time between two searches for processes.
const SEARCH: Duration = Duration::from_secs(5);
/// Searches in which a process is tried: one that just starts has no interpreter yet.
const TRIES: u32 = 3;
/// Failed looks in a row after which a process is opened anew.
const MAX_FAILED: u32 = 40;
/// Longest sleep without looking for the end.
const NAP: Duration = Duration::from_millis(50);

/// One process and how far we are with it.
enum Watched {
    /// Not opened yet, after so many tries.
    New { tries: u32 },
    /// Looked at.
    Open { interpreter: Box<Interpreter>, failed: u32 },
    /// No Python, or what it is was told.
    Left,
}

/// Looks until `over`.
pub(super) fn sample(wanted: &Processes, over: &AtomicBool, outbox: &Outbox) {
    let mut sampler = Sampler { watched: BTreeMap::new(), looks: ThreadLooks::new(SOURCE), told: Vec::new(), outbox };
    let (mut searched, mut taken): (Option<Instant>, _) = (None, Instant::now());
    let mut due = Instant::now();
    let mut pace = Pace::default();
    while !over.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            std::thread::sleep(NAP.min(due - now));
            continue;
        }
        if searched.is_none_or(|searched| now - searched >= SEARCH) {
            searched = Some(now);
            sampler.search(wanted, over);
        }
        let (began, cpu_before) = (Instant::now(), cpu());
        sampler.look();
        let cpu_took = cpu().saturating_sub(cpu_before);
        if now - taken >= TAKE {
            taken = now;
            let (byte_count, look_count) = (sampler.looks.byte_count(), sampler.looks.look_count());
            let capture = Box::new(sampler.looks.take(host_time_ns()));
            outbox.put(Piece::Threads { capture, byte_count, look_count });
        }
        due = began + pace.next(cpu_took);
    }
    let (byte_count, look_count) = (sampler.looks.byte_count(), sampler.looks.look_count());
    outbox.put(Piece::Threads { capture: Box::new(sampler.looks.finish(host_time_ns())), byte_count, look_count });
}

/// CPU time of this thread.
fn cpu() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// When to look next. Times vary by a quarter, so that looks fall into no step with what repeats in the engine.
#[derive(Default)]
struct Pace {
    state: u32,
}

impl Pace {
    fn next(&mut self, took: Duration) -> Duration {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let varied = PERIOD * 3 / 4 + PERIOD * (self.state >> 16) / 2 / 65_536;
        varied.max(took * (REST + 1))
    }
}

struct Sampler<'a> {
    watched: BTreeMap<u32, (String, Watched)>,
    looks: ThreadLooks,
    /// Sentences that were told.
    told: Vec<String>,
    outbox: &'a Outbox,
}

impl Sampler<'_> {
    /// Finds who is there now; each is opened by a look of its own.
    fn search(&mut self, wanted: &Processes, over: &AtomicBool) {
        let members = processes::find(wanted);
        let gone: Vec<u32> = self.watched.keys().copied().filter(|pid| members.iter().all(|member| member.pid != *pid)).collect();
        for pid in gone {
            if let Some((role, Watched::Open { .. })) = self.watched.remove(&pid) {
                let sentence = format!("`{role}`: a process ended; its Python threads were recorded until then");
                tell(&mut self.told, self.outbox, sentence);
            }
        }
        for member in members {
            self.watched.entry(member.pid).or_insert((member.role, Watched::New { tries: 0 }));
        }
        for (pid, (role, watched)) in &mut self.watched {
            let Watched::New { tries } = watched else { continue };
            if over.load(Ordering::Relaxed) {
                return;
            }
            *tries += 1;
            let is_last = *tries >= TRIES;
            let refused = match Interpreter::open(*pid) {
                Ok(interpreter) => {
                    if let Some(limit) = interpreter.limit() {
                        tell(&mut self.told, self.outbox, format!("`{role}`: {limit}"));
                    }
                    *watched = Watched::Open { interpreter: Box::new(interpreter), failed: 0 };
                    continue;
                }
                Err(OpenError::NoPython | OpenError::Unread { .. }) if !is_last => continue,
                Err(OpenError::NoPython) => None,
                Err(OpenError::NotAllowed) => Some(permission::remedy(*pid)),
                Err(OpenError::Unread { reason }) => Some(reason),
            };
            *watched = Watched::Left;
            if let Some(why) = refused {
                tell(&mut self.told, self.outbox, left_out(role, &why));
            }
        }
    }

    /// One look at each process.
    fn look(&mut self) {
        for (pid, (role, watched)) in &mut self.watched {
            let Watched::Open { interpreter, failed } = watched else { continue };
            match interpreter.look(role, &mut self.looks) {
                Ok(()) => *failed = 0,
                Err(LookError::Moved) if *failed < MAX_FAILED => *failed += 1,
                Err(LookError::Moved) => *watched = Watched::New { tries: 0 },
                Err(LookError::NotAllowed) => {
                    *watched = Watched::Left;
                    tell(&mut self.told, self.outbox, left_out(role, &permission::remedy(*pid)));
                }
            }
        }
    }
}

fn left_out(role: &str, why: &str) -> String {
    format!("`{role}`: Python threads are not recorded: {why}")
}

/// Tells each sentence once, and of few.
fn tell(told: &mut Vec<String>, outbox: &Outbox, sentence: String) {
    const MAX_TOLD: usize = 64;
    if told.len() < MAX_TOLD && !told.contains(&sentence) {
        told.push(sentence.clone());
        outbox.put(Piece::Told { code: "python_threads", sentence });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_twenty_times_a_second_and_rest_longer_when_they_are_slow() {
        let mut pace = Pace::default();
        let quick: Vec<Duration> = (0..1000).map(|_| pace.next(Duration::from_millis(1))).collect();
        let mean = quick.iter().sum::<Duration>() / 1000;
        assert!((49..=51).contains(&mean.as_millis()), "{mean:?}");
        assert!(quick.iter().all(|next| (37..=63).contains(&next.as_millis())), "{quick:?}");
        assert_eq!(pace.next(Duration::from_millis(30)), Duration::from_millis(600));
    }
}
