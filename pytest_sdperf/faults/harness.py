"""Faults of the measuring itself: workers that die or say nonsense, baselines that cannot be trusted, lost cases."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.faults.fault import REFUSED, UNUSED, Detection, Fault, FaultStage
from pytest_sdperf.faults.loaded import acting
from pytest_sdperf.faults.wanted import MEASURED, ON_GPU, TEXT_ENCODER, invalid

Answer = dict[str, Any]
# Two cases: where the only one goes, nothing is left that could look.
_TWO = f"{MEASURED.replace('fp32', 'fp32,fp16')} --fail-on=unused"


def say(text: str) -> None:
    """Write last words."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def abort() -> None:
    say("terminate called after throwing an instance of 'Ort::Exception'")
    os.abort()


def be_killed() -> None:
    say("compiling the 7th kernel")
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    say("license server not found")
    os._exit(3)


def hang() -> None:
    say("waiting for the device")
    time.sleep(600)


def in_sample(change: Callable[[Answer], Answer]) -> Callable[[Answer, Any], Answer]:
    """Return what changes the sample of an answer."""
    return lambda answer, channel: {**answer, "sample": change(answer["sample"])}


def times(change: Callable[[list[float]], list[float]]) -> Callable[[Answer, Any], Answer]:
    """Return what changes the times of a sample."""
    return in_sample(lambda sample: {**sample, "iterations_s": change(list(sample["iterations_s"]))})


def without_memory(sample: Answer) -> Answer:
    return {**sample, "first_run_bytes": None, "second_run_bytes": None, "memory_source": "", "peaks_bytes": {}}


def cut_off(answer: Answer, channel: Any) -> Answer:
    """Send half of the answer, and end."""
    channel.write(json.dumps({"event": "answer", "status": "ok", "value": answer})[:60])
    os._exit(0)


def zero_times(text: str) -> str:
    return _with_times(text, lambda value: 0.0)


def _with_times(text: str, change: Callable[[float], float]) -> str:
    data = json.loads(text)
    for case in data["cases"].values():
        for session in (*case["sessions"], case.get("anchor")):
            for sample in (session or {}).get("samples", ()):
                sample["iterations_s"] = [change(value) for value in sample["iterations_s"]]
    return json.dumps(data, indent=1, sort_keys=True)


def half_of_the_file(text: str) -> str:
    return text[: len(text) // 2]


def later_format(text: str) -> str:
    return json.dumps({**json.loads(text), "schema": 99}, indent=1, sort_keys=True)


def vanished(choices: Sequence[Any]) -> Sequence[Any]:
    return choices[1:]


def renamed(choices: Sequence[Any]) -> Sequence[Any]:
    first, *others = choices
    case = dataclasses.replace(first.case, weights=f"{first.case.weights}-renamed")
    return [dataclasses.replace(first, case=case), *others]


def _worker(name: str, about: str, act: Callable[[], None], code: str, words: str, *, options: str = MEASURED) -> Fault:
    plant: Callable[[Runner], Runner] = acting(act)
    return Fault(f"harness-{name}", about, FaultStage.RUNNER, plant, invalid(code, words), TEXT_ENCODER, options)


def _answer(name: str, about: str, change: Any, code: str, words: str, *, stored: bool = False) -> Fault:
    found = invalid(code, words)
    return Fault(
        f"harness-{name}", about, FaultStage.ANSWER, change, found, TEXT_ENCODER, MEASURED, against_baseline=stored
    )


def _stored(
    name: str, about: str, place: FaultStage, change: Any, found: Detection, *, options: str = MEASURED
) -> Fault:
    return Fault(f"harness-{name}", about, place, change, found, TEXT_ENCODER, options, against_baseline=True)


_NO_LONGER = Detection(
    "pipelines", UNUSED,
    "UNUSED model=shapes component=text_encoder engine=ort-cpu ...: in the baseline, but nothing that these options "
    "collect measures it any more",
)  # fmt: skip
_TIME = "Process 1 of 1 reported a text encoder time of # s, which no run can take."
FAULTS = (
    _worker(
        "worker-aborts", "The engine aborts its process.", abort, "worker-crash",
        "The worker was ended by SIGABRT. Its last words: terminate called after throwing an instance of "
        "'Ort::Exception'",
    ),
    _worker(
        "worker-is-killed", "The kernel of the machine kills the worker.", be_killed, "worker-killed",
        "The worker was ended by SIGKILL; the kernel may have run out of host memory. Its last words: compiling the "
        "7th kernel",
    ),
    _worker(
        "worker-leaves", "The engine ends its process without a word to the suite.", leave, "worker-crash",
        "The worker ended with exit status 3 and no answer. Its last words: license server not found",
    ),
    _worker(
        "worker-hangs", "The worker never comes back from a call.", hang, "worker-timeout",
        "The worker gave no answer within # s and was ended. Its last words: waiting for the device",
        options=f"{MEASURED} -o sdperf_worker_timeout=5",
    ),
    _answer("answer-cut-off", "The worker's answer is cut off in the middle.", cut_off, "worker-protocol",
        "The worker sent b'{...' instead of an event. It wrote nothing to stderr.",
   ),
    _answer(
        "nothing-timed", "The worker answers without one timed call.", times(lambda values: []), "worker-protocol",
        "The worker timed 0 calls where at least 5 were asked for. It wrote nothing to stderr."
    ),
    _answer(
        "calls-lost", "The worker timed two calls where five were asked for.", times(lambda values: values[:2]),
        "worker-protocol", "The worker timed 2 calls where at least 5 were asked for. It wrote nothing to stderr.",
    ),
    _answer(
        "time-of-zero", "A call took no time at all.", times(lambda values: [0.0, *values[1:]]),
        "latency-not-positive", _TIME,
    ),
    _answer(
        "clock-runs-backwards", "The clock was set back between two calls.",
        times(lambda values: [-0.25, *values[1:]]), "latency-not-positive", _TIME,
    ),
    _answer(
        "time-not-a-number", "A time is not a number.", times(lambda values: [float("nan"), *values[1:]]),
        "latency-not-positive", "Process 1 of 1 reported a text encoder time of nan s, which no run can take.",
    ),
    Fault(
        "harness-faster-than-physics",
        "Times are a millionth of what they are, as where nobody waits for the device.",
        FaultStage.ANSWER, times(lambda values: [value / 1_000_000 for value in values]),
        invalid(
            "below-floor",
            "Text encoder latency # µs is below the physical floor of # µs: this device cannot do # TFLOP and read # "
            "GB in less. Likely causes: fewer steps than asked for, guidance left out, outputs taken from a cache, a "
            "lower precision than named, or times taken before the device had finished.",
        ),
        TEXT_ENCODER, ON_GPU, on_gpu=True,
    ),
    _answer(
        "memory-not-told", "The worker no longer tells its memory, which the baseline has.", in_sample(without_memory),
        "memory-missing", "Text encoder first-run memory is missing from a sample.", stored=True,
    ),
    _stored(
        "baseline-of-zero", "The baseline holds times of zero.", FaultStage.BASELINE, zero_times,
        Detection(
            "pipelines", REFUSED,
            "baseline file ... is not a baseline: a time of 0 s, which no run can take - at ... Nothing was written to "
            "it. Restore it from version control (git checkout -- ...), or move it away and record it again with "
            "--sdperf-update-baselines.",
        ),
    ),
    _stored(
        "baseline-cut-off", "The second half of the baseline file is missing.", FaultStage.BASELINE, half_of_the_file,
        Detection(
            "pipelines", REFUSED,
            "baseline file ... is not valid JSON: line #, column #: ... Nothing was written to it. Restore it from "
            "version control (git checkout -- ...), or move it away and record it again with "
            "--sdperf-update-baselines.",
        ),
    ),
    _stored(
        "baseline-of-later-format", "The baseline file has a format that this version does not know.",
        FaultStage.BASELINE, later_format,
        Detection(
            "pipelines", REFUSED,
            "baseline file ... has schema 99; this version of pytest-sdperf reads schema # and #. Install the version "
            "that wrote it, or move the file away and record it again with --sdperf-update-baselines.",
        ),
    ),
    _stored(
        "case-vanished", "A case of the baseline is no longer measured by anything.", FaultStage.CASES, vanished,
        _NO_LONGER,
        options=_TWO,
    ),
    _stored(
        "case-renamed", "A case has another name than in its baseline.", FaultStage.CASES, renamed,
        _NO_LONGER,
        options=_TWO,
    ),
)  # fmt: skip
