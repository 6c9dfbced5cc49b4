"""Reads traffic of any format, which is detected from the content of the file."""

from __future__ import annotations

from pathlib import Path

from astranb.core.errors import InputError
from astranb.core.file_formats import format_of, names_format, read_by_plugin
from astranb.core.packed import readable
from astranb.traffic.graph import MessageGraph
from astranb.traffic.pattern import Pattern
from astranb.traffic.store import read_pattern

from .goal import read_goal
from .htsim import read_htsim
from .tables import read_tables, table_exists

__all__ = ["read_traffic"]


@names_format("GOAL", "HTSim traffic", "traffic")
def read_traffic(path: str | Path) -> Pattern | MessageGraph:
    """Read a pattern, or the messages of another format.

    Parameters
    ----------
    path : str or Path
        A pattern (Parquet), a GOAL schedule, a connection matrix of htsim, or tables of messages: ``job.csv``
        for ``job.messages.csv`` and so on.

    Raises
    ------
    InputError
        The file cannot be read, or has none of these formats.
    """
    if table_exists(path):
        return read_tables(path)
    with readable(path) as place, place.open("rb") as file:
        begin = file.read(4)
    if begin == b"PAR1":
        return read_pattern(path)
    found = format_of(path)
    if found and found.key == "GOAL":
        return read_goal(path)
    if found and found.key == "HTSim traffic":
        return read_htsim(path)
    by_plugin = read_by_plugin(path, "traffic", MessageGraph)
    if by_plugin is not None:
        return by_plugin
    hint = "give a pattern (Parquet), a GOAL schedule, a connection matrix of htsim, or tables of messages"
    raise InputError("no traffic of a known format", where=str(path), hint=hint)
