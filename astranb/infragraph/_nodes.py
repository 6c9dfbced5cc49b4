"""What nodes take to pass a message on, and which GPU has which rank."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astranb.core.errors import InputError
from astranb.core.units import format_time

from ._annotate import Annotations
from ._link_types import forwarding
from ._model import Plan

__all__ = ["forward_latencies", "rank_order"]

Ints = NDArray[np.int64]


def forward_latencies(plan: Plan, component: Ints, annotations: Annotations) -> tuple[Ints, list[str]]:
    """Give every node the time it takes to pass a message on.

    Returns
    -------
    forward_ps : ndarray of int64, shape (nodes,)
    assumed : list of str
    """

    @cache
    def guess(row: int) -> tuple[int, str, str]:
        device, c = plan.components[row]
        name, inside = c.name.lower(), f"{c.name} {c.description}".lower()
        kind = c.kind.name if c.kind is not None else ""
        return forwarding(kind, name, inside, f"{inside} {device.name} {device.description}".lower())

    table = np.asarray([guess(i)[0] for i in range(len(plan.components))] or [0], np.int64)
    forward = table[component]
    known = np.zeros(len(component), bool)
    for note in annotations.nodes:
        if "astranb.latency" in note.read:
            nodes = note.about[0].nodes()
            forward[nodes] = note.read["astranb.latency"]
            known[nodes] = True
    counts = np.bincount(component[~known], minlength=len(plan.components)).tolist()
    counted: Counter[str] = Counter()
    for row, count in enumerate(counts):
        ps, label, source = guess(row)
        if ps and count:
            name = plan.components[row][1].name
            counted[f"forwarding latency of {label} {name!r}: {format_time(ps)} ({source})"] += count
    return forward, [f"{text}, {count:,} nodes" for text, count in counted.items()]


def rank_order(gpus: Ints, annotations: Annotations, names: Any) -> Ints:
    """Order GPUs by rank: as annotated, else as the document has them.

    Raises
    ------
    InputError
        Ranks are not 0 … n - 1, each once.
    """
    rank: dict[int, tuple[int, Any]] = {}
    among = set(gpus.tolist())
    for note in annotations.nodes:
        value = note.read.get("astranb.rank", note.read.get("rank"))
        if value is not None:
            rank.update((n, (value, note)) for n in note.about[0].nodes().tolist() if n in among)
    if not rank:
        return gpus
    order = np.full(len(gpus), -1, np.int64)
    for node, (value, note) in rank.items():
        if value >= len(gpus) or order[value] >= 0:
            why = (
                f"is also that of {names(int(order[value]))}"
                if value < len(gpus)
                else f"is not below {len(gpus)}"
            )
            raise annotations.source.error(
                f"rank {value} of {names(node)} {why}", note.place, "ranks run from 0"
            )
        order[value] = node
    if len(rank) < len(gpus):
        missing = next(n for n in gpus.tolist() if n not in rank)
        raise InputError(
            f"{len(rank)} of {len(gpus)} GPUs have a rank annotation, {names(missing)} has none",
            where=annotations.source.where(),
            hint="give every GPU a rank, or none",
        )
    return order
