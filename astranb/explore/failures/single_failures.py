"""Loss of speed of a machine without each of its links, NICs or switches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import Deadlock, InputError, NoRoute, near
from astranb.core.progress import bar
from astranb.core.units import time_ps
from astranb.infragraph import Infra, NodeKind, resolve
from astranb.sim import Simulation

from .link_failures import fabric_of, links_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["survive"]

_KINDS: Final = {"each nic": NodeKind.NIC, "each switch": NodeKind.SWITCH}
_EACH: Final = ("each link", *_KINDS)
_MOST_NAMED: Final = 2


def survive(
    infra: Infra | str | Path,
    what: Any,
    failures: str | Sequence[str | Sequence[str]] = "each link",
    *,
    at: int | str | None = None,
    detection: int | str = 0,
    fidelity: str | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Measure how much slower something is with each failure, and which links carry more then.

    Parameters
    ----------
    infra, what, fidelity, **options
        As for :class:`astranb.Simulation`.
    failures : str or sequence
        ``"each link"`` (both directions and all lanes between two nodes), ``"each nic"`` or ``"each
        switch"``, of those on routes between ranks that communicate; or a list of failures, each a link
        ``A->B``, a lane ``A->B#k``, a node, or several of these at once.
    at : int or str, optional
        When it fails; before the start where not given.
    detection : int or str
        How long after ``at`` routes change (:meth:`astranb.Simulation.reroute`); until then messages wait.

    Returns
    -------
    pandas.DataFrame
        One row for each failure, the worst first: ``failed``, ``time_ps``, ``slower`` (times as
        without), ``took_over`` (the links that carry most more, with how much more; empty without congestion,
        where messages occupy no links), ``reason`` (why it cannot run; its time is missing then).

    Raises
    ------
    InputError
        There is no such link, or ``what`` cannot run without a failure.

    Examples
    --------
    >>> import astranb as anb
    >>> ring = anb.collectives.all_reduce("16 MiB", "ring")
    >>> table = anb.explore.survive("ring:gpus=4", ring, fidelity="congestion")
    >>> len(table), table.failed[0], bool(table.slower.min() > 1)
    (4, 'box.0.gpu.0->box.0.gpu.1', True)
    """
    import pandas as pd

    machine = resolve(infra)
    at_ps = None if at is None else time_ps(at, where="at")
    wait_ps = time_ps(detection, where="detection")

    def opened(one: Infra) -> Simulation:
        recorded = fidelity == "congestion"  # bytes of links are a recording there
        return Simulation(one, what, fidelity=fidelity, **{"record": recorded, **options})

    whole = opened(machine)
    moment = whole.fork()
    if at_ps is not None:
        moment.run(until=at_ps)
    whole.run()
    base_ps, carried = whole.result.time_ps, _carried(whole)
    rows = []
    fabric, listed = fabric_of(whole, "survive"), _paths(failures, whole)
    with bar(len(listed), what="failures", unit=" runs") as progress:
        for paths in listed:
            row: dict[str, Any] = {"failed": ", ".join(paths), "reason": "", "took_over": ""}
            rows.append(row)
            try:
                if at_ps is None:
                    sim = opened(machine.without(*paths))
                else:
                    sim = moment.fork()
                    for link in links_of(fabric, paths):
                        sim.take_down(link, both=True)
                    sim.reroute(at=sim.now_ps + wait_ps if wait_ps else None)
                sim.run()
                row |= {"time_ps": sim.result.time_ps, "slower": sim.result.time_ps / base_ps}
                row["took_over"] = _took_over(carried, _carried(sim))
            except Deadlock as error:
                row["reason"] = str(error)
            except NoRoute as error:
                row["reason"] = error.what
            progress.update(1)
    table = pd.DataFrame(rows, columns=["failed", "time_ps", "slower", "took_over", "reason"])
    table = table.astype({"time_ps": "Int64", "slower": float})
    return table.sort_values("slower", ascending=False, kind="stable", ignore_index=True, na_position="first")


def _lanes_on_routes(sim: Simulation) -> np.ndarray:
    """The lanes on routes between ranks that communicate."""
    engine, fabric = sim.engine, fabric_of(sim, "survive")
    if sim.fidelity == "cacheline":
        lanes = np.unique(engine.machine.route_links)
        return lanes[lanes < len(fabric.links)]
    return np.unique([lane for link in engine.routed.known(engine.machine).lanes for lane in link])


def _paths(failures: str | Sequence[str | Sequence[str]], sim: Simulation) -> list[tuple[str, ...]]:
    """The links and nodes of each failure."""
    if not isinstance(failures, str):
        return [(one,) if isinstance(one, str) else tuple(one) for one in failures]
    if failures not in _EACH:
        raise InputError(f"unknown failures {failures!r}", where="failures", hint=near(failures, _EACH))
    fabric, lanes = fabric_of(sim, "survive"), _lanes_on_routes(sim)
    name = fabric.graph.name
    ends = np.stack([fabric.links["src"][lanes], fabric.links["dst"][lanes]], axis=1)
    if failures == "each link":
        pairs = np.unique(np.sort(ends, axis=1), axis=0).tolist()
        return [(f"{name(a)}->{name(b)}",) for a, b in pairs]
    nodes = np.unique(ends)
    return [(name(node),) for node in nodes[fabric.graph.nodes.kind[nodes] == _KINDS[failures]].tolist()]


def _carried(sim: Simulation) -> Mapping[str, float]:
    """Bytes of each directed link between two nodes; nothing where messages occupy none."""
    found: dict[str, float] = defaultdict(float)
    fabric = fabric_of(sim, "survive")
    if sim.fidelity == "cacheline":
        for row in sim.result.table("links"):
            found[row["link"].partition("#")[0]] += row["bytes"]
    elif sim.fidelity == "congestion":
        machine = sim.engine.machine
        for lanes, used in zip(
            sim.engine.routed.known(machine).lanes, machine.used.bytes.tolist(), strict=False
        ):
            for lane in lanes:  # packets are spread over all of them
                found[fabric.name(lane).partition("#")[0]] += used / len(lanes)
    return found


def _took_over(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Name the links that carry most more."""
    more = sorted(((after[link] - before.get(link, 0), link) for link in after), reverse=True)
    named = []
    for grown, link in more[:_MOST_NAMED]:
        if grown > 0:
            had = before.get(link, 0)
            named.append(f"{link} +{grown / had:.0%}" if had else f"{link} (unused before)")
    return ", ".join(named)
