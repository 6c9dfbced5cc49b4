"""Floor 3: collective algorithms. The language, the library, lowering and the check of results."""

from __future__ import annotations

from typing import Any

# Importing these registers the algorithms that come with astranb.
from . import _exchange as _exchange
from . import _hierarchical as _hierarchical
from . import _library as _library
from . import _logarithmic as _logarithmic
from . import _pulled as _pulled
from . import _rooted as _rooted
from . import _switched as _switched
from ._check import MIXED, NOTHING, Contents, Promise, check, contents, promise
from ._drawing import draw_waits
from ._fault import Fault
from ._formats import listed, read_algorithm, write_algorithm
from ._join import Joined, Node, Section, join
from ._lower import Lowered, lower
from ._msccl_xml import read_msccl_xml
from ._msccl_xml_write import write_msccl_xml
from ._mscclpp import read_mscclpp
from ._mscclpp_write import write_mscclpp
from ._plan import Plan
from ._program import PROTOCOLS, Block, Buffer, Chunk, Operation, Program, Semaphore
from ._rank import Channel, Rank
from ._registry import ALGORITHMS, COLLECTIVES, Algorithm, Collective, algorithm, algorithms
from ._source import Line, Part, Source
from ._text import Problem, check_text, text_algorithm
from ._verify import verify

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "MIXED",
    "NOTHING",
    "PROTOCOLS",
    "Algorithm",
    "Block",
    "Buffer",
    "Channel",
    "Chunk",
    "Collective",
    "Contents",
    "Fault",
    "Joined",
    "Line",
    "Lowered",
    "Node",
    "Operation",
    "Part",
    "Plan",
    "Problem",
    "Program",
    "Promise",
    "Rank",
    "Section",
    "Semaphore",
    "Source",
    "algorithm",
    "algorithms",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "check",
    "check_text",
    "contents",
    "draw_waits",
    "gather",
    "join",
    "listed",
    "lower",
    "promise",
    "read_algorithm",
    "read_msccl_xml",
    "read_mscclpp",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send_recv",
    "text_algorithm",
    "verify",
    "write_algorithm",
    "write_msccl_xml",
    "write_mscclpp",
]


def all_reduce(
    size: int | str, algorithm: Any = None, *, lanes: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets the sum of all ranks' buffers.

    Parameters
    ----------
    size : int or str
        Bytes of each rank's buffer, as ``"1 MiB"``.
    algorithm : str or callable, optional
        ``"ring"`` (default), ``"allpairs"``, ``"allpairs_oneshot"``, ``"tree"``,
        ``"halving_doubling"``, or a function over a :class:`Program`.
    lanes : int, optional
        Sets of thread blocks.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.

    Examples
    --------
    >>> all_reduce("1 MiB", algorithm="ring").size
    1048576
    """
    return Collective.of("all_reduce", size, algorithm, lanes=lanes, protocol=protocol)


def all_gather(
    size: int | str, algorithm: Any = None, *, lanes: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets every rank's chunk; ``size`` is the whole output of a rank."""
    return Collective.of("all_gather", size, algorithm, lanes=lanes, protocol=protocol)


def reduce_scatter(
    size: int | str, algorithm: Any = None, *, lanes: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Rank r gets the sum of all ranks' chunk r; ``size`` is the whole input of a rank."""
    return Collective.of("reduce_scatter", size, algorithm, lanes=lanes, protocol=protocol)


def all_to_all(
    size: int | str, algorithm: Any = None, *, lanes: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Rank r gets chunk r of every rank; ``size`` is all that a rank sends, its own chunk included."""
    return Collective.of("all_to_all", size, algorithm, lanes=lanes, protocol=protocol)


def broadcast(
    size: int | str,
    algorithm: Any = None,
    *,
    lanes: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """Every rank gets the root's buffer."""
    return Collective.of("broadcast", size, algorithm, lanes=lanes, root=root, protocol=protocol)


def reduce(
    size: int | str,
    algorithm: Any = None,
    *,
    lanes: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """The root gets the sum of all ranks' buffers."""
    return Collective.of("reduce", size, algorithm, lanes=lanes, root=root, protocol=protocol)


def gather(
    size: int | str,
    algorithm: Any = None,
    *,
    lanes: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """The root gets every rank's chunk; ``size`` is all that it gets, its own chunk included."""
    return Collective.of("gather", size, algorithm, lanes=lanes, root=root, protocol=protocol)


def scatter(
    size: int | str,
    algorithm: Any = None,
    *,
    lanes: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """Rank r gets the root's chunk r; ``size`` is all that the root has."""
    return Collective.of("scatter", size, algorithm, lanes=lanes, root=root, protocol=protocol)


def send_recv(
    size: int | str, algorithm: Any = None, *, lanes: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets its left neighbour's buffer (nccl-tests' ``sendrecv_perf``)."""
    return Collective.of("send_recv", size, algorithm, lanes=lanes, protocol=protocol)


def barrier(algorithm: Any = None) -> Collective:
    """Nobody goes on before all have come; moves no data."""
    return Collective.of("barrier", 1, algorithm, lanes=1)
