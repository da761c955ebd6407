//! Closed replays of published traces: prefix reuse, reserved KV memory, static batches. Reference figures were computed
//! apart, by a cache replayed at each size and by counting step for step.

use expect_test::expect_file;
use model::batching::OutputLengths;
use model::fragmentation::{Lengths, Reservation, kv_use};
use model::prefix_reuse::{Prompt, ReuseCurve, replay};
use simulate::config::{EngineConfig, Load, SystemConfig};
use simulate::cost::LinearCost;
use simulate::workload::{Format, Limits, read};
use simulate::{Request, Workload, simulate};

use crate::beside::corpus;

const CONVERSATION_600: &[(u64, f64)] = &[
    (51_200, 0.035_559_233_919_596_72),
    (256_000, 0.036_979_133_885_136_17),
    (512_000, 0.039_386_790_348_444_2),
    (1_536_000, 0.063_394_988_534_532_45),
    (3_000_320, 0.120_960_501_556_512_2),
    (u64::MAX, 0.171_602_796_489_123_72),
];
/// Unlimited, over the last 300 of the 600.
const CONVERSATION_600_WARM: f64 = 0.267_729_586_479_274_25;
/// Batch size and efficiency by sampled batches.
const AZURE_1500_STATIC: [(u32, f64); 3] = [(8, 0.5431), (32, 0.4467), (64, 0.4027)];
const AZURE_1500_PAGED: f64 = 0.993_770_959_346_565;
const AZURE_1500_CONTIGUOUS: f64 = 0.292_012_994_930_390_1;

fn loaded(text: &str, format: Format) -> Workload {
    let reading = read(&mut text.as_bytes(), Limits::default()).unwrap();
    assert_eq!((reading.format, reading.damaged_count), (format, 0));
    reading.workload
}

fn curve(workload: &Workload, warm_up: usize) -> ReuseCurve {
    let prompt = |request| Prompt { blocks: workload.blocks(request), tokens: request.prompt_tokens };
    replay(workload.requests().iter().map(prompt), workload.hash_block_tokens(), warm_up)
}

fn check_curve(curve: &ReuseCurve, expected: &[(u64, f64)], digits: f64) {
    for &(tokens, frac) in expected {
        let found = curve.hit_frac(tokens);
        assert!((found - frac).abs() < digits, "{tokens} tokens: {found}, expected {frac}");
    }
}

fn lengths(workload: &Workload) -> impl Iterator<Item = Lengths> + '_ {
    workload.requests().iter().map(|request| Lengths { prompt: request.prompt_tokens, output: request.output_tokens })
}

fn used(workload: &Workload, reservation: Reservation) -> f64 {
    kv_use(lengths(workload), reservation).used_frac()
}

fn outputs(workload: &Workload) -> OutputLengths {
    OutputLengths::new(workload.requests().iter().map(|request: &Request| request.output_tokens).collect())
}

#[test]
fn a_short_mooncake_trace() {
    let workload = loaded(include_str!("../data/mooncake_conversation_600.jsonl"), Format::Mooncake);
    assert_eq!(workload.requests().len(), 600);
    check_curve(&curve(&workload, 0), CONVERSATION_600, 1e-12);
    assert!((curve(&workload, 300).ceiling_frac() - CONVERSATION_600_WARM).abs() < 1e-12);
}

#[test]
fn a_short_azure_trace() {
    let workload = loaded(include_str!("../data/azure_conv_1500.csv"), Format::Azure);
    assert_eq!(workload.requests().len(), 1500);
    for (batch, sampled) in AZURE_1500_STATIC {
        let exact = outputs(&workload).static_efficiency(batch).unwrap();
        assert!((exact - sampled).abs() < 0.004, "batches of {batch}: {exact}, by 40,000 sampled batches {sampled}");
    }
    let paged = used(&workload, Reservation::Paged { block_tokens: 16 });
    let contiguous = used(&workload, Reservation::Contiguous { max_len: 4096 });
    assert!((paged - AZURE_1500_PAGED).abs() < 1e-12 && (contiguous - AZURE_1500_CONTIGUOUS).abs() < 1e-12, "{paged} {contiguous}");
}

/// The engine's own cache, one request at a time, finds what the closed replay says: but for the last block of a prompt,
/// which is not whole, and for the order in which blocks of one request are forgotten.
#[test]
fn the_engine_finds_what_the_replay_says() {
    let workload = loaded(include_str!("../data/mooncake_conversation_600.jsonl"), Format::Mooncake);
    let at_once = LinearCost { a_s: 1e-6, ..LinearCost::default() };
    for tokens in [1_536_000, 3_000_320, 40_000_000] {
        let engine = EngineConfig { max_num_batched_tokens: 1 << 20, ..EngineConfig::vllm((tokens / 16) as u32) };
        let config = SystemConfig { load: Load::Closed { users: 1, think_ns: 0 }, ..SystemConfig::single(engine) };
        let found = simulate(&workload, &config, &at_once).unwrap().summary(&workload).cached_frac;
        let expected = curve(&workload, 0).hit_frac(tokens);
        assert!((found - expected).abs() < 0.01, "{tokens} tokens: {found}, replay {expected}");
    }
}

/// Mooncake (FAST 2025): a local cache of 3M tokens finds less than half of what is there, a pool of 50M nearly all;
/// Table 2 gives 0.40 and 0.66 of all prompt tokens.
#[test]
fn mooncake_at_full_length() {
    let (Some(conversation), Some(synthetic)) =
        (corpus("mooncake-fast25/conversation_trace.jsonl"), corpus("mooncake-fast25/synthetic_trace.jsonl"))
    else {
        return;
    };
    let conversation = loaded(&conversation, Format::Mooncake);
    let synthetic = loaded(&synthetic, Format::Mooncake);
    assert_eq!((conversation.requests().len(), synthetic.requests().len()), (12_031, 3_993));
    let (cold, synthetic_cold) = (curve(&conversation, 0), curve(&synthetic, 0));
    let expected = [(3_000_320, 0.1382), (10_240_000, 0.2931), (25_600_000, 0.3615), (50_000_384, 0.3707), (u64::MAX, 0.3736)];
    check_curve(&cold, &expected, 5e-5);
    let expected = [(3_000_320, 0.3151), (10_240_000, 0.5819), (25_600_000, 0.6512), (50_000_384, 0.6512), (u64::MAX, 0.6512)];
    check_curve(&synthetic_cold, &expected, 5e-5);
    let mut page = String::from("| trace | 3M tokens | 10M | 26M | 50M | without end | published |\n|---|---|---|---|---|---|---|\n");
    for (name, curve, published) in [("conversation", &cold, 0.40), ("synthetic", &synthetic_cold, 0.66)] {
        let at = [3_000_320, 10_240_000, 25_600_000, 50_000_384, u64::MAX].map(|tokens| format!("{:.3}", curve.hit_frac(tokens)));
        page.push_str(&format!("| {name} | {} | {published:.2} |\n", at.join(" | ")));
    }
    expect_file!["../data/mooncake.md"].assert_eq(&page);
    for (curve, published) in [(&cold, 0.40), (&synthetic_cold, 0.66)] {
        assert!(curve.hit_frac(3_000_000) < 0.5 * curve.ceiling_frac());
        assert!(curve.hit_frac(50_000_000) > 0.98 * curve.ceiling_frac());
        assert!((curve.ceiling_frac() - published).abs() < 0.03, "{} for {published}", curve.ceiling_frac());
    }
    // Once warm, conversations find what the paper says.
    let warm = curve(&conversation, conversation.requests().len() / 2).ceiling_frac();
    assert!((warm - 0.398).abs() < 0.001, "{warm}");
}

/// Shares of Kwon et al. (SOSP 2023) come from other lengths; the same arithmetic on these traces, counted apart.
#[test]
fn reserved_memory_at_full_length() {
    let (Some(conv), Some(code), Some(sharegpt)) = (
        corpus("azure-llm-2023/AzureLLMInferenceTrace_conv.csv"),
        corpus("azure-llm-2023/AzureLLMInferenceTrace_code.csv"),
        corpus("sharegpt-lengths/sharegpt300_llama31.lengths.csv"),
    ) else {
        return;
    };
    let contiguous = |max_len| Reservation::Contiguous { max_len };
    let paged = |block_tokens| Reservation::Paged { block_tokens };
    let rows: [(&str, Format, [f64; 10], [f64; 3]); 3] = [
        (&conv, Format::Azure, [0.576, 0.299, 0.15, 0.879, 0.815, 0.9939, 0.9875, 0.9749, 0.9505, 0.9078], [0.47, 0.37, 0.34]),
        (&code, Format::Azure, [0.742, 0.485, 0.26, 0.964, 0.94, 0.9965, 0.9928, 0.9853, 0.9706, 0.9412], [0.27, 0.12, 0.085]),
        (&sharegpt, Format::Lengths, [0.567, 0.294, 0.147, 0.783, 0.636, 0.9938, 0.9873, 0.9745, 0.9498, 0.9042], [0.84, 0.81, 0.78]),
    ];
    for (text, format, shares, efficiencies) in rows {
        let workload = loaded(text, format);
        let reservations = [
            contiguous(2048),
            contiguous(4096),
            contiguous(8192),
            Reservation::Oracle,
            Reservation::PowerOfTwo,
            paged(16),
            paged(32),
            paged(64),
            paged(128),
            paged(256),
        ];
        for (reservation, share) in reservations.into_iter().zip(shares) {
            let found = used(&workload, reservation);
            assert!((found - share).abs() < 0.002, "{reservation:?}: {found}, expected {share}");
        }
        // The reference sampled its batches; ours are exact.
        for (batch, sampled) in [8, 32, 64].into_iter().zip(efficiencies) {
            let exact = outputs(&workload).static_efficiency(batch).unwrap();
            assert!((exact - sampled).abs() < 0.01, "batches of {batch}: {exact}, sampled {sampled}");
        }
    }
}
