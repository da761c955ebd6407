//! A host sampler's log: once a second the load, the CPU counters and one entry per process of the run.
//!
//! Counters stay cumulative. Ticks are 10 ms (`USER_HZ` 100 on every Linux we know). A role that ends in `-0`, `-1`
//! belongs to that replica and keeps its whole name as the label `role`. Beside the processes may stand the cgroup's quota in
//! cores and its throttled seconds, and within each process the CPU ticks of its threads by name.

use capture::labels;

use crate::builder::Builder;
use crate::formats::json_lines::{LineJson, each_line, sniff_keys};
use crate::formats::{Confidence, Format, Probe, Stage};
use crate::input::Input;
use crate::json::JsonResult;

/// See [`Format`].
pub(crate) const FORMAT: Format = Format { id: "host_jsonl", stage: Stage::Clocked, sniff, read };

const TICK_S: f64 = 0.01;
/// Names of threads taken of one process at one moment.
const MAX_THREAD_NAMES: usize = 64;

fn sniff(probe: &Probe<'_>) -> Confidence {
    sniff_keys(probe, &["ts", "procs"])
}

fn read(input: &mut Input<'_>, builder: &mut Builder<'_>) {
    each_line(input, builder, |json, _, builder| {
        let moment = Moment::read(json)?;
        Ok(moment.add(builder))
    });
}

#[derive(Default)]
struct Moment {
    t_ns: Option<i64>,
    load: Option<f64>,
    cpus: Vec<(String, Vec<f64>)>,
    processes: Vec<Process>,
    quota: Option<f64>,
    throttled: Option<f64>,
}

#[derive(Default)]
struct Process {
    pid: Option<i64>,
    role: Option<String>,
    comm: Option<String>,
    utime: Option<f64>,
    stime: Option<f64>,
    threads: Option<f64>,
    rss_kb: Option<f64>,
    voluntary: Option<f64>,
    involuntary: Option<f64>,
    run_ns: Option<f64>,
    wait_ns: Option<f64>,
    wait_all_ns: Option<f64>,
    /// CPU ticks by name of the thread.
    by_thread: Vec<(String, f64)>,
}

impl Moment {
    fn read(json: &mut LineJson<'_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match key {
                "ts" => it.t_ns = json.seconds_ns()?,
                "loadavg" => {
                    let mut first = true;
                    json.array(|json| {
                        let text = json.scalar()?;
                        if std::mem::take(&mut first) {
                            it.load = text.and_then(|text| text.parse().ok());
                        }
                        Ok(())
                    })?;
                }
                "cpu" => json.object(|cpu, json| {
                    let mut ticks = Vec::new();
                    json.array(|json| {
                        ticks.push(json.f64()?.unwrap_or(0.0));
                        Ok(())
                    })?;
                    it.cpus.push((cpu.to_string(), ticks));
                    Ok(())
                })?,
                "procs" => json.array(|json| {
                    it.processes.push(Process::read(json)?);
                    Ok(())
                })?,
                "cpu_quota" => it.quota = json.f64()?,
                "cpu_throttled_s" => it.throttled = json.f64()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    fn add(self, builder: &mut Builder<'_>) -> bool {
        let Some(t_ns) = self.t_ns else { return false };
        builder.covers(t_ns);
        if let Some(load) = self.load.filter(|load| load.is_finite()) {
            builder.sample(t_ns, "host.load", "", load);
        }
        for (signal, value) in [("host.cpu_quota", self.quota), ("host.cpu_throttled", self.throttled)] {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                builder.sample(t_ns, signal, "", value);
            }
        }
        let mut cores = 0.0;
        for (cpu, ticks) in &self.cpus {
            let Some(device) = cpu.strip_prefix("cpu").filter(|device| !device.is_empty()) else { continue };
            cores += 1.0;
            // user nice system idle iowait irq softirq steal: idle, iowait and steal are time not used here.
            let busy: f64 = ticks.iter().enumerate().filter(|(at, _)| matches!(at, 0..=2 | 5 | 6)).map(|(_, ticks)| ticks).sum();
            builder.sample(t_ns, "host.cpu_busy", &labels::canonical(&[("device", device)]), busy * TICK_S);
        }
        if cores > 0.0 {
            builder.sample(t_ns, "host.cores", "", cores);
        }
        for process in &self.processes {
            process.add(t_ns, builder);
        }
        true
    }
}

impl Process {
    fn read(json: &mut LineJson<'_>) -> JsonResult<Self> {
        let mut it = Self::default();
        json.object(|key, json| {
            match key {
                "pid" => it.pid = json.i64()?,
                "role" => it.role = json.scalar()?,
                "comm" => it.comm = json.scalar()?,
                "utime" => it.utime = json.f64()?,
                "stime" => it.stime = json.f64()?,
                "threads" => it.threads = json.f64()?,
                "rss_kb" => it.rss_kb = json.f64()?,
                "vcsw" => it.voluntary = json.f64()?,
                "nvcsw" => it.involuntary = json.f64()?,
                "run_ns" => it.run_ns = json.f64()?,
                "runq_wait_ns" => it.wait_ns = json.f64()?,
                "thread_ticks" => json.object(|name, json| {
                    if let Some(ticks) = json.f64()?.filter(|_| it.by_thread.len() < MAX_THREAD_NAMES) {
                        it.by_thread.push((name.to_string(), ticks));
                    }
                    Ok(())
                })?,
                "runq_wait_ns_all" => it.wait_all_ns = json.f64()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }

    fn add(&self, t_ns: i64, builder: &mut Builder<'_>) {
        let role = self.role.as_deref().or(self.comm.as_deref()).unwrap_or_default();
        let base = role.split('-').next().unwrap_or_default();
        let form = &mut builder.facts.form;
        form.api_process |= base == "api_server";
        form.core_process |= base == "engine_core";
        form.worker_process |= base == "worker";
        form.from = "process roles".to_string();
        let process = self.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let own = labels::canonical(&[("role", role), ("process", &process)]);
        let mut add = |signal: &str, labels: &str, value: Option<f64>| {
            if let Some(value) = value {
                builder.sample(t_ns, signal, labels, value);
            }
        };
        let ticks = self.utime.zip(self.stime).map(|(user, system)| (user + system) * TICK_S);
        add("proc.cpu_time", &own, ticks);
        add("proc.run_time", &own, self.run_ns.map(|ns| ns / 1e9));
        add("proc.runqueue_wait", &own, self.wait_ns.map(|ns| ns / 1e9));
        add("proc.runqueue_wait_all", &own, self.wait_all_ns.map(|ns| ns / 1e9));
        add("proc.threads", &own, self.threads);
        add("proc.rss", &own, self.rss_kb.map(|kb| kb * 1024.0));
        for (name, ticks) in &self.by_thread {
            add(
                "proc.thread_cpu_time",
                &labels::canonical(&[("role", role), ("process", &process), ("thread", name)]),
                Some(ticks * TICK_S),
            );
        }
        for (mode, switches) in [("voluntary", self.voluntary), ("involuntary", self.involuntary)] {
            let labels = labels::canonical(&[("role", role), ("process", &process), ("mode", mode)]);
            add("proc.context_switches", &labels, switches);
        }
    }
}
