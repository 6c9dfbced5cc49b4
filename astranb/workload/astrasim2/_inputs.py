"""What ASTRA-sim 2.0 reads besides traces: the network's and the system's description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from astranb.core.errors import InputError, near
from astranb.net._astrasim2 import FULLY_CONNECTED, MESH, RING, SWITCH
from astranb.net._cost import cost_dollars

from ._kinds import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    DIRECT,
    GATHER,
    HALVING,
    IN_NETWORK,
    INTER,
    INTRA,
    REDUCE,
    REDUCE_SCATTER,
    RING_STEPS,
    SCATTER,
    TREE,
)

__all__ = ["TOPOLOGIES", "Algorithm", "Network", "System"]

_SHAPES = {
    "Ring": (RING, 1),
    "FullyConnected": (FULLY_CONNECTED, 1),
    "Switch": (SWITCH, 1),
    "Mesh": (MESH, 1),
    "Mesh2D": (MESH, 2),
    "Mesh3D": (MESH, 3),
    "Torus2D": (RING, 2),
    "Torus3D": (RING, 3),
}
"""What the links of a topology are, and in how many directions of equal length."""
TOPOLOGIES = tuple(_SHAPES)
"""Topologies of one dimension, by name."""

_NAMES = {"ring": RING_STEPS, "halvingDoubling": HALVING, "doubleBinaryTree": TREE, "inNetwork": IN_NETWORK}
_LISTS = {
    "all-reduce-implementation": ALL_REDUCE,
    "reduce-scatter-implementation": REDUCE_SCATTER,
    "all-gather-implementation": ALL_GATHER,
    "all-to-all-implementation": ALL_TO_ALL,
    "broadcast-implementation": BROADCAST,
    "reduce-implementation": REDUCE,
    "scatter-implementation": SCATTER,
    "gather-implementation": GATHER,
}
_POLICIES = {"LIFO": 1, "FIFO": -1, "EXPLICIT": 0}
_OPTIMIZATIONS = ("baseline", "localBWAware")


@dataclass(frozen=True)
class Network:
    """A network of one or more dimensions, the first of which joins neighbouring ranks.

    Parameters
    ----------
    topology : sequence of str
        ``Ring``, ``FullyConnected``, ``Switch``, ``Mesh`` (a line), ``Mesh2D``, ``Mesh3D``,
        ``Torus2D`` or ``Torus3D`` (squares and cubes), one for each dimension.
    npus_count : sequence of int
        NPUs in each.
    bandwidth : sequence of float
        Of one link of each, in 10^9 bytes a second (GB/s); ASTRA-sim 2.0 takes them for GiB/s.
    latency : sequence of float
        Of one link of each, in ns.
    dimension_type : sequence of str, optional
        ``Tile``, ``Package``, ``Node`` or ``Pod``: what its parts cost (``Node``).

    Raises
    ------
    InputError
        The lists differ in length, or a value is of no use.

    Examples
    --------
    >>> Network(["Ring", "Switch"], [4, 2], [100, 25], [500, 1000]).npus
    8
    """

    topology: Sequence[str]
    npus_count: Sequence[int]
    bandwidth: Sequence[float]
    latency: Sequence[float]
    where: str = field(default="network", compare=False)
    dimension_type: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check everything."""
        lists = (self.topology, self.npus_count, self.bandwidth, self.latency)
        if len({len(each) for each in lists}) != 1 or not self.topology:
            counts = ", ".join(str(len(each)) for each in lists)
            raise InputError(
                f"topology, npus_count, bandwidth and latency have {counts} entries",
                where=self.where,
                hint="give one of each for every dimension",
            )
        if self.dimension_type and len(self.dimension_type) != len(self.topology):
            raise InputError(
                f"dimension_type has {len(self.dimension_type)} entries",
                where=self.where,
                hint="give one for each dimension",
            )
        for shape in self.topology:
            if shape not in _SHAPES:
                raise InputError(f"unknown topology {shape!r}", where=self.where, hint=near(shape, _SHAPES))
        for count, rate, latency in zip(self.npus_count, self.bandwidth, self.latency, strict=True):
            if count < 1 or rate <= 0 or latency < 0:
                raise InputError(
                    f"{count} NPUs at {rate} GB/s and {latency} ns",
                    where=self.where,
                    hint="give at least 1 NPU, a bandwidth above 0 and a latency of 0 or more",
                )
        for shape, count, (_, sides) in zip(self.topology, self.npus_count, self.sides, strict=True):
            if sides[0] ** len(sides) != count:
                power = "square" if len(sides) == 2 else "cube"
                raise InputError(
                    f"{shape} of {count} NPUs", where=self.where, hint=f"take a {power} of a whole number"
                )

    @property
    def npus(self) -> int:
        """How many NPUs there are."""
        total = 1
        for count in self.npus_count:
            total *= count
        return total

    @property
    def shapes(self) -> list[int]:
        """The numbers of the topologies, -1 for one of several directions."""
        return [kind if len(sides) == 1 else -1 for kind, sides in self.sides]

    @property
    def sides(self) -> list[tuple[int, list[int]]]:
        """For each dimension what its links are, and the NPUs in each of its directions."""
        result = []
        for shape, count in zip(self.topology, self.npus_count, strict=True):
            kind, directions = _SHAPES[shape]
            result.append((kind, [round(count ** (1 / directions))] * directions))
        return result

    @property
    def link_topology(self) -> list[str]:
        """The topology of each dimension of links: a torus has several."""
        return [shape for shape, (_, sides) in zip(self.topology, self.sides, strict=True) for _ in sides]

    def cost_dollars(self) -> float:
        """Give the cost of its links and switches, as ASTRA-sim 1.0 does.

        Examples
        --------
        >>> Network(["Switch"], [8], [50], [500]).cost_dollars()
        6800.0
        """
        names = {RING: "Ring", MESH: "Mesh", SWITCH: "Switch", FULLY_CONNECTED: "FullyConnected"}
        links = [(names[kind], sides) for kind, sides in self.sides]
        return cost_dollars(links, self.bandwidth, self.dimension_type)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str = "network") -> Network:
        """Take a network from the contents of a YAML file.

        Parameters
        ----------
        document : mapping
            ``topology``, ``npus_count``, ``bandwidth`` and ``latency``.
        where : str
            The file's name, for messages.
        """
        for key in ("topology", "npus_count", "bandwidth", "latency"):
            if not isinstance(document.get(key), list):
                raise InputError(f"{key} is missing or no list", where=where, hint="see ASTRA-sim's examples")
        try:
            return cls(
                [str(shape) for shape in document["topology"]],
                [int(count) for count in document["npus_count"]],
                [float(rate) for rate in document["bandwidth"]],
                [float(latency) for latency in document["latency"]],
                where,
                [str(place) for place in document.get("dimension_type", ())],
            )
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(str(error), where=where, hint="numbers are expected") from error


@dataclass(frozen=True)
class Algorithm:
    """How one dimension of a collective is done.

    Parameters
    ----------
    number : int
    window : int
        Messages at once of ``direct``, -1 for all.
    whole : bool
        Whether all NPUs are one dimension (``oneRing`` and the like).
    """

    number: int
    window: int = -1
    whole: bool = False

    @classmethod
    def named(cls, name: str, where: str) -> Algorithm:
        """Read a name such as ``ring``, ``direct4`` or ``oneHalvingDoubling``."""
        whole = name.startswith("one")
        plain = name[3:4].lower() + name[4:] if whole else name
        if plain.startswith("direct") and (plain == "direct" or plain[6:].isdigit()):
            return cls(DIRECT, int(plain[6:]) if plain != "direct" else -1, whole)
        if plain in _NAMES and not (whole and plain in ("doubleBinaryTree", "inNetwork")):
            return cls(_NAMES[plain], -1, whole)
        known = [*_NAMES, "direct", "oneRing", "oneDirect", "oneHalvingDoubling"]
        raise InputError(f"unknown algorithm {name!r}", where=where, hint=near(name, known))


@dataclass(frozen=True)
class System:
    """What the system layer does with an operation.

    Parameters
    ----------
    algorithms : mapping of int to sequence of Algorithm
        For each collective one algorithm for each dimension.
    splits : int
        Chunks of a collective.
    active_chunks : int
        Chunks under way in one dimension at a time.
    queues : int
        Queues of one dimension.
    endpoint_ns : int
        What it costs to bring a message into or out of the endpoint's memory, in ns.
    memory_Bps, peak_flops : float
        Bandwidth of the local memory in bytes a second; operations a second. 0: no limit given.
    roofline : bool
        Whether compute operations take the time of the roofline, instead of their recorded one.
    baseline : bool
        All-reduce in each dimension, instead of scattering before and gathering after.
    policy : int
        1: later collectives first (LIFO), -1: earlier ones (FIFO), 0: by their priority.
    rendezvous : bool
        Whether the receiver asks for each message.
    replay : bool
        Whether every operation takes its recorded duration.
    inter, intra : str
        In which order a chunk goes through the dimensions, and in which one chunks wait in a
        queue: names of ``inter-dimension-scheduling`` and ``intra-dimension-scheduling``.
    bus : tuple of float, optional
        ``L``, ``o``, ``g`` in ns and ``G`` in ns a byte, where messages of collectives share a bus.
    bus_reduce_ns : int
        What the bus adds to reduce 100 bytes.
    switch_ns : int
        What a switch takes to reduce or join a chunk (``inNetwork``).
    speeds : mapping of int to Fraction
        Ranks whose computations take their time divided by this.
    """

    algorithms: Mapping[int, Sequence[Algorithm]]
    splits: int = 1
    active_chunks: int = 1
    queues: int = 1
    endpoint_ns: int = 10
    memory_Bps: float = 0.0  # noqa: N815 - unit in the name
    peak_flops: float = 0.0
    roofline: bool = False
    baseline: bool = False
    policy: int = 1
    rendezvous: bool = False
    replay: bool = False
    inter: str = "baseline"
    intra: str = "FIFO"
    bus: tuple[float, ...] | None = None
    bus_reduce_ns: int = 1
    switch_ns: int = 0
    speeds: Mapping[int, Fraction] = field(default_factory=dict)
    where: str = field(default="system", compare=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        if min(self.splits, self.active_chunks, self.queues) < 1 or self.endpoint_ns < 0:
            raise InputError(
                "a number of chunks or queues below 1, or a negative delay",
                where=self.where,
                hint="see preferred-dataset-splits, active-chunks-per-dimension, endpoint-delay",
            )

    @classmethod
    def from_document(
        cls,
        document: Mapping[str, Any],
        where: str = "system",
        *,
        queues: int = 1,
        injection_scale: float = 1.0,
        rendezvous: bool = False,
    ) -> System:
        """Take a system from the contents of a JSON file.

        Parameters
        ----------
        document : mapping
            The names are those of ASTRA-sim's files.
        where : str
            The file's name, for messages.
        queues : int
            ``--num-queues-per-dim``.
        injection_scale : float
            ``--injection-scale``: the endpoint's delay is multiplied by it.
        rendezvous : bool
            ``--rendezvous-protocol``.
        """
        # ASTRA-sim's default where nothing is said.
        optimization = _named(document, "collective-optimization", _OPTIMIZATIONS, "baseline", where)
        policy = _named(document, "scheduling-policy", _POLICIES, "LIFO", where)
        shared = document.get("model-shared-bus", 0)
        endpoint = 10
        if "endpoint-delay" in document:
            endpoint = int(int(document["endpoint-delay"]) * injection_scale)
        return cls(
            {
                number: [Algorithm.named(str(name), f"{where}: {key}") for name in document[key]]
                for key, number in _LISTS.items()
                if key in document
            },
            splits=int(document.get("preferred-dataset-splits", 1)),
            active_chunks=int(document.get("active-chunks-per-dimension", 1)),
            queues=queues,
            endpoint_ns=endpoint,
            memory_Bps=float(document.get("local-mem-bw", 0)) * 1e9,
            peak_flops=float(document.get("peak-perf", 0)) * 1e12,
            roofline=bool(document.get("roofline-enabled", 0)),
            baseline=optimization == "baseline",
            policy=_POLICIES[policy],
            rendezvous=rendezvous,
            replay=bool(document.get("replay-only", 0)),
            inter=_named(document, "inter-dimension-scheduling", INTER, "baseline", where),
            intra=_named(document, "intra-dimension-scheduling", INTRA, "FIFO", where),
            bus=tuple(float(document.get(name, 0)) for name in "LogG") if shared else None,
            speeds=_speeds(document.get("npu-speed", {})),
            switch_ns=int(document.get("in-network-delay", 0)),
            bus_reduce_ns=int(document.get("local-reduction-delay", 1)),
            where=where,
        )


def _named(document: Mapping[str, Any], key: str, known: Iterable[str], usual: str, where: str) -> str:
    """Read one of some names."""
    value = str(document.get(key, usual))
    if value not in known:
        raise InputError(f"unknown {key} {value[:60]!r}", where=where, hint=near(value, known))
    return value


def _speeds(said: Mapping[str, Any] | Sequence[Any]) -> dict[int, Fraction]:
    """Read speeds of ranks, a list of all or by rank; 1 is left out."""
    pairs = said.items() if isinstance(said, Mapping) else enumerate(said)
    speeds = {int(rank): Fraction(str(speed)) for rank, speed in pairs}
    return {rank: speed for rank, speed in speeds.items() if speed != 1}
