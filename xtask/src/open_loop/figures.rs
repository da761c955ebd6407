//! What a run shows, for the person who generates the case: means over the benchmark's requests and over the window.

use std::fmt::Write as _;

use super::{Run, Step, TO_FRONTEND_US, WINDOW_S, WINDOW_US};

/// Means of the window, as a short table.
pub(crate) fn text(run: &Run) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: f64, unit: &str| {
        let _ = writeln!(out, "  {name:<22} {value:8.3} {unit}");
    };
    let end = |step: usize| run.steps[step].end_us as f64 / 1e6;
    let seconds = |us: u64| us as f64 / 1e6;
    let to_frontend = seconds(TO_FRONTEND_US);
    let requests = run.window();
    let mean = |of: &dyn Fn(&super::Request) -> f64| requests.iter().map(of).sum::<f64>() / requests.len() as f64;
    line("queue", mean(&|r| seconds(r.scheduled_us - r.queued_us)), "s");
    line("prefill", mean(&|r| end(r.first_step) - seconds(r.scheduled_us)), "s");
    line("decode", mean(&|r| end(r.last_step()) - end(r.first_step)), "s");
    line("ttft", mean(&|r| end(r.first_step) + to_frontend - seconds(r.arrived_us)), "s");
    line("e2e", mean(&|r| end(r.last_step()) + to_frontend - seconds(r.arrived_us)), "s");
    line("tpot", mean(&|r| (end(r.last_step()) - end(r.first_step)) / f64::from(r.output_tokens - 1)) * 1e3, "ms");
    let mut slow: Vec<(f64, f64)> = requests
        .iter()
        .map(|r| (end(r.last_step()) + to_frontend - seconds(r.arrived_us), seconds(r.scheduled_us - r.queued_us)))
        .collect();
    slow.sort_by(|one, other| other.0.total_cmp(&one.0));
    slow.truncate(slow.len() / 20);
    line("slowest 5 %: e2e", slow.iter().map(|row| row.0).sum::<f64>() / slow.len() as f64, "s");
    line("slowest 5 %: queue", slow.iter().map(|row| row.1).sum::<f64>() / slow.len() as f64, "s");
    gauges(&mut line, run);
    out
}

/// Time means of the gauges, and how steady the queue is.
fn gauges(line: &mut dyn FnMut(&str, f64, &str), run: &Run) {
    let inside = WINDOW_US..WINDOW_US + WINDOW_S * 1_000_000;
    let steps: Vec<(&Step, f64)> = run
        .steps
        .windows(2)
        .filter(|pair| inside.contains(&pair[0].end_us))
        .map(|pair| (&pair[0], (pair[1].end_us - pair[0].end_us) as f64 / 1e6))
        .collect();
    let span: f64 = steps.iter().map(|(_, held)| held).sum();
    let mean = |of: &dyn Fn(&Step) -> f64| steps.iter().map(|(step, held)| of(step) * held).sum::<f64>() / span;
    line("running", mean(&|step| f64::from(step.running)), "");
    let waiting = mean(&|step| f64::from(step.waiting));
    line("waiting", waiting, "");
    let middle = mean(&|step| step.end_us as f64 / 1e6);
    let slope = mean(&|step| (step.end_us as f64 / 1e6 - middle) * (f64::from(step.waiting) - waiting))
        / mean(&|step| (step.end_us as f64 / 1e6 - middle).powi(2));
    line("waiting, drift", slope * span, "over the window");
    let with_queue = mean(&|step| f64::from(u8::from(step.waiting > 0)));
    line("time with a queue", with_queue * 100.0, "%");
    let full = mean(&|step| f64::from(u8::from(step.waiting > 0 && step.running as usize + 1 >= run.seats)));
    line("of it, seats taken", full / with_queue.max(1e-9) * 100.0, "%");
    let peak = steps.iter().map(|(step, _)| step.kv_blocks).max().unwrap_or(0);
    line("KV cache, peak", f64::from(peak) / f64::from(super::BLOCKS - 1) * 100.0, "%");
    let budget = super::ENGINE.token_budget;
    let at_budget = steps.iter().filter(|(step, _)| step.scheduled_tokens >= budget).count();
    line("steps at the budget", at_budget as f64 / steps.len() as f64 * 100.0, "%");
    line("steps", steps.len() as f64, "");
}
