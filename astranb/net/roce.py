"""Options of Ethernet under load: pause frames (PFC), ECN marks, and rate limits (DCQCN)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from astranb.core.errors import InputError, near
from astranb.core.jit import Records
from astranb.core.state import allocate
from astranb.core.units import bandwidth_Bps, size_bytes, time_ps

from .rate import ONE, ROCE

__all__ = ["Dcqcn", "Ecn", "Pfc", "Roce", "read_roce", "roce_row"]

_MOST_BYTES = 2**30  # of a queue: its product with 2**32 fits an int64
_PARTS = ("pfc", "ecn", "dcqcn")


def _read(of: object, names: tuple[str, ...], read: Callable[..., int], least: int) -> None:
    for name in names:
        where = f"{type(of).__name__.lower()}, {name}"
        if read(getattr(of, name), where=where) < least:
            raise InputError(f"must not be {getattr(of, name)!r}", where=where)


def _in_order(of: object, low: str, high: str) -> None:
    """Raise an error for thresholds in the wrong order, or larger than any buffer."""
    where = type(of).__name__.lower()
    small, large = (size_bytes(getattr(of, name), where=f"{where}, {name}") for name in (low, high))
    if not 0 < small < large:
        raise InputError(
            f"{low} {getattr(of, low)!r} and {high} {getattr(of, high)!r}",
            where=where,
            hint=f"{low} must be above 0 and less than {high}",
        )
    if large > _MOST_BYTES:
        raise InputError(f"{high} {getattr(of, high)!r} is too large", where=where, hint="at most 1 GiB")


@dataclass(frozen=True)
class Pfc:
    """Priority flow control (IEEE 802.1Qbb): a full buffer pauses the sender before it.

    Parameters
    ----------
    xoff : str or int
        Queued bytes of one class that have arrived over a link, above which the receiving node
        sends a pause frame.
    xon : str or int
        Bytes below which the sender resumes.

    Examples
    --------
    >>> Pfc("64 KiB", "48 KiB").xoff
    '64 KiB'
    """

    xoff: int | str = "64 KiB"
    xon: int | str = "48 KiB"

    def __post_init__(self) -> None:
        """Check the thresholds."""
        _in_order(self, "xon", "xoff")


@dataclass(frozen=True)
class Ecn:
    """ECN marks by switches: the longer a queue, the more of the arriving packets are marked.

    Parameters
    ----------
    kmin, kmax : str or int
        Queue lengths in bytes up to which no packet and from which every packet is marked.
    pmax : float
        Share of marked packets just below ``kmax``.

    Notes
    -----
    The defaults are those of Zhu et al., SIGCOMM 2015, for links of 40 Gbps.

    Examples
    --------
    >>> Ecn(kmin="100 kB", kmax="400 kB").pmax
    0.01
    """

    kmin: int | str = "5 kB"
    kmax: int | str = "200 kB"
    pmax: float = 0.01

    def __post_init__(self) -> None:
        """Check the thresholds and the share."""
        _in_order(self, "kmin", "kmax")
        if isinstance(self.pmax, bool) or not isinstance(self.pmax, int | float) or not 0 < self.pmax <= 1:
            raise InputError(f"pmax must be a share above 0, got {self.pmax!r}", where="ecn", hint="as 0.01")


@dataclass(frozen=True)
class Dcqcn:
    """Rate limits of senders, controlled by congestion notification packets (CNP).

    Parameters
    ----------
    gain : float
        g: how fast alpha follows the notifications.
    interval : str or int
        Minimum time between two notifications of a flow.
    alpha_timer : str or int
        Time without a notification after which alpha decays.
    increase_timer : str or int
        Time between two increases of a rate.
    byte_counter : str or int
        Bytes between two increases of a rate.
    recovery : int
        F: number of fast-recovery steps before a rate exceeds its former value.
    additive, hyper : str or int
        Increase per step after that (R_AI), and when timer and byte counter both exceed F (R_HAI).
    least : str or int
        Minimum rate of a flow.

    Notes
    -----
    Defaults as deployed by Zhu et al., SIGCOMM 2015; ``hyper``, ten times ``additive``, and
    ``least`` are assumed.

    Examples
    --------
    >>> Dcqcn(additive="200 Mbps").interval
    '50 us'
    """

    gain: float = 1 / 256
    interval: int | str = "50 us"
    alpha_timer: int | str = "55 us"
    increase_timer: int | str = "55 us"
    byte_counter: int | str = "10 MB"
    recovery: int = 5
    additive: int | str = "40 Mbps"
    hyper: int | str = "400 Mbps"
    least: int | str = "10 Mbps"

    def __post_init__(self) -> None:
        """Check the values."""
        where = "dcqcn"
        if isinstance(self.gain, bool) or not isinstance(self.gain, int | float) or not 0 < self.gain <= 1:
            raise InputError(f"gain must be a share above 0, got {self.gain!r}", where=where, hint="as 1/256")
        if round(self.gain * ONE) < 1:
            raise InputError(f"gain {self.gain!r} is too small", where=where, hint="at least 1e-6")
        if isinstance(self.recovery, bool) or not isinstance(self.recovery, int) or self.recovery < 0:
            raise InputError(f"recovery must be a number of steps, got {self.recovery!r}", where=where)
        _read(self, ("interval", "alpha_timer", "increase_timer"), time_ps, 1)
        _read(self, ("byte_counter",), size_bytes, 1)
        _read(self, ("additive", "hyper", "least"), bandwidth_Bps, 1)


@dataclass(frozen=True)
class Roce:
    """Ethernet under load; ``None`` leaves a part out.

    It applies to links of type ``eth*``, to cables between instances and to links of unknown
    type. NVLink, PCIe and links inside a switch have credits of their own.

    Parameters
    ----------
    pfc : Pfc or None
        Pause frames.
    ecn : Ecn or None
        ECN marks.
    dcqcn : Dcqcn or None
        Rate limits of senders; they need ECN.

    Examples
    --------
    >>> Roce(dcqcn=None).ecn.kmin, Roce.of("pfc").ecn
    ('5 kB', None)
    """

    pfc: Pfc | None = field(default_factory=Pfc)
    ecn: Ecn | None = field(default_factory=Ecn)
    dcqcn: Dcqcn | None = field(default_factory=Dcqcn)

    def __post_init__(self) -> None:
        """Check the types, and that DCQCN has ECN."""
        for name, kind in zip(_PARTS, (Pfc, Ecn, Dcqcn), strict=True):
            part = getattr(self, name)
            if part is not None and not isinstance(part, kind):
                raise InputError(
                    f"{name} must be a {kind.__name__}, got {part!r}",
                    where="roce",
                    hint=f"write {name}=anb.net.{kind.__name__}(...)",
                )
        if self.dcqcn is not None and self.ecn is None:
            raise InputError("dcqcn without ecn would never be notified", where="roce", hint="add ecn")

    @classmethod
    def of(cls, text: str) -> Roce:
        """Parse names of parts, with default values: ``"pfc,ecn,dcqcn"``.

        Raises
        ------
        InputError
            A name is unknown.
        """
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in _PARTS:
                raise InputError(f"unknown option {name!r}", where="roce", hint=near(name, _PARTS))
        return cls(
            *(kind() if n in names else None for n, kind in zip(_PARTS, (Pfc, Ecn, Dcqcn), strict=True))
        )


def read_roce(document: dict[str, Any] | None) -> Roce | None:
    """Return the options from their ``dataclasses.asdict``."""
    if document is None:
        return None
    kinds = zip(_PARTS, (Pfc, Ecn, Dcqcn), strict=True)
    return Roce(**{name: None if document[name] is None else kind(**document[name]) for name, kind in kinds})


def roce_row(roce: Roce | None, buffers: int) -> Records:
    """Return the options as one row of ROCE, all zero without them."""
    table = allocate(1, ROCE)
    row = table[0]
    row.buffers = buffers
    if roce is None:
        return table
    row.on = 1
    if roce.pfc is not None:
        row.pfc = 1
        row.xoff, row.xon = size_bytes(roce.pfc.xoff), size_bytes(roce.pfc.xon)
    if roce.ecn is not None:
        row.ecn = 1
        row.kmin, row.kmax = size_bytes(roce.ecn.kmin), size_bytes(roce.ecn.kmax)
        row.pmax = round(roce.ecn.pmax * 2**32)
    if roce.dcqcn is not None:
        rates = roce.dcqcn
        row.dcqcn = 1
        row.gain = round(rates.gain * ONE)
        row.interval_ps, row.alpha_ps = time_ps(rates.interval), time_ps(rates.alpha_timer)
        row.timer_ps, row.counter = time_ps(rates.increase_timer), size_bytes(rates.byte_counter)
        row.recovery = rates.recovery
        row.additive_Bps, row.hyper_Bps = bandwidth_Bps(rates.additive), bandwidth_Bps(rates.hyper)
        row.least_Bps = bandwidth_Bps(rates.least)
    return table
