"""Endpoint texts: ``gpu``, ``gpu[3]``, ``gpu[0:8:2]``, ``chip[0:2].l2[0]``.

An endpoint selects units of a component. A selection stays a nest of strided ranges until
arrays are laid out, so that its size is known before any memory is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - Selection is shown by help()

__all__ = ["Selection", "pick", "split_endpoint"]

_BRACKETS = re.compile(r"(?P<name>[^.]*?)\[(?P<inside>[^\[\]]*)\]\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """Nodes as a nest of strided ranges; outer levels vary slowest.

    Attributes
    ----------
    levels : tuple of (int, int, range)
        First node, nodes per unit and selected units of each level.
    whole : bool
        True where the innermost component was named without a slice.
    """

    levels: tuple[tuple[int, int, range], ...]
    whole: bool = False

    @property
    def size(self) -> int:
        """How many nodes are selected."""
        return prod(len(units) for _, _, units in self.levels)

    def nodes(self) -> NDArray[np.int64]:
        """Lay the nodes out: int64, shape ``(size,)``."""
        nodes = np.zeros(1, np.int64)
        for base, stride, units in self.levels:
            step = base + stride * np.arange(units.start, units.stop, units.step, dtype=np.int64)
            nodes = (nodes[:, None] + step[None, :]).ravel()
        return nodes


def split_endpoint(text: str) -> tuple[str, str | None]:
    """Split ``"gpu[0:4]"`` into ``("gpu", "0:4")``; without brackets the second is None.

    Examples
    --------
    >>> split_endpoint("gpu[0:4]"), split_endpoint("gpu")
    (('gpu', '0:4'), ('gpu', None))
    """
    match = _BRACKETS.match(text)
    return (match["name"], match["inside"]) if match else (text, None)


def pick(inside: str | None, count: int) -> range:
    """Resolve what stands in the brackets against how many there are.

    Parameters
    ----------
    inside : str or None
        ``"3"``, ``"0:4"``, ``"::2"``, ``"-1"``; None, ``""`` and ``":"`` mean all.
    count : int
        How many units there are.

    Returns
    -------
    range
        The selected units, in the order they are named.

    Raises
    ------
    ValueError
        With a plain reason: not a slice, outside the range, or nothing selected.

    Examples
    --------
    >>> pick("0:4:2", 8), pick("-1", 8), pick(None, 3)
    (range(0, 4, 2), range(7, 8), range(0, 3))
    """
    parts = (inside or ":").split(":")
    if len(parts) > 3 or not all(re.fullmatch(r"\s*-?[0-9]{1,18}\s*|\s*", p) for p in parts):
        raise ValueError(f"[{inside}] is not an index or a slice")
    numbers = [int(p) if p.strip() else None for p in parts]
    if len(numbers) == 1:
        index = numbers[0]
        if index is None:
            return range(count)
        if not -count <= index < count:
            raise ValueError(f"index {index} is outside 0 … {count - 1}")
        return range(index % count, index % count + 1)
    if len(numbers) == 3 and numbers[2] == 0:
        raise ValueError(f"[{inside}] has step 0")
    for bound in numbers[:2]:
        if bound is not None and not -count <= bound <= count:
            raise ValueError(f"[{inside}] runs past the {count} there are")
    units = range(*slice(*numbers).indices(count))
    if not units:
        raise ValueError(f"[{inside}] selects nothing of {count}")
    return units
