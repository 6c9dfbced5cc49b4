"""The operations of a rank by module, and how far each module is."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from astranb.chakra import Distinct, GraphNodes, ModuleTree
from astranb.core.arrays import ranges
from astranb.engine.operations import COMMUNICATION, KINDS, About
from astranb.widgets.feed import Message, ModuleAnswers, OperationFeed, View, pack

__all__ = ["VIEW", "nodes_of"]

_MOST_RANKS = 4  # whose modules are kept
_MEMORY = KINDS.index("memory")
_WAITING, _READY, _RUNNING, _DONE = range(4)  # as STATES
_kept: WeakKeyDictionary[OperationFeed, dict[int, ModuleAnswers]] = WeakKeyDictionary()


def _answers(feed: OperationFeed, options: dict[str, Any]) -> ModuleAnswers:
    """The modules of the rank in ``options``."""
    sim = feed.sim
    rank = min(max(0, int(options.get("rank", 0))), sim.ranks - 1)
    ranks = _kept.setdefault(feed, {})
    if rank not in ranks:
        while len(ranks) >= _MOST_RANKS:
            del ranks[next(iter(ranks))]
        about = sim.engine.about
        rows = about.rows_of(rank)
        tree = ModuleTree(nodes_of(about, rows, f"rank {rank}"))
        ranks[rank] = ModuleAnswers(
            tree,
            lambda row: [("operation", about.text(int(rows[row]))), ("path", about.path(int(rows[row])))],
        )
    return ranks[rank]


def nodes_of(about: About, rows: np.ndarray, source: str) -> GraphNodes:
    """The operations in some rows as a graph."""
    if about.parts is None:
        lengths = np.diff(about.first)[rows]
        before, after = about.parents[ranges(about.first[rows], lengths)], np.repeat(rows, lengths)
    else:
        parents = [about.parents_of(int(row)) for row in rows]
        before = np.concatenate([np.zeros(0, np.int64), *parents])
        after = np.repeat(rows, [len(some) for some in parents])
    order = np.argsort(rows)
    places = order[np.minimum(np.searchsorted(rows[order], [before, after]), len(rows) - 1)]
    own = rows[places[0]] == before
    kind = about.kind[rows]
    communicates = np.isin(kind, COMMUNICATION)
    nothing = np.zeros(len(rows), np.int64)
    return GraphNodes(
        Distinct.of(about.label(int(row)) for row in rows),
        np.where(communicates, 1, np.where(kind == _MEMORY, 2, 0)),
        places[0][own],
        places[1][own],
        np.zeros(int(own.sum()), bool),
        nothing,
        np.where(communicates, about.size[rows], 0),
        nothing,
        source=source,
    )


def about_modules(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with what a view needs before it asks for single modules: ``rank``."""
    return _answers(feed, options).about, []


def module(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """The drawing of one ``module`` of a ``rank``."""
    return _answers(feed, options).module(int(options.get("module", 0)))


def detail(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with the facts about one operation: ``rank``, ``entity``."""
    return _answers(feed, options).detail(int(options.get("entity", -1))), []


def search(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Operations and modules of a ``rank`` by ``text``."""
    return _answers(feed, options).search(str(options.get("text", ""))), []


def states(feed: OperationFeed, options: dict[str, Any]) -> Message:
    """Answer with the progress of the children of some ``modules`` of a ``rank`` at ``at_ps``."""
    tree = _answers(feed, options).tree
    engine = feed.session.at(options.get("at_ps")).engine
    rank = min(max(0, int(options.get("rank", 0))), engine.ranks - 1)
    now = np.asarray(engine.states(engine.about.rows_of(rank)))
    modules = [int(one) for one in options.get("modules", [0]) if 0 <= int(one) < len(tree)]
    some = np.concatenate([np.zeros(0, np.int64), *(tree.children(one) for one in modules)])
    is_node = some >= len(tree)
    rows, whole = np.where(is_node, some - len(tree), 0), np.where(is_node, 0, some)
    counts = {
        state: np.where(is_node, now[rows] == state, tree.sums(now == state)[whole]).astype(np.int64)
        for state in (_READY, _RUNNING, _DONE)
    }
    total = np.where(is_node, 1, tree.kinds.sum(1)[whole])
    state = np.select(
        [counts[_RUNNING] > 0, counts[_DONE] == total, counts[_READY] > 0],
        [_RUNNING, _DONE, _READY],
        _WAITING,
    )
    return {"rank": rank}, pack(
        "module_states", entity=some, state=state, done=counts[_DONE], running=counts[_RUNNING], total=total
    )


VIEW = View(
    OperationFeed,
    {
        "modules": about_modules,
        "module": module,
        "module_detail": detail,
        "module_search": search,
        "module_states": states,
    },
)
