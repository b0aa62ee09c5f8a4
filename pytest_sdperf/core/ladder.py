"""The grammar of `--optimization`: text -> canonical selections -> optimizations.

A selection is one build. `fmha` is that optimization with all below it; `fp16+fmha` is exactly these; `all-fmha` is
every optimization but one; `all` is the last optimization; `ladder` is one build per optimization. `as-is` is no
optimization: it is a graph that somebody else made, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from pytest_sdperf.core.errors import OptionError, UnknownNameError

ALL = "all"
LADDER = "ladder"
AS_IS = "as-is"
BASE = "fp32"
HALF = "fp16"
_GRAMMAR = "A comma separates builds, a plus joins the optimizations of one build, all-NAME leaves one out."


def parse_optimizations(text: str, ladder: Sequence[str], *, as_is: bool = False) -> tuple[str, ...]:
    """Turn the text of the option into canonical selections, in the order given, each once.

    Args:
        text: Such as `fp16,fmha`, `fp16+fmha`, `all-fmha`, `all` or `ladder`.
        ladder: Names of the optimizations, lowest first.
        as_is: Whether there is a graph of somebody else, which `as-is` takes unchanged.

    Returns:
        Selections: `as-is`, an optimization's name, names joined by `+` in the order of the ladder, or `all-NAME`.

    Raises:
        OptionError: An empty piece, or an optimization named twice in one build.
        UnknownNameError: With the nearest name and the list.
    """
    selections: list[str] = []
    for piece in text.split(","):
        if piece.strip() != AS_IS:
            selections.extend(_canonical(piece.strip(), text, ladder))
        elif as_is:
            selections.append(AS_IS)
        else:
            raise OptionError(
                f"--optimization={text}: {AS_IS} takes a graph that was made elsewhere unchanged, and none is given. "
                f"Name its folder with --onnx-dir=FOLDER, or name optimizations: {_list(ladder)}."
            )
    return tuple(dict.fromkeys(selections))


def unnamed(text: str, ladder: Sequence[str]) -> tuple[str, ...]:
    """Return the optimizations of the option's text that nobody named: `ladder` alone stands for them."""
    pieces = [piece.strip() for piece in text.split(",")]
    return tuple(name for name in ladder if LADDER in pieces and name not in pieces)


def ends(selections: Sequence[str], between: Sequence[str], *, fits: Callable[[str], bool]) -> tuple[str, ...]:
    """Leave out optimizations between the first and the last one that fits, for what is too long to be run at each.

    Args:
        selections: What would be run.
        between: Those of them that may be left out.
        fits: Whether one can be run at all. Where none can, the last stays, so that the reason is told.
    """
    fitting = [one for one in selections if one in between and fits(one)] or list(selections[-1:])
    return tuple(one for one in selections if one not in between or one in (fitting[0], fitting[-1]))


def optimizations(selection: str, ladder: Sequence[str]) -> tuple[str, ...]:
    """Return the optimizations that one canonical selection applies, lowest first; none for `as-is`.

    Raises:
        UnknownNameError: The selection names an optimization that the ladder does not hold.
    """
    if selection == AS_IS:
        return ()
    if selection in ladder:
        return tuple(ladder[: ladder.index(selection) + 1])
    if "+" in selection:
        return _in_order([_known(name, ladder) for name in selection.split("+")], ladder)
    if selection.startswith(f"{ALL}-"):
        left_out = _known(selection.removeprefix(f"{ALL}-"), ladder)
        return tuple(name for name in ladder if name != left_out)
    raise _unknown(selection, ladder)


def without(selection: str, left_out: Collection[str], ladder: Sequence[str]) -> str:
    """Return what a selection applies but for some optimizations; itself where it applies none of them."""
    names = optimizations(selection, ladder)
    rest = [name for name in names if name not in left_out]
    if len(rest) == len(names):
        return selection
    if names == tuple(ladder) and len(rest) == len(ladder) - 1:
        return f"{ALL}-{next(name for name in names if name in left_out)}"
    text = "+".join(rest)
    return _joined(text, text, ladder) if set(rest) - {BASE} else BASE


def dtype_of(selection: str, ladder: Sequence[str]) -> Literal["float32", "float16"]:
    """Return the dtype that a selection computes in; that of `as-is` is the external graph's own.

    Raises:
        UnknownNameError: The selection names an optimization that the ladder does not hold.
    """
    return "float16" if HALF in optimizations(selection, ladder) else "float32"


def _canonical(piece: str, text: str, ladder: Sequence[str]) -> tuple[str, ...]:
    if not piece:
        raise OptionError(f"--optimization={text} holds an empty name. {_GRAMMAR} Known: {_list(ladder)}.")
    if piece in ladder:
        return (piece,)
    if piece == ALL:
        return (ladder[-1],)
    if piece == LADDER:
        return tuple(ladder)
    if "+" in piece:
        return (_joined(piece, text, ladder),)
    if piece.startswith(f"{ALL}-"):
        return (f"{ALL}-{_known(piece.removeprefix(f'{ALL}-').strip(), ladder)}",)
    raise _unknown(piece, ladder)


def _joined(piece: str, text: str, ladder: Sequence[str]) -> str:
    names = [name.strip() for name in piece.split("+")]
    if not all(names):
        raise OptionError(f"--optimization={text} holds an empty name. {_GRAMMAR} Known: {_list(ladder)}.")
    for name in names:
        _known(name, ladder)
        if names.count(name) > 1:
            raise OptionError(f"--optimization={text} names the optimization {name!r} twice in one build. {_GRAMMAR}")
    ordered = _in_order(names, ladder)
    # The raw export adds nothing, so it is named only where a single optimization would otherwise read as cumulative.
    real = tuple(name for name in ordered if name != BASE)
    if len(real) == 1:
        return real[0] if optimizations(real[0], ladder) in ((real[0],), (BASE, real[0])) else f"{BASE}+{real[0]}"
    return "+".join(real)


def _in_order(names: Sequence[str], ladder: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in ladder if name in names)


def _known(name: str, ladder: Sequence[str]) -> str:
    if name not in ladder:
        raise UnknownNameError("optimization", name, ladder, hint=_GRAMMAR)
    return name


def _unknown(name: str, ladder: Sequence[str]) -> UnknownNameError:
    return UnknownNameError("optimization", name, (*ladder, ALL, LADDER), hint=_GRAMMAR)


def _list(ladder: Sequence[str]) -> str:
    return ", ".join((*ladder, ALL, LADDER))
