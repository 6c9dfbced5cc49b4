"""Background traffic: messages at random times between GPUs, which nobody waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes
from astranb.workload.astrasim2 import DELAY, RECV, SEND, Operations, RankOperations

__all__ = ["PATTERNS", "BackgroundTraffic"]

PATTERNS: Final = ("uniform", "permutation", "incast")
"""``uniform``: each message goes to a rank that is drawn for it. ``permutation``: each rank sends to one
other, which no other rank sends to. ``incast``: from time to time all ranks send to one that is drawn."""
_MOST_MESSAGES: Final = 2_000_000


@dataclass(frozen=True)
class BackgroundTraffic:
    """Traffic of other users of a network.

    The times between messages of a rank (with ``incast``, between bursts) are exponential, so that messages
    come as a Poisson process. A rank sends its messages one after the other: where the network is congested,
    it falls behind as a connection with flow control does.

    Parameters
    ----------
    load : float
        Part of ``bandwidth_Bps`` that each rank sends on average.
    size_bytes : int
        Of a message.
    until_ps : int
        No message begins later.
    pattern : str
        One of :data:`PATTERNS`.
    seed : int

    Raises
    ------
    InputError
        A value is out of range.

    Examples
    --------
    >>> some = BackgroundTraffic(0.5, 1 << 20, until_ps=10**9)
    >>> ranks = some.operations(4, 50e9)
    >>> len(ranks), int(ranks[0].rows["bytes"].max())
    (4, 1048576)
    """

    load: float
    size_bytes: int
    until_ps: int
    pattern: str = "uniform"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0 < self.load <= 1:
            raise InputError(
                f"load {self.load} is out of range", where="load", hint="take more than 0, at most 1"
            )
        if self.size_bytes < 1 or self.until_ps < 1:
            raise InputError("message size and duration must be greater than zero", where="background")
        if self.pattern not in PATTERNS:
            hint = near(self.pattern, PATTERNS)
            raise InputError(f"unknown pattern {self.pattern[:40]!r}", where="pattern", hint=hint)

    @property
    def title(self) -> str:
        """Description in a line."""
        return f"{self.load:.0%} of {format_bytes(self.size_bytes)} messages, {self.pattern}"

    def operations(self, ranks: int, rate_Bps: float) -> RankOperations:  # noqa: N803 - unit in the name
        """Draw the messages.

        Parameters
        ----------
        ranks : int
        rate_Bps : float
            What a rank can send: 1 of ``load``.

        Raises
        ------
        InputError
            There are fewer than two ranks, no message or too many of them.
        """
        if ranks < 2:
            what = f"traffic between GPUs needs at least 2 GPUs, got {ranks}"
            raise InputError(what, where="background", hint="leave two or more GPUs without a job")
        draw = np.random.Generator(np.random.PCG64(self.seed))
        gap_ns = self.size_bytes / (self.load * rate_Bps) * 1e9
        until_ns = self.until_ps // 1000
        expected = until_ns / gap_ns * ranks
        if expected > _MOST_MESSAGES:
            what = f"too many messages: about {expected:,.0f}"
            hint = f"take a shorter time, a smaller load or larger messages: at most {_MOST_MESSAGES:,}"
            raise InputError(what, where="background", hint=hint)
        source, target, at_ns = self._messages(draw, ranks, gap_ns, until_ns)
        if not len(source):
            what = f"no message in {until_ns:,} ns: one takes {gap_ns:,.0f} ns at this load"
            raise InputError(what, where="background", hint="take a longer time or smaller messages")
        listed = []
        for rank in range(ranks):
            sent, came = np.flatnonzero(source == rank), np.flatnonzero(target == rank)
            sent = sent[np.argsort(at_ns[sent], kind="stable")]
            # Between two ranks messages arrive in the order in which they are sent.
            came = came[np.argsort(at_ns[came], kind="stable")]
            message = {"tag": 0, "bytes": self.size_bytes}
            rows = [{"kind": RECV, "peer": int(source[one]), **message} for one in came.tolist()]
            deps: list[tuple[int, ...]] = [()] * len(rows)
            for one in sent.tolist():
                rows.append({"kind": DELAY, "duration_ns": int(at_ns[one])})
                rows.append({"kind": SEND, "peer": int(target[one]), **message})
                deps += [(), (len(rows) - 2,)]
            listed.append(Operations.of(rows, deps))
        return RankOperations.of(listed)

    def _messages(
        self, draw: np.random.Generator, ranks: int, gap_ns: float, until_ns: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the source, target and time of each message."""
        if self.pattern == "incast":
            at = _times_ns(draw, gap_ns, until_ns)
            to = draw.integers(ranks, size=len(at))
            source = np.tile(np.arange(ranks), len(at))
            target, at_ns = np.repeat(to, ranks), np.repeat(at, ranks)
            others = source != target
            return source[others], target[others], at_ns[others]
        each = [_times_ns(draw, gap_ns, until_ns) for _ in range(ranks)]
        source = np.repeat(np.arange(ranks), [len(one) for one in each])
        if self.pattern == "permutation":  # along one random cycle, so that no rank sends to itself
            cycle = draw.permutation(ranks)
            following = np.empty(ranks, np.int64)
            following[cycle] = np.roll(cycle, -1)
            target = following[source]
        else:
            target = (source + draw.integers(1, ranks, size=len(source))) % ranks
        return source, target, np.concatenate(each)


def _times_ns(draw: np.random.Generator, gap_ns: float, until_ns: int) -> np.ndarray:
    """Draw times of a Poisson process up to a time; at least a nanosecond from the start."""
    found: list[np.ndarray] = []
    last = 0.0
    while last <= until_ns:
        some = last + np.cumsum(draw.exponential(gap_ns, 64))
        found.append(some)
        last = float(some[-1])
    times = np.concatenate(found)
    return np.maximum(times[times <= until_ns].astype(np.int64), 1)
