//! What the client knows about itself: how late it sent, how late it listened, how busy it was, how long it stood in line
//! for a processor.

use model::client::{FULL_CORE, is_doubted};

use super::figures::{Figures, Spread};

/// The client's own figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// From when requests were due to when their first bytes went out on an open loop, seconds; connecting is the server's
    /// and not in it.
    pub slip: Spread,
    /// From when a knock at the event loop was due to its being heard, seconds.
    pub lag: Spread,
    /// CPU use of the threads that make and receive, of one core; `None` where the system does not tell.
    pub cpu_frac: Option<f64>,
    /// CPU seconds of those threads.
    pub cpu_s: Option<f64>,
    /// Time the listening thread stood in line for a processor, of the run.
    pub wait_frac: Option<f64>,
}

impl Health {
    /// Why the figures say more about the client than about the server; nothing when they do not.
    pub fn limits(&self, figures: &Figures) -> Vec<String> {
        let mut reasons = Vec::new();
        let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        let ranks = |name, figure: &Spread| [(name, "p50", self.lag.p50, figure.p50), (name, "p99", self.lag.p99, figure.p99)];
        let held = [ranks("TTFT", &figures.ttft), ranks("chunk gap", &figures.chunk_gap)];
        let late = held.into_iter().flatten().find(|(_, _, lag, figure)| is_doubted(*lag, *figure));
        if let Some((name, rank, lag, figure)) = late {
            reasons.push(format!("its event loop was {} late ({rank}), {name} {rank} is {}", ms(lag), ms(figure)));
        }
        if self.cpu_frac.is_some_and(|frac| frac > FULL_CORE) {
            reasons.push(format!("it used {:.0} % of a core", 100.0 * self.cpu_frac.unwrap_or(0.0)));
        }
        if is_doubted(self.slip.p99, figures.ttft.p50) {
            reasons.push(format!("it sent up to {} late (p99), TTFT p50 is {}", ms(self.slip.p99), ms(figures.ttft.p50)));
        }
        reasons
    }
}

/// Time of a thread on a processor and in line for one, nanoseconds; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    pub(super) run_ns: Option<i64>,
    pub(super) wait_ns: Option<i64>,
}

impl CpuTime {
    pub(super) fn since(self, before: Self) -> Self {
        let less = |after: Option<i64>, before: Option<i64>| after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Self { run_ns: less(self.run_ns, before.run_ns), wait_ns: less(self.wait_ns, before.wait_ns) }
    }
}

/// Of the calling thread. Source: Linux, `Documentation/scheduler/sched-stats.rst`, `/proc/<pid>/schedstat`.
pub(super) fn cpu_time() -> CpuTime {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<i64>().ok());
    CpuTime { run_ns: fields.next().flatten(), wait_ns: fields.next().flatten() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_large_against_the_figures_limits() {
        let spread = |p50: f64, p99: f64| Spread { count: 100, p50, p99, ..Spread::default() };
        let figures = Figures { ttft: spread(0.2, 0.3), chunk_gap: spread(0.02, 0.03), ..Figures::default() };
        let lag = |p99: f64| Health { lag: spread(0.0, p99), cpu_frac: Some(0.2), ..Health::default() }.limits(&figures);
        assert_eq!(lag(0.0029), Vec::<String>::new());
        assert_eq!(lag(0.0031), ["its event loop was 3.1 ms late (p99), chunk gap p99 is 30.0 ms"]);
        let always = Health { lag: spread(0.0021, 0.0025), ..Health::default() };
        assert_eq!(always.limits(&figures), ["its event loop was 2.1 ms late (p50), chunk gap p50 is 20.0 ms"]);
        let busy = Health { cpu_frac: Some(0.97), slip: spread(0.0, 0.04), ..Health::default() };
        assert_eq!(busy.limits(&figures), ["it used 97 % of a core", "it sent up to 40.0 ms late (p99), TTFT p50 is 200.0 ms"]);
        assert_eq!(Health::default().limits(&figures), Vec::<String>::new());
    }
}
