"""Tables of text whose columns are aligned."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned"]


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> list[str]:
    r"""Write a table, a line each for the heads and for every row.

    Parameters
    ----------
    heads : sequence of str
    rows : sequence of sequence of str
        As many cells each.
    left : sequence of int
        The columns that begin at the left; numbers end at the right.

    Examples
    --------
    >>> print("\n".join(aligned(["stage", "GB"], [["0", "61.3"], ["1", "9.0"]])))
    stage    GB
    0      61.3
    1       9.0
    """
    table = [list(heads), *map(list, rows)]
    wide = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(room) if at in left else cell.rjust(room)
            for at, (cell, room) in enumerate(zip(row, wide, strict=True))
        ).rstrip()
        for row in table
    ]
