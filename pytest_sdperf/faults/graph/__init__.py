"""Faults of an optimized graph, by what they are in: attention, norms, convolutions, activations."""
