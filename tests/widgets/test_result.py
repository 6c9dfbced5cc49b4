"""The panel at the end of a run: times, bandwidths, the bound, and the parts of the time."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.engine.operations.activity import ACTIVITIES
from astranb.widgets.feed import feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from tests.engine.operations.support import mixed


def outcome(sim: anb.Simulation) -> dict[str, object]:
    feed = feed_of(session_of(sim))
    return answers_of(feed)["outcome"](feed, {})[0]


def test_a_collective_has_bandwidths_and_a_bound() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    found = outcome(sim)
    facts = {what: (text, path) for what, text, path in found["facts"]}  # type: ignore[attr-defined]
    assert list(facts) == ["time", "algbw", "busbw", "bandwidth bound"]
    assert facts["algbw"][0] == "1.967 GB/s"
    assert facts["bandwidth bound"] == ("1% of the time, out of GPU0 (450 GB/s)", "gpu[0]")
    names = [name for name, _, _ in found["parts"]]  # type: ignore[attr-defined]
    assert names == ["issue", "signal", "data", "fence", "semaphore"]
    assert sum(share for _, _, share in found["parts"]) == pytest.approx(1, abs=0.01)  # type: ignore[attr-defined]
    assert "Bandwidth limit: the bytes out of GPU0 (450 GB/s)" in sim.result.explain()


def test_a_workload_has_its_slowest_rank_and_exposed_communication() -> None:
    sim = mixed()
    assert not outcome(sim)["finished"]
    sim.run()
    found = outcome(sim)
    facts = {what: (text, path) for what, text, path in found["facts"]}  # type: ignore[attr-defined]
    rows = sim.result.per_rank()
    last = max(rows, key=lambda row: (row["end_ps"], -row["rank"]))["rank"]
    assert facts["slowest"][1] == f"rank[{last}]"
    assert "most exposed communication" in facts
    shares = {name: share for name, _, share in found["parts"]}  # type: ignore[attr-defined]
    assert shares["compute"] == pytest.approx(sim.result.breakdown()["compute"])
    assert set(shares) <= set(ACTIVITIES)  # as on the timeline
