"""The suites are written with the short names of the fixtures: named one by one, they win over other plugins' names."""

from pytest_sdperf.short_fixtures import (  # noqa: F401 - pytest finds them here
    agree,
    bench,
    build,
    drift,
    equivalent,
    expected_counts,
    fused,
    pictures,
    replay,
    runner,
)
