"""Memory outside the NPUs; it may be a pool behind two levels of switches, a ring or a mesh.

The pool is that of ASTRA-sim 2.0's paper (Won et al., ISPASS 2023, arXiv 2303.14006): groups of
remote memory, switches outside the nodes, one switch in each node, NPUs. All NPUs access it at the
same time. The formulas are those of a pipeline: data moves in steps of one chunk per memory group,
every stage of the path holds each chunk for the time that its busiest link needs, and the slowest
stage is the bottleneck:

    steps = ceil(D / (groups * chunk))
    time  = latency + t1 + t2 + t3 + (steps - 1) * max(t1, t2, t3)

``D`` is the number of bytes that leave or enter the memory: the tensors of all N NPUs, or one tensor
if the pool does the collective (``in-pool-collectives``): switches copy what all NPUs load, and reduce
what all store. With ``b = groups * chunk`` bytes in a step the stages take

    t1 = chunk / bandwidth of a memory group
    t2 = the share of the busiest link of the pool's network * b / bandwidth of such a link
    t3 = the part of b that one NPU gets, ``b / N`` or all of it / bandwidth of its link

and the share is, for traffic spread evenly over all pairs of nodes,

- switches: ``1 / (switches * nodes)``, or ``1 / switches`` if they copy or reduce;
- a ring of n nodes, each with its part of the memory, links both ways: the mean distance over
  ``2 n`` links, ``floor(n^2 / 4) / (2 n^2)``; with copies ``(n - 1) / (2 n)``, since each link
  carries half of the data of other nodes;
- a mesh of a columns and b rows, first along the row: the links over the middle, ``floor(a / 2)
  ceil(a / 2) / (a^2 b)`` or the same of the columns; with copies ``(n - 1) / (n d)``, ``d`` the links
  of a corner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.timesteps import NEVER

__all__ = ["KINDS", "NO_MEMORY", "POOL_TOPOLOGIES", "Memory", "Pool"]

NO_MEMORY: Final = "NO_MEMORY_EXPANSION"
KINDS = (
    NO_MEMORY,
    "PER_NPU_MEMORY_EXPANSION",
    "PER_NODE_MEMORY_EXPANSION",
    "MEMORY_POOL",
    "HIERARCHICAL_POOL",
)
POOL_TOPOLOGIES: Final = ("MULTI_LEVEL_SWITCH", "RING", "MESH")
_POOL_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "num-nodes": int, "num-npus-per-node": int, "num-memory-groups": int, "remote-mem-bw": float,
    "num-out-node-switches": int, "pool-link-bw": float, "npu-link-bw": float, "chunk-size": int,
    "remote-mem-latency": int, "in-pool-collectives": bool,
}  # fmt: skip
"""The keys of a pool in the order of the fields of :class:`Pool`, and their types."""


@dataclass(frozen=True)
class Pool:
    """A pool, and the network between it and the NPUs.

    Parameters
    ----------
    topology : str
        ``MULTI_LEVEL_SWITCH``, ``RING`` or ``MESH`` (of nodes, as close to a square as possible).
    nodes, npus_per_node : int
    groups : int
        Groups of remote memory.
    group_Bpns : float
        Bandwidth of one, in bytes per nanosecond (GB/s).
    switches : int
        Switches outside the nodes.
    link_Bpns : float
        Bandwidth of a link of the pool's network: of a switch to a node, or of the ring or mesh.
    npu_Bpns : float
        Bandwidth of the link of an NPU to its node's switch.
    chunk_bytes : int
    latency_ns : int
        Of the first byte, without the time on the links.
    collectives : bool
        Whether all NPUs load the same tensor, and what they store is reduced to one.

    Examples
    --------
    >>> pool = Pool("MULTI_LEVEL_SWITCH", 4, 8, 16, 100.0, 4, 200.0, 100.0, 1 << 20, 1000)
    >>> pool.stages_ns()
    (10485.76, 5242.88, 5242.88)
    >>> pool.durations_ns(np.array([1 << 20])).tolist()
    [32457]
    """

    topology: str
    nodes: int
    npus_per_node: int
    groups: int
    group_Bpns: float  # noqa: N815 - unit in the name
    switches: int
    link_Bpns: float  # noqa: N815
    npu_Bpns: float  # noqa: N815
    chunk_bytes: int
    latency_ns: int
    collectives: bool = False

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "memory") -> Pool:
        """Make a pool from the contents of a JSON file.

        Parameters
        ----------
        document : dict
        where : str
            The file's name, for messages.
        """
        topology = str(document.get("pool-topology", POOL_TOPOLOGIES[0]))
        if topology not in POOL_TOPOLOGIES:
            raise InputError(
                f"unknown pool-topology {topology[:40]!r}", where=where, hint=near(topology, POOL_TOPOLOGIES)
            )
        usual: dict[str, Any] = {"remote-mem-latency": 0, "in-pool-collectives": False}
        if topology != POOL_TOPOLOGIES[0]:
            usual["num-out-node-switches"] = 1
        values = []
        for key, kind in _POOL_KEYS.items():
            if key not in document and key not in usual:
                raise InputError(f"{key} is missing", where=where, hint=f"a {topology} pool needs it")
            values.append(kind(document.get(key, usual.get(key))))
        return cls(topology, *values)

    @property
    def npus(self) -> int:
        """The number of NPUs that use it."""
        return self.nodes * self.npus_per_node

    def share(self) -> Fraction:
        """Return the share of a step's bytes that the busiest link of the pool's network carries."""
        n = self.nodes
        if self.topology == POOL_TOPOLOGIES[0]:
            return Fraction(1, self.switches * (1 if self.collectives else n))
        if n == 1:
            return Fraction(0)
        if self.topology == "RING":
            return Fraction(n - 1, 2 * n) if self.collectives else Fraction(n * n // 4, 2 * n * n)
        rows = next(rows for rows in range(isqrt(n), 0, -1) if n % rows == 0)
        columns = n // rows
        if self.collectives:
            return Fraction(n - 1, n * (2 if rows > 1 else 1))
        return max(_over_the_middle(columns, rows), _over_the_middle(rows, columns))

    def stages_ns(self) -> tuple[float, float, float]:
        """Return the time of each stage of the path for a step."""
        step = self.groups * self.chunk_bytes
        share = self.share()
        return (
            self.chunk_bytes / self.group_Bpns,
            step * share.numerator / share.denominator / self.link_Bpns,
            step / (1 if self.collectives else self.npus) / self.npu_Bpns,
        )

    def durations_ns(self, tensor_bytes: np.ndarray) -> np.ndarray:
        """Return the time to load or store tensors, in whole nanoseconds, rounded down.

        Parameters
        ----------
        tensor_bytes : ndarray of int64
            Bytes of the tensor of one NPU.
        """
        moved = tensor_bytes * (1 if self.collectives else self.npus)
        steps = np.maximum(-(-moved // (self.groups * self.chunk_bytes)), 1)
        stages = self.stages_ns()
        taken = self.latency_ns + sum(stages) + (steps - 1) * max(stages)
        return np.minimum(np.asarray(taken, np.float64), NEVER).astype(np.int64)


def _over_the_middle(length: int, lines: int) -> Fraction:
    """Return the share of all-to-all traffic that the busiest link along lines of a mesh carries."""
    return Fraction((length // 2) * (length - length // 2), length * length * lines)


@dataclass(frozen=True)
class Memory:
    """A memory outside the NPUs.

    Parameters
    ----------
    kind : str
        ``NO_MEMORY_EXPANSION``, ``PER_NPU_MEMORY_EXPANSION``, ``PER_NODE_MEMORY_EXPANSION``,
        ``MEMORY_POOL`` or ``HIERARCHICAL_POOL``: none, one for each NPU, for each node, for all, or
        a pool behind its own network.
    latency_ns : int
    rate_Bpns : float
        Bytes per nanosecond (10^9 bytes per second).
    npus_per_node : int
    pool : Pool, optional
        Of a ``HIERARCHICAL_POOL``.
    """

    kind: str = NO_MEMORY
    latency_ns: int = 0
    rate_Bpns: float = 0.0  # noqa: N815 - unit in the name
    npus_per_node: int = 1
    pool: Pool | None = None

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "memory") -> Memory:
        """Make a memory from the contents of a JSON file.

        Parameters
        ----------
        document : dict
        where : str
            The file's name, for messages.
        """
        kind = str(document.get("memory-type", KINDS[0]))
        if kind not in KINDS:
            raise InputError(f"unknown memory-type {kind!r}", where=where, hint=near(kind, KINDS))
        if kind == KINDS[-1]:
            return cls(kind, pool=Pool.from_document(document, where))
        memory = cls(
            kind,
            int(document.get("remote-mem-latency", 0)),
            float(document.get("remote-mem-bw", 0)),
            int(document.get("num-npus-per-node", 1)),
        )
        if kind != KINDS[0] and (memory.rate_Bpns <= 0 or memory.npus_per_node < 1):
            raise InputError("remote-mem-bw must be greater than zero", where=where, hint="give it in GB/s")
        return memory

    def shared_by(self, npus: int) -> int:
        """Return the number of NPUs that share one memory; 0 if each has its own."""
        if self.kind == "MEMORY_POOL":
            return npus
        return self.npus_per_node if self.kind == "PER_NODE_MEMORY_EXPANSION" else 0
