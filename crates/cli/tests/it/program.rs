//! Running the program as a user does, with a limit on time and without the surroundings of the person who tests.

use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than any run takes on a loaded machine; a hang ends here.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit code; -1 when a signal or this test ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs so far; each has a ledger of its own, neither the person's nor another test's past predictions.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// The program with a clean environment.
pub(crate) fn command() -> Command {
    command_of(env!("CARGO_BIN_EXE_inferoscope"))
}

/// Another program that runs this one.
pub(crate) fn command_of(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE", "LANG", "LC_ALL"] {
        command.env_remove(name);
    }
    let own = format!("data/{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    command.env("XDG_DATA_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(own));
    command.stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Run {
    finish(command().args(args))
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
    let code = wait(&mut child);
    Run { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).expect("the program writes UTF-8")
    })
}

/// The exit code, -1 for a run that was ended.
pub(crate) fn wait(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return -1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
