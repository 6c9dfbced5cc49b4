"""The text of a schedule: right for every collective in every network, and what the schedule says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, check_text, text_algorithm
from astranb.core.errors import InputError
from astranb.explore import synthesize
from astranb.explore.synthesis.condition import SYNTHESIZED

from .support import networks


@settings(max_examples=20, deadline=None)
@given(networks(), st.sampled_from(SYNTHESIZED), st.integers(1, 3))
def test_the_text_is_right_in_every_network(drawn, collective, slices):
    infra, down = drawn
    try:
        found = synthesize(infra, collective, "48 KiB", slices=slices, trials=1, down=down)
    except InputError:  # not connected
        return
    channels = found.text_channels
    ranks = found.network.ranks
    assert channels % slices == 0
    assert (
        check_text(
            found.text, collective=collective, ranks=ranks, size="48 KiB", channels=channels, seconds=60
        )
        == []
    )


@pytest.mark.parametrize("root", [1, 2])
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "gather", "scatter"])
def test_the_root_need_not_be_the_first_rank(collective, root):
    found = synthesize("ring:gpus=4", collective, "16 KiB", root=root, slices=1, trials=1)
    assert check_text(found.text, collective=collective, ranks=4, size="16 KiB", root=root, seconds=60) == []


def test_rows_are_the_sends_of_the_schedule_in_their_order():
    found = synthesize("mesh2d:rows=2,columns=3", "all_reduce", "96 KiB", slices=1, trials=1)
    rows = [tuple(map(int, row)) for row in re.findall(r"\((\d+), (\d+), (\d+), (\d+)\)", found.text)]
    steps = found.steps.sort_values(["start_ps", "source", "target"])
    assert [row[1:] for row in rows] == list(zip(steps.source, steps.target, steps.chunk, strict=True))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert rows[-1][0] == steps.start_ps.nunique() - 1


def test_nics_carry_what_leaves_a_server():
    found = synthesize("rails:servers=2", "gather", "64 KiB", trials=1)
    what = Collective.of("gather", "64 KiB", text_algorithm(found.text, "mine"), channels=found.text_channels)
    sim = anb.Simulation("rails:servers=2", what)
    sim.run()  # the result is checked
    assert sim.finished
