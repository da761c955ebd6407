//! The scores as text: what a reader needs to trust or reject the predictions.

use super::{Errors, KindScore, LeverScore, Scores};

/// All tables.
pub fn text(scores: &Scores) -> String {
    let scored: usize = scores.kinds.iter().map(|kind| kind.tpot.rows).sum();
    let mut out = format!(
        "{} rows, {scored} scored. Each model is predicted by coefficients fitted on the other models of its kind.\n\n",
        scores.row_count
    );
    out.push_str("Time per output token            rows  below bound  median    p90  predicted/measured  in stated range\n");
    for kind in &scores.kinds {
        out.push_str(&line(&title(kind), &kind.tpot, Some(kind.below_bound)));
        for (model, errors) in &kind.by_model {
            out.push_str(&line(&format!("  {model}"), errors, None));
        }
    }
    out.push_str("\nTime per output token by device and engine\n");
    for kind in &scores.kinds {
        for (system, errors) in &kind.by_system {
            out.push_str(&line(&format!("{} {system}", title(kind)), errors, None));
        }
    }
    out.push_str("\nTime to first token, ramp and queue of the load generator included\n");
    for kind in scores.kinds.iter().filter(|kind| kind.ttft.rows > 0) {
        out.push_str(&line(&title(kind), &kind.ttft, None));
    }
    out.push_str(&noise_line(scores));
    out.push_str(
        "\nRatio of two runs                pairs  measured  median    p90  sign right   beyond noise  sign stated  right if stated  in range\n",
    );
    for kind in &scores.kinds {
        for lever in &kind.levers {
            out.push_str(&lever_line(&title(kind), lever));
        }
    }
    out.push_str(&counts("Read as something else than stated", &scores.assumed));
    out.push_str(&counts("Not scored", &scores.skipped));
    out
}

fn title(kind: &KindScore) -> String {
    let mode = if kind.disaggregated { ", decode apart" } else { "" };
    format!("{}{mode}", kind.kind.word())
}

fn line(name: &str, errors: &Errors, below_bound: Option<usize>) -> String {
    let below = below_bound.map_or(String::new(), |rows| format!("{rows} ({})", percent(rows as f64 / errors.rows as f64)));
    format!(
        "{name:<32} {:>4}  {below:>11} {:>7} {:>6}  {:>18.2}  {:>15}\n",
        errors.rows,
        percent(errors.median_frac),
        percent(errors.p90_frac),
        errors.bias,
        percent(errors.covered_frac),
    )
}

fn lever_line(kind: &str, score: &LeverScore) -> String {
    let [lever, pairs, measured, median, p90, right, beyond, stated, stated_right, covered] = lever_cells(kind, score);
    format!(
        "{lever:<32} {pairs:>5} {measured:>9} {median:>7} {p90:>6} {right:>11} {beyond:>14} {stated:>12} {stated_right:>16} {covered:>9}\n"
    )
}

fn lever_cells(kind: &str, score: &LeverScore) -> [String; 10] {
    [
        format!("{kind}: {}", score.lever.words()),
        score.pairs.to_string(),
        format!("{:.2}", score.measured),
        percent(score.errors.median_frac),
        percent(score.errors.p90_frac),
        percent(score.sign_right_frac),
        beyond(score),
        percent(score.sign_stated_frac),
        percent(score.stated_right_frac),
        percent(score.errors.covered_frac),
    ]
}

/// Share right and of how many.
fn beyond(score: &LeverScore) -> String {
    format!("{} of {}", percent(score.beyond_right_frac), score.beyond_noise)
}

fn noise_line(scores: &Scores) -> String {
    scores.noise.map_or_else(String::new, |noise| {
        format!(
            "\nRuns that the table repeats differ by up to {} nine times out of ten ({} pairs): that is the noise.\n",
            percent(noise.p90_frac),
            noise.pairs
        )
    })
}

/// The same for a page: errors and directions by kind, without devices.
pub fn markdown(scores: &Scores) -> String {
    let scored: usize = scores.kinds.iter().map(|kind| kind.tpot.rows).sum();
    let mut out = format!("{} measured runs, {scored} scored.\n\n", scores.row_count);
    out.push_str(
        "| time per output token | runs | faster than the bound | median error | nine in ten | predicted / measured | in stated range |\n",
    );
    out.push_str("|---|---|---|---|---|---|---|\n");
    for kind in &scores.kinds {
        let below = format!("{} ({})", kind.below_bound, percent(kind.below_bound as f64 / kind.tpot.rows as f64));
        out.push_str(&row(&format!("**{}**", title(kind)), &kind.tpot, &below));
        for (model, errors) in &kind.by_model {
            out.push_str(&row(model, errors, ""));
        }
    }
    out.push_str("\n| ratio of two runs | pairs | measured | median error | nine in ten | direction right | beyond noise | direction stated | right where stated | in stated range |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for kind in &scores.kinds {
        for score in &kind.levers {
            out.push_str(&format!("| {} |\n", lever_cells(&title(kind), score).join(" | ")));
        }
    }
    out.push_str(&noise_line(scores));
    out
}

fn row(name: &str, errors: &Errors, below: &str) -> String {
    let cells = [
        name.to_owned(),
        errors.rows.to_string(),
        below.to_owned(),
        percent(errors.median_frac),
        percent(errors.p90_frac),
        format!("{:.2}", errors.bias),
        percent(errors.covered_frac),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn counts(title: &str, rows: &std::collections::BTreeMap<String, usize>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{title}\n");
    for (reason, count) in rows {
        out.push_str(&format!("{count:>6}  {reason}\n"));
    }
    out
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}
