"""Dependencies as patterns of tokens, so that they fit other numbers of layers and microbatches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Pattern", "PatternContext", "simple_pattern"]

_BACK: Final = 3  # how many occurrences of a token back a dependency is counted so
_NEAR: Final = 2  # more or less than there are layers

Pattern = tuple[tuple[str, int, int], ...]
"""Elements of a name, a token and a number.

``before``; ``last`` (so many back); ``all`` of a token; ``same`` (as many from the beginning as this
is of its own), ``mirror`` (from the end); ``next`` (after the one that the last of its own token waited
for); ``layers``, ``double`` (so many more back than there are layers, or twice that); ``far`` (a distance, as
a power of 2).
"""


class PatternContext:
    """The nodes of a stage up to now.

    Parameters
    ----------
    layers : int

    Examples
    --------
    >>> context = PatternContext(1)
    >>> [context.pattern_of(token, before) for token, before in [(5, ()), (6, (0,)), (5, (0,))]]
    [(), (('before', 0, 0),), (('last', 5, 1),)]
    """

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._at: dict[int, list[int]] = {}
        self._tokens: list[int] = []
        self._waited: dict[tuple[int, int], int] = {}  # by a token and one waited for: its number

    def pattern_of(self, token: int, parents: Sequence[int]) -> Pattern:
        """Describe what the next node waits for, and add the node."""
        row, own = len(self._tokens), len(self._at.get(token, ()))
        by_token: dict[int, list[int]] = {}
        for one in parents:
            by_token.setdefault(self._tokens[one], []).append(one)
        made: set[tuple[str, int, int]] = set()
        for of, those in by_token.items():
            rows = self._at[of]
            if len(those) == len(rows) > 2:
                made.add(("all", of, 0))
                continue
            for one in those:
                nth = bisect_left(rows, one)
                back = len(rows) - nth
                if row - one == 1:
                    made.add(("before", 0, 0))
                elif self._waited.get((token, of), -2) + 1 == nth:
                    made.add(("next", of, 0))
                elif back <= _BACK:
                    made.add(("last", of, back))
                elif nth == own:
                    made.add(("same", of, 0))
                elif back == own + 1:
                    made.add(("mirror", of, 0))
                elif abs(back - self._layers) <= _NEAR:
                    made.add(("layers", of, back - self._layers))
                elif abs(back - 2 * self._layers) <= _NEAR:
                    made.add(("double", of, back - 2 * self._layers))
                else:
                    made.add(("far", 0, (row - one).bit_length() - 1))
        self._take(token, parents)
        return tuple(sorted(made))

    def parents(self, token: int, pattern: Pattern, random: np.random.Generator) -> tuple[int, ...]:
        """Find the nodes that the next one waits for, and add the node."""
        row, own = len(self._tokens), len(self._at.get(token, ()))
        made: set[int] = set()
        for name, of, number in pattern:
            rows = self._at.get(of, [])
            place = -1
            if name == "before":
                made.add(row - 1)
            elif name == "far":
                made.add(row - int(random.integers(1 << number, 2 << number)))
            elif name == "all":
                made.update(rows)
            elif name == "last":
                place = len(rows) - number
            elif name == "same":
                place = own
            elif name == "mirror":
                place = len(rows) - 1 - own
            elif name == "next":
                place = self._waited.get((token, of), -2) + 1
            elif name == "layers":
                place = len(rows) - self._layers - number
            elif name == "double":
                place = len(rows) - 2 * self._layers - number
            if 0 <= place < len(rows):
                made.add(rows[place])
        found = tuple(sorted(one for one in made if 0 <= one < row))
        self._take(token, found)
        return found

    def _take(self, token: int, parents: Sequence[int]) -> None:
        for one in parents:
            of = self._tokens[one]
            self._waited[token, of] = bisect_left(self._at[of], one)
        self._at.setdefault(token, []).append(len(self._tokens))
        self._tokens.append(token)


def simple_pattern(pattern: Pattern) -> Pattern:
    """Reduce a rare pattern to one dependency, by distance."""
    if not pattern:
        return ()
    far = [one for one in pattern if one[0] == "far"]
    return (far[0] if far else ("before", 0, 0),)
