"""Options of a fabric: arbitration, buffers, switching, multipath, faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, time_ps

from .port import ARBITRATIONS
from .roce import Roce

__all__ = ["MULTIPATHS", "Fault", "Network"]

MULTIPATHS = ("interleave", "static", "flow_hash", "spray")
_MOST_FLAPS = 100_000
_MOST_LINES = 64
_MOST_PROXY_PS = 10**12


@dataclass(frozen=True)
class Fault:
    """A temporary change of a link.

    Parameters
    ----------
    link : str
        ``A->B`` (all lanes) or ``A->B#k``; ``gpu[3]`` is short for a name.
    at, until : str or int
        Begin and end; without ``until`` to the end of the run.
    down : bool
        The link is down: messages wait.
    bandwidth, latency : str or int, optional
        Values during the fault.
    every : str or int, optional
        Period of a flapping link: the fault is repeated.
    times : int
        Number of repetitions with ``every``.

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
        """Check the values."""
        where = f"fault of {self.link!r}"
        if self.down and self.until is None:
            raise InputError("the fault has no end", where=where, hint="give until=")
        if not self.down and self.bandwidth is None and self.latency is None:
            raise InputError(
                "the fault changes nothing", where=where, hint="give down=True, bandwidth= or latency="
            )
        if self.until is not None and time_ps(self.until, where=where) <= time_ps(self.at, where=where):
            raise InputError("the fault ends before it begins", where=where)
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
            raise InputError("link bandwidth must be greater than zero", where=where, hint="use down=True")

    @property
    def at_ps(self) -> int:
        """Begin."""
        return time_ps(self.at, where="at")

    @property
    def end_ps(self) -> int:
        """End; 0 for never."""
        return 0 if self.until is None else time_ps(self.until, where="until")

    def values(self, bandwidth: int, latency: int) -> tuple[int, int]:
        """Return bandwidth (bytes/s) and latency (ps) during the fault."""
        return (
            bandwidth if self.bandwidth is None else bandwidth_Bps(self.bandwidth, where="bandwidth"),
            latency if self.latency is None else time_ps(self.latency, where="latency"),
        )

    def periods(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each repetition."""
        period = 0 if self.every is None else time_ps(self.every, where="every")
        for number in range(self.times if period else 1):
            yield self.at_ps + number * period, self.end_ps + number * period if self.until is not None else 0


@dataclass(frozen=True)
class Network:
    """Options of the network: how messages share the fabric.

    Parameters
    ----------
    arbitration : str
        ``"fifo"``: in order of arrival; ``"round_robin"``: requests and responses alternate;
        ``"fair"``: data and control (signals, polls) alternate too.
    buffers : int
        Capacity of the buffer behind a link in messages per class; 0 for no limit. A full buffer
        blocks the link before it, and all messages behind its first one.
    cut_through : bool
        A message is forwarded when its header has arrived, not its last bit.
    multipath : str
        ``"interleave"``: equal-cost routes by address; ``"static"``: one route per pair;
        ``"flow_hash"``: by thread block and target; ``"spray"``: each message takes the next route.
    faults : tuple of Fault
    coalesce : int
        Number of consecutive lines of a move that travel as one request: fewer events, but times
        are no longer exact (see ``docs/fidelity.md``).
    compute_lines : int
        The same of what tiles of compute kernels load and store, and passes over memory copy: 1 is every
        line; the work of SMs, L2 and memory stays the same.
    roce : Roce, optional
        Ethernet under load: pause frames, ECN marks, rate limits of senders.
    proxy_ps : int
        What a library's proxy threads, which post to NICs and poll them, and the network's software take
        before a NIC sends a request; responses need none of it.

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
    compute_lines: int = 1
    roce: Roce | None = None
    proxy_ps: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        for what, known in (("arbitration", ARBITRATIONS), ("multipath", MULTIPATHS)):
            if getattr(self, what) not in known:
                raise InputError(
                    f"unknown {what} {getattr(self, what)!r}",
                    where=what,
                    hint=near(str(getattr(self, what)), known),
                )
        if isinstance(self.buffers, bool) or not isinstance(self.buffers, int) or self.buffers < 0:
            raise InputError(
                f"buffers must be a number of messages, got {self.buffers!r}",
                where="buffers",
                hint="0 means no limit",
            )
        for name in ("coalesce", "compute_lines"):
            lines = getattr(self, name)
            if isinstance(lines, bool) or not isinstance(lines, int) or not 1 <= lines <= _MOST_LINES:
                raise InputError(f"{lines!r:.40} lines", where=name, hint=f"take 1 to {_MOST_LINES}")
        proxy = self.proxy_ps
        if isinstance(proxy, bool) or not isinstance(proxy, int) or not 0 <= proxy <= _MOST_PROXY_PS:
            raise InputError(f"must be 0 to 1 s, got {proxy!r:.80}", where="proxy_ps")
        if self.roce is not None and not isinstance(self.roce, Roce):
            raise InputError(
                f"must be a Roce, got {self.roce!r}", where="roce", hint="write roce=anb.net.Roce()"
            )
        object.__setattr__(self, "faults", tuple(self.faults))

    @property
    def managed(self) -> bool:
        """Whether links need queues: limited buffers, separate classes, or Ethernet."""
        return self.buffers > 0 or self.arbitration != "fifo" or self.roce is not None
