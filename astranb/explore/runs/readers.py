"""Readers of values from text, and of what names a function, a contract or an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from astranb.core.confined import check_python
from astranb.core.errors import AstranbError, InputError, near
from astranb.core.file_formats import has_plugin

__all__ = [
    "algorithm_of",
    "are_missing",
    "both_given",
    "cache_bytes",
    "collective_of",
    "file_named",
    "flag_of",
    "function_of",
    "is_contract",
    "number",
    "params_of",
    "positive",
    "root_of",
    "truth",
    "whole",
]

_MOST: Final = (1 << 63) - 1


def flag_of(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def are_missing(names: Sequence[str]) -> str:
    """Return the sentence that options are missing.

    Examples
    --------
    >>> are_missing(["--infra", "--size"]), are_missing(["--infra"])
    ('--infra and --size are missing', '--infra is missing')
    """
    listed = " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
    return f"{listed} {'are' if names[1:] else 'is'} missing"


def both_given(first: str, second: str, where: str) -> InputError:
    """Return the error that only one of two options may be given."""
    return InputError(f"{first} and {second} exclude each other", where=where, hint="leave one of them out")


def whole(low: int, high: int = _MOST) -> Callable[[str], int]:
    """Return a reader of whole numbers from low to high."""
    span = f"{low:,} to {high:,}" if high < _MOST else f"{low:,} or more, below 2**63"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise InputError(f"{text[:40]!r} is not a whole number") from None
        if not low <= value <= high:
            raise InputError(f"{text[:40]} is out of range; use {span}")
        return value

    return read


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{text[:40]!r} is not a number") from None


def positive(high: float = 1e6) -> Callable[[str], float]:
    """Return a reader of numbers above 0 and up to the highest."""

    def read(text: str) -> float:
        value = number(text)
        if not 0 < value <= high:
            raise InputError(f"{text[:40]} is out of range; use a number above 0, up to {high:g}")
        return value

    return read


def file_named(*endings: str) -> Callable[[str], str]:
    """Return a reader of names of files to write, by their endings."""

    def read(text: str) -> str:
        if not text:
            raise InputError("the name is empty")
        if not text.lower().endswith(endings):
            raise InputError(f"{text[:60]!r} has another ending; use {' or '.join(endings)}")
        return text

    return read


def truth(text: str) -> bool:
    """Read true or false."""
    if text.lower() not in ("true", "false"):
        raise InputError(f"{text[:40]!r} is neither true nor false")
    return text.lower() == "true"


def cache_bytes(text: str) -> int:
    """Read the bytes of a number of a precision."""
    if text not in ("bf16", "fp16", "fp8"):
        hint = near(text, ("bf16", "fp8"))
        raise InputError(f"unknown precision {text[:40]!r}", where="cache_precision", hint=hint)
    return 1 if text == "fp8" else 2


def function_of(text: str) -> Any:
    """Execute the Python file of ``FILE.py:FUNCTION``, and return its function."""
    return _defined(text, "function", callable)


def _defined(text: str, what: str, fits: Callable[[Any], bool]) -> Any:
    """Execute the Python file of ``FILE.py:NAME``, and return what has the name, if it is such a thing."""
    import runpy

    from astranb.collectives.language import ProgramError, SourceLine, failure

    file, _, name = text.rpartition(":")
    if not file.endswith(".py"):
        raise InputError(f"it names no {what}", where=text[:60], hint=f"write FILE.py:{what.upper()}")
    check_python(file)
    try:
        defined = runpy.run_path(file)
    except OSError as error:
        hint = f"give FILE.py:{what.upper()}"
        raise InputError(error.strerror or str(error), where=file, hint=hint) from error
    except SyntaxError as error:
        line = SourceLine(error.filename or file, error.lineno or 1)
        raise ProgramError(error.msg, line) from error
    except Exception as error:  # whatever the file raises
        if isinstance(error, AstranbError):
            raise
        raise failure(error) from error
    known = [key for key, value in defined.items() if fits(value) and not key.startswith("_")]
    if name not in known:
        raise InputError(f"unknown {what} {name!r}", where=file, hint=near(name, known))
    return defined[name]


def is_contract(collective: Any) -> bool:
    """Return whether it is a contract, or names one of a file (``FILE.py:CONTRACT``)."""
    return collective is not None and (not isinstance(collective, str) or ".py:" in collective)


def collective_of(text: Any) -> Any:
    """Return what ``--collective`` names: a name, or a contract.

    ``FILE.py:CONTRACT`` executes the Python file. A contract of this process is returned as it is.
    """
    if not isinstance(text, str) or not is_contract(text):
        return text
    from astranb.collectives import Contract

    return _defined(text, "contract", lambda value: isinstance(value, Contract))


def root_of(collective: Any, root: int | None) -> dict[str, int]:
    """Return ``root=`` of a collective; nothing where it is not given.

    Raises
    ------
    InputError
        The collective has no root.
    """
    from astranb.collectives import COLLECTIVES

    if root is None:
        return {}
    kind = COLLECTIVES.get(collective) if isinstance(collective, str) else None
    if kind is not None and not kind.rooted:
        rooted = [name for name, one in COLLECTIVES.items() if one.rooted]
        hint = f"leave it out; collectives with a root: {', '.join(rooted)}"
        raise InputError(f"{collective} has no root", where="--root-rank", hint=hint)
    return {"root": root}


def algorithm_of(text: Any) -> Any:
    """Return what ``--algorithm`` names: a name, the content of a file, or a function.

    ``FILE.py:FUNCTION`` executes the Python file. A function of this process is returned as it is.
    """
    if callable(text):
        return text
    if text is not None and (text.lower().endswith((".json", ".xml", ".csv")) or has_plugin(text)):
        from astranb.collectives import read_algorithm

        return read_algorithm(text)
    if text is None or not (".py:" in text or text.endswith(".py")):
        return text
    return function_of(text)


def params_of(param: Sequence[str] | None) -> dict[str, Any]:
    """Return ``params=`` of a collective, from ``--param NAME=VALUE``; nothing where there are none."""
    if not param:
        return {}
    from astranb.collectives.language import parameters_given

    return {"params": parameters_given(list(param), "--param")}
