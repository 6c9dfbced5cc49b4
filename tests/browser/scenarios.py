"""Runs, and every answer about them, as lines of text that are equal in CPython and Pyodide.

It needs astranb and NumPy alone, as a page has them. ``outcomes`` gives a line for each thing that is done.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import astranb as anb
from astranb.collectives import Collective, verify
from astranb.core.errors import AstranbError
from astranb.widgets.connection import BrowserConnection
from astranb.widgets.feed import feed_of
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from astranb.workload.models import Parallelism, workload

__all__ = ["BUILT", "FEW", "outcomes", "verified"]

_LONG = 160
_WINDOW_PS = 2_000_000
_STEPS = ((1000, "event"), (3, "cycle"), (1, "instruction"), (1, "message"), (1, "operation"), (1, "phase"))


def two_shot(p: Any) -> None:
    """An all-reduce of one's own: reduce-scatter and all-gather, over connections."""
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others:
            wires[me, you].send(block, me.output[me.number])
        for you in me.others:
            block.copy(wires[you, me].receive(block), me.output[you.number])


def without_waiting(p: Any) -> None:
    """A wrong one: nobody waits for what it reads."""
    for me in p.everyone:
        block = me.block()
        for you in me.others:
            block.copy(me.input[you.number], you.output[me.number])


def _collective(infra: str, kind: str, size: str, algorithm: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: anb.Simulation(infra, Collective.of(kind, size, algorithm), **options)


def _model(
    infra: str | None, name: str, plan: Parallelism, fidelity: str = "analytical", **options: Any
) -> Any:
    return lambda: anb.Simulation(infra, workload(name, plan, **options), fidelity=fidelity)


def _down() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.step(5000)
    sim.take_down(next(path for path in sim.paths("->", 9) if "->" in path), both=True)
    sim.reroute()
    return sim


def _changed() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.step(2000)
    sim.set("gpu[2].hbm", "1 TB/s") if "gpu[2].hbm" in {p.path for p in sim.parameters("gpu[2]")} else None
    sim.set(f"{next(path for path in sim.paths('->', 9) if '->' in path)}.bandwidth", "10 GB/s")
    return sim


_TWO = "single-tier:server=dgx-h100,servers=2"
_SMALL = Parallelism(tensor=2, pipeline=2, data=2)

BUILT: dict[str, Callable[[], anb.Simulation]] = {
    "ring": _collective("dgx-h100", "all_reduce", "64 KiB", "ring"),
    "ring, analytical": _collective("dgx-h100", "all_reduce", "64 KiB", "ring", fidelity="analytical"),
    "ring, congestion": _collective("dgx-h100", "all_reduce", "64 KiB", "ring", fidelity="congestion"),
    "all-to-all": _collective("dgx-h100", "all_to_all", "64 KiB"),
    "an algorithm of one's own": _collective("dgx-h100", "all_reduce", "64 KiB", two_shot),
    "all-gather": _collective("switch:gpus=4", "all_gather", "16 KiB", "ring"),
    "two boxes": _collective(_TWO, "reduce_scatter", "16 KiB", "ring"),
    "two boxes, hierarchical": _collective(_TWO, "all_reduce", "16 KiB", "hierarchical"),
    "two boxes, all-to-all": _collective(_TWO, "all_to_all", "16 KiB"),
    "broadcast": _collective("dgx-h100", "broadcast", "16 KiB"),
    "barrier": _collective("switch:gpus=4", "barrier", "16 KiB"),
    "a link is down": _down,
    "parameters are changed": _changed,
    "gpt3-6.7b": _model(None, "gpt3-6.7b", Parallelism(data=2, tensor=8, pipeline=2)),
    "gpt3-125m, congestion": _model(
        "dgx-h100", "gpt3-125m", _SMALL, "congestion", batch=4, microbatches=2, sequence=64
    ),
}
"""Runs by name that are built where they run."""

FEW = ("ring, congestion", "two boxes", "an algorithm of one's own", "gpt3-6.7b")
"""Those of them whose large states are looked at without all questions."""

_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "activity": [
        {"from": 0, "to": _WINDOW_PS, "columns": 64},
        {"from": 0, "to": _WINDOW_PS, "columns": 64, "kind": "gpus", "folds": [0, 1]},
    ],
    "activity_span": [{"time": _WINDOW_PS // 2, "track": 3}],
    "aggregate": [{"from": 0, "to": _WINDOW_PS}],
    "buffer": [{"rank": 2}, {"rank": 1, "buffer": "scratch"}],
    "cell": [{"chunk": 0, "column": 0}],
    "chunks": [{}, {"buffer": "input"}],
    "complete": [{"text": "gpu[3]."}],
    "device": [{"rank": 3}],
    "flows": [{}, {"now": True}, {"order": "bytes", "text": "0"}],
    "footprint": [{"from": 0, "to": 10**9, "columns": 64, "rank": 1}],
    "graph": [{"rank": 1}],
    "line": [{"link": 0}, {"link": 3, "track": 1}],
    "moment": [{"time": _WINDOW_PS // 2}],
    "operation_span": [{"path": "rank[0].op[0]"}],
    "ranks": [{}, {"ranks": [0, 1]}],
    "search": [{"text": "gpu"}, {"text": "rank 3"}, {"text": "1"}],
    "source": [{"path": True}],
    "span": [{"time": _WINDOW_PS // 2, "track": 3}],
    "spans": [
        {"from": 0, "to": _WINDOW_PS, "columns": 64, "tracks": [1, 2, 3], "folds": [0]},
        {"from": 0, "to": _WINDOW_PS, "columns": 64, "kind": "phases", "folds": [1]},
    ],
    "tracks": [
        {"from": 0, "to": 10**9, "columns": 64},
        {"from": 0, "to": 10**12, "columns": 64, "tracks": [0, 1, 2]},
    ],
    "what_if_run": [{"path": "gpu[0].hbm", "value": 2}],
}
"""Options of the views' questions; those that are not named are asked without."""


def _short(text: str) -> str:
    return text if len(text) < _LONG else f"{hashlib.sha1(text.encode()).hexdigest()} of {len(text)}"


def _done(call: Callable[[], Any]) -> str:
    """Return what a call gives as a text; an error of ours is as good as any other answer."""
    try:
        return _short(str(call()))
    except AstranbError as error:
        return _short(f"{type(error).__name__}: {error}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return [str(value.dtype), value.tolist()] if isinstance(value, np.ndarray) else value


def _state(sim: anb.Simulation) -> str:
    return f"{sim.state_hash()} {sim.now_ps} {sim.events}"


class _View:
    """A view of a simulation without a browser."""

    def __init__(self, sim: anb.Simulation) -> None:
        feed = feed_of(session_of(sim))
        self.questions = answers_of(feed)
        self._sent: list[tuple[dict[str, Any], list[bytes]]] = []
        self._connection = BrowserConnection(feed, self.questions, feed.session.ask, self._take)
        feed.session.attach(self._connection.changed)

    def _take(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        self._sent.append((message, buffers))

    def told(self, message: dict[str, Any]) -> str:
        """Send a message; gives all that comes back, with the hash of each column."""
        self._sent = []
        self._connection.receive(None, message, [])
        meta = json.dumps([one for one, _ in self._sent], sort_keys=True)
        return meta + "".join(
            hashlib.sha1(bytes(one)).hexdigest() for _, columns in self._sent for one in columns
        )


def _answers(sim: anb.Simulation, paths: list[str]) -> Iterator[tuple[str, str]]:
    view = _View(sim)
    for kind in ("ready", "read", "fine", "timeline"):
        yield f"message {kind}", _done(lambda kind=kind: view.told({"type": kind}))  # type: ignore[misc]
    for question in sorted(view.questions):
        for number, options in enumerate(_OPTIONS.get(question, [{}])):
            asked = {"type": "ask", "id": 1, "question": question, "options": options}
            yield f"{question} {number}", _done(lambda asked=asked: view.told(asked))  # type: ignore[misc]
    for path in paths:
        told = {"type": "inspect", "path": path}
        yield f"inspect {path}", _done(lambda told=told: view.told(told))  # type: ignore[misc]
    for message in (
        {"type": "event", "n": 100}, {"type": "back", "n": 50}, {"type": "cycle", "n": 10}, {"type": "reset"},
    ):  # fmt: skip
        yield f"message {message['type']}", _done(lambda message=message: view.told(message))  # type: ignore[misc]
        view.told({"type": "read"})


def outcomes(make: Callable[[], anb.Simulation], *, ask: bool = True) -> Iterator[tuple[str, str]]:
    """Do with a run what people do; gives what is done and what comes of it."""
    sim = make()
    yield "built", _state(sim)
    paths = [
        path for path in ("", "gpu[3]", "gpu[0].sm.0", "rank[0]", "dim[0]", "link[0]") if _known(sim, path)
    ]
    for count, unit in _STEPS:
        if unit in sim.counts:
            yield f"step {unit}", _done(lambda c=count, u=unit: f"{sim.step(c, u)} {_state(sim)}")  # type: ignore[misc]
    yield "back", _done(lambda: f"{sim.back(400)} {_state(sim)}")
    for path in paths:
        yield f"at {path}", _done(lambda path=path: json.dumps(_plain(sim.inspect(path)), sort_keys=True))  # type: ignore[misc]
        yield f"why {path}", _done(lambda path=path: sim.why(path))  # type: ignore[misc]
    fork = sim.fork()
    yield "fork", _done(lambda: f"{fork.run()} {_state(fork)}")
    with tempfile.TemporaryDirectory() as folder:
        sim.save(Path(folder, "run.anb"))
        yield "loaded", _state(anb.Simulation.load(Path(folder, "run.anb")))
    if ask:
        yield from _answers(sim, paths)
    yield "run", _done(lambda: f"{sim.run()} {_state(sim)}")
    yield "result", _done(lambda: sim.result)
    yield "explain", _done(sim.result.explain)
    yield "critical path", _done(sim.critical_path)
    yield "back from the end", _done(lambda: f"{sim.back(1000)} {_state(sim)}")
    yield "goto", _done(lambda: f"{sim.goto(sim.now_ps // 2)} {_state(sim)}")


def _known(sim: anb.Simulation, path: str) -> bool:
    try:
        sim.inspect(path)
    except AstranbError:
        return False
    return True


def verified() -> Iterator[tuple[str, str]]:
    """Verify programs: right ones, wrong ones, and one with a contract."""
    for name, algorithm in (("two-shot", two_shot), ("without waiting", without_waiting), ("ring", "ring")):
        what = anb.collectives.all_reduce("64 KiB", algorithm)
        yield f"verify {name}", _done(lambda what=what: [one.message for one in verify(what, "dgx-h100")])  # type: ignore[misc]


def main(folder: str) -> None:
    """Print the lines of a folder's saved runs, and of all that are built here."""
    for file in sorted(Path(folder).iterdir()):
        for what, found in outcomes(partial(anb.Simulation.load, file)):
            print(f"{file.stem}: {what} | {found}", flush=True)
    for name, make in BUILT.items():
        for what, found in outcomes(make, ask=name not in FEW):
            print(f"{name}: {what} | {found}", flush=True)
    for what, found in verified():
        print(f"{what} | {found}", flush=True)
