//! Who waited for a CPU: run-queue wait of main threads, from host counters.

use crate::evidence::{Evidence, Series};
use crate::timeline::moments;

/// Main thread of one process over the window.
#[derive(Clone, Debug, PartialEq)]
pub struct MainThread {
    /// Role, as recorded: `engine_core`, `engine_core-1`, `api_server`.
    pub role: String,
    /// Runnable but not running, s.
    pub wait_s: f64,
    /// Running, s.
    pub run_s: f64,
    /// Share of its busy time that it waited, weighted by requests running at the time: what requests felt.
    pub felt: f64,
    /// Longest stretch in which it waited for at least as long as it ran, s.
    pub worst_stretch_s: f64,
}

impl MainThread {
    /// Wait over wait + run, 0 when it did neither.
    pub fn share(&self) -> f64 {
        if self.wait_s + self.run_s > 0.0 { self.wait_s / (self.wait_s + self.run_s) } else { 0.0 }
    }
}

/// Main threads whose role starts with one of `roles`.
pub fn main_threads(evidence: &Evidence, roles: &[&str]) -> Vec<MainThread> {
    let mut found = Vec::new();
    for (name, wait) in evidence.host.iter().filter(|(name, _)| name.starts_with("proc.runqueue_wait{")) {
        let labels = &name["proc.runqueue_wait".len()..];
        let role = capture::labels::get(labels.trim_matches(['{', '}']), "role").unwrap_or_default();
        let Some(run) = evidence.host.get(&format!("proc.run_time{labels}")) else { continue };
        if roles.iter().any(|wanted| role.starts_with(wanted)) {
            found.push(read(evidence, role, wait, run));
        }
    }
    found
}

fn read(evidence: &Evidence, role: String, wait: &Series, run: &Series) -> MainThread {
    let running: Vec<(i64, f64)> = evidence.engines.values().flat_map(moments).map(|moment| (moment.t_end_ns, moment.running)).collect();
    let running_at = |t: i64| running.iter().find(|(end, _)| *end >= t).map_or(0.0, |(_, running)| *running);
    let (mut felt, mut weight) = (0.0, 0.0);
    let (mut stretch_s, mut worst_stretch_s) = (0.0f64, 0.0f64);
    for at in 1..wait.t_ns.len() {
        let (from, to) = (wait.t_ns[at - 1], wait.t_ns[at]);
        let waited = (wait.value[at] - wait.value[at - 1]).max(0.0);
        let ran = (run.at(to).unwrap_or(0.0) - run.at(from).unwrap_or(0.0)).max(0.0);
        if waited + ran > 0.0 {
            let load = running_at(to) * (to - from) as f64 * 1e-9;
            felt += load * waited / (waited + ran);
            weight += load;
        }
        stretch_s = if waited >= ran && waited > 0.0 { stretch_s + (to - from) as f64 * 1e-9 } else { 0.0 };
        worst_stretch_s = worst_stretch_s.max(stretch_s);
    }
    let (wait_s, run_s) = (wait.growth(), run.growth());
    let share = if wait_s + run_s > 0.0 { wait_s / (wait_s + run_s) } else { 0.0 };
    MainThread { role, wait_s, run_s, felt: if weight > 0.0 { felt / weight } else { share }, worst_stretch_s }
}

/// CPU seconds of the whole machine and of the processes of this run, over the window.
pub fn machine_and_own_s(evidence: &Evidence) -> (f64, f64) {
    let growth = |prefix: &str| evidence.host.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, series)| series.growth()).sum();
    (growth("host.cpu_busy{"), growth("proc.cpu_time{"))
}

/// Processes of this run by CPU time, largest first: role and seconds.
pub fn by_cpu(evidence: &Evidence) -> Vec<(String, f64)> {
    let mut list: Vec<(String, f64)> = evidence
        .host
        .iter()
        .filter_map(|(name, series)| Some((name.strip_prefix("proc.cpu_time")?, series)))
        .map(|(labels, series)| (capture::labels::get(labels.trim_matches(['{', '}']), "role").unwrap_or_default(), series.growth()))
        .collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}
