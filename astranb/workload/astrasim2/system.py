"""The system layer's description: algorithms of collectives, chunks, queues, scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.keywords import hinted_class

from .kinds import DIRECT, HALVING, IN_NETWORK, INTER, INTRA, ONE_SHOT, RING_STEPS, TREE
from .operations import COLLECTIVE_NAMES

__all__ = ["ALGORITHM_WORDS", "COSTS", "DimensionAlgorithm", "System"]

ALGORITHM_WORDS: Final = {
    "ring": "ring", "hierarchical": "ring", "allpairs": "direct", "allpairs_oneshot": "directOneShot",
    "allpairs_get": "direct", "get": "direct", "put": "direct", "pairwise": "direct",
    "halving_doubling": "halvingDoubling", "tree": "doubleBinaryTree", "switch": "inNetwork",
}  # fmt: skip
"""Words of a system's file for algorithms of :mod:`astranb.collectives`."""
_NAMES = {
    "ring": RING_STEPS, "halvingDoubling": HALVING, "doubleBinaryTree": TREE, "inNetwork": IN_NETWORK,
    "directOneShot": ONE_SHOT,
}  # fmt: skip
_LISTS = {f"{name.replace('_', '-')}-implementation": number for name, number in COLLECTIVE_NAMES.items()}
_POLICIES = {"LIFO": 1, "FIFO": -1, "EXPLICIT": 0}
_OPTIMIZATIONS = ("baseline", "localBWAware")
_GROUPS = ("ring", "dimensions")
_CHANNELS = ("one", "library")
COSTS = ("wire", "library", "graph")
"""Costs of collectives over an infrastructure of GPUs: bare messages, their library, or that in a graph."""


@dataclass(frozen=True)
class DimensionAlgorithm:
    """The algorithm of a collective in one dimension.

    Parameters
    ----------
    number : int
    window : int
        Messages in flight of ``direct``, -1 for all.
    whole : bool
        Whether all NPUs form one dimension (``oneRing`` and the like).
    """

    number: int
    window: int = -1
    whole: bool = False

    @classmethod
    def named(cls, name: str, where: str) -> DimensionAlgorithm:
        """Read a name such as ``ring``, ``direct4`` or ``oneHalvingDoubling``."""
        whole = name.startswith("one")
        plain = name[3:4].lower() + name[4:] if whole else name
        if plain.startswith("direct") and (plain == "direct" or plain[6:].isdigit()):
            return cls(DIRECT, int(plain[6:]) if plain != "direct" else -1, whole)
        if plain in _NAMES and not (whole and plain in ("doubleBinaryTree", "inNetwork")):
            return cls(_NAMES[plain], -1, whole)
        known = [*_NAMES, "direct", "oneRing", "oneDirect", "oneHalvingDoubling"]
        raise InputError(f"unknown algorithm {name!r}", where=where, hint=near(name, known))


@hinted_class(chunks="write splits (chunks of a collective)")
@dataclass(frozen=True)
class System:
    """Options of the system layer.

    Parameters
    ----------
    algorithms : mapping of int to sequence of DimensionAlgorithm
        For each collective one algorithm for each dimension.
    splits : int
        Chunks of a collective.
    active_chunks : int
        Chunks in progress in one dimension at a time.
    queues : int
        Queues of one dimension.
    endpoint_ns : int
        Time for a message to enter or leave the endpoint's memory, in ns.
    memory_Bps, peak_flops : float
        Bandwidth of the local memory in bytes per second; operations per second. 0: not given.
    roofline : bool
        Whether the roofline gives the duration of computations, instead of the trace.
    baseline : bool
        All-reduce in each dimension, instead of reduce-scatters before and all-gathers after the last.
    policy : int
        1: later collectives first (LIFO), -1: earlier ones (FIFO), 0: by their priority.
    rendezvous : bool
        Whether a message waits until its receiver is ready.
    replay : bool
        Whether every operation takes its recorded duration.
    inter, intra : str
        Order of the dimensions of a chunk, and of the chunks in a queue: names of
        ``inter-dimension-scheduling`` and ``intra-dimension-scheduling``.
    bus : tuple of float, optional
        ``L``, ``o``, ``g`` in ns and ``G`` in ns per byte, if messages of collectives share a bus.
    bus_reduce_ns : int
        Time that the bus adds for reducing 100 bytes.
    switch_ns : int
        Time for a switch to reduce or join a chunk (``inNetwork``).
    speeds : mapping of int to Fraction
        Ranks whose computations are this many times as fast.
    group_dimensions : bool
        Whether collectives of groups that are whole dimensions of the network go along these, instead of
        around one ring (:func:`.whole_dimensions.along_dimensions`).
    library_channels : bool
        Whether rings and trees over an infrastructure are a library's: as many as there are NICs.
    cost : str
        One of :data:`COSTS`: ``"library"`` where collectives over an infrastructure of GPUs are those of the
        GPUs' library, its choice of algorithm and what its software adds to the links; ``"graph"`` where a
        graph replays them, whose launch is shorter.

    Examples
    --------
    >>> System(splits=4, memory_Bps=500e12).active_chunks
    1
    """

    algorithms: Mapping[int, Sequence[DimensionAlgorithm]] = field(default_factory=dict)
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
    group_dimensions: bool = False
    library_channels: bool = False
    cost: str = "wire"
    where: str = field(default="system", compare=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("splits", "active_chunks", "queues", "endpoint_ns"):
            if not isinstance(getattr(self, name), int):
                what = f"{getattr(self, name)!r:.40} is not a whole number"
                raise InputError(what, where=f"{self.where}, {name}")
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
        """Make a system from the contents of a JSON file.

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
        # ASTRA-sim's default.
        optimization = _named(document, "collective-optimization", _OPTIMIZATIONS, "baseline", where)
        policy = _named(document, "scheduling-policy", _POLICIES, "LIFO", where)
        shared = document.get("model-shared-bus", 0)
        endpoint = 10
        if "endpoint-delay" in document:
            endpoint = int(int(document["endpoint-delay"]) * injection_scale)
        return cls(
            {
                number: [DimensionAlgorithm.named(str(name), f"{where}: {key}") for name in document[key]]
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
            group_dimensions=_named(document, "group-implementation", _GROUPS, "ring", where) != "ring",
            library_channels=_named(document, "channels", _CHANNELS, "one", where) == "library",
            cost=_named(document, "cost", COSTS, "wire", where),
            where=where,
        )


def _named(document: Mapping[str, Any], key: str, known: Iterable[str], usual: str, where: str) -> str:
    """Read a name that must be one of the known ones."""
    value = str(document.get(key, usual))
    if value not in known:
        raise InputError(f"unknown {key} {value[:60]!r}", where=where, hint=near(value, known))
    return value


def _speeds(given: Mapping[str, Any] | Sequence[Any]) -> dict[int, Fraction]:
    """Read the speeds of ranks, a list of all or a mapping; speeds of 1 are left out."""
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    speeds = {int(rank): Fraction(str(speed)) for rank, speed in pairs}
    return {rank: speed for rank, speed in speeds.items() if speed != 1}
