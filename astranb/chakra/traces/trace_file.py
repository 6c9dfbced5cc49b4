"""Trace files: ``.et``, compressed or not, one per rank."""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from astranb.core.document import contents
from astranb.core.errors import InputError, suggestion
from astranb.core.file_formats import names_format
from astranb.core.files import whole_file, whole_files
from astranb.core.packed import unpacked

from .rank_trace import Trace

__all__ = [
    "MOST_BYTES",
    "beside",
    "present_ranks",
    "rank_file",
    "read",
    "read_present",
    "read_ranks",
    "traced_ranks",
    "write",
    "write_ranks",
]

MOST_BYTES: Final = 2 << 30
"""The largest trace that is read, compressed or not."""
_NAME: Final = re.compile(r"(.+)\.\d+\.et(?:\.gz)?")
_BEGUN: Final = 4096
_BLANK: Final = 0x20


@names_format("Chakra", "gzip", "zstd")
def read(path: str | Path) -> Trace:
    """Read the trace of one rank.

    Parameters
    ----------
    path : str or Path
        A ``.et`` file; gzip is recognised by the contents, not by the name.

    Returns
    -------
    Trace
        Not yet checked: :func:`check` tests whether it can be run.

    Raises
    ------
    InputError
        The file cannot be read, is truncated or is not a Chakra trace.
    """
    return _trace(_data(path), str(path))


def _data(path: str | Path) -> bytes:
    """The bytes of a trace, unpacked."""
    return unpacked(contents(path, MOST_BYTES), str(path), MOST_BYTES)


def _trace(data: bytes, where: str) -> Trace:
    if begins_as_text(data):
        form = "JSON" if data[:_BEGUN].removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[") else "text"
        hint = "give a Chakra trace, a PyTorch execution trace, a Kineto trace or a graph of NetworkX"
        raise InputError(f"{form}, but no trace of a known format", where=where, hint=hint)
    try:
        return Trace(data, where)
    except MemoryError:
        raise InputError("the trace does not fit in memory", where=where) from None


def begins_as_text(data: bytes) -> bool:
    """Return whether it is text, and so no trace: a trace has bytes near its beginning that no text has."""
    begin = data[:_BEGUN]
    if not begin or any(byte < _BLANK and byte not in b"\t\n\r" for byte in begin):
        return False
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(begin)  # its last letter may be cut
        return True
    return False


def write(trace: Trace, path: str | Path) -> None:
    """Write the trace of one rank atomically.

    Parameters
    ----------
    trace : Trace
        Written as read; one of an older schema in the current one.
    path : str or Path
        Compressed if the name ends in ``.gz``.

    Raises
    ------
    InputError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.chakra import TraceBuilder
    >>> step = TraceBuilder()
    >>> _ = step.collective("all_reduce", "1 MiB")
    >>> trace = step.build()
    >>> file = Path(tempfile.mkdtemp()) / "step.0.et.gz"
    >>> write(trace, file)
    >>> read(file) == trace
    True
    """
    file = Path(path)
    packed = file.suffix == ".gz"
    with whole_file(file) as out:
        out.write(gzip.compress(trace.data, mtime=0) if packed else trace.data)


def write_ranks(
    data: Callable[[int], bytes],
    prefix: str | Path,
    *,
    ranks: int,
    others: Mapping[Path, bytes | None] | None = None,
) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each rank: all of them or none.

    Traces of further ranks with this prefix are removed, because they would be read as part of the set.

    Parameters
    ----------
    data : callable
        Gives the contents of a rank's trace.
    prefix : str or Path
    ranks : int
        How many.
    others : mapping of Path to bytes or None, optional
        Further files of the set; None for one of an older set, which is removed.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InputError
        A file cannot be written; the old files are still there.
    """
    files = [Path(f"{prefix}.{rank}.et") for rank in range(ranks)]
    stale: list[Path] = []
    with suppress(OSError):  # writing says why
        stale = [file for file in _rank_files(Path(prefix)) if file not in set(files)]
    stale += [file for file, content in (others or {}).items() if content is None]
    more = {file: content for file, content in (others or {}).items() if content is not None}
    with whole_files(stale=stale) as add:
        for rank, file in enumerate(files):
            with add(file) as out:
                out.write(data(rank))
        for file, content in more.items():
            with add(file) as out:
                out.write(content)
    return [*files, *more]


def _rank_files(base: Path) -> dict[Path, int]:
    """Find the traces with a prefix, and their ranks; raises OSError where there is no such folder."""
    name = re.compile(re.escape(base.name) + r"\.(\d+)\.et(?:\.gz)?")
    matches = [(file, name.fullmatch(file.name)) for file in base.parent.iterdir()]
    return {file: int(match[1]) for file, match in matches if match}


def rank_file(prefix: str | Path, rank: int) -> Path:
    """The file of one rank: ``PREFIX.RANK.et``, or else ``PREFIX.RANK.et.gz``."""
    plain = Path(f"{prefix}.{rank}.et")
    packed = Path(f"{prefix}.{rank}.et.gz")
    return packed if packed.exists() and not plain.exists() else plain


def read_ranks(prefix: str | Path, ranks: int | None = None) -> list[Trace]:
    """Read the traces of all ranks.

    Parameters
    ----------
    prefix : str or Path
        The file names without ``.RANK.et`` (or ``.RANK.et.gz``).
    ranks : int, optional
        How many ranks to read; by default all.

    Returns
    -------
    list of Trace
        In rank order; equal traces share their data.

    Raises
    ------
    InputError
        There is none, one is missing, or one cannot be read.
    """
    base = Path(prefix)
    found = set(traced_ranks(base))
    count = max(found) + 1 if ranks is None else ranks
    missing = sorted(set(range(min(count, len(found) + 8))) - found)  # a rank in a name may be 10**9
    if missing:
        shown = ", ".join(map(str, missing[:8]))
        what = f"the trace of rank {shown} is missing ({len(found)} exist, the highest {max(found)})"
        raise InputError(what, where=str(rank_file(base, missing[0])), hint="make it, or run fewer ranks")
    return _shared(base, range(count))


def read_present(prefix: str | Path) -> dict[int, Trace]:
    """Read the traces of those ranks that have one.

    Parameters
    ----------
    prefix : str or Path
        The file names without ``.RANK.et`` (or ``.RANK.et.gz``).

    Returns
    -------
    dict of int to Trace
        By rank, ascending; equal traces share their data.

    Raises
    ------
    InputError
        There is none, or one cannot be read.
    """
    base = Path(prefix)
    found = traced_ranks(base)
    return dict(zip(found, _shared(base, found), strict=True))


def present_ranks(prefix: str | Path) -> list[int]:
    """List the ranks that have a trace, ascending.

    Raises
    ------
    InputError
        There is no such folder.
    """
    base = Path(prefix)
    try:
        return sorted(set(_rank_files(base).values()))
    except OSError as error:
        raise InputError(
            error.strerror or str(error), where=str(base.parent), hint="give PREFIX of PREFIX.0.et"
        ) from None


def traced_ranks(prefix: str | Path) -> list[int]:
    """List the ranks that have a trace, ascending; there is at least one.

    Raises
    ------
    InputError
        There is none; the hint is the prefix that is nearest.
    """
    base = Path(prefix)
    if found := present_ranks(base):
        return found
    prefixes = {match[1] for file in base.parent.iterdir() if (match := _NAME.fullmatch(file.name))}
    own = _NAME.fullmatch(base.name)
    if base.is_dir():
        hint = f"name traces in the folder: {base}/PREFIX"
    elif own and own[1] in prefixes:
        hint = f"give the prefix {own[1]!r}"
    else:
        hint = suggestion(base.name, prefixes) or "give the part of the files' names before .RANK.et"
    raise InputError(f"no trace {base.name}.RANK.et", where=str(prefix), hint=hint)


def beside(prefix: str | Path, ending: str) -> Path | None:
    """Find a file beside traces, as ``link``, ``generate`` and others write them.

    Parameters
    ----------
    prefix : str or Path
        The traces' file names without ``.RANK.et``.
    ending : str
        ``groups.json``, ``system.json`` or ``network.yml``.

    Returns
    -------
    Path or None
        ``PREFIX.ENDING``, if there is one.
    """
    file = Path(f"{prefix}.{ending}")
    return file if file.is_file() else None


def _shared(base: Path, ranks: Iterable[int]) -> list[Trace]:
    """Read the traces of some ranks; equal ones share their data."""
    known: dict[bytes, Trace] = {}
    traces = []
    for file in (rank_file(base, rank) for rank in ranks):
        data = _data(file)
        first = known.get(data)
        traces.append(_trace(data, str(file)) if first is None else first.called(str(file)))
        known.setdefault(data, traces[-1])
    return traces
