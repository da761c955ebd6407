//! `inferoscope plan`: a model, devices, requests and limits in; what to do first and what not to do out.

mod model_file;
mod requests;

use std::ffi::OsString;
use std::path::PathBuf;

use analysis::plan::document::PlanStatus;
use analysis::plan::{Acceptance, Demand, Objective, PlanInput, Slo, Statistic, plan};
use anyhow::bail;
use capture::signals::edit_distance;
use clap::ValueEnum;
use model::hardware::{self, Gpu};
use model::memory::Dtype;
use report::views;

use self::requests::Requests;
use crate::evidence::Pace;
use crate::exit::{Exit, Listed};
use crate::screen::Screen;
use crate::{out, quantity};

/// Plan a deployment: what fits, what to enable, in which order
///
/// Goes the six steps (memory, prefixes, batching, fragmentation, speculation, disaggregation) for a model, devices, requests
/// and limits, and orders what to do first, what not to do and why, each with what it is predicted to change.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(after_help = "Exit codes: 0 a plan that keeps the limits, or no limits were set; 1 it does not fit, or nothing tried keeps the \
                        limits; 2 could not run")]
pub(crate) struct Args {
    /// A name, a config.json, a GGUF file, or a folder with config.json and safetensors
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,

    /// Device and how many of it, as in h100-sxm:8
    #[arg(long, value_name = "NAME[:COUNT]")]
    gpu: String,

    /// Requests as recorded: a trace of Mooncake, Bailian, Azure, BurstGPT or bare lengths
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt_tokens", "output_tokens", "capture"])]
    workload: Option<PathBuf>,

    /// Requests as measured: files, folders or captures with request rows; their TPOT is the baseline
    #[arg(long, value_name = "INPUT", num_args = 1.., conflicts_with_all = ["prompt_tokens", "output_tokens"])]
    capture: Vec<OsString>,

    /// Prompt tokens of every request
    #[arg(long, value_name = "N", requires = "output_tokens")]
    prompt_tokens: Option<u32>,

    /// Output tokens of every request
    #[arg(long, value_name = "N", requires = "prompt_tokens")]
    output_tokens: Option<u32>,

    /// Requests per second [default: as recorded; with lengths alone as many in flight as fit]
    #[arg(long, value_name = "R")]
    rate: Option<f64>,

    /// Keep as many requests in flight as fit, whatever the recording's rate
    #[arg(long, conflicts_with = "rate")]
    offline: bool,

    /// What must be kept: ttft.p99=1s,tpot=50ms; a mean, or a percentile
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    slo: Option<Slo>,

    /// What matters most
    #[arg(long, value_enum, default_value_t = Aim::Latency)]
    objective: Aim,

    /// Price of one GPU, USD per hour
    #[arg(long, value_name = "USD")]
    price: Option<f64>,

    /// Format of the weights: bf16, fp8, int8, int4, nvfp4, mxfp4 [default: as published]
    #[arg(long, value_name = "FORMAT", value_parser = dtype)]
    weights: Option<Dtype>,

    /// Format of the KV cache: bf16, fp8 [default: bf16]
    #[arg(long, value_name = "FORMAT", value_parser = dtype)]
    kv: Option<Dtype>,

    /// GPUs that share one copy of the model [default: all, 8 at most]
    #[arg(long, value_name = "N")]
    tensor: Option<u32>,

    /// The engine's cap on running requests [default: vLLM's for the device]
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u32>,

    /// The engine's cap on tokens per step [default: vLLM's for the device]
    #[arg(long, value_name = "N")]
    max_num_batched_tokens: Option<u32>,

    /// KV cache of one engine in tokens, as its log says [default: computed]
    #[arg(long, value_name = "TOKENS")]
    kv_tokens: Option<f64>,

    /// Longest request the engine accepts [default: the longest seen]
    #[arg(long, value_name = "TOKENS")]
    max_model_len: Option<u32>,

    /// Share of drafts that are accepted, as measured; without it speculation is not judged
    #[arg(long, value_name = "SHARE")]
    acceptance: Option<f64>,

    /// Link between groups of GPUs, GB/s per GPU [default: the GPU's own]
    #[arg(long, value_name = "GB/S")]
    link: Option<f64>,

    /// Also print every step's figures and tables
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    verbose: bool,

    /// Print the plan as one JSON document
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print the plan as Markdown
    #[arg(long)]
    markdown: bool,

    #[command(flatten)]
    pace: Pace,
}

/// `--objective`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Aim {
    /// Keep the limits and change as little as possible
    Latency,
    /// Most tokens per GPU within the limits
    Throughput,
}

/// Plans and prints.
pub(crate) fn run(args: &Args, screen: &Screen) -> anyhow::Result<Exit> {
    let (gpu, gpu_count) = gpu(&args.gpu)?;
    let file = model_file::read(&args.model)?;
    let requests = requests::read(args)?;
    let mut assumptions = file.assumptions;
    assumptions.extend(requests.remarks.iter().cloned());
    let input = PlanInput {
        model: &file.shape,
        model_name: file.name,
        gpu,
        gpu_count,
        weights: args.weights.or(file.weights),
        kv: args.kv,
        weight_bytes: if args.weights.is_none() { file.weight_bytes } else { None },
        tensor: args.tensor,
        max_num_seqs: args.max_num_seqs,
        max_batched_tokens: args.max_num_batched_tokens,
        kv_tokens: args.kv_tokens,
        max_model_len: args.max_model_len,
        traffic: requests.traffic(),
        demand: demand(args, &requests),
        slo: args.slo.unwrap_or_default(),
        objective: if args.objective == Aim::Latency { Objective::Latency } else { Objective::Throughput },
        price_per_gpu_h: args.price,
        acceptance: args.acceptance.map(|rate| Acceptance { rate }),
        link_bytes_per_s: args.link.map(|gb_per_s| gb_per_s * 1e9),
        measured_tpot_s: requests.tpot_s,
        assumptions,
    };
    let plan = plan(&input)?;
    out::print(&if args.json {
        views::json::render_plan(&plan)
    } else if args.markdown {
        views::plan::render_markdown(&plan)
    } else if args.verbose {
        views::plan::render_tables(&plan, screen.options(None))
    } else {
        views::plan::render(&plan, screen.options(None))
    })?;
    Ok(match plan.verdict.status {
        PlanStatus::KeptNow | PlanStatus::KeptAfter | PlanStatus::NoLimits => Exit::Done,
        PlanStatus::OutOfReach | PlanStatus::DoesNotFit => Exit::OutOfReach,
    })
}

fn demand(args: &Args, requests: &Requests) -> Demand {
    match args.rate {
        Some(rate) => Demand::Rate(rate),
        None if args.offline || !requests.is_recorded() => Demand::Offline,
        None => Demand::Recorded,
    }
}

/// Reads `ttft.p99=1s,tpot=50ms`.
fn limits(text: &str) -> Result<Slo, String> {
    let mut slo = Slo::default();
    for (signal, limit_s) in quantity::limits(text)? {
        let (name, statistic) = analysis::slo::parts(&signal);
        let statistic = match statistic {
            None => Statistic::Mean,
            Some("max") => Statistic::Quantile(1.0),
            Some(percentile) => {
                let share = percentile.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
                Statistic::Quantile(share.ok_or_else(|| format!("expected a mean or a percentile, found `{percentile}`"))? / 100.0)
            }
        };
        let limit = match name {
            "ttft" => &mut slo.ttft,
            "tpot" | "itl" => &mut slo.tpot,
            other => return Err(format!("a plan keeps limits on ttft and tpot, found `{other}`")),
        };
        if limit.replace((statistic, limit_s)).is_some() {
            return Err(format!("one limit on {name} is kept, found two"));
        }
    }
    Ok(slo)
}

fn dtype(text: &str) -> Result<Dtype, String> {
    Dtype::parse(text).ok_or_else(|| format!("expected bf16, fp8, int8, int4, nvfp4, mxfp4 or fp32, found `{text}`"))
}

/// Reads `h100-sxm:8`.
fn gpu(text: &str) -> anyhow::Result<(&'static Gpu, u32)> {
    let (name, count) = match text.rsplit_once(':') {
        None => (text, 1),
        Some((name, count)) => match count.trim().parse::<u32>() {
            Ok(count) if (1..=1024).contains(&count) => (name, count),
            _ => bail!("--gpu: expected a count from 1 to 1024 after `:`, found `{count}`"),
        },
    };
    if let Some(gpu) = hardware::find(name) {
        return Ok((gpu, count));
    }
    let known: Vec<(&str, &str)> = hardware::all().iter().map(|gpu| (gpu.id.as_str(), gpu.name.as_str())).collect();
    Err(unknown("GPU", name, &known))
}

/// Names nearest to one that is not in a table: those that contain it, else the fewest letters apart.
fn unknown(what: &str, name: &str, known: &[(&str, &str)]) -> anyhow::Error {
    const SHOWN: usize = 6;
    let asked = name.trim().to_ascii_lowercase();
    let mut near: Vec<(usize, &str, &str)> = known
        .iter()
        .map(|(id, full)| {
            let lower = id.to_ascii_lowercase();
            let distance = if !asked.is_empty() && lower.contains(&asked) { 0 } else { edit_distance(&lower, &asked) };
            (distance, *id, *full)
        })
        .collect();
    near.sort_unstable();
    let lines = near.iter().take(SHOWN).map(|(_, id, full)| if id == full { (*id).to_string() } else { format!("{id}  ({full})") });
    Listed { sentence: format!("no {what} of the table is called `{name}`, or several differ; near it:"), lines: lines.collect() }.into()
}
