"""Messages on their links, for a picture of the network: which links there are, what crosses them when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from astranb.infragraph import NodeKind
from astranb.net import DimensionLinks

__all__ = ["Flights", "LinkGraph", "Recorded", "graph_of_dimensions", "spread"]


@dataclass(frozen=True)
class Flights:
    """Messages that cross links, a row for each message and link, in the order of the recording.

    Attributes
    ----------
    link : ndarray of int64
    source, target : ndarray of int64
        Ranks that the message goes from and to.
    bytes : ndarray of int64
    operation : ndarray of int64
        The operation of the sender; -1: not known.
    chunk, phase, step : ndarray of int64
        Which chunk of its collective, which of the chunk's phases (from 1; 0: of no chunk) and which
        message of this phase (from 1; 0: not counted).
    queued_ps, start_ps, end_ps : ndarray of int64
        When it came to the link, when it began to cross it and when it arrives at the other end.
    """

    link: np.ndarray
    source: np.ndarray
    target: np.ndarray
    bytes: np.ndarray
    operation: np.ndarray
    chunk: np.ndarray
    phase: np.ndarray
    step: np.ndarray
    queued_ps: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.link)

    def at(self, rows: np.ndarray | slice) -> Flights:
        """Some of them."""
        return Flights(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass(frozen=True)
class Recorded:
    """A part of a recording, up to now.

    Attributes
    ----------
    first, total : int
        The number of what is given first, and of what will be recorded next.
    flights : Flights
    settled : int
        How many of these do not change any more; those behind them are numbered when they do not.
    """

    first: int
    total: int
    flights: Flights
    settled: int


@dataclass(frozen=True)
class LinkGraph:
    """NPUs, switches and links of a network: what :func:`astranb.drawing.layout.lay_out` places.

    Attributes
    ----------
    names : list of str
        Of each node; an NPU's is its path, ``rank[3]``.
    paths : list of str
        What is inspected where a node is clicked.
    kind, instance : ndarray
        Of each node: its kind, and the number of the group that it is drawn in.
    instances : list of str
        The names of the groups.
    gpus : ndarray of int64
        The node of each rank.
    src, dst : ndarray of int64
        The nodes at the ends of each link.
    rate_Bps : ndarray of float64
        The bandwidth of each link.
    drawn : ndarray of int64
        The links that are drawn, in ascending order.
    folded : bool
        Whether groups are drawn as one box each, all but the first of a network of dimensions.
    note : str
        What is left out.
    """

    names: Sequence[str]
    paths: Sequence[str]
    kind: np.ndarray
    instance: np.ndarray
    instances: Sequence[str]
    gpus: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    rate_Bps: np.ndarray  # noqa: N815 - unit in the name
    drawn: np.ndarray
    folded: bool = False
    note: str = ""

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def name(self, node: int) -> str:
        """A node's name."""
        return self.names[int(node)]

    def instance_name(self, node: int) -> str:
        """The name of the group that a node is drawn in."""
        return self.instances[int(self.instance[int(node)])]

    def label(self, node: int) -> str:
        """Return the text on a switch of a dimension, its number among these; empty for other nodes."""
        if not self.names[node].startswith("switch of dim"):
            return ""
        return f"switch {node - next(k for k, path in enumerate(self.paths) if path == self.paths[node])}"

    @property
    def graph(self) -> LinkGraph:
        """The graph: itself."""
        return self

    @property
    def nodes(self) -> LinkGraph:
        """Columns of nodes: itself."""
        return self

    @property
    def links(self) -> dict[str, np.ndarray]:
        """The ends of all links."""
        return {"src": self.src, "dst": self.dst}


def graph_of_dimensions(
    links: DimensionLinks, names: Sequence[str], rates: Sequence[float] | np.ndarray
) -> LinkGraph:
    """Make the graph of a network of dimensions, from the name and the bandwidth in bytes/s of each."""
    npus, group = links.npus, links.group
    ranks = [f"rank[{rank}]" for rank in range(npus)]
    instance = np.arange(npus) // group
    groups = [f"ranks {first}-{min(npus, first + group) - 1}" for first in range(0, npus, group)]
    titles, paths, places = [], [], []
    for number, (dim, first) in enumerate(links.switches):
        members = links.source[(links.target == npus + number) & (links.source < npus)]
        alone = len(members) == npus
        titles.append("switch" if alone else f"switch of dim {dim} ({_listed(members)})")
        paths.append(f"dim[{dim}]")
        # A switch among the NPUs of one group is drawn within the group.
        inside = (instance[members] == instance[first]).all()
        places.append(int(instance[first]) if inside else len(groups))
        if not inside:
            groups.append(titles[-1])
    kind = np.full(npus + len(titles), NodeKind.XPU)
    kind[npus:] = NodeKind.SWITCH
    notes = []
    if links.folded:
        for dim, (name, (count, shown)) in enumerate(zip(names, links.groups(), strict=True)):
            if count > shown:
                notes.append(f"dim {dim}: {shown} of {count:,} {_plural(name)} drawn")
    return LinkGraph(
        [*ranks, *titles], [*ranks, *paths], kind, np.concatenate([instance, np.array(places, np.int64)]),
        groups, np.arange(npus), links.source, links.target,
        np.asarray(rates)[links.dim], links.drawn(), links.folded, " · ".join(notes),
    )  # fmt: skip


def _listed(ranks: np.ndarray) -> str:
    few = [str(rank) for rank in ranks[:2].tolist()]
    return f"ranks {', '.join(few)}{', …' if len(ranks) > 2 else ''}"


def _plural(name: str) -> str:
    plurals = {"Ring": "rings", "Switch": "switches", "FullyConnected": "full meshes", "Mesh": "lines"}
    return plurals.get(name, f"groups of {name}")


def spread(
    start: np.ndarray, end: np.ndarray, nth: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divide the time of messages into equal parts, one for each of their links.

    Examples
    --------
    >>> ten = np.array([0, 0]), np.array([10, 10])
    >>> [part.tolist() for part in spread(*ten, np.array([0, 1]), np.array([2, 2]))]
    [[0, 5], [5, 10]]
    """
    length = end - start
    return start + length * nth // count, start + length * (nth + 1) // count
