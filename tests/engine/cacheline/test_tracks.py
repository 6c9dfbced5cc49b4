"""States of SMs over time, against looking at the machine after every event."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.engine.cacheline.tracks import TRACK_STATES
from astranb.gpu import tables as t

NAMES = {name: number for number, name in enumerate(TRACK_STATES)}


def narrow(slots: int) -> Any:
    """A GPU with so few outstanding slots that SMs stall for them."""
    preset = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs")).engine.presets[0]
    return dataclasses.replace(preset, max_outstanding=slots)


def watched(sim: anb.Simulation, events: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """After every event, what each SM that has a thread block does from then on."""
    machine = sim.engine.machine
    sm = machine.blocks["sm"]  # each has one
    times, states, issues = [], [], {}
    begun = machine.sms["next_issue_ps"].max()  # what was issued before then is not known here
    for _ in range(events):
        at = machine.blocks["op"].copy()
        issued = machine.sms["issued"].copy()
        sim.step(1)
        now = sim.now_ps
        for one in np.flatnonzero(machine.sms["issued"] != issued):
            block = int(np.flatnonzero(sm == one)[0])
            kind = int(machine.ops["kind"][at[block]])
            issues[int(one)] = (int(machine.sms["next_issue_ps"][one]), kind)
        row = []
        for block in range(len(machine.blocks)):
            until, kind = issues.get(int(sm[block]), (0, -1))
            state = int(machine.blocks["state"][block])
            if until > now and kind != t.WAIT:
                row.append({t.MOVE: "issue", t.NOTIFY: "signal", t.COMPUTE: "compute"}[kind])
            elif machine.sms["stalled"][sm[block]]:
                row.append("data: no slot")
            else:
                names = {
                    t.MOVING: "data", t.SIGNALLING: "signal", t.WAITING: "semaphore",
                    t.DRAINING: "fence",
                }  # fmt: skip
                row.append(names.get(state, ""))
        times.append(now)
        states.append([NAMES.get(name, -1) for name in row])
    told = np.array(times) >= begun
    return np.array(times)[told], np.array(states)[told], sm.copy()


@pytest.mark.parametrize("slots, size", [(0, "1 KiB"), (3, "4 KiB")])
def test_an_sm_is_in_the_state_that_the_machine_says(slots: int, size: str) -> None:
    options = {"gpu": narrow(slots)} if slots else {}
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, "allpairs", channels=1), **options)
    sim.step(2500 if slots else 100)
    before = sim.fork()
    tracks = before.engine.tracks("sms")
    times, states, sm = watched(sim, 2000 if slots else 5500)
    before.goto(sim.now_ps)
    track_of = {int(s): k for k, s in enumerate(np.unique(sm))}
    seen = set()
    for k in range(len(times) - 1):
        if times[k + 1] == times[k]:
            continue  # more happens at this moment
        for block, state in enumerate(states[k]):
            found, start, end = tracks.spans(track_of[int(sm[block])], int(times[k]), int(times[k]) + 1)
            here = found[(start <= times[k]) & (times[k] < end)]
            if state == -1:
                assert len(here) == 0
            else:
                assert here.tolist() == [state], (k, block, times[k], TRACK_STATES[state])
                seen.add(TRACK_STATES[state])
    assert {"issue", "signal", "semaphore"} <= seen
    assert ("data" in seen) != bool(slots)
    assert ("data: no slot" in seen) == bool(slots)


@pytest.mark.parametrize(
    "infra, size, algorithm",
    [
        ("dgx-h100", "64 KiB", "ring"),
        ("dgx-h100", "16 KiB", "allpairs"),
        ("dgx-h100", "16 KiB", "allpairs_oneshot"),
        ("clos:servers=2,per_leaf=2", "8 KiB", "hierarchical"),
    ],
)
def test_keeping_up_gives_what_working_out_at_the_end_gives(infra: str, size: str, algorithm: str) -> None:
    collective = anb.collectives.all_reduce(size, algorithm)
    whole = anb.Simulation(infra, collective)
    whole.run()
    sim = anb.Simulation(infra, collective)
    random = np.random.default_rng(1)
    while not sim.finished:
        sim.step(int(random.integers(1, 9000)))
        sim.engine.tracks("sms").refresh()
        if random.random() < 0.4:
            sim.back(int(random.integers(1, 6000)))
        sim.engine.tracks("blocks").refresh()
    assert sim.now_ps == whole.now_ps
    edges = np.linspace(0, whole.now_ps, 700).astype(np.int64)
    for kind in ("sms", "blocks"):
        one, other = whole.engine.tracks(kind), sim.engine.tracks(kind)
        every = np.arange(len(one))
        assert (one.spent(every, edges) == other.spent(every, edges)).all()
        assert len(other._stretches) < 12
        for track in (0, len(one) - 1):
            # Beyond the window a span may end where what was worked out at once ends.
            for a, b in zip(one.spans(track, 10**6, 10**7), other.spans(track, 10**6, 10**7), strict=True):
                assert (
                    a.astype(np.int64).clip(max=10**7).tolist() == b.astype(np.int64).clip(max=10**7).tolist()
                )


def test_blocks_spend_what_the_result_says() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    tracks = sim.engine.tracks("blocks")
    spent = tracks.spent(np.arange(len(tracks)), np.array([0, sim.now_ps]))[:, 0]
    for state, field in (("semaphore", "waiting_ps"), ("fence", "draining_ps")):
        assert spent[:, NAMES[state]].tolist() == sim.engine.machine.blocks[field].tolist()


def test_a_lost_recording_leaves_moves_undivided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.engine.cacheline.build._BURSTS", 600)
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.run()
    monkeypatch.undo()
    whole = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    whole.run()
    edges = np.array([0, sim.now_ps])
    every = np.arange(len(sim.engine.tracks("sms")))
    lost, known = (s.engine.tracks("sms").spent(every, edges)[:, 0] for s in (sim, whole))
    assert lost[:, NAMES["issue or data"]].sum() > 0 == known[:, NAMES["issue or data"]].sum()
    assert lost.sum(axis=1).tolist() == known.sum(axis=1).tolist()
    last = np.array([sim.now_ps - 200_000, sim.now_ps])
    assert (
        sim.engine.tracks("sms").spent(every, last) == whole.engine.tracks("sms").spent(every, last)
    ).all()


def test_a_wait_for_a_copy_engine_has_a_name_of_its_own() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.send_recv("64 KiB", "engine"))
    sim.run()
    tracks = sim.engine.tracks("sms")
    assert tracks.engine.any()
    spent = tracks.spent(np.arange(len(tracks)), np.array([0, sim.now_ps]))[:, 0]
    assert spent[:, NAMES["semaphore: copy engine"]].sum() > 0
