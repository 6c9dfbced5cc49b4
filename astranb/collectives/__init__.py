"""Floor 3: collective algorithms. The language, the library, the lowering, file formats and proofs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any, Concatenate, ParamSpec

from astranb.core.keywords import hinted
from astranb.core.lazy import no_attribute

from . import library as library  # registers the algorithms that come with astranb
from .choice import (
    LIBRARIES,
    LibraryCandidate,
    LibraryChoice,
    LibraryCost,
    LibraryView,
    library_choice,
    library_cost,
    library_view,
)
from .experts import (
    EXCHANGE_KERNELS,
    EXCHANGE_LAUNCH,
    Exchange,
    Routing,
    combine,
    dispatch,
    draw_routing,
    read_routing,
)
from .formats import read_algorithm, write_algorithm
from .formats.msccl_xml import read_msccl_xml, write_msccl_xml
from .formats.mscclpp import read_mscclpp, write_mscclpp
from .formats.plan import Plan
from .joined_programs import Joined, JoinedOperation, Section, join, new_operations
from .language.collective import COLLECTIVES
from .language.compose import AlgorithmCall
from .language.contract import Contract, contract
from .language.listing import list_operations
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
    Ranks,
    Semaphore,
    TileShape,
)
from .language.source import ProgramSource, SourceLine, SourceText
from .language.text import text_algorithm
from .library.fused import all_gather_gemm, gemm_reduce_scatter
from .library.registry import ALGORITHMS, Algorithm, Collective, algorithm, algorithms
from .lowering.lower import Lowered, lower, tile_work
from .proof.check import MIXED, NOTHING, Contents, Promise, check, contents, promise
from .proof.fault import Flaw, draw_waits
from .proof.text import Problem, check_text
from .proof.verify import Proof, prove, verify

__all__ = [
    "ALGORITHMS",
    "BUFFERS",
    "COLLECTIVES",
    "EXCHANGE_KERNELS",
    "EXCHANGE_LAUNCH",
    "LIBRARIES",
    "MIXED",
    "NOTHING",
    "PROTOCOLS",
    "Algorithm",
    "AlgorithmCall",
    "Block",
    "Buffer",
    "Chunk",
    "Collective",
    "Connection",
    "Contents",
    "Contract",
    "Exchange",
    "Flaw",
    "Joined",
    "JoinedOperation",
    "LibraryCandidate",
    "LibraryChoice",
    "LibraryCost",
    "LibraryView",
    "Lowered",
    "Operation",
    "Plan",
    "Problem",
    "Program",
    "ProgramSource",
    "Promise",
    "Proof",
    "Rank",
    "Ranks",
    "Routing",
    "Section",
    "Semaphore",
    "SourceLine",
    "SourceText",
    "TileShape",
    "algorithm",
    "algorithms",
    "all_gather",
    "all_gather_gemm",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "check",
    "check_text",
    "combine",
    "contents",
    "contract",
    "dispatch",
    "draw_routing",
    "draw_waits",
    "gather",
    "gemm_reduce_scatter",
    "join",
    "library_choice",
    "library_cost",
    "library_view",
    "list_operations",
    "lower",
    "new_operations",
    "promise",
    "prove",
    "read_algorithm",
    "read_msccl_xml",
    "read_mscclpp",
    "read_routing",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send_recv",
    "text_algorithm",
    "tile_work",
    "verify",
    "write_algorithm",
    "write_msccl_xml",
    "write_mscclpp",
]


def __getattr__(name: str) -> Any:
    """Suggest the collective, or say that it is the name of an algorithm."""
    of = next((one.collective for one in ALGORITHMS.own().values() if one.name == name), None)
    hint = f"it is an algorithm: {of}(size, {name!r})" if of else ""
    raise no_attribute(__name__, name, __all__, hint)


_P = ParamSpec("_P")


def _parameter(name: str, value: Any) -> str:
    return f"a parameter of the algorithm is given as params={{{name!r}: {value!r:.40}}}"


@hinted("all_reduce", otherwise=_parameter)
def all_reduce(
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    protocol: str = "Simple",
    chunks: int | None = None,
    params: Mapping[str, Any] | None = None,
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
    chunks : int, optional
        Chunks of a rank's buffer; by default one for each rank, or what the function asks for.
    params : mapping of str to bool, int, float or str, optional
        Values of the function's parameters.

    Examples
    --------
    >>> all_reduce("1 MiB", algorithm="ring").size
    1048576
    """
    return Collective.of(
        "all_reduce",
        size,
        algorithm,
        channels=channels,
        protocol=protocol,
        chunks=chunks,
        params=params,
    )


def _public(of: Callable[Concatenate[str, _P], Collective], name: str, text: str) -> Callable[_P, Collective]:
    """Make the function of one collective, with the parameters of ``of`` behind the name."""

    def sized(*values: _P.args, **options: _P.kwargs) -> Collective:
        return of(name, *values, **options)

    sized.__name__ = sized.__qualname__ = name
    sized.__doc__ = text
    vars(sized)["__signature__"] = signature(partial(of, name))
    return hinted(name, otherwise=_parameter)(sized)


def _rootless(
    name: str,
    size: int | str,
    algorithm: Any = None,
    *,
    channels: int | None = None,
    protocol: str = "Simple",
    chunks: int | None = None,
    params: Mapping[str, Any] | None = None,
) -> Collective:
    return Collective.of(
        name, size, algorithm, channels=channels, protocol=protocol, chunks=chunks, params=params
    )


all_gather = _public(
    _rootless, "all_gather", "Every rank gets every rank's chunk; ``size`` is the whole output of a rank."
)
reduce_scatter = _public(
    _rootless,
    "reduce_scatter",
    "Rank r gets the sum of all ranks' chunk r; ``size`` is a rank's whole input.",
)
all_to_all = _public(
    _rootless, "all_to_all", "Rank r gets chunk r of every rank; ``size`` is the whole input of a rank."
)
broadcast = _public(Collective.of, "broadcast", "Every rank gets the root's buffer.")
reduce = _public(Collective.of, "reduce", "The root gets the sum of all ranks' buffers.")
gather = _public(
    Collective.of, "gather", "The root gets every rank's chunk; ``size`` is the root's whole output."
)
scatter = _public(
    Collective.of, "scatter", "Rank r gets the root's chunk r; ``size`` is the root's whole input."
)
send_recv = _public(
    _rootless, "send_recv", "Every rank gets its left neighbour's buffer (nccl-tests' ``sendrecv_perf``)."
)


def barrier(algorithm: Any = None) -> Collective:
    """No rank continues before all have arrived; it moves no data."""
    return Collective.of("barrier", 1, algorithm, channels=1)
