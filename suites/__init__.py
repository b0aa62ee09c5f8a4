"""The suites: what an optimized Stable Diffusion build must keep. Run them with `pytest suites`."""
