"""What takes long on a large machine is done in slices: the page answers meanwhile, and Pause ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import astranb as anb
from tests.widgets.live.kernels import NodeKernel, PythonKernel, Sent, page_kernel

READY: dict[str, Any] = {"type": "ready"}
LINK = "gpu[0]->dgx_h100.0.nvsw.0"
SOON: dict[str, Any] = {"type": "sleep", "ms": 15}
"""While the page works: a slice takes ten."""

_EDITED = 150_000


@pytest.fixture(scope="module")
def python() -> anb.Simulation:
    """Give a run at its end, changed on the way. Tests move forks of it."""
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("128 KiB", "ring"))
    sim.step(_EDITED)
    sim.set(f"{LINK}.bandwidth", "200 GB/s")
    sim.run()
    return sim


@pytest.fixture
def page(python: anb.Simulation) -> Iterator[NodeKernel]:
    """Give its page, without a checkpoint on the way and with slow steps: going back takes long."""
    with page_kernel(python) as page:
        page.send([{"type": "budget", "bytes": 1}, READY, {"type": "event", "n": _EDITED}])
        page.send([{"type": "set", "path": f"{LINK}.bandwidth", "value": "200 GB/s"}, {"type": "to_end"}])
        assert _hash(page) == python.state_hash()
        page.send({"type": "slow", "ms": 10})
        yield page


def _hash(page: NodeKernel) -> str:
    return str(page.ask("hash")["hash"])


def _last(page: NodeKernel) -> dict[str, Any]:
    """The state now, however many states before have not been read."""
    return [meta for meta, _ in page.send({"type": "fine"}) if meta["type"] == "state"][-1]


def _answers(sent: Sent) -> list[dict[str, Any]]:
    return [meta for meta, _ in sent if meta["type"] in ("answer", "inspection")]


def _goto(sim: anb.Simulation, part: float) -> dict[str, Any]:
    """To a part of the time of a run."""
    return {"type": "goto", "when": int(part * sim.now_ps)}


def _fork(sim: anb.Simulation, command: dict[str, Any]) -> anb.Simulation:
    """Where a command takes a run."""
    other = sim.fork()
    other.goto(command["when"])
    return other


def test_pause_ends_going_back_at_a_moment_of_the_run(page: NodeKernel, python: anb.Simulation) -> None:
    back = _goto(python, 0.9)
    page.send([READY, back, SOON, {"type": "pause"}])
    state = _last(page)
    other = python.fork()
    other.goto(state["now_ps"])
    assert state["status"].startswith("paused on the way back, at ")
    assert f"event {state['events']:,}" in state["status"]
    assert 0 < state["events"] < _fork(python, back).events
    assert not state["playing"]
    other.back(other.events - state["events"])
    assert _hash(page) == other.state_hash()
    page.send({"type": "event", "n": 100})
    other.step(100)
    assert _hash(page) == other.state_hash()


def test_views_are_told_how_far_it_is(page: NodeKernel, python: anb.Simulation) -> None:
    page.send({"type": "slow", "ms": 60})
    sent = page.send([READY, _goto(python, 0.9)])
    states = [meta for meta, _ in sent if meta["type"] == "state"]
    working = [state for state in states if state["status"] == "going back"]
    done = [state["progress"]["done"] for state in working]
    assert len(done) > 1
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] <= 1
    assert {(s["playing"], s["fast"], s["progress"]["of"]) for s in working} == {(True, True, "way back")}
    assert {(s["now_ps"], s["events"]) for s in working} == {(python.now_ps, python.events)}  # as it was
    assert {s["total"] - s["first"] for s in working} == {0}
    assert not states[-1]["playing"]
    assert states[-1]["status"].startswith("went back at ")


_SLOW = [pytest.param(*times, marks=pytest.mark.slow) for times in [(0.2, 0.9), (0.97, 0.3)]]


@pytest.mark.parametrize("first, then", [(0.9, 0.97), (0.9, 1.0), *_SLOW])
def test_a_newer_time_to_go_to_replaces_an_older_one(
    page: NodeKernel, python: anb.Simulation, first: float, then: float
) -> None:
    page.send([READY, _goto(python, first), SOON, {"type": "event"}, _goto(python, then)])
    other = _fork(python, _goto(python, then))
    found = _last(page)
    assert (found["now_ps"], found["events"]) == (other.now_ps, other.events)
    assert found["events"] < _EDITED or then == 1 or page.ask("parameters", path="")["edits"]
    assert _hash(page) == other.state_hash()


def test_a_change_that_waits_is_made_before_a_newer_time_is_gone_to(
    page: NodeKernel, python: anb.Simulation
) -> None:
    change = {"type": "set", "path": "gpu[1].l2", "value": "1 us"}
    back, on = _goto(python, 0.5), _goto(python, 0.6)
    page.send([READY, back, SOON, change, on])
    other = _fork(python, back)
    other.set(change["path"], change["value"])
    other.goto(on["when"])
    assert _hash(page) == other.state_hash()


def test_what_waits_is_done_in_order(page: NodeKernel, python: anb.Simulation) -> None:
    back = _goto(python, 0.8)
    hashed = {"type": "ask", "id": 1, "question": "hash", "options": {}}
    steps = [{"type": "event", "n": 7}, {"type": "back"}, {"type": "back", "n": 2}]
    inspected = {"type": "inspect", "path": "gpu[3]"}
    asked: list[Any] = [READY, back, SOON, hashed, *steps, {**hashed, "id": 2}, inspected]
    sent = _answers(page.send(asked))
    assert [meta.get("id") for meta in sent] == [1, 2, None]
    other = _fork(python, back)
    assert sent[0]["hash"] == other.state_hash()
    other.step(7)
    other.back(1)
    other.back(2)
    assert sent[1]["hash"] == other.state_hash()
    assert sent[2]["at_ps"] == other.now_ps


def test_pause_forgets_moves_that_wait_but_no_change(page: NodeKernel, python: anb.Simulation) -> None:
    change = {"type": "watch", "what": "gpu[1].sm.0.issued"}
    page.send([READY, _goto(python, 0.9), SOON, {"type": "to_end"}, change, {"type": "pause"}])
    assert not _last(page)["finished"]
    page.send({"type": "slow", "ms": 0})
    (watch,) = page.ask("breaks")["watches"]
    assert watch["text"].endswith(".1.sm.0.issued")


def test_questions_about_the_past_follow_the_cursor(page: NodeKernel, python: anb.Simulation) -> None:
    times = [int(part * python.now_ps) for part in (0.9, 0.3, 0.7, 0.5)]
    asked = [
        {"type": "ask", "id": number, "question": "where", "options": {"at_ps": when}}
        for number, when in enumerate(times)
    ]
    inspected = {"type": "inspect", "path": "gpu[2].sm.0", "at_ps": times[-1]}
    drag = [message for one in asked for message in (one, SOON)]
    sent = page.send([*drag, inspected])
    assert [meta.get("id") for meta, _ in sent] == [*range(len(times)), None]
    assert {meta["at_ps"] for meta, _ in sent} == {times[-1]}
    kernel = PythonKernel(python)
    ((expected, columns),) = kernel.send(asked[-1])
    for meta, buffers in sent[:-1]:
        assert {**meta, "id": 0} == {**expected, "id": 0}
        assert buffers == columns
    assert sent[-1][0] == kernel.send(inspected)[0][0]
    # The run itself has not moved, and a step does not wait for the past.
    sent = page.send([asked[0], SOON, {"type": "back"}])
    assert _answers(sent)[0]["at_ps"] == times[0]
    assert _last(page)["events"] == python.events - 1


def test_the_cursor_returns_to_the_present(page: NodeKernel, python: anb.Simulation) -> None:
    past = {"type": "inspect", "path": "gpu[2].sm.0", "at_ps": int(0.9 * python.now_ps)}
    now = {**past, "at_ps": None}
    sent = page.send([past, SOON, now])
    assert [meta["at_ps"] for meta, _ in sent] == [python.now_ps] * 2
    assert sent[0][0] == PythonKernel(python).send(now)[0][0]
