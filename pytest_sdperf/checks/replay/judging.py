"""Are the answers of a case that was called again and again its own, and the same as before?

What is asked in this order: were outputs written over, does an answer belong to other inputs, does it differ from its
twin, is it wrong? The first that fails names the verdict; whatever else failed is in its details.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from pytest_sdperf.checks.judging.messages import opening
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.units import megabytes, plural
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.core.values.replays import AnswerSpread, CallAgreement, Check, Replay

METRICS: Mapping[Check, str] = {"repeats": "replay", "batch": "batch", "resolutions": "resolutions"}
# Reason codes: of a wrong answer, of answers that differ, and of right ones.
_WRONG: Mapping[Check, str] = {"repeats": "answer-wrong", "batch": "images-mixed", "resolutions": "resolution-wrong"}
_DIFFER: Mapping[Check, str] = {
    "repeats": "not-repeated",
    "batch": "images-mixed",
    "resolutions": "not-repeated",
}
_RIGHT: Mapping[Check, str] = {
    "repeats": "answers-repeated",
    "batch": "images-apart",
    "resolutions": "resolutions-served",
}
_NO_REFERENCE_ERROR = "no-reference-error"

Found = tuple[Outcome, str, str]


def judge_replay(replay: Replay, case: Case, *, policy: Policy) -> Verdict:
    """Judge the answers of one loaded case."""
    looks: tuple[Callable[[Replay, Case, Policy], Iterator[Found]], ...] = (
        _overwritten,
        _indistinct,
        _stale,
        _several,
        _different,
        _wrong,
        _compiled,
        _grown,
    )
    found = [one for look in looks for one in look(replay, case, policy)]
    if not found:
        found = [(Outcome.PASSED, _RIGHT[replay.check], _told(replay, case))]
    outcome, code, sentence = max(found, key=lambda one: one[0].rank)
    others = tuple(text for _, _, text in found if text != sentence)
    worst = max(replay.spreads, key=lambda spread: spread.largest)
    return Verdict(
        outcome,
        code,
        sentence,
        METRICS[replay.check],
        obtained=worst.largest if math.isfinite(worst.largest) else None,
        high=worst.limit if math.isfinite(worst.limit) else None,
        details=others,
    )


def _overwritten(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    if replay.overwritten:
        names = ", ".join(replay.overwritten)
        sentence = (
            f"{opening(case)} outputs are written over by later calls: {names} changed after it had been returned. The "
            f"engine hands out its own buffer; it must hand out a copy."
        )
        yield Outcome.FAILED, "outputs-overwritten", sentence


def _indistinct(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    if replay.indistinct:
        sentence = (
            f"{replay.by.capitalize()} itself gives the {case.component} of {case.model} the same answer to different "
            f"inputs, so no right answer could be told from a wrong one. Take other weights with --sdperf-weights."
        )
        yield Outcome.INCONCLUSIVE, "inputs-indistinct", sentence


def _stale(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    for answer in replay.answers:
        if answer.stale:
            sentence = (
                f"{opening(case)} answers to {answer.call} with its answer to {answer.stale}: what is replayed does "
                f"not read its inputs."
            )
            yield Outcome.FAILED, "answer-stale", sentence


def _several(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    """Judge the different answers of several processes to one call: each of them beside torch's, not one alone."""
    beyond = [one for one in replay.kinds if not one.passed]
    in_one_process = all(spread.passed for spread in replay.spreads[:2])  # else it is no matter of processes
    if not beyond or not math.isfinite(beyond[0].limit) or not in_one_process:
        return
    worst = max(beyond, key=lambda one: one.error)
    error = f"a relative L2 error {worst.error:.2e}" if math.isfinite(worst.error) else f"no error ({worst.culprit})"
    sentence = (
        f"{opening(case)}: {plural(len(replay.kinds), 'answer')} in {plural(replay.processes, 'process', 'processes')} "
        f"to the same call, {len(beyond)} of them beyond the limit: the one {worst.call} has {error} against "
        f"{replay.by} {replay.reference}, and at most {worst.limit:.2e} passes. What each process draws or tunes anew "
        f"decides."
    )
    yield Outcome.FAILED, "processes-differ", sentence


def _wrong(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    for answer in replay.answers:
        if not answer.passed and not answer.stale:
            code = _WRONG[replay.check] if math.isfinite(answer.limit) else _NO_REFERENCE_ERROR
            yield Outcome.FAILED, code, _wrong_answer(replay, case, answer)


def _wrong_answer(replay: Replay, case: Case, answer: CallAgreement) -> str:
    what = f"{opening(case)} answer to {answer.call}"
    if replay.check == "batch":
        what = f"{opening(case)}, {answer.call} of a batch of different ones"
    if not math.isfinite(answer.limit):
        return (
            f"{what} cannot be judged: plain {replay.by} {replay.dtype} is not finite there, so nothing can be "
            f"called right."
        )
    if not math.isfinite(answer.error):
        return f"{what} is not comparable: {answer.culprit}."
    than = " alone" if replay.check == "batch" else ""
    return (
        f"{what} has a relative L2 error {answer.error:.2e} against {replay.by} {replay.reference}{than}; plain "
        f"{replay.by} {replay.dtype} has {answer.reference_error:.2e}, so at most {answer.limit:.2e} passes."
    )


def _different(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    for number, spread in enumerate(replay.spreads):
        if not spread.passed:
            code = _code(replay, number) if math.isfinite(spread.limit) else _NO_REFERENCE_ERROR
            yield Outcome.FAILED, code, f"{opening(case)}, {_spread(spread, replay.by)}{_meaning(code)}."
        elif replay.exact and not spread.equal:
            sentence = (
                f"{opening(case)}, {_spread(spread, replay.by)}, and {case.engine} promises equal bits for equal calls "
                f"on this kind of device."
            )
            yield Outcome.FAILED, "bits-differ", sentence


def _code(replay: Replay, number: int) -> str:
    """Return the reason code of answers that differ: equal calls, then the one after another, then processes."""
    if replay.check != "repeats" or number == 0:
        return _DIFFER[replay.check]
    return "state-kept" if number == 1 else "processes-differ"


def _meaning(code: str) -> str:
    return {
        "state-kept": ". Something of an earlier call is left in the engine",
        "images-mixed": ". What an image becomes depends on the others of its batch",
    }.get(code, "")


def _spread(spread: AnswerSpread, by: str) -> str:
    if not math.isfinite(spread.limit):
        return f"{spread.of}: nothing can be judged, because plain {by} is not finite"
    if not math.isfinite(spread.largest):
        return f"{spread.of}: {spread.output} is missing, has another shape or is not finite"
    return f"{spread.of}: {spread.output} differs by {spread.largest:.2e} (at most {spread.limit:.2e} passes)"


def _compiled(replay: Replay, case: Case, _: Policy) -> Iterator[Found]:
    if replay.prepared.get("later"):
        count = plural(replay.prepared["later"], "graph")
        of = "a resolution that it had served before" if replay.check == "resolutions" else "a call like one before"
        yield Outcome.FAILED, "compiled-again", f"{opening(case)}: {case.engine} compiled {count} again for {of}."
    elif replay.check == "resolutions" and replay.prepared.get("first", 0) > 1:
        graphs, sizes = plural(replay.prepared["first"], "graph"), plural(len(replay.spreads), "resolution")
        sentence = (
            f"{opening(case)}: {case.engine} compiled {graphs} for {sizes}, each within a call, where one with open "
            f"shapes would do (torch-compile:dynamic=on)."
        )
        yield Outcome.PASSED, "compiled-for-resolutions", sentence


def _grown(replay: Replay, case: Case, policy: Policy) -> Iterator[Found]:
    """Judge the memory of the last round by that of the one before: the first one fills what is kept."""
    for way, rounds in replay.peaks_bytes.items():
        if len(rounds) < 3:
            continue
        before, after = rounds[-2], rounds[-1]
        reach = policy.memory_reach(before, way)
        if after - before > reach:
            sentence = (
                f"{opening(case)}: memory ({way}) grows with every round through the resolutions, from "
                f"{megabytes(before)} to {megabytes(after)} in the last one (changes up to {megabytes(reach)} do not "
                f"count)."
            )
            yield Outcome.FAILED, "memory-grows", sentence


def _told(replay: Replay, case: Case) -> str:
    worst = max(replay.answers, key=lambda answer: answer.error / answer.limit)
    errors = (
        f"the largest error against {replay.by} {replay.reference} is {worst.error:.2e} of at most {worst.limit:.2e}"
    )
    equal = all(spread.equal for spread in replay.spreads)
    largest = max(replay.spreads, key=lambda spread: spread.largest / spread.limit)
    same = "equal bit for bit" if equal else f"equal within {largest.largest:.2e} (at most {largest.limit:.2e} passes)"
    spelled = ", ".join(spread.of for spread in replay.spreads)
    return f"{opening(case)} answers are {same}: {spelled}; {errors}."
