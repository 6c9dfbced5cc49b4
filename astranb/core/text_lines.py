"""Lines of text with numbers in them, millions in a second."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .entry import Entry
from .jit import kernel

__all__ = ["text_lines"]

_Bytes = NDArray[np.uint8]
_Ints = NDArray[np.int64]

_MOST_DIGITS: Final = 20  # of an int64, with its sign
_BLOCK: Final = 1 << 18


def _parts(template: str) -> list[str | int]:
    """Divide a template: text, column, text, …, text."""
    texts = re.split(r"\{(\d+)\}", template)
    return [int(text) if place % 2 else text for place, text in enumerate(texts)]


@kernel
def write_lines(
    literal: _Bytes,
    parts: _Ints,
    first: _Ints,
    which: _Ints,
    values: _Ints,
    shape: _Ints,
    out: _Bytes,
) -> int:
    """Write a line for each row of ``values``; returns how many bytes there are.

    Each part of a template is three numbers: where its literal begins and ends, and the column
    of the number behind it, -1 for none.
    """
    place = 0
    for row in range(len(which)):
        for part in range(first[which[row]], first[which[row] + 1]):
            for at in range(parts[3 * part], parts[3 * part + 1]):
                out[place] = literal[at]
                place += 1
            column = parts[3 * part + 2]
            if column < 0:
                continue
            value = values[row * shape[0] + column]
            if value < 0:
                out[place] = 45  # minus
                place += 1
                value = -value
            size = 1
            limit = 10
            while value >= limit and size < 19:
                size += 1
                limit *= 10
            place += size
            for digit in range(1, size + 1):
                rest = value // 10
                out[place - digit] = 48 + value - 10 * rest
                value = rest
    return place


_INT: Final = np.dtype(np.int64)
_BYTE: Final = np.dtype(np.uint8)
_WRITE: Final = Entry(write_lines, [_BYTE, _INT, _INT, _INT, _INT, _INT, _BYTE])


def text_lines(
    templates: Sequence[str | Sequence[str | int]], which: np.ndarray, values: np.ndarray
) -> bytes:
    r"""Fill templates with numbers, a row of numbers each.

    Parameters
    ----------
    templates : sequence of str, or of sequences of str and int
        ``{0}`` stands for the number in column 0, and so on. A template that holds text of others is given
        as its parts: what is an ``int`` there is a column, and no text is looked into.
    which : ndarray of int
        The template of each row.
    values : ndarray of int, shape (rows, columns)
        Greater than -2**63.

    Examples
    --------
    >>> text_lines(["{1} sends {0} B\n", "{1} computes\n"], np.array([0, 1]), np.array([[4096, 3], [0, 5]]))
    b'3 sends 4096 B\n5 computes\n'
    """
    literal, parts, first, longest = bytearray(), [], [0], 1
    for template in templates:
        begun = start = len(literal)
        numbers = 0
        for part in _parts(template) if isinstance(template, str) else template:
            if isinstance(part, str):
                literal += part.encode(errors="replace")
            else:
                parts += [start, len(literal), part]
                start = len(literal)
                numbers += 1
        parts += [start, len(literal), -1]
        first.append(len(parts) // 3)
        longest = max(longest, len(literal) - begun + _MOST_DIGITS * numbers)
    described = (np.frombuffer(bytes(literal) or b" ", np.uint8), np.array(parts), np.array(first))
    out = np.empty(longest * min(len(which), _BLOCK), np.uint8)
    shape = np.array([values.shape[1]], np.int64)
    blocks = []
    for begin in range(0, len(which), _BLOCK):
        rows = np.ascontiguousarray(which[begin : begin + _BLOCK], np.int64)
        table = np.ascontiguousarray(values[begin : begin + _BLOCK], np.int64).reshape(-1)
        blocks.append(out[: _WRITE(*described, rows, table, shape, out)].tobytes())
    return b"".join(blocks)
