//! The part of `docs/validation.md` on predictions: tables that tests of `model` and `simulate` recompute from the measured runs
//! and keep beside themselves, so that the page needs none of those runs.

use std::path::Path;

use anyhow::Context as _;

/// A heading, what stands above the table, the file that a test writes, and what stands below it.
struct Part {
    title: &'static str,
    before: &'static str,
    file: &'static str,
    after: &'static str,
}

const PARTS: [Part; 4] = [
    Part {
        title: "The step on the hardware, held against measured runs",
        before: "Runs of aiconfigurator-core 0.12.0 (Apache-2.0), by kind of model: dense, experts, latent attention. Each model is
predicted by coefficients fitted on the other models of its kind; *faster than the bound* counts runs that beat what the
hardware could do at best. `inferoscope model evaluate RUNS.csv` prints the same with devices and engines.",
        file: "crates/model/tests/data/scores.md",
        after: "*Direction right* takes a measured move below 2 % for none. *Beyond noise* asks only of pairs that moved further than
repeated runs differ, and of how many that leaves.

Of dense models two directions stay below 95 % as they are. *Precision down* (84.8 %): all 20 wrong pairs are FP8 to NVFP4 of
one model on one device (Llama-3.1-70B, B200), 19 of them on 8 ranks, where an eighth of the weights is left to save; measured
they became 2 to 12 % slower, the forecast says 1 to 7 % faster. They agree with each other, so it is no chance, but nothing else
shows it: kernel tables of the same device read NVFP4 weights at least as fast as FP8, other models gain more than forecast,
and which engine versions the two formats ran on is not told. A constant for it would be fitted on one model, so there is none.
*Output longer* (91.7 %; beyond noise 92.5 %, missed as well): fewer prompts per token and a longer context nearly cancel, and
what is left is smaller than the error. The program states a direction only where its range excludes the other one; that one is
right in 98 % and more.",
    },
    Part {
        title: "The scheduler, held against four recorded runs of vLLM 0.19",
        before: "Each run's own 300 requests (ShareGPT lengths; LLMServingSim's recordings, MIT) sent through the simulated scheduler; steps cost
what a law fitted on the run says, or what single kernels took on the same device. Simulated for measured:",
        file: "crates/simulate/tests/data/replays.md",
        after: "All four were asked for more than they serve: a first token is then a matter of how long one waits, and is refused.",
    },
    Part {
        title: "Published rows",
        before: "What papers and projects published, and what the same formula or table gives here.",
        file: "crates/model/tests/data/published.md",
        after: "The formula of speculative decoding reproduces the paper's own expectation to its rounding; measured speedups differ from it
by 18 % in the mean.",
    },
    Part {
        title: "Prefix reuse by cache size",
        before: "Share of prompt tokens that a cache of so many tokens finds, on the traces of Mooncake (FAST 2025), cold, beside Table 2 of the paper.",
        file: "crates/simulate/tests/data/mooncake.md",
        after: "",
    },
];

/// All parts.
pub(super) fn section(root: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for part in PARTS {
        let table = std::fs::read_to_string(root.join(part.file)).with_context(|| format!("could not read `{}`", part.file))?;
        for piece in [&format!("## {}", part.title), part.before, table.trim_end(), part.after] {
            if !piece.is_empty() {
                text.push_str(&format!("\n{piece}\n"));
            }
        }
    }
    Ok(text)
}
