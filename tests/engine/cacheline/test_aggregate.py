"""Intervals, against adding up by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline import FLIGHT_KINDS
from astranb.engine.cacheline.tracks import TRACK_STATES


@pytest.fixture(scope="module")
def done() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs", channels=2))
    sim.run()
    return sim


@settings(max_examples=12, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([None, [0], [5, 2]]))
def test_an_interval_is_what_adding_up_gives(
    done: anb.Simulation, one: float, other: float, ranks: list[int] | None
) -> None:
    start, end = sorted((int(one * done.now_ps), int(other * done.now_ps)))
    found = done.aggregate(start, end, ranks=ranks)
    chosen = sorted(ranks) if ranks is not None else list(range(8))
    lines: Counter[tuple[int, str]] = Counter()
    busy: Counter[int] = Counter()
    sizes: Counter[str] = Counter()
    nodes = {int(done.engine.fabric.gpus[rank]) for rank in chosen}
    for flight in done.engine.recorder.flights(0, done.now_ps)[0]:
        link = done.engine.fabric.links[int(flight.link)]
        if ranks is not None and not nodes & {int(link.src), int(link.dst)}:
            continue
        kind = FLIGHT_KINDS[flight.kind]
        if start <= flight.start_ps < end:
            lines[int(flight.link), kind] += 1
            sizes[kind] += int(flight.bytes)
        shared = min(end, flight.start_ps + flight.wire_ps) - max(start, flight.start_ps)
        busy[int(flight.link)] += max(0, int(shared))
    assert {row["kind"]: row["bytes"] for row in found.classes if row["bytes"]} == {**sizes}
    for row in found.classes:
        assert row["lines"] == sum(n for (_, kind), n in lines.items() if kind == row["kind"])
    assert {row["link"]: row["busy_ps"] for row in found.links if row["busy_ps"]} == {
        done.engine.fabric.name(link): ps for link, ps in busy.items() if ps
    }
    assert [row["busy_ps"] for row in found.links] == sorted(
        (r["busy_ps"] for r in found.links), reverse=True
    )
    tracks = done.engine.tracks("sms")
    for row in found.states:
        spent: Counter[str] = Counter()
        for track in np.flatnonzero(tracks.gpu == row["rank"]):
            for state, a, b in zip(*tracks.spans(int(track), start, end), strict=True):
                spent[TRACK_STATES[state]] += max(0, min(int(b), end) - max(int(a), start))
        assert {name: row[name] for name in TRACK_STATES if row[name]} == {
            n: s for n, s in spent.items() if s
        }
        assert sum(spent.values()) + row["idle"] == row["tracks"] * (end - start)
    assert [row["rank"] for row in found.states] == chosen


def test_the_whole_run_is_what_the_links_and_phases_say(done: anb.Simulation) -> None:
    whole = done.aggregate()
    links = done.engine.machine.links[: len(done.engine.fabric.links)]
    assert sum(row["lines"] for row in whole.links) == links["messages"].sum()
    assert sum(row["bytes"] for row in whole.links) == links["bytes"].sum()
    assert sum(row["busy_ps"] for row in whole.links) == links["busy_ps"].sum()
    assert sum(row["queued_ps"] for row in whole.links) == links["queued_ps"].sum()
    first = done.engine.program.phase_names[0]
    rows = [row for row in whole.phases if row["phase"] == first]
    assert len(rows) == 8
    assert min(row["start_ps"] for row in rows) == done.engine.machine.phases[0].started_ps
    assert max(row["end_ps"] for row in rows) == done.engine.machine.phases[0].ended_ps
    assert set(whole.to_dataframe("links")["type"]) == {"nvlink4"}
    assert whole.to_dataframe()["rank"].tolist() == list(range(8))
    assert "store data" in str(whole)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.aggregate("3 us", "1 us"),
        lambda s: s.aggregate(ranks=[8]),
        lambda s: s.aggregate().to_dataframe("lins"),
    ],
)
def test_mistakes_are_one_clear_line(done: anb.Simulation, call: object) -> None:
    with pytest.raises(InputError):
        call(done)  # type: ignore[operator]
