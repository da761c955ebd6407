//! The device waits for bytes from host memory: weights, experts or cache that do not fit on it.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::decode_bound::DecodeBound;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu, step_s};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::record_device::{COUNTERS, undecided};
use crate::situation::Situation;
use crate::slower_arm::{Contrast, change_names, faster_arm};
use crate::words::{digits, percent, seconds};

check! {
    /// Steps wait for the link between host memory and the device.
    ///
    /// ## Why it costs time
    /// What does not fit on the device (experts, layers, cache) stays in host memory. Each step either moves it over the
    /// link, at 10 to 60 GB/s, or computes it on the CPU at the host memory's speed; the device's own memory is 10 to 100
    /// times faster.
    ///
    /// ## How to confirm
    /// Bytes per second on the link stand near what it carries (`nvidia-smi dmon -s t`, DCGM 1009 and 1010) while the
    /// device's memory is hardly busy. Or part of the model is on the host, and those bytes over the host's bandwidth make
    /// the step.
    ///
    /// ## Fix
    /// Keep on the device what every token needs: fewer experts or layers on the host, a smaller format, a shorter reserved
    /// context, a second device. A wider or newer link helps in proportion.
    ///
    /// ## When this is wrong
    /// A narrow link (x8, generation 3) that carries little: true and harmless, as loading is the only thing that waits.
    id: "host_link_bound", layer: Hardware, rank: 32, phases: [Prefill, Decode, Copy], bound: "memory", validated_on: "trace", run: find,
}

/// Share of the link's rate from which steps wait for it. Transfers come in bursts between computations, so a one-second
/// sample at 70 % means that most of the second was transfer.
const NEAR_RATE: f64 = 0.7;
/// A link below this share carries no step.
const HARMLESS: f64 = 0.3;
/// Protocol overhead leaves this share of a PCIe link's raw rate.
const PRACTICAL: f64 = 0.85;
/// Raw PCIe rate per lane by generation, byte/s, one direction.
const LANE: [f64; 7] = [0.0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9];
/// The fastest host path in use: memory of a two-socket server. No part on the host can be read faster.
const FASTEST_HOST: f64 = 500e9;
/// A common host path: a link of generation 5, or a desktop's memory.
const COMMON_HOST: f64 = 60e9;

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "no device that a host link feeds");
    }
    let link = link(situation, arm);
    if let Some(link) = &link
        && link.share >= NEAR_RATE
        && !memory_is_busy(arm)
    {
        return Answer::Found(Box::new(by_link(situation, link)));
    }
    if let Some(part) = host_part(situation, arm) {
        return part;
    }
    if let Some(faster) = faster_arm(situation, |here, there| change_names(here, there, &WORDS))
        .filter(|_| link.as_ref().is_none_or(|link| link.share > HARMLESS))
    {
        return Answer::Found(Box::new(by_arm(situation, &faster)));
    }
    match link {
        Some(link) if link.share <= HARMLESS => clear(
            vec![("of_link_rate", link.share)],
            format!("the link carries {} of what it can: nothing in a step waits for it", percent(link.share)),
        ),
        Some(link) => undecided(
            situation,
            &["gpu.pcie_bytes.mean", "gpu.memory_busy"],
            format!(
                "the link carries {} of what it can; whether steps wait for it shows with the device's memory activity beside it",
                percent(link.share)
            ),
            COUNTERS,
        ),
        None if device_share(situation, arm).is_some_and(|share| share >= 0.98) => {
            clear(vec![("device_share", 1.0)], "all of the model is on the device")
        }
        None => undecided(
            situation,
            &["gpu.pcie_bytes", "gpu.link_bandwidth", "model.device_share"],
            "traffic on the host link is not known",
            COUNTERS,
        ),
    }
}

/// Words in which people tell arms apart that differ in what lies on the host, or in the link to it.
const WORDS: [&str; 8] = ["cpu-offload", "cpu offload", "n-cpu-moe", "gpu-layers", "-ngl", "pcie", "in device memory", "on the device"];

fn by_arm(situation: &Situation<'_>, faster: &Contrast<'_>) -> Found {
    let ends = faster.ends();
    let words =
        format!("with less on the host, or a wider link, the same token takes {} of the time", percent(faster.theirs_s / faster.mine_s));
    Found {
        summary: words.clone(),
        sentence: format!("Tokens wait for what lies in host memory: {words}."),
        claims: claims(situation, Phase::Decode, ends, Basis::Typed),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: vec![
            figure(faster.signal, faster.mine_s, "s", "this arm"),
            figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
        ],
        hypotheses: vec![keep_on_device(situation, ends, None)],
        falsified_by: "link traffic far below its rate while tokens are as slow".into(),
        context_only: false,
        limit: false,
    }
}

/// Traffic on the link.
#[derive(Clone, Debug)]
struct Link {
    bytes: f64,
    /// True when only the highest sample is known.
    is_peak: bool,
    rate: f64,
    rate_from: &'static str,
    share: f64,
}

fn link(situation: &Situation<'_>, arm: &Arm) -> Option<Link> {
    let figures = &arm.figures;
    let mean = figure_of(figures, "gpu.pcie_bytes")
        .filter(|_| figures.get("gpu.pcie_bytes.min").is_none() || figures.get("gpu.pcie_bytes.mean").is_some());
    let (bytes, is_peak) = mean.map(|mean| (mean, false)).or_else(|| figures.highest("gpu.pcie_bytes").map(|peak| (peak, true)))?;
    let lanes = || {
        let generation = figures.typical("gpu.pcie_gen")?;
        let lane = LANE.get(generation.round() as usize)?;
        Some(PRACTICAL * lane * figures.typical("gpu.pcie_width")?)
    };
    let device = if arm.device.is_empty() { &situation.subject.device } else { &arm.device };
    let by_table = || model::hardware::find(device).and_then(|gpu| gpu.pcie_bytes_per_s).map(|rate| PRACTICAL * rate);
    let (rate, rate_from) = figures
        .typical("gpu.link_bandwidth")
        .map(|rate| (rate, "given"))
        .or_else(|| lanes().map(|rate| (rate, "generation and lanes")))
        .or_else(|| by_table().map(|rate| (rate, "data sheet")))
        .filter(|(rate, _)| *rate > 0.0)?;
    Some(Link { bytes, is_peak, rate, rate_from, share: bytes / rate })
}

/// The device's own memory does most of the work: then the link's traffic is not what steps wait for.
fn memory_is_busy(arm: &Arm) -> bool {
    let figures = &arm.figures;
    figure_of(figures, "gpu.memory_busy").is_some_and(|busy| busy >= 0.6)
        || figure_of(figures, "gpu.dram_active").is_some_and(|active| active >= 0.5)
}

fn by_link(situation: &Situation<'_>, link: &Link) -> Found {
    let share = link.share.min(1.0);
    // A peak says that some seconds wait for the link; a mean says that all do.
    let ends = if link.is_peak { [0.25 * share, 0.7 * share, share] } else { [0.6 * share, share, 1.0] };
    let basis = if link.is_peak { Basis::Bound } else { Basis::Derived };
    let phase = if situation.claimable_s(Phase::Decode) > 0.0 { Phase::Decode } else { Phase::Prefill };
    let mut rows = vec![
        figure("gpu.pcie_bytes", link.bytes, "byte/s", if link.is_peak { "highest sample" } else { "mean" }),
        figure("what the link carries", link.rate, "byte/s", link.rate_from),
    ];
    rows.extend(
        ["gpu.memory_busy", "gpu.busy"]
            .into_iter()
            .filter_map(|name| Some(figure(name, figure_of(&situation.evidence.figures, name)?, "ratio", "counter"))),
    );
    Found {
        summary: format!("the host link carries {} GB/s of {} GB/s", digits(link.bytes * 1e-9), digits(link.rate * 1e-9)),
        sentence: format!(
            "The link to host memory runs at {} of its rate ({} GB/s): steps wait for what lies on the host, not for the device.",
            percent(share),
            digits(link.bytes * 1e-9)
        ),
        claims: claims(situation, phase, ends, basis),
        cost: cost(situation, phase, ends[1]),
        evidence: rows,
        hypotheses: vec![keep_on_device(situation, ends, Some(link.bytes))],
        falsified_by: "link traffic falls far below its rate and steps take as long".into(),
        context_only: false,
        limit: false,
    }
}

fn keep_on_device(situation: &Situation<'_>, ends: [f64; 3], bytes: Option<f64>) -> crate::contract::Hypothesis {
    let change = match situation.subject.engine.as_str() {
        "llama.cpp" => outside(
            "--n-gpu-layers, --n-cpu-moe",
            "more on the device",
            "restart",
            "keep more layers or experts on the device (--n-gpu-layers up, --n-cpu-moe down)",
        ),
        "vllm" => outside(
            "--cpu-offload-gb",
            "less",
            "restart",
            "keep on the device what every token needs: --cpu-offload-gb down, a smaller format or one device more",
        ),
        _ => outside(
            "what lies on the host",
            "less",
            "restart",
            "keep on the device what every token needs: a smaller format, a shorter reserved context, or one device more",
        ),
    };
    hypothesis(
        change,
        "device memory: less room for the KV cache",
        "link traffic falls and steps do not",
        vec![
            token_falls(situation, ends, "bytes that stay on the device are read at its own memory's speed"),
            moves("gpu.pcie_bytes", "link traffic", "byte/s", Direction::Down, bytes, None, "falls with what is moved"),
            first_token_kept(situation),
        ],
    )
}

/// Share of the model on the device: as listed, else layers on it over all layers.
fn device_share(situation: &Situation<'_>, arm: &Arm) -> Option<f64> {
    let figures = &arm.figures;
    if let Some(share) = figure_of(figures, "model.device_share") {
        return Some(share);
    }
    let on_device = figure_of(figures, "model.offloaded_layers").or_else(|| arm.settings.number("config.offloaded_layers"))?;
    let mut logged = arm.logged.get("offloaded").into_iter().flat_map(|logged| &logged.fields);
    let of = logged.find_map(|fields| fields.split(' ').find_map(|field| field.strip_prefix("of=")?.parse::<f64>().ok()));
    let layers = of
        .or_else(|| figures.typical("model.layers").map(|layers| layers + 1.0))
        .or_else(|| model::models::find(&situation.subject.model).map(|shape| f64::from(shape.layers) + 1.0))?;
    (layers > 0.0).then(|| (on_device / layers).min(1.0))
}

/// Part of the model lies on the host: its bytes over the host's speed against the step.
fn host_part(situation: &Situation<'_>, arm: &Arm) -> Option<Answer> {
    let figures = &arm.figures;
    let share = device_share(situation, arm).filter(|share| *share < 0.98)?;
    let step = step_s(arm).map(|(step, _)| step);
    let faster = faster_arm(situation, |_, there| device_share(situation, there).is_some_and(|other| other > share + 0.02));
    let weights = || DecodeBound::read(situation.subject, arm).map(|bound| bound.weight_bytes);
    let loaded = figure_of(figures, "model.loaded_bytes").or_else(|| figures.typical("model.weight_bytes")).or_else(weights);
    let bytes = loaded.map(|bytes| bytes * (1.0 - share));
    // The spill follows what was reserved: then the reservation is the cause, and this what it does.
    let follows_reservation = faster.as_ref().is_some_and(|faster| {
        ["config.max_model_len", "config.max_num_seqs", "config.kv_dtype"]
            .iter()
            .any(|key| crate::slower_arm::differing(arm, faster.other, key).is_some())
    });
    let (ends, basis, rows) = if let Some(faster) = &faster {
        let rows = vec![
            figure(faster.signal, faster.mine_s, "s", "this arm"),
            figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
        ];
        (faster.ends(), Basis::Typed, rows)
    } else {
        by_bytes(figures.typical("host.dram_bandwidth").or_else(|| figures.typical("gpu.link_bandwidth")), bytes?, step?)?
    };
    let words = format!("{} of the model is on the device", percent(share));
    if ends[2] < 0.05 {
        return Some(clear(vec![("device_share", share)], format!("{words}, and the rest makes less than 5 % of a step")));
    }
    let mut rows = rows;
    rows.push(figure("model.device_share", share, "ratio", "typed or listed by the server"));
    rows.extend(bytes.map(|bytes| figure("bytes on the host", bytes, "byte", "loaded bytes x what is not on the device")));
    Some(Answer::Found(Box::new(Found {
        summary: format!("{words}: each token waits for the rest"),
        sentence: format!(
            "Only {words}; each token also needs the rest, which the host delivers or computes at a fraction of the device's speed{}.",
            step.map_or(String::new(), |step| format!(": {} of {} per step", seconds(ends[1] * step), seconds(step)))
        ),
        claims: if follows_reservation { Vec::new() } else { claims(situation, Phase::Decode, ends, basis) },
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![keep_on_device(situation, ends, None)],
        falsified_by: "all of it on the device, and tokens no faster".into(),
        context_only: follows_reservation,
        limit: false,
    })))
}

/// Share of the step that the host's part takes: at the host's bandwidth where given, else between the fastest host and a
/// common one.
fn by_bytes(host_bandwidth: Option<f64>, bytes: f64, step_s: f64) -> Option<([f64; 3], Basis, Vec<Evidence>)> {
    let share = |rate: f64| bytes / rate / step_s;
    let (ends, basis) = match host_bandwidth {
        Some(rate) => ([0.7 * share(rate).min(1.0), share(rate).min(1.0), 1.0], Basis::Derived),
        None => ([share(FASTEST_HOST), share(COMMON_HOST).min(1.0), 1.0], Basis::Bound),
    };
    let rows = vec![
        figure("least time for the host's part", ends[0] * step_s, "s", "bytes on the host over its bandwidth"),
        figure("step time", step_s, "s", "typed"),
    ];
    ends.iter().all(|share| share.is_finite()).then_some((ends, basis, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_host_gives_an_interval() {
        // 12 GB on the host and 250 ms a token: 24 ms at the fastest host, 200 ms at a common one.
        let ([lo, mid, hi], basis, _) = by_bytes(None, 12e9, 0.25).unwrap();
        assert!((lo - 0.096).abs() < 1e-9 && (mid - 0.8).abs() < 1e-9 && hi >= 1.0);
        assert_eq!(basis, Basis::Bound);
        assert!((LANE[4] * 16.0 * PRACTICAL - 26.78e9).abs() < 0.05e9, "a practical generation 4 link of 16 lanes");
    }
}
