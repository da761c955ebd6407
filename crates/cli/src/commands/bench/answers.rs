//! The answers of a bench: a table for people, a document for tools.

use analysis::contract::Outcome;
use analysis::probes::Judgment;
use analysis::words::{digits, percent, seconds};
use capture::signals;
use capture::units::Unit;
use live::bench::{Bench, Measured, Plan};
use report::clean;
use serde_json::{Value, json};

use super::Judged;

/// A table: what, median, quartiles, the data sheet's figure and the share of it.
pub(super) fn table(measured: &Bench, plan: &Plan, judged: Option<&Judged>) -> String {
    let mut text = format!("{}, shapes of {}\n", clean::line(&measured.device), clean::line(&plan.shapes.model));
    if !measured.because.is_empty() {
        text.push_str(&format!("the CPU was measured: {}\n", clean::line(&measured.because)));
    }
    if measured.is_unoptimized {
        text.push_str("this program was built without optimization: figures of its own kernels are far too low\n");
    }
    text.push('\n');
    let cells: Vec<[String; 5]> = measured.rows.iter().map(cells).collect();
    let header = ["operator", "median", "quartiles", "data sheet", "of it"].map(str::to_string);
    let rows: Vec<&[String; 5]> = std::iter::once(&header).chain(&cells).collect();
    let width = |column: usize| rows.iter().map(|row| clean::columns(&row[column])).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for (at, row) in rows.iter().enumerate() {
        text.push_str(&line(row, widths));
        if at > 0 {
            text.push_str(&format!("  {}\n", clean::line(&measured.rows[at - 1].how)));
        }
    }
    for skipped in &measured.skipped {
        text.push_str(&format!("\nnot measured: {}: {}", skipped.operator, clean::line(&skipped.because)));
    }
    if !measured.skipped.is_empty() {
        text.push('\n');
    }
    text.push_str(&judgments(judged));
    text
}

fn line(row: &[String; 5], widths: [usize; 5]) -> String {
    let pad = |column: usize| " ".repeat(widths[column].saturating_sub(clean::columns(&row[column])));
    // Words stand left, figures right.
    let mut text = format!("{}{}", row[0], pad(0));
    for (column, figure) in row.iter().enumerate().skip(1) {
        text.push_str(&format!("  {}{figure}", pad(column)));
    }
    format!("{}\n", text.trim_end())
}

fn cells(row: &Measured) -> [String; 5] {
    let show = |value: f64| shown(value, unit(row));
    let quartiles = format!("{} .. {}", show(row.value.low), show(row.value.high));
    let (sheet, share) = match row.data_sheet.filter(|sheet| *sheet > 0.0) {
        Some(sheet) => (show(sheet), percent(row.value.median / sheet)),
        None => ("-".to_string(), "-".to_string()),
    };
    [clean::line(&row.title), show(row.value.median), quartiles, sheet, share]
}

fn unit(row: &Measured) -> Unit {
    signals::find(row.signal).map_or(Unit::Count, |signal| signal.unit)
}

fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Second => seconds(value),
        Unit::BytePerSecond => format!("{} GB/s", digits(value * 1e-9)),
        Unit::FlopPerSecond if value >= 1e12 => format!("{} TFLOP/s", digits(value * 1e-12)),
        Unit::FlopPerSecond => format!("{} GFLOP/s", digits(value * 1e-9)),
        _ => format!("{} {}", digits(value), unit.as_str()),
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Confirmed => "confirmed",
        Outcome::Refuted => "refuted",
        Outcome::Inconclusive => "not decided",
        Outcome::NotComparable => "not comparable",
    }
}

fn judgments(judged: Option<&Judged>) -> String {
    match judged {
        None => String::new(),
        Some(Judged::OtherDevice(why)) => format!("\nthe report says nothing about this host: {}\n", clean::line(why)),
        Some(Judged::Findings(found)) if found.is_empty() => "\nno finding of the report leans on a rate that was measured\n".to_string(),
        Some(Judged::Findings(found)) => {
            let line =
                |judgment: &Judgment| format!("\n{}: {}\n  {}\n", word(judgment.outcome), judgment.check, clean::line(&judgment.why));
            found.iter().map(line).collect()
        }
    }
}

/// The document of `--json`.
pub(super) fn document(measured: &Bench, plan: &Plan, judged: Option<&Judged>) -> String {
    let row = |row: &Measured| {
        let labels: serde_json::Map<String, Value> = row.labels.iter().map(|(key, value)| ((*key).to_string(), json!(value))).collect();
        json!({
            "operator": row.operator, "title": row.title, "signal": row.signal, "labels": labels, "unit": unit(row).as_str(),
            "median": row.value.median, "low": row.value.low, "high": row.value.high, "repetitions": row.value.count,
            "data_sheet": row.data_sheet, "how": row.how,
        })
    };
    let judgment = |judgment: &Judgment| json!({ "check": judgment.check, "signal": judgment.signal, "outcome": judgment.outcome, "why": judgment.why });
    let mut document = json!({
        "schema": "inferoscope.bench/1",
        "backend": measured.backend,
        "device": measured.device,
        "because": measured.because,
        "is_unoptimized": measured.is_unoptimized,
        "model": plan.shapes.model,
        "rows": measured.rows.iter().map(row).collect::<Vec<_>>(),
        "skipped": measured.skipped.iter().map(|skipped| json!({ "operator": skipped.operator, "because": skipped.because })).collect::<Vec<_>>(),
    });
    match judged {
        None => {}
        Some(Judged::OtherDevice(why)) => document["not_comparable"] = json!(why),
        Some(Judged::Findings(found)) => document["findings"] = found.iter().map(judgment).collect(),
    }
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;
    use live::bench::{Shapes, Skipped, Spread};

    use super::*;

    fn bench() -> (Bench, Plan) {
        let row = |operator, title: &str, signal, value: f64, data_sheet, how: &str| Measured {
            operator,
            title: title.into(),
            signal,
            labels: Vec::new(),
            value: Spread { median: value, low: 0.99 * value, high: 1.01 * value, count: 9 },
            data_sheet,
            how: how.into(),
        };
        let rows = vec![
            row("read", "memory read", "gpu.dram_bandwidth_sustained", 3.02e12, Some(3.35e12), "1024 MiB, 16 bytes per load"),
            row("gemm", "matrix product down, 512 tokens", "bench.flops", 6.1e14, Some(9.89e14), "BF16, cuBLAS"),
            row("launch", "launch", "kernel.launch_cost", 2.4e-6, None, "512 empty kernels in a row"),
        ];
        let skipped = vec![Skipped { operator: "all_reduce", because: "it needs two GPUs, found 1".into() }];
        let bench =
            Bench { backend: "cuda", device: "NVIDIA H100 80GB HBM3".into(), because: String::new(), is_unoptimized: false, rows, skipped };
        let shapes = Shapes::from(model::models::find("Llama-3.1-8B").unwrap());
        (bench, Plan { shapes, batch: 8, context: 2048, prompt: 512, budget: Duration::ZERO, only: Vec::new(), on_cpu: false })
    }

    #[test]
    fn the_table_stands_in_columns() {
        let (bench, plan) = bench();
        let judged = Judged::Findings(vec![Judgment {
            check: "bandwidth_bound_decode".into(),
            signal: "gpu.dram_bandwidth_sustained".into(),
            outcome: Outcome::Confirmed,
            why: "reading alone reaches 3020 GB/s; decoding moves 2600 GB/s, 86 % of it".into(),
        }]);
        expect![[r#"
            NVIDIA H100 80GB HBM3, shapes of Llama-3.1-8B

            operator                              median                   quartiles   data sheet  of it
            memory read                        3020 GB/s      2990 GB/s .. 3050 GB/s    3350 GB/s   90 %
              1024 MiB, 16 bytes per load
            matrix product down, 512 tokens  610 TFLOP/s  604 TFLOP/s .. 616 TFLOP/s  989 TFLOP/s   62 %
              BF16, cuBLAS
            launch                               2.40 us          2.38 us .. 2.42 us            -      -
              512 empty kernels in a row

            not measured: all_reduce: it needs two GPUs, found 1

            confirmed: bandwidth_bound_decode
              reading alone reaches 3020 GB/s; decoding moves 2600 GB/s, 86 % of it
        "#]]
        .assert_eq(&table(&bench, &plan, Some(&judged)));
    }

    #[test]
    fn the_document_names_units_and_outcomes() {
        let (bench, plan) = bench();
        let document: Value = serde_json::from_str(&document(&bench, &plan, Some(&Judged::OtherDevice("another".into())))).unwrap();
        assert_eq!((document["rows"][1]["unit"].as_str(), document["rows"][2]["median"].as_f64()), (Some("flop/s"), Some(2.4e-6)));
        assert_eq!(
            (document["skipped"][0]["operator"].as_str(), document["not_comparable"].as_str()),
            (Some("all_reduce"), Some("another"))
        );
    }
}
