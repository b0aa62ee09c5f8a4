"""What is inside a component, block by block, in words."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Agreement, JointAgreement


def named(joint: JointAgreement, component: str) -> str:
    """Say which joint it is: what a block gives is called as the block."""
    if not joint.path:
        return f"{joint.reads} of the {component}"
    block = f"{joint.path.removeprefix(f'{component}.')} of the {component}"
    return f"what {block} reads" if joint.reads else block


def first_beyond(joints: Sequence[JointAgreement]) -> JointAgreement | None:
    """Return the first joint beyond its limit; None where every one is within."""
    return next((one for one in joints if not one.passed), None)


def counted(agreement: Agreement) -> str:
    """Say how many blocks were compared: `74 of 76 blocks`."""
    compared = sum(bool(one.path) and not one.reads for one in agreement.joints)
    return f"{compared} of {plural(agreement.blocks, 'block')}"


def of_joints(agreement: Agreement, roundings: str) -> str:
    """Say which joint is wrong, or that all of them agree.

    Args:
        agreement: Of joints.
        roundings: Says how many of plain torch were looked at; mostly empty.
    """
    by, culprit = agreement.by, agreement.culprit
    against = f"relative L2 error {agreement.error:.2e} against {by} {agreement.reference}"
    if agreement.passed:
        return (
            f"{counted(agreement)} could be compared, each from what the engine itself has before it; nearest to its "
            f"limit is {culprit} with a {against}, where at most {agreement.limit:.2e} passes."
        )
    more = sum(not one.passed for one in agreement.joints) - 1
    others = f" {plural(more, 'more place')} further on {'is' if more == 1 else 'are'} wrong too." if more else ""
    return (
        f"{culprit[0].upper() if culprit.startswith('what ') else culprit[0]}{culprit[1:]} is computed wrong, though "
        f"the outputs agree: from what the engine itself has before it, {against}; plain {by} {agreement.dtype} has "
        f"{agreement.reference_error:.2e}{roundings}, so at most {agreement.limit:.2e} passes. {counted(agreement)} "
        f"could be compared.{others}"
    )
