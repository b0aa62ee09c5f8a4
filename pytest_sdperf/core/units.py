"""Numbers as a person reads them. A leaf: verdicts and reports use the same words for the same number."""

from __future__ import annotations

MEGABYTE = 2**20  # as onnxruntime's Stable Diffusion benchmark counts, so that its published tables can stand beside

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a time has one to three digits before the point: its seconds and its symbol."""
    return next((unit for unit in _TIMES if abs(seconds) >= unit[0]), _TIMES[-1])


def digits(value: float) -> str:
    """Return a number with three significant digits, never in exponent form: 1,234 / 123 / 12.3 / 1.23 / 0.123."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 or size == 0 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time with its unit, chosen by size."""
    scale, symbol = time_unit(value)
    return f"{digits(value / scale)} {symbol}"


def duration(value: float) -> str:
    """Return a time that somebody waits: `42 s`, `3.1 min`, `1.6 h`."""
    for scale, symbol, limit in ((1.0, "s", 90.0), (60.0, "min", 90.0)):
        if value / scale < limit:
            return f"{value / scale:.{0 if scale == 1 else 1}f} {symbol}"
    return f"{value / 3600:.1f} h"


def disk_size(value: float) -> str:
    """Return bytes on a disk in powers of ten, as `sdperf_cache_size` takes them: `140 MB`, `3.44 GB`."""
    return f"{digits(value / 1e9)} GB" if value >= 1e9 else f"{value / 1e6:,.0f} MB"


def megabytes(value: float) -> str:
    """Return bytes as MB of 2^20 bytes."""
    return f"{value / MEGABYTE:,.0f} MB"


def percent(ratio: float) -> str:
    """Return a change as a signed percentage: 1.31 -> `+31 %`, 0.985 -> `-1.5 %`."""
    change = (ratio - 1) * 100
    text = f"{change:+.1f}" if abs(change) < 9.95 else f"{change:+,.0f}"
    return f"{'0.0' if text in ('+0.0', '-0.0') else text} %"


def share(value: float) -> str:
    """Return a share as an unsigned percentage: 0.02 -> `2 %`, 0.025 -> `2.5 %`."""
    return f"{value * 100:.3g} %" if value < 9.995 else f"{value * 100:,.0f} %"


def above_or_below(ratio: float) -> str:
    """Return a change in words: 1.31 -> `31 % above`, 0.985 -> `1.5 % below`, 1.0 -> `equal to`."""
    change = percent(ratio)
    return "equal to" if change == "0.0 %" else f"{change[1:]} {'above' if ratio > 1 else 'below'}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Return `1 case`, `2 cases`; `nouns` where an s is not enough."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
