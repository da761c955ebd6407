//! How each engine lays out its processes: how many kinds there are, how requests cross them, where the scheduling loop
//! runs. What sources show (log prefixes, process roles) decides; otherwise the version's usual layout is assumed, and
//! the capture says so.

use crate::builder::FormEvidence;

/// A process layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Kinds of process, outermost first.
    pub(crate) kind: &'static str,
    /// How requests cross them.
    pub(crate) channel: &'static str,
    /// Process that runs the scheduling loop: the one to sample.
    pub(crate) scheduler: &'static str,
}

const fn layout(kind: &'static str, channel: &'static str, scheduler: &'static str) -> Layout {
    Layout { kind, channel, scheduler }
}

/// vLLM: the API process tokenizes and detokenizes, the engine core schedules; with several ranks each has a worker.
const VLLM_CORE: Layout = layout("api+core", "zmq", "engine_core");
const VLLM_WORKERS: Layout = layout("api+core+workers", "zmq; shared memory to workers", "engine_core");
/// vLLM before 0.6 ran the engine in the API process.
const VLLM_SINGLE: Layout = layout("single process", "in process", "api_server");
/// SGLang: the main process is HTTP server and tokenizer, every rank has a scheduler that also runs the model, text is
/// made from tokens in a process of its own.
const SGLANG: Layout = layout("api+schedulers+detokenizer", "zmq", "scheduler_TP0");
/// TensorRT-LLM: `trtllm-serve` hands requests to one worker per rank; the executor's loop runs in the worker of rank 0.
const TENSORRT_LLM: Layout = layout("api+workers", "zmq; mpi between ranks", "worker_rank0");
/// TGI: a router in Rust batches; shards in Python run the model.
const TGI: Layout = layout("router+shards", "grpc over a unix socket", "text-generation-router");
/// llama.cpp: HTTP threads and one loop over all slots in one process.
const LLAMA_CPP: Layout = layout("single process", "in process", "llama-server");
/// LMDeploy: HTTP server and engine in one process, the engine on threads of its own.
const LMDEPLOY: Layout = layout("single process", "in process", "api_server");

/// The layout of an engine, and whether sources show it.
pub(crate) fn find(engine: &str, version: &str, seen: &FormEvidence) -> Option<(Layout, bool)> {
    let is_seen = seen.core_process || seen.worker_process;
    let found = match engine {
        "vllm" if seen.worker_process => VLLM_WORKERS,
        "vllm" if !is_seen && minor_of(version).is_some_and(|minor| minor < 6) => VLLM_SINGLE,
        "vllm" => VLLM_CORE,
        "sglang" => SGLANG,
        "tensorrt-llm" => TENSORRT_LLM,
        "tgi" => TGI,
        "llama.cpp" => LLAMA_CPP,
        "lmdeploy" => LMDEPLOY,
        _ => return None,
    };
    Some((found, is_seen))
}

fn minor_of(version: &str) -> Option<u32> {
    version.strip_prefix("0.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_decides_and_the_rest_is_assumed() {
        let check = |engine: &str, version: &str, seen: [bool; 2]| {
            let [core_process, worker_process] = seen;
            let evidence = FormEvidence { core_process, worker_process, ..FormEvidence::default() };
            find(engine, version, &evidence).map(|(layout, is_seen)| (layout.kind, is_seen))
        };
        assert_eq!(check("vllm", "0.11.0", [false, false]), Some(("api+core", false)));
        assert_eq!(check("vllm", "0.5.4", [false, false]), Some(("single process", false)));
        assert_eq!(check("vllm", "0.5.4", [true, true]), Some(("api+core+workers", true)));
        assert_eq!(check("sglang", "", [true, false]), Some(("api+schedulers+detokenizer", true)));
        assert_eq!(check("unheard-of", "1", [true, true]), None);
    }
}
