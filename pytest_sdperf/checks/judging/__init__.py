"""The parts of `judge()`: fitness, latency, memory and graph. Each is pure and knows nothing of the others."""
