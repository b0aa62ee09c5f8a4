"""Is the picture the same?

Each test executes one case once and compares it with torch in higher precision, on the same weights and inputs: the
output tensors of a component, or of a whole request the latents after every denoising step and the decoded image, as a
tensor and as a person sees it. Every limit is derived: a build may be at most twice as far from the reference as plain
torch in the build's own precision.
"""


def test_engine_computes_what_torch_computes(runner, agree):
    agree(runner)
