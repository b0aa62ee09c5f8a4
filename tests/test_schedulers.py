from __future__ import annotations

import pytest

from pytest_sdperf.core.errors import UnknownNameError
from pytest_sdperf.core.schedulers import SCHEDULERS, make_scheduler
from pytest_sdperf.models.sd15 import MODELS

CONFIG = MODELS[0].config("scheduler")
pytestmark = pytest.mark.filterwarnings(
    # diffusers' Euler and UniPC call numpy.array on tensors.
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"
)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_is_diffusers_own_with_the_released_settings(name):
    import diffusers

    expected = getattr(diffusers, SCHEDULERS[name][1]).from_config(CONFIG)
    obtained = make_scheduler(name, CONFIG)
    assert type(obtained) is type(expected)
    for scheduler in (obtained, expected):
        scheduler.set_timesteps(50)
    assert obtained.timesteps.tolist() == expected.timesteps.tolist()
    assert (obtained.config.beta_start, obtained.config.prediction_type) == (0.00085, "epsilon")


def test_an_unknown_scheduler_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError) as caught:
        make_scheduler("ddmi", CONFIG)
    assert str(caught.value) == "unknown scheduler 'ddmi'. Did you mean 'ddim'? Known: ddim, euler, pndm, unipc."
