"""Formats that people have, recognized by a file's first bytes, which gzip or zstd may have packed.

An error names the format that was given; ``astranb chakra`` chooses a reader by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from .errors import InputError
from .packed import blocks, first_bytes, head
from .plugins import Registry

__all__ = [
    "FORMATS",
    "TASK_GRAPHS",
    "FileFormat",
    "format_of",
    "has_plugin",
    "is_task_graph",
    "names_format",
    "read_by_plugin",
]

P = ParamSpec("P")
T = TypeVar("T")

TASK_GRAPHS: Final = ("FlexFlow task graph", "FlexFlow task graph, JSON")
"""Keys of the forms of FlexFlow's task graphs: FlatBuffers, and what flatc prints."""

_HEAD: Final = 1 << 14
_MOST_SCANNED: Final = 1 << 26
_VALUE: Final = 200
"""Bytes of a value that are looked at where a file is recognized by its members."""
_MARK: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'([{}\[\]])|"(?:[^"\\]|\\.)*+"(\s*:|)|(")', re.DOTALL)
"""A bracket, a text, which may be the name of a member, or the beginning of a text."""
_DRAW = "write its devices and links as InfraGraph (docs: Describe a cluster), for --infra"
_REPLAY = (
    "replay it: astranb traffic replay FILE; or describe the job as a collective, a model or Chakra traces"
)
_TASK_GRAPH = (
    "run it ('astranb run trace FILE') or convert it ('astranb chakra convert'); its cluster: --infra"
)
_NETWORK = "give it as --network of 'astranb run trace', with --system"
_SYSTEM = "give it as --system of 'astranb run trace', with --network"
_MEMORY = "give it as --memory of 'astranb run trace' or 'astranb run model'"
_UNPACK = "unpack it first"
_LINES: Final = rb"\A\s*\{[^\n]*\}[ \t]*\r?\n(?=\s*\{)"
_XML = rb"\A\s*(?:<\?[^>]*>\s*|<!--(?:(?!-->).)*-->\s*)*"


class FileFormat(NamedTuple):
    """A format, what to do with such a file, and the pattern of its first bytes.

    Attributes
    ----------
    key : str
        Of a plug-in: the ending of the files' names, without its dot.
    name : str
        What such a file is, as ``a list of links``.
    hint : str
        What to do with one.
    start : re.Pattern
        What its first bytes match.
    becomes : str
        Of a plug-in: what its reader returns. ``infrastructure``: an InfraGraph document as a dict;
        ``traces``: a :class:`~astranb.chakra.Trace`; ``algorithm``: a plan of :mod:`astranb.collectives`;
        ``traffic``: a :class:`~astranb.traffic.MessageGraph`.
    read : callable, optional
        Reads a path.
    """

    key: str
    name: str
    hint: str
    start: re.Pattern[bytes]
    becomes: str = ""
    read: Callable[[Path], Any] | None = None


def _format(key: str, name: str, hint: str, start: bytes) -> FileFormat:
    return FileFormat(key, name, hint, re.compile(start, re.DOTALL))


_FORMATS: Final = (
    _format(
        "ns-3 topology",
        "a topology of ASTRA-sim's ns-3 (nodes, switches, links)",
        "give it as --infra",
        rb"\A\d+(?:[ \t]+\d+){2,5}[ \t]*\r?\n[\d \t\r\n]*?"
        rb"(?<!\d)\d+[ \t]+\d+[ \t]+[\d.]+(?:[KMGT]?bps\s|[A-Za-z/]*[ \t]+[\d.]+[a-z]?s[ \t])",
    ),
    _format(
        "ns-3 flows",
        "a list of flows for HPCC's ns-3",
        "describe the job as a collective, a model or Chakra traces: flows are written, not read",
        rb"\A\d+[ \t]*\r?\n(?:\d+[ \t]+){5}[\d.e+-]+[ \t]*\r?(?:\n|\Z)",
    ),
    _format(
        "SimAI topology", "a topology of SimAI", _DRAW, rb"\A\d+(?:[ \t]+\d+){4}[ \t]+[A-Za-z]\w*[ \t]*\r?\n"
    ),
    _format(
        "HTSim topology",
        "a topology of HTSim",
        "give it as --infra",
        rb"(?i)\A(?:#[^\n]*\n|\s)*Nodes\s+\d+\s+(?:#[^\n]*\n\s*)*(?:Tiers|Podsize)\s+\d+",
    ),
    _format(
        "BookSim network",
        "a network of BookSim (anynet)",
        "give it as --infra",
        rb"\A\s*(?:router|node)[ \t]+\d+[ \t]+(?:router|node)[ \t]+\d",
    ),
    _format(
        "HTSim traffic",
        "a connection matrix of HTSim",
        _REPLAY,
        rb"\A(?:#[^\n]*\n|\s)*Nodes\s+\d+\s+Connections\s+\d+",
    ),
    _format(
        "GOAL",
        "a schedule of LogGOPSim (GOAL)",
        _REPLAY,
        rb"\A(?:\s|//[^\n]*\n|/\*(?:(?!\*/).)*\*/)*num_ranks\s+\d",
    ),
    _format(
        "ns-3 configuration",
        "a configuration of ns-3",
        "give link rates and latencies as --network FILE.yml or --infra; --roce sets congestion control",
        rb"\A\s*(?:ENABLE_QCN|USE_DYNAMIC_PFC_THRESHOLD|ENABLE_TRACE|PACKET_PAYLOAD_SIZE)\s",
    ),
    _format(
        "ns-3 dimensions",
        "a file of logical dimensions for ASTRA-sim's ns-3",
        "give it as --logical-topology, with --infra or a topology as --network",
        rb'"logical-dims"\s*:',
    ),
    _format(
        "SimAI workload",
        "a workload of SimAI",
        "convert it to traces: astranb chakra convert FILE.txt -o PREFIX",
        rb"\AHYBRID_\w+[^\n]*\b(?:ep|pp|vpp|ga|all_gpus):",
    ),
    _format(
        "network",
        "a network of ASTRA-sim 2.0",
        _NETWORK,
        rb"\A(?=(?:.*\n)?[ \t{\"]*topology\"?\s*:)(?=(?:.*\n)?[ \t{\"]*npus_count\"?\s*:)",
    ),
    _format(
        "system",
        "a system of ASTRA-sim 2.0",
        _SYSTEM,
        rb'\A\s*\{.*"(?:scheduling-policy|endpoint-delay|all-reduce-implementation)"\s*:',
    ),
    _format(
        "network 1.0",
        "a network of ASTRA-sim 1.0",
        _NETWORK,
        rb'"(?:topology-name|dimensions-count)"\s*:',
    ),
    _format("system 1.0", "a system of ASTRA-sim 1.0", _SYSTEM, rb"\A\s*scheduling-policy:\s*\w"),
    _format("memory", "a remote memory of ASTRA-sim 2.0", _MEMORY, rb'"memory-type"\s*:'),
    _format(
        "layer table",
        "a layer table of ASTRA-sim 1.0",
        "run it with 'astranb run trace FILE', or convert it with 'astranb chakra convert'",
        rb"\A(?:DATA|DATA_REORDER|MODEL|HYBRID_\w+|MICRO|DISTRIBUTED_INFERENCE)\b[^\n{]*\n\s*\d+\s*\n",
    ),
    _format(
        "Kineto trace",
        "a PyTorch profiler trace (Kineto)",
        "join it with its host trace: astranb chakra link HOST.json DEVICE.json -o FILE.et",
        rb'"(?:traceEvents|traceName|distributedInfo|deviceProperties)"\s*:|\A\s*\[\s*\{[^}]{0,4000}"ph"\s*:',
    ),
    _format(
        "execution trace",
        "a PyTorch execution trace",
        "convert it: astranb chakra convert FILE.json -o FILE.et",
        rb'\A\s*\{\s*"schema"\s*:\s*"[\d.]+',
    ),
    _format(
        "Chakra JSON",
        "a Chakra trace as JSON",
        "convert it: astranb chakra convert FILE.json -o FILE.et",
        rb'\A\s*+(?:\{\s*"(?:version|attr)"\s*:[^{}]{0,4000}(?:\{[^{}]*\}[^{}]{0,80})*\}\s*+)?'
        rb'(?:\[\s*+)?\{\s*(?:"workload_graph"\s*:|"[iI]d"\s*:\s*"?\d+"?\s*,\s*"[nN]ame"\s*:)',
    ),
    _format(
        "node-link graph",
        "a graph of NetworkX (node-link JSON)",
        "convert it: astranb chakra convert FILE.json -o FILE.et",
        rb'\A\s*\{\s*"directed"\s*:\s*(?:true|false)\s*,\s*"multigraph"\s*:',
    ),
    _format(
        "GraphML",
        "a graph (GraphML)",
        "convert it: astranb chakra convert FILE.graphml -o FILE.et",
        _XML + rb"<graphml\b",
    ),
    _format(
        "plan",
        "an MSCCL++ execution plan",
        "give it as --algorithm, or read it with 'astranb collective import'",
        rb'\A\s*\{(?=.*"collective"\s*:)(?=.*"gpus"\s*:)',
    ),
    _format(
        "InfraGraph",
        "an InfraGraph document",
        "give it as --infra",
        rb"\A\s*(?:\{\s*)?(?:[#%-][^\n]*\n\s*)*"
        rb"(?:\"?(?:name|description)\"?\s*:[^\n]*\n\s*){0,2}\"?(?:infrastructure|devices|instances)\"?\s*:",
    ),
    _format("TACOS", "a schedule of TACOS", "give it as --algorithm", rb"\A\s*NPUs Count\s*,"),
    _format("MSCCL", "an MSCCL algorithm", "give it as --algorithm", _XML + rb"<algo\b"),
    _format(
        "NCCL topology",
        "a topology of NCCL",
        "convert it: astranb infra convert FILE.xml",
        _XML + rb"<system\b",
    ),
    _format(
        "lstopo",
        "a topology of lstopo",
        "convert it: astranb infra convert FILE.xml",
        _XML + rb"(?:<!DOCTYPE topology[^>]*>\s*)?<topology\b",
    ),
    _format(
        "Chakra",
        "a Chakra trace",
        "run PREFIX of PREFIX.RANK.et with 'astranb run trace PREFIX', or see 'astranb chakra info'",
        rb"\A[\x01-\x7f]\n[\x03-\x20]\d+\.\d+",
    ),
    _format(
        TASK_GRAPHS[0],
        "a task graph of FlexFlow",
        _TASK_GRAPH,
        # The root table behind its vtable: FlatBuffers are written from the end.
        rb"\A[\x14-\x60]\x00{3}(?:\x00\x00){0,7}[\x16-\x40]\x00[\x0c-\x90]\x00",
    ),
    _format(
        TASK_GRAPHS[1],
        "a task graph of FlexFlow",
        _TASK_GRAPH,
        rb"\A\s*\{\s*\"?(?:ngpupernode|nnode)\"?\s*:\s*\d",
    ),
    _format(
        "NDJSON",
        "a list of JSON values, one a line (NDJSON)",
        "give a file with one value",
        _LINES,
    ),
    _format("gzip", "a file that gzip packed", _UNPACK, rb"\A\x1f\x8b"),
    _format("zstd", "a file that zstd packed", _UNPACK, rb"\A\x28\xb5\x2f\xfd"),
    _format(
        "zip", "a ZIP archive or a saved simulation", "load a saved simulation in Python", rb"\APK\x03\x04"
    ),
    _format(
        "SQLite", "a SQLite database (as nsys exports)", "export it as a PyTorch trace", rb"\ASQLite format 3"
    ),
    _format("PDF", "a PDF document", "give the file that it describes", rb"\A%PDF-"),
    _format("PNG", "a picture (PNG)", "give the file that it shows", rb"\A\x89PNG"),
    _format(
        "HTML",
        "a web page (HTML)",
        "download the file itself",
        _XML + rb"<!(?i:doctype html)",
    ),
)


FORMATS: Final[Registry[str, FileFormat]] = Registry("formats", FileFormat, lambda one: one.key, {})
"""The formats of plug-ins by the endings of their files, which are asked about those of no built-in one."""


def format_of(path: str | Path) -> FileFormat | None:
    r"""Recognize the format of a file by its first bytes; None if it is none that is known or unreadable.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "eight.topo")
    ...     _ = file.write_text("Nodes 8\nTiers 3\n")
    ...     found = format_of(file)
    >>> found.name
    'a topology of HTSim'
    """
    data = first_bytes(path, _HEAD)
    plain = head(path, _HEAD)
    return _matching(plain) or _of_json(path, plain) or _matching(data) or _of_plugin(path, plain)


def has_plugin(path: str | Path) -> bool:
    """Return whether a plug-in reads files with the ending of this one; it is not loaded."""
    return FORMATS.plugin(_ending(path)) is not None


def _ending(path: str | Path) -> str:
    return Path(path).suffix.removeprefix(".").lower()


def _of_plugin(path: str | Path, begin: bytes) -> FileFormat | None:
    if not begin or not has_plugin(path):
        return None
    found = FORMATS[_ending(path)]
    return found if found.start.search(begin) else None


def read_by_plugin(path: str | Path, becomes: str, item: type[T]) -> T | None:
    """Read a file of a format that a plug-in reads; None: it is none that becomes such an object.

    Parameters
    ----------
    path : str or Path
    becomes : str
        As :attr:`FileFormat.becomes`.
    item : type
        Of what the reader must return.

    Raises
    ------
    InputError
        The reader refuses the file, fails, or returns something else.
    """
    found = format_of(path) if has_plugin(path) else None
    if found is None or found.read is None or found.becomes != becomes:
        return None
    with FORMATS.running(found.key):
        made = found.read(Path(path))
        if not isinstance(made, item):
            what = f"its reader must return a {item.__name__}, not a {type(made).__name__}"
            raise TypeError(what)
    return made


def _matching(data: bytes) -> FileFormat | None:
    plain = data.removeprefix(_MARK)
    begins = dict.fromkeys((plain, plain.lstrip()))  # a byte of a binary format may look like white space
    return next((one for begin in begins for one in _FORMATS if _is(one, begin)), None)


def _is(one: FileFormat, begin: bytes) -> bool:
    """Return whether a file that begins so is of a format; of JSON lines, by the members of the first."""
    if not one.start.pattern.startswith((rb"\A", rb"(?i)\A")) and (lines := re.match(_LINES, begin)):
        begin = lines[0]
    return one.start.search(begin) is not None


def _of_json(path: str | Path, begin: bytes) -> FileFormat | None:
    """Recognize an object of JSON by its members, as far behind the first bytes as they may be."""
    if not begin.removeprefix(_MARK).lstrip().startswith(b"{"):
        return None
    with suppress(InputError):
        for outline in _outlines(blocks(path, _MOST_SCANNED)):
            if found := _matching(outline):
                return found
    return None


def _outlines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an object's members up to each of them, with the beginnings of their values only."""
    outline, text, depth = b"{", b"", 0
    value, begun = b"", 0  # of the last member, and where in the file it begins
    before = at = 0  # bytes in front of `text`, and those of it that have been read
    for part in parts:
        text, before, at = text[at:] + part, before + at, 0
        for token in _TOKEN.finditer(text):
            if token[3] or (token[2] == b"" and not text[token.end() :].strip()):
                break  # the rest of it is in the next part
            at = token.end()
            if token[1]:
                depth += 1 if token[1] in b"{[" else -1
                if depth == 0:  # lines of such values, where another one follows
                    if text[at:].lstrip()[:1] == b"{":
                        yield b"{}\n{"
                    return
            elif depth == 1 and token[2]:
                outline += value[: before + token.start() - begun] + token[0]
                value, begun = text[at : at + _VALUE], before + at
                if len(outline) > _HEAD:
                    return
                yield outline


def is_task_graph(path: str | Path) -> bool:
    """Return whether a file is, by its first bytes, a task graph of FlexFlow."""
    found = format_of(path)
    return found is not None and found.key in TASK_GRAPHS


def names_format(*own: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a reader's errors about a file name the file's format, if that is not one of the reader's own.

    Parameters
    ----------
    *own : str
        Keys of the formats that the reader accepts, and what those of plug-ins become: their errors stay as
        they are.

    Returns
    -------
    callable
        A decorator of a function whose first argument is the file, or something that is no file.
    """

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @wraps(read)
        def reading(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return read(*args, **kwargs)
            except InputError as error:
                path = args[0] if args and isinstance(args[0], str | os.PathLike) else None
                found = format_of(Path(path)) if path and error.where.startswith(str(path)) else None
                if found is None or found.key in own or found.becomes in own:
                    raise
                raise InputError(f"this is {found.name}", where=str(path), hint=found.hint) from error

        return reading

    return decorate
