"""Kernel names as profilers print them, and the kind of work that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_sdperf.tasks.sampling.kernels import ATTENTIONS, KINDS, OTHER, attention_of, kind_of, without_tensor_cores

NAMES = {
    "attention-flash": [
        (
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 64, 4, false, false, "
            "cutlass::half_t>, false, false>(pytorch_flash::Flash_fwd_params)"
        ),
        "void onnxruntime::flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>",
        "void onnxruntime::flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4>>",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop>>>",
        "flash::FlashAttentionForwardSm100",
        "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::TileFmhaTraits>>",
        "attn_fwd.kd",
        "mlir_attention",
    ],
    "attention-cudnn": [
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0",
    ],
    "attention-efficient": [
        (
            "fmha_cutlassF_f16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t, "
            "cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)"
        ),
        "void onnxruntime::contrib::cuda::attention_kernel_batched_impl<AttentionKernel<float, Sm80, true>>",
        "void ck::kernel_gemm_softmax_gemm<ck::GridwiseBatchedGemmSoftmaxGemm_Xdl_CShuffle<float>>",
    ],
    "attention-tensorrt": [
        "fmha_v2_flash_attention_fp16_S_64_sm80_kernel_nl",
        "fmha_mhca_fp16_128_64_sm86_kernel",
        "fused_multihead_attention_v2_fp16_64_64_kernel_sm80",
    ],
    "attention-math": [
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, int)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, c10::Half, float, c10::Half>",
        "triton_per_fused__softmax_3",
    ],
    "convolution-nhwc": [
        (
            "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x32x32_stage4_warpsize4x1x1_g1_"
            "tensor16x8x16_execute_kernel__5x_cudnn"
        ),
        "sm90_xmma_fprop_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_execute_kernel__5x_cudnn",
        "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2",
    ],
    "convolution": [
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_256x64_32x4>",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>",
        "volta_fp16_scudnn_fp16_128x64_relu_small_nn_v1",
        "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
        "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float, float>",
        "miopenSp3AsmConv_v30_3_1_gfx90a_fp16_dot2_edc_stride1",
        "mlir_convolution_add",
        "triton_tem_fused_convolution_5",
    ],
    "gemm": [
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half>",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1",
        "mlir_dot_add_0",
        "triton_tem_fused_addmm_12",
        "triton_mm",
        "triton_tem_fused_bmm_4",
    ],
    "norm": [
        "void onnxruntime::contrib::cuda::GroupNormNHWCSumKernel<__half, 2>(GroupNormNHWCParams<__half>)",
        "void onnxruntime::cuda::cuApplyLayerNorm<__half, float, __half, false>",
        "void onnxruntime::contrib::cuda::SkipLayerNormKernelSmall<__half, 320>",
        "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<c10::Half>",
        "triton_red_fused_native_group_norm_silu_7",
        "triton_per_fused_addmm_native_layer_norm_9",
        "void bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>",
    ],
    "elementwise": [
        "void op_generic_tensor_kernel<2, __half, float, __half, 256, cudnnGenericOp_t>",
        "void onnxruntime::contrib::cuda::AddBiasUnpack<__half>(int, __half const*, __half const*, __half*)",
        "void onnxruntime::contrib::cuda::biasSplitGeluKernel<__half, 1280, 256>",
        "void onnxruntime::cuda::_UnaryElementWise<__half, __half, OP_Sigmoid<__half>, 256, 4>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, array<char*, 3>>",
        "triton_poi_fused_convolution_silu_3",
        "triton_poi_fused_add_native_group_norm_2",
    ],
    "copy": [
        "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>",
        "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4>",
        "void onnxruntime::cuda::Transpose4DKernelParallelizeMultipleElementsPerThreadInInnermostDim<short>",
        "void onnxruntime::cuda::_ConcatKernelSameConcatDim<short>",
        "void at::native::(anonymous namespace)::upsample_nearest2d_nhwc_out_frame<c10::Half>",
        "void onnxruntime::cuda::_SplitSmallInnerKernel<int4>(onnxruntime::cuda::TArray<long, 4>, void const*)",
        "void tensorTransformGeneric<__half, __half, float, true, false, false, (cudnnKernelDataType_t)0>",
    ],
    "memset": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, array<char*, 1>>",
        "void onnxruntime::cuda::_FillFromDataPtrKernel<int, 256, 4>(int*, int const*, int)",
    ],
    "other": ["gsplat_rasterize", ""],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_a_name_says_what_a_kernel_does(kind, name):
    assert kind_of(name) == kind


def test_every_kind_has_an_example():
    assert sorted(NAMES) == sorted(KINDS)


@given(st.text())
def test_any_name_has_a_kind(name):
    assert kind_of(name) in KINDS


@pytest.mark.parametrize("asked", ["flash", "cudnn", "efficient", "math", "xformers"])
def test_an_attention_that_can_be_asked_for_is_an_attention_kind(asked):
    assert attention_of(asked)
    assert set(attention_of(asked)) < set(ATTENTIONS)


def test_an_unknown_attention_names_no_kind():
    assert attention_of("sdpa") == ()
    assert attention_of(OTHER) == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void precomputed_convolve_sgemm<__half, 1024, 5, 5, 4, 3, 3, 1, false>(int, int, int, __half const*)", True),
        ("void implicit_convolve_sgemm<__half, __half, 128, 6, 7, 3, 3, 5, 1, false, false, true>(int, int)", True),
        ("void convolve_common_engine_float_NHWC<__half, __half, 128, 6, 7, 3, 3, 5, false, false>(int, int)", True),
        ("volta_fp16_scudnn_fp16_128x64_relu_small_nn_v1", True),
        ("volta_fp16_sgemm_fp16_128x32_nn", True),
        ("void cutlass::Kernel2<cutlass_80_simt_hgemm_256x128_8x4_nn_align1>(Params)", True),
        # On tensor cores.
        ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn", False),
        ("turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", False),
        ("volta_fp16_h884gemm_fp16_64x64_ldg8_f2f_tn", False),
        ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_256x64_32x4>", False),
        ("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x192x64_warpgroupsize2x1x1", False),
        ("nvjet_sm90_hsh_320x128_64x3_1x2_h_bz_coopB_NNT", False),
        # Of single precision, or no products at all.
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>", False),
        ("ampere_sgemm_128x64_tn", False),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)", False),
        ("void op_generic_tensor_kernel<4, __half, float, __half, 256>", False),
        ("acme", False),
    ],
)
def test_products_of_half_precision_that_use_no_tensor_cores(name, expected):
    assert without_tensor_cores(name) is expected
