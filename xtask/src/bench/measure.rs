//! What a run of a program costs: wall time, user CPU time, peak resident memory. Linux only, by /proc.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Ticks per second in /proc/self/stat on every Linux we know.
const TICKS_PER_S: f64 = 100.0;
/// How often memory is looked at; the kernel keeps the peak, so only a rise in the last moment is missed.
const POLL: Duration = Duration::from_millis(1);

/// Cost of one run: the median wall time, the mean CPU time, the largest peak of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) wall_s: f64,
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    pub(super) peak_bytes: u64,
}

/// Runs `program args input` so many times. Exit codes up to 3 are answers; anything else is a failure.
pub(super) fn measure(program: &Path, args: &[&str], input: &Path, runs: usize) -> anyhow::Result<Figures> {
    measure_with(runs, || {
        let mut command = Command::new(program);
        command.args(args).arg(input).stdout(Stdio::null());
        command
    })
}

/// Like [`measure`], for any command.
pub(super) fn measure_with(runs: usize, make: impl Fn() -> Command) -> anyhow::Result<Figures> {
    let before = children_cpu_s()?;
    let (mut walls, mut peak_bytes) = (Vec::with_capacity(runs), 0);
    for _ in 0..runs {
        let (wall_s, peak) = run_once(&mut make())?;
        walls.push(wall_s);
        peak_bytes = peak.max(peak_bytes);
    }
    walls.sort_by(f64::total_cmp);
    let after = children_cpu_s()?;
    let per_run = |after: f64, before: f64| (after - before) / runs as f64;
    Ok(Figures { wall_s: walls[runs / 2], user_s: per_run(after.0, before.0), system_s: per_run(after.1, before.1), peak_bytes })
}

fn run_once(command: &mut Command) -> anyhow::Result<(f64, u64)> {
    let started = Instant::now();
    let mut child = command.spawn().context("could not start the program")?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        peak = peak_bytes(&fs::read_to_string(&status_file).unwrap_or_default()).max(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(POLL);
    };
    let wall_s = started.elapsed().as_secs_f64();
    ensure!(matches!(status.code(), Some(0 | 1 | 3)), "the program ended with {status}");
    Ok((wall_s, peak))
}

/// `VmHWM` of a /proc status file, 0 when the process is gone.
fn peak_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// User and system CPU time of all children waited for so far.
fn children_cpu_s() -> anyhow::Result<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").context("could not read `/proc/self/stat`")?;
    let (user, system) = children_ticks(&stat).context("`/proc/self/stat` does not look as expected")?;
    Ok((user / TICKS_PER_S, system / TICKS_PER_S))
}

/// Fields 16 and 17 (`cutime`, `cstime`), counted behind the command name, which may hold spaces.
fn children_ticks(stat: &str) -> Option<(f64, f64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(13).map(|field| field.parse().ok());
    Some((ticks.next()??, ticks.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        assert_eq!(peak_bytes("Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t  5 kB\n"), 1_263_616);
        assert_eq!(peak_bytes(""), 0);
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 350 40 20 0 1 0 99";
        assert_eq!(children_ticks(stat), Some((350.0, 40.0)));
        assert!(children_cpu_s().unwrap().0 >= 0.0);
    }
}
