"""A rank's buffers, indexed for the chunks in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, overload

from astranb.core.errors import InputError

from .operation import Chunk, Chunks

__all__ = ["Buffer"]


class _Owner(Protocol):
    """What a buffer needs of its program."""

    @property
    def name(self) -> str: ...

    @property
    def slice_number(self) -> int: ...


class Buffer:
    """One rank's input, output or scratch memory; index it for a chunk, or slice it for several.

    Its chunks are those of the program's channel, or of a given one. ``[4:8]``, ``[::2]``, ``[:]`` and a
    ``range`` are several chunks: an operation on them is one operation for each.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> me, you = Program("broadcast", ranks=2, channels=1, input_chunks=8, output_chunks=8).everyone
    >>> len(me.input), str(me.input[:]), str(me.output[range(1, 8, 2)])
    (8, 'rank 0 input[0:8]', 'rank 0 output[1:8:2]')
    >>> for mine, yours in zip(me.input[:4], you.output, strict=False):
    ...     me.block().put(mine, yours)
    """

    def __init__(
        self, program: _Owner, rank: int, name: str, chunks: int | None, channel: int | None = None
    ) -> None:
        self._program, self._rank, self._name, self._chunks = program, rank, name, chunks
        self._channel = channel

    @overload
    def __getitem__(self, index: int) -> Chunk: ...

    @overload
    def __getitem__(self, index: slice | range) -> Chunks: ...

    def __getitem__(self, index: int | slice | range) -> Chunk | Chunks:
        """Return a chunk, or chunks; a negative index or one beyond the buffer is an error."""
        if isinstance(index, slice | range):
            return self._slice(index)
        if index < 0 or (self._chunks is not None and index >= self._chunks):
            raise self._missing(str(index))
        return Chunk(self._rank, self._name, index, self._of)

    def __len__(self) -> int:
        """Return how many chunks an input or output has."""
        if self._chunks is None:
            raise InputError(
                f"{self._name} has any number of chunks", where=f"program {self._program.name!r}"
            )
        return self._chunks

    def __iter__(self) -> Iterator[Chunk]:
        """Go through the chunks of an input or output."""
        return iter(self[:] if len(self) else ())

    def _slice(self, part: slice | range) -> Chunks:
        stop = self._chunks if part.stop is None else part.stop
        step = 1 if part.step is None else part.step
        if stop is None or step < 1:
            raise InputError(
                f"{self._name} of rank {self._rank} needs a slice with an end and a positive step",
                where=f"program {self._program.name!r}",
                hint="for example [4:8]",
            )
        indices = range(part.start or 0, stop, step)
        if not indices or indices[0] < 0 or (self._chunks is not None and indices[-1] >= self._chunks):
            raise self._missing(f"{indices.start}:{indices.stop}")
        return Chunks(self._rank, self._name, indices, self._of)

    @property
    def _of(self) -> int:
        return self._program.slice_number if self._channel is None else self._channel

    def _missing(self, index: str) -> InputError:
        return InputError(
            f"{self._name}[{index}] of rank {self._rank} does not exist",
            where=f"program {self._program.name!r}",
            hint=f"the buffer has {self._chunks} chunks" if self._chunks else "chunks count from 0",
        )
