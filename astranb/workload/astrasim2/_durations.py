"""How long operations take that no network decides on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from astranb.core.errors import InputError, near

from ._inputs import System
from ._kinds import COMPUTE, MEMORY, REPLAY
from ._pool import Pool

__all__ = ["Memory", "at_speed", "durations_ns"]

_KINDS = (
    "NO_MEMORY_EXPANSION",
    "PER_NPU_MEMORY_EXPANSION",
    "PER_NODE_MEMORY_EXPANSION",
    "MEMORY_POOL",
    "HIERARCHICAL_POOL",
)


@dataclass(frozen=True)
class Memory:
    """A memory outside the NPUs.

    Parameters
    ----------
    kind : str
        ``NO_MEMORY_EXPANSION``, ``PER_NPU_MEMORY_EXPANSION``, ``PER_NODE_MEMORY_EXPANSION``,
        ``MEMORY_POOL`` or ``HIERARCHICAL_POOL``: none, one for each NPU, for each node, for all, or
        a pool behind a network of its own.
    latency_ns : int
    rate_Bpns : float
        Bytes a nanosecond (10^9 bytes a second).
    npus_per_node : int
    pool : Pool, optional
        What a ``HIERARCHICAL_POOL`` is.
    """

    kind: str = "NO_MEMORY_EXPANSION"
    latency_ns: int = 0
    rate_Bpns: float = 0.0  # noqa: N815 - unit in the name
    npus_per_node: int = 1
    pool: Pool | None = None

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "memory") -> Memory:
        """Take a memory from the contents of a JSON file.

        Parameters
        ----------
        document : dict
        where : str
            The file's name, for messages.
        """
        kind = str(document.get("memory-type", _KINDS[0]))
        if kind not in _KINDS:
            raise InputError(f"unknown memory-type {kind!r}", where=where, hint=near(kind, _KINDS))
        if kind == _KINDS[-1]:
            return cls(kind, pool=Pool.from_document(document, where))
        memory = cls(
            kind,
            int(document.get("remote-mem-latency", 0)),
            float(document.get("remote-mem-bw", 0)),
            int(document.get("num-npus-per-node", 1)),
        )
        if kind != _KINDS[0] and (memory.rate_Bpns <= 0 or memory.npus_per_node < 1):
            raise InputError("remote-mem-bw is not above 0", where=where, hint="give it in GB/s")
        return memory

    def shared_by(self, npus: int) -> int:
        """How many NPUs wait for one another; 0 where none does."""
        if self.kind == "MEMORY_POOL":
            return npus
        return self.npus_per_node if self.kind == "PER_NODE_MEMORY_EXPANSION" else 0


def durations_ns(rows: np.ndarray, system: System, memory: Memory) -> np.ndarray:
    """Give the durations of operations in whole nanoseconds, rounded down.

    Parameters
    ----------
    rows : ndarray
        Operations as columns.
    system : System
    memory : Memory

    Returns
    -------
    ndarray of int64
        0 for what the network decides on.

    Raises
    ------
    InputError
        The roofline or a remote memory is needed and not described.
    """
    recorded = np.where(rows["duration_us"] > 0, rows["duration_us"] * 1000, 1)
    if system.replay:
        return recorded.astype(np.int64)
    result = np.where(np.isin(rows["kind"], (COMPUTE, REPLAY)), recorded, 0).astype(np.int64)
    modelled = (rows["kind"] == COMPUTE) & (rows["on_cpu"] == 0)
    if system.roofline and modelled.any():
        if system.peak_flops <= 0 or system.memory_Bps <= 0:
            raise InputError(
                "the roofline has no peak-perf or local-mem-bw", where=system.where, hint="give both"
            )
        # An operation that moves nothing takes no time.
        some = modelled & (rows["bytes"] > 0)
        result[modelled & ~some] = 0
        flops = rows["flops"][some].astype(np.float64)
        intensity = flops / rows["bytes"][some].astype(np.float64)
        rate = np.minimum(system.memory_Bps * intensity, system.peak_flops)
        with np.errstate(invalid="ignore"):
            taken = np.where(rate > 0, flops / rate, 0.0)
        result[some] = (taken * 1e9).astype(np.int64)
    remote = rows["kind"] == MEMORY
    if remote.any():
        if memory.kind == _KINDS[0]:
            raise InputError(
                "an operation loads from or stores to a remote memory, and there is none",
                hint="describe it (--memory)",
            )
        if memory.pool is not None:
            result[remote] = memory.pool.durations_ns(rows["bytes"][remote])
            return result
        moved = (rows["bytes"][remote].astype(np.float64) / memory.rate_Bpns).astype(np.int64)
        result[remote] = memory.latency_ns + moved
    return result


def at_speed(took_ns: np.ndarray, speed: Fraction) -> np.ndarray:
    """Give what computations take on an NPU of a speed, in whole nanoseconds, rounded down."""
    return np.array([ns * speed.denominator // speed.numerator for ns in took_ns.tolist()], np.int64)
