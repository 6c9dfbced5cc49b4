"""Links and nodes that fail, and come up again, at given times of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.engine import no_other_routes
from astranb.infragraph import is_link, one_node, spelled
from astranb.net import Fabric
from astranb.sim import Simulation

__all__ = ["LinkFailures", "fabric_of", "links_of"]


@dataclass(frozen=True)
class LinkFailures:
    """Links that fail and come up again during a run, and when routes change.

    Attributes
    ----------
    changes : tuple of (int, bool, str)
        When, whether it is up from then on, and the link or node.
    detection_ps : int or None
        How long after each change routes change; None: never.
    """

    changes: tuple[tuple[int, bool, str], ...]
    detection_ps: int | None = None

    @classmethod
    def of(cls, failed: Sequence[str], repaired: Sequence[str] = (), reroute: str = "never") -> LinkFailures:
        """Read them from text.

        Parameters
        ----------
        failed, repaired : sequence of str
            ``LINK@TIME``: a link ``A->B`` (both directions), a lane ``A->B#k`` or a node, and when.
        reroute : str
            How long after each change routes change, or ``never``.

        Raises
        ------
        InputError
            A time is missing or cannot be read.

        Examples
        --------
        >>> LinkFailures.of(["gpu[0]->gpu[1]@40us"], reroute="5 us")
        LinkFailures(changes=((40000000, False, 'gpu[0]->gpu[1]'),), detection_ps=5000000)
        """
        changes = [(*_split(text, "--fail"), False) for text in failed]
        changes += [(*_split(text, "--repair"), True) for text in repaired]
        changes.sort(key=lambda change: change[1])
        detection = None if reroute == "never" else time_ps(reroute, where="--reroute")
        return cls(tuple((when, up, path) for path, when, up in changes), detection)

    def check(self, sim: Simulation) -> None:
        """Raise an error where they name no link, or have no effect on a run.

        Raises
        ------
        InputError
            There is no such link or node, or nothing ever waits for it.
        """
        links_of(fabric_of(sim, "--fail"), [path for _, _, path in self.changes])
        if sim.fidelity == "analytical" and self.detection_ps is None:
            what = "without congestion nothing waits for a link that fails while the run goes"
            raise InputError(what, where="--fail", hint="give --reroute 5us, or --fidelity congestion")

    def happen(self, sim: Simulation) -> None:
        """Run up to the last change, and make each at its time; what comes after the end does not happen."""
        fabric = fabric_of(sim, "--fail")
        moments = {when for when, _, _ in self.changes}
        changed = () if self.detection_ps is None else {when + self.detection_ps for when in moments}
        for now_ps in sorted({*moments, *changed}):
            for when, up, path in self.changes:
                for link in links_of(fabric, [path]) if when == now_ps else ():
                    (sim.repair if up else sim.take_down)(link, both=True, at=now_ps)
            if now_ps in changed:
                sim.reroute(at=now_ps)


def _split(text: str, where: str) -> tuple[str, int]:
    """Read ``LINK@TIME``."""
    path, _, when = text.rpartition("@")
    if not path:
        raise InputError(f"{text!r} has no time", where=where, hint="write LINK@TIME, as A->B@40us")
    return path.strip(), time_ps(when.strip(), where=where)


def fabric_of(sim: Simulation, where: str) -> Fabric:
    """The links of a run by their names.

    Raises
    ------
    InputError
        It has none: its network is of dimensions.
    """
    engine = sim.engine
    if sim.fidelity == "cacheline":
        return engine.fabric  # type: ignore[no-any-return]
    if getattr(engine, "routed", None) is None:
        raise no_other_routes(where)
    return engine.routed.fabric  # type: ignore[no-any-return]


def links_of(fabric: Fabric, paths: Iterable[str]) -> list[str]:
    """The links of a failure by their names; of a node all that it has."""
    found: list[str] = []
    for path in paths:
        name = spelled(path, fabric.graph)
        if is_link(fabric.graph, name):
            found += [fabric.full(lanes) for lanes in fabric.by_ends(fabric.find(path))]
            continue
        node = one_node(fabric.graph, name)
        others = np.unique(fabric.links["dst"][fabric.links["src"] == node]).tolist()
        found += [f"{fabric.graph.name(node)}->{fabric.graph.name(other)}" for other in others]
    return list(dict.fromkeys(found))
