"""What can be done where a component goes beyond the range of its dtype, as sentences."""

from __future__ import annotations

from pytest_sdperf.core.values import Case

_GRAPH = (
    "Products of query and key that are too large, as in SD2.1, can stay float32: type "
    "--sdperf-force-fp32-ops=unet:MultiHeadAttention, or unet:MatMul,unet:Softmax where attention is not fused."
)
_MODULE = (
    "Products of query and key that are too large, as in SD2.1, need upcast_attention in the configuration of the "
    "UNet, or an attention that keeps them in float32, as torch's scaled_dot_product_attention does."
)
_LOST_UPCAST = (
    "The configuration of the VAE says force_upcast, with which the vae_decoder of a float16 pipeline runs in float32: "
    "here something made it run in float16. Leave it in float32, or run the pipeline in bfloat16."
)
_NO_UPCAST = (
    "The configuration of the VAE lacks force_upcast, with which the vae_decoder of a float16 pipeline runs in "
    "float32, as that of SDXL has to: set force_upcast, or run the pipeline in bfloat16."
)


def remedies(case: Case, *, upcasts: bool) -> dict[str, str]:
    """Return component -> what its user can do, for components about which something is known.

    Args:
        case: The case that goes wrong, in half precision.
        upcasts: Whether the configuration of its VAE says `force_upcast`.
    """
    found = {"vae_decoder": _LOST_UPCAST if upcasts else _NO_UPCAST}
    if not case.fp32_ops and case.exporter != "external":
        found["unet"] = _GRAPH if case.exporter else _MODULE
    return found
