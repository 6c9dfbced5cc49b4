"""The panel's table is what the simulation adds up."""

from __future__ import annotations

import json

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.widgets.feed import LineFeed
from astranb.widgets.session import session_of
from astranb.widgets.views import interval


def test_the_panel_shows_what_the_simulation_adds_up() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"))
    sim.run()
    feed = LineFeed(session_of(sim))
    for ranks in (None, [3]):
        told, buffers = interval.answer(feed, {"from": 1e6, "to": 4e6, "ranks": ranks})
        found = sim.aggregate(1_000_000, 4_000_000, ranks=ranks)
        assert json.loads(json.dumps(told)) == told
        assert not buffers
        assert told["states"] == found.states
        assert told["classes"] == found.classes
        assert told["links"] == found.links[:200]
        assert told["shares"] == found.shares()
        longest = {
            phase: max(row["time_ps"] for row in found.phases if row["phase"] == phase)
            for phase in {row["phase"] for row in found.phases}
        }
        assert {row["phase"]: row["time_ps"] for row in told["phases"]} == longest
    with pytest.raises(InputError):
        interval.answer(feed, {"from": 0, "to": 1, "ranks": [99]})
