"""Destinations of tokens: lists by rank, node and channel, and what the results must be."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from astranb.collectives.language import Block, ChunkLayout, Semaphore

from .routing import Routing

__all__ = ["Tokens", "fetch_add"]


def fetch_add(block: Block, counter: Semaphore) -> None:
    """Wait for the result of an atomic on a counter of this block's GPU (``atomicAdd``): there and back."""
    block.signal(counter, relaxed=True)
    block.wait(counter)


class Tokens:
    """The tokens of an exchange. Token ``t`` of rank ``r`` has the number ``r * count + t``.

    Parameters
    ----------
    routing : Routing
    per_node : int
        Consecutive ranks that share a node.
    channels : int
        Consecutive tokens of a rank share a channel.
    sms : int
        Of a GPU; low-latency kernels take as many as have experts, one-sided ones all.
    """

    def __init__(self, routing: Routing, per_node: int, channels: int, sms: int) -> None:
        self.routing, self.per_node, self.channels, self.sms = routing, per_node, channels, sms
        self.ranks, self.count = routing.ranks, routing.tokens
        self.nodes = self.ranks // per_node
        self.copies = routing.copies()

    @cached_property
    def to_node(self) -> np.ndarray:
        """Whether each token has an expert on each node: shape (ranks, tokens, nodes)."""
        copied = (self.copies > 0).reshape(self.ranks, self.count, self.nodes, self.per_node)
        return np.asarray(copied.any(axis=3))

    def _of_channel(self, channel: int) -> tuple[int, int]:
        each = -(-self.count // self.channels)
        return min(self.count, channel * each), min(self.count, (channel + 1) * each)

    def _numbers(self, wanted: np.ndarray, rank: int, channel: int) -> list[int]:
        first, last = self._of_channel(channel)
        found: list[int] = (np.flatnonzero(wanted[first:last]) + (rank * self.count + first)).tolist()
        return found

    def for_rank(self, source: int, target: int, channel: int) -> list[int]:
        """Return the tokens of a rank for another one, in one channel."""
        return self._numbers(self.copies[source, :, target] > 0, source, channel)

    def for_node(self, source: int, node: int, channel: int) -> list[int]:
        """Return the tokens of a rank for a node, in one channel."""
        return self._numbers(self.to_node[source, :, node], source, channel)

    def of_rank(self, source: int, channel: int) -> list[int]:
        """Return the tokens of a rank that have an expert, in one channel."""
        return self._numbers((self.copies[source] > 0).any(axis=1), source, channel)

    def holders(self, token: int) -> list[int]:
        """Return the ranks that have experts of a token."""
        found: list[int] = np.flatnonzero(self.copies[divmod(token, self.count)]).tolist()
        return found

    def slots(self, algorithm: str) -> int:
        """Return how many chunks a token can have on one rank: one for each expert in low-latency kernels."""
        return int(self.routing.chosen.shape[2]) if algorithm == "low_latency" else 1

    def layout(self, name: str, algorithm: str, chunk_bytes: int) -> ChunkLayout:
        """Return the chunks of a dispatch or combine, and what its outputs must hold.

        On the ranks of its experts a token has a chunk; in low-latency kernels one for each expert.
        """
        slots = self.slots(algorithm)
        source, token, holder = np.nonzero(self.copies)
        number = source * self.count + token
        if slots > 1:
            chosen = self.routing.holders()
            source, token, place = np.nonzero(chosen >= 0)
            holder = chosen[source, token, place]
            number = (source * self.count + token) * slots + place
        order = np.lexsort((number, holder))
        source, number, holder = source[order], number[order], holder[order]
        item, away = number // slots, np.stack([holder, number, np.full_like(number, chunk_bytes)])
        own = np.flatnonzero(self.copies.any(axis=2).ravel())
        home = np.stack([own // self.count, own * slots, np.full_like(own, chunk_bytes)])
        token_of = np.searchsorted(own, item)  # which of them each chunk away is of
        if name == "dispatch":
            each = np.arange(len(item) + 1)
            return ChunkLayout(home, away, each, token_of, self.ranks, whole=True)
        held = np.argsort(token_of, kind="stable")
        first = np.searchsorted(token_of[held], np.arange(len(own) + 1))
        return ChunkLayout(away, home, first, held, self.ranks, whole=True)
