"""Trains the model `shapes` on drawings: the autoencoder first, then the text encoder and the UNet.

    python training/train_shapes.py --out=FOLDER --minutes=4.5

writes FOLDER/model (a diffusers folder in float16, the moving averages; also every two minutes on the way, and what
--resume goes on from), progress.json, report.json, images.npz and sheets of images. It takes as many steps as the
minutes allow, so that two runs are alike, not equal; everything that is drawn comes from --seed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_BEGAN_S = time.monotonic()
# What the autoencoder and its drawings take of the time; what loading, writing and examining need at the end.
_AUTOENCODER_SHARE, _BANK_SHARE = 0.26, 0.06
_EXAMINING_S = 20.0
_CHECKPOINT_EVERY_S = 115.0
_GUIDANCE_SCALES = (3.0, 2.0, 5.0, 1.0)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that is written to")
    parser.add_argument("--minutes", type=float, default=4.5, help="wall-clock budget of everything (default 4.5)")
    parser.add_argument("--resume", action="store_true", help="go on from FOLDER/model and progress.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=256, help="latents per step of the UNet")
    parser.add_argument("--image-batch", type=int, default=32, help="images per step of the autoencoder")
    parser.add_argument("--bank", type=int, default=262_144, help="drawings that are encoded for the UNet")
    parser.add_argument("--prompts", type=int, default=100, help="fixed prompts that are drawn at the end")
    parser.add_argument("--no-graphs", action="store_true", help="launch every kernel instead of replaying graphs")
    return parser.parse_args(arguments)


class Training:
    """One run: its modules, its folder and its clock."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        import torch
        from drawing import SceneTable
        from exporting import Modules, read_folder

        from pytest_sdperf.core.scenes import all_scenes, prompt_scenes

        torch.manual_seed(chosen.seed)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        self.options, self.folder = chosen, chosen.out / "model"
        self.modules = Modules.new(chosen.device)
        self.progress: dict[str, Any] = {"autoencoder_steps": 0, "autoencoder_done": False, "unet_steps": 0}
        if chosen.resume:
            self.progress = json.loads((chosen.out / "progress.json").read_text(encoding="utf-8"))
            read_folder(self.modules, self.folder)
            torch.manual_seed(chosen.seed + self.progress["autoencoder_steps"] + self.progress["unet_steps"])
        fixed = set(prompt_scenes())
        self.scenes = [scene for scene in all_scenes() if scene not in fixed]  # the prompts are never trained on
        self.table = SceneTable.of(self.scenes, chosen.device)
        self.end_s = _BEGAN_S + 60 * chosen.minutes
        self._saved_s = time.monotonic()
        self.say(f"{len(self.scenes)} scenes on {self._device_name()}, torch {torch.__version__}")

    def say(self, text: str) -> None:
        """Print with the seconds since the start."""
        print(f"[{time.monotonic() - _BEGAN_S:6.1f} s] {text}", flush=True)

    def _device_name(self) -> str:
        import torch

        return torch.cuda.get_device_name() if self.options.device == "cuda" else "the CPU"

    def train_autoencoder(self, until_s: float) -> None:
        """Train until then and put the averages in."""
        from autoencoder import fit_scale, reconstruction_loss
        from drawing import draw
        from stepping import Trainer

        vae = self.modules.vae
        loss = reconstruction_loss(vae, self.table, self.options.image_batch)
        trainer = Trainer("autoencoder", {"vae": vae}, loss, rate=7e-4)
        self._fit(trainer, "autoencoder_steps", until_s)
        vae.eval().requires_grad_(requires_grad=False)
        fit_scale(vae, draw(self._some_scenes(2048)))
        self.progress["autoencoder_done"] = True
        self.say("the autoencoder is trained")

    def _some_scenes(self, most: int) -> Any:
        import torch

        count = min(most, 2 * self.options.bank)
        return self.table.rows(torch.randint(len(self.scenes), (count,), device=self.options.device))

    def show_reconstructions(self) -> None:
        """Write what the autoencoder makes of drawings of the fixed prompts: no image can be clearer than these."""
        import torch
        from autoencoder import encode
        from drawing import SceneTable, draw
        from examining import write_sheet

        from pytest_sdperf.core.scenes import prompt_scenes

        scenes = prompt_scenes(self.options.prompts)
        drawn = draw(SceneTable.of(scenes, self.options.device))
        with torch.no_grad():
            vae = self.modules.vae
            images = torch.cat([vae.decode(encode(vae, part)).sample for part in drawn.split(20)]).cpu().numpy()
        write_sheet(images, self.options.out / "reconstructions.png")
        self._report("reconstructions", scenes, images)

    def train_unet(self, bank_until_s: float, until_s: float) -> None:
        """Encode drawings, then train the text encoder and the UNet until then and put the averages in."""
        from diffusion import fill_bank, token_table, velocity_loss
        from stepping import Trainer
        from transformers import CLIPTokenizer

        self.modules.vae.eval().requires_grad_(requires_grad=False)
        bank = fill_bank(self.modules.vae, self.table, size=self.options.bank, until_s=bank_until_s)
        self.say(f"{len(bank.latents)} drawings are encoded; standard deviation {float(bank.latents.std()):.3f}")
        tokenizer = CLIPTokenizer.from_pretrained(str(self.folder / "tokenizer"), local_files_only=True)
        tokens = token_table(tokenizer, [scene.caption for scene in self.scenes], self.options.device)
        text_encoder, unet = self.modules.text_encoder, self.modules.unet
        loss = velocity_loss(text_encoder, unet, bank, tokens, batch=self.options.batch)
        trainer = Trainer("unet", {"text_encoder": text_encoder, "unet": unet}, loss, rate=7e-4)
        self._fit(trainer, "unet_steps", until_s)
        self.say("the UNet is trained")

    def _fit(self, trainer: Any, counted: str, until_s: float) -> None:
        """Take steps until then, with checkpoints, and put the averages in."""
        before = self.progress[counted]

        def save(steps: int) -> None:
            self.progress[counted] = before + steps
            self._checkpoint(trainer)

        save(trainer.run(until_s, graphs=not self.options.no_graphs, on_log=save))
        trainer.average.put()

    def _checkpoint(self, trainer: Any) -> None:
        if time.monotonic() - self._saved_s > _CHECKPOINT_EVERY_S:
            with trainer.average.in_place():
                self.write()

    def write(self) -> None:
        """Write the folder and how far it is."""
        from exporting import write_folder

        write_folder(self.modules, self.folder)
        (self.options.out / "progress.json").write_text(json.dumps(self.progress) + "\n", encoding="utf-8")
        self._saved_s = time.monotonic()
        self.say("written")

    def examine(self) -> None:
        """Draw the fixed prompts from what was written, at several weights of guidance."""
        import numpy as np
        from examining import draw_prompts, pixels, write_sheet

        from pytest_sdperf.core.scenes import prompt_scenes

        count, on_gpu = self.options.prompts, self.options.device != "cpu"
        for scale in _GUIDANCE_SCALES:
            images = draw_prompts(
                self.folder,
                device=self.options.device,
                guidance_scale=scale,
                count=count,
                batch=count if on_gpu else 4,
            )
            np.savez_compressed(self.options.out / f"images-{scale}.npz", images=pixels(images))
            write_sheet(images, self.options.out / f"images-{scale}.png")
            self._report(f"guidance {scale}", prompt_scenes(count), images)
            if not on_gpu and time.monotonic() > self.end_s:
                break

    def _report(self, name: str, scenes: Sequence[Any], images: Any) -> None:
        """Score images; without scipy they have to be read elsewhere, and that is said."""
        from examining import examine

        path = self.options.out / "report.json"
        report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        try:
            report[name] = examine(scenes, images)
        except ImportError as error:
            report[name] = {"not_read": str(error)}
        report["progress"] = self.progress
        self.say(f"{name}: {report[name]}")
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def train(chosen: argparse.Namespace) -> None:
    """Run every phase that is not done yet."""
    chosen.out.mkdir(parents=True, exist_ok=True)
    run = Training(chosen)
    if not chosen.resume:
        (chosen.out / "report.json").unlink(missing_ok=True)
        run.write()
    left_s = run.end_s - time.monotonic()
    if not run.progress["autoencoder_done"]:
        run.train_autoencoder(time.monotonic() + _AUTOENCODER_SHARE * left_s)
        run.show_reconstructions()
        run.write()
        gc.collect()  # the graph of the autoencoder's step holds gigabytes
    bank_until_s = time.monotonic() + _BANK_SHARE * left_s
    run.train_unet(bank_until_s, run.end_s - min(_EXAMINING_S, 0.1 * left_s))
    run.write()
    run.examine()
    run.say("done")


def main() -> None:
    """Train; where a step cannot be captured, start again without graphs in the time that is left."""
    from stepping import CaptureError

    chosen = options()
    try:
        train(chosen)
    except CaptureError as error:
        left = chosen.minutes - (time.monotonic() - _BEGAN_S) / 60
        print(f"a step cannot be captured ({error}); going on without graphs for {left:.2f} minutes", flush=True)
        more = [argument for argument in sys.argv[1:] if not argument.startswith("--minutes")]
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        resume = [] if "--resume" in more or not (chosen.out / "progress.json").is_file() else ["--resume"]
        os.execv(sys.executable, [sys.executable, __file__, *more, *resume, f"--minutes={left}", "--no-graphs"])  # noqa: S606


if __name__ == "__main__":
    main()
