"""Repair what can be repaired safely in a trace, and report what was done."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.arrays import offsets
from astranb.core.document import contents
from astranb.core.errors import InputError, TruncatedFile
from astranb.core.file_formats import names_format
from astranb.core.packed import unpacked_part
from astranb.core.plural import plural

from .columns import Lists
from .message import encode_node, framed
from .rank_trace import Trace
from .trace_file import MOST_BYTES, begins_as_text, read
from .validity import cyclic_rows, ordered

__all__ = ["read_part", "repaired"]

_SHOWN: Final = 4


@names_format("Chakra", "gzip", "zstd")
def read_part(path: str | Path) -> tuple[Trace, str]:
    """Read a trace, or of a truncated file the whole nodes before its end.

    Returns
    -------
    Trace, str
        And where and why the file ends in the middle; empty for a whole one.

    Raises
    ------
    InputError
        The file cannot be read, or is no trace.
    """
    where = str(path)
    try:
        return read(path), ""
    except TruncatedFile as error:
        cut = error
    said = str(cut).removeprefix(f"{where}: ")
    data = unpacked_part(contents(path, MOST_BYTES), where, MOST_BYTES)
    if not data or begins_as_text(data):
        raise cut
    try:
        trace = Trace(data, where)
    except TruncatedFile as error:
        if not error.at:
            raise
        trace = Trace(data[: error.at], where)
    if not len(trace):
        raise InputError(f"no whole node ({said})", where=where, hint="copy or make it again") from None
    return trace, said


def repaired(trace: Trace) -> tuple[Trace, list[str]]:
    """Repair what is clear: the rest stays for :func:`astranb.chakra.faults` to list.

    Dependencies on nodes that do not exist are dropped. Of nodes with one id, copies of one are dropped;
    others get an id of their own where no node depends on the id, since otherwise it is not clear which
    one is meant. Control dependencies between nodes that wait for each other in cycles are dropped where data
    dependencies alone have no cycle: Chakra's first feeder ignores control dependencies. Data dependencies
    in cycles are dropped where they cannot be true, on the node itself or on one that was recorded as begun
    later, and only if that opens all cycles.

    Returns
    -------
    Trace, list of str
        And what was done, a line each; the trace itself where there is nothing to do.

    Examples
    --------
    >>> from astranb.chakra import Node
    >>> trace, done = repaired(Trace.of([Node(1, "a", 4, data_deps=(2,)), Node(1, "b", 4)]))
    >>> done
    ['dropped 1 dependency on nodes that do not exist', 'renumbered 1 node']
    >>> [(node.id, node.name, node.data_deps) for node in trace.nodes()]
    [(1, 'a', ()), (2, 'b', ())]
    """
    # Which node a dependency means, and which are copies, is known of the dependencies that stay.
    linked, said = _sound(trace)
    better, more = _distinct(linked)
    return better, said + more


def _sound(trace: Trace) -> tuple[Trace, list[str]]:
    """Drop dependencies: on nodes that do not exist, and what opens cycles."""
    cyclic, later = _opened(trace)
    changed = {*np.unique(trace.dangling[0]).tolist(), *cyclic, *later}
    if not changed:
        return trace, []
    known = set(trace.id.tolist())
    within = {int(trace.id[row]) for row in cyclic}
    missing = opened = 0
    messages = []
    for row in range(len(trace)):
        if row not in changed:
            messages.append(trace.message(row))
            continue
        node = trace.node(row)
        data, control = (
            tuple(one for one in some if one in known) for some in (node.data_deps, node.ctrl_deps)
        )
        missing += len(node.data_deps) + len(node.ctrl_deps) - len(data) - len(control)
        data, control = (
            tuple(one for one in some if one not in later.get(row, ())) for some in (data, control)
        )
        kept = tuple(one for one in control if one not in within) if row in cyclic else control
        opened += len(control) - len(kept)
        messages.append(encode_node(replace(node, data_deps=data, ctrl_deps=kept)))
    pairs = [(row, one) for row, some in later.items() for one in sorted(some)]
    shown = ", ".join(f"{trace.id[row]} on {one}" for row, one in pairs[:_SHOWN])
    more = ", …" if len(pairs) > _SHOWN else ""
    counts = {
        ("data", f"in cycles on nodes that began later: {shown}{more}"): len(pairs),
        ("", "on nodes that do not exist"): missing,
        ("control", "in cycles"): opened,
    }
    return _of(messages, trace), [
        f"dropped {plural(count, f'{kind} dependency'.strip(), f'{kind} dependencies'.strip())} {which}"
        for (kind, which), count in counts.items()
        if count
    ]


def _distinct(trace: Trace) -> tuple[Trace, list[str]]:
    """Assign nodes unique ids, and drop copies."""
    dropped, renumbered = _duplicates(trace)
    if not dropped and not renumbered:
        return trace, []
    messages = [
        encode_node(replace(trace.node(row), id=renumbered[row])) if row in renumbered else trace.message(row)
        for row in range(len(trace))
        if row not in dropped
    ]
    done = [f"dropped {plural(len(dropped), 'copy of a node', 'copies of nodes')}"] if dropped else []
    done += [f"renumbered {plural(len(renumbered), 'node')}"] if renumbered else []
    return _of(messages, trace), done


def _of(messages: list[bytes], trace: Trace) -> Trace:
    return Trace(trace.head + b"".join(framed(message) for message in messages), trace.source)


def _opened(trace: Trace) -> tuple[set[int], dict[int, set[int]]]:
    """Find what opens all cycles: rows that lose control dependencies there, and data dependencies by row.

    A data dependency is dropped only where it cannot be true: on the node itself, or on one that was recorded
    as begun later. Nothing is dropped where that does not open all cycles.
    """
    rows, _ = cyclic_rows(trace)
    if not len(rows):
        return set(), {}
    count, inside = len(trace), np.zeros(len(trace), bool)
    inside[rows] = True
    order = np.argsort(trace.id, kind="stable")
    at = np.minimum(np.searchsorted(trace.id[order], trace.data_deps.flat), count - 1)
    parent, owner = order[at], trace.data_deps.owner
    matches = trace.id[parent] == trace.data_deps.flat
    parent, owner = parent[matches], owner[matches]
    if not ordered(Lists(offsets(owner, count), parent))[1]:
        return set(rows.tolist()), {}
    begun = trace.start_us
    wrong = (owner == parent) | ((begun[owner] > 0) & (begun[parent] > begun[owner]))
    wrong &= inside[owner] & inside[parent]
    later: dict[int, set[int]] = {}
    for row, other in zip(owner[wrong].tolist(), parent[wrong].tolist(), strict=True):
        later.setdefault(row, set()).add(int(trace.id[other]))
    if ordered(Lists(offsets(owner[~wrong], count), parent[~wrong]))[1]:
        return set(), {}
    every = trace.present_parents
    gone = np.isin(every.owner * count + every.flat, owner[wrong] * count + parent[wrong])
    kept = Lists(offsets(every.owner[~gone], count), every.flat[~gone])
    return set(rows.tolist()) if ordered(kept)[1] else set(), later


def _duplicates(trace: Trace) -> tuple[set[int], dict[int, int]]:
    """Find rows that are copies of an earlier one, and new ids for rows where that is clear."""
    pairs = trace.duplicates
    if not len(pairs):
        return set(), {}
    needed = set(trace.data_deps.flat.tolist()) | set(trace.ctrl_deps.flat.tolist())
    fresh = int(trace.id.max()) + 1
    dropped: set[int] = set()
    renumbered: dict[int, int] = {}
    seen: Counter[tuple[int, bytes]] = Counter()
    for before, row in pairs.tolist():
        number = int(trace.id[row])
        seen[number, trace.message(before)] += 1
        if seen[number, trace.message(row)]:
            dropped.add(row)
        elif number not in needed and fresh < 1 << 64:
            renumbered[row] = fresh
            fresh += 1
    return dropped, renumbered
