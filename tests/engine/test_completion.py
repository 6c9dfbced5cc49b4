"""Completion of paths: what is proposed for a text, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

import astranb as anb
from astranb.engine.completion import complete
from tests.sim.test_engines import LAYERS, STEP

OBJECTS = ("gpu[0]", "gpu[1]", "gpu[10]", "host.nic.1", "a->b")
KINDS = ("sm", "l2", "lane")


def parts(path: str) -> Mapping[str, Iterable[str]]:
    if path.startswith("gpu"):
        return {kind: [f"{path}.{kind}.{number}" for number in range(20)] for kind in KINDS[:2]}
    return {"lane": (f"{path}#{number}" for number in range(2))} if "->" in path else {}


@pytest.mark.parametrize(
    "text,found",
    [
        ("GPU1", ["gpu[1]", *(f"gpu[1].{kind}.{n}" for kind in KINDS[:2] for n in range(4)), "gpu[10]"]),
        ("gpu[1].", [f"gpu[1].{kind}.{number}" for kind in KINDS[:2] for number in range(4)]),
        ("gpu[1].l2.1", ["gpu[1].l2.1", *(f"gpu[1].l2.1{number}" for number in range(10))]),
        ("nic", ["host.nic.1"]),
        ("l2.3", [f"gpu[{rank}].l2.3" for rank in (0, 1, 10)]),
        ("a->b#", ["a->b#0", "a->b#1"]),
        ("lane", []),
        ("nothing", []),
    ],
)
def test_what_is_proposed(text: str, found: list[str]) -> None:
    assert list(complete(text, OBJECTS, KINDS, parts)) == found


@pytest.mark.parametrize("subject", ["analytical", "congestion", "layers"])
@pytest.mark.parametrize("text", ["", "rank[0]", "rank[0].", "rank[0].op", "op", "dim", "layer", "link"])
def test_paths_of_workloads_can_be_inspected_and_broken_on(subject: str, text: str) -> None:
    layers = subject == "layers"
    sim = anb.Simulation(LAYERS if layers else STEP, fidelity="analytical" if layers else subject)
    sim.run()
    found = sim.paths(text)
    assert bool(found) == (
        text != ("layer" if not layers else "link") and (text, subject) != ("link", "analytical")
    )
    for path in found:
        assert sim.at(path).path
        if not path.startswith("link["):
            sim.clear(sim.break_on(object=path))
    if text == "rank[0]":
        assert found[0] == "rank[0]"
