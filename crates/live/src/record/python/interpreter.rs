//! One Python process, looked at from outside: whether it is one, its threads, and who waits for the interpreter lock.
//!
//! A thread that waits for the lock sleeps in the kernel like one that idles. What tells it apart is the address it sleeps at
//! (`/proc/PID/task/TID/syscall`, proc(5)): the lock lies in the interpreter's own static memory, other locks do not.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::path::Path;

use ingest::{LookedAt, ThreadFrame, ThreadLooks, ThreadState};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};

/// Bytes read of a process's memory map; one with a GPU has thousands of lines.
const MAX_MAP_BYTES: u64 = 8 << 20;
/// Ranges of static memory that are kept.
const MAX_RANGES: usize = 16;
/// The call with which a thread sleeps at an address.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };

/// Why a process is not looked at.
#[derive(Debug)]
pub(super) enum OpenError {
    /// It runs no Python, or is not there any more.
    NoPython,
    /// Its memory may not be read.
    NotAllowed,
    /// Its interpreter is of a kind that cannot be read.
    Unread {
        /// What was found instead.
        reason: String,
    },
}

/// Why a look failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookError {
    /// What was read changed meanwhile, or the process ended.
    Moved,
    /// Its memory may not be read any more.
    NotAllowed,
}

/// See the module.
pub(super) struct Interpreter {
    pid: u32,
    spy: PythonSpy,
    /// Static memory of the interpreter.
    statics: Vec<(u64, u64)>,
    /// Threads have the same ids for it as for us, and it tells them.
    knows_threads: bool,
    tells_waits: bool,
    limit: Option<&'static str>,
}

impl Interpreter {
    /// Opens a process, which takes some tens of milliseconds.
    pub(super) fn open(pid: u32) -> Result<Self, OpenError> {
        let folder = format!("/proc/{pid}");
        let statics = match statics(&folder) {
            Ok(statics) if statics.is_empty() => return Err(OpenError::NoPython),
            Ok(statics) => statics,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(OpenError::NotAllowed),
            Err(_) => return Err(OpenError::NoPython),
        };
        // The same right as reading the memory of its threads, asked for without reading any.
        if fs::File::open(format!("{folder}/mem")).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            return Err(OpenError::NotAllowed);
        }
        let config = Config { blocking: LockingStrategy::NonBlocking, full_filenames: true, ..Config::default() };
        let spy = PythonSpy::new(pid.cast_signed(), &config).map_err(|error| {
            if is_refusal(error.chain()) {
                return OpenError::NotAllowed;
            }
            let found = error.to_string().lines().next().unwrap_or_default().chars().take(200).collect::<String>();
            OpenError::Unread { reason: format!("expected an interpreter that py-spy can read (CPython 3.3 to 3.14), found: {found}") }
        })?;
        let is_new = (spy.version.major, spy.version.minor) >= (3, 11);
        let is_beside_us = has_one_namespace(&folder);
        let knows_threads = is_new && is_beside_us;
        let tells_waits = knows_threads && cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && sleeps_at(pid, pid).is_ok();
        let limit = match (spy.addresses.threadstate_address, is_new, is_beside_us, tells_waits) {
            (0, ..) => Some("its Python does not show who holds the interpreter lock: only where threads stand is recorded"),
            (_, false, ..) => Some("its Python is older than 3.11: who waits for the interpreter lock is not recorded, only who holds it"),
            (_, _, false, _) => Some(
                "it runs in a container: who waits for the interpreter lock is not recorded, only who holds it; run this inside to know",
            ),
            (.., false) => Some("this kernel does not tell where threads sleep: who waits for the interpreter lock is not recorded"),
            _ => None,
        };
        Ok(Self { pid, spy, statics, knows_threads, tells_waits, limit })
    }

    /// What cannot be told of this process, as the end of a sentence.
    pub(super) fn limit(&self) -> Option<&'static str> {
        self.limit
    }

    /// Looks at all threads once.
    pub(super) fn look(&mut self, role: &str, looks: &mut ThreadLooks) -> Result<(), LookError> {
        let traces = self
            .spy
            .get_stack_traces()
            .map_err(|error| if is_refusal(error.chain()) { LookError::NotAllowed } else { LookError::Moved })?;
        let tells_holder = self.spy.addresses.threadstate_address != 0;
        let at = LookedAt { process: self.pid, role, tells_holder, tells_waits: self.tells_waits && tells_holder };
        looks.look(&at);
        for trace in &traces {
            let frames = trace.frames.iter().map(|frame| ThreadFrame {
                function: &frame.name,
                file: &frame.filename,
                line: u32::try_from(frame.line).unwrap_or(0),
            });
            looks.thread(&at, trace.thread_name.as_deref().unwrap_or_default(), self.state(trace, at.tells_waits), frames);
        }
        Ok(())
    }

    fn state(&self, trace: &StackTrace, tells_waits: bool) -> ThreadState {
        let waits = || {
            let thread = trace.os_thread_id.and_then(|id| u32::try_from(id).ok())?;
            let address = sleeps_at(self.pid, thread).ok()??;
            self.statics.iter().any(|(from, to)| (*from..*to).contains(&address)).then_some(())
        };
        match (trace.active, trace.owns_gil) {
            (true, true) => ThreadState::Lock,
            (true, false) if self.knows_threads => ThreadState::Active,
            (true, false) => ThreadState::Unknown,
            (false, false) if tells_waits && waits().is_some() => ThreadState::LockWait,
            (false, _) => ThreadState::Idle,
        }
    }
}

fn is_refusal<'e>(chain: impl Iterator<Item = &'e (dyn std::error::Error + 'static)>) -> bool {
    chain.filter_map(|error| error.downcast_ref::<std::io::Error>()).any(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The address at which a thread sleeps, where it does; an error where the kernel does not tell.
fn sleeps_at(pid: u32, thread: u32) -> std::io::Result<Option<u64>> {
    let mut buffer = [0; 128];
    let count = fs::File::open(format!("/proc/{pid}/task/{thread}/syscall"))?.read(&mut buffer)?;
    let text = std::str::from_utf8(&buffer[..count]).unwrap_or_default();
    let address = text.strip_prefix(FUTEX).and_then(|rest| rest.strip_prefix(" 0x")).and_then(|rest| rest.split(' ').next());
    Ok(address.and_then(|address| u64::from_str_radix(address, 16).ok()))
}

/// True where the process has no numbers of its own for its threads, as it has in a container.
fn has_one_namespace(folder: &str) -> bool {
    let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("NSpid:")).is_some_and(|ids| ids.split_ascii_whitespace().count() == 1)
}

/// Writable memory of the interpreter's program or library, with what follows it without a file; empty where it is no Python.
fn statics(folder: &str) -> std::io::Result<Vec<(u64, u64)>> {
    let program = fs::read_link(format!("{folder}/exe"))?;
    let maps = BufReader::new(fs::File::open(format!("{folder}/maps"))?.take(MAX_MAP_BYTES));
    let mut found = Vec::new();
    let mut end = 0;
    let mut lines = maps.lines();
    while let Some(line) = lines.next().transpose()? {
        let Some((range, is_writable, path)) = mapping(&line) else { continue };
        let is_own = is_interpreter(path) && (is_library(path) || Path::new(path) == program);
        let follows = path.is_empty() && range.0 == end;
        if (is_own || follows) && is_writable && found.len() < MAX_RANGES {
            found.push(range);
            end = range.1;
        } else if is_own {
            end = range.1;
        }
    }
    Ok(found)
}

/// Range, right to write and path of a line of a memory map.
fn mapping(line: &str) -> Option<((u64, u64), bool, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let path = rest.splitn(5, ' ').nth(4)?.trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(((number(from)?, number(to)?), rest.as_bytes().get(1) == Some(&b'w'), path.trim_end_matches(" (deleted)")))
}

fn is_library(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("libpython"))
}

fn is_interpreter(path: &str) -> bool {
    is_library(path) || path.rsplit('/').next().is_some_and(|name| name.starts_with("python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_taken_apart() {
        let line = "7ff080b00000-7ff080b4f000 rw-p 005a1000 fe:00 18500                      /opt/py/lib/libpython3.11.so.1.0";
        assert_eq!(mapping(line), Some(((0x7ff0_80b0_0000, 0x7ff0_80b4_f000), true, "/opt/py/lib/libpython3.11.so.1.0")));
        assert_eq!(mapping("7ff080b4f000-7ff080b50000 rw-p 00000000 00:00 0 "), Some(((0x7ff0_80b4_f000, 0x7ff0_80b5_0000), true, "")));
        assert_eq!(mapping("1-2 r--p 0 00:00 0 [heap]"), Some(((1, 2), false, "[heap]")));
        assert!(mapping("").is_none() && mapping("x-y rw-p 0 0:0 0").is_none());
        assert!(is_interpreter("/usr/bin/python3.12") && is_interpreter("/x/libpython3.12.so") && !is_interpreter("/usr/lib/libtorch.so"));
    }

    #[test]
    fn a_program_without_python_is_left_alone() {
        assert!(matches!(Interpreter::open(std::process::id()), Err(OpenError::NoPython)));
        assert!(matches!(Interpreter::open(u32::MAX >> 1), Err(OpenError::NoPython)));
    }
}
