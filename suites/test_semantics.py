"""Does the picture show what the prompt says?

Each test draws the first prompts of a fixed list with a small trained model that comes with the package, from fixed
initial latents, and reads the images: colour, shape, size and place of two things, and the background. The share that
is right, and how clearly, must lie inside a window round what torch draws in float32.
"""

import pytest


@pytest.mark.sdperf(models=["shapes"], components=["pipeline"])
def test_pictures_show_what_their_prompts_say(runner, pictures):
    pictures(runner)
