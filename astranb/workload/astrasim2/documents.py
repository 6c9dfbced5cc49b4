"""Readers of ASTRA-sim 2.0's JSON and YAML files; unknown keys and numbers out of range are errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from astranb.core.document import DocumentNode, read_document
from astranb.core.errors import near
from astranb.core.file_formats import names_format
from astranb.net import PLACES

from .memory import Memory
from .network import TOPOLOGIES, DimensionNetwork, InfraNetwork
from .operations import COLLECTIVE_NAMES
from .system import System

__all__ = [
    "custom_collectives",
    "per_node_graphs",
    "read_json",
    "read_logical_dimensions",
    "read_memory",
    "read_network",
    "read_system",
]

_MOST_BYTES: Final = 16 << 20
_MANY: Final = 1 << 31
_COLLECTIVES: Final = tuple(name.replace("_", "-") for name in COLLECTIVE_NAMES)

Check = Callable[[DocumentNode], Any]


def _positive(node: DocumentNode) -> float:
    return node.real(1e-3, 1e9)


def _flag(node: DocumentNode) -> bool:
    """Read 0, 1, true or false."""
    return node.value if isinstance(node.value, bool) else bool(node.number(0, 1))


def _count(node: DocumentNode) -> int:
    return node.number(1, _MANY)


def _speeds(node: DocumentNode) -> dict[str, float] | list[float]:
    """Read a list with the speed of each rank, or an object for some ranks: ``{"3": 0.5}``."""
    if not isinstance(node.value, dict):
        return [_speed(part) for part in node.items()]
    for rank in node.value:
        if not (rank.isascii() and rank.isdecimal() and int(rank[:12]) < _MANY):
            raise node.error(f"{rank[:40]!r} is not a rank", 'as {"3": 0.5}')
    return {rank: _speed(node.get(rank)) for rank in node.value}


def _speed(node: DocumentNode) -> float:
    return node.real(1e-6, 1e6)


def _texts(node: DocumentNode) -> list[str]:
    names = [part.text() for part in node.items()]
    if not names:
        raise node.error("the list is empty", "name at least one")
    return names


_UNUSED: Final = ("boost-mode", "local-mem-trace-filename", "trace-enabled", "track-local-mem", "seprate-log")
"""Keys that ASTRA-sim 2.0 reads and never uses; they may have any value."""

_SYSTEM: Final[Mapping[str, Check]] = {
    **{f"{name}-implementation": _texts for name in _COLLECTIVES},
    **{f"{name}-implementation-custom": _texts for name in _COLLECTIVES},
    "per-node-custom-implementation": DocumentNode.text,
    "scheduling-policy": DocumentNode.text,
    "intra-dimension-scheduling": DocumentNode.text,
    "inter-dimension-scheduling": DocumentNode.text,
    "collective-optimization": DocumentNode.text,
    "endpoint-delay": lambda node: node.number(0, _MANY),
    "active-chunks-per-dimension": _count,
    "preferred-dataset-splits": lambda node: node.number(1, 1 << 16),
    "local-mem-bw": _positive,
    "peak-perf": _positive,
    "roofline-enabled": _flag,
    "replay-only": _flag,
    "model-shared-bus": _flag,
    "npu-speed": _speeds,
    "in-network-delay": lambda node: node.number(0, _MANY),
    "group-implementation": lambda node: node.choice(("ring", "dimensions")),
    "channels": lambda node: node.choice(("one", "library")),
    **{name: lambda node: node.number(0, _MANY) for name in ("L", "o", "g", "local-reduction-delay")},
    "G": lambda node: node.real(0, 1e9),
    **dict.fromkeys(_UNUSED, lambda node: node.value),
}
_NETWORK: Final[Mapping[str, Check]] = {
    "topology": lambda node: [part.choice(TOPOLOGIES) for part in node.items()],
    "dimension_type": lambda node: [part.choice(tuple(PLACES)) for part in node.items()],
    "npus_count": lambda node: [_count(part) for part in node.items()],
    "bandwidth": lambda node: [_positive(part) for part in node.items()],
    "latency": lambda node: [part.real(0, 1e12) for part in node.items()],
}
_MEMORY: Final[Mapping[str, Check]] = {
    "memory-type": DocumentNode.text,
    "remote-mem-latency": lambda node: node.number(0, 10**12),
    "remote-mem-bw": _positive,
    "pool-topology": DocumentNode.text,
    "num-memory-groups": _count,
    "num-out-node-switches": _count,
    "pool-link-bw": _positive,
    "npu-link-bw": _positive,
    "chunk-size": _count,
    "in-pool-collectives": _flag,
    "num-nodes": _count,
    "num-npus-per-node": _count,
}


def _mapping(node: DocumentNode, hint: str = "see ASTRA-sim's examples") -> dict[str, Any]:
    """Check that a value is an object."""
    if not isinstance(node.value, dict):
        raise node.error(f"an object is expected, not {node.brief}", hint)
    return node.value


def _document(node: DocumentNode, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Check an object's values by their keys."""
    for key in _mapping(node):
        if key not in checks:
            raise node.get(key).error(f"unknown key {key[:60]!r}", near(key, checks))
    return {key: checks[key](node.get(key)) for key in node.value}


@names_format("system")
def read_json(path: str | Path) -> DocumentNode:
    """Read a file of ASTRA-sim, which takes the last of duplicate keys."""
    return read_document(path, _MOST_BYTES, form="json", strict=False)


def _read_yaml(path: str | Path) -> DocumentNode:
    return read_document(path, _MOST_BYTES, form="yaml")


@names_format("network")
def read_network(path: str | Path, logical: str | Path | None = None) -> DimensionNetwork | InfraNetwork:
    """Read ``network.yml``, or the physical topology that ASTRA-sim's ns-3 takes.

    Parameters
    ----------
    path : str or Path
        Also any other topology file that :func:`astranb.infragraph.convert` reads.
    logical : str or Path, optional
        Of a topology, the file of its logical dimensions.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is not valid.
    """
    from astranb.infragraph import convert, is_topology_file

    if is_topology_file(path):
        dimensions = () if logical is None else read_logical_dimensions(logical)
        return InfraNetwork(convert(path), dimensions, str(path if logical is None else logical))
    return DimensionNetwork.from_document(_document(_read_yaml(path), _NETWORK), str(path))


@names_format("ns-3 dimensions")
def read_logical_dimensions(path: str | Path) -> tuple[int, ...]:
    """Read the logical dimensions of ASTRA-sim's ns-3, the first of which joins neighbouring ranks.

    Parameters
    ----------
    path : str or Path
        As ``{"logical-dims": ["8", "4"]}``; ASTRA-sim takes strings, here numbers do too.

    Raises
    ------
    InputError
        It cannot be read, or has no list of whole numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "logical.json")
    ...     _ = file.write_text('{"logical-dims": ["8", "4"]}')
    ...     read_logical_dimensions(file)
    (8, 4)
    """
    listed = read_json(path).get("logical-dims")
    return tuple(_dimension(one) for one in listed.items())


def _dimension(node: DocumentNode) -> int:
    word = node.value
    if isinstance(word, str) and word.isascii() and word.isdecimal() and len(word) < 10:
        node = DocumentNode(int(word), node.source, node.place)
    return _count(node)


@names_format("system")
def read_system(path: str | Path | DocumentNode, **options: Any) -> System:
    """Read ``system.json``.

    Parameters
    ----------
    path : str, Path or DocumentNode
        The file, or its document.
    **options
        Those of :meth:`System.from_document`: ``queues``, ``injection_scale``, ``rendezvous``.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is not valid.
    """
    document = path if isinstance(path, DocumentNode) else read_json(path)
    return System.from_document(_document(document, _SYSTEM), document.file, **options)


def custom_collectives(document: DocumentNode) -> dict[str, str]:
    """Read which collectives have traces of their own in ``system.json``, with the prefix of each.

    Returns
    -------
    dict of str to str
        ``{"all_reduce": PREFIX}``.

    Raises
    ------
    InputError
        A collective has more than one prefix.
    """
    found = {}
    for name in _COLLECTIVES:
        key = f"{name}-implementation-custom"
        if document.has(key):
            prefixes = _texts(document.get(key))
            if len(prefixes) > 1:
                raise document.get(key).error(f"{len(prefixes)} graphs", "one does the whole collective")
            found[name.replace("-", "_")] = prefixes[0]
    return found


def per_node_graphs(document: DocumentNode, folders: Sequence[Path]) -> tuple[dict[int, str], str]:
    """Read which nodes of the workload have traces of their own, with the prefix of each.

    Parameters
    ----------
    document : DocumentNode
        ``system.json``, which names a YAML file (``per-node-custom-implementation``).
    folders : sequence of Path
        Where that file is looked for.

    Returns
    -------
    graphs : dict of int to str
        ``{id of a node: PREFIX}``.
    where : str
        The YAML file's name.

    Raises
    ------
    InputError
        It cannot be read, or is not a mapping of numbers to names.
    """
    key = "per-node-custom-implementation"
    if not document.has(key):
        return {}, document.file
    name = document.get(key).text()
    found = next((folder / name for folder in folders if (folder / name).exists()), None)
    if found is None:
        raise document.get(key).error(f"file {name[:80]!r} not found", "give its folder (--root DIR)")
    listed = _read_yaml(found)
    for number in _mapping(listed, "as 3: graphs/ring"):
        if not (number.isascii() and number.isdecimal()):
            raise listed.get(number).error(f"{number[:40]!r} is not a node's id", "as 3: graphs/ring")
    return {int(number): listed.get(number).text() for number in listed.value}, str(found)


@names_format("memory")
def read_memory(path: str | Path) -> Memory:
    """Read the description of the remote memory.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is not valid.
    """
    return Memory.from_document(_document(read_json(path), _MEMORY), str(path))
