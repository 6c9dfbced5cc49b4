"""Values that a network has for each of its dimensions, given for each or once for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from astranb.core.errors import InputError
from astranb.core.given import Given

__all__ = ["ForAll", "PerDimension", "per_dimension", "repeat_values"]

T = TypeVar("T")

PerDimension = Given[T | Sequence[T], tuple[T, ...]]
"""A field of a network: a tuple, given as one value for all dimensions or as a list."""


class ForAll(tuple[T, ...]):  # noqa: SLOT001 - there are few
    """One value for all dimensions, as long as their number is not known."""


def per_dimension(*default: Any) -> PerDimension[Any]:
    """Declare a field of a network; :func:`repeat_values` repeats what is given once.

    Parameters
    ----------
    *default
        Its value where it is not given.
    """
    return Given(_read, *default)


def _read(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ForAll((value,))


def repeat_values(network: Any, names: Sequence[str], where: str) -> int:
    """Repeat what is given once for all dimensions, and return their number.

    Parameters
    ----------
    network : dataclass
    names : sequence of str
        Its fields of :func:`per_dimension`.
    where : str
        The file's name, for error messages.

    Raises
    ------
    InputError
        Lists differ in length.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Torus:
    ...     sides: PerDimension[int] = per_dimension()
    ...     bandwidth: PerDimension[float] = per_dimension(50)
    >>> torus = Torus([4, 4])
    >>> repeat_values(torus, ("sides", "bandwidth"), "torus"), torus
    (2, Torus(sides=(4, 4), bandwidth=(50, 50)))
    """
    found = {name: getattr(network, name) for name in names}
    lengths = {name: len(values) for name, values in found.items() if not isinstance(values, ForAll)}
    count = next(iter(lengths.values()), 1)
    if any(length != count for length in lengths.values()):
        listed = ", ".join(f"{length} in {name}" for name, length in lengths.items())
        hint = "give one value for all dimensions, or one for each"
        raise InputError(f"lists differ in length: {listed}", where=where, hint=hint)
    for name, values in found.items():
        object.__setattr__(network, name, tuple(values) * (1 if name in lengths else count))
    return count
