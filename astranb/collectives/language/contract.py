"""A contract: the buffers of a collective of one's own, and what its outputs must hold at the end."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.units import size_bytes

from .collective import COLLECTIVES, collective_kind, promised
from .layout import ChunkLayout
from .parameters import (
    NEEDED,
    AlgorithmParameter,
    ParameterValue,
    algorithm_name,
    bind_parameters,
    check_values,
    parameters_of,
    title_of,
)
from .reduction import NUMBER_BYTES, Reduction
from .source import ProgramError, SourceLine, failure, line_of_error, nearest_name

__all__ = ["Contract", "contract"]

_Sizes: TypeAlias = Callable[..., Any]
_MOST_CHUNKS: Final = 2**24  # of all ranks: more do not fit into memory with what they must hold


@dataclass(frozen=True, eq=False)
class Contract:
    """Promise of a collective of one's own, for any algorithm: ``Collective.of(contract, algorithm=f)``.

    The functions get a rank ``r`` and, if they have one parameter more, the number of ranks as the last.

    Parameters
    ----------
    inputs, outputs : callable or dict of str to callable
        ``inputs(r)`` returns the bytes of each chunk of rank *r*'s input: a list of sizes (``4096``,
        ``"64 KiB"``, also 0), or one size. Several buffers are a dict by name: ``me.input["tokens"][0]``;
        in ``me.input`` their chunks are numbered one after another.
    post : callable or dict of str to callable
        ``post(r, k)`` returns what output chunk *k* of rank *r* must hold at the end: a set of
        ``(rank, chunk)``, chunks of inputs. Several are reduced. With several inputs they are
        ``(rank, name, chunk)``; with several outputs it is a dict of functions by name.
    name : str
        For titles and errors.
    ranks : int, optional
        The only number of ranks that it is for; any where not given.
    in_place : bool, dict or callable
        Outputs that share their memory with an input of their rank: True for chunk *k* of both, a dict
        from output to input chunk, or ``in_place(r, k)``, which returns an input chunk or None.
    reduce : str
        ``"sum"``, ``"prod"``, ``"max"``, ``"min"`` or ``"average"``. A contribution that is there twice is
        wrong, except in a maximum or minimum. An average is a sum that is scaled once, in the move that
        completes it, which takes no time of its own.
    dtype, accumulate : str, optional
        The numbers in memory (``"bf16"``), and those in which a move reduces (``"fp32"``; by default those
        in memory). Sizes must be whole numbers. What a move stores is rounded to ``dtype``: the proof
        counts how often that happens on the way to an output. Partial sums travel as ``dtype``.
    busbw : float or callable, optional
        The factor from algorithm bandwidth to bus bandwidth, or a function of the number of ranks.
    base, root : str and int
        The collective whose algorithms it has, and its root: see :meth:`like`.

    Raises
    ------
    InputError
        A name that a collective has, an operator or numbers that do not exist.

    Examples
    --------
    Every rank gets the halves of its neighbours that face it:

    >>> halo = Contract(
    ...     name="halo",
    ...     inputs=lambda r: ["4 KiB", "4 KiB"],
    ...     outputs=lambda r: ["4 KiB", "4 KiB"],
    ...     post=lambda r, k, n: {((r + 2 * k - 1) % n, 1 - k)},
    ... )
    >>> halo.size(4)
    8192
    >>> halo.on(4).name(0, 0)
    'rank 0 input[0]'
    """

    inputs: _Sizes | Mapping[str, _Sizes]
    outputs: _Sizes | Mapping[str, _Sizes]
    post: _Sizes | Mapping[str, _Sizes]
    name: str = "contract"
    ranks: int | None = None
    in_place: bool | Mapping[int, int] | _Sizes = False
    reduce: str = "sum"
    dtype: str | None = None
    accumulate: str | None = None
    busbw: float | Callable[[int], float] | None = None
    base: str = ""
    root: int = 0
    _made: dict[int, ChunkLayout] = field(default_factory=dict, init=False, repr=False)
    _write: Callable[..., Contract] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the contract's name, sizes and functions."""
        if not isinstance(self.name, str) or not self.name or "/" in self.name:
            raise InputError(
                f"{self.name!r:.80} is not a valid name", where="contract", hint="for example 'halo'"
            )
        if self.name in COLLECTIVES:
            hint = "choose another name"
            raise InputError(
                f"name {self.name!r} is taken by a collective of astranb", where="contract", hint=hint
            )
        for side in ("inputs", "outputs", "post"):
            given = getattr(self, side)
            functions = given.values() if isinstance(given, Mapping) else [given]
            if not functions or not all(map(callable, functions)):
                hint = "for example inputs=lambda r: [4096, 4096]"
                raise InputError(
                    f"{side} must be a function, or functions by name", where=self._where, hint=hint
                )
        several = isinstance(self.outputs, Mapping)
        if several != isinstance(self.post, Mapping) or (several and set(self.post) != set(self.outputs)):  # type: ignore[arg-type]
            raise InputError(
                "post and outputs must have functions for the same buffers",
                where=self._where,
                hint="give post a function for each name of outputs",
            )
        if not (self.busbw is None or callable(self.busbw) or isinstance(self.busbw, int | float)):
            raise InputError(f"busbw must be a number, got {self.busbw!r:.80}", where=self._where)
        if self.ranks is not None and (type(self.ranks) is not int or self.ranks < 1):
            raise InputError(f"ranks must be at least 1, got {self.ranks!r:.80}", where=self._where)
        self._reduction()

    def _reduction(self) -> Reduction:
        return Reduction(self.reduce, self.dtype, self.accumulate)

    @property
    def _where(self) -> str:
        return f"contract {self.name!r}"

    @classmethod
    def like(
        cls, collective: str, size: int | str, *, root: int = 0, name: str = "", **options: Any
    ) -> Contract:
        """Return the contract of a collective that astranb has, to change its numbers, operator or memory.

        Its algorithms can be used by name: ``Collective.of(contract, algorithm="ring")``.

        Parameters
        ----------
        collective : str
            For example ``"all_reduce"``.
        size : int or str
            Bytes of the larger of a rank's two buffers, a multiple of its chunks.
        root : int
            The root of a rooted collective.
        name : str
            By default that of the collective and the operator: ``all_reduce_max``.
        **options
            ``in_place``, ``reduce``, ``dtype``, ``accumulate``.

        Raises
        ------
        InputError
            The collective moves no chunks, or the size does not divide.

        Examples
        --------
        >>> Contract.like("all_reduce", "1 MiB", dtype="bf16", accumulate="fp32").name
        'all_reduce_sum'
        """
        kind = collective_kind(collective)
        if kind.silent or kind.routed:
            what = f"a {collective} promises no chunks by rank"
            raise InputError(what, where="contract", hint="use for example all_reduce")
        whole = size_bytes(size)

        def sizes(ranks: int, side: int) -> list[int]:
            counts = kind.input_chunks(ranks), kind.output_chunks(ranks)
            each, rest = divmod(whole, max(counts))
            if rest:
                hint = f"use a multiple of {max(counts)} B"
                raise InputError(
                    f"{whole:,} B of {collective} on {ranks} ranks do not divide", where="size", hint=hint
                )
            return [each] * counts[side]

        def post(rank: int, chunk: int, ranks: int) -> set[tuple[int, int]]:
            at = np.array([rank]), np.array([chunk])
            times, of_chunk = promised(collective, root, ranks, kind.output_chunks(ranks), *at)
            return {(source, int(of_chunk[0])) for source in np.flatnonzero(times[0]).tolist()}

        return cls(
            inputs=lambda _, n: sizes(n, 0),
            outputs=lambda r, n: sizes(n, 1) if not kind.root_only or r == root else [],
            post=post,
            name=name or f"{collective}_{options.get('reduce', 'sum')}",
            busbw=kind.busbw,
            base=collective,
            root=root,
            **options,
        )

    @property
    def parameters(self) -> tuple[AlgorithmParameter, ...]:
        """Its parameters, where a function makes it: see :func:`contract`."""
        return (parameters_of(self._write, of_program=False) or ()) if self._write else ()

    def with_params(self, **values: ParameterValue) -> Contract:
        """Return the contract with other values of its parameters.

        Raises
        ------
        InputError
            It has no parameter of this name.
        """
        if self._write is None and values:
            hint = "make it with a function: @contract above def halo(*, size=4096)"
            raise InputError(f"it has no parameter {next(iter(values))!r}", where=self._where, hint=hint)
        return _made_by(self._write, values) if values and self._write else self

    __call__ = with_params  # as the function that makes it is called: halo(size=65536)

    def given(
        self, values: Mapping[str, ParameterValue], write: Callable[..., None]
    ) -> tuple[Contract, dict[str, ParameterValue]]:
        """Return the contract with those values that are of its parameters, and those of an algorithm's.

        Raises
        ------
        InputError
            Neither has a parameter of this name.
        """
        own, found = {one.name for one in self.parameters}, parameters_of(write)
        theirs = None if found is None else {one.name for one in found}
        for name in values:
            if own and theirs is not None and name not in own | theirs:
                what = f"neither the contract nor {algorithm_name(write)} has a parameter {name!r}"
                raise InputError(what, where=self._where, hint=near(name, own | theirs))
        rest = {name: values[name] for name in values if name not in own or name in (theirs or ())}
        return self.with_params(**{name: values[name] for name in values if name in own}), rest

    def size(self, ranks: int) -> int:
        """Return the bytes of the largest buffer of a rank: the size of the collective."""
        return self.on(ranks).size

    def on(self, ranks: int) -> ChunkLayout:
        """Return the chunks of so many ranks, and what their outputs must hold; the functions are asked once.

        Raises
        ------
        InputError
            It is for another number of ranks, a function fails, or what it returns cannot be met.
        """
        if self.ranks not in (None, ranks):
            raise InputError(
                f"it is for {self.ranks} ranks, not {ranks}",
                where=self._where,
                hint=f"use an infrastructure with {self.ranks} GPUs",
            )
        if ranks not in self._made:
            self._made[ranks] = _Layouts(self, ranks).made()
        return self._made[ranks]


def contract(write: Callable[..., Contract]) -> Contract:
    """Return the contract that a function makes, whose keywords are the contract's parameters.

    They get values as the parameters of an algorithm do: by ``params=`` and ``--param``, or by
    :meth:`Contract.with_params`. A parameter that the algorithm has, too, has one value for both. The
    contract has the function's name.

    Raises
    ------
    InputError
        A parameter has no default, or the function fails or returns no contract.

    Examples
    --------
    >>> @contract
    ... def halo(*, size=4096):
    ...     return Contract(
    ...         inputs=lambda r: [size, size],
    ...         outputs=lambda r: [size, size],
    ...         post=lambda r, k, n: {((r + 2 * k - 1) % n, 1 - k)},
    ...     )
    >>> halo.size(4), halo.with_params(size=64).size(4), halo.with_params(size=64).name
    (8192, 128, 'halo(size=64)')
    """
    return _made_by(write, {})


def _made_by(write: Callable[..., Contract], values: Mapping[str, ParameterValue]) -> Contract:
    """Return the contract that a function makes of values of its parameters."""
    name, known = algorithm_name(write), parameters_of(write, of_program=False)
    where = f"contract {name!r}"
    if known is None or any(one.default is NEEDED for one in known):
        hint = f"write def {name}(*, size=4096)"
        raise ProgramError(
            "each parameter needs a name and a default", _line_of(write), where=where, hint=hint
        )
    check_values(dict(values))
    bound = bind_parameters(write, values, of_program=False)
    try:
        found = bound()
    except Exception as error:  # whatever a user's function raises
        raise failure(error, where) from error
    if not isinstance(found, Contract):
        hint = "return Contract(inputs=…, outputs=…, post=…)"
        raise ProgramError(f"the function returns {found!r:.60}", _line_of(write), where=where, hint=hint)
    made = replace(found, name=(name if found.name == "contract" else found.name) + title_of(values))
    object.__setattr__(made, "_write", write)
    return made


class _Layouts:
    """Asks the functions of a contract, and checks what they answer."""

    def __init__(self, contract: Contract, ranks: int) -> None:
        self.contract, self.ranks = contract, ranks
        self.buffers: dict[tuple[str, str], np.ndarray] = {}
        self.parameters: dict[int, int] = {}  # by id of a function

    def made(self) -> ChunkLayout:
        contract = self.contract
        self.inputs, self.outputs = (self._chunks(side) for side in ("input", "output"))
        if not self.outputs.shape[1]:
            self._refuse(None, "no rank has an output", hint="outputs(r) returns sizes of chunks")
        self.starts = np.searchsorted(self.inputs[0], np.arange(self.ranks + 1)).tolist()
        held: list[tuple[int, list[int]]] = []
        first = [0]
        for name, function in _named(contract.post).items():
            held += self._posts(name, function)
        order = sorted(held)  # by rank and chunk: those of several buffers one after another
        contributions: list[int] = []
        for _, of_output in order:
            contributions += of_output
            first.append(len(contributions))
        return ChunkLayout(
            self.inputs,
            self.outputs,
            np.array(first, np.int64),
            np.array(contributions, np.int64),
            self.ranks,
            self._places(),
            contract._reduction(),  # noqa: SLF001 - of the same module
            busbw=self._busbw(contract.busbw),
            base=contract.base,
            buffers={key: spans for key, spans in self.buffers.items() if key[1]},
        )

    def _chunks(self, side: str) -> np.ndarray:
        """Return rank, index and bytes of all chunks, and remember which buffers they are in."""
        functions = _named(self.contract.inputs if side == "input" else self.contract.outputs)
        spans = {name: np.zeros((self.ranks, 2), np.int64) for name in functions}
        found: list[tuple[int, int, int]] = []
        for rank in range(self.ranks):
            count = 0
            for name, function in functions.items():
                sizes = self._sizes(function, f"{side}s", rank)
                spans[name][rank] = count, len(sizes)
                found += [(rank, count + k, size) for k, size in enumerate(sizes)]
                count += len(sizes)
            if len(found) > _MOST_CHUNKS:
                self._refuse(
                    next(iter(functions.values())), f"more than {_MOST_CHUNKS:,} chunks", hint="use fewer"
                )
        self.buffers |= {(side, name): span for name, span in spans.items()}
        return np.array(found, np.int64).reshape(-1, 3).T.copy()

    def _sizes(self, function: _Sizes, side: str, rank: int) -> list[int]:
        given = self._ask(function, f"{side}({rank})", rank)
        listed = [given] if isinstance(given, str | int | np.integer) else given
        numbers = NUMBER_BYTES.get(self.contract.dtype or "", 1)
        sizes = []
        try:
            for one in listed:
                size = int(one) if isinstance(one, int | np.integer) else self._size(one)
                if size < 0:
                    raise InputError(f"chunk size must not be negative, got {size}")  # noqa: TRY301 - where it is follows below
                if size % numbers:
                    what = f"a chunk of {size:,} B does not hold a whole number of {self.contract.dtype}"
                    raise InputError(what, hint=f"use multiples of {numbers} B")  # noqa: TRY301
                sizes.append(size)
        except InputError as error:
            self._refuse(function, f"{side}({rank}): {error.what}", hint=error.hint)
        except (TypeError, ValueError):
            self._refuse(
                function,
                f"{side}({rank}) returns {given!r:.60}",
                hint="return the bytes of each chunk, as [4096, '64 KiB']",
            )
        return sizes

    @staticmethod
    def _size(given: Any) -> int:
        if not isinstance(given, str):
            raise TypeError
        return 0 if given.strip().partition(" ")[0] == "0" else size_bytes(given)

    def _posts(self, name: str, function: _Sizes) -> Iterable[tuple[int, list[int]]]:
        """Return each output of a buffer with its contributions, as columns of outputs and of inputs."""
        found = []
        starts = np.searchsorted(self.outputs[0], np.arange(self.ranks))
        for rank in range(self.ranks):
            offset, count = self.buffers["output", name][rank].tolist()
            for k in range(count):
                column = int(starts[rank]) + offset + k
                found.append(
                    (column, self._contributions(name, function, rank, k, int(self.outputs[2, column])))
                )
        return found

    def _contributions(self, name: str, function: _Sizes, rank: int, k: int, size: int) -> list[int]:
        output = f"output{f'[{name!r}]' if name else ''}[{k}] of rank {rank}"
        given = self._ask(function, f"post({rank}, {k})", rank, k)
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            given = {None}
        columns = set()
        for one in given:
            column, text = self._column(function, output, one)
            if self.inputs[2, column] != size:
                self._refuse(
                    function,
                    f"{output} has {size:,} B, and {text}, which it must hold, has "
                    f"{self.inputs[2, column]:,} B",
                    hint="make both sizes equal",
                )
            columns.add(column)
        if not columns and size:
            self._refuse(
                function,
                f"{output} is promised nothing",
                hint=f"let post({rank}, {k}) return {{(rank, chunk)}}, or leave the chunk out of outputs",
            )
        return sorted(columns)

    def _column(self, function: _Sizes, output: str, one: Any) -> tuple[int, str]:
        """Return the input that a contribution is, and its name."""
        several = isinstance(self.contract.inputs, Mapping)
        numbers = tuple(one[:1]) + tuple(one[-1:]) if isinstance(one, tuple | list) else ()
        wanted = 3 if several else 2
        if (
            len(numbers) != 2
            or len(one) != wanted
            or not all(isinstance(x, int | np.integer) for x in numbers)
        ):
            form = "(rank, name, chunk)" if several else "(rank, chunk)"
            self._refuse(function, f"{output} must hold {one!r:.60}", hint=f"let post return a set of {form}")
        source, chunk = (int(number) for number in numbers)
        name = one[1] if several else ""
        if not 0 <= source < self.ranks:
            hint = f"ranks are 0 to {self.ranks - 1}"
            self._refuse(
                function, f"{output} must hold a chunk of rank {source}, which does not exist", hint=hint
            )
        if several and ("input", name) not in self.buffers:
            hint = near(str(name), [known for side, known in self.buffers if side == "input"])
            self._refuse(function, f"{output} must hold a chunk of input {name!r:.60}", hint=hint)
        offset, count = self.buffers["input", name][source].tolist()
        text = f"input{f'[{name!r}]' if name else ''}[{chunk}] of rank {source}"
        if not 0 <= chunk < count:
            hint = f"rank {source} has {plural(count, 'chunk')} there"
            self._refuse(function, f"{output} must hold {text}, which does not exist", hint=hint)
        return self.starts[source] + offset + chunk, text

    def _places(self) -> np.ndarray:
        """Return the input in whose memory each output is; -1 for none."""
        given = self.contract.in_place
        place = np.full(self.outputs.shape[1], -1, np.int64)
        if given is False:
            return place
        counts = np.diff(self.starts).tolist()
        absent = [k for k in given if k not in self.outputs[1]] if isinstance(given, Mapping) else []
        if absent:
            what = f"output[{absent[0]}], which in_place names, does not exist on any rank"
            self._refuse(None, what, hint=f"chunks of outputs are 0 to {self.outputs[1].max()}")
        taken: set[int] = set()
        for column, (rank, k, size) in enumerate(self.outputs.T.tolist()):
            if given is True:
                chunk = k if k < counts[rank] else None
            elif isinstance(given, Mapping):
                chunk = given.get(k)
            else:
                chunk = self._ask(given, f"in_place({rank}, {k})", rank, k)
            if chunk is None:
                continue
            if not isinstance(chunk, int | np.integer) or not 0 <= chunk < counts[rank]:
                what = f"output[{k}] of rank {rank} shares the memory of input[{chunk}], which does not exist"
                self._refuse(given, what, hint=f"rank {rank} has {counts[rank]} input chunks")
            to = self.starts[rank] + int(chunk)
            if self.inputs[2, to] != size:
                what = f"output[{k}] of rank {rank} has {size:,} B, input[{chunk}], whose memory it shares,"
                self._refuse(given, f"{what} {self.inputs[2, to]:,} B", hint="make both sizes equal")
            if to in taken:
                what = f"two outputs of rank {rank} share the memory of input[{chunk}]"
                self._refuse(given, what, hint="give each an input of its own")
            taken.add(to)
            place[column] = to
        return place

    def _busbw(self, given: float | Callable[[int], float] | None) -> float | None:
        if not callable(given):
            return given
        factor = self._ask(given, f"busbw({self.ranks})", self.ranks)
        if not isinstance(factor, int | float):
            what = f"busbw({self.ranks}) returns {factor!r:.60}"
            self._refuse(given, what, hint="return the factor from algbw to busbw")
        return float(factor)

    def _ask(self, function: _Sizes, call: str, *values: int) -> Any:
        """Call a function, with the number of ranks if it has one parameter more."""
        if id(function) not in self.parameters:
            self.parameters[id(function)] = _parameters(function)
        if self.parameters[id(function)] > len(values):
            values = (*values, self.ranks)
        try:
            return function(*values)
        except InputError:
            raise
        except Exception as error:  # whatever a user's function raises
            what, line = (
                f"{call}: {type(error).__name__}: {error}",
                line_of_error(error) or _line_of(function),
            )
            where, hint = self.contract._where, nearest_name(error)  # noqa: SLF001
            raise ProgramError(what, line, where=where, hint=hint) from error

    def _refuse(self, function: Any, what: str, *, hint: str) -> NoReturn:
        written = function if callable(function) else next(iter(_named(self.contract.outputs).values()))
        raise ProgramError(what, _line_of(written), where=self.contract._where, hint=hint)  # noqa: SLF001


def _named(given: _Sizes | Mapping[str, _Sizes]) -> Mapping[str, _Sizes]:
    """Return functions by the name of their buffer; an only buffer has no name."""
    return given if isinstance(given, Mapping) else {"": given}


def _parameters(function: _Sizes) -> int:
    """Return how many parameters of a function must be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in
        return 0
    return sum(1 for one in listed if one.kind in kinds and one.default is inspect.Parameter.empty)


def _line_of(function: Any) -> SourceLine | None:
    """Return where a function begins, if it is written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return SourceLine(code.co_filename, code.co_firstlineno) if code is not None else None
