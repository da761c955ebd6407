//! Lines about what runs on the device: graphs and their capture, compilation, kernels chosen, memory set aside, links.
//!
//! Written at start-up, and again at run time where something is compiled or captured late: their times tell which.

use crate::builder::Builder;
use crate::engines::log::{
    Known, LogState, Message, count, dump, dump_graph_sizes, known, list_after, log, log_labels, number_after, overrule, word_after,
};

/// Messages about graphs, kernels and links.
pub(super) const LINES: &[Known] = &[
    known("Capturing CUDA graph", capturing),
    known("Capturing cudagraphs", capturing),
    known("cudagraph sizes", graph_sizes),
    known("cudagraph_capture_sizes", graph_sizes),
    known("cudagraph capture sizes", graph_sizes),
    known("Skipping CUDA graph capture", graphs_skipped),
    known("Cudagraph is disabled", graphs_skipped),
    known("CUDA graph is not supported", graphs_skipped),
    known("CUDAGraphMode.", graph_mode),
    known("CUDA graph pool memory: ", graph_memory),
    known("torch.compile takes ", compiled),
    known("torch.compile took ", compiled),
    known("Compiling a graph for", compiled),
    known("Dynamo bytecode transform time: ", compiled),
    known("Directly load the compiled graph", compiled),
    known("Directly load AOT compilation", compiled),
    known("MoE backend", moe_backend),
    known("Using configuration from ", moe_tuned),
    known("Using FlashAttention version ", flash_attention),
    known("MLA prefill backend", mla_prefill),
    known("quantization is not fully optimized", slow_quantization),
    known("explicitly, so forcing ", slower_quantization),
    known("does not have native support for FP8", weight_only_fp8),
    known("is using nccl==", nccl),
    known("swap space", swap_space),
    known("Reducing Torch parallelism from ", few_threads),
    known("Setting attention block size to ", block_size),
    known("without support for prefix caching: disabling", no_prefix_caching),
    known("for structured outputs", structured_output),
    known("guided decoding backend", structured_output),
    known("Current kv cache is too small", kv_small),
    known("Checkpoint size: ", checkpoint),
];

/// `Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|...| 67/67`: a progress bar; its last state counts.
fn capturing(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("100%") {
        return message.text.contains('%');
    }
    let bar = &message.text[message.text.find("Capturing").unwrap_or(0)..];
    let inside = bar.split('(').nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let (what, mode) = inside.rsplit_once(", ").unwrap_or((inside, ""));
    let done = bar.split("| ").nth(1).and_then(|rest| rest.split('/').next()).and_then(|done| done.trim().parse::<u32>().ok());
    let mut fields = vec![("of", what.chars().take(40).filter(|c| !c.is_whitespace()).collect::<String>()), ("mode", mode.to_string())];
    fields.extend(done.map(|done| ("count", done.to_string())));
    // Every rank draws its own bar.
    if state.grow("graphs", inside, 1.0) <= 1.0 {
        log(message, builder, "graphs_capturing", &fields);
    }
    true
}

/// `cudagraph sizes specified by model runner [1, 2, 4] is overridden by config [...]`, `cudagraph_capture_sizes: [...]`.
fn graph_sizes(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let parts = [
        "overridden by config ",
        "cudagraph_capture_sizes': ",
        "cudagraph_capture_sizes: ",
        "cudagraph_capture_sizes=",
        "sizes to ",
        "sizes: ",
        "sizes ",
    ];
    let Some(list) = parts.iter().find_map(|part| list_after(message.text, part)) else { return false };
    dump_graph_sizes(message, builder, list);
    true
}

fn graphs_skipped(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    overrule(message, builder, "config.graph_mode", "NONE");
    log(message, builder, "graphs_skipped", &[]);
    true
}

/// `CUDAGraphMode.FULL_AND_PIECEWISE is not supported with ... backend; setting cudagraph_mode=PIECEWISE`.
fn graph_mode(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let wanted = word_after(message.text, "CUDAGraphMode.").unwrap_or_default();
    let Some(mode) = word_after(message.text, "setting cudagraph_mode=") else { return false };
    let mode = mode.trim_start_matches("CUDAGraphMode.").trim_end_matches(['.', ';']);
    if mode.len() > 40 {
        return false;
    }
    overrule(message, builder, "config.graph_mode", mode);
    log(message, builder, "graph_mode_lowered", &[("from", wanted.chars().take(40).collect()), ("to", mode.to_string())]);
    true
}

/// `CUDA graph pool memory: 1.20 GiB (actual), 1.10 GiB (estimated)`.
fn graph_memory(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(gib) = number_after(message.text, "pool memory: ") else { return false };
    log(message, builder, "graph_memory", &[("gib", format!("{gib}"))]);
    true
}

/// Seconds of one compilation. After the start these are stalls of every running request.
fn compiled(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let parts = ["torch.compile takes ", "torch.compile took ", "transform time: ", " takes ", " took "];
    let Some(seconds) = parts.iter().find_map(|part| number_after(message.text, part)).filter(|seconds| *seconds >= 0.0) else {
        return false;
    };
    let is_cached = message.text.contains("Directly load");
    let step = if message.text.contains("bytecode") {
        "bytecode"
    } else if message.text.starts_with("torch.compile") {
        "total"
    } else {
        "graph"
    };
    if step == "total" {
        let own = log_labels(builder, "0", &[]);
        count(message, state, builder, "engine.compile_time", &own, seconds);
    }
    log(message, builder, "compiled", &[("part", step.to_string()), ("seconds", format!("{seconds}")), ("cached", is_cached.to_string())]);
    true
}

/// `Using TRITON Unquantized MoE backend out of ...`, `Using FlashInfer CUTLASS MoE backend`.
fn moe_backend(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(rest) = message.text.split_once("Using ").map(|(_, rest)| rest) else { return false };
    let Some(name) = rest.split(" MoE backend").next().filter(|name| !name.is_empty() && name.len() < 60) else { return false };
    dump(message, builder, "config.moe_backend", &name.replace([' ', '\''], "_"));
    true
}

/// `Using configuration from .../E=8,N=3584,device_name=...json for MoE layer.`: kernels tuned for this device.
fn moe_tuned(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("for MoE layer") {
        return false;
    }
    log(message, builder, "moe_tuned_config", &[]);
    true
}

fn flash_attention(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(version) = number_after(message.text, "FlashAttention version ") else { return false };
    dump(message, builder, "config.flash_attention_version", &format!("{version}"));
    true
}

fn mla_prefill(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = word_after(message.text, "Using ").filter(|name| name.len() < 60) else { return false };
    dump(message, builder, "config.mla_prefill_backend", name);
    true
}

/// `awq quantization is not fully optimized yet. The speed can be slower than non-quantized models.`
fn slow_quantization(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let name = message.text.split(" quantization is not").next().and_then(|head| head.split_whitespace().last()).unwrap_or_default();
    log(message, builder, "slow_quantization", &[("name", name.chars().take(40).collect())]);
    true
}

/// `Detected that the model can run with awq_marlin, however you specified quantization=awq explicitly, so forcing awq.`
fn slower_quantization(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let short = |name: &str| name.trim_end_matches(['.', ',']).chars().take(40).collect::<String>();
    let (Some(to), Some(from)) = (word_after(message.text, "can run with "), word_after(message.text, "so forcing ")) else { return false };
    log(message, builder, "slower_quantization", &[("name", short(from)), ("faster", short(to))]);
    true
}

/// FP8 weights on a device without FP8 arithmetic: weights are unpacked, activations stay 16 bit.
fn weight_only_fp8(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "weight_only_fp8", &[]);
    true
}

fn nccl(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(version) = word_after(message.text, "nccl==").filter(|version| version.len() < 20) else { return false };
    log(message, builder, "nccl", &[("version", version.to_string())]);
    true
}

/// `Possibly too large swap space. 16.00 GiB out of the 31.00 GiB total CPU memory is allocated for the swap space.`
fn swap_space(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let text = message.text.to_ascii_lowercase();
    let Some(gib) = number_after(&text, "too large swap space.").or_else(|| number_after(&text, "too large swap space:")) else {
        return false;
    };
    dump(message, builder, "config.swap_space", &format!("{}", (gib.clamp(0.0, 1e6) * 1_073_741_824.0) as i64));
    log(message, builder, "swap_space_large", &[("gib", format!("{gib}"))]);
    true
}

/// `Reducing Torch parallelism from 64 threads to 1 to avoid unnecessary CPU contention.`
fn few_threads(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let (Some(from), Some(to)) = (number_after(message.text, "parallelism from "), number_after(message.text, " threads to ")) else {
        return false;
    };
    log(message, builder, "torch_threads", &[("from", format!("{from}")), ("to", format!("{to}"))]);
    true
}

fn block_size(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(tokens) = number_after(message.text, "block size to ").filter(|tokens| *tokens >= 1.0) else { return false };
    dump(message, builder, "config.block_size", &format!("{tokens}"));
    true
}

fn no_prefix_caching(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    overrule(message, builder, "config.prefix_caching", "false");
    log(message, builder, "prefix_caching_off", &[]);
    true
}

/// `Using 'xgrammar' as the backend for structured outputs`.
fn structured_output(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let known = ["xgrammar", "guidance", "outlines", "lm-format-enforcer"];
    let Some(name) = known.iter().find(|name| message.text.contains(*name)) else { return false };
    dump(message, builder, "config.structured_output_backend", name);
    true
}

fn kv_small(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "kv_too_small", &[]);
    true
}

/// `Filesystem type for checkpoints: EXT4. Checkpoint size: 0.02 GiB. Available RAM: 15.89 GiB.`
fn checkpoint(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(gib) = number_after(message.text, "Checkpoint size: ") else { return false };
    log(message, builder, "checkpoint", &[("gib", format!("{gib}"))]);
    true
}
