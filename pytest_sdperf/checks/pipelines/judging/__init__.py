"""Verdicts on each metric of a measurement."""
