"""Stores patterns: as one Parquet file, folded, and as a Chakra trace for each rank, unfolded.

A Parquet file has a row for each operation of each class of ranks, and for each node of each template;
``deps`` lists the rows of the same part that it waits for. Its metadata ``astranb`` is a JSON document with
the ranks' classes, groups and peers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra import Attribute, NodeType, TraceBuilder, write_ranks
from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.number_files import parquet_table, whole_array
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    Operations,
    RankOperations,
)

from .graph import KIND_NAMES, NODE, Label, MessageGraph, matched
from .order import node_order
from .pattern import Pattern

__all__ = ["FORMAT", "read_pattern", "write_chakra", "write_pattern"]

FORMAT: Final = "astranb pattern 1"
_KINDS: Final = {COMPUTE: "compute", COLLECTIVE: "collective", SEND: "send", RECV: "receive"}
_NUMBERS: Final = {name: number for number, name in _KINDS.items()}
_OF_OPERATION: Final = ("bytes", "peer", "tag", "group", "stream")
_OF_NODE: Final = ("rank", "bytes", "peer", "tag", "phase", "chunk")
_COLUMNS: Final = (
    "part", "number", "rank", "kind", "name", "collective", "algorithm", "bytes", "peer", "tag", "group",
    "stream", "template", "phase", "chunk", "duration_ps", "start_ps", "deps",
)  # fmt: skip


_MOST: Final = 1 << 60
"""The largest number in a column: sums of some stay below 64 bits."""
_WORDS: Final = ("part", "kind", "name", "collective", "algorithm")


def write_pattern(pattern: Pattern, path: str | Path) -> Path:
    """Write a pattern as one Parquet file, or leave what is there.

    Raises
    ------
    InputError
        The file cannot be written, or ``pyarrow`` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import astranb as anb
    >>> ring = anb.astrasim2.DimensionNetwork("Ring", 4, bandwidth=50, latency=500)
    >>> pattern = anb.traffic.record(anb.workload([anb.all_reduce("64 KiB", "ring")]).on(ring))
    >>> file = write_pattern(pattern, Path(tempfile.mkdtemp()) / "ring.parquet")
    >>> read_pattern(file).messages
    24
    """
    with needs_extra("a pattern in Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for part in _parts(pattern):
        size = len(part["kind"])
        for name in _COLUMNS:
            value = part.get(name, -1)
            columns[name] += value if isinstance(value, list) else [value] * size
    arrays = {
        name: pa.array(values, pa.string()).dictionary_encode()
        if name in _WORDS
        else pa.array(values, pa.list_(pa.int64()) if name == "deps" else pa.int64())
        for name, values in columns.items()
    }
    ranks = pattern.operations
    document = {
        "format": FORMAT, "title": pattern.title, "time_ns": pattern.time_ns,
        "assumptions": dict(pattern.assumptions), "class": ranks.pattern.tolist(),
        "rank_groups": ranks.groups.tolist(), "rank_peers": ranks.peers.tolist(),
        "groups": {str(number): list(map(int, members)) for number, members in pattern.groups.items()},
        "jobs": list(pattern.jobs), "template_ranks": [graph.ranks for graph in pattern.templates],
    }  # fmt: skip
    table = pa.table(arrays).replace_schema_metadata({"astranb": json.dumps(document)})
    target = Path(path)
    with whole_file(target) as file:
        pq.write_table(table, file, compression="zstd")
    return target


def _lists(start: np.ndarray, flat: np.ndarray) -> list[list[int]]:
    ends, values = start.tolist(), flat.tolist()
    return [values[first:last] for first, last in pairwise(ends)]


def _parts(pattern: Pattern) -> Iterator[dict[str, Any]]:
    """Yield the columns of each class and of each template."""
    names = {number: name for name, number in COLLECTIVE_NAMES.items()}
    for number, one in enumerate(pattern.operations.patterns):
        rows = one.rows
        kinds = [_KINDS.get(kind, "compute") for kind in rows["kind"].tolist()]
        collective = rows["kind"] == COLLECTIVE
        yield {name: rows[name].tolist() for name in _OF_OPERATION} | {
            "part": "class", "number": number, "kind": kinds,
            "name": ["" if one.names is None else one.names[row] or "" for row in range(len(rows))],
            "collective": [
                names[kind] if is_one else ""
                for kind, is_one in zip(rows["collective"].tolist(), collective.tolist(), strict=True)
            ],
            "algorithm": "", "template": pattern.template[number].tolist(),
            "duration_ps": (1000 * rows["duration_ns"]).tolist(),
            "start_ps": (1000 * pattern.start_ns[number]).tolist(), "deps": _lists(one.dep_start, one.deps),
        }  # fmt: skip
    for number, graph in enumerate(pattern.templates):
        nodes, label = graph.nodes, graph.labels[0]
        columns = {name: nodes[name].tolist() for name in (*_OF_NODE, "duration_ps", "start_ps")}
        yield columns | {
            "part": "template", "number": number, "kind": [_KINDS[kind] for kind in nodes["kind"].tolist()],
            "name": "", "collective": label.collective, "algorithm": label.algorithm,
            "deps": _lists(graph.dep_start, graph.deps),
        }  # fmt: skip


def read_pattern(path: str | Path) -> Pattern:
    """Read a pattern that :func:`write_pattern` wrote.

    Raises
    ------
    InputError
        The file cannot be read, is no pattern, or is damaged.
    """
    where = str(path)
    hint = "write one with astranb traffic record"
    table = parquet_table(path, "a pattern in Parquet", _COLUMNS, _WORDS, lists=["deps"], hint=hint)
    import pyarrow as pa

    try:
        document = json.loads((table.schema.metadata or {}).get(b"astranb", b"null"))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(f"not a pattern ({FORMAT})", where=where, hint=hint)
    try:
        return _pattern(table, document)
    except (
        KeyError, IndexError, AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException,
    ) as error:  # fmt: skip
        if isinstance(error, InputError):
            raise InputError(error.what, where=where, hint=error.hint) from None
        what = f"a damaged pattern: {type(error).__name__} {str(error).splitlines()[:1]}"
        raise InputError(what, where=where, hint="record it again") from None


def _pattern(table: Any, document: dict[str, Any]) -> Pattern:
    text_columns = ("name", "collective", "algorithm")
    known = {
        name: whole_array(table[name].to_numpy(), f"column {name!r}", "", -1, _MOST)
        for name in _COLUMNS
        if name not in (*_WORDS, "deps")
    }
    kinds = np.array([_NUMBERS[word] for word in table["kind"].to_pylist()], np.int64)
    is_class = np.array([word == "class" for word in table["part"].to_pylist()], bool)
    lists = table["deps"].combine_chunks()
    ends, flat = lists.offsets.to_numpy(), lists.values.to_numpy()
    which = whole_array(document["class"], "class", "", 0, len(document["class"]) - 1)
    classes, templates = [], []
    chosen, starts = [], []
    for section, count in ((True, which.max(initial=-1) + 1), (False, len(document["template_ranks"]))):
        for number in range(int(count)):
            mine = np.flatnonzero((is_class == section) & (known["number"] == number))
            first, last = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            if last - first != len(mine):
                raise InputError("a damaged pattern: rows out of order", hint="record it again")
            start = (ends[first : last + 1] - ends[first]).astype(np.int64)
            deps = flat[ends[first] : ends[last]].astype(np.int64)
            part = slice(first, last)
            fields = {name: column[part] for name, column in known.items()}
            texts = {name: table[name].slice(first, last - first).to_pylist() for name in text_columns}
            if section:
                classes.append(_operations(kinds[part], fields, texts, start, deps))
                chosen.append(fields["template"].astype(np.int64))
                starts.append(fields["start_ps"] // 1000)
            else:
                width = int(document["template_ranks"][number])
                templates.append(_template(kinds[part], fields, texts, start, deps, width))
    shape = (len(which), -1) if len(which) else (0, 0)
    ranks = RankOperations(
        classes, which, np.array(document["rank_groups"], np.int64).reshape(shape),
        np.array(document["rank_peers"], np.int64).reshape(shape),
    )  # fmt: skip
    groups = {int(number): [int(one) for one in members] for number, members in document["groups"].items()}
    found = Pattern(
        ranks, groups, tuple(templates), tuple(chosen), tuple(starts), int(document["time_ns"]),
        str(document["title"]), {str(key): str(text) for key, text in document["assumptions"].items()},
        tuple(map(str, document["jobs"])),
    )  # fmt: skip
    _check(found)
    return found


def _check(pattern: Pattern) -> None:
    """Check that numbers refer to what exists."""
    damaged = InputError("a damaged pattern: it names what does not exist", hint="record it again")
    ranks = pattern.operations
    for members in pattern.groups.values():
        if not members or min(members) < 0 or max(members) >= len(ranks) or len(set(members)) < len(members):
            raise damaged
    for table, most in ((ranks.groups, None), (ranks.peers, len(ranks))):
        if most is None and not {-1, *pattern.groups} >= set(np.unique(table).tolist()):
            raise damaged
        if most is not None and table.size and (table.min() < -1 or table.max() >= most):
            raise damaged
    for number, (one, chosen) in enumerate(zip(ranks.patterns, pattern.template, strict=True)):
        rows = one.rows
        collective = rows["kind"] == COLLECTIVE
        if (collective != (chosen >= 0)).any() or chosen.max(initial=-1) >= len(pattern.templates):
            raise damaged
        if rows["group"].max(initial=-1) >= ranks.groups.shape[1] or len(pattern.jobs) not in (
            0,
            len(ranks.patterns),
        ):
            raise damaged
        messages = np.isin(rows["kind"], (SEND, RECV))
        peers = rows["peer"][messages]
        if len(peers) and not 0 <= peers.min() <= peers.max() < ranks.peers.shape[1]:
            raise damaged
        widths = np.array([graph.ranks for graph in pattern.templates], np.int64)
        mine = np.flatnonzero(ranks.pattern == number)
        for slot, template in {
            (int(slot), int(template))
            for slot, template in zip(rows["group"][collective], chosen[collective], strict=True)
        }:
            for group in np.unique(ranks.groups[mine, slot] if slot >= 0 else -1).tolist():
                members = pattern.groups.get(group, range(len(ranks)))
                if len(members) != widths[template]:
                    raise damaged


def _operations(
    kinds: np.ndarray, fields: dict[str, Any], texts: dict[str, Any], start: np.ndarray, deps: np.ndarray
) -> Operations:
    described = [{"kind": int(kind)} for kind in kinds]
    one = Operations.of(
        [row | {"bytes": int(size)} for row, size in zip(described, fields["bytes"], strict=True)],
        names=texts["name"],
    )
    rows = one.rows
    for name in _OF_OPERATION:
        rows[name] = fields[name]
    rows["duration_ns"], rows["flops"] = fields["duration_ps"] // 1000, -1
    rows["collective"] = [COLLECTIVE_NAMES.get(word, -1) for word in texts["collective"]]
    return Operations(rows, start, deps, names=one.names)


def _template(
    kinds: np.ndarray,
    fields: dict[str, Any],
    texts: dict[str, Any],
    start: np.ndarray,
    deps: np.ndarray,
    ranks: int,
) -> MessageGraph:
    nodes = np.zeros(len(kinds), NODE)
    for name in (*_OF_NODE, "duration_ps", "start_ps"):
        nodes[name] = fields[name]
    nodes["kind"] = kinds
    label = Label("", texts["collective"][0], texts["algorithm"][0]) if len(kinds) else Label()
    return MessageGraph(ranks, matched(nodes), start, deps, (label,), label.collective or "template")


def write_chakra(
    graph: MessageGraph, prefix: str | Path, *, others: Mapping[Path, bytes] | None = None
) -> list[Path]:
    """Write the Chakra trace ``PREFIX.RANK.et`` of each rank: sends, receives and computations.

    A node's attributes ``collective``, ``algorithm``, ``job``, ``phase`` and ``chunk`` say what it belongs
    to. Durations are rounded up: to nanoseconds in ``duration_ns``, else to microseconds.

    Parameters
    ----------
    graph : MessageGraph
    prefix : str or Path
    others : mapping of Path to bytes, optional
        Further files of the set.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    order = node_order(graph)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start, deps = graph.dep_start.tolist(), graph.deps.tolist()
    kinds = {COMPUTE: NodeType.COMP, SEND: NodeType.COMM_SEND, RECV: NodeType.COMM_RECV}

    # Attributes with their kinds: finding these would take as long as the rest.
    number = partial(Attribute, kind="int64_val")
    of_label = [_label_attributes(label) for label in graph.labels]
    names = [label.name or label.collective for label in graph.labels]

    def trace(rank: int) -> bytes:
        built = TraceBuilder()
        first, last = int(graph.first[rank]), int(graph.first[rank + 1])
        rows = (first + np.argsort(place[first:last])).tolist()
        ids = {row: count for count, row in enumerate(rows)}
        nodes = graph.nodes[rows].tolist()
        for row, node in zip(rows, nodes, strict=True):
            _, kind, peer, size, tag, took_ps, start_ps, _, label, phase, chunk = node
            attributes = dict(of_label[label])
            if kind == COMPUTE:
                attributes["duration_ns"] = number(-(-took_ps // 1000))
            else:
                source, target = (peer, rank) if kind == RECV else (rank, peer)
                attributes["comm_src"] = Attribute(source, "int32_val")
                attributes["comm_dst"] = Attribute(target, "int32_val")
                attributes["comm_size"] = number(size)
                attributes["comm_tag"] = Attribute(tag, "int32_val")
            if phase >= 0:
                attributes["phase"] = number(phase)
            if chunk >= 0:
                attributes["chunk"] = number(chunk)
            built.add(
                kinds[kind], names[label] or KIND_NAMES[kind], attributes,
                after=[ids[dep] for dep in deps[start[row] : start[row + 1]]],
                start_us=max(start_ps, 0) // 10**6, duration_us=-(-took_ps // 10**6),
            )  # fmt: skip
        return built.build().data

    return write_ranks(trace, prefix, ranks=graph.ranks, others=others)


def _label_attributes(label: Label) -> dict[str, Attribute]:
    """Return what a node's label says of it."""
    labels = {"collective": label.collective, "algorithm": label.algorithm, "job": label.job}
    return {"is_cpu_op": Attribute(value=False, kind="bool_val")} | {
        name: Attribute(word, "string_val") for name, word in labels.items() if word
    }
