"""Is it as fast, and does it fit in as much memory, as last time on this device?

Each test measures one case, a component or a whole request, in fresh worker processes: a sample is the median of
synchronized calls in one process. Latency, first-run memory and second-run memory are judged against the baseline of
this device.
"""


def test_engine_is_as_fast_and_as_small_as_its_baseline(runner, bench):
    bench(runner)
