"""Programs made of programs: an algorithm that some ranks execute within another one.

A call writes the other algorithm as a program of its own ranks, and then copies the operations: its inputs
and outputs become chunks that the caller names, its scratch memory and semaphores new ones of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, Self, TypeAlias

from astranb.core.errors import InputError

from .block import Block
from .collective import CollectiveKind, collective_kind
from .fifo import FIRST_CALLED, Cut
from .inline import Inlined, Places
from .operation import Semaphore
from .parameters import bind_parameters
from .source import ProgramError, line_of_caller

__all__ = ["AlgorithmCall", "AlgorithmCalls", "Ends", "Library", "Shares"]

Ends: TypeAlias = Callable[[int], Any] | Mapping[int, Any] | Sequence[Any]
"""The chunks of each rank that a call reads, or stores to: by a function of the rank, or by rank."""
Shares: TypeAlias = Mapping[str | Callable[..., None], float]
"""The share of the data that each of several algorithms moves."""

_AS_GIVEN: Final = ("broadcast", "reduce")  # these have as many chunks as they are given


class _Known(Protocol):
    """Members of a library's algorithm that a call needs."""

    @property
    def write(self) -> Callable[..., None]: ...

    @property
    def power_of_two(self) -> bool: ...

    @property
    def protocols(self) -> tuple[str, ...]: ...


Library: TypeAlias = Callable[[str, str], _Known]
"""Finds an algorithm by its collective and its name."""


class _CallingProgram(Protocol):
    """Members of a program that calls need."""

    name: str
    ranks: int
    channel: int
    protocol: str
    cut: Cut
    weights: tuple[float, ...]
    root: int
    phases: list[str]
    semaphores: list[Semaphore]
    slots: list[int]
    frees: set[Semaphore]
    blocks: list[Block]
    tiles: dict[Any, int]
    lines: dict[Any, int]
    library: Library
    in_slices: bool

    @property
    def slice_number(self) -> int: ...

    def callee(self, name: str, ranks: Sequence[int], chunks: tuple[int, int], root: int) -> Self: ...

    def block(self, rank: int, warps: int = 0) -> Block: ...

    def engine(self, rank: int) -> Block: ...

    def nic(self, rank: int, channel: int) -> Block: ...

    def semaphore(self, rank: int) -> Semaphore: ...

    def phase_number(self, name: str) -> int: ...

    def number_of(self, line: Any) -> int: ...

    def finish(self) -> None: ...

    def add_buffer(self, slots: int) -> int: ...

    def slices(self) -> Iterable[int]: ...

    def input(self, rank: int) -> Any: ...

    def output(self, rank: int) -> Any: ...

    def sent_before(self, rank: int, slice_number: int, count: int) -> int: ...


class AlgorithmCall:
    """A collective that some ranks execute within a program.

    Attributes
    ----------
    name : str
        For phases and errors: ``reduce_scatter/ring``.
    blocks : dict of int to list of Block
        The thread blocks of each rank that execute it.
    """

    def __init__(self, program: _CallingProgram, name: str) -> None:
        self.name, self.blocks = name, dict[int, list[Block]]()
        self._program, self._ended = program, dict[int, Semaphore]()

    def wait(self, block: Block) -> None:
        """Wait in a thread block until the call has ended on the block's rank.

        A block that has executed the call alone has nothing to wait for.
        """
        own = self.blocks.get(block.rank, [])
        if not own or own == [block]:
            return
        if block.rank not in self._ended:
            self._ended[block.rank] = self._program.semaphore(block.rank)
            for one in own:
                one.signal(self._ended[block.rank])
        block.wait(self._ended[block.rank], len(own))


class AlgorithmCalls:
    """The calls of a program: which thread blocks execute them, and what memory is theirs."""

    def __init__(self, program: _CallingProgram) -> None:
        self._program = program
        self._last: dict[tuple[str, int, int], AlgorithmCall] = {}  # by stage, channel and rank
        self._blocks: dict[tuple[str, int, int, str], list[Block]] = {}  # and unit
        self._scratch: dict[int, int] = {}  # first free index, by channel

    def call(
        self,
        collective: str,
        algorithm: str | Callable[..., None],
        ranks: Sequence[Any],
        source: Ends,
        target: Ends,
        stage: str,
        after: AlgorithmCall | Block | Iterable[AlgorithmCall | Block],
        root: int | None,
        params: Mapping[str, Any],
    ) -> AlgorithmCall:
        """Write a call: see :meth:`Program.call`."""
        program = self._program
        named = algorithm if isinstance(algorithm, str) else getattr(algorithm, "__name__", "function")
        call = AlgorithmCall(program, f"{collective}/{named}")
        groups = self._groups(call, ranks)
        kind, found = self._find(call, collective, algorithm)
        before = _calls(program, after)

        def refuse(what: str, hint: str) -> ProgramError:
            return self._refuse(call, what, hint)

        for group in groups:
            count = len(group)
            own = kind.name not in _AS_GIVEN
            needed = (kind.input_chunks(count), kind.output_chunks(count)) if own else (None, None)
            places = Places(group, source, target, needed, refuse)
            inside = program.callee(call.name, group, places.chunks, self._root(call, group, root))
            self._write(call, inside, found, algorithm, params)
            self._cut_alike(call, inside)
            first = self._scratch.get(program.channel, FIRST_CALLED)
            inlined = Inlined(call.name, inside, group, places, first, refuse)
            self._scratch[program.channel] = first + inlined.scratch
            for r in group:
                self._begin(call, inlined, r, stage, before)
            if inside.cut.of_channel > 1:
                self._append(inlined, stage, None)
            elif program.in_slices:
                self._append(inlined, stage, program.slice_number)
            else:
                for _ in program.slices():
                    self._append(inlined, stage, program.slice_number)
            for r in group:
                self._last[stage, program.channel, r] = call
                for block in call.blocks[r]:
                    block.current = program.phase_number(inlined.phases[-1])
        return call

    def split(self, shares: Shares, collective: str) -> None:
        """Assign each algorithm its part of every slice: see :meth:`Program.split`."""
        program, weights = self._program, tuple(shares.values())
        nothing = AlgorithmCall(program, f"{collective}/split")
        wrong = [share for share in weights if not share > 0]
        if wrong or not shares:
            what = f"share {wrong[0]!r:.40} is not above zero" if wrong else "no algorithm is given"
            raise self._refuse(nothing, what, 'for example {"switch": 0.7, "ring": 0.3}')
        if program.cut.of_channel > 1 and program.weights != weights:
            raise self._refuse(
                nothing, "chunks are cut already", "split them once, outside of loops over slices"
            )
        program.cut, program.weights = Cut(slices=len(shares)), weights
        everyone = range(program.ranks)
        for number, _ in enumerate(program.slices()):
            algorithm = list(shares)[number]
            self.call(
                collective,
                algorithm,
                everyone,
                lambda r: program.input(r)[:],
                lambda r: program.output(r)[:],
                f"split {number}",
                (),
                program.root,
                {},
            )

    def _refuse(self, call: AlgorithmCall, what: str, hint: str = "") -> ProgramError:
        """Return the error of a call, with the line that makes it."""
        where = f"program {self._program.name!r}, call of {call.name}"
        return ProgramError(what, line_of_caller(), where=where, hint=hint)

    def _groups(self, call: AlgorithmCall, ranks: Sequence[Any]) -> list[list[int]]:
        nested = [[*one] for one in ranks if isinstance(one, list | tuple | range)]
        groups = nested if nested and len(nested) == len(ranks) else [[*ranks]]
        found = [[getattr(r, "number", r) for r in group] for group in groups]
        seen: set[int] = set()
        for r in (r for group in found for r in group):
            if not isinstance(r, int) or not 0 <= r < self._program.ranks:
                raise self._refuse(
                    call, f"rank {r!r:.40} does not exist", f"ranks are 0 to {self._program.ranks - 1}"
                )
            if r in seen:
                hint = "name every rank once; what follows one another are calls of their own"
                raise self._refuse(call, f"rank {r} takes part twice", hint)
            seen.add(r)
        if not seen:
            raise self._refuse(call, "no rank takes part", "for example ranks=range(4)")
        return found

    def _root(self, call: AlgorithmCall, group: list[int], root: int | None) -> int:
        if root is None:
            return 0
        if root not in group:
            raise self._refuse(call, f"root {root} takes no part", f"its ranks are {_listed(group)}")
        return group.index(root)

    def _find(
        self, call: AlgorithmCall, collective: str, algorithm: str | Callable[..., None]
    ) -> tuple[CollectiveKind, _Known | None]:
        try:
            kind = collective_kind(collective)
            if not isinstance(algorithm, str):
                return kind, None
            found = self._program.library(collective, algorithm)
        except InputError as error:
            raise self._refuse(call, error.what, error.hint) from None
        if self._program.protocol not in found.protocols:
            what = f"{call.name} does not support protocol {self._program.protocol}"
            raise self._refuse(call, what, f"use {' or '.join(found.protocols)}, or another algorithm")
        return kind, found

    def _write(
        self,
        call: AlgorithmCall,
        inside: _CallingProgram,
        found: _Known | None,
        algorithm: Any,
        params: Mapping[str, Any],
    ) -> None:
        write = found.write if found else algorithm
        if not callable(write):
            raise self._refuse(call, f"not an algorithm: {write!r:.80}", "give a name or a function")
        try:
            write = bind_parameters(write, params)
        except InputError as error:
            raise self._refuse(call, error.what, error.hint) from None
        if inside.ranks == 1:
            write = _alone
        elif found and found.power_of_two and inside.ranks & inside.ranks - 1:
            what = f"{call.name} needs a power of two of ranks, the call has {inside.ranks}"
            raise self._refuse(call, what, "use another algorithm or other ranks")
        write(inside)
        inside.finish()
        if any(block.roles for block in inside.blocks):
            raise self._refuse(call, "roles of warps cannot be called", "write them in the program itself")
        if inside.tiles:
            raise self._refuse(call, "products cannot be called", "write them in the program itself")

    def _cut_alike(self, call: AlgorithmCall, inside: _CallingProgram) -> None:
        """Cut the caller's chunks as the called program does, where they are not cut yet."""
        program = self._program
        of_call, of_program = inside.cut.of_channel, program.cut.of_channel
        if of_call == 1 or (of_call == of_program and not program.in_slices):
            return
        began = any(block.channel == program.channel and block.count for block in program.blocks)
        if began or program.in_slices or (of_program > 1):
            what = f"{call.name} cuts every chunk into {of_call} slices, but work on chunks has begun"
            raise self._refuse(call, what, "call it first and outside a loop over slices")
        program.cut = Cut(slices=of_call)

    def _begin(
        self, call: AlgorithmCall, inlined: Inlined, rank: int, stage: str, before: Sequence[AlgorithmCall]
    ) -> None:
        """Find or make the blocks of a rank; those of SMs wait for the calls before this one."""
        program, channel = self._program, self._program.channel
        for unit in ("sm", "engine", "nic"):
            own = self._blocks.setdefault((stage, channel, rank, unit), [])
            for warps in inlined.wanted.get((rank, unit), [])[len(own) :]:
                if unit == "sm":
                    own.append(program.block(rank, warps))
                else:
                    own.append(program.engine(rank) if unit == "engine" else program.nic(rank, channel))
        blocks = self._blocks[stage, channel, rank, "sm"][: len(inlined.wanted.get((rank, "sm"), []))]
        last = self._last.get((stage, channel, rank))
        for block in blocks:
            block.current = program.phase_number(inlined.phases[0])
            for one in dict.fromkeys([*([last] if last else []), *before]):
                one.wait(block)
        call.blocks[rank] = blocks

    def _append(self, inlined: Inlined, stage: str, slice_number: int | None) -> None:
        program = self._program
        for (rank, unit, number), rows, chunks in inlined.operations(program, slice_number):
            self._blocks[stage, program.channel, rank, unit][number].extend(rows, chunks)


def _calls(program: _CallingProgram, after: Any) -> list[AlgorithmCall]:
    """Return the calls, and thread blocks as calls, for which another one waits."""
    listed = [after] if isinstance(after, AlgorithmCall | Block) else list(after)
    blocks = AlgorithmCall(program, "thread blocks")
    for block in (one for one in listed if isinstance(one, Block)):
        blocks.blocks.setdefault(block.rank, []).append(block)
    return [*(one for one in listed if isinstance(one, AlgorithmCall)), *([blocks] if blocks.blocks else [])]


def _alone(p: Any) -> None:
    """Do the collective of one rank: its outputs are its inputs."""
    block = p.block(0)
    block.phase("copy")
    for chunk in range(p.input_chunks):
        block.copy(p.input(0)[chunk], p.output(0)[chunk])


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))
