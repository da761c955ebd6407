//! One moment of this host as a line of a host sampler's log (`ingest`'s `host_jsonl`): load, CPUs, the engine's processes
//! with their threads, and what the cgroup allows. Read from `/proc` and `/sys/fs/cgroup` (proc(5), cgroups(7)).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::processes::{self, Member, Processes};
use crate::window::host_time_ns;

/// Moments between two looks at who is there.
const LOOK_PERIOD: u32 = 5;
/// Threads looked at of one process.
const MAX_THREADS: usize = 1024;
/// Names of threads told of one process.
const MAX_THREAD_NAMES: usize = 64;

/// Reads moments.
pub(super) struct Host {
    wanted: Processes,
    members: Vec<Member>,
    moment_count: u32,
    cgroup: Option<PathBuf>,
}

impl Host {
    pub(super) fn new(wanted: Processes) -> Self {
        Self { wanted, members: Vec::new(), moment_count: 0, cgroup: None }
    }

    /// Whether a process that is wanted was there at the last moment.
    pub(super) fn sees_processes(&self) -> bool {
        !self.members.is_empty()
    }

    /// The moment that is now, with a line end.
    pub(super) fn line(&mut self) -> Vec<u8> {
        if self.moment_count.is_multiple_of(LOOK_PERIOD) {
            self.members = processes::find(&self.wanted);
            let pid = self.members.first().map_or("self".to_string(), |member| member.pid.to_string());
            self.cgroup = cgroup(&pid);
        }
        self.moment_count = self.moment_count.wrapping_add(1);
        let t_ns = host_time_ns();
        let mut moment = Map::new();
        let procs: Vec<Value> = self.members.iter().filter_map(process).collect();
        moment.insert("loadavg".into(), words("/proc/loadavg").into_iter().take(3).collect());
        moment.insert("cpu".into(), Value::Object(cpus()));
        if let Some(folder) = &self.cgroup {
            limits(folder, &mut moment);
        }
        moment.insert("procs".into(), Value::Array(procs));
        // The time as text: a double would round its nanoseconds.
        let rest = Value::Object(moment).to_string();
        let mut line = format!("{{\"ts\":{}.{:09},", t_ns / 1_000_000_000, t_ns % 1_000_000_000);
        line.push_str(rest.strip_prefix('{').unwrap_or(&rest));
        line.push('\n');
        line.into_bytes()
    }
}

fn words(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().split_ascii_whitespace().map(ToString::to_string).collect()
}

fn cpus() -> Map<String, Value> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let lines = text.lines().take_while(|line| line.starts_with("cpu"));
    lines
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let name = words.next()?.to_string();
            Some((name, words.take(8).filter_map(|word| word.parse::<u64>().ok()).collect::<Value>()))
        })
        .collect()
}

/// Ticks of user and system mode: fields 14 and 15 of `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Nanoseconds running and waiting in the run queue: the first fields of `/proc/PID/schedstat`.
fn schedstat(folder: &str) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn process(member: &Member) -> Option<Value> {
    let folder = format!("/proc/{}", member.pid);
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (utime, stime) = ticks(&stat)?;
    let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let (by_thread, wait_all_ns) = threads(&folder);
    let main = schedstat(&folder);
    Some(json!({
        "pid": member.pid,
        "role": member.role,
        "utime": utime,
        "stime": stime,
        "threads": field("Threads"),
        "rss_kb": field("VmRSS"),
        "vcsw": field("voluntary_ctxt_switches"),
        "nvcsw": field("nonvoluntary_ctxt_switches"),
        "run_ns": main.map(|main| main.0),
        "runq_wait_ns": main.map(|main| main.1),
        "runq_wait_ns_all": wait_all_ns,
        "thread_ticks": by_thread,
    }))
}

/// CPU ticks by name of the thread, and the time that all threads waited for a CPU.
fn threads(folder: &str) -> (BTreeMap<String, u64>, Option<u64>) {
    let Ok(entries) = fs::read_dir(format!("{folder}/task")) else { return (BTreeMap::new(), None) };
    let (mut by_name, mut wait_ns) = (BTreeMap::new(), None);
    for entry in entries.flatten().take(MAX_THREADS) {
        let folder = entry.path().to_string_lossy().into_owned();
        wait_ns = schedstat(&folder).map(|(_, wait)| wait_ns.unwrap_or(0) + wait).or(wait_ns);
        let Ok(stat) = fs::read_to_string(format!("{folder}/stat")) else { continue };
        let name = stat.rsplit_once(')').and_then(|(before, _)| before.split_once('(')).map_or("", |(_, name)| name);
        if let Some((utime, stime)) = ticks(&stat)
            && (by_name.len() < MAX_THREAD_NAMES || by_name.contains_key(name))
        {
            *by_name.entry(name.to_string()).or_insert(0) += utime + stime;
        }
    }
    (by_name, wait_ns)
}

/// The folder of a process's cgroup, where there is one with figures of the CPU: version 2, else version 1.
fn cgroup(pid: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let places = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = path.trim_start_matches('/').to_string();
        let is_cpu = controllers.is_empty() || controllers.split(',').any(|controller| controller == "cpu");
        is_cpu.then(|| if controllers.is_empty() { vec![path] } else { vec![format!("cpu,cpuacct/{path}"), format!("cpu/{path}")] })
    });
    // Within a container the path is told as the host sees it; there the root of the tree is the container's own.
    let roots = ["", "cpu,cpuacct", "cpu"].map(str::to_string);
    let root = Path::new("/sys/fs/cgroup");
    places.flatten().chain(roots).map(|place| root.join(place)).find(|folder| folder.join("cpu.stat").is_file())
}

/// Quota in cores (`cpu.max`, or quota over period of version 1) and throttled seconds.
fn limits(folder: &Path, moment: &mut Map<String, Value>) {
    let stat = fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default();
    let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    if let Some(seconds) = field("throttled_usec ").map(|us| us / 1e6).or_else(|| field("throttled_time ").map(|ns| ns / 1e9)) {
        moment.insert("cpu_throttled_s".into(), json!(seconds));
    }
    let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<f64>().ok();
    let quota = match fs::read_to_string(folder.join("cpu.max")) {
        Ok(text) => text.split_once(' ').and_then(|(quota, period)| Some((quota.parse().ok()?, period.trim().parse().ok()?))),
        Err(_) => number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us")),
    };
    if let Some((quota, period)) = quota.filter(|(quota, period): &(f64, f64)| *quota > 0.0 && *period > 0.0) {
        moment.insert("cpu_quota".into(), json!(quota / period));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_by_the_importer() {
        let line = Host::new(Processes::Id(std::process::id())).line();
        let capture = ingest::read_bytes("host.jsonl", &line, &ingest::Options::default());
        assert_eq!(capture.manifest.sources[0].format, "host_jsonl", "{}", String::from_utf8_lossy(&line));
        let signals: Vec<&str> = capture.tables.samples.signal.iter().map(|name| capture.text(*name)).collect();
        for expected in ["host.load", "host.cores", "host.cpu_busy", "proc.cpu_time", "proc.threads", "proc.rss", "proc.thread_cpu_time"] {
            assert!(signals.contains(&expected), "{expected} in {}", String::from_utf8_lossy(&line));
        }
        assert!(capture.tables.samples.labels.iter().any(|name| capture.text(*name).contains("api_server")));
    }
}
