"""Floor 3: collective algorithms. The language, the library, the lowering, file formats and proofs."""

from __future__ import annotations

from typing import Any

from . import library as library  # registers the algorithms that come with astranb
from .formats import read_algorithm, write_algorithm
from .formats.msccl_xml import read_msccl_xml, write_msccl_xml
from .formats.mscclpp import read_mscclpp, write_mscclpp
from .formats.plan import Plan
from .join import Joined, JoinedOperation, Section, join
from .language.collective import COLLECTIVES
from .language.program import (
    BUFFERS,
    PROTOCOLS,
    Block,
    Buffer,
    Chunk,
    Connection,
    Operation,
    Program,
    Rank,
    Semaphore,
    list_operations,
)
from .language.source import ProgramSource, SourceLine, SourceText
from .language.text import text_algorithm
from .library.registry import ALGORITHMS, Algorithm, Collective, algorithm, algorithms
from .lowering.lower import Lowered, lower
from .proof.check import MIXED, NOTHING, Contents, Promise, check, contents, promise
from .proof.fault import Flaw, draw_waits
from .proof.text import Problem, check_text
from .proof.verify import verify

__all__ = [
    "ALGORITHMS",
    "BUFFERS",
    "COLLECTIVES",
    "MIXED",
    "NOTHING",
    "PROTOCOLS",
    "Algorithm",
    "Block",
    "Buffer",
    "Chunk",
    "Collective",
    "Connection",
    "Contents",
    "Flaw",
    "Joined",
    "JoinedOperation",
    "Lowered",
    "Operation",
    "Plan",
    "Problem",
    "Program",
    "ProgramSource",
    "Promise",
    "Rank",
    "Section",
    "Semaphore",
    "SourceLine",
    "SourceText",
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
    "list_operations",
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
    size: int | str, algorithm: Any = None, *, channels: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets the sum of all ranks' buffers.

    Parameters
    ----------
    size : int or str
        Bytes of each rank's buffer, as ``"1 MiB"``.
    algorithm : str or callable, optional
        ``"ring"`` (default), ``"allpairs"``, ``"allpairs_oneshot"``, ``"tree"``,
        ``"halving_doubling"``, …, or a function over a :class:`Program`.
    channels : int, optional
        Sets of thread blocks; by default chosen from the size.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.

    Examples
    --------
    >>> all_reduce("1 MiB", algorithm="ring").size
    1048576
    """
    return Collective.of("all_reduce", size, algorithm, channels=channels, protocol=protocol)


def all_gather(
    size: int | str, algorithm: Any = None, *, channels: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets every rank's chunk; ``size`` is the whole output of a rank."""
    return Collective.of("all_gather", size, algorithm, channels=channels, protocol=protocol)


def reduce_scatter(
    size: int | str, algorithm: Any = None, *, channels: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Rank r gets the sum of all ranks' chunk r; ``size`` is the whole input of a rank."""
    return Collective.of("reduce_scatter", size, algorithm, channels=channels, protocol=protocol)


def all_to_all(
    size: int | str, algorithm: Any = None, *, channels: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Rank r gets chunk r of every rank; ``size`` is the whole input of a rank."""
    return Collective.of("all_to_all", size, algorithm, channels=channels, protocol=protocol)


def broadcast(
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """Every rank gets the root's buffer."""
    return Collective.of("broadcast", size, algorithm, channels=channels, root=root, protocol=protocol)


def reduce(
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """The root gets the sum of all ranks' buffers."""
    return Collective.of("reduce", size, algorithm, channels=channels, root=root, protocol=protocol)


def gather(
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """The root gets every rank's chunk; ``size`` is the root's whole output."""
    return Collective.of("gather", size, algorithm, channels=channels, root=root, protocol=protocol)


def scatter(
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
) -> Collective:
    """Rank r gets the root's chunk r; ``size`` is the root's whole input."""
    return Collective.of("scatter", size, algorithm, channels=channels, root=root, protocol=protocol)


def send_recv(
    size: int | str, algorithm: Any = None, *, channels: int | None = None, protocol: str = "Simple"
) -> Collective:
    """Every rank gets its left neighbour's buffer (nccl-tests' ``sendrecv_perf``)."""
    return Collective.of("send_recv", size, algorithm, channels=channels, protocol=protocol)


def barrier(algorithm: Any = None) -> Collective:
    """No rank continues before all have arrived; it moves no data."""
    return Collective.of("barrier", 1, algorithm, channels=1)
