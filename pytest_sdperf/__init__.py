"""Performance and correctness testing of Stable Diffusion inference, as a pytest plugin."""

__version__ = "0.1.0"
