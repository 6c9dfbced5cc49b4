"""Many messages of protocol buffers written at once, a field of all of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.arrays import ranges

from .wire import Bytes, Ints

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Assembly", "varint_sizes"]

_LONGEST: Final = 10  # bytes of a number


def varint_sizes(values: NDArray[np.uint64]) -> Ints:
    """Return how many bytes each number takes, seven bits a byte.

    Examples
    --------
    >>> varint_sizes(np.array([0, 127, 128, 2**64 - 1], np.uint64))
    array([ 1,  1,  2, 10])
    """
    sizes = np.ones(len(values), np.int64)
    most = int(values.max(initial=0))
    for bits in range(7, 64, 7):
        if most >> bits:
            sizes += values >= np.uint64(1 << bits)
    return sizes


def _write_numbers(out: Bytes, at: Ints, values: NDArray[np.uint64], sizes: Ints) -> None:
    rest = values.copy()
    for place in range(int(sizes.max(initial=0))):
        if place:
            longer = np.flatnonzero(sizes > place)
            at, rest, sizes = at[longer], rest[longer] >> np.uint64(7), sizes[longer]
        more = (sizes > place + 1).astype(np.uint8) << 7
        out[at + place] = (rest & np.uint64(127)).astype(np.uint8) | more


class Assembly:
    """Messages that are put together from parts, in the order in which the parts are added.

    Parameters
    ----------
    count : int
        How many messages.

    Examples
    --------
    >>> made = Assembly(2)
    >>> made.numbers(np.array([1, 300], np.uint64))
    >>> made.chosen([b"ab", b"c"], np.array([-1, 1]))
    >>> made.framed().hex(" ")
    '01 01 03 ac 02 63'
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._sizes = np.zeros(count, np.int64)
        self._parts: list[tuple[Ints | None, Ints, Callable[[Bytes, Ints], None]]] = []

    def _add(self, owner: Ints | None, sizes: Ints, write: Callable[[Bytes, Ints], None]) -> None:
        total = sizes if owner is None else np.bincount(owner, sizes, self._count).astype(np.int64)
        self._sizes += total
        self._parts.append((owner, sizes, write))

    def copies(self, data: Bytes, start: Ints, end: Ints, owner: Ints | None = None) -> None:
        """Add bytes of other data: one span for each message, or any number, with their ascending owners."""
        sizes = end - start

        def write(out: Bytes, at: Ints) -> None:
            to = ranges(at, sizes)
            out[to] = data[to + np.repeat(start - at, sizes)]

        self._add(owner, sizes, write)

    def chosen(self, texts: Sequence[bytes], which: Ints) -> None:
        """Add one of some texts to each message; -1: none."""
        sizes = np.array([*map(len, texts), 0], np.int64)  # the last one is that of -1
        ends = np.cumsum(sizes)
        self.copies(np.frombuffer(b"".join(texts), np.uint8), (ends - sizes)[which], ends[which])

    def numbers(
        self,
        values: NDArray[Any],
        owner: Ints | None = None,
        *,
        present: NDArray[np.bool_] | None = None,
        prefix: bytes = b"",
        length_at: int = -1,
    ) -> None:
        """Add a number to each message, or any number of them with their ascending owners.

        Parameters
        ----------
        values : array of int
            Negative ones as their 64 bits.
        owner : array of int, optional
        present : array of bool, optional
            Which of them are added; by default all.
        prefix : bytes
            What is before each of them: its tag.
        length_at : int
            The byte of the prefix to which the number's own bytes are added: a length below 128.
        """
        bits = values.astype(np.int64, copy=False).view(np.uint64) if values.dtype.kind == "i" else values
        sizes = varint_sizes(bits)
        own, lengths = (bits, sizes) if present is None else (bits[present], sizes[present])

        def write(out: Bytes, at: Ints) -> None:
            at = at if present is None else at[present]
            for place, byte in enumerate(prefix):
                out[at + place] = byte + lengths if place == length_at else byte
            _write_numbers(out, at + len(prefix), own, lengths)

        whole = sizes + len(prefix)
        self._add(owner, whole if present is None else np.where(present, whole, 0), write)

    def framed(self) -> bytes:
        """Return all messages, each with its length before it."""
        before = varint_sizes(self._sizes.view(np.uint64))
        ends = np.cumsum(before + self._sizes)
        out = np.empty(int(ends[-1]) if self._count else 0, np.uint8)
        at = ends - self._sizes - before
        _write_numbers(out, at, self._sizes.view(np.uint64), before)
        at = at + before
        for owner, sizes, write in self._parts:
            if owner is None:
                write(out, at)
                at = at + sizes
                continue
            within = np.cumsum(sizes) - sizes
            total = np.bincount(owner, sizes, self._count).astype(np.int64)
            first = np.cumsum(total) - total  # owners ascend
            write(out, at[owner] + within - first[owner])
            at = at + total
        return out.tobytes()
