"""Stable Diffusion models: one file per family, each with a tuple `MODELS`."""
