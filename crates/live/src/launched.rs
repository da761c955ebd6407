//! A server that this program started itself: as a process group of its own, waited for until it answers, ended as a whole.
//!
//! No shell is in between: words are the program and its arguments. Output and errors go to one log file. Whoever holds a
//! [`Launched`] ends the server by dropping it; [`end_now`] is for a second Ctrl-C, after which nothing is dropped. Where this
//! program is killed and nothing of it can run, a guard beside it ends the server; a system without `sh` has none.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::address::Address;
use crate::authorization::Authorization;
use crate::fetch::Fetch;
use crate::window::runtime;

/// Between two looks.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Longest wait for one answer while it starts.
const ANSWER: Duration = Duration::from_secs(5);
/// Time that a server has to end by itself: engines free their devices meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time that processes have which its first process left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(5);
/// Bytes of the log's end that are looked at for an error.
const TAIL_BYTES: u64 = 16 << 10;

/// The guard leads the process group that the server is started in, so that there is no moment without it. Told the server's
/// id, and then that it ended, it goes; where its input ends before, so has this program: it asks the group to end, and makes
/// it when the server has ended, or after half a minute.
const GUARD: &str = "trap '' TERM INT HUP
read -r server && read -r ended && exit
kill -s TERM 0
for second in $(seq 30); do kill -s 0 \"$server\" || break; sleep 1; done
sleep 5
kill -s KILL 0";

/// Process group of the server that runs; 0 for none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Environment variables that are set for it.
    pub environment: Vec<(String, String)>,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Where its output goes; an existing file is replaced.
    pub log: PathBuf,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No program was named.
    #[error("expected a command that starts a server, found none")]
    Nothing,
    /// Somebody else is there already.
    #[error("something answers at `{0}` already; end it first, or what it does would be measured")]
    Taken(Address),
    /// The log cannot be written.
    #[error("could not write the server's log `{}`", .path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The program does not start.
    #[error("could not start `{program}`")]
    Start {
        /// Name as given.
        program: String,
        /// Cause.
        source: io::Error,
    },
    /// It ended.
    #[error("the server ended with {status} before it answered")]
    Died {
        /// How.
        status: ExitStatus,
    },
    /// It runs and does not answer.
    #[error("the server did not answer at `{address}` within {} s: {last}", .within.as_secs())]
    Silent {
        /// Where it was asked.
        address: Address,
        /// How long it was waited for.
        within: Duration,
        /// What the last question met.
        last: String,
    },
    /// The user stopped it.
    #[error("stopped before the server answered")]
    Stopped,
    /// The runtime could not be built.
    #[error("could not set up network I/O")]
    Runtime(#[source] io::Error),
}

/// A server that runs.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    guard: Guard,
    /// Its process group.
    group: i32,
    log: PathBuf,
}

impl Launched {
    /// Starts the server. `at` is where it will answer; nobody may answer there now.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub fn start(launch: &Launch, at: &Address) -> Result<Self, LaunchError> {
        let (program, arguments) = launch.words.split_first().ok_or(LaunchError::Nothing)?;
        if is_taken(at) {
            return Err(LaunchError::Taken(at.clone()));
        }
        let failed = |source| LaunchError::Log { path: launch.log.clone(), source };
        let log = File::create(&launch.log).map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(launch.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut guard = Guard::start();
        let group = guard.0.as_ref().map_or(0, Child::id).cast_signed();
        command.process_group(group);
        let child = command.spawn().map_err(|source| LaunchError::Start { program: program.clone(), source })?;
        guard.tell(&child.id().to_string());
        let group = if group == 0 { child.id().cast_signed() } else { group };
        GROUP.store(group, Ordering::Relaxed);
        Ok(Self { guard, child, group, log: launch.log.clone() })
    }

    /// Id of its first process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it answers: `/health` with success, or, where there is no such page, `/v1/models`.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub fn wait_ready(
        &mut self,
        at: &Address,
        authorization: Option<&Authorization>,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<(), LaunchError> {
        let runtime = runtime().map_err(LaunchError::Runtime)?;
        let started = Instant::now();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(LaunchError::Stopped);
            }
            if let Some(status) = self.ended() {
                return Err(LaunchError::Died { status });
            }
            let last = match runtime.block_on(ask(at, authorization)) {
                Ok(()) => return Ok(()),
                Err(last) => last,
            };
            if started.elapsed() >= within {
                return Err(LaunchError::Silent { address: at.clone(), within, last });
            }
            std::thread::sleep(LOOK_UP);
        }
    }

    /// The last lines of its log, at most `count`.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        last_lines(&self.log, count).unwrap_or_default()
    }

    /// Ends it and its process group: asked first, made to after half a minute.
    pub fn end(mut self) {
        self.end_group();
    }

    fn end_group(&mut self) {
        let Some(group) = Pid::from_raw(self.group) else { return };
        if GROUP.load(Ordering::Relaxed) != group.as_raw_pid() {
            return; // ended already
        }
        // Who is gone already needs no signal.
        let _ = kill_process_group(group, Signal::TERM);
        let asked = Instant::now();
        while self.ended().is_none() && asked.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_UP);
        }
        if self.ended().is_some() {
            self.guard.dismiss();
        }
        let left = Instant::now();
        while test_kill_process_group(group).is_ok() && left.elapsed() < LEFT_BEHIND && self.ended().is_some() {
            std::thread::sleep(LOOK_UP);
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        GROUP.store(0, Ordering::Relaxed);
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.end_group();
    }
}

/// Asks the server that runs to end; whoever holds it still waits for that. False where none runs.
pub fn ask_to_end() -> bool {
    let group = Pid::from_raw(GROUP.load(Ordering::Relaxed));
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::TERM);
    }
    group.is_some()
}

/// Ends the server that runs, if one does, at once.
pub fn end_now() {
    if let Some(group) = Pid::from_raw(GROUP.swap(0, Ordering::Relaxed)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The process of [`GUARD`]; none where there is no `sh`.
#[derive(Debug)]
struct Guard(Option<Child>);

impl Guard {
    /// Starts it, in a group of its own: Ctrl-C is not for it. The end of its input that is held here is closed in whatever
    /// else this program starts.
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD]).process_group(0);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok())
    }

    fn tell(&mut self, line: &str) {
        if let Some(input) = self.0.as_mut().and_then(|guard| guard.stdin.as_mut()) {
            let _ = writeln!(input, "{line}"); // a guard that was killed guards nothing
        }
    }

    /// Lets it go: nothing is left to guard.
    fn dismiss(&mut self) {
        self.tell("none\nended");
        if let Some(mut guard) = self.0.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// Whether somebody listens at the address.
fn is_taken(at: &Address) -> bool {
    let places = (at.host(), at.port()).to_socket_addrs();
    places.is_ok_and(|mut places| places.any(|place| TcpStream::connect_timeout(&place, ANSWER).is_ok()))
}

/// Whether the server answers; what else was met, as a sentence.
async fn ask(at: &Address, authorization: Option<&Authorization>) -> Result<(), String> {
    let fetch = |path: &str| Fetch {
        connect_timeout: ANSWER,
        total_timeout: ANSWER,
        authorization: authorization.cloned(),
        ..Fetch::new(at.at(path))
    };
    let health = fetch("/health").get_any().await.map_err(|error| told(&error))?.0;
    if health.is_success() {
        return Ok(());
    }
    if health.is_server_error() {
        return Err(format!("`/health` said {health}"));
    }
    let models = fetch("/v1/models").get_any().await.map_err(|error| told(&error))?.0;
    // Who is asked for a token is answered by a server that is there.
    if models.is_success() || matches!(models.as_u16(), 401 | 403) { Ok(()) } else { Err(format!("`/v1/models` said {models}")) }
}

fn told(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn last_lines(path: &Path, count: usize) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(count)..].iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(folder: &Path, script: &str) -> Launch {
        Launch {
            environment: vec![("SAID".into(), "hello".into())],
            words: vec!["sh".into(), "-c".into(), script.into()],
            log: folder.join("server.log"),
        }
    }

    fn nowhere() -> Address {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        Address::base(&format!("http://127.0.0.1:{port}")).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("inferoscope-launched-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// One test, as only one server runs at a time.
    #[test]
    fn a_server_is_told_dead_silent_or_taken_and_leaves_nobody_behind() {
        let (folder, stop, short) = (folder("ends"), AtomicBool::new(false), Duration::from_millis(300));
        let mut dies = Launched::start(&launch(&folder, "echo $SAID; echo no such model >&2; exit 3"), &nowhere()).unwrap();
        let error = dies.wait_ready(&nowhere(), None, Duration::from_secs(20), &stop).unwrap_err();
        assert!(matches!(error, LaunchError::Died { status } if status.code() == Some(3)), "{error}");
        assert_eq!(dies.last_lines(2), ["hello", "no such model"]);
        drop(dies);

        let mut silent = Launched::start(&launch(&folder, "sleep 600 & echo $!; wait"), &nowhere()).unwrap();
        let error = silent.wait_ready(&nowhere(), None, short, &stop).unwrap_err();
        assert!(matches!(error, LaunchError::Silent { .. }), "{error}");
        let sleeper = silent.last_lines(1)[0].clone();
        silent.end();
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "what it started runs on: {state}");

        let busy = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = Address::base(&format!("http://{}", busy.local_addr().unwrap())).unwrap();
        assert!(matches!(Launched::start(&launch(&folder, "true"), &at), Err(LaunchError::Taken(_))));
        let missing = Launch { words: vec!["/no/such/server".into()], ..launch(&folder, "") };
        assert!(matches!(Launched::start(&missing, &nowhere()), Err(LaunchError::Start { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
