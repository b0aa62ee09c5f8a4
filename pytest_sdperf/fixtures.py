"""The public face: everything that a test's author touches.

A test that asks for any of these fixtures is parametrized over the cases that the command line and its marker select;
the fixtures then belong to the one case that the test is about.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from pytest_sdperf import agreement as agreements
from pytest_sdperf import benchmark_bridge, precision, semantics
from pytest_sdperf.building.expectations import explain_build
from pytest_sdperf.case_floor import with_floor
from pytest_sdperf.contracts import Engine, Model
from pytest_sdperf.delivery import Recorder, deliver, deliver_agreements
from pytest_sdperf.device import Device
from pytest_sdperf.errors import NoReferenceError, OutOfMemoryError
from pytest_sdperf.judging.given import judge_as_is
from pytest_sdperf.judging.pairs import judge_pairs, more_pairs
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.semantics import judge_semantics
from pytest_sdperf.judging.target import judge_against_target
from pytest_sdperf.labels import in_words
from pytest_sdperf.locating.locate import locate
from pytest_sdperf.measure import measure
from pytest_sdperf.measure_pairs import measure_pairs
from pytest_sdperf.options.marks import MARKER, read_marks
from pytest_sdperf.outcomes import Agreement, Outcome, Semantics, Verdict
from pytest_sdperf.pairs import Pairs
from pytest_sdperf.runner import CaseRunner
from pytest_sdperf.session import Session, session_of
from pytest_sdperf.shapes.scenes import IMAGE_SIZE
from pytest_sdperf.tolerances import overrides_of
from pytest_sdperf.values import Build, Case, Measurement

if TYPE_CHECKING:
    from collections.abc import Callable

BESIDE_OTHERS = "Other workers of pytest-xdist ran tests at the same time; only measurements of this device took turns."
EACH_ITS_OWN = "Other workers of pytest-xdist ran tests at the same time, each on a GPU of its own."


@pytest.fixture(scope="session")
def sdperf_session(request: pytest.FixtureRequest) -> Session:
    """What this run shares: settings, catalog, cache, baseline."""
    return session_of(request.config)


@pytest.fixture(scope="session")
def case(request: pytest.FixtureRequest, sdperf_session: Session) -> Case:
    """The identity of what this test is about (`pytest_sdperf.values.Case`)."""
    if not isinstance(getattr(request, "param", None), Case):
        pytest.skip(str(getattr(request, "param", "no case was selected")))
    return sdperf_session.completed(request.param)


@pytest.fixture(scope="session")
def device(sdperf_session: Session) -> Device:
    """The device under test, as `--gpu` chose it."""
    return sdperf_session.run.device()


@pytest.fixture(scope="session")
def model(case: Case, sdperf_session: Session) -> Model:
    """The model of the case (`pytest_sdperf.contracts.Model`)."""
    return sdperf_session.run.catalog.models.get(case.model)


@pytest.fixture(scope="session")
def engine(case: Case, sdperf_session: Session) -> Engine:
    """The engine of the case (`pytest_sdperf.contracts.Engine`)."""
    return sdperf_session.run.catalog.engines.get(sdperf_session.run.request_of(case).engine)


@pytest.fixture(scope="session")
def build(case: Case, sdperf_session: Session) -> Build:
    """The optimized build of the case's component, from the cache if it is there (`pytest_sdperf.values.Build`)."""
    return sdperf_session.build(case, case.component)


@pytest.fixture(scope="session")
def expected_counts(case: Case, sdperf_session: Session) -> Mapping[str, int]:
    """`domain::op_type` -> nodes that the torch module's own structure allows at the case's optimization."""
    return sdperf_session.builder.expected_counts(case.model, case.component, case.optimization)


@pytest.fixture(scope="session")
def runner(case: Case, sdperf_session: Session) -> CaseRunner:
    """The case, ready to be executed in worker processes: `runner.run()` returns its outputs by name."""
    return sdperf_session.runner(case)


@pytest.fixture
def fused(
    request: pytest.FixtureRequest, case: Case, sdperf_session: Session
) -> Callable[[Build, Mapping[str, int]], Verdict]:
    """Judge the fused operators of a build: `fused(build, expected_counts)` fails the test where one is missing."""
    recorder = Recorder(request.node, case)

    def judge_counts(build: Build, expected: Mapping[str, int]) -> Verdict:
        settings, explanation = sdperf_session.run.settings, None
        if standing := sdperf_session.standing(case):
            verdict = judge_as_is(case, build.counts, standing[case.component], expected=expected)
            recorder.rungs(standing)
        else:
            sites = sdperf_session.builder.expected_sites(case.model, case.component, case.optimization)
            explanation = explain_build(build, sites)
            verdict = judge_against_target(
                case,
                build.counts,
                expected,
                known=sdperf_session.known_counts(case),
                explanation=explanation,
                allowed_by="torch module" if settings.selection.has_module else "own structure",
            )
        counts = {name: build.counts.get(name, 0) for name in expected}
        recorder.counts(counts, verdict, explanation if settings.explain_file is not None else None)
        deliver([verdict], Policy.of(settings, device_kind="cpu"))
        return verdict

    return judge_counts


@pytest.fixture
def agree(
    request: pytest.FixtureRequest, case: Case, sdperf_session: Session
) -> Callable[[CaseRunner], tuple[Agreement, ...]]:
    """Execute the case and compare it with torch: `agree(runner)` fails the test beyond the derived limits."""
    recorder = Recorder(request.node, case)

    def compare(runner: CaseRunner) -> tuple[Agreement, ...]:
        recorder.rungs(sdperf_session.standing(case))
        try:
            found = agreements.agree(runner)
        except NoReferenceError as error:
            pytest.skip(str(error))
        except OutOfMemoryError as error:
            # What fits into memory is judged where it is measured; here is nothing to compare, and that is said.
            sentence = f"Memory ran out, so nothing was compared: {error}"
            verdicts = [Verdict(Outcome.INCONCLUSIVE, "out-of-memory", sentence, "agreement")]
            recorder.verdicts(verdicts)
            deliver(verdicts, sdperf_session.policy(case))
            raise
        recorder.agreements(found)
        settings, agrees = sdperf_session.run.settings, all(one.passed for one in found)
        where = None if agrees else recorder.located(locate(runner, found, settings=settings))
        deliver_agreements(found, where)
        return found

    return compare


@pytest.fixture
def pictures(request: pytest.FixtureRequest, case: Case, sdperf_session: Session) -> Callable[[CaseRunner], Semantics]:
    """Draw fixed prompts and read the images: `pictures(runner)` fails the test outside the window of the reference."""
    recorder, settings = Recorder(request.node, case), sdperf_session.run.settings

    def look_and_judge(runner: CaseRunner) -> Semantics:
        if (case.width, case.height) != (IMAGE_SIZE, IMAGE_SIZE):
            size = f"{IMAGE_SIZE}x{IMAGE_SIZE}"
            pytest.skip(f"not applicable: images are read at {size}; leave --sdperf-resolution out")
        recorder.rungs(sdperf_session.standing(case))
        count = settings.prompts or semantics.DEFAULT_PROMPTS[sdperf_session.run.device_kind]
        try:
            seen = semantics.look(runner, prompts=count)
        except NoReferenceError as error:
            pytest.skip(str(error))
        verdict = judge_semantics(seen)
        recorder.semantics(seen, verdict)
        deliver([verdict], sdperf_session.policy(case))
        return seen

    return look_and_judge


@pytest.fixture
def drift(request: pytest.FixtureRequest, case: Case, sdperf_session: Session) -> Callable[..., Agreement]:
    """Compare the steps of half precision with those of single precision: `drift(runner)` fails beyond the limit.

    `drift(runner, "bfloat16")` looks at torch itself, whatever the engine of the case.
    """
    recorder = Recorder(request.node, case)

    def compare(runner: CaseRunner, floating: str = "") -> Agreement:
        why_not = precision.not_applicable(runner, floating)
        if why_not:
            pytest.skip(why_not)
        if floating:
            found = precision.torch_drift(runner, floating)
        else:
            found = precision.engine_drift(runner, sdperf_session.runner(precision.single_of(case)))
        recorder.agreements([found.agreement])
        if sdperf_session.run.settings.images_dir is not None:
            folder = sdperf_session.run.settings.images_dir / request.node.callspec.id
            for path in precision.draw(found, runner, folder):
                sdperf_session.say(f"wrote {path}")
        deliver_agreements([found.agreement])
        return found.agreement

    return compare


@pytest.fixture
def bench(request: pytest.FixtureRequest, case: Case, sdperf_session: Session) -> Callable[[CaseRunner], Measurement]:
    """Measure the case in fresh processes and judge it against its baseline, or side B by it: `bench(runner)`."""
    recorder = Recorder(request.node, case)
    marked = read_marks(request.node.iter_markers(MARKER)).rule(request.node.nodeid)
    settings, rules = sdperf_session.run.settings, sdperf_session.run.rules

    def measure_and_judge(runner: CaseRunner) -> Measurement:
        overrides = overrides_of(runner.case, rules, marked)
        recorder.tolerances(overrides)
        policy = sdperf_session.policy(runner.case, overrides)
        if settings.other is not None:
            return _measure_sides(request, runner, recorder, policy).a
        more = functools.partial(sdperf_session.more_processes, policy=policy)
        measurement = _with_remark(request, _measured(runner, sdperf_session, more=more))
        recorder.rungs(sdperf_session.standing(case))
        verdicts = sdperf_session.judge(measurement, policy=policy)
        recorder.measurement(measurement, verdicts, policy=policy)
        benchmark_bridge.show(request, measurement.medians_s)
        deliver(verdicts, policy)
        return measurement

    return measure_and_judge


def _measured(runner: CaseRunner, session: Session, *, more: Callable[[Measurement], int]) -> Measurement:
    """Measure a case, or take what an interrupted run measured under the same conditions."""
    settings, builds = session.run.settings, runner.builds()  # nobody needs to wait for the builds
    # Of the user's own pipeline nobody can tell whether the code is still the same.
    resumable = not settings.in_process and settings.selection.pipeline is None
    conditions = session.conditions(runner.case, builds) if resumable else {}
    taken, why_not = session.unfinished.find(runner.case, conditions) if resumable else (None, "")
    name = in_words(runner.case)
    if taken is not None and settings.resume:
        session.say(f"taking over {name}, measured {taken.taken_over}")
        return taken
    if taken is not None:
        session.say(f"measuring {name}, as an interrupted run did {taken.taken_over}: --sdperf-resume takes that over")
    elif why_not and settings.resume:
        session.say(f"measuring {name} again: what an interrupted run left has {why_not}")
    with session.workbench.turns.alone(name) as turn:
        calibration = session.calibration(runner.case)
        measurement = measure(runner, processes=settings.processes, say=session.say, more=more)
        measurement = dataclasses.replace(measurement, calibration=calibration, turn=turn())
    measurement = with_floor(measurement, runner)
    if resumable:
        try:
            session.unfinished.keep(measurement, conditions, processes=settings.processes)
        except OSError as error:
            session.say(f"an interrupted run will not find {name} again: {error.strerror}")
    return measurement


def _measure_sides(request: pytest.FixtureRequest, runner: CaseRunner, recorder: Recorder, policy: Policy) -> Pairs:
    """Measure a case and the other side of the A/B in turns, and judge that one by it."""
    session = session_of(request.config)
    other = session.run.other_case(runner.case)
    if other.same or other.skip:
        pytest.skip(other.skip or f"nothing to compare: both sides of the A/B are {other.told}")
    beside = session.other_runner(other)
    for side in (runner, beside):
        side.builds()
    with session.workbench.turns.alone(f"{in_words(runner.case)}, A/B") as turn:
        pairs = measure_pairs(
            runner,
            beside,
            pairs=policy.pair_looks.counts[0],
            say=session.say,
            more=functools.partial(more_pairs, policy=policy),
            shared=other.shared,
        )
        sides = [dataclasses.replace(side, turn=turn()) for side in (pairs.a, pairs.b)]
    a, b = (_with_remark(request, side) for side in sides)
    pairs = dataclasses.replace(pairs, a=a, b=b)
    verdicts = judge_pairs(pairs, policy=policy)
    recorder.pairs(pairs, verdicts)
    benchmark_bridge.show(request, pairs.a.medians_s)
    deliver(verdicts, policy)
    return pairs


def _with_remark(request: pytest.FixtureRequest, measurement: Measurement) -> Measurement:
    """Return a measurement that says whether other workers of pytest-xdist ran beside it."""
    if getattr(request.config, "workerinput", {}).get("workercount", 1) < 2:
        return measurement
    remark = EACH_ITS_OWN if session_of(request.config).run.settings.on_gpu else BESIDE_OTHERS
    return dataclasses.replace(measurement, remarks=(*measurement.remarks, remark))
