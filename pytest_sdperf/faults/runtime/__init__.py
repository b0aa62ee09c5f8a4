"""Faults of an engine that runs: what it answers, and the work that it does for it."""
