"""Latency and memory of a component or a request."""
