"""The identity of what is measured."""

from __future__ import annotations

import dataclasses

# The exporter of a graph that somebody else exported.
EXTERNAL = "external"


@dataclasses.dataclass(frozen=True)
class Workload:
    """How much work one image request is.

    Attributes:
        batch_size: Images per request; a guided UNet call runs at twice this.
        height, width: Pixels; latents are an eighth of them.
        steps: Scheduler steps. UNet calls are counted, not derived from this (PNDM makes one more).
        scheduler: `pndm`, `ddim`, `euler` or `unipc`.
    """

    batch_size: int = 1
    height: int = 512
    width: int = 512
    steps: int = 50
    scheduler: str = "pndm"


@dataclasses.dataclass(frozen=True)
class Case:
    """The identity of what is measured: everything that makes two numbers incomparable when it differs.

    Attributes:
        model: Catalog name, such as `sd15-thin`.
        component: `unet`, `vae_decoder`, `text_encoder`, ... or `pipeline` for the whole request.
        engine: Engine name, or the name of the profile that runs it.
        engine_options: Options that differ from the engine's defaults, sorted by name.
        optimization: Canonical selection: the highest optimization of a cumulative build (`fp16`), `fp16+fmha` or
            `all-fmha`.
        fuser: `native` or `ort`; empty where the engine compiles the torch module itself.
        exporter: `dynamo` or `torchscript`, or `external` for a graph that somebody else exported; empty likewise.
        opset: ONNX opset of the export; 0 likewise.
        shapes: `static` or `dynamic`; empty likewise.
        weights: Identity of the weights (`random-0`, `none`, a fingerprint of a folder, or a hub id with its commit),
            or of an external graph with its weights (`onnx-` and a hash of its files).
        fp32_ops: Operators that stay float32 in a float16 graph: `unet:MultiHeadAttention`, joined by commas.
        batch_size, height, width, steps, scheduler: See `Workload`; steps and scheduler are 0 and empty for a
            single component.
    """

    model: str
    component: str
    engine: str
    optimization: str
    engine_options: tuple[tuple[str, str], ...] = ()
    fuser: str = ""
    exporter: str = ""
    opset: int = 0
    shapes: str = ""
    weights: str = "random-0"
    fp32_ops: str = ""
    batch_size: int = 1
    height: int = 512
    width: int = 512
    steps: int = 0
    scheduler: str = ""

    @property
    def key(self) -> str:
        """The baseline key: every field, in field order, empty ones left out (`model=sd15 component=unet ...`)."""
        parts = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "engine_options":
                value = ",".join(f"{name}={setting}" for name, setting in value)
            if value not in ("", 0):
                parts.append(f"{field.name}={value}")
        return " ".join(parts)

    @property
    def workload(self) -> Workload:
        """The size of the work that this case does."""
        return Workload(self.batch_size, self.height, self.width, self.steps, self.scheduler)
