"""Does a second call give its own answer?

Each test loads one case once and calls it again and again. Equal calls must give equal answers, and a call between them
its own; images of one batch must be what each of them is alone; resolutions must take turns without anything being
built again, each as right as if it were alone. Every limit is derived: answers may be at most twice as far apart as
plain torch in the same precision is from the reference.
"""

import pytest


def test_every_call_gets_its_own_answer(runner, replay):
    replay(runner)


@pytest.mark.sdperf(components=["unet"])
def test_images_of_a_batch_do_not_know_each_other(runner, replay):
    replay(runner, "batch")


@pytest.mark.sdperf(components=["unet"], shapes="dynamic")
def test_resolutions_take_turns_without_a_rebuild(runner, replay):
    replay(runner, "resolutions")
