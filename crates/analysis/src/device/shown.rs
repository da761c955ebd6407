//! What of an event's name may be shown to strangers: the words by which this program tells what it is, no others. Names of
//! kernels, ranges and ops may hold what a person chose.

use super::collectives::op_of_kernel;
use super::idle::DATA_RANGES;
use super::kernels::{self, Category};
use super::launches::is_code;
use super::steps::StepLabel;
use super::timeline::Api;

/// Words of step annotations and copies, in lower case. A name made of these, numbers and signs is kept as it stands.
const WORDS: &[&str] = &[
    "execute",
    "context",
    "generation",
    "new",
    "cached",
    "sq",
    "sk",
    "sqsq",
    "sqsk",
    "sqsqsk",
    "step",
    "profilerstep",
    "decode",
    "extend",
    "prefill",
    "mixed",
    "idle",
    "verify",
    "bs",
    "toks",
    "tokens",
    "htod",
    "dtoh",
    "dtod",
    "htoh",
    "ptop",
    "htoa",
    "atoh",
    "dtoa",
    "atod",
    "atoa",
    "pageable",
    "pinned",
    "device",
    "host",
    "array",
    "managed",
    "static",
    "unknown",
];

/// The words that decide what a name is; the name itself where it is made of such words. Empty where nothing is known of it.
pub fn shown(name: &str) -> String {
    if is_made_of_words(name) {
        return name.to_string();
    }
    let made_for = kernels::made_for_word(name);
    let mut words: Vec<&str> = kernels::deciding_words(name);
    if kernels::kind(name).category == Category::Communication {
        words.extend(Some(op_of_kernel(name)).filter(|op| !op.is_empty()));
    }
    // Attention that splits its keys is of decoding.
    words.extend(words.contains(&"flash_fwd").then_some("splitkv").filter(|word| name.contains(word)));
    words.extend(api_word(Api::of(name)));
    words.extend(is_code(name));
    words.extend(DATA_RANGES.iter().filter(|range| name.starts_with(**range)));
    // What a kernel was written for says something only of a kernel that is known.
    let is_known = !words.is_empty();
    words.extend(made_for.as_deref().filter(|_| is_known));
    words.join(";")
}

fn is_made_of_words(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let mut spoken = lower.split(|c: char| !c.is_ascii_lowercase()).filter(|word| !word.is_empty()).peekable();
    let known = name.is_ascii() && spoken.peek().is_some() && spoken.all(|word| WORDS.contains(&word));
    // A copy begins with its direction: `HtoD`.
    let first = lower.split(' ').next().unwrap_or_default();
    known && (StepLabel::read(name).is_some() || (first.len() == 4 && first[1..].starts_with("to")))
}

/// A word by which [`Api::of`] knows the call again.
fn api_word(api: Api) -> Option<&'static str> {
    match api {
        Api::Launch => Some("Launch"),
        Api::GraphLaunch => Some("GraphLaunch"),
        Api::Copy => Some("Memcpy"),
        Api::Memset => Some("Memset"),
        Api::Sync => Some("Synchronize"),
        Api::Capture => Some("BeginCapture"),
        Api::Load => Some("ModuleLoad"),
        Api::Memory => Some("Malloc"),
        Api::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_copies_are_shown_as_they_stand() {
        for name in [
            "execute_context_1(888_788544)_generation_0(0)",
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            "step[DECODE bs=32 toks=32]",
            "ProfilerStep#6",
            "HtoD Pageable -> Device",
            "DtoD",
        ] {
            assert_eq!(shown(name), name);
        }
    }

    #[test]
    fn words_of_people_are_not_shown() {
        assert_eq!(shown("step[bob's secret model bs=3]"), "");
        assert_eq!(shown("tokens"), "");
        assert_eq!(shown("acme_attention_for_customer_x"), "attention");
        assert_eq!(shown("cudaLaunchKernelForBob"), "Launch");
        assert_eq!(shown("my_step"), "");
        assert_eq!(shown("enumerate(DataLoader)#_BobsSecretIter.__next__"), "enumerate(DataLoader)");
        assert_eq!(shown("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), "nccl;sendrecv");
        assert_eq!(shown("flash_fwd_splitkv_kernel<Bob>"), "flash_fwd;splitkv");
        assert_eq!(shown("bobs_sm80_xmma_gemm_secret"), "gemm;sm80");
    }

    #[test]
    fn a_call_is_known_again_by_what_is_shown() {
        for name in [
            "cudaLaunchKernelExC",
            "cuLaunchKernelEx",
            "hipGraphLaunch",
            "cudaMemcpyAsync",
            "hipMemsetAsync",
            "cudaStreamSynchronize",
            "hipStreamBeginCapture",
            "cuModuleLoadDataEx",
            "cudaMalloc",
            "cudaGetDevice",
        ] {
            assert_eq!(Api::of(&shown(name)), Api::of(name), "{name}");
        }
    }
}
