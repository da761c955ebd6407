//! Single-operator microbenchmarks: what the host at hand can do, one operator at a time.
//!
//! A verdict leans on rates: of memory, of the link to the host, of a launch. Here they are measured instead of looked up, on
//! the first CUDA device where there is one and this program was built with the feature `cuda`, else on the CPU. Each
//! operator is one file and one entry in a list; it is warmed up, repeated within its share of the time, and told as median
//! and quartiles. What is left out: whole models, engines, anything in which two operators meet.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod into_capture;
mod measure;
mod shapes;
mod team;

use std::time::Duration;

pub use self::into_capture::{SOURCE_FORMAT, into_capture};
pub use self::measure::Spread;
pub use self::shapes::{Matrix, Shapes};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Matrices and caches of a model.
    pub shapes: Shapes,
    /// Sequences that decode together, and tokens of a decode matrix product.
    pub batch: u32,
    /// Tokens that each of them holds.
    pub context: u32,
    /// Tokens of a prefill matrix product.
    pub prompt: u32,
    /// Time for everything.
    pub budget: Duration,
    /// Operators to run, by id; empty for all.
    pub only: Vec<String>,
    /// Measure the CPU even where there is a GPU.
    pub on_cpu: bool,
}

/// What was measured on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    /// `cuda` or `cpu`.
    pub backend: &'static str,
    /// Name of the device as its driver or the kernel tells it.
    pub device: String,
    /// Why it is the CPU, where a GPU was wanted; empty else.
    pub because: String,
    /// True in a build without optimization, whose own kernels are far slower than the CPU allows.
    pub is_unoptimized: bool,
    /// Results.
    pub rows: Vec<Measured>,
    /// Operators without a result.
    pub skipped: Vec<Skipped>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Operator that measured it.
    pub operator: &'static str,
    /// What was done, for people.
    pub title: String,
    /// Signal of the vocabulary.
    pub signal: &'static str,
    /// Labels of the signal.
    pub labels: Vec<(&'static str, String)>,
    /// The figure, in the signal's unit.
    pub value: Spread,
    /// The data sheet's figure, where one is known.
    pub data_sheet: Option<f64>,
    /// Sizes and method.
    pub how: String,
}

/// An operator without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Operator.
    pub operator: &'static str,
    /// Why.
    pub because: String,
}

/// One operator on a device of type `D`.
struct Operator<D> {
    /// What a user types to run it alone.
    id: &'static str,
    /// Its part of the time.
    weight: u32,
    /// Measures; an error is a sentence that says why there is no result.
    run: fn(&D, &Plan, Duration) -> Result<Vec<Measured>, String>,
}

/// Ids of all operators, of either backend.
pub const OPERATORS: [&str; 8] = ["copy", "read", "gemm", "attention", "launch", "wake", "link", "all_reduce"];

/// Builds for development keep assertions and leave out optimization.
const IS_UNOPTIMIZED: bool = cfg!(debug_assertions);

/// How far a bench is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Operator that runs now.
    pub operator: &'static str,
    /// Operators done.
    pub done: usize,
    /// Operators in all.
    pub total: usize,
}

/// Measures; `on_stage` is told before each operator.
pub fn run(plan: &Plan, on_stage: &dyn Fn(Stage)) -> Bench {
    let because = match gpu(plan, on_stage) {
        Ok(bench) => return bench,
        Err(because) => because,
    };
    let host = cpu::Host::read();
    let (rows, skipped) = run_all(cpu::OPERATORS, &host, plan, on_stage);
    Bench { backend: "cpu", device: host.name, because, is_unoptimized: IS_UNOPTIMIZED, rows, skipped }
}

/// The bench of the first GPU, or why there is none.
#[cfg(feature = "cuda")]
fn gpu(plan: &Plan, on_stage: &dyn Fn(Stage)) -> Result<Bench, String> {
    if plan.on_cpu {
        return Err(String::new());
    }
    let device = cuda::Device::open()?;
    let (rows, skipped) = run_all(cuda::OPERATORS, &device, plan, on_stage);
    Ok(Bench { backend: "cuda", device: device.name, because: String::new(), is_unoptimized: IS_UNOPTIMIZED, rows, skipped })
}

#[cfg(not(feature = "cuda"))]
fn gpu(plan: &Plan, _: &dyn Fn(Stage)) -> Result<Bench, String> {
    Err(if plan.on_cpu { String::new() } else { "this program was built without the feature `cuda`".to_string() })
}

fn run_all<D>(operators: &[Operator<D>], device: &D, plan: &Plan, on_stage: &dyn Fn(Stage)) -> (Vec<Measured>, Vec<Skipped>) {
    let wanted = |operator: &&Operator<D>| plan.only.is_empty() || plan.only.iter().any(|id| id == operator.id);
    let chosen: Vec<&Operator<D>> = operators.iter().filter(wanted).collect();
    let weights: u32 = chosen.iter().map(|operator| operator.weight).sum();
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for (done, operator) in chosen.iter().enumerate() {
        on_stage(Stage { operator: operator.id, done, total: chosen.len() });
        let budget = plan.budget * operator.weight / weights.max(1);
        match (operator.run)(device, plan, budget) {
            Ok(measured) => rows.extend(measured),
            Err(because) => skipped.push(Skipped { operator: operator.id, because }),
        }
    }
    (rows, skipped)
}
