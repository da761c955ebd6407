//! Lines that any server may write, whatever the engine: recompiles, slow paths, collectives, running out of memory.
//!
//! | line | becomes |
//! |---|---|
//! | `torch._dynamo hit config.recompile_limit (8)` | `engine.recompile_limit_hits`, log `recompile` with the limit and the rank |
//! | `Triton kernel JIT compilation during inference: NAME` | log `jit_compiled` with the kernel |
//! | `Using a slow tokenizer` | log `slow_tokenizer`, `config.slow_tokenizer` |
//! | `Using default MoE config`, `Using default ... kernel config` | log `moe_default_config`, `default_kernel_config` |
//! | NCCL's `via NET/Socket`, `via P2P/...`, `via SHM` | `comm.transport`, the slowest one seen; log `transport` |
//! | `NCCL_P2P_DISABLE set by environment to 1` | `env.` setting |
//! | custom all-reduce that is off or failed | `config.disable_custom_all_reduce`, log with the reason |
//! | a CUDA graph capture that failed | log `graph_capture_failed` |
//! | clocks that were throttled | log `throttled` |

use crate::builder::Builder;

use super::{Known, LogState, Message, count, dump, known, log, log_labels, number_after, overrule, word_after};

/// Messages that need no engine.
pub(crate) const LINES: &[Known] = &[
    known("hit config.recompile_limit", recompile),
    known("hit config.cache_size_limit", recompile),
    known("torch._dynamo hit", recompile),
    known("JIT compilation during inference", jit_compiled),
    known("Using a slow tokenizer", slow_tokenizer),
    known("Using default MoE config", moe_config),
    known("Using default W", kernel_config),
    known(" via NET/", transport),
    known(" via P2P", transport),
    known(" via SHM", transport),
    known("NCCL INFO NET/", network),
    known("NCCL_P2P_DISABLE", nccl_environment),
    known("NCCL_SHM_DISABLE", nccl_environment),
    known("NCCL_IB_DISABLE", nccl_environment),
    known("ustom allreduce", custom_all_reduce),
    known("ustom all-reduce", custom_all_reduce),
    known("apture cuda graph failed", graph_capture_failed),
    known("apture CUDA graph failed", graph_capture_failed),
    known("UDA graph capture failed", graph_capture_failed),
    known("uda graph capture failed", graph_capture_failed),
    known("hermal throttl", throttled),
    known("clocks throttled", throttled),
    known("SW Power Cap", throttled),
    known("CUDA out of memory", out_of_memory),
    known("OutOfMemoryError", out_of_memory),
    known("EngineDeadError", engine_dead),
];

/// `[rank1]:W0716 01:10:47.676000 567101 torch/_dynamo/convert_frame.py:984] [0/8] torch._dynamo hit config.recompile_limit (8)`.
/// It is written once per rank and compiled function: afterwards that function runs without compilation.
fn recompile(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let limit = number_after(message.text, "_limit (").map_or(String::new(), |limit| format!("{limit}"));
    let mut fields = vec![("limit", limit)];
    if !message.rank.is_empty() {
        fields.push(("rank", message.rank.to_string()));
    }
    let own = log_labels(builder, "0", &[]);
    count(message, state, builder, "engine.recompile_limit_hits", &own, 1.0);
    log(message, builder, "recompile", &fields);
    true
}

/// `Triton kernel JIT compilation during inference: expand_kernel. This causes a latency spike; ...`
fn jit_compiled(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let rest = message.text.split("during inference: ").nth(1).unwrap_or_default();
    log(message, builder, "jit_compiled", &[("kernel", rest.chars().take(60).take_while(is_name).collect())]);
    true
}

fn slow_tokenizer(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    dump(message, builder, "config.slow_tokenizer", "true");
    log(message, builder, "slow_tokenizer", &[]);
    true
}

fn moe_config(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let field = |key: &str| message.text.split(&format!("{key}=")).nth(1).and_then(|rest| rest.split([',', '.', '\'']).next());
    let mut fields = Vec::new();
    for key in ["E", "N", "device_name", "dtype"] {
        fields.extend(field(key).map(|value| (key, value.to_string())));
    }
    if let Some(device) = field("device_name") {
        builder.capture.manifest.subject.device = device.replace('_', " ");
    }
    log(message, builder, "moe_default_config", &fields);
    true
}

/// `Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal!`
fn kernel_config(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !message.text.contains("kernel config") {
        return false;
    }
    let what = message.text.split("Using default ").nth(1).and_then(|rest| rest.split(" kernel config").next());
    let what = what.filter(|what| what.len() < 60).unwrap_or_default().replace(' ', "_");
    log(message, builder, "default_kernel_config", &[("kernel", what)]);
    true
}

/// Transports from slow to fast: as NCCL writes them, and as we call them.
const TRANSPORTS: &[(&str, &str)] = &[("NET/Socket", "socket"), ("NET/", "net"), ("SHM", "shm"), ("P2P", "p2p")];

/// `host:123:456 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM`, or `[send] via NET/Socket/0`, `via SHM/direct`.
/// The slowest path decides a collective, so it is kept; `NET/IB` and other networks are told apart.
fn transport(message: &Message<'_>, state: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(way) = word_after(message.text, " via ") else { return false };
    let is_ib = way.starts_with("NET/IB");
    let Some(rank) = TRANSPORTS.iter().position(|(start, _)| way.starts_with(start)) else { return false };
    let name = if is_ib { "ib" } else { TRANSPORTS[rank].1 };
    // One row per transport is enough: a start-up prints one line per channel and peer.
    if state.grow("comm.transport", name, 1.0) <= 1.0 {
        let slower = &TRANSPORTS[..rank];
        let has_slower = slower.iter().any(|(_, known)| state.grow("comm.transport", known, 0.0) > 0.0)
            || (rank > 1 && state.grow("comm.transport", "ib", 0.0) > 0.0);
        if !has_slower {
            overrule(message, builder, "comm.transport", name);
        }
        log(message, builder, "transport", &[("transport", name.to_string()), ("via", way.chars().take(40).collect())]);
    }
    true
}

/// `NCCL INFO NET/Socket : Using [0]eth0:...`: the network for other nodes, used only if a channel goes over it.
fn network(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = message.text.split("NCCL INFO NET/").nth(1).and_then(|rest| rest.split([' ', ':', '.']).next()) else { return false };
    if name.is_empty() || name.len() > 20 || !message.text.contains("Using") {
        return false;
    }
    log(message, builder, "network", &[("name", name.to_string())]);
    true
}

/// `NCCL_P2P_DISABLE set by environment to 1.`, or an export in a wrapper's output.
fn nccl_environment(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let Some(name) = ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"].into_iter().find(|name| message.text.contains(name))
    else {
        return false;
    };
    let rest = &message.text[message.text.find(name).unwrap_or(0) + name.len()..];
    let value = rest.strip_prefix('=').or_else(|| rest.split("environment to ").nth(1)).unwrap_or_default();
    let digits: String = value.chars().take_while(char::is_ascii_digit).take(3).collect();
    if digits.is_empty() {
        return false;
    }
    builder.setting(builder.context.replica_setting(), &format!("env.{name}"), &digits, "start-up dump", message.line);
    true
}

/// Why an engine does not use its own all-reduce.
const REASONS: &[(&str, &str)] = &[
    ("world size", "world_size"),
    ("P2P", "no_p2p"),
    ("peer access", "no_p2p"),
    ("PCIe", "pcie"),
    ("across nodes", "nodes"),
    ("isn't supported across", "nodes"),
    ("NVLink", "no_nvlink"),
];

/// `Custom allreduce is disabled because ...`, `Setup Custom allreduce failed with ...`.
fn custom_all_reduce(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    if !["disabled", "failed", "not supported"].iter().any(|word| message.text.contains(word)) {
        return false;
    }
    let reason = REASONS.iter().find(|(part, _)| message.text.contains(part)).map_or("other", |(_, reason)| reason);
    overrule(message, builder, "config.disable_custom_all_reduce", "true");
    log(message, builder, "custom_all_reduce_off", &[("reason", reason.to_string())]);
    true
}

fn graph_capture_failed(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "graph_capture_failed", &[]);
    true
}

fn throttled(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    let reason = if message.text.contains("Power") { "power" } else { "thermal" };
    log(message, builder, "throttled", &[("reason", reason.to_string())]);
    true
}

fn out_of_memory(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "out_of_memory", &[]);
    true
}

fn engine_dead(message: &Message<'_>, _: &mut LogState, builder: &mut Builder<'_>) -> bool {
    log(message, builder, "engine_dead", &[]);
    true
}

/// Looks for messages that need no engine in one line of an unknown log.
pub(crate) fn line(line: &[u8], number: u64, state: &mut LogState, builder: &mut Builder<'_>) {
    if line.len() > 4096 {
        return;
    }
    let text = String::from_utf8_lossy(line);
    let rank = rank_of(&text);
    super::read(LINES, &Message { t_ns: 0, level: "", file: "", rank, text: &text, line: number }, state, builder);
}

/// `[rank1]:` at the start of a line, as torch writes it under `torchrun`.
pub(crate) fn rank_of(line: &str) -> &str {
    let rank = line.strip_prefix("[rank").and_then(|rest| rest.split_once(']')).map_or("", |(rank, _)| rank);
    if rank.len() <= 6 && rank.bytes().all(|byte| byte.is_ascii_digit()) { rank } else { "" }
}
