"""Runs of one collective over its sizes, the parameters of its function, channels and numbers of the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.collectives.language import algorithm_name, check_protocol, parameters_of
from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes
from astranb.gpu import preset
from astranb.hardware import DEFAULT_GPU
from astranb.infragraph import Infra, resolve

from .axes import SweepAxis
from .expressions import Expression
from .points import PROVE
from .spec import Objective, SearchSpec, SweepSpec, SweepStage
from .sweep import Sweep

if TYPE_CHECKING:
    from astranb.collectives import Contract

    from .result import SweepResult

__all__ = ["sweep"]

Values = Sequence[Any]


def sweep(
    infra: Infra | str | Path,
    collective: str | Contract,
    algorithm: str | Callable[..., None] | None = None,
    *,
    sizes: Values | None = None,
    params: Mapping[str, Values] | None = None,
    channels: Values = (),
    protocols: Sequence[str] = (),
    gpu: str | Path | Mapping[str, Any] | None = None,
    fidelity: str | None = None,
    prove: bool = True,
    workers: int = 0,
) -> SweepResult:
    """Run a collective with every combination of sizes, parameters, channels, protocols and GPU numbers.

    It is a :class:`Sweep` whose axes are ``size``, ``params.NAME``, ``channels``, ``protocol`` and
    ``gpu.NAME``: a file of a sweep has the same names.

    Parameters
    ----------
    infra : Infra or str or Path
        As for :class:`astranb.Simulation`.
    collective : str or Contract
        As ``"all_reduce"``.
    algorithm : str or callable, optional
        A name, a file of an algorithm, or a function over a program; by default that of the collective.
    sizes : sequence of int or str
        Bytes of the larger buffer of a rank; by default 1 MiB. A contract has its own.
    params : mapping of str to sequence
        Values of the function's parameters, by name. Those that are left out have their defaults.
    channels : sequence of int
        Sets of thread blocks that share the work; by default as many as the size asks for. (Physical lanes
        belong to links: change those in the infrastructure.)
    protocols : sequence of str
        Of ``"Simple"``, ``"LL"``, ``"LL128"``; by default ``"Simple"``.
    gpu : str or Path or mapping, optional
        As for :class:`astranb.Simulation`: a kind of GPU, or numbers by name, of which each may be a sequence
        of values, as ``{"unroll": [4, 8]}``.
    fidelity : str, optional
        By default ``"cacheline"``; whole messages do not execute a function.
    prove : bool
        Whether every program is verified before it runs, by cache lines.
    workers : int
        Processes; 0: this one. Others are started first, which takes seconds.

    Returns
    -------
    SweepResult
        :meth:`~SweepResult.to_dataframe` has a row for each run: the axes, ``status``, ``time_ps``,
        ``algbw_Bps``, ``busbw_Bps``, ``events``, ``proved`` and ``fault`` (of a program that is wrong: it
        runs all the same, but is not among the best), ``error`` (of a run that could not end).
        :meth:`~SweepResult.figure` draws time over size.

    Raises
    ------
    InputError
        A parameter, a number of the GPU or something else is unknown, or an axis has no values.

    Examples
    --------
    >>> import astranb as anb
    >>> def chain(p, *, slices=1):
    ...     for s in p.cut_into(slices):
    ...         wires = p.connections()
    ...         for me in p.everyone:
    ...             block = me.block()
    ...             for k in range(len(me.input)):
    ...                 if me.number > 0:
    ...                     block.copy(wires[p.rank(me.number - 1), me].receive(block), me.output[k])
    ...                 else:
    ...                     block.copy(me.input[k], me.output[k])
    ...                 if me.number < p.ranks - 1:
    ...                     wires[me, p.rank(me.number + 1)].send(block, me.output[k])
    >>> found = anb.explore.sweep(
    ...     "switch:gpus=4", "broadcast", chain, sizes=["16 KiB"], params={"slices": [1, 2]}, channels=[1]
    ... )
    >>> found.to_dataframe()[["size", "params.slices", "proved"]].values.tolist()
    [['16 KiB', 1, True], ['16 KiB', 2, True]]
    """
    where = resolve(infra)
    run: dict[str, Any] = {"infra": where, "collective": collective}
    by_lines = fidelity in (None, "cacheline")
    if algorithm is not None:
        run["algorithm"] = algorithm
    if prove and by_lines:
        run[PROVE] = True
    if fidelity is not None:
        run["fidelity"] = fidelity
    for protocol in protocols:
        check_protocol(protocol)
    numbers: dict[str, Any] = {}
    if isinstance(gpu, Mapping):
        numbers = dict(gpu)
        gpu = numbers.pop("preset", None)
    if gpu is not None:
        run["gpu"] = str(gpu)
    axes: dict[str, Values] = {"size": _sizes(collective, sizes)}
    axes |= {
        f"params.{name}": values for name, values in _checked(collective, algorithm, params or {}).items()
    }
    axes |= {"channels": channels, "protocol": protocols}
    axes |= {f"gpu.{name}": values for name, values in _of_gpu(numbers).items()}
    spec = SweepSpec(
        f"{collective if isinstance(collective, str) else collective.name} sweep",
        run,
        [SweepAxis(name, tuple(values)) for name, values in axes.items() if len(values)],
        [Expression("proved == 1")] if PROVE in run else [],
        [Objective(Expression("time_ps"), 1)],
        SearchSpec(),
        [SweepStage()],
    )
    return Sweep(spec).run(workers=workers)


def _sizes(collective: str | Contract, sizes: Values | None) -> list[str]:
    """Return the sizes as texts, checked; none for a contract, which has its own."""
    if not isinstance(collective, str):
        if sizes is not None:
            what = f"contract {collective.name!r} has its own size"
            raise InputError(what, where="sizes", hint="leave sizes out")
        return []
    found = ["1 MiB"] if sizes is None else [one if isinstance(one, str) else f"{one} B" for one in sizes]
    for one in found:
        size_bytes(one)
    if not found:
        raise InputError("no sizes", where="sizes", hint="give at least one, as '1 MiB'")
    return found


def _checked(collective: str | Contract, algorithm: Any, params: Mapping[str, Any]) -> dict[str, Values]:
    """Return the values of each parameter; refuse names that neither the function nor a contract has."""
    known = parameters_of(algorithm) if callable(algorithm) else None
    of_contract = () if isinstance(collective, str) else collective.parameters
    names = [one.name for one in (*(known or ()), *of_contract)]
    found = {}
    for name, values in params.items():
        if known is not None and name not in names:
            what = f"{algorithm_name(algorithm)} has no parameter {name!r}"
            raise InputError(what, where="params", hint=near(name, names))
        found[name] = _several(values)
        if not found[name]:
            raise InputError(f"{name} has no values", where="params", hint="give at least one")
    return found


def _of_gpu(numbers: Mapping[str, Any]) -> dict[str, Values]:
    """Return the values of each number of a GPU; refuse those that no GPU has."""
    found = {name: _several(values) for name, values in numbers.items()}
    preset(DEFAULT_GPU).but(**{name: values[0] for name, values in found.items() if values})
    return found


def _several(values: Any) -> Values:
    return list(values) if isinstance(values, list | tuple | range) else [values]
