"""Is it as fast, and does it fit in as much memory, as last time on this device?

Each test measures one case in fresh worker processes (a sample is the median of synchronized calls in one process)
and judges latency, first-run memory and second-run memory against the baseline of this device.
"""

import pytest


@pytest.mark.sdperf(components=["unet"])
def test_unet_is_as_fast_and_as_small_as_its_baseline(runner, bench):
    bench(runner)


@pytest.mark.sdperf(components=["pipeline"])
def test_request_is_as_fast_and_as_small_as_its_baseline(runner, bench):
    measurement = bench(runner)
    assert all(sample.unet_calls > 0 for sample in measurement.samples)
