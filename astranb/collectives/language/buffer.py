"""A rank's buffers, indexed for the chunks in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import index as number_of
from typing import Protocol, SupportsIndex, overload

from astranb.core.errors import near
from astranb.core.plural import plural

from .operation import Chunk, Chunks
from .source import ProgramError, line_of_caller

__all__ = ["Buffer"]


class _Owner(Protocol):
    """Members of a program that a buffer needs."""

    @property
    def name(self) -> str: ...

    @property
    def slice_number(self) -> int: ...


class Buffer:
    """One rank's input, output or scratch memory; index it for a chunk, or slice it for several.

    Its chunks are those of the program's channel, or of a given one. ``[4:8]``, ``[::2]``, ``[:]`` and a
    ``range`` are several chunks: an operation on them is one operation for each. Where a contract gives it
    several parts, as ``"tokens"`` and ``"scales"``, index it with the name of one: its chunks are numbered
    from 0.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> me, you = Program("broadcast", ranks=2, channels=1, input_chunks=8, output_chunks=8).everyone
    >>> len(me.input), str(me.input[:]), str(me.output[range(1, 8, 2)])
    (8, 'rank 0 input[0:8]', 'rank 0 output[1:8:2]')
    >>> for mine, yours in zip(me.input[:4], you.output, strict=False):
    ...     _ = me.block().put(mine, yours)
    """

    def __init__(
        self,
        program: _Owner,
        rank: int,
        name: str,
        chunks: int | None,
        channel: int | None = None,
        *,
        first: int = 0,
        parts: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        self._program, self._rank, self._name, self._chunks = program, rank, name, chunks
        self._channel, self._first, self._parts = channel, first, parts or {}

    @overload
    def __getitem__(self, index: SupportsIndex) -> Chunk: ...

    @overload
    def __getitem__(self, index: slice | range) -> Chunks: ...

    @overload
    def __getitem__(self, index: str) -> Buffer: ...

    def __getitem__(self, index: SupportsIndex | slice | range | str) -> Chunk | Chunks | Buffer:
        """Return a chunk, or chunks; a negative index or one beyond the buffer is an error."""
        if isinstance(index, str):
            return self._part(index)
        if isinstance(index, slice | range):
            return self._slice(index)
        if type(index) is not int:
            index = number_of(index)
        if index < 0 or (self._chunks is not None and index >= self._chunks):
            raise self._missing(str(index))
        return Chunk(self._rank, self._name, self._first + index, self._of)

    def _part(self, name: str) -> Buffer:
        if name not in self._parts:
            hint = near(name, self._parts) if self._parts else "chunks are numbered from 0"
            raise self._error(f"{self._name} of rank {self._rank} has no part {name!r}", hint)
        first, chunks = self._parts[name]
        return Buffer(self._program, self._rank, self._name, chunks, self._channel, first=first)

    def __str__(self) -> str:
        """Name and owner: ``the output of rank 1``."""
        return f"the {self._name} of rank {self._rank}"

    def __len__(self) -> int:
        """Return how many chunks an input or output has."""
        if self._chunks is None:
            raise self._error(f"{self._name} has any number of chunks", "for example [0:8]")
        return self._chunks

    def __iter__(self) -> Iterator[Chunk]:
        """Go through the chunks of an input or output."""
        return iter(self[:] if len(self) else ())

    def _slice(self, part: slice | range) -> Chunks:
        stop = self._chunks if part.stop is None else part.stop
        step = 1 if part.step is None else part.step
        if stop is None or step < 1:
            what = f"{self._name} of rank {self._rank} needs a slice with an end and a positive step"
            raise self._error(what, "for example [4:8]")
        indices = range(part.start or 0, stop, step)
        if not indices or indices[0] < 0 or (self._chunks is not None and indices[-1] >= self._chunks):
            raise self._missing(f"{indices.start}:{indices.stop}")
        first = self._first
        return Chunks(self._rank, self._name, range(first + indices.start, first + stop, step), self._of)

    @property
    def _of(self) -> int:
        return self._program.slice_number if self._channel is None else self._channel

    def _missing(self, index: str) -> ProgramError:
        count = self._chunks
        hint = "chunks count from 0" if count is None else f"the buffer has {plural(count, 'chunk')}"
        return self._error(f"{self._name}[{index}] of rank {self._rank} does not exist", hint)

    def _error(self, what: str, hint: str) -> ProgramError:
        return ProgramError(what, line_of_caller(), where=f"program {self._program.name!r}", hint=hint)
