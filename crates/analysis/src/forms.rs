//! What each engine's process layout makes measurable: which process to sample and how, and which parts of a request
//! cross a process boundary and so have a cost of their own.
//!
//! Layouts are told by the capture (`Subject::engine_form`), seen or assumed; this only says what they are good for.

/// One layout of one engine.
struct Form {
    engine: &'static str,
    kind: &'static str,
    /// Command that samples the scheduling loop.
    sample_with: &'static str,
    /// Parts that can be measured apart, in a request's order.
    segments: &'static [&'static str],
}

const CORE: &[&str] = &[
    "http and tokenizing (api process)",
    "zmq to the core",
    "queue and scheduling (core)",
    "forward pass (core)",
    "zmq back",
    "detokenizing and streaming (api process)",
];

const FORMS: &[Form] = &[
    Form {
        engine: "vllm",
        kind: "api+core",
        sample_with: "py-spy record --pid $(pgrep -f VLLM::EngineCor) --format raw --threads --nonblocking",
        segments: CORE,
    },
    Form {
        engine: "vllm",
        kind: "api+core+workers",
        sample_with: "py-spy record --pid $(pgrep -f VLLM::EngineCor) --format raw --threads --nonblocking",
        segments: &[
            "http and tokenizing (api process)",
            "zmq to the core",
            "queue and scheduling (core)",
            "shared-memory broadcast to workers",
            "forward pass (workers)",
            "zmq back",
            "detokenizing and streaming (api process)",
        ],
    },
    Form {
        engine: "vllm",
        kind: "single process",
        sample_with: "py-spy record --pid $(pgrep -f api_server) --format raw --threads --nonblocking",
        segments: &["everything in one interpreter: only samples tell its parts apart"],
    },
    Form {
        engine: "sglang",
        kind: "api+schedulers+detokenizer",
        sample_with: "py-spy record --pid $(pgrep -f sglang::scheduler | head -1) --format raw --threads --nonblocking",
        segments: &[
            "http and tokenizing (main process)",
            "zmq to the scheduler",
            "queue, scheduling and forward pass (scheduler)",
            "zmq to the detokenizer",
            "detokenizing (detokenizer process)",
            "zmq back and streaming (main process)",
        ],
    },
    Form {
        engine: "tensorrt-llm",
        kind: "api+workers",
        sample_with: "py-spy record --pid $(pgrep -f 'mpi4py|trtllm' | head -1) --format raw --threads --nonblocking",
        segments: &[
            "http and tokenizing (api process)",
            "zmq to the worker",
            "queue, scheduling and forward pass (rank 0 worker)",
            "detokenizing (api process or its postprocess workers)",
        ],
    },
    Form {
        engine: "tgi",
        kind: "router+shards",
        sample_with: "py-spy record --pid $(pgrep -f text-generation-server | head -1) --format raw --threads --nonblocking",
        segments: &[
            "validation and tokenizing (router)",
            "queue (router)",
            "grpc to the shards",
            "forward pass (shards)",
            "streaming (router)",
        ],
    },
    Form {
        engine: "llama.cpp",
        kind: "single process",
        sample_with: "perf record -g -p $(pgrep -f llama-server)",
        segments: &["http threads", "task queue", "the loop over all slots"],
    },
    Form {
        engine: "lmdeploy",
        kind: "single process",
        sample_with: "py-spy record --pid $(pgrep -f api_server) --format raw --threads --nonblocking",
        segments: &["http and tokenizing", "engine thread"],
    },
];

fn find(engine: &str, kind: &str) -> Option<&'static Form> {
    FORMS.iter().find(|form| form.engine == engine && form.kind == kind)
}

/// Command that samples the scheduling loop, empty when unknown.
pub(crate) fn sample_with(engine: &str, kind: &str) -> String {
    find(engine, kind).map_or(String::new(), |form| form.sample_with.to_string())
}

/// Parts of a request that can be measured apart.
pub(crate) fn segments(engine: &str, kind: &str) -> Vec<String> {
    find(engine, kind).map_or(Vec::new(), |form| form.segments.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_says_what_to_sample_and_what_it_parts() {
        for (at, form) in FORMS.iter().enumerate() {
            assert!(!form.sample_with.is_empty() && !form.segments.is_empty(), "{} {}", form.engine, form.kind);
            let is_twice = FORMS[..at].iter().any(|other| other.engine == form.engine && other.kind == form.kind);
            assert!(!is_twice, "{} {} twice", form.engine, form.kind);
        }
        assert_eq!(segments("vllm", "api+core").len(), 6);
        assert!(segments("vllm", "no such kind").is_empty() && sample_with("", "").is_empty());
    }
}
