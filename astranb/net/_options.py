"""What may be chosen about a fabric: arbitration, buffers, switching, multipath, faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, time_ps

from ._roce import Roce
from .port import ARBITRATIONS

__all__ = ["MULTIPATHS", "Fault", "Network"]

MULTIPATHS = ("interleave", "static", "flow_hash", "spray")
_MOST_FLAPS = 100_000
_MOST_LINES = 64


@dataclass(frozen=True)
class Fault:
    """Something that happens to a link at a time.

    Parameters
    ----------
    link : str
        ``A->B`` (all lanes) or ``A->B#k``; ``gpu[3]`` may stand for a name.
    at, until : str or int
        From when to when; without ``until``, to the end.
    down : bool
        Nothing passes; what comes waits.
    bandwidth, latency : str or int, optional
        What they are meanwhile.
    every : str or int, optional
        A flapping link: the same again and again, one period after the other.
    times : int
        How often, with ``every``.

    Examples
    --------
    >>> Fault("a.0.xpu.0->a.0.switch.0", at="2 us", until="5 us", down=True).down
    True
    """

    link: str
    at: int | str = 0
    until: int | str | None = None
    down: bool = False
    bandwidth: int | str | None = None
    latency: int | str | None = None
    every: int | str | None = None
    times: int = 100

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        where = f"fault of {self.link!r}"
        if self.down and self.until is None:
            raise InputError("a link that is down for ever", where=where, hint="give until=")
        if not self.down and self.bandwidth is None and self.latency is None:
            raise InputError("nothing changes", where=where, hint="give down=True, bandwidth= or latency=")
        if self.until is not None and time_ps(self.until, where=where) <= time_ps(self.at, where=where):
            raise InputError("it ends before it begins", where=where)
        if self.every is not None:
            if self.until is None:
                raise InputError(
                    "a flapping link needs an end of each fault", where=where, hint="give until="
                )
            if time_ps(self.every, where=where) <= self.end_ps - self.at_ps:
                raise InputError("the period is shorter than the fault", where=where)
            if not 1 <= self.times <= _MOST_FLAPS:
                raise InputError(f"times must be 1 to {_MOST_FLAPS}, got {self.times}", where=where)
        if self.bandwidth is not None and bandwidth_Bps(self.bandwidth, where=where) == 0:
            raise InputError("a link of no bandwidth", where=where, hint="use down=True")

    @property
    def at_ps(self) -> int:
        """When it begins."""
        return time_ps(self.at, where="at")

    @property
    def end_ps(self) -> int:
        """When it ends; 0 for never."""
        return 0 if self.until is None else time_ps(self.until, where="until")

    def values(self, bandwidth: int, latency: int) -> tuple[int, int]:
        """Bandwidth (bytes/s) and latency (ps) while it lasts, from the usual ones."""
        return (
            bandwidth if self.bandwidth is None else bandwidth_Bps(self.bandwidth, where="bandwidth"),
            latency if self.latency is None else time_ps(self.latency, where="latency"),
        )

    def periods(self) -> Iterator[tuple[int, int]]:
        """Each beginning and end."""
        period = 0 if self.every is None else time_ps(self.every, where="every")
        for turn in range(self.times if period else 1):
            yield self.at_ps + turn * period, self.end_ps + turn * period if self.until is not None else 0


@dataclass(frozen=True)
class Network:
    """How messages share the fabric.

    Parameters
    ----------
    arbitration : str
        ``"fifo"``: first come, first served; ``"round_robin"``: requests and responses in
        turn; ``"fair"``: data and control (signals, polls) in turn as well.
    buffers : int
        Messages that find room behind a link, in each class; 0 for no limit. A full buffer
        stops the link before it, and what waits behind its first message.
    cut_through : bool
        A message goes on when its header has come, not its last bit.
    multipath : str
        ``"interleave"``: equal ways in turn by address; ``"static"``: one way a pair;
        ``"flow_hash"``: by thread block and target; ``"spray"``: each message the next.
    faults : tuple of Fault
    coalesce : int
        Consecutive lines of a move that travel as one request: fewer events, and times that
        are no longer exact (``docs/fidelity.md`` has by how much).

    roce : Roce, optional
        What Ethernet does under load: pause frames, marks, rates of senders.

    Examples
    --------
    >>> Network(arbitration="fair").managed
    True
    """

    arbitration: str = "fifo"
    buffers: int = 0
    cut_through: bool = False
    multipath: str = "interleave"
    faults: tuple[Fault, ...] = ()
    coalesce: int = 1
    roce: Roce | None = None

    def __post_init__(self) -> None:
        """Refuse names that do not exist."""
        for what, known in (("arbitration", ARBITRATIONS), ("multipath", MULTIPATHS)):
            if getattr(self, what) not in known:
                raise InputError(
                    f"unknown {what} {getattr(self, what)!r}",
                    where="network",
                    hint=near(str(getattr(self, what)), known),
                )
        if isinstance(self.buffers, bool) or not isinstance(self.buffers, int) or self.buffers < 0:
            raise InputError(
                f"buffers must be a number of messages, got {self.buffers!r}",
                where="network",
                hint="0 is no limit",
            )
        if (
            isinstance(self.coalesce, bool)
            or not isinstance(self.coalesce, int)
            or not (1 <= self.coalesce <= _MOST_LINES)
        ):
            raise InputError(
                f"coalesce must be 1 to {_MOST_LINES} lines, got {self.coalesce!r}", where="network"
            )
        if self.roce is not None and not isinstance(self.roce, Roce):
            raise InputError(
                f"roce must be a Roce, got {self.roce!r}", where="network", hint="write roce=anb.net.Roce()"
            )
        object.__setattr__(self, "faults", tuple(self.faults))

    @property
    def managed(self) -> bool:
        """Whether links need queues: limited buffers, classes that are told apart, or Ethernet."""
        return self.buffers > 0 or self.arbitration != "fifo" or self.roce is not None
