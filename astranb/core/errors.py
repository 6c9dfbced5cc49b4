"""Errors that name the problem, its place and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AstranbError",
    "Deadlock",
    "InputError",
    "InputWarning",
    "NoRoute",
    "TruncatedFile",
    "WrongResult",
    "near",
    "nearest",
    "suggestion",
]


_MOST_CHARACTERS, _LONGEST_WORD = 4000, 300
_LONGEST_NAME, _MOST_COMPARED = 200, 5000  # comparing names takes time, and no person mistypes longer ones


class AstranbError(Exception):
    """Base of every error that astranb raises on purpose.

    Attributes
    ----------
    exit_code : int
        What the command line exits with.
    """

    exit_code = 1


class InputError(AstranbError, ValueError):
    """Unusable input: one line with the problem, its place and a hint.

    Parameters
    ----------
    what : str
        What is wrong, in a few words.
    where : str, optional
        File and line, object name or option.
    hint : str, optional
        What to do about it.

    Examples
    --------
    >>> str(InputError("unknown unit 'MX'", where="--size", hint="use MB or MiB"))
    "--size: unknown unit 'MX'; use MB or MiB"
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        line = f"{where}: {what}" if where else what
        if hint:
            line = f"{line}; {hint}"
        words = (one if len(one) <= _LONGEST_WORD else f"{one[:120]}…{one[-80:]}" for one in line.split())
        line = " ".join(words)
        if len(line) > _MOST_CHARACTERS:  # a name in a hostile file can have megabytes
            line = f"{line[: _MOST_CHARACTERS // 2]} … {line[-_MOST_CHARACTERS // 2 :]}"
        super().__init__(line)


class NoRoute(InputError):
    """Two ranks that should communicate have no link between them."""


class TruncatedFile(InputError):
    """A file ends before its contents do.

    Parameters
    ----------
    at : int
        The byte up to which it is whole.
    """

    def __init__(self, what: str, *, at: int, where: str = "", hint: str = "is the file cut off?") -> None:
        super().__init__(what, where=where, hint=hint)
        self.at = at


class InputWarning(UserWarning):
    """Questionable input, which is used: one line, with what to do about it."""


class Deadlock(AstranbError):
    """Deadlock of the simulated system; the text names the cycle of waits."""

    exit_code = 3


class WrongResult(AstranbError):
    """A collective ended with wrong contents; the text names rank and chunk."""

    exit_code = 4


def near(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """Suggest the known names nearest to an unknown name.

    Parameters
    ----------
    name : str
        The name given.
    known : iterable of str
        The names there are.
    most : int
        How many near names to give at most.

    Returns
    -------
    str
        ``"did you mean 'a' or 'b'?"``, or a list of what is known.

    Examples
    --------
    >>> near("dgx-h10", ["dgx-h100", "mi300x"])
    "did you mean 'dgx-h100'?"
    """
    names = sorted(set(known))
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return suggestion(name, names, most=most) or f"known: {shown}"


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """Suggest the known names nearest to an unknown one, however far they are.

    Examples
    --------
    >>> nearest("gpu[9]", ["gpu[7]", "nvsw.0", "cpu.0", "cpu.1"])
    "did you mean 'gpu[7]' or 'cpu.1' or 'cpu.0'?"
    """
    return _asked(difflib.get_close_matches(name[:_LONGEST_NAME], _compared(known), n=most, cutoff=0.0))


def suggestion(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """Suggest the known names nearest to an unknown name; empty where none is near.

    A name in other letters (``LL`` for ``ll``) is the nearest; one that has the name as a word is the last.

    Examples
    --------
    >>> suggestion("allreduce", ["all_reduce", "broadcast"]), suggestion("x", ["all_reduce"])
    ("did you mean 'all_reduce'?", '')
    >>> suggestion("ll", ["LL", "LL128"]), suggestion("get", ["ring", "allpairs_get"])
    ("did you mean 'LL'?", "did you mean 'allpairs_get'?")
    """
    if len(name) > _LONGEST_NAME:
        return ""
    some, small = _compared(known), name.lower()
    close = (
        [one for one in some if one.lower() == small]
        or difflib.get_close_matches(name, some, n=most, cutoff=0.6)
        or [one for one in some if small in one.lower().split("_")]
    )
    return _asked(close[:most])


def _compared(known: Iterable[str]) -> list[str]:
    return [one for one in sorted(set(known)) if len(one) <= _LONGEST_NAME][:_MOST_COMPARED]


def _asked(names: Iterable[str]) -> str:
    choice = " or ".join(map(repr, names))
    return f"did you mean {choice}?" if choice else ""
