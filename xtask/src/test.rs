//! `cargo xtask test`: everything that must hold. All steps run, also after a failure; the last line says what was
//! skipped and why. With `INFEROSCOPE_REQUIRE=all` a skip is a failure.

use std::path::PathBuf;

use anyhow::bail;

use crate::workspace::{cargo, program, release_program, root, succeed};
use crate::{generate, tidy};

/// How a step ended, other than in failure.
enum Ended {
    Passed,
    /// Why it did not run.
    Skipped(String),
}

type Step = (&'static str, fn() -> anyhow::Result<Ended>);

const STEPS: &[Step] = &[
    ("format", || passed(succeed(&mut cargo(&["fmt", "--all", "--check"])))),
    ("tidy", || passed(tidy::run())),
    ("lints", || passed(succeed(&mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])))),
    ("tests", || passed(succeed(&mut cargo(&["test", "--workspace", "--quiet", "--no-fail-fast"])))),
    ("scripts", scripts),
    ("a real Prometheus", real_prometheus),
    ("generated pages", || passed(generate::check())),
    ("score", score),
];

fn passed(result: anyhow::Result<()>) -> anyhow::Result<Ended> {
    result.map(|()| Ended::Passed)
}

/// Runs all steps.
pub(crate) fn run() -> anyhow::Result<()> {
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for (name, step) in STEPS {
        println!("== {name}");
        match step() {
            Ok(Ended::Passed) => {}
            Ok(Ended::Skipped(why)) => skipped.push(format!("{name} ({why})")),
            Err(error) => {
                println!("error: {error:#}");
                failed.push((*name).to_string());
            }
        }
    }
    println!("{}", if failed.is_empty() { "passed".to_string() } else { format!("failed: {}", failed.join(", ")) });
    println!("skipped: {}", if skipped.is_empty() { "nothing".to_string() } else { skipped.join(", ") });
    let all_required = std::env::var("INFEROSCOPE_REQUIRE").is_ok_and(|value| value == "all");
    if !failed.is_empty() || (all_required && !skipped.is_empty()) {
        bail!("{} failed, {} skipped{}", failed.len(), skipped.len(), if all_required { ", none may be" } else { "" });
    }
    Ok(())
}

/// Runs the tests of the script that records GPU captures; they need neither a GPU nor PyTorch.
fn scripts() -> anyhow::Result<Ended> {
    if program("python3", &["--version"]).output().is_err() {
        return Ok(Ended::Skipped("no python3".to_string()));
    }
    let mut command = program("python3", &["-B", "-m", "unittest", "--quiet"]);
    passed(succeed(command.current_dir(root().join("scripts/gpu-captures"))))
}

/// Says whether the tests against a real Prometheus server could run; without its programs they pass at once.
#[allow(clippy::unnecessary_wraps)] // every step of the test run has this signature
fn real_prometheus() -> anyhow::Result<Ended> {
    let missing: Vec<&str> =
        ["prometheus", "promtool"].into_iter().filter(|name| program(name, &["--version"]).output().is_err()).collect();
    Ok(if missing.is_empty() { Ended::Passed } else { Ended::Skipped(format!("no {}", missing.join(", no "))) })
}

/// Measures the verdicts on the labelled cases and recordings that lie beside the checkout.
fn score() -> anyhow::Result<Ended> {
    let shared = std::env::var_os("INFEROSCOPE_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let script = shared.join("bin/score");
    if !script.is_file() {
        return Ok(Ended::Skipped(format!("no labelled cases at {}", shared.display())));
    }
    if program("python3", &["--version"]).output().is_err() {
        return Ok(Ended::Skipped("no python3".to_string()));
    }
    let binary = release_program()?;
    let mut command = program("python3", &[]);
    command.arg(script).arg("--bin").arg(binary).arg(shared.join("cases")).arg(shared.join("corpus/vllm-cpu"));
    passed(succeed(&mut command))
}
