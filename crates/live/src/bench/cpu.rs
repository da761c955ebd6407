//! The operators on the CPU: what a CPU backend of an engine has, and the host half of any engine.
//!
//! The matrix product and the attention are kernels of ours (threads, blocks, AVX2 and FMA where the CPU has them), not a
//! BLAS: their rates are what plain code reaches, below what a tuned library does.

mod attention;
mod copy;
mod gemm;
mod simd;
pub(super) mod wake;

use std::fs;
use std::time::Duration;

use super::Operator;

/// All operators, in the order in which they run.
pub(super) const OPERATORS: &[Operator<Host>] = &[
    Operator { id: "copy", weight: 2, run: copy::copy_and_triad },
    Operator { id: "read", weight: 2, run: copy::read },
    Operator { id: "gemm", weight: 5, run: gemm::run },
    Operator { id: "attention", weight: 2, run: attention::run },
    Operator { id: "wake", weight: 1, run: wake::run },
    Operator { id: "launch", weight: 0, run: |_, _, _| Err("nothing is launched on another device".to_string()) },
    Operator { id: "link", weight: 0, run: |_, _, _| Err("there is no device that a host link feeds".to_string()) },
    Operator { id: "all_reduce", weight: 0, run: |_, _, _| Err("it needs two GPUs".to_string()) },
];

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Name of the CPU.
    pub(super) name: String,
    /// Threads that run at the same time.
    pub(super) threads: usize,
    /// Memory that may be used.
    pub(super) budget_bytes: usize,
}

/// Most memory of one operator: caches of server CPUs hold up to 1 GiB in all, one socket's at most 512 MiB.
const MOST_BYTES: usize = 1 << 30;
/// Least that is worth measuring.
const LEAST_BYTES: usize = 32 << 20;

impl Host {
    /// Looks at the machine.
    pub(super) fn read() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let available = available_bytes(&memory).unwrap_or(4 * LEAST_BYTES);
        Self { name: cpu_name(&cpu), threads, budget_bytes: (available / 4).clamp(LEAST_BYTES, MOST_BYTES) }
    }
}

impl Host {
    /// Memory for an operator with this much time: at 5 GB/s a repetition takes a tenth of it.
    fn bytes_within(&self, budget: Duration) -> usize {
        self.budget_bytes.min((5e8 * budget.as_secs_f64()) as usize).max(LEAST_BYTES)
    }
}

/// `model name`, or what stands for it.
fn cpu_name(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|found| found.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_string())
    };
    value("model name").or_else(|| value("Hardware")).filter(|name| !name.is_empty()).unwrap_or_else(|| "CPU".to_string())
}

fn available_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes as people write them.
fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_cpu_and_memory() {
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: AMD EPYC 9R14\nflags\t: a\n"), "AMD EPYC 9R14");
        assert_eq!(cpu_name("processor : 0\nmodel : 1\n"), "CPU");
        assert_eq!(available_bytes("MemTotal: 5 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemAvailable: many\n"), None);
    }

    /// The bench runs where tests run; no figure is asserted, only that there are some and that they are sound.
    #[test]
    fn every_operator_gives_figures_or_a_reason() {
        let host = Host { budget_bytes: LEAST_BYTES, ..Host::read() };
        let shapes = super::super::Shapes {
            model: "small".into(),
            matrices: vec![super::super::Matrix { name: "down", outputs: 96, inputs: 200 }],
            heads: 4,
            kv_heads: 2,
            head_dim: 32,
        };
        let budget = Duration::from_millis(20);
        let plan = super::super::Plan { shapes, batch: 3, context: 70, prompt: 17, budget, only: Vec::new(), on_cpu: true };
        for operator in OPERATORS {
            match (operator.run)(&host, &plan, budget) {
                Ok(rows) => {
                    assert!(!rows.is_empty(), "{}", operator.id);
                    for row in rows {
                        let value = row.value;
                        assert!(0.0 < value.low && value.low <= value.median && value.median <= value.high, "{row:?}");
                        assert!(capture::signals::find(row.signal).is_some(), "{}", row.signal);
                    }
                }
                Err(because) => assert_eq!(operator.weight, 0, "{}: {because}", operator.id),
            }
        }
    }
}
