"""What a worker process does to take one sample: first runs, warm-up, timed calls, what the GPU did."""
