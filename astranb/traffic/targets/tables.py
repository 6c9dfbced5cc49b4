"""Tables of messages, computations and dependencies as CSV or Parquet, written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_files
from astranb.core.number_files import column_table, parquet_table
from astranb.core.text_lines import text_lines
from astranb.traffic.graph import NODE, Label, MessageGraph
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .checked import checked_order, counted
from .translation import Translation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_tables", "table_exists", "tables_of", "write_csv", "write_parquet"]

_LABEL: Final = ("name", "collective", "algorithm", "job")
_COLUMNS: Final = {
    "messages": (
        "send_node",
        "receive_node",
        "source_rank",
        "target_rank",
        "bytes",
        "tag",
        "send_start_ps",
        "receive_start_ps",
        "phase",
        "chunk",
        *_LABEL,
    ),
    "computations": ("node", "rank", "duration_ps", "start_ps", "phase", "chunk", *_LABEL),
    "dependencies": ("node", "waits_for"),
    "ranks": (
        "rank",
        "messages_sent",
        "bytes_sent",
        "messages_received",
        "bytes_received",
        "computations",
        "computed_ps",
    ),
}
"""The tables and their columns; -1 where a start, phase or chunk is not known."""

_MOST_RANKS: Final = 1 << 24


def _numbers(graph: MessageGraph) -> dict[str, tuple[list[np.ndarray], np.ndarray | None]]:
    """Return the columns of numbers of each table, and of those with labels the label of each row."""
    nodes = graph.nodes
    rows = graph.sends
    sends, receives = nodes[rows], nodes[nodes["match"][rows]]
    computes = np.flatnonzero(nodes["kind"] == COMPUTE)
    computed = nodes[computes]
    ranks = graph.ranks

    def total(rank: np.ndarray, of: np.ndarray) -> np.ndarray:
        found = np.zeros(ranks, np.int64)
        np.add.at(found, rank, of)
        return found

    ones = np.ones(len(sends), np.int64)
    return {
        "messages": (
            [
                rows,
                sends["match"],
                sends["rank"],
                sends["peer"],
                sends["bytes"],
                sends["tag"],
                sends["start_ps"],
                receives["start_ps"],
                sends["phase"],
                sends["chunk"],
            ],
            sends["label"],
        ),
        "computations": (
            [computes, *(computed[name] for name in ("rank", "duration_ps", "start_ps", "phase", "chunk"))],
            computed["label"],
        ),
        "dependencies": ([np.repeat(np.arange(len(nodes)), np.diff(graph.dep_start)), graph.deps], None),
        "ranks": (
            [
                np.arange(ranks),
                total(sends["rank"], ones),
                total(sends["rank"], sends["bytes"]),
                total(sends["peer"], ones),
                total(sends["peer"], sends["bytes"]),
                total(computed["rank"], np.ones(len(computed), np.int64)),
                total(computed["rank"], computed["duration_ps"]),
            ],
            None,
        ),
    }


def tables_of(graph: MessageGraph) -> dict[str, pd.DataFrame]:
    """Return the tables of a graph: ``messages``, ``computations``, ``dependencies`` and ``ranks``.

    Nodes are numbered as in the graph, by rank. A start, phase or chunk of -1 is not known.

    Examples
    --------
    >>> pair = MessageGraph.of(2, [{"rank": 0, "kind": SEND, "peer": 1, "bytes": 100},
    ...                            {"rank": 1, "kind": RECV, "peer": 0, "bytes": 100}])
    >>> tables_of(pair)["messages"][["source_rank", "target_rank", "bytes"]].values.tolist()
    [[0, 1, 100]]
    """
    import pandas as pd

    frames = {}
    for name, (columns, label) in _numbers(graph).items():
        numbers: dict[str, Any] = dict(zip(_COLUMNS[name], columns, strict=False))
        if label is not None:
            for field in _LABEL:
                # Repeated text is kept once; of equal texts the first label's number stands for all.
                texts = [getattr(each, field) for each in graph.labels]
                distinct = list(dict.fromkeys(texts))
                code = np.array([distinct.index(text) for text in texts] or [0])[label]
                numbers[field] = pd.Categorical.from_codes(code, pd.Index(distinct, dtype=object))
        frames[name] = pd.DataFrame(numbers)
    return frames


def _places(path: Path) -> dict[str, Path]:
    """Name the files of the tables: ``job.messages.csv`` beside ``job.csv``."""
    return {name: path.with_name(f"{path.stem}.{name}{path.suffix}") for name in _COLUMNS}


def _not_expressed(graph: MessageGraph, *, with_assumptions: bool) -> tuple[str, ...]:
    nodes = graph.nodes
    sends = nodes[graph.sends]
    receives = nodes[sends["match"]]
    other = np.zeros(len(sends), np.bool_)
    for name in ("label", "phase", "chunk"):
        other |= sends[name] != receives[name]
    lost = 0 if with_assumptions else len(graph.assumptions)
    return (
        *counted(int(other.sum()), len(sends), "messages", "the receive has another label, phase or chunk"),
        *counted(lost, len(graph.assumptions), "assumptions", "no place in CSV; Parquet has one"),
    )


def _quoted(text: str) -> str:
    """Quote a field of CSV where it needs quotes."""
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text


def write_csv(graph: MessageGraph, path: str | Path) -> Translation:
    """Write tables as CSV, in UTF-8 with a line of names: ``job.messages.csv`` and so on for ``job.csv``.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        Names the files; itself it is not written.

    Raises
    ------
    InputError
        The graph has a cycle, or the files cannot be written there.
    """
    checked_order(graph)
    places = _places(Path(path))
    endings = [",".join(_quoted(getattr(label, field)) for field in _LABEL) + "\n" for label in graph.labels]
    with whole_files() as add:
        for name, (columns, label) in _numbers(graph).items():
            commas: list[str | int] = [part for column in range(len(columns)) for part in (column, ",")]
            templates = [[*commas[:-1], "\n"]] if label is None else [[*commas, each] for each in endings]
            which = np.zeros(len(columns[0]), np.int64) if label is None else label
            with add(places[name]) as file:
                file.write((",".join(_COLUMNS[name]) + "\n").encode())
                file.write(text_lines(templates, which, np.stack(columns, 1)))
    return Translation(tuple(places.values()), graph.messages, _not_expressed(graph, with_assumptions=False))


def write_parquet(graph: MessageGraph, path: str | Path) -> Translation:
    """Write tables as Parquet: ``job.messages.parquet`` and so on for ``job.parquet``.

    The messages' table has title and assumptions in its metadata (``astranb``, as JSON).

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        Names the files; itself it is not written.

    Raises
    ------
    InputError
        The graph has a cycle, pyarrow is not installed, or the files cannot be written there.
    """
    checked_order(graph)
    with needs_extra("Parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    places = _places(Path(path))
    about = json.dumps({"title": graph.title, "assumptions": dict(graph.assumptions)})
    with whole_files() as add:
        for name, frame in tables_of(graph).items():
            table = pa.Table.from_pandas(frame, preserve_index=False)
            table = table.replace_schema_metadata(
                {**(table.schema.metadata or {}), b"astranb": about.encode()}
            )
            with add(places[name]) as file:
                pq.write_table(table, file)
    return Translation(tuple(places.values()), graph.messages, _not_expressed(graph, with_assumptions=True))


def table_exists(path: str | Path) -> bool:
    """Return whether a path names tables, as it was given for writing them, and not a file of its own."""
    base = Path(path)
    return not base.exists() and base.suffix in (".csv", ".parquet") and _places(base)["messages"].is_file()


def read_tables(path: str | Path) -> MessageGraph:
    """Read tables that were written as CSV or Parquet, or by others with the same columns.

    Parameters
    ----------
    path : str or Path
        As it was given for writing: ``job.csv`` for ``job.messages.csv`` and so on.

    Raises
    ------
    InputError
        A table or column is missing, or numbers do not fit together.
    """
    base = Path(path)
    if base.suffix not in (".csv", ".parquet"):
        hint = "give job.csv for job.messages.csv and so on, or job.parquet"
        raise InputError(f"tables with the ending {base.suffix!r}", where=str(path), hint=hint)
    title, assumptions = base.stem, {}
    frames = {}
    for name, place in _places(base).items():
        frames[name], about = _read(place, _COLUMNS[name])
        if name == "messages" and about:
            title, assumptions = about.get("title", title), about.get("assumptions", {})
    return _graph(frames, str(path), title, assumptions)


def _read(place: Path, columns: tuple[str, ...]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a table, and what it says about all of them."""
    if place.suffix == ".csv":
        return column_table(place, columns, _LABEL), {}
    table = parquet_table(place, "Parquet", columns, _LABEL)
    try:
        about = json.loads((table.schema.metadata or {}).get(b"astranb", b"{}"))
    except (ValueError, RecursionError):
        about = {}
    return table.to_pandas(), about if isinstance(about, dict) else {}


def _graph(
    frames: dict[str, pd.DataFrame], where: str, title: str, assumptions: Mapping[str, Any]
) -> MessageGraph:
    messages, computations = frames["messages"], frames["computations"]
    ranks = len(frames["ranks"])
    if ranks > _MOST_RANKS or sorted(frames["ranks"]["rank"].tolist()) != list(range(ranks)):
        raise InputError("the ranks are not numbered 0, 1, …", where=where, hint="list each rank once")
    count = 2 * len(messages) + len(computations)
    rows = {"send": _array(messages, "send_node"), "receive": _array(messages, "receive_node")}
    own = _array(computations, "node")
    numbers = np.sort(np.concatenate([rows["send"], rows["receive"], own]))
    if (numbers != np.arange(count)).any():
        hint = "number sends, receives and computations together, each once"
        raise InputError(f"the {count:,} nodes are not numbered 0 to {count - 1:,}", where=where, hint=hint)
    nodes = np.zeros(count, NODE)
    label, labels = _labels([messages, computations])
    of_message, of_computation = label[: len(messages)], label[len(messages) :]
    for end, other, rank, peer, kind in (
        ("send", "receive", "source_rank", "target_rank", SEND),
        ("receive", "send", "target_rank", "source_rank", RECV),
    ):
        at = rows[end]
        nodes["kind"][at], nodes["match"][at], nodes["label"][at] = kind, rows[other], of_message
        nodes["rank"][at], nodes["peer"][at] = _array(messages, rank), _array(messages, peer)
        nodes["start_ps"][at] = _array(messages, f"{end}_start_ps")
        for name in ("bytes", "tag", "phase", "chunk"):
            nodes[name][at] = _array(messages, name)
    nodes["kind"][own], nodes["match"][own], nodes["peer"][own], nodes["label"][own] = (
        COMPUTE,
        -1,
        -1,
        of_computation,
    )
    for name in ("rank", "duration_ps", "start_ps", "phase", "chunk"):
        nodes[name][own] = _array(computations, name)
    waits, deps = _array(frames["dependencies"], "node"), _array(frames["dependencies"], "waits_for")
    if len(waits) and not 0 <= waits.min() <= waits.max() < count:
        raise InputError(
            "a dependency of a node that does not exist", where=where, hint=f"there are {count:,}"
        )
    order = np.argsort(waits, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(waits, minlength=count))]).astype(np.int64)
    said = {str(key): str(value) for key, value in assumptions.items()}
    return MessageGraph(ranks, nodes, start, deps[order], labels, str(title), said)


def _array(frame: pd.DataFrame, name: str) -> np.ndarray:
    return frame[name].to_numpy().astype(np.int64)


def _labels(frames: list[pd.DataFrame]) -> tuple[np.ndarray, list[Label]]:
    """Number the distinct labels of rows, in the order in which they come."""
    code = np.zeros(sum(len(frame) for frame in frames), np.int64)
    known: list[tuple[str, ...]] = [()] if len(code) else []
    for field in _LABEL:
        texts = np.concatenate(
            [np.asarray(frame[field].astype(object).fillna("").astype(str), dtype=object) for frame in frames]
        )
        values = dict.fromkeys(texts.tolist())
        place = {value: number for number, value in enumerate(values)}
        own = np.array([place[text] for text in texts.tolist()], np.int64)
        names = list(values)
        pairs, first, code = np.unique(
            code * max(len(names), 1) + own, return_index=True, return_inverse=True
        )
        known = [(*known[pair // len(names)], names[pair % len(names)]) for pair in pairs.tolist()]
        # In the order in which they come, so that written tables are read and written the same.
        turn = np.argsort(first)
        rank = np.empty(len(turn), np.int64)
        rank[turn] = np.arange(len(turn))
        code, known = rank[code], [known[at] for at in turn.tolist()]
    return code, [Label(*each) for each in known] or [Label()]
