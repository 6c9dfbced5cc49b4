"""Reads traffic, whatever the format: told by the content of the file."""

from __future__ import annotations

from pathlib import Path

from astranb.core.errors import InputError

from ._graph import MessageGraph
from ._pattern import Pattern
from ._store import read_pattern
from .targets.goal import read_goal

__all__ = ["read_traffic"]


def read_traffic(path: str | Path) -> Pattern | MessageGraph:
    """Read a pattern, or the messages of another format.

    Parameters
    ----------
    path : str or Path
        A pattern (Parquet) or a GOAL schedule.

    Raises
    ------
    InputError
        The file cannot be read, or has none of these formats.
    """
    where = str(path)
    try:
        with Path(path).open("rb") as file:
            begin = file.read(4096)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from None
    if begin[:4] == b"PAR1":
        return read_pattern(path)
    if b"num_ranks" in begin:
        return read_goal(path)
    hint = "give a pattern (Parquet) or a GOAL schedule"
    raise InputError("no traffic of a known format", where=where, hint=hint)
