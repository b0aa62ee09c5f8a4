"""What a user's test sees of the steps of a whole request."""

from __future__ import annotations

import pytest

TESTS = """
    import numpy as np
    import pytest

    @pytest.mark.sdperf(components=["pipeline"], optimizations=["fp32"])
    def test_steps(case, runner):
        outputs = runner.run()
        steps = outputs["step_latents"]
        assert steps.shape == (outputs["unet_calls"], case.batch_size, 4, case.height // 8, case.width // 8)
        assert np.array_equal(steps[-1], outputs["latents"])
        assert not np.array_equal(steps[0], steps[-1])
"""


@pytest.mark.slow
def test_a_request_returns_its_latents_after_every_unet_call(user):
    options = {"model": "shapes", "engine": "torch", "resolution": 64, "steps": 3, "scheduler": "ddim"}
    user.project(conftest="pass", tests=TESTS, options=options)
    user.run().assert_outcomes(passed=1)
