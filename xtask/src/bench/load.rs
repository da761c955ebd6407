//! `cargo xtask bench load`: load clients of several makes on one server with known timing, in one run.
//!
//! The server is `load_bench serve` of the crate `live`, a process of its own that tells the truth when it ends. CPU time is that of
//! a client and all its children; what it costs to start and to report is taken out with a run of a few requests.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;

use super::measure::measure_with;
use crate::workspace::{cargo, succeed, target_folder};

/// What the server does, and how much of it is asked for.
struct Scene {
    name: &'static str,
    script: &'static str,
    users: u32,
    requests: u32,
    /// The same for clients written in Python, which take minutes.
    python_requests: u32,
    chunks: u32,
}

const SCENES: [Scene; 2] = [
    Scene { name: "paced, 256 users", script: "paced", users: 256, requests: 768, python_requests: 768, chunks: 64 },
    Scene { name: "flood, 64 users", script: "flood", users: 64, requests: 2000, python_requests: 200, chunks: 256 },
];
/// Requests of the run that tells what starting and reporting cost.
const FEW: u32 = 8;

/// Times in ms: of first tokens and of gaps between chunks, the middle and the 99th percentile.
type Times = [Option<f64>; 4];

/// A client: its name, whether it is written in Python, its command, and what it reports.
struct Client {
    name: &'static str,
    is_python: bool,
    command: fn(&Tools, &Task) -> Command,
    times: fn(&Tools, &Task) -> Option<Times>,
}

struct Tools {
    program: PathBuf,
    peers: PathBuf,
    out: PathBuf,
}

struct Task {
    url: String,
    users: u32,
    requests: u32,
    chunks: u32,
}

const CLIENTS: [Client; 4] = [
    Client { name: "inferoscope load", is_python: false, command: ours, times: our_times },
    Client { name: "sglang-bench", is_python: false, command: sglang, times: sglang_times },
    Client { name: "aiperf", is_python: true, command: aiperf, times: aiperf_times },
    Client { name: "guidellm", is_python: true, command: guidellm, times: guidellm_times },
];

/// Prints the table.
pub(super) fn print(program: &Path, folder: &Path) -> anyhow::Result<()> {
    succeed(cargo(&["build", "--release", "--package", "live", "--example", "load_bench"]).stdout(Stdio::null()))?;
    let server = target_folder()?.join("release/examples/load_bench");
    let tools = Tools { program: program.to_path_buf(), peers: folder.join("load-peers"), out: folder.join("load") };
    println!("reported times less true ones, ms; CPU per chunk without start and report, and all CPU of the run");
    for scene in &SCENES {
        println!(
            "{:<28}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}",
            scene.name, "TTFT p50", "TTFT p99", "gap p50", "gap p99", "us/chunk", "CPU s", "peak MB"
        );
        for client in &CLIENTS {
            let row = row(&server, &tools, scene, client);
            match row {
                Ok(row) => println!("  {:<26}{row}", client.name),
                Err(error) => println!("  {:<26}{error:#}; `scripts/bench-peers` installs the peers", client.name),
            }
        }
    }
    Ok(())
}

fn row(server: &Path, tools: &Tools, scene: &Scene, client: &Client) -> anyhow::Result<String> {
    let requests = if client.is_python { scene.python_requests } else { scene.requests };
    let few = once(server, tools, scene, client, FEW)?;
    let all = once(server, tools, scene, client, requests)?;
    let chunks = f64::from((requests - FEW) * scene.chunks);
    let per_chunk = 1e6 * (all.cpu_s - few.cpu_s) / chunks;
    let text = |error: &Option<f64>| error.map_or_else(|| format!("{:>10}", "-"), |ms| format!("{ms:>10.3}"));
    let errors: String = all.errors.iter().map(text).collect();
    Ok(format!("{errors}{per_chunk:>12.2}{:>10.2}{:>10.0}", all.cpu_s, all.peak_bytes as f64 / 1e6))
}

struct Outcome {
    cpu_s: f64,
    peak_bytes: u64,
    errors: Times,
}

fn once(server: &Path, tools: &Tools, scene: &Scene, client: &Client, requests: u32) -> anyhow::Result<Outcome> {
    let _ = fs::remove_dir_all(&tools.out);
    fs::create_dir_all(&tools.out)?;
    let mut server = Server::start(server, scene.script)?;
    let task = Task { url: format!("http://{}", server.address), users: scene.users.min(requests), requests, chunks: scene.chunks };
    let log = tools.out.join("client.log");
    let figures = measure_with(1, || {
        let mut command = (client.command)(tools, &task);
        let output = |name: &str| fs::File::create(tools.out.join(name)).map_or_else(|_| Stdio::null(), Stdio::from);
        command.stdout(output("stdout")).stderr(output("client.log"));
        command
    });
    let figures = figures.with_context(|| format!("see `{}`", log.display()))?;
    let truth = server.truth()?;
    let told = (client.times)(tools, &task).context("it left no result")?;
    let names = ["ttft_p50", "ttft_p99", "gap_p50", "gap_p99"];
    let errors = std::array::from_fn(|at| Some(told[at]? - truth[names[at]].as_f64()?));
    Ok(Outcome { cpu_s: figures.user_s + figures.system_s, peak_bytes: figures.peak_bytes, errors })
}

/// The server with known timing.
struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Server {
    fn start(program: &Path, script: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(program).args(["serve", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut address = String::new();
        lines.read_line(&mut address)?;
        Ok(Self { child, lines, address: address.trim().to_string() })
    }

    fn truth(&mut self) -> anyhow::Result<Value> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        self.child.wait()?;
        serde_json::from_str(&line).with_context(|| format!("the server told `{line}`"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn python(tools: &Tools) -> Command {
    Command::new(tools.peers.join("bin/python"))
}

fn tokenizer(tools: &Tools) -> String {
    tools.peers.join("tokenizer").to_string_lossy().into_owned()
}

fn ours(tools: &Tools, task: &Task) -> Command {
    let mut command = Command::new(&tools.program);
    let (users, requests, tokens) = (task.users.to_string(), task.requests.to_string(), task.chunks.to_string());
    command.args(["load", &task.url, "--no-metrics", "--json", "--prompt-tokens", "32", "--output-tokens", &tokens]);
    command.args(["--users", &users, "--requests", &requests, "--ramp-up", "0s"]);
    command
}

fn our_times(tools: &Tools, _: &Task) -> Option<Times> {
    let told = read(&tools.out.join("stdout"))?;
    let ms = |figure: &str, rank: &str| told[figure][rank].as_f64().map(|seconds| 1e3 * seconds);
    Some([ms("ttft", "p50_s"), ms("ttft", "p99_s"), ms("chunk_gap", "p50_s"), ms("chunk_gap", "p99_s")])
}

/// Runs the compiled module of the wheel without the rest of it.
const SGLANG: &str = "import importlib.util, pathlib, sys, sysconfig\n\
    folder = pathlib.Path(sysconfig.get_paths()['purelib']) / 'sglang/srt/rust_extensions'\n\
    spec = importlib.util.spec_from_file_location('_bench', next(folder.glob('_bench*.so')))\n\
    module = importlib.util.module_from_spec(spec)\n\
    spec.loader.exec_module(module)\n\
    module.run_argv(['sglang-bench'] + sys.argv[1:])";

fn sglang(tools: &Tools, task: &Task) -> Command {
    let mut command = python(tools);
    let (users, requests, tokens) = (task.users.to_string(), task.requests.to_string(), task.chunks.to_string());
    command.args(["-c", SGLANG, "--backend", "vllm-chat", "--base-url", &task.url, "--model", "known", "--tokenizer", &tokenizer(tools)]);
    command.args(["--dataset-name", "random-ids", "--random-input-len", "32", "--random-range-ratio", "1", "--random-output-len", &tokens]);
    command.args(["--num-prompts", &requests, "--max-concurrency", &users, "--warmup-requests", "0"]);
    command.args(["--disable-tqdm", "--disable-retokenize", "--output-file"]).arg(tools.out.join("sglang.json"));
    command
}

fn sglang_times(tools: &Tools, _: &Task) -> Option<Times> {
    let told = read(&tools.out.join("sglang.json"))?;
    Some(["median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms"].map(|name| told[name].as_f64()))
}

fn aiperf(tools: &Tools, task: &Task) -> Command {
    let mut command = Command::new(tools.peers.join("bin/aiperf"));
    let (users, requests, tokens) = (task.users.to_string(), task.requests.to_string(), task.chunks.to_string());
    command.args(["profile", "--model", "known", "--url", &task.url, "--endpoint-type", "chat", "--streaming"]);
    command.args(["--concurrency", &users, "--request-count", &requests, "--isl", "32", "--isl-stddev", "0", "--osl", &tokens]);
    command.args(["--osl-stddev", "0", "--tokenizer", &tokenizer(tools), "--ui", "none", "--artifact-dir"]).arg(&tools.out);
    command
}

fn aiperf_times(tools: &Tools, _: &Task) -> Option<Times> {
    let told = read(&tools.out.join("profile_export_aiperf.json"))?;
    let ms = |figure: &str, rank: &str| told[figure][rank].as_f64();
    let (first, gap) = ("time_to_first_token", "inter_chunk_latency");
    Some([ms(first, "p50"), ms(first, "p99"), ms(gap, "p50"), ms(gap, "p99")])
}

fn guidellm(tools: &Tools, task: &Task) -> Command {
    let mut command = Command::new(tools.peers.join("bin/guidellm"));
    command.args(["run", "--backend", &format!("kind=openai_http,target={},model=known", task.url)]);
    command.args(["--profile", &format!("kind=concurrent,streams={}", task.users)]);
    command.args(["--constraint", &format!("kind=max_requests,count={}", task.requests)]);
    command.args(["--tokenizer", &format!("kind=hf_auto,model={}", tokenizer(tools))]);
    command.args(["--data", &format!("kind=synthetic_text,prompt_tokens=32,output_tokens={}", task.chunks)]);
    let out = tools.out.join("guidellm.json");
    command.args(["--output", &format!("kind=json,path={}", out.display()), "--disable-console"]);
    command
}

/// Its gaps are means of each request: no percentile of gaps between chunks.
fn guidellm_times(tools: &Tools, _: &Task) -> Option<Times> {
    let told = read(&tools.out.join("guidellm.json"))?;
    let ranks = &told["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["percentiles"];
    Some([ranks["p50"].as_f64(), ranks["p99"].as_f64(), None, None])
}
