"""Performance and correctness testing of Stable Diffusion inference, as a pytest plugin.

PYTEST_DONT_REWRITE: this file asserts nothing, and pytest would warn where it was imported before the plugins are.
"""

__version__ = "0.1.0"
