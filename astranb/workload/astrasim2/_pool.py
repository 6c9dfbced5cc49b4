"""A pool of memory outside the NPUs, behind two levels of switches, a ring or a mesh.

The design is that of ASTRA-sim 2.0's paper (Won et al., ISPASS 2023, arXiv 2303.14006): groups of
remote memory, switches outside the nodes, one switch in each node, NPUs. All NPUs access it at the
same time. The formulas are those of a pipeline, derived here: data moves in steps of one chunk for
each memory group, every stage of the way has each chunk for the time that its busiest link
needs, and the slowest stage sets the pace:

    steps = ceil(D / (groups * chunk))
    time  = latency + t1 + t2 + t3 + (steps - 1) * max(t1, t2, t3)

``D`` is what leaves or enters the memory: the tensor of every NPU, N tensors in all; or one, where
the pool does the collective (``in-pool-collectives``): switches copy what all NPUs load, and
reduce what all store. With ``b = groups * chunk`` bytes in a step the stages take

    t1 = chunk / bandwidth of a memory group
    t2 = the share of the busiest link of the pool's network * b / bandwidth of such a link
    t3 = what one NPU gets of b, ``b / N`` or all of it, / bandwidth of its link

and the share is, for traffic spread evenly over all pairs of places,

- switches: ``1 / (switches * nodes)``, or ``1 / switches`` where they copy or reduce;
- a ring of n nodes, each with its part of the memory, links both ways: the mean distance over
  ``2 n`` links, ``floor(n^2 / 4) / (2 n^2)``; with copies ``(n - 1) / (2 n)``, since each link
  carries half of what is elsewhere;
- a mesh of a columns and b rows, first along the row: the links over the middle, ``floor(a / 2)
  ceil(a / 2) / (a^2 b)`` or the same of the columns; with copies ``(n - 1) / (n d)``, ``d`` the links
  of a corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError, near

__all__ = ["TOPOLOGIES", "Pool"]

TOPOLOGIES: Final = ("MULTI_LEVEL_SWITCH", "RING", "MESH")


@dataclass(frozen=True)
class Pool:
    """A pool, and the way to it.

    Parameters
    ----------
    topology : str
        ``MULTI_LEVEL_SWITCH``, ``RING`` or ``MESH`` (of nodes, as square as may be).
    nodes, npus_per_node : int
    groups : int
        Groups of remote memory.
    group_Bpns : float
        Bandwidth of one, in bytes a nanosecond (GB/s).
    switches : int
        Switches outside the nodes.
    link_Bpns : float
        Bandwidth of a link of the pool's network: of a switch to a node, or of the ring or mesh.
    npu_Bpns : float
        Bandwidth of the link of an NPU to its node's switch.
    chunk_bytes : int
    latency_ns : int
        From the first byte that leaves to its arrival, without the time on the links.
    collectives : bool
        Whether what all NPUs load is one tensor, and what they store is reduced to one.

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
        """Take a pool from the contents of a JSON file.

        Parameters
        ----------
        document : dict
        where : str
            The file's name, for messages.
        """
        topology = str(document.get("pool-topology", TOPOLOGIES[0]))
        if topology not in TOPOLOGIES:
            raise InputError(
                f"unknown pool-topology {topology[:40]!r}", where=where, hint=near(topology, TOPOLOGIES)
            )
        needed = ["num-nodes", "num-npus-per-node", "num-memory-groups", "remote-mem-bw"]
        needed += ["pool-link-bw", "npu-link-bw", "chunk-size"]
        needed += ["num-out-node-switches"] if topology == TOPOLOGIES[0] else []
        for key in needed:
            if key not in document:
                raise InputError(f"{key} is missing", where=where, hint=f"a {topology} pool needs it")
        return cls(
            topology,
            int(document["num-nodes"]),
            int(document["num-npus-per-node"]),
            int(document["num-memory-groups"]),
            float(document["remote-mem-bw"]),
            int(document.get("num-out-node-switches", 1)),
            float(document["pool-link-bw"]),
            float(document["npu-link-bw"]),
            int(document["chunk-size"]),
            int(document.get("remote-mem-latency", 0)),
            bool(document.get("in-pool-collectives", 0)),
        )

    @property
    def npus(self) -> int:
        """How many NPUs use it."""
        return self.nodes * self.npus_per_node

    def share(self) -> Fraction:
        """Give the part of a step's bytes that the busiest link of the pool's network carries."""
        n = self.nodes
        if self.topology == TOPOLOGIES[0]:
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
        """Give what each stage of the way takes for a step."""
        step = self.groups * self.chunk_bytes
        share = self.share()
        return (
            self.chunk_bytes / self.group_Bpns,
            step * share.numerator / share.denominator / self.link_Bpns,
            step / (1 if self.collectives else self.npus) / self.npu_Bpns,
        )

    def durations_ns(self, tensor_bytes: np.ndarray) -> np.ndarray:
        """Give the time to load or store tensors, in whole nanoseconds, rounded down.

        Parameters
        ----------
        tensor_bytes : ndarray of int64
            Bytes of the tensor of one NPU.
        """
        moved = tensor_bytes * (1 if self.collectives else self.npus)
        steps = np.maximum(-(-moved // (self.groups * self.chunk_bytes)), 1)
        stages = self.stages_ns()
        taken = self.latency_ns + sum(stages) + (steps - 1) * max(stages)
        return np.asarray(taken, np.float64).astype(np.int64)


def _over_the_middle(length: int, lines: int) -> Fraction:
    """What the busiest link along lines of a mesh carries, one way, of traffic between all places."""
    return Fraction((length // 2) * (length - length // 2), length * length * lines)
