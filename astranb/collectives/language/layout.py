"""The chunks of every rank's input and output, and what outputs must hold: a contract for some ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from astranb.core.encoded import require

from .reduction import Reduction

__all__ = ["ChunkLayout"]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class ChunkLayout:
    """The chunks of inputs and outputs, listed one by one, and what outputs must hold at the end.

    What an output must hold is a set of *contributions*, which are input chunks: one of them, or their
    reduction. Contributions that some output holds together are of one *item*; each has a *column* of
    its item, those of rank *r* the columns ``most * r`` to ``most * r + most - 1``.

    Attributes
    ----------
    inputs, outputs : ndarray of int64, shape (3, chunks)
        Rank, index and bytes of each chunk that there is, in ascending order of rank and index.
    first : ndarray of int64, shape (outputs + 1,)
        Where the contributions of each output begin in ``held``.
    held : ndarray of int64
        The contributions of all outputs: columns of ``inputs``.
    place : ndarray of int64, shape (outputs,)
        The input (a column of ``inputs``) in whose memory each output is; -1: it has its own.
    ranks : int
    reduction : Reduction
        How the contributions of an output are reduced.
    whole : bool
        Whether channels share the chunks among them; otherwise each chunk is cut into slices by channel.
    busbw : float, optional
        Factor from algorithm bandwidth to bus bandwidth.
    base : str
        The collective that it is like, whose algorithms it has; empty: none.
    buffers : dict of (str, str) to ndarray
        Of several inputs or outputs of a rank: by ``"input"`` or ``"output"`` and its name, for each rank
        the first chunk and the number of chunks, shape (ranks, 2).
    """

    inputs: np.ndarray
    outputs: np.ndarray
    first: np.ndarray
    held: np.ndarray
    ranks: int
    place: np.ndarray = field(default_factory=lambda: _NONE)
    reduction: Reduction = Reduction()  # noqa: RUF009 - immutable
    whole: bool = False
    busbw: float | None = None
    base: str = ""
    buffers: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def checked(self) -> ChunkLayout:
        """Return it; raise InputError if its tables do not fit together: a recipe may hold anything."""
        tables = {"inputs": self.inputs, "outputs": self.outputs, "first": self.first, "held": self.held}
        for name, table in {**tables, "places": self.places}.items():
            require(
                table.dtype == np.int64 and table.ndim == (2 if "puts" in name else 1), f"contract.{name}"
            )
        require(type(self.ranks) is int and type(self.whole) is bool, "contract.ranks")
        require(isinstance(self.base, str), "contract.base")
        require(self.busbw is None or isinstance(self.busbw, int | float), "contract.busbw")
        for name, table in list(tables.items())[:2]:
            require(table.shape[0] == 3 and bool((table >= 0).all()), f"contract.{name}")
            require(bool((table[0] < self.ranks).all() and (table[1:] < 1 << 40).all()), f"contract.{name}")
            key = table[0] * (1 << 40) + table[1]
            require(bool((np.diff(key) > 0).all()), f"contract.{name}")
        given, wanted = self.inputs.shape[1], self.outputs.shape[1]
        require(len(self.first) == wanted + 1 and bool((np.diff(self.first) >= 0).all()), "contract.first")
        require(self.first[0] == 0 and self.first[-1] == len(self.held), "contract.first")
        require(bool(((self.held >= 0) & (self.held < given)).all()), "contract.held")
        require(len(self.places) == wanted, "contract.places")
        require(bool(((self.places >= -1) & (self.places < given)).all()), "contract.places")
        return self

    @cached_property
    def size(self) -> int:
        """Bytes of the largest buffer of a rank."""
        sums = np.zeros((2, self.ranks), np.int64)
        for of, chunks in zip(sums, (self.inputs, self.outputs), strict=True):
            np.add.at(of, chunks[0], chunks[2])
        return int(sums.max(initial=0))

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Greatest number of chunks of an input and of an output: the largest index, and one."""
        return int(self.inputs[1].max(initial=-1)) + 1, int(self.outputs[1].max(initial=-1)) + 1

    def count(self, buffer: str, rank: int) -> int:
        """Return how many chunks the input or output of a rank has."""
        chunks = self._of(buffer)
        return int(chunks[1][chunks[0] == rank].max(initial=-1)) + 1

    @property
    def equal(self) -> bool:
        """Whether all chunks have one size, all ranks as many, and each chunk its own memory."""
        sizes = np.unique(np.concatenate([self.inputs[2], self.outputs[2]]))
        full = [c * self.ranks for c in self.counts] == [self.inputs.shape[1], self.outputs.shape[1]]
        return len(sizes) < 2 and full and bool((self.places < 0).all())

    def find(self, buffer: str, rank: Any, index: Any) -> np.ndarray:
        """Return which of the inputs or outputs chunks are; -1 for one that does not exist."""
        chunks, span = self._of(buffer), max(self.counts)
        if not chunks.shape[1]:
            return np.full(np.shape(index), -1, np.int64)
        known = chunks[0] * span + chunks[1]
        wanted = np.asarray(rank) * span + index
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        matches = (known[at] == wanted) & (np.asarray(index) >= 0) & (np.asarray(index) < span)
        return np.where(matches, at, -1)

    def _of(self, buffer: str) -> np.ndarray:
        return self.inputs if buffer == "input" else self.outputs

    def placed(
        self, rank: np.ndarray, buffer: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return buffer and index of chunks, with the input in whose memory an output is for that output.

        Examples
        --------
        >>> one = np.array([[0], [0], [128]])
        >>> layout = ChunkLayout(one, one, np.array([0, 1]), np.array([0]), 1, np.array([0]))
        >>> layout.placed(np.array([0]), np.array([1]), np.array([0]))
        (array([0]), array([0]))
        """
        output = np.flatnonzero(buffer == 1)
        at = self.find("output", rank[output], index[output])
        to = np.where(at >= 0, self.places[at], -1)
        buffer, index = buffer.copy(), index.copy()
        buffer[output[to >= 0]] = 0
        index[output[to >= 0]] = self.inputs[1, to[to >= 0]]
        return buffer, index

    @cached_property
    def places(self) -> np.ndarray:
        """``place``, with a value for each output."""
        return self.place if len(self.place) else np.full(self.outputs.shape[1], -1, np.int64)

    @cached_property
    def _of_output(self) -> np.ndarray:
        """The output of each contribution in ``held``."""
        return np.repeat(np.arange(self.outputs.shape[1]), np.diff(self.first))

    @cached_property
    def item(self) -> np.ndarray:
        """The item of each input: the first input that is connected with it by outputs that hold both."""
        item = np.arange(self.inputs.shape[1])
        least = np.zeros(self.outputs.shape[1], np.int64)
        while len(self.held):
            least[:] = len(item)
            np.minimum.at(least, self._of_output, item[self.held])
            found = item.copy()
            np.minimum.at(found, self.held, least[self._of_output])
            np.minimum.at(found, item[self.held], least[self._of_output])
            found = found[found]
            if (found == item).all():
                break
            item = found
        return item

    @cached_property
    def _turn(self) -> np.ndarray:
        """Number of inputs of the same rank and item before each input."""
        key = self.item * self.ranks + self.inputs[0]
        order = np.argsort(key, kind="stable")
        new = np.append(True, np.diff(key[order]) != 0)[: len(key)]
        turn = np.empty(len(key), np.int64)
        starts = np.flatnonzero(new)
        turn[order] = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
        return turn

    @cached_property
    def most(self) -> int:
        """Contributions of one rank to an item, at most."""
        return int(self._turn.max(initial=0)) + 1

    @cached_property
    def column(self) -> np.ndarray:
        """The column of each input."""
        found: np.ndarray = self.inputs[0] * self.most + self._turn
        return found

    @cached_property
    def times(self) -> np.ndarray:
        """Number of each contribution in each correct output: int32, shape (outputs, ranks * most)."""
        times = np.zeros((self.outputs.shape[1], self.ranks * self.most), np.int32)
        times[self._of_output, self.column[self.held]] = 1
        return times

    @cached_property
    def output_item(self) -> np.ndarray:
        """The item of each output; -1 for an output that holds nothing."""
        item = np.full(self.outputs.shape[1], -1, np.int64)
        item[self._of_output] = self.item[self.held]
        return item

    def name(self, item: int, column: int) -> str:
        """Name a contribution: ``rank 3 input[5]``."""
        at = np.flatnonzero((self.item == item) & (self.column == column))
        if not len(at):
            return f"rank {column // self.most}'s contribution"
        rank, index = self.inputs[:2, at[0]].tolist()
        return f"rank {rank} input[{index}]"

    def by_rank(self, times: np.ndarray) -> np.ndarray:
        """Return the largest number of the columns of each rank: from (n, ranks * most) to (n, ranks)."""
        found: np.ndarray = times.reshape(len(times), self.ranks, self.most).max(axis=2)
        return found
