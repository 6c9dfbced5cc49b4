"""Which collectives and algorithms there are, and what a run of one is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from astranb.core.errors import AstranbError, InputError, near
from astranb.core.units import size_bytes

from ._program import PROTOCOLS, Program

__all__ = ["ALGORITHMS", "COLLECTIVES", "Algorithm", "Collective", "algorithm", "algorithms", "find"]

Writer: TypeAlias = Callable[[Program], None]

_CHUNKS = 8  # of a broadcast or reduction: what follows one another down a chain
_BYTES_A_LANE = 2048  # below this a lane has too few lines to be worth its semaphores
_MOST_LANES = 16  # NCCL 2.2x uses 16 to 24 channels on eight H100


@dataclass(frozen=True, slots=True)
class Kind:
    """What a collective promises, apart from how it is done.

    Attributes
    ----------
    busbw : callable
        Factor from algbw to busbw for n ranks, as nccl-tests defines it
        (nccl-tests, doc/PERFORMANCE.md).
    root_only : bool
        Whether only the root's output is promised.
    silent : bool
        Whether no output is promised at all.
    """

    name: str
    input_chunks: Callable[[int], int]
    output_chunks: Callable[[int], int]
    busbw: Callable[[int], float]
    default: str
    root_only: bool = False
    silent: bool = False


COLLECTIVES = {
    kind.name: kind
    for kind in (
        Kind("all_reduce", lambda n: n, lambda n: n, lambda n: 2 * (n - 1) / n, "ring"),
        Kind("all_gather", lambda _: 1, lambda n: n, lambda n: (n - 1) / n, "ring"),
        Kind("reduce_scatter", lambda n: n, lambda _: 1, lambda n: (n - 1) / n, "ring"),
        Kind("all_to_all", lambda n: n, lambda n: n, lambda n: (n - 1) / n, "allpairs"),
        Kind(
            "broadcast",
            lambda _: _CHUNKS,
            lambda _: _CHUNKS,
            lambda _: 1.0,
            "ring",
        ),
        Kind("reduce", lambda _: _CHUNKS, lambda _: _CHUNKS, lambda _: 1.0, "ring", root_only=True),
        Kind("gather", lambda _: 1, lambda n: n, lambda n: (n - 1) / n, "allpairs", root_only=True),
        Kind("scatter", lambda n: n, lambda _: 1, lambda n: (n - 1) / n, "allpairs"),
        Kind("send_recv", lambda _: 1, lambda _: 1, lambda _: 1.0, "put"),
        Kind("barrier", lambda _: 1, lambda _: 1, lambda _: 0.0, "allpairs", silent=True),
    )
}
"""The collectives by name."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to carry out a collective."""

    collective: str
    name: str
    summary: str
    write: Writer
    min_ranks: int = 2
    power_of_two: bool = False
    protocols: tuple[str, ...] = ("Simple",)
    whole: bool = False


ALGORITHMS: dict[tuple[str, str], Algorithm] = {}
"""Every algorithm by (collective, name)."""


def algorithm(
    collective: str,
    name: str,
    summary: str = "",
    *,
    min_ranks: int = 2,
    power_of_two: bool = False,
    protocols: tuple[str, ...] = ("Simple",),
    whole: bool = False,
) -> Callable[[Writer], Writer]:
    """Register a function as an algorithm of a collective.

    Parameters
    ----------
    collective : str
        One of :data:`COLLECTIVES`.
    name : str
        What ``algorithm=`` and ``--algorithm`` take.
    summary : str
        One line for listings; the function's docstring where it is empty.
    min_ranks : int
        The fewest ranks it can run on.
    power_of_two : bool
        Whether it runs on 2, 4, 8, … ranks only.
    protocols : tuple of str
        Those of :data:`PROTOCOLS` that it is written for.
    whole : bool
        Whether every rank works on the whole of the buffer, not on a rank's share of it: the
        number of lanes follows what a rank has to do.

    Returns
    -------
    callable
        A decorator that returns the function as it is.
    """
    if collective not in COLLECTIVES:
        raise InputError(f"unknown collective {collective!r}", hint=near(collective, COLLECTIVES))

    def register(write: Writer) -> Writer:
        text = summary or (write.__doc__ or "").strip().partition("\n")[0]
        ALGORITHMS[collective, name] = Algorithm(
            collective, name, text, write, min_ranks, power_of_two, protocols, whole
        )
        return write

    return register


def algorithms(collective: str | None = None) -> list[Algorithm]:
    """List the algorithms, of one collective or of all, by collective."""
    return [
        found
        for kind in COLLECTIVES
        for found in ALGORITHMS.values()
        if found.collective == kind and collective in (None, kind)
    ]


def find(collective: str, name: str) -> Algorithm:
    """Find an algorithm; an unknown name is an error with the near names."""
    if collective not in COLLECTIVES:
        raise InputError(f"unknown collective {collective!r}", hint=near(collective, COLLECTIVES))
    try:
        return ALGORITHMS[collective, name]
    except KeyError:
        names = [a.name for a in algorithms(collective)]
        raise InputError(f"{collective} has no algorithm {name!r}", hint=near(name, names)) from None


@dataclass(frozen=True)
class Collective:
    """One collective to run: what, how large, how.

    Parameters
    ----------
    name : str
        The collective.
    size : int
        Bytes of the larger of a rank's two buffers, as nccl-tests prints them: the
        whole buffer of an all-reduce, broadcast or reduction, the output of an all-gather
        or gather, the input of a reduce-scatter or scatter, either of an all-to-all.
    algorithm : str or callable
        A registered name, a function over a :class:`Program`, or what :func:`read_algorithm` read.
    lanes : int, optional
        Sets of thread blocks; chosen from the size where not given.
    root : int
        The root of a broadcast, reduction, gather or scatter.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.
    """

    name: str
    size: int
    algorithm: str | Writer
    lanes: int | None = None
    root: int = 0
    protocol: str = "Simple"

    @classmethod
    def of(
        cls,
        name: str,
        size: int | str,
        algorithm: str | Writer | None = None,
        *,
        lanes: int | None = None,
        root: int = 0,
        protocol: str = "Simple",
    ) -> Collective:
        """Check the parameters and make a collective of them.

        Raises
        ------
        InputError
            Unknown collective, algorithm or protocol, a size that cannot be read or is 0,
            a number of lanes below 1.
        """
        if name not in COLLECTIVES:
            raise InputError(f"unknown collective {name!r}", hint=near(name, COLLECTIVES))
        chosen = algorithm if algorithm is not None else COLLECTIVES[name].default
        if protocol not in PROTOCOLS:
            raise InputError(
                f"unknown protocol {protocol!r}", where="protocol", hint=near(protocol, PROTOCOLS)
            )
        if isinstance(chosen, str):
            able = find(name, chosen).protocols
            if protocol not in able:
                raise InputError(
                    f"{name}/{chosen} is not written for protocol {protocol}",
                    where="protocol",
                    hint=f"take {' or '.join(able)}, or another algorithm",
                )
        elif not callable(chosen):
            raise InputError(f"an algorithm is a name or a function, got {chosen!r}", where="algorithm")
        size_in_bytes = size_bytes(size)
        if size_in_bytes == 0:
            raise InputError(
                "a collective of 0 bytes has nothing to do", where="size", hint="give at least 1 B"
            )
        if hasattr(chosen, "fitted"):  # a plan from a file
            protocol = chosen.fitted(name, size_in_bytes, protocol)
        if lanes is not None and lanes < 1:
            raise InputError(f"lanes must be at least 1, got {lanes}", where="lanes")
        return cls(name, size_in_bytes, chosen, lanes, root, protocol)

    @property
    def title(self) -> str:
        """``all_reduce/ring``, and the protocol where it is not Simple: ``all_reduce/ring/LL``."""
        protocol = "" if self.protocol == "Simple" else f"/{self.protocol}"
        return f"{self.name}/{self.algorithm_name}{protocol}"

    @property
    def algorithm_name(self) -> str:
        """Name of the algorithm, or of the function that writes it."""
        return self.algorithm if isinstance(self.algorithm, str) else self.algorithm.__name__

    def program(self, ranks: int, per_node: int | None = None) -> Program:
        """Write the program for a number of ranks.

        Parameters
        ----------
        ranks : int
        per_node : int, optional
            Consecutive ranks that share a node; all of them where not given.

        Raises
        ------
        InputError
            The algorithm cannot run on that many ranks, or the root is none of them.
        """
        kind = COLLECTIVES[self.name]
        found = find(self.name, self.algorithm) if isinstance(self.algorithm, str) else None
        fewest = found.min_ranks if found else 1
        if ranks < fewest:
            raise InputError(
                f"{self.title} needs at least {fewest} ranks, the infrastructure has {ranks}",
                where="algorithm",
                hint="take an infrastructure with more GPUs",
            )
        if found and found.power_of_two and ranks & (ranks - 1):
            raise InputError(
                f"{self.title} runs on a power of two of ranks, the infrastructure has {ranks}",
                where="algorithm",
                hint="take another algorithm or another number of GPUs",
            )
        if not 0 <= self.root < ranks:
            raise InputError(
                f"root {self.root} is not a rank", where="root", hint=f"ranks are 0 to {ranks - 1}"
            )
        lanes = self.lanes or getattr(self.algorithm, "lanes", None)  # a plan from a file has its own
        share = 1 if found and found.whole else ranks
        lanes = lanes or max(1, min(_MOST_LANES, -(-self.size // (share * _BYTES_A_LANE))))
        program = Program(
            self.title,
            ranks=ranks,
            lanes=lanes,
            input_chunks=kind.input_chunks(ranks),
            output_chunks=kind.output_chunks(ranks),
            root=self.root,
            protocol=self.protocol,
            per_node=per_node or ranks,
        )
        write = found.write if found else self.algorithm
        for lane in range(lanes):
            program.lane = lane
            try:
                write(program)  # type: ignore[operator]  # a str was resolved above
            except AstranbError:
                raise
            except Exception as error:  # whatever a person's algorithm raises
                raise InputError(
                    f"{type(error).__name__}: {error}", where=f"algorithm {self.title}"
                ) from error
        return program
