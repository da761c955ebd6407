//! Real names of CUDA, ROCm and Triton kernels, rule by rule.

use super::*;

/// Category and matrix units, then names as recorders write them.
const EXPECTED: &[(Category, MatrixUnits, &[&str])] = &[
    (
        Category::Communication,
        MatrixUnits::NotNeeded,
        &[
            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_AllReduce_RING_LL_Sum_bf16(ncclWorkElem)",
            "ncclSymkDevKernel_AllGather_LL(ncclSymDevArgs)",
            "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
            "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*)",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4, __nv_bfloat16, 8, true>()",
            "void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 8>(tensorrt_llm::kernels::AllReduceParams)",
            "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>(__half const*)",
            "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*)",
            "nvshmemi_transfer_rma_put_kernel",
            "void mscclpp::allreduceAdapter7<float>(float*)",
            "moeAllToAllKernel",
            "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)",
            "triton_one_shot_reduce_kernel",
        ],
    ),
    (
        Category::Norm,
        MatrixUnits::NotNeeded,
        &[
            "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1",
            "triton_per_fused_native_layer_norm_4",
            "triton_red_fused__softmax_2",
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
            "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE",
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
            "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
            "void at::native::batch_norm_backward_kernel<c10::BFloat16, c10::BFloat16, float, int>(int)",
            "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_tr_1C11_args<float>)",
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*)",
        ],
    ),
    (
        Category::Elementwise,
        MatrixUnits::NotNeeded,
        &[
            "triton_poi_fused__to_copy_1",
            "triton_poi_fused_constant_pad_nd_moe_forward_0",
            "triton_red_fused_add_sum_3",
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)>(int)",
            "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
            "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",
            "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long)",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4>>(float)",
            "SubTensorOpWithScalar1d",
            "void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<float>(float const*)",
            "void k_bin_bcast<&op_add, float, float, float>(float const*)",
            "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>()",
        ],
    ),
    (
        Category::Moe,
        MatrixUnits::Used,
        &[
            "fused_moe_kernel",
            "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
            "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedP2x1x2x3_biasM_bN_tma_tmaOpt_clmp_swiGlu_dynBatch_sm100f",
            "void ck::kernel_moe_mxgemm_2lds<ck::GridwiseMoeGemmMX>(ck::GridwiseMoeGemmMX::Argument)",
            "void marlin_moe_wna16::Marlin<__nv_bfloat16, 1125899906843648l>(int4 const*)",
            "void deep_gemm::sm90_fp8_gemm_1d2d_m_grouped_contiguous_impl<4096u>(float*)",
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>()",
        ],
    ),
    (
        Category::Moe,
        MatrixUnits::NotNeeded,
        &[
            "void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, int>(float const*)",
            "void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*)",
            "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t, cutlass::bfloat16_t, 4, true> >()",
            "void moe::dev::routing::routingIndicesHistogramKernel<moe::dev::routing::routingRenormalize::KernelParams<__nv_bfloat16>>()",
            "void aiter::grouped_topk_kernel<float, 8>(float*)",
            "_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelE",
            "_combined_routing_compute",
            "_topk_forward",
            "_finalize_matmul_scatter_bf16",
            "_sum_bitmatrix_rows",
        ],
    ),
    (
        Category::Attention,
        MatrixUnits::NotNeeded,
        &[
            "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(__nv_bfloat16 const*)",
            "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
            "void vllm::merge_attn_states_kernel<__nv_bfloat16, 128u>(__nv_bfloat16*)",
            "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(flash::Flash_fwd_params)",
            "reduce_segments",
        ],
    ),
    (
        Category::Attention,
        MatrixUnits::Used,
        &[
            "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t>>(flash::Flash_fwd_params)",
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90>>>()",
            "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
            "_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelINS_28BlockFmhaPipelineQRKSVSAsyncE",
            "kernel_unified_attention_3d",
            "attn_fwd",
            "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits>(flashinfer::PagedParams)",
            "kernel_mha",
        ],
    ),
    (
        Category::Attention,
        MatrixUnits::Unknown,
        &[
            "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u>(flashinfer::BatchDecodeParams)",
            "void vllm::paged_attention_v2_kernel<__half, __half, 128, 16, 128>(float*)",
            "_Z38paged_attention_ll4mi_QKV_mfma16_kernelI14__hip_bfloat16hE",
            "_fwd_grouped_kernel_stage1",
            "_fwd_kernel",
            "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
            "_chunk_scan_fwd_kernel",
            "_causal_conv1d_update_kernel",
            "kn_get_mla_metadata_v1",
        ],
    ),
    (
        Category::Gemm,
        MatrixUnits::Missed,
        &[
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
            "volta_sgemm_64x64_nt",
            "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int)",
            "ampere_sgemm_32x32_sliced1x4_tn",
            "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        ],
    ),
    (
        Category::Gemm,
        MatrixUnits::NotNeeded,
        &[
            "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(cublasLt::cublasSplitKParams<float>)",
            "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>()",
            "void mul_mat_vec_q<(ggml_type)12, 1, false>(void const*)",
            "void wvSplitK_hf_sml_<__hip_bfloat16, 32, 4, 16, 8, 2, 1>(int)",
        ],
    ),
    (
        Category::Gemm,
        MatrixUnits::Used,
        &[
            "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)",
            "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x32x256_MI16x16x1_SN_LDSB1_AFC1_AFEM1",
            "igemm_wrw_gtcx2_nhwc_bf16_bx0_ex1_bt256x128x16_wt32x32x8_ws2x1_wr2x2_ta1x4x1x4_1x4x1x64_tb1x4x1x2_1x4x1x64_gkgs",
            "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weightE",
            "void marlin::Marlin<__nv_bfloat16, 1125899906843648l, 256, 1, 8, 8, false, 4, 8, false>(int4 const*)",
            "void deep_gemm::sm100_fp8_gemm_1d1d_impl<7168u>(float*)",
            "volta_h884gemm_128x128_ldg8_tn",
        ],
    ),
    (
        Category::Gemm,
        MatrixUnits::Unknown,
        &[
            "Cijk_Ailk_Bljk_SB_MT128x128x8_SE_K1",
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>()",
            "triton_tem_fused_mm_0",
            "_w8a8_block_fp8_matmul",
            "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::WinogradDataParams)",
            "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)",
            "awq_gemm_kernel",
            "void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*)",
        ],
    ),
    (
        Category::Quantize,
        MatrixUnits::NotNeeded,
        &[
            "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(c10::Float8_e4m3fn*)",
            "void per_token_group_quant_8bit_kernel<__nv_bfloat16, __nv_fp8_e4m3, true>(void const*)",
            "void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>(int, int)",
            "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)",
            "quantize_q8_1",
        ],
    ),
    (
        Category::Sampling,
        MatrixUnits::NotNeeded,
        &[
            "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2>(float*)",
            "void at::native::mbtopk::gatherTopK<float, unsigned int, 2>(float*)",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>>()",
            "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<float>>()",
            "rejection_greedy_sample_kernel",
            "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, at::native::templates::cuda::exponential_kernel>()",
            "apply_token_bitmask_inplace_kernel",
        ],
    ),
    (
        Category::CopyKernel,
        MatrixUnits::NotNeeded,
        &[
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const>(int)",
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>()",
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            "__amd_rocclr_copyBuffer",
            "__amd_rocclr_fillBufferAligned",
            "batched_transpose_32x32_half",
            "MEMORY_COPY_HOST_TO_DEVICE",
        ],
    ),
];

#[test]
fn every_name_is_put_where_it_belongs() {
    for (category, matrix, names) in EXPECTED {
        for name in *names {
            assert_eq!(kind(name), Kind { category: *category, matrix: *matrix }, "{name}");
        }
    }
}

#[test]
fn every_rule_has_a_name() {
    let names: Vec<String> = EXPECTED.iter().flat_map(|(.., names)| names.iter().map(|name| name.to_ascii_lowercase())).collect();
    for (at, rule) in RULES.iter().enumerate() {
        let first = |name: &String| RULES.iter().position(|rule| rule.words.iter().any(|word| matches(name, word)));
        assert!(names.iter().any(|name| first(name) == Some(at)), "no name is decided by {rule:?}");
    }
}

#[test]
fn the_deciding_words_alone_decide_alike() {
    for name in EXPECTED.iter().flat_map(|(.., names)| *names) {
        let words = deciding_words(name).join(";");
        assert_eq!(kind(&format!("{words};x0123456789ab")), kind(name), "{name}: {words}");
    }
}

#[test]
fn what_no_rule_knows_is_other() {
    assert_eq!(kind("my_secret_kernel").category, Category::Other);
    assert_eq!(kind("").category, Category::Other);
    // The library's name inside another word is no communication.
    assert_ne!(kind("void conncclude_kernel<float>(float*)").category, Category::Communication);
}

#[test]
fn families_keep_what_is_comparable() {
    for (name, expected) in [
        (
            "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, cutlass::bfloat16_t>>(flash::Flash_fwd_params)",
            "flash_fwd_kernel",
        ),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(int)", "flash_fwd_kernel"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "nvjet_tst"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "xmma_gemm_bf16bf16_bf16f32_f32_tn_n"),
        ("Cijk_Ailk_Bjlk_BBS_BH_MT32x32x64_MI16x16x16x1_SN", "Cijk_Ailk_Bjlk_BBS_BH"),
        ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
            "vectorized_elementwise_kernel(CUDAFunctor_add)",
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>>(int)",
            "elementwise_kernel(direct_copy_kernel_cuda)",
        ),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(long)",
            "fused_add_rms_norm_kernel",
        ),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("", ""),
        ("<<<>>>", "<<<>>>"),
    ] {
        assert_eq!(family(name), expected, "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read(name in ".{0,80}") {
        let _ = (kind(&name), family(&name));
    }
}
