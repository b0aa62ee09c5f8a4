"""Which kind of work a GPU kernel does, read from its name.

Standard library only: a worker classifies what its profiler saw. The names are those that profilers print: C++
signatures (torch, ONNX Runtime, CUTLASS, composable kernel), names that a library generates (cuDNN, cuBLAS, Tensile,
rocMLIR) and the nodes that Inductor fused. What no row knows is `other`; a report names its longest ones, so that a row
can be added here.
"""

from __future__ import annotations

import re

FLASH = "attention-flash"
CUDNN = "attention-cudnn"
EFFICIENT = "attention-efficient"
TENSORRT = "attention-tensorrt"
MATH = "attention-math"
OTHER = "other"

NONE_ON_CPU = "a CPU launches no kernels"

ATTENTIONS = (FLASH, CUDNN, EFFICIENT, TENSORRT, MATH)
KINDS = (*ATTENTIONS, "convolution-nhwc", "convolution", "gemm", "norm", "elementwise", "copy", "memset", OTHER)

# The first row that matches decides. A comment says where names of a row come from.
_ROWS = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        # Inductor: triton_poi_fused_convolution_silu_3 is the pointwise tail of a convolution, not a convolution.
        ("elementwise", r"^triton_poi_"),
        ("convolution", r"^triton_tem_\w*conv"),
        ("gemm", r"^triton_(tem_|b?mm)"),
        # Before flash: cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_..
        (CUDNN, r"cudnn\w*(sdpa|mha|attention)|sdpa_sm\d+_flash"),
        # The fused attention of TensorRT that ONNX Runtime carries: fmha_v2_flash_attention_fp16_S_64_sm80_kernel_nl,
        # fmha_mhca_fp16_128_64_sm86_kernel, fused_multihead_attention_v2_fp16_64_64_kernel_sm80.
        (TENSORRT, r"fmha_v2_|fmha_mhca_|fused_multihead"),
        # torch and ONNX Runtime: pytorch_flash::flash_fwd_kernel, onnxruntime::flash::flash_fwd_splitkv_kernel;
        # FlashAttention 3 and 4: flash::FlashAttnFwdSm90; AMD: ck_tile::FmhaFwdKernel, AOTriton's attn_fwd, rocMLIR's
        # mlir_attention.
        (FLASH, r"flash_?fwd|flash_?attn|flash_?attention|FmhaFwd|\battn_fwd|mlir_attention"),
        # CUTLASS: fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<..>), ONNX Runtime's
        # attention_kernel_batched_impl; composable kernel: GridwiseBatchedGemmSoftmaxGemm..
        (EFFICIENT, r"fmha_cutlass|attention_kernel|AttentionKernel|MemEffAttention|GemmSoftmaxGemm"),
        # The only softmax of Stable Diffusion is that of an attention whose products are separate kernels.
        (MATH, r"soft_?max"),
        # torch's GroupNorm is RowwiseMoments and ComputeFusedParams; cuDNN's bn_fw_tr_.. does InstanceNormalization.
        ("norm", r"(group|layer|instance|batch|rms)_?norm|RowwiseMoments|ComputeFusedParams|\bbn_fw_"),
        # Before convolutions: cudnn::engines_precompiled::nchwToNhwcKernel and nhwcAddPaddingKernel only move data.
        ("copy", r"nchwToNhwc|nhwcToNchw|AddPaddingKernel|direct_copy_kernel|CatArrayBatchedCopy|batched_transpose"),
        # cuDNN: sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_..; MIOpen: igemm_fwd_gtcx3_nhwc_fp16_..
        ("convolution-nhwc", r"(fprop|implicit_?gemm|igemm_fwd|conv).*nhwc|nhwc.*(fprop|conv)"),
        # cuDNN: cutlass_tensorop_f16_s16816fprop_.., implicit_convolve_sgemm, turing_fp16_s1688cudnn_.., winograd;
        # MIOpen: miopenSp3AsmConv_..; composable kernel: GridwiseGroupedConvFwd..; rocMLIR: mlir_convolution_..
        ("convolution", r"_[sh]\d*cudnn_|fprop|implicit_?gemm|implicit_?convolve|winograd|igemm_fwd|conv(?!ert)"),
        # cuBLAS: nvjet_hsh_128x256_.., ampere_fp16_s16816gemm_.., splitKreduce_kernel; Tensile: Cijk_Ailk_Bljk_HHS_..;
        # rocMLIR: mlir_dot_..
        ("gemm", r"nvjet|gemm|gemv|splitKreduce|\bCijk_|mlir_dot|cublas|dot_kernel"),
        ("memset", r"\bmemset|FillFunctor|FillFromDataPtr"),
        ("copy", r"transpose|permute|concat|slice|split_?(smallinner)?kernel|gather|index_?select|embedding|\bcopy"),
        # cuDNN: tensorTransformGeneric, from one layout to another.
        ("copy", r"memcpy|tensorTransform"),
        ("copy", r"upsample|resize|\bpad|tile_?kernel"),
        # cuDNN's op_generic_tensor_kernel adds the bias of a convolution; ONNX Runtime: AddBiasUnpack of packed
        # attention, biasSplitGeluKernel, BiasAdd, _UnaryElementWise; torch: vectorized_elementwise_kernel.
        ("elementwise", r"element_?wise|op_generic_tensor|op_tensor_kernel|add_tensor|bias|gelu|silu|swish|sigmoid"),
        ("elementwise", r"unrolled_|\bexpand|cast|functor|reduce_kernel|^triton_(red|per|mix)_"),
    )
)

# Kinds that tensor cores are for, and names of products in half precision that the cores for single precision compute:
# cuDNN's implicit_convolve_sgemm<__half, ..>, precomputed_convolve_sgemm<__half, ..>, volta_fp16_scudnn_fp16_.. and
# convolve_common_engine_float_NHWC<__half, ..>; cuBLAS's volta_fp16_sgemm_fp16_..; CUTLASS's cutlass_80_simt_hgemm_...
# Those with tensor cores are called s16816gemm, s884cudnn, xmma, wgmma, tensorop or nvjet.
_PRODUCTS = ("convolution-nhwc", "convolution", "gemm")
_SINGLE = re.compile(r"(?:\b|_)s(?:gemm|cudnn)(?:\b|_)|_simt_|engine_float", re.IGNORECASE)
_HALF = re.compile(r"half|fp16|f16|hgemm", re.IGNORECASE)


def kind_of(name: str) -> str:
    """Return the kind of one kernel, one of `KINDS`."""
    return next((kind for kind, pattern in _ROWS if pattern.search(name)), OTHER)


def without_tensor_cores(name: str) -> bool:
    """Tell whether a kernel multiplies matrices of half precision on a GPU's cores for single precision.

    Every GPU of this decade does that several times faster on its tensor cores. Products of float32 are none of these.
    """
    return kind_of(name) in _PRODUCTS and bool(_SINGLE.search(name) and _HALF.search(name))


def attention_of(asked: str) -> tuple[str, ...]:
    """Return the kinds of kernels that an attention may run which was asked for by name; empty for an unknown name.

    Args:
        asked: As the fact `attention` spells it. xFormers takes FlashAttention where a head fits it, else its own
            CUTLASS kernels.
    """
    known = {"flash": (FLASH,), "cudnn": (CUDNN,), "efficient": (EFFICIENT,), "math": (MATH,)}
    return {**known, "xformers": (FLASH, EFFICIENT)}.get(asked, ())
