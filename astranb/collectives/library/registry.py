"""The registry of algorithms, and a collective with its size, algorithm and protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import isgenerator
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from astranb.collectives.language import (
    BYTES_PER_OPERATION,
    COLLECTIVES,
    POSTED_LINES,
    ChunkLayout,
    Contract,
    Cut,
    ParameterValue,
    Program,
    algorithm_name,
    bind_parameters,
    check_protocol,
    check_values,
    collective_kind,
    failure,
    nccl_cut,
    title_of,
    unwrapped,
)
from astranb.collectives.lowering import to_packets
from astranb.core.errors import AstranbError, InputError, near
from astranb.core.limits import MOST_CHANNELS
from astranb.core.plugins import Registry
from astranb.core.state import require_bytes
from astranb.core.units import size_bytes
from astranb.infragraph import Infra, resolve
from astranb.net import Shape, compile_fabric

__all__ = ["ALGORITHMS", "Algorithm", "Collective", "algorithm", "algorithms", "find", "ranks_of"]

Writer: TypeAlias = Callable[..., None]
"""A function over a program, and over the algorithm's parameters."""

_BYTES_PER_CHANNEL = 2048  # below this a channel has too few lines to be worth its semaphores
_STEP_BYTES = 65_536  # NCCL's chunk of NVLS from 64 MiB to 1 GiB on eight GPUs (src/enqueue.cc)
_MOST_CHANNELS = 16  # NCCL 2.2x uses 16 to 24 channels on eight H100


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm of a collective, with the number of ranks and the protocols that it supports."""

    collective: str
    name: str
    summary: str
    write: Writer
    power_of_two: bool = False
    protocols: tuple[str, ...] = ("Simple",)
    whole: bool = False
    stepwise: bool = False
    fifo: bool = False
    any_chunks: bool = False
    of_node: bool = False


ALGORITHMS: Registry[tuple[str, str], Algorithm] = Registry(
    "algorithms",
    Algorithm,
    lambda one: (one.collective, one.name),
    key_of=lambda name: tuple(name.partition(".")[::2]),
    module_of=lambda one: str(getattr(one.write, "__module__", "")),
)
"""Every algorithm by (collective, name); the entry point of a plug-in is called ``collective.name``."""


def algorithm(
    collective: str,
    name: str,
    summary: str = "",
    *,
    power_of_two: bool = False,
    protocols: tuple[str, ...] = ("Simple",),
    whole: bool = False,
    stepwise: bool = False,
    fifo: bool = False,
    any_chunks: bool = False,
    of_node: bool = False,
) -> Callable[[Writer], Writer]:
    """Register a function as an algorithm of a collective.

    Parameters
    ----------
    collective : str
        One of :data:`COLLECTIVES`.
    name : str
        The value of ``algorithm=`` and ``--algorithm``.
    summary : str
        One line for listings; by default the first line of the function's docstring.
    power_of_two : bool
        Whether it runs on 2, 4, 8, … ranks only.
    protocols : tuple of str
        Those of :data:`PROTOCOLS` that it supports. The function is written for ``Simple``; the
        lowering replaces its semaphores by packets for the others.
    whole : bool
        Whether every rank works on the whole buffer, not on its share of it. The default number
        of channels depends on the bytes that one rank works on.
    stepwise : bool
        Whether a channel works on its slice in several steps (the rounds of
        :class:`Cut`), each of at most ``chunk_bytes`` of every chunk.
    fifo : bool
        Whether ranks send through a buffer with slots, as NCCL's rings do; one that is also ``stepwise``
        fills a slot in each step.
    any_chunks : bool
        Whether it works with any number of chunks: a collective with ``chunks=`` may run it.
    of_node : bool
        Whether it has a chunk for each rank of a node, not for each rank.

    Returns
    -------
    callable
        A decorator that returns the function unchanged.
    """
    collective_kind(collective)

    def register(write: Writer) -> Writer:
        text = summary or (write.__doc__ or "").strip().partition("\n")[0]
        ALGORITHMS[collective, name] = Algorithm(
            *(
                collective,
                name,
                text,
                write,
                power_of_two,
                protocols,
                whole,
                stepwise,
                fifo,
                any_chunks,
                of_node,
            )
        )
        return write

    return register


def algorithms(collective: str | None = None) -> list[Algorithm]:
    """List the algorithms of one collective or of all, ordered by collective; plug-ins are loaded."""
    return [
        ALGORITHMS[key]
        for kind in COLLECTIVES
        for key in ALGORITHMS
        if key[0] == kind and collective in (None, kind)
    ]


_AS_IN_ASTRASIM: Final = {"direct": "allpairs", "doublebinarytree": "double_tree"}
"""Algorithms by ASTRA-sim's names, in small letters."""


def find(collective: str, name: str) -> Algorithm:
    """Find an algorithm; the error for an unknown name lists similar ones."""
    collective_kind(collective)
    try:
        return ALGORITHMS[collective, name]
    except KeyError:
        names = [known for kind, known in ALGORITHMS if kind == collective]
        same = _AS_IN_ASTRASIM.get(name.lower())
        hint = f"ASTRA-sim's {name} is {same!r}" if same in names else near(name, names)
        raise InputError(f"{collective} has no algorithm {name!r}", hint=hint) from None


def _check_routed(name: str, *, routed: bool) -> None:
    """Check that an exchange of experts knows the experts of its tokens."""
    if collective_kind(name).routed and not routed:
        raise InputError(
            f"a {name} depends on the experts of each token",
            where="collective",
            hint=f"use astranb.collectives.{name}, or astranb run exchange {name} --tokens N",
        )


def ranks_of(where: int | str | Path | Infra, shape: Shape | int | None = None) -> tuple[int, Shape | None]:
    """Return the number of ranks of an infrastructure or as it is given, and how they are joined."""
    if isinstance(where, int):
        return where, Shape(shape) if isinstance(shape, int) else shape
    if shape is not None:
        hint = "leave the shape out, or give a number of ranks"
        raise InputError("an infrastructure has its own shape", where="shape", hint=hint)
    fabric = compile_fabric(resolve(where).expand())
    return len(fabric.gpus), fabric.shape


@dataclass(frozen=True)
class Collective:
    """One collective to run, with its size, algorithm and protocol.

    Parameters
    ----------
    name : str
        The collective.
    size : int
        Bytes of the larger of a rank's two buffers, as nccl-tests prints them: the
        whole buffer of an all-reduce, broadcast or reduction, the output of an all-gather
        or gather, the input of a reduce-scatter or scatter, either of an all-to-all.
    algorithm : str or callable
        A registered name, a function over a :class:`Program`, or a plan from :func:`read_algorithm`.
    channels : int, optional
        Sets of thread blocks; by default chosen from the size.
    root : int
        The root of a broadcast, reduction, gather or scatter.
    protocol : str
        ``"Simple"``, ``"LL"`` or ``"LL128"``.
    chunk_bytes : int, optional
        What a channel moves of a chunk in one step, at most; for algorithms that work in steps.
    chunks : int, optional
        Chunks of the larger of a rank's two buffers; by default those that the algorithm asks for
        (:meth:`Program.chunks`), else one for each rank, or 8 of a broadcast or reduction.
    params : dict of str to bool, int, float or str
        Values of the algorithm's parameters, which are those of its function behind the program.
    unchecked : bool
        Whether its run ends with a time even where the result is wrong.
    contract : Contract, optional
        What a collective of one's own promises; ``size`` is 0 until the number of ranks is known.
    named : bool
        Whether the algorithm was given; by messages a library chooses one where it was not.
    """

    subject: ClassVar = "collective"
    routed: ClassVar = False  # whether it knows the experts of tokens

    name: str
    size: int
    algorithm: str | Writer
    channels: int | None = None
    root: int = 0
    protocol: str = "Simple"
    chunk_bytes: int | None = None
    contract: Contract | ChunkLayout | None = None
    chunks: int | None = None
    params: dict[str, ParameterValue] = field(default_factory=dict, hash=False)
    unchecked: bool = False
    named: bool = True

    def __post_init__(self) -> None:
        """Check the collective; a saved simulation may hold anything."""
        if self.contract is None:
            _check_routed(self.name, routed=self.routed)
        check_protocol(self.protocol)
        if not isinstance(self.algorithm, str) and not callable(self.algorithm):
            raise InputError(
                f"algorithm must be a name or a function, got {self.algorithm!r:.80}", where="algorithm"
            )
        if not isinstance(self.size, int) or self.size < (1 if self.contract is None else 0):
            raise InputError("size must be at least 1 B", where="size")
        if self.channels is not None and (not isinstance(self.channels, int) or self.channels < 1):
            raise InputError(
                f"channels must be a whole number of at least 1, got {self.channels!r:.80}", where="channels"
            )
        chunk = self.chunk_bytes
        if chunk is not None and self.contract is not None:
            hint = "give the sizes in the contract"
            raise InputError("does not apply to a contract", where="chunk_bytes", hint=hint)
        if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
            raise InputError(f"chunk_bytes must be at least 1, got {chunk!r:.80}", where="chunk_bytes")
        if self.chunks is not None:
            collective_kind(self.name).chunk_counts(1, self.chunks)
        if not isinstance(self.unchecked, bool):
            raise InputError(f"true or false is expected, not {self.unchecked!r:.80}", where="unchecked")
        check_values(self.params)

    @classmethod
    def of(
        cls,
        name: str | Contract,
        size: int | str | None = None,
        algorithm: str | Writer | None = None,
        *,
        channels: int | None = None,
        root: int = 0,
        protocol: str = "Simple",
        chunk_bytes: int | None = None,
        chunks: int | None = None,
        params: Mapping[str, ParameterValue] | None = None,
    ) -> Collective:
        """Check the parameters and return the collective.

        ``functools.partial`` of a function stands for the function with these ``params``. Instead of the
        name of a collective, a :class:`Contract` is one of your own: it has the sizes, so that ``size`` is
        left out, and needs a function as ``algorithm`` (see :meth:`Contract.like`).

        Raises
        ------
        InputError
            Unknown collective, algorithm or protocol, a size that cannot be parsed or is 0,
            fewer than one channel, chunks of an algorithm that has its own, a parameter that the
            algorithm does not have, or one without a value.

        Examples
        --------
        >>> def shift(p, *, distance=1):
        ...     for me in p.everyone:
        ...         me.block().put(me.input[0], p.rank((me.number + distance) % p.ranks).output[0])
        >>> Collective.of("custom", "1 MiB", shift, params={"distance": 2}).title
        'custom/shift(distance=2)'
        """
        if isinstance(name, Contract):
            if chunks is not None:
                hint = "give the sizes of its chunks in the contract"
                raise InputError("does not apply to a contract", where="chunks", hint=hint)
            return cls._of_contract(name, size, algorithm, channels, root, protocol, chunk_bytes, params)
        if size is None:
            raise InputError("the size is needed", where="size", hint="for example '1 MiB'")
        _check_routed(name, routed=cls.routed)
        default = collective_kind(name).default
        chosen = algorithm if algorithm is not None else default
        if not chosen:
            what = (
                f"a {name} collective has no algorithm of its own"
                if algorithm is None
                else "the name is empty"
            )
            hint = "give a file of an algorithm, or a function"
            raise InputError(what, where="algorithm", hint=hint)
        check_protocol(protocol)
        chosen, values = unwrapped(chosen, params)
        check_values(values)
        if isinstance(chosen, str):
            found = find(name, chosen)
            able = found.protocols
            if protocol not in able:
                raise InputError(
                    f"{name}/{chosen} does not support protocol {protocol}",
                    where="protocol",
                    hint=f"use {' or '.join(able)}, or another algorithm",
                )
            if chunks is not None and not found.any_chunks:
                raise InputError(f"{name}/{chosen} has its own chunks", where="chunks", hint="leave it out")
            bind_parameters(found.write, values)
        size_in_bytes = size_bytes(size)
        if hasattr(chosen, "fitted"):  # a plan from a file
            if chunks is not None or values:
                what = "a plan from a file has its own"
                raise InputError(what, where="params" if values else "chunks", hint="leave it out")
            protocol = chosen.fitted(name, size_in_bytes, protocol)
        elif callable(chosen):
            bind_parameters(chosen, values)
        return cls(
            name, size_in_bytes, chosen, channels, root, protocol, chunk_bytes, chunks=chunks, params=values,
            named=algorithm is not None,
        )  # fmt: skip

    @classmethod
    def _of_contract(
        cls,
        contract: Contract,
        size: int | str | None,
        algorithm: str | Writer | None,
        channels: int | None,
        root: int,
        protocol: str,
        chunk_bytes: int | None,
        params: Mapping[str, ParameterValue] | None,
    ) -> Collective:
        if size is not None:
            hint = "leave it out: its inputs and outputs have sizes"
            raise InputError("does not apply to a contract", where="size", hint=hint)
        if root:
            hint = "let post name the rank"
            raise InputError("does not apply to a contract", where="root", hint=hint)
        chosen: Any
        chosen, values = unwrapped(algorithm, params)
        write = chosen
        if isinstance(chosen, str) and contract.base:
            write = find(contract.base, chosen).write
        elif not callable(chosen):
            what = f"contract {contract.name!r} has no algorithm" + (f" {chosen!r:.80}" if chosen else "")
            raise InputError(what, where="algorithm", hint="give a function over a program")
        contract, values = contract.given(values, write)
        if isinstance(chosen, str):
            cls.of(contract.base, 1, chosen, protocol=protocol, params=values)  # an error if it cannot be
        elif hasattr(chosen, "fitted"):  # a plan from a file
            size = contract.size(chosen.ranks) if hasattr(chosen, "ranks") else 0
            protocol = chosen.fitted(contract.name, size, protocol)
        else:
            bind_parameters(chosen, values)
        return cls(
            contract.name, 0, chosen, channels, contract.root, protocol, chunk_bytes,
            contract=contract, params=values,
        )  # fmt: skip

    def on_ranks(self, ranks: int) -> Collective:
        """Return it for a number of ranks: of a contract the size is known then.

        Raises
        ------
        InputError
            The contract is not for this number of ranks, or cannot be met.

        Examples
        --------
        >>> swap = Contract(
        ...     inputs=lambda r: 4096, outputs=lambda r: 4096, post=lambda r, k: {(1 - r, 0)}, name="swap"
        ... )
        >>> def direct(p):
        ...     for me in p.everyone:
        ...         me.block().put(me.input[0], me.right.output[0])
        >>> one = Collective.of(swap, algorithm=direct)
        >>> one.size, one.on_ranks(2).size
        (0, 4096)
        """
        if not isinstance(self.contract, Contract):
            return self
        layout = self.contract.on(ranks)
        return replace(self, size=layout.size, contract=layout)

    def on_gpu(self, sms: int) -> Collective:
        """Return it for GPUs of so many SMs; here it does not depend on them."""
        del sms
        return self

    def bus_factor(self, ranks: int) -> float | None:
        """Return the factor from algorithm to bus bandwidth; None for a contract that gives none.

        Examples
        --------
        >>> Collective.of("all_gather", 4096).bus_factor(8)
        0.875
        """
        if self.contract is None:
            return COLLECTIVES[self.name].busbw(ranks)
        layout = self.contract.on(ranks) if isinstance(self.contract, Contract) else self.contract
        return layout.busbw

    @property
    def checked(self) -> bool:
        """Whether its outputs are compared with what they must hold, which is not known of a custom one."""
        return not self.unchecked and (self.contract is not None or not COLLECTIVES[self.name].silent)

    @property
    def title(self) -> str:
        """``all_reduce/ring``, with parameters ``all_reduce/f(slices=8)``; and ``/LL`` unless Simple."""
        protocol = "" if self.protocol == "Simple" else f"/{self.protocol}"
        return f"{self.name}/{self.algorithm_name}{title_of(self.params)}{protocol}"

    @property
    def algorithm_name(self) -> str:
        """Name of the algorithm or of its function."""
        return algorithm_name(self.algorithm)

    def program(self, where: int | str | Path | Infra, shape: Shape | int | None = None) -> Program:
        """Build the program for an infrastructure, or for a number of ranks in one node.

        On an infrastructure the program knows nodes and links, also those that are down: NICs move what goes
        between nodes, and ranks have distances and neighbours. A number of ranks has none of these.

        Parameters
        ----------
        where : int, str, Path or Infra
            A number of ranks; or an infrastructure, whose GPUs are the ranks: a blueprint's name, a file, or
            an :class:`Infra`.
        shape : Shape or int, optional
            How a number of ranks is joined, or only how many consecutive ranks share a node; all by default.

        Raises
        ------
        InputError
            The algorithm cannot run on this number of ranks, or the root is not one of them; there is no such
            infrastructure.

        Examples
        --------
        >>> two_boxes = Collective.of("send_recv", "4 KiB", channels=1).program("single-tier:servers=2")
        >>> print(two_boxes)
        send_recv/put: 16 ranks in 2 nodes of 8; 16 thread blocks, 2 NICs
        >>> print(Collective.of("send_recv", "4 KiB", channels=1).program(16))
        send_recv/put: 16 ranks in one node; 16 thread blocks
        """
        ranks, shape = ranks_of(where, shape)
        if isinstance(self.contract, Contract):
            return self.on_ranks(ranks).program(ranks, shape)
        layout = self.contract
        if layout is not None and layout.ranks != ranks:
            raise InputError(f"it is for {layout.ranks} ranks, not {ranks}", where=f"contract {self.name!r}")
        kind = COLLECTIVES["custom" if layout is not None else self.name]
        chunks = layout.counts if layout else kind.chunk_counts(ranks, self.chunks)
        name = layout.base if layout is not None else self.name
        found = find(name, self.algorithm) if isinstance(self.algorithm, str) else None
        fewest = 2 if found else 1
        if ranks < fewest:
            raise InputError(
                f"{self.title} needs at least {fewest} ranks, the infrastructure has {ranks}",
                where="algorithm",
                hint="use an infrastructure with more GPUs",
            )
        if found and found.power_of_two and ranks & (ranks - 1):
            raise InputError(
                f"{self.title} needs a power of two of ranks, the infrastructure has {ranks}",
                where="algorithm",
                hint="use another algorithm or another number of GPUs",
            )
        if not 0 <= self.root < ranks:
            raise InputError(
                f"root {self.root} is not a rank", where="root", hint=f"ranks are 0 to {ranks - 1}"
            )
        channels = self.channels or getattr(self.algorithm, "channels", None)  # a plan has its own
        if channels is not None and channels > MOST_CHANNELS:
            what = f"channels must be at most {MOST_CHANNELS}, got {channels:,}"
            raise InputError(what, where="channels", hint="a GPU has fewer SMs")
        share = 1 if found and found.whole else ranks
        channels = channels or max(1, min(_MOST_CHANNELS, -(-self.size // (share * _BYTES_PER_CHANNEL))))
        width = ranks if shape is None else shape.per_node
        most = width if found and found.of_node else max(chunks)
        each = -(-self.size // (most * channels))
        cut = Cut()
        step = self.chunk_bytes or min(each, _STEP_BYTES) if found and found.stepwise else None
        if found and found.fifo:
            cut = nccl_cut(name, self.protocol, each, step)
        elif step:
            cut = Cut(rounds=-(-each // step))
        if (
            cut.of_channel > 1
        ):  # what an enormous size would be cut into does not fit long before it is written
            moves = cut.of_channel * channels * ranks * ranks
            hint = "use a smaller size"
            require_bytes(moves * BYTES_PER_OPERATION, where=f"program {self.title!r}", hint=hint)
        program = Program(
            self.title,
            ranks=ranks,
            channels=channels,
            input_chunks=chunks[0],
            output_chunks=chunks[1],
            root=self.root,
            protocol=self.protocol,
            shape=shape,
            size=self.size,
            cut=cut,
        )
        program.library, program.layout = find, layout
        if program.shape.rdma and program.per_node < ranks and not program.nics_move:
            program.lines_per_sm = POSTED_LINES
        if self.chunks is not None:
            program.chunks(self.chunks)
        elif found and found.of_node and program.input_chunks != width:
            program.chunks(width)
        chosen: Any = found.write if found else self.algorithm
        write = chosen if hasattr(chosen, "fitted") else bind_parameters(chosen, self.params)
        for channel in range(channels):
            program.channel = channel
            try:
                with ALGORITHMS.running((name, str(self.algorithm))):
                    written = write(program)
            except Exception as error:  # whatever a user's algorithm raises
                if isinstance(error, AstranbError) and type(error) is not InputError:
                    raise
                raise failure(error, f"algorithm {self.title}") from error
            if isgenerator(written):
                what = "a generator, of which nothing is executed"
                raise InputError(what, where=f"algorithm {self.title}", hint="leave out its yield")
        program.finish()
        if layout is not None:
            program.share_memory(layout)
        if not hasattr(chosen, "fitted"):  # a plan lists its packets itself
            to_packets(program)
        return program
