"""Work that a thread block posts to its NIC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .operation import Chunk, Chunks, Semaphore

__all__ = ["WorkQueue"]


class _PostingBlock(Protocol):
    """Members of a block, and of a list of requests, that a work queue needs."""

    current: int
    rank: int

    @property
    def count(self) -> int: ...

    def moves_since(self, count: int) -> int: ...

    def compute(self, instructions: int = 1) -> None: ...

    def move(self, sources: Sequence[Chunk | Chunks], targets: Sequence[Chunk | Chunks]) -> None: ...

    def signal(
        self, semaphore: Semaphore, value: int = 1, *, relaxed: bool = False, behind: int = 0
    ) -> None: ...

    def wait(self, semaphore: Semaphore, value: int = 1) -> None: ...


class _PostingProgram(Protocol):
    """Members of a program that a work queue needs."""

    def semaphore(self, rank: int) -> Semaphore: ...

    def send_buffer(self, rank: int, like: Chunk | Chunks) -> Chunk | Chunks: ...


class WorkQueue:
    """Work that a thread block posts to its NIC for ranks of other nodes: a queue pair and its doorbell.

    What the block stores to another node goes to a send buffer of the NIC's rank: its own, or another one
    of its node. Where it signals a rank there, it rings the doorbell; the NIC writes what is for that rank,
    and then raises the semaphore.

    Parameters
    ----------
    block, requests : Block
        The thread block, and the NIC's list of requests.
    program : Program
        It gives the send buffer, and the semaphore by which the block tells the NIC to go on.
    """

    __slots__ = ("_block", "_doorbell", "_program", "_requests", "_rung", "_staged", "pending")

    def __init__(self, block: _PostingBlock, requests: _PostingBlock, program: _PostingProgram) -> None:
        self._block, self._requests, self._program = block, requests, program
        self._doorbell = program.semaphore(requests.rank)
        self.pending: dict[int, list[tuple[Chunk | Chunks, Chunk | Chunks]]] = {}
        self._rung = -1  # operations of the block when it rang last
        self._staged: dict[int, int] = {}  # operations of the block before the first store for each rank

    def add(self, source: Chunk | Chunks, target: Chunk | Chunks) -> None:
        """Remember what is to be written before the next signal to the target's rank."""
        if source.rank != self._requests.rank:  # the NIC of another rank cannot read it where it is
            return self.move((source,), (target,), [target])
        self.pending.setdefault(target.rank, []).append((source, target))
        return None

    def move(
        self, sources: Sequence[Chunk | Chunks], targets: Sequence[Chunk | Chunks], far: list[Chunk | Chunks]
    ) -> None:
        """Store what is for other nodes to a send buffer, and the rest where it is for."""
        staged = self._program.send_buffer(self._requests.rank, far[0])
        for target in far:
            self._staged.setdefault(target.rank, self._block.count)
        self._block.move(sources, (*(target for target in targets if target not in far), staged))
        for target in far:
            self.add(staged, target)

    def signal(self, semaphore: Semaphore, value: int, behind: int = 0) -> None:
        """Write what is for the rank of a semaphore, then raise it.

        ``behind``: the block rings when the stores of so many last moves are acknowledged, and goes on.
        """
        self.post(semaphore.rank, behind)
        self._requests.signal(semaphore, value)

    def post(self, rank: int, behind: int = 0) -> None:
        """Ring the doorbell, behind some of the block's last moves or all, and write what is for a rank."""
        requests = self._requests
        requests.current = self._block.current
        if self._block.count != self._rung:  # signals that follow one another are posted at once
            first = self._staged.get(rank, self._block.count)
            if self._block.moves_since(first) > behind:  # it has stored more for the NIC
                behind = 0
            self._block.signal(self._doorbell, behind=behind)
            requests.wait(self._doorbell)
            requests.compute()
            self._rung = self._block.count
        self._staged.pop(rank, None)
        for source, target in self.pending.pop(rank, ()):
            requests.move((source,), (target,))
