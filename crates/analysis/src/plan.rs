//! A plan for a deployment that may not exist yet: what fits, what to do first, what not to do, at what gain and risk.
//!
//! The six steps of the diagnostic framework (memory, prefixes, batching, fragmentation, speculation, disaggregation) are
//! one file each and stand in [`STEPS`]. They all ask the same [`case::Case`], which answers from the one step function of
//! `model`: a lever is a changed [`case::Setting`] that is evaluated from the start, so that smaller weights become room for
//! the KV cache, that becomes concurrency, and that throughput. Headline gains are never multiplied.
//!
//! [`order`] picks what to do, cheapest first, until the target is kept, and names what would be over-engineering;
//! [`sizing`] looks for the smallest number of devices and for what no device of this kind can do. Accuracy is not
//! measured here and every change of a number format says so. Files and the clock are left to the caller.

pub mod document;
pub mod input;

mod case;
mod operating;
mod order;
mod recorded;
mod rehearsal;
mod sizing;
mod traffic;

mod batching;
mod disaggregation;
mod fragmentation;
mod memory_footprint;
mod prefix_structure;
mod speculation;

use self::case::{Candidate, Case, Setting};
use self::document::{PLAN_SCHEMA, Plan, StepAnswer};
pub use self::input::{Acceptance, Demand, Objective, PlanError, PlanInput, Slo, Statistic, Traffic};
pub use self::recorded::{RecordedRequests, recorded_requests};

/// One of the six steps.
struct Step {
    /// Name in documents.
    id: &'static str,
    /// What it asks.
    question: &'static str,
    /// Answers it for a setting that runs.
    answer: fn(&Case<'_>, &Setting<'_>) -> StepAnswer,
    /// What it could change about a setting.
    levers: for<'a> fn(&Case<'a>, &Setting<'a>) -> Vec<Candidate<'a>>,
}

/// The six steps, in the order in which the framework asks.
const STEPS: &[Step] = &[
    Step { id: "memory_footprint", question: "does it fit?", answer: memory_footprint::answer, levers: memory_footprint::levers },
    Step { id: "prefix_structure", question: "do prompts repeat?", answer: prefix_structure::answer, levers: prefix_structure::levers },
    Step { id: "batching", question: "which batch?", answer: batching::answer, levers: batching::levers },
    Step { id: "fragmentation", question: "is KV memory wasted?", answer: fragmentation::answer, levers: fragmentation::levers },
    Step { id: "speculation", question: "draft tokens?", answer: speculation::answer, levers: speculation::levers },
    Step { id: "disaggregation", question: "split prefill off?", answer: disaggregation::answer, levers: disaggregation::levers },
];

/// Plans. The same input gives the same plan.
pub fn plan(input: &PlanInput<'_>) -> Result<Plan, PlanError> {
    let case = Case::new(input)?;
    let ordered = order::decide(&case);
    let basis = if ordered.now.is_ok() { Some(case.start) } else { ordered.after.as_ref().map(|_| ordered.last) };
    let steps = STEPS.iter().map(|step| match &basis {
        Some(setting) => StepAnswer { step: step.id.into(), question: step.question.into(), ..(step.answer)(&case, setting) },
        None => StepAnswer { step: step.id.into(), question: step.question.into(), ..memory_footprint::nothing_runs(&case, step.id) },
    });
    let steps = steps.collect();
    let smallest = sizing::smallest(&case, &ordered);
    let out_of_reach = sizing::out_of_reach(&case);
    Ok(Plan {
        schema: PLAN_SCHEMA.into(),
        subject: case.subject(),
        workload: case.offered.document(),
        goal: case.goal(),
        verdict: order::verdict(&case, &ordered, out_of_reach.as_deref()),
        now: ordered.now.as_ref().ok().map(|operating| operating.document(&case)),
        now_refused: ordered.now.as_ref().err().map(ToString::to_string),
        after: ordered.after.as_ref().map(|operating| operating.document(&case)),
        first: ordered.chosen,
        not: ordered.rejected,
        smallest,
        steps,
        assumptions: case.assumptions(),
    })
}
