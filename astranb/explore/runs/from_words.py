"""Specifications from words, as sweeps give them; and back to a command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, Final

from astranb.core.errors import InputError, near

from .readers import both_given, flag_of
from .specs import EXCHANGES, CollectiveRun, ExchangeRun, JobsRun, ModelRun, RunSpec, TraceRun

__all__ = ["FILE_WORDS", "RUNS", "line_of", "option_names", "spec_of", "takes_several"]

RUNS: Final[tuple[type[RunSpec], ...]] = (CollectiveRun, ExchangeRun, ModelRun, TraceRun, JobsRun)
FILE_WORDS: Final = ("infra", "jobs", "workload", "system", "network", "memory", "comm_group", "algorithm",
                     "routing", "model", "gpu", "kernels", "root", "training_loops")  # fmt: skip
"""Fields that may name a file or folder that is read."""
_PLAIN: Final = (str, int, float, bool)


@cache
def _fields() -> dict[str, Field[Any]]:
    return {one.name: one for kind in RUNS for one in fields(kind)}


def option_names() -> list[str]:
    """Return the names of all fields, which are the words of sweeps."""
    return list(_fields())


def takes_several(name: str) -> bool:
    """Return whether there is such a field, and it takes several values.

    Examples
    --------
    >>> takes_several("down"), takes_several("units_count"), takes_several("size")
    (True, True, False)
    """
    return name in _fields() and _fields()[name].default == ()


def _kind(words: Mapping[str, Any]) -> type[RunSpec]:
    """Return what words run."""
    chosen = [kind for kind in RUNS if kind is not ExchangeRun and words.get(kind.subject) is not None]
    if len(chosen) > 1:
        raise both_given(flag_of(chosen[0].subject), flag_of(chosen[1].subject), "run")
    if not chosen:
        raise InputError("nothing to run", where="run", hint="give collective, model, workload or jobs")
    exchanged = isinstance(words.get("collective"), str) and words["collective"] in EXCHANGES
    return ExchangeRun if exchanged else chosen[0]


def spec_of(words: Mapping[str, Any]) -> RunSpec:
    """Make a specification of words.

    Parameters
    ----------
    words : mapping
        By field, with ``_`` or ``-`` between words; a list for several values, True for an option
        without one. None and False are as if they were not given.

    Raises
    ------
    InputError
        There is no such field, or it does not take the value.

    Examples
    --------
    >>> spec_of({"model": "gpt3-125m", "tp": "2", "sp": True}).tp
    2
    """
    named = {name.replace("-", "_"): value for name, value in words.items()}
    for name in named:
        if name not in _fields():
            raise InputError(f"unknown option {name[:40]!r}", where="run", hint=near(name, _fields()))
    kind = _kind(named)
    taken = {one.name: one for one in fields(kind)}
    values = {}
    for name, value in named.items():
        if value is None or value is False:
            continue
        if name not in taken:
            raise InputError(
                f"{flag_of(name)} does not apply to {kind.kind}", where="run", hint="leave it out"
            )
        values[name] = _read(taken[name], value)
    return kind(**values)


def _read(field: Field[Any], value: Any) -> Any:
    """Return the value of a field: objects of this process as they are."""
    read, alone = field.metadata["read"], field.metadata["alone"]
    if value is True and alone is not None:
        return alone
    several = isinstance(value, list | tuple)
    if not several and not isinstance(value, _PLAIN):
        return value
    try:
        if field.default == ():
            return tuple(read(str(one)) for one in (value if several else [value]))
        return read(str(value))
    except InputError as error:
        raise InputError(error.what, where=f"run: {flag_of(field.name)}", hint=error.hint) from None


def line_of(words: Mapping[str, Any], write: Callable[[object], str] = str) -> list[str]:
    """Return the words of a command line that runs this.

    Parameters
    ----------
    words : mapping
        As for :func:`spec_of`.
    write : callable
        Writes one value.

    Examples
    --------
    >>> line_of({"collective": "all_gather", "down": ["A->B", "C"], "size": "1 MiB", "roce": True})
    ['astranb', 'run', 'collective', 'all_gather', '--down=A->B', '--down=C', '--size=1 MiB', '--roce']
    """
    words = {name.replace("-", "_"): value for name, value in words.items()}
    kind = _kind(words)
    line = ["astranb", "run", kind.name, write(words[kind.subject])]
    for name, value in words.items():
        flag = flag_of(name)
        if name == kind.subject or value is None or value is False:
            continue
        if value is True:
            line.append(flag)
        elif _fields()[name].metadata["together"]:
            line += [flag, *map(write, _listed(value))]
        else:
            line += [f"{flag}={write(one)}" for one in _listed(value)]
    return line


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]
