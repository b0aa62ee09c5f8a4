"""Tolerances of single cases: how large a change may be there, and why not as large as everywhere else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.values import Case

# Name of a tolerance -> the limits of a policy that it sets; it is one number for all kinds of memory.
OF_TOLERANCE: Mapping[str, tuple[str, ...]] = {
    "latency": ("min_effect",),
    "memory": ("memory_effect", "host_memory_effect", "allocator_effect"),
    "counts": ("node_effect",),
    "kernels": ("launch_effect",),
    "build-time": ("build_effect",),
    "warm-start": ("start_effect",),
    "artifact-size": ("size_effect",),
    "compiled-size": ("compiled_effect",),
}
NAMES = tuple(OF_TOLERANCE)

MOST = 10.0  # what a tolerance stays below, as a relative change


@dataclass(frozen=True)
class Override:
    """One tolerance of one case.

    Attributes:
        name: One of `NAMES`.
        effect: The smallest relative change that counts there.
        reason: Why.
        where: Who says so.
    """

    name: str
    effect: float
    reason: str
    where: str


@dataclass(frozen=True)
class ToleranceRule:
    """Tolerances of some cases. An axis without values is every case's.

    Attributes:
        where: Who says so, ready for messages.
        effects: Name -> smallest relative change that counts.
        reason: Why.
        models, components, optimizations: Values of the case.
        engines: The same, with their options (`ort-cpu:threads=1`); a name alone means any options.
        batch_sizes: Images per request.
    """

    where: str
    effects: Mapping[str, float]
    reason: str
    models: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    optimizations: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """Field of a case -> the values that it may have, for the axes that are named."""
        named = {
            "model": self.models,
            "component": self.components,
            "engine": self.engines,
            "optimization": self.optimizations,
            "batch_size": tuple(map(str, self.batch_sizes)),
        }
        return {name: values for name, values in named.items() if values}

    def fits(self, case: Case) -> bool:
        """Whether the case is one of these."""
        return all(_names(case, axis).intersection(values) for axis, values in self.axes.items())

    def covered(self, cases: Sequence[Case], asked: Mapping[str, Collection[str]]) -> bool:
        """Whether a run is about such cases: each axis has one of the values in some case, or an option names one."""
        return all(
            not self.absent(cases, axis) or bool({*asked.get(axis, ())}.intersection(values))
            for axis, values in self.axes.items()
        )

    def absent(self, cases: Sequence[Case], axis: str) -> bool:
        """Whether no case has any of the values on an axis."""
        return not {name for case in cases for name in _names(case, axis)}.intersection(self.axes[axis])

    def told(self) -> str:
        """Return which cases these are, for messages."""
        named = (f"{axis.replace('_', ' ')} {' or '.join(values)}" for axis, values in self.axes.items())
        return ", ".join(named) or "any name"


def _names(case: Case, axis: str) -> set[str]:
    """Return what a rule may call the value of a case."""
    if axis == "engine":
        return {case.engine, engine_label(case.engine, case.engine_options)}
    return {str(getattr(case, axis))}


def overrides_of(
    case: Case, rules: Iterable[ToleranceRule], marked: ToleranceRule | None = None
) -> tuple[Override, ...]:
    """Return the tolerances of a case; the project has the last word, a marker of the test the first.

    Args:
        case: The case.
        rules: Of the project.
        marked: Of the test's marker.

    Raises:
        OptionError: Two rules of the project set the same one.
    """
    found = {name: _override(name, marked) for name in marked.effects} if marked else {}
    said: dict[str, ToleranceRule] = {}
    for rule in rules:
        if not rule.fits(case):
            continue
        for name in rule.effects:
            if name in said:
                raise OptionError(
                    f"{said[name].where} and {rule.where} both set the tolerance {name} of the case {case.key!r}. "
                    f"Name fewer cases in one of them, or remove one."
                )
            said[name] = rule
            found[name] = _override(name, rule)
    return tuple(found[name] for name in NAMES if name in found)


def _override(name: str, rule: ToleranceRule) -> Override:
    return Override(name, rule.effects[name], rule.reason, rule.where)


def check_used(rules: Iterable[ToleranceRule], cases: Sequence[Case], asked: Mapping[str, Collection[str]]) -> None:
    """Refuse rules that no case of a run has use for, though the run is about such cases.

    Args:
        rules: Of the project.
        cases: What the options collect, before any deselection.
        asked: Field of a case -> values that the options name.

    Raises:
        OptionError: There is one: a slip, or left over from a test that is gone.
    """
    for rule in rules:
        if rule.covered(cases, asked) and not any(map(rule.fits, cases)):
            raise OptionError(
                f"{rule.where} changes tolerances of cases with {rule.told()}, and these options collect none of them. "
                f"Correct what it names, or remove it."
            )


def idle(rules: Iterable[ToleranceRule], cases: Sequence[Case]) -> tuple[str, ...]:
    """Say of each rule that no case of a run had use for which cases it is for."""
    return tuple(f"{rule.where} is for {rule.told()}" for rule in rules if not any(map(rule.fits, cases)))
