"""The network on which a recorded job's transfers take the time that they took."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.chakra import CollectiveType, NodeType, durations_ns
from astranb.explore.algorithms import CollectiveTimes
from astranb.workload.astrasim2 import COLLECTIVE_NAMES, DimensionNetwork, System

if TYPE_CHECKING:
    from astranb.chakra import LinkedJob

__all__ = ["JobNetwork", "job_network"]

_SYSTEM: Final[dict[str, Any]] = {
    "preferred-dataset-splits": 1,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
}
_QUICK_GBps: Final = 1e6
_SLOW_GBps: Final = 1e-3  # ASTRA-sim's files take no less
_SLOW_NS: Final = 1e6
_LEAST_PART: Final = 0.1
"""Bytes are at least this part of some transfer's time, where that says what the bandwidth is."""
_LATENCY_NS: Final = 5000.0
"""Most that a message costs besides its bytes: transfers of one size within it give no bandwidth."""


@dataclass(frozen=True)
class JobNetwork:
    """One switch between all ranks, fitted to a recording.

    Attributes
    ----------
    ranks : int
    bandwidth_GBps : float
        Of each rank's link, in 10^9 bytes per second.
    latency_ns : float
        Of a link: a message crosses two.
    transfers : int
        How many it is fitted to, of all ranks.
    median_error, worst_error : float
        Of the time of a single transfer, relative to the recorded one.
    """

    ranks: int
    bandwidth_GBps: float  # noqa: N815 - the unit
    latency_ns: float
    transfers: int
    median_error: float
    worst_error: float

    def __str__(self) -> str:
        """One line."""
        latency = f"{self.latency_ns / 1000:.3g} µs" if self.latency_ns else "no known latency"
        return (
            f"a switch of {self.bandwidth_GBps:.3g} GB/s and {latency} a link, "
            f"fitted to {self.transfers:,} transfers, a single one of which is off by "
            f"{self.median_error:.0%} (median), {self.worst_error:.0%} (worst)"
        )

    def files(self) -> dict[str, bytes]:
        """Return ``network.yml`` and ``system.json`` of ASTRA-sim 2.0, by the ends of their names."""
        values = {
            "topology": "Switch",
            "npus_count": self.ranks,
            "bandwidth": f"{self.bandwidth_GBps:.6g}",
            "latency": f"{self.latency_ns:.6g}",
        }
        lines = [f"# {self}", *(f"{name}: [{value}]" for name, value in values.items()), ""]
        system = json.dumps(_SYSTEM, indent=1)
        return {"network.yml": "\n".join(lines).encode(), "system.json": f"{system}\n".encode()}


def job_network(job: LinkedJob) -> JobNetwork | None:
    """Fit a switch to the transfers of a recorded job: two numbers, by least squares of times.

    A transfer is a collective or message without the waits for other ranks. On a switch with rings its time
    is steps times latency and bytes over bandwidth, whose factors the simulator gives. Of transfers that all
    have about one size the latency is not known, and taken as 0.

    Parameters
    ----------
    job : LinkedJob

    Returns
    -------
    JobNetwork or None
        None where the transfers do not say what the bandwidth is: where none is of known size, where times do
        not grow with bytes, where all are of about one size and may be nothing but latency, or where no
        network has what results.

    Examples
    --------
    >>> from astranb.chakra import LinkedJob, Node, NodeType, Trace
    >>> def reduced(number, size, time_ns):
    ...     values = {"comm_type": 0, "comm_size": size, "pg_name": "0", "duration_ns": time_ns}
    ...     return Node(number, "sum", NodeType.COMM_COLL, attributes=values)
    >>> both = Trace.of([reduced(1, 1000, 5000), reduced(2, 1_000_000, 1_004_000)])
    >>> found = job_network(LinkedJob([both, both], {"0": [0, 1]}, [], [], 2, 0, []))
    >>> print(f"{found.bandwidth_GBps:.1f} GB/s, {found.latency_ns:,.0f} ns")
    1.0 GB/s, 992 ns
    """
    ranks = len(job.traces)
    rows = [row for rank in range(ranks) for row in _transfers(job, rank)]
    if ranks < 2 or not rows:
        return None
    system = System.from_document(_SYSTEM)
    only_steps, only_bytes = (
        CollectiveTimes(DimensionNetwork(["Switch"], [ranks], [bandwidth], [latency]), system)
        for bandwidth, latency in ((_QUICK_GBps, _SLOW_NS), (1.0, 0.0))
    )
    parts = np.array([[_time(one, row) for one in (only_steps, only_bytes)] for row in rows])
    factors, took = parts / [_SLOW_NS, 1.0], np.array([row[-1] for row in rows], float)
    latency, slowness = _two_factors(factors, took)
    if not 1 / _QUICK_GBps <= slowness <= 1 / _SLOW_GBps:
        return None
    if (factors[:, 1] * slowness / took).max() < _LEAST_PART:
        return None
    bandwidth = 1 / slowness
    errors = np.abs(factors @ [latency, 1 / bandwidth] / took - 1)
    return JobNetwork(ranks, bandwidth, latency, len(rows), float(np.median(errors)), float(errors.max()))


_Transfer = tuple[str, tuple[int, ...], int, int]
"""Kind, ranks, bytes, and how long it took in ns."""


def _transfers(job: LinkedJob, rank: int) -> Iterator[_Transfer]:
    trace = job.traces[rank]
    took, size = durations_ns(trace), trace.comm_size
    for row in np.flatnonzero((took > 0) & (size > 0) & ~trace.keeps_duration).tolist():
        if trace.type[row] == NodeType.COMM_COLL:
            kind = CollectiveType(int(trace.comm_type[row])).name.lower()
            members = tuple(job.groups.get(trace.pg_name[row] or "", range(len(job.traces))))
            if kind in COLLECTIVE_NAMES and len(members) > 1:
                yield kind, members, int(size[row]), int(took[row])
        elif trace.type[row] == NodeType.COMM_RECV:
            yield "message", (int(trace.comm_src[row]), rank), int(size[row]), int(took[row])


def _time(times: CollectiveTimes, row: _Transfer) -> int:
    kind, ranks, size, _ = row
    if kind == "message":
        return times.message_ns(ranks[0], ranks[1], size)
    return times.collective_ns(kind, ranks, size)


def _two_factors(factors: np.ndarray, wanted: np.ndarray) -> Sequence[float]:
    """Solve for latency and slowness, which are not negative; a slowness of 0 is not known."""
    steps, sizes = factors.T
    if (sizes / steps).max() < 2 * (sizes / steps).min():  # too much alike to tell the two apart
        known = np.median(wanted / steps) >= 2 * _LATENCY_NS
        return (0.0, float(sizes @ wanted / (sizes @ sizes)) if known else 0.0)
    solution = np.linalg.lstsq(factors, wanted, rcond=None)[0]
    if (solution >= 0).all():
        return solution.tolist()  # type: ignore[no-any-return]
    alone = [float(one @ wanted / max(float(one @ one), 1e-300)) for one in factors.T]
    left = [float(((one * factor - wanted) ** 2).sum()) for one, factor in zip(factors.T, alone, strict=True)]
    return (alone[0], 0.0) if left[0] < left[1] else (0.0, alone[1])
