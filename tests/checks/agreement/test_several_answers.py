"""An engine that has one of several answers, chosen anew in each process, is judged by all that were seen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sample_values import case

from pytest_sdperf.checks.agreement.check import PROCESSES, judged_by_all, several_answers
from pytest_sdperf.checks.agreement.messages import sentences
from pytest_sdperf.checks.agreement.tensors import compare, different
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.replay.calls import Answers, ReferenceAnswers
from pytest_sdperf.checks.replay.judging import judge_replay
from pytest_sdperf.checks.replay.repeats import _compared
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.core.values.replays import Replay

EXACT = np.random.default_rng(0).standard_normal((1, 4, 8, 8))
OTHER = EXACT[..., ::-1].copy()


def answer(away: float, of: np.ndarray = EXACT) -> dict[str, np.ndarray]:
    return {"out_sample": of * (1 + away)}


RIGHT, WRONG, ROUGH = answer(0.5e-6), answer(2.4e-6), answer(1e-6)  # at most 2e-6 passes, and the two are 1.9e-6 apart


def judged(one: dict[str, np.ndarray]):
    return compare(one, {"out_sample": EXACT}, plain=ROUGH, level="component", dtype="float32")


def test_equal_answers_are_told_bit_for_bit():
    assert different([RIGHT, dict(RIGHT), WRONG, answer(0.5e-6)]) == [[0, 1, 3], [2]]


@pytest.mark.parametrize("answers", [[RIGHT] * 3, [WRONG] * 3, [RIGHT]])
def test_answers_that_agree_about_it_are_told_as_ever(answers):
    assert judged_by_all(answers, judged) == judged(answers[0])


@pytest.mark.parametrize("answers", [[RIGHT, RIGHT, WRONG], [RIGHT, WRONG, RIGHT], [WRONG, RIGHT, RIGHT]])
def test_one_answer_beyond_the_limit_is_red_whichever_process_had_it(answers):
    found = judged_by_all(answers, judged)
    assert not found.passed
    assert found.told == (
        "Equal calls of 3 processes have 2 answers, and that of 1 of them is beyond the limit: what each process draws "
        "or tunes anew decides."
    )
    assert sentences(found).endswith(found.told)


@pytest.mark.parametrize(("promised", "processes"), [((), PROCESSES), (("cuda",), PROCESSES), (("cpu",), 1)])
def test_an_engine_that_promises_equal_bits_is_asked_once(promised, processes):
    runner = SimpleNamespace(
        context=SimpleNamespace(device=SimpleNamespace(kind="cpu")),
        engine=SimpleNamespace(repeats_on=promised),
        outputs=lambda: RIGHT,
        run=lambda: RIGHT,
    )
    assert len(several_answers(runner)) == processes  # type: ignore[arg-type]  # all that is read of a runner


def replayed(processes: list[dict[str, np.ndarray]], *, promised: bool) -> Replay:
    runner = SimpleNamespace(
        context=SimpleNamespace(device=SimpleNamespace(kind="cpu")),
        engine=SimpleNamespace(repeats_on=("cpu",) if promised else ()),
    )
    found = Answers([processes[0], processes[0], answer(0, OTHER), processes[0]], (), (), {})
    exact = [{"out_sample": EXACT}, {"out_sample": OTHER}]
    torch = ReferenceAnswers("float32", exact, [[ROUGH], [answer(1e-6, OTHER)]], "torch", "float64")
    return _compared(runner, found, processes, torch, repeats=2)  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("order", [(RIGHT, WRONG, RIGHT), (WRONG, RIGHT, RIGHT)])
def test_a_replay_says_how_many_answers_there_were(order, promised):
    replay = replayed(list(order), promised=promised)
    assert all(spread.passed for spread in replay.spreads)
    verdict = judge_replay(replay, case(component="unet"), policy=Policy(on_cpu=True))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "processes-differ")
    assert verdict.sentence == (
        "UNet: 2 answers in 3 processes to the same call, 1 of them beyond the limit: the one in 1 of 3 processes has "
        "a relative L2 error 2.40e-06 against torch float64, and at most 2.00e-06 passes. What each process draws or "
        "tunes anew decides."
    )


def test_answers_that_differ_within_the_limit_hold():
    replay = replayed([RIGHT, answer(0.6e-6), RIGHT], promised=False)
    assert [one.call for one in replay.kinds] == ["in 2 of 3 processes", "in 1 of 3 processes"]
    verdict = judge_replay(replay, case(component="unet"), policy=Policy(on_cpu=True))
    assert (verdict.outcome, verdict.code) == (Outcome.PASSED, "answers-repeated")


def test_equal_answers_have_no_kinds():
    assert replayed([RIGHT] * 3, promised=True).kinds == ()
