//! `cargo xtask bench`: the release program against its budgets of time and memory. Prints a table, appends a line to
//! `target/bench/history.jsonl`, fails when a budget is missed. Figures depend on the machine, so no test asserts them.

mod labels;
mod load;
mod measure;
mod pairs;
mod reliability;
mod scrapes;
mod traces;
mod twins;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use serde_json::json;

use self::measure::{Figures, measure};
use crate::workspace::{cargo, program, release_program, root, stdout_of, succeed, target_folder};

/// Runs per measurement; the median counts.
const RUNS: usize = 5;

/// Benches other crates bring along as examples: package, example.
const EXAMPLES: [(&str, &str); 2] = [("capture", "store_bench"), ("ingest", "ingest_bench")];

/// One thing measured and what it may cost.
struct Budget {
    name: &'static str,
    input: PathBuf,
    wall_s: f64,
    peak_bytes: u64,
}

/// Measures everything.
pub(crate) fn run() -> anyhow::Result<()> {
    let program = release_program()?;
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    run_examples()?;
    let mut missed = Vec::new();
    let mut rows = Vec::new();
    println!("{:<28}{:>10}{:>10}{:>10}   budget", "", "wall s", "user s", "peak MB");
    for budget in budgets(&folder)? {
        let figures = measure(&program, &["diagnose", "--json"], &budget.input, RUNS)?;
        println!("{}", table_row(&budget, &figures));
        rows.push(json!({ "name": budget.name, "wall_s": figures.wall_s, "user_s": figures.user_s, "peak_bytes": figures.peak_bytes }));
        if figures.wall_s > budget.wall_s || figures.peak_bytes > budget.peak_bytes {
            missed.push(budget.name);
        }
    }
    append_history(&folder.join("history.jsonl"), &json!({ "t_s": now_s(), "commit": commit(), "rows": rows }))?;
    twins::print(&program)?;
    let beside = labels::beside()?;
    if !beside.is_empty() {
        pairs::print(&program, &beside)?;
    }
    reliability::print(&program, &[beside, labels::own()?].concat())?;
    if !missed.is_empty() {
        bail!("over budget: {}", missed.join(", "));
    }
    Ok(())
}

/// Measures how large profiler captures are read.
pub(crate) fn traces() -> anyhow::Result<()> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    traces::print(&release_program()?, &folder)
}

/// Measures load clients on a server with known timing.
pub(crate) fn load() -> anyhow::Result<()> {
    let folder = target_folder()?.join("bench");
    fs::create_dir_all(&folder)?;
    load::print(&release_program()?, &folder)
}

fn budgets(folder: &Path) -> anyhow::Result<Vec<Budget>> {
    let large = folder.join("scrapes-1000x400.prom");
    scrapes::write_once(&large, 1000, 400)?;
    let example = root().join("examples/slow-first-token");
    let small = if example.is_dir() {
        example
    } else {
        let small = folder.join("scrapes-30x400.prom");
        scrapes::write_once(&small, 30, 400)?;
        small
    };
    Ok(vec![
        Budget { name: "1000 scrapes x 400 series", input: large, wall_s: 1.0, peak_bytes: 200_000_000 },
        Budget { name: "small folder", input: small, wall_s: 0.05, peak_bytes: 200_000_000 },
    ])
}

fn run_examples() -> anyhow::Result<()> {
    for (package, example) in EXAMPLES {
        if root().join("crates").join(package).join("examples").join(example).with_extension("rs").is_file() {
            succeed(&mut cargo(&["run", "--quiet", "--release", "--package", package, "--example", example]))?;
        }
    }
    Ok(())
}

fn table_row(budget: &Budget, figures: &Figures) -> String {
    let mark = |value: f64, limit: f64| if value > limit { " MISSED" } else { "" };
    format!(
        "{:<28}{:>10.3}{:>10.3}{:>10.1}   {} s{}, {} MB{}",
        budget.name,
        figures.wall_s,
        figures.user_s,
        figures.peak_bytes as f64 / 1e6,
        budget.wall_s,
        mark(figures.wall_s, budget.wall_s),
        budget.peak_bytes / 1_000_000,
        mark(figures.peak_bytes as f64, budget.peak_bytes as f64),
    )
}

fn append_history(path: &Path, line: &serde_json::Value) -> anyhow::Result<()> {
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).with_context(|| format!("could not open `{}`", path.display()))?;
    Ok(writeln!(file, "{line}")?)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn commit() -> String {
    stdout_of(&mut program("git", &["rev-parse", "--short", "HEAD"])).map_or_else(|_| "unknown".to_string(), |text| text.trim().to_string())
}
