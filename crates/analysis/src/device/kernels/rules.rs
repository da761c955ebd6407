//! The table of rules: category, matrix units, words. Read from the top, the first rule with a word in the name wins.

use super::Category::{self, Attention, Communication, CopyKernel, Elementwise, Gemm, Moe, Norm, Quantize, Sampling};
use super::MatrixUnits::{self, Missed, NotNeeded, Unknown, Used};

/// How a word is looked for in the lower-case name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// Anywhere.
    Anywhere(&'static str),
    /// Where no letter stands before it.
    Begins(&'static str),
    /// At the start of the name.
    Starts(&'static str),
    /// Both texts, anywhere.
    Both(&'static str, &'static str),
}
use Word::{Anywhere as A, Begins as B, Both, Starts as S};

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) category: Category,
    pub(super) matrix: MatrixUnits,
    pub(super) words: &'static [Word],
}

const fn rule(category: Category, matrix: MatrixUnits, words: &'static [Word]) -> Rule {
    Rule { category, matrix, words }
}

/// All rules in order.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    // Libraries of collectives, the engines' own all-reduce kernels, dispatch and combine of experts over the network.
    rule(Communication, NotNeeded, &[
        B("nccl"), B("rccl"), B("hccl"), A("allreduce"), A("all_reduce"), A("allgather"), A("all_gather"), A("reducescatter"),
        A("reduce_scatter"), A("alltoall"), A("all_toall"), A("allto_all"), A("all_to_all"), A("cross_device_reduce"), A("nvshmem"),
        A("deep_ep"), A("quick_reduce"), A("quickreduce"), A("mscclpp"), Both("one_shot", "reduce"), Both("two_shot", "reduce"),
    ]),
    // Kernels a compiler generated from pointwise operations and reductions carry the names of what they stand next to.
    rule(Norm, NotNeeded, &[Both("triton_red_", "rsqrt"), Both("triton_per_", "rsqrt"), Both("triton_poi_", "norm"), Both("triton_red_", "norm"),
        Both("triton_per_", "norm"), Both("triton_red_", "softmax"), Both("triton_per_", "softmax")]),
    rule(Elementwise, NotNeeded, &[A("triton_poi_"), A("triton_red_"), A("triton_per_"), A("triton_for_")]),
    // Experts: their matrix products first, then routing, sorting and combining.
    rule(Moe, Used, &[A("fused_moe"), A("matmul_ogs"), A("moe_mxgemm"), A("moe_gemm"), A("moegemm"), A("marlin_moe"), A("moewna16"),
        Both("bmm_", "dynbatch"), A("m_grouped"), A("grouped_gemm"), A("groupgemm"), A("groupproblemshape"), A("kernel_moe")]),
    rule(Moe, NotNeeded, &[A("moe"), A("expert"), A("topkgating"), A("topk_gating"), A("grouped_topk"), A("groupedtopk"),
        A("combined_routing"), S("_topk_forward"), A("routingindices"), A("routingmain"), A("bitmatrix"), A("finalize_matmul_scatter")]),
    // Attention on matrix units; then decode kernels of which the name does not tell; then what only moves the cache.
    rule(Attention, NotNeeded, &[A("reshape_and_cache"), A("concat_and_cache"), A("copy_blocks"), A("merge_attn_states"), A("merge_state"),
        A("set_mla_kv_buffer"), A("create_flashinfer_kv_indices"), A("flash_fwd_splitkv_combine"), A("flash_combine"), A("appendpagedkv"),
        A("store_kvcache"), A("gather_cache"), A("kv_cache_copy"), A("reduce_segments"), A("convertvertical")]),
    rule(Attention, Used, &[A("flash_fwd"), A("flash_bwd"), A("flash::"), A("flashattn"), A("flash_attn"), A("fmha"), A("flashmla"), A("flash_mla"),
        A("batchprefill"), A("singleprefill"), A("batch_prefill"), A("kernel_mha"), A("mla::"), A("attn_fwd"), A("_attn_ext_f16"),
        A("unified_attention"), A("sage_fwd"), A("sageattn"), A("cutlass_mla"), A("prefixattn")]),
    rule(Attention, Unknown, &[A("attention"), B("attn"), A("_attn"), A("paged"), A("sdpa"), A("mla_"), A("batchdecode"), A("batch_decode"),
        A("kv_cache"), A("kvcache"), A("kn_get_mla"), A("xqa"), S("_fwd_kernel"), S("_fwd_grouped_kernel"), A("fwd_kernel_stage"), B("pa_fwd"),
        B("pa_decode"), A("delta_rule"), A("selective_scan"), A("chunk_scan"), A("chunk_state"), A("causal_conv1d"), A("gated_delta")]),
    // Matrix products: those that miss the matrix units by name, those on them, the rest.
    rule(Gemm, Missed, &[A("ffma"), A("simt"), B("sgemm"), A("cgemm_"), A("scudnn"), A("f32f32_f32f32_f32"), B("gemmsn_")]),
    rule(Gemm, NotNeeded, &[A("splitkreduce"), A("splitk_reduce"), A("scal_kernel"), A("gemv"), A("dot_kernel"), A("mul_mat_vec"), A("wvsplit"),
        A("llmm1"), A("computeoffsetskernel"), A("computeboffsets"), A("scalegemm"), A("gemmk1")]),
    rule(Gemm, Used, &[A("tensorop_"), A("wgmma"), A("warpgroup"), A("nvjet"), A("hmma"), A("imma"), A("mfma"), A("s16816"), A("h16816"), A("s1688"), A("h1688"), Both("cijk_", "_mi"), A("xdlops"), A("_xdl_"), A("gemm_xdl"), A("wmma"), Both("bmm_", "sm100"), Both("sm90_", "gemm"), A("deep_gemm"), A("fp8_gemm"), A("marlin"), A("machete"), A("h884"),
        A("i8816"), A("igemm_fwd_gtcx"), A("igemm_bwd_gtcx"), A("igemm_wrw_gtcx"), A("mul_mat_q"), A("tf32"), A("bf16gemm"),
        A("cutlass_scaled_mm"), A("cutlass3x")]),
    rule(Gemm, Unknown, &[A("cijk_"), A("gemm"), A("matmul"), A("cutlass::kernel"), A("cutlass_"), A("cutlass::device_kernel"), A("xmma"), A("splitk"),
        A("split_k"), A("_mm_"), B("bmm"), B("addmm"), A("scaled_mm"), A("triton_tem_"), A("cublas"), A("convolve"), A("conv2d"), A("conv_"),
        A("implicit_con"), A("dgrad"), A("wgrad"), A("winograd"), A("fft2d"), A("linear_kernel"), A("mul_mat"), A("bwd_data"), A("bwd_weight"),
        A("convolution"), A("im2col"), A("im2d2col"), A("col2im")]),
    rule(Norm, NotNeeded, &[A("norm"), A("softmax"), A("welford"), B("bn_"), A("rowwisemoments"), A("internalgradients"), A("fusedparams"), A("gammabeta")]),
    rule(Quantize, NotNeeded, &[A("quant"), A("cvt_fp"), A("convert_fp8"), A("mxfp"), A("scaled_fp8"), A("scaled_int8"), A("fp8_cast"),
        A("scale_transform")]),
    rule(Sampling, NotNeeded, &[B("sampling"), B("sample"), A("topk"), A("topp"), A("top_p"), A("top_k"), A("min_p"), A("argmax"), A("multinomial"),
        A("radixsort"), A("bitonicsort"), A("sort"), A("gumbel"), A("exponential"), A("penalt"), A("logit"), A("logprob"), A("bitmask"),
        A("rejection"), A("eagle"), A("next_token"), A("log_softmax"), A("distribution"), A("random")]),
    rule(CopyKernel, NotNeeded, &[A("direct_copy_kernel"), A("copy_kernel"), A("catarraybatchedcopy"), A("fillfunctor"), A("copybuffer"),
        A("fillbuffer"), A("memory_copy"), A("transpose"), A("memcpy"), A("memset"), A("copy_page"), A("nchwtonhwc"), A("nhwctonchw"),
        A("_to_copy"), A("contiguous"), A("permute")]),
    rule(Elementwise, NotNeeded, &[A("elementwise"), A("triton_"), A("reduce"), A("rope"), A("rotary"), A("silu"), A("gelu"), A("relu"), A("swiglu"),
        A("act_and_mul"), A("activation"), A("cat"), A("copy"), A("index"), A("gather"), A("scatter"), A("embed"), A("fill"), A("arange"),
        A("clamp"), A("tensor_apply"), A("tensorop"), A("subtensor"), A("cumsum"), A("scan"), A("mask"), A("pool"), A("upsample"),
        A("nchw"), A("nhwc"), A("position"), A("functor"), A("pointwise"), A("slot_mapping"), A("block_table"), A("prepare_"), A("input_ids"),
        A("unrolled"), A("devicescan"), A("devicereduce"), A("deviceselect"), A("thrust::"), A("cub::"), A("nll_loss"), A("bias"),
        A("_add_kernel"), A("add_kernel"), A("mul_kernel"), A("packedtensor"), A("op_tensor"), A("opcast"), A("k_bin_bcast"), A("unary_op"), A("get_rows"),
        A("convert_unary"), A("cpy_"), A("dropout"), A("compute_"), A("seqlen"), A("cu_seq")]),
];
