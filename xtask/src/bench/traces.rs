//! `cargo xtask bench traces`: large profiler captures, read, accounted for and judged, in one run with the peers.
//!
//! The captures are made by the scripts beside the corpus of traces (real ones repeated in time), some gigabytes in all.
//! Peers are those that `scripts/bench-peers` installed; one that is missing is named.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::measure::{Figures, measure_with};
use crate::workspace::{cargo, program, root, succeed};

/// The scripts and what they repeat.
const CORPUS: &str = "../shared/corpus/traces";
const KINETO_BASE: &str = "tracelens/b200/eager_trace.json.gz";
const NSYS_BASE: &str = "nsys-ai/mfu_2gpu_before.sqlite";
/// Runs of ours; the peers, which take minutes, run once.
const RUNS: usize = 3;

/// One capture, and what it may cost.
struct Input {
    name: &'static str,
    path: PathBuf,
    /// Bytes of text or pages to be gone through.
    unpacked_bytes: u64,
    /// GB per CPU second to be reached.
    gb_per_cpu_s: f64,
    peak_bytes: u64,
}

/// Prints the table; an error where a budget is missed.
pub(super) fn print(binary: &Path, folder: &Path) -> anyhow::Result<()> {
    let corpus = root().join(CORPUS);
    if !corpus.is_dir() {
        bail!("expected the corpus of traces at `{CORPUS}` to make large ones of");
    }
    let inputs = inputs(&corpus, folder)?;
    let mut missed = Vec::new();
    println!("{:<44}{:>9}{:>9}{:>9}{:>10}{:>11}   budget", "", "wall s", "user s", "sys s", "peak MB", "GB/CPU-s");
    for input in &inputs {
        let figures = measure_with(RUNS, || ours(binary, input, &["diagnose", "--json"]))?;
        let rate = print_row(&format!("inferoscope diagnose {}", input.name), input, &figures);
        println!("   {} GB/CPU-s, {} MB", input.gb_per_cpu_s, input.peak_bytes / 1_000_000);
        if rate < input.gb_per_cpu_s || figures.peak_bytes > input.peak_bytes {
            missed.push(input.name);
        }
    }
    for input in [&inputs[0], &inputs[2]] {
        println!("reading alone, {}, by threads:", input.name);
        for threads in ["1", "2", "4"] {
            let mut bench = cargo(&["run", "--quiet", "--release", "--package", "ingest", "--example", "trace_bench", "--"]);
            succeed(bench.arg(&input.path).arg(threads))?;
        }
    }
    let capture = folder.join("trace.capture");
    let write = || {
        let _ = fs::remove_dir_all(&capture);
        let mut command = ours(binary, &inputs[0], &["capture"]);
        command.arg("--output").arg(&capture);
        command
    };
    print_row(&format!("inferoscope capture {}", inputs[0].name), &inputs[0], &measure_with(RUNS, write)?);
    println!("   0.35 GB/CPU-s");
    peers(folder, &inputs);
    if !missed.is_empty() {
        bail!("over budget: {}", missed.join(", "));
    }
    Ok(())
}

fn ours(binary: &Path, input: &Input, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).arg(&input.path).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn print_row(name: &str, input: &Input, figures: &Figures) -> f64 {
    let rate = input.unpacked_bytes as f64 / 1e9 / (figures.user_s + figures.system_s).max(1e-9);
    let Figures { wall_s, user_s, system_s, peak_bytes } = figures;
    print!("{name:<44}{wall_s:>9.2}{user_s:>9.2}{system_s:>9.2}{:>10.0}{rate:>11.3}", *peak_bytes as f64 / 1e6);
    rate
}

/// Makes the captures that are not there yet.
fn inputs(corpus: &Path, folder: &Path) -> anyhow::Result<Vec<Input>> {
    let kineto = |name: &str, megabytes: &str| -> anyhow::Result<(PathBuf, u64)> {
        let path = folder.join(name);
        make(&path, &corpus.join("make_large.py"), &corpus.join(KINETO_BASE), &["--mb", megabytes])?;
        let bytes = fs::metadata(&path)?.len();
        Ok((path, bytes))
    };
    let (small, small_bytes) = kineto("kineto-300.json", "300")?;
    let (large, large_bytes) = kineto("kineto-1000.json", "1000")?;
    let packed = folder.join("kineto-300.json.gz");
    if !packed.is_file() {
        let whole = folder.join("kineto-300.json.gz.part");
        succeed(program("gzip", &["-6", "-c"]).arg(&small).stdout(File::create(&whole)?))?;
        fs::rename(whole, &packed)?;
    }
    let nsys = folder.join("nsys-5m.sqlite");
    make(&nsys, &corpus.join("make_large_nsys.py"), &corpus.join(NSYS_BASE), &["--kernels", "5000000"])?;
    let nsys_bytes = fs::metadata(&nsys)?.len();
    let input = |name, path, unpacked_bytes, gb_per_cpu_s, peak_bytes| Input { name, path, unpacked_bytes, gb_per_cpu_s, peak_bytes };
    Ok(vec![
        input("Kineto 303 MB", small, small_bytes, 0.5, 256_000_000),
        input("Kineto 1.01 GB", large, large_bytes, 0.5, 256_000_000),
        input("Kineto 303 MB as .gz", packed, small_bytes, 0.3, 256_000_000),
        input("nsys 5 M kernels, 40 M rows", nsys, nsys_bytes, nsys_bytes as f64 / 1e9 / 6.0, 800_000_000),
    ])
}

fn make(path: &Path, script: &Path, base: &Path, size: &[&str]) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let part = path.with_extension("part");
    let _ = fs::remove_file(&part);
    succeed(program("python3", &[]).arg(script).arg(base).arg(&part).args(size))?;
    fs::rename(&part, path).with_context(|| format!("could not finish `{}`", path.display()))
}

/// What each peer is asked to do: its own counterpart of a device account.
const PEERS: [(&str, &str, usize, &str); 3] = [
    (
        "HolisticTraceAnalysis",
        "hta",
        0,
        "import sys, pathlib, shutil, tempfile\n\
         from hta.trace_analysis import TraceAnalysis\n\
         a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=str(pathlib.Path(sys.argv[1]).parent))\n\
         a.get_temporal_breakdown(visualize=False)\n\
         a.get_gpu_kernel_breakdown(visualize=False)",
    ),
    (
        "TraceLens",
        "TraceLens",
        0,
        "import sys\n\
         from TraceLens import TreePerfAnalyzer\n\
         TreePerfAnalyzer.from_file(sys.argv[1]).get_df_gpu_timeline()",
    ),
    ("nsys-ai", "nsys_ai", 3, "import sys\nsys.argv = ['nsys-ai', 'diagnose', sys.argv[1]]\nfrom nsys_ai.__main__ import main\nmain()"),
];

fn peers(folder: &Path, inputs: &[Input]) {
    let python = folder.join("peers/bin/python");
    for (name, module, input, script) in PEERS {
        let installed = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
        if !installed.is_ok_and(|status| status.success()) {
            println!("{name}: not installed; `scripts/bench-peers` installs it");
            continue;
        }
        let input = &inputs[input];
        let figures = measure_with(1, || {
            let mut command = Command::new(&python);
            command.args(["-c", script]).arg(&input.path).stdout(Stdio::null()).stderr(Stdio::null());
            command
        });
        match figures {
            Ok(figures) => {
                print_row(&format!("{name}, {}", input.name), input, &figures);
                println!();
            }
            Err(error) => println!("{name}, {}: {error:#}", input.name),
        }
    }
}
