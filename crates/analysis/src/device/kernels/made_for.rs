//! The generation of NVIDIA devices that a kernel was written for, as its name tells, and the one that a device is.
//!
//! A newer device runs kernels of older ones, without the instructions that make it faster: Hopper's matrix units reach their
//! rate by `wgmma` alone, which kernels of `sm80` do not have.

/// Compute capability times ten that a kernel was written for, by its name: 80 of `sm80_xmma_gemm`, `cutlass_80_tensorop`,
/// `ampere_bf16_s16816gemm`. Nothing where the name does not tell.
pub fn made_for(name: &str) -> Option<u32> {
    let lower = name.to_ascii_lowercase();
    let begins = |at: &usize| *at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric() || name.as_bytes()[*at].is_ascii_uppercase();
    let by_number = ["sm", "sm_", "cutlass_"].into_iter().flat_map(|before| numbers(&lower, before)).filter(|(at, _)| begins(at));
    let by_word = WORDS.iter().filter(|(word, _)| lower.starts_with(word) || lower.contains(&format!("_{word}"))).map(|(_, made)| *made);
    by_number.map(|(_, made)| made).chain(by_word).max()
}

/// Words by which libraries name generations.
const WORDS: &[(&str, u32)] = &[("volta_", 70), ("turing_", 75), ("ampere_", 80), ("hopper_", 90), ("nvjet_", 90), ("wgmma", 90)];

/// A word that says so to someone who must not see the name.
pub fn made_for_word(name: &str) -> Option<String> {
    made_for(name).map(|made| format!("sm{made}"))
}

/// Generations that follow a text, and where that stands: two or three digits that are one.
fn numbers<'a>(lower: &'a str, before: &'a str) -> impl Iterator<Item = (usize, u32)> + 'a {
    lower.match_indices(before).filter_map(move |(at, _)| {
        let rest = &lower[at + before.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u32 = rest[..digits].parse().ok().filter(|_| matches!(digits, 2 | 3))?;
        GENERATIONS.contains(&number).then_some((at, number))
    })
}

/// Compute capabilities that were built (CUDA C++ Programming Guide, compute capabilities).
const GENERATIONS: &[u32] = &[50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121];

/// Compute capability of a device by its name (NVIDIA, "CUDA GPU Compute Capability"); nothing for others.
pub fn capability(device: &str) -> Option<u32> {
    let lower = device.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.find_map(|word| CAPABILITIES.iter().find(|(names, _)| names.contains(&word)).map(|(_, capability)| *capability))
}

const CAPABILITIES: &[(&[&str], u32)] = &[
    (&["v100"], 70),
    (&["t4"], 75),
    (&["a100", "a800", "a30"], 80),
    (&["a10", "a10g", "a40", "a6000", "a5000", "3090", "3080"], 86),
    (&["l4", "l40", "l40s", "4090", "4080"], 89),
    (&["h100", "h200", "h800", "h20", "gh200"], 90),
    (&["b100", "b200", "gb200"], 100),
    (&["b300", "gb300"], 103),
    (&["5090", "5080"], 120),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_say_what_they_were_written_for() {
        for (name, made) in [
            ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize2x1x1_execute_segment_k_off_kernel", Some(90)),
            ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_kernel", Some(80)),
            ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x2_tn_align8>(Params)", Some(80)),
            ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", Some(80)),
            ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvSlidingOrChunkedCausal", Some(100)),
            ("void cutlass::device_kernel<flash::enable_sm80_to_sm89<flash::FlashAttnFwdSm80>>", Some(89)),
            ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90>>", Some(90)),
            ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", Some(90)),
            ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>", None),
            ("prism80_kernel_4", None),
            ("gemm_sm1234", None),
            ("Cijk_Alik_Bljk_BBS_BH_MT256x48x64_MI16x16x1", None),
        ] {
            assert_eq!(made_for(name), made, "{name}");
            let told = made_for_word(name).unwrap_or_default();
            assert_eq!(made_for(&format!("gemm;{told};x1y2")), made, "{name}");
        }
    }

    #[test]
    fn devices_have_one_capability() {
        for (name, capability_of) in [
            ("NVIDIA H100 80GB HBM3", Some(90)),
            ("NVIDIA A100-SXM4-80GB", Some(80)),
            ("Tesla V100-SXM2-32GB", Some(70)),
            ("NVIDIA GeForce RTX 4090", Some(89)),
            ("NVIDIA B200", Some(100)),
            ("h100-sxm", Some(90)),
            ("AMD Instinct MI300X", None),
            ("", None),
        ] {
            assert_eq!(capability(name), capability_of, "{name}");
        }
    }
}
