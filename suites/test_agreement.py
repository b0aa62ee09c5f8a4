"""Is the picture the same?

Each test executes one case once and compares it with torch in higher precision, on the same weights and inputs. The
limit is derived: a build may be at most twice as far from the reference as plain torch in the build's own precision.
"""

import pytest


@pytest.mark.sdperf(components=["text_encoder", "unet", "vae_decoder"])
def test_component_computes_what_torch_computes(runner, agree):
    agree(runner)


@pytest.mark.sdperf(components=["pipeline"])
def test_image_is_the_image_of_torch(runner, agree):
    agree(runner)
