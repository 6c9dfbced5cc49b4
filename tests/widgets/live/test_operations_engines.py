"""The engines of operations in a page: every table is Python's, wherever they stop."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.state import Parts
from astranb.engine.messages import tables as message_tables
from astranb.engine.stops import STEPS
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live
from astranb.widgets.page import packed
from astranb.widgets.session import session_of
from tests.widgets.live.kernels import HERE, STATIC
from tests.widgets.live.selection import mostly_slow
from tests.widgets.live.workloads import LAYERS, MESSAGES


def _hash(table: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(table).view(np.ndarray).tobytes()).hexdigest()


def _same_tables(sim: anb.Simulation, maker: str, folder: Path) -> None:
    """Move both to random numbers of events, and to the end."""
    columns = Columns()
    file = folder / "page.txt"
    file.write_text(packed({"live": live(feed_of(session_of(sim)), columns), **columns.placed()}))
    engine: Any = sim.engine
    command = ["node", str(HERE / "node_tables.mjs"), str(STATIC), str(file), maker]
    chance = random.Random(3)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdin
        assert page.stdout
        while True:
            steps = engine.count("events") + chance.choice((1, 7, 60, 500, 4000, 50_000))
            why = engine.go(steps=steps, closely=False)
            page.stdin.write(f"{steps}\n")
            page.stdin.flush()
            found = json.loads(page.stdout.readline())
            assert found["why"] == why
            assert found["counts"] == engine.counts()
            assert found["next_ps"] == engine.next_ps
            machine = engine.machine._asdict()
            theirs = {name: one for name, one in found["tables"].items() if name != "limits"}
            assert theirs == {name: _hash(table) for name, table in machine.items()}
            assert found["simulated"] == [[name, len(one), _hash(one)] for name, one in _simulated(engine)]
            if why != STEPS:
                page.stdin.close()
                return


def _simulated(engine: Any) -> list[tuple[str, Any]]:
    if isinstance(engine.machine, message_tables.MessageMachine):
        tables = list(message_tables.simulated(engine.machine).items())
    else:
        tables = list(engine._simulated())
    assert not any(isinstance(table, Parts) for _, table in tables)
    return tables


_ALWAYS = ("random 2", "growing", "a replay with congestion", "in the network", "started late")


@pytest.mark.parametrize("name", mostly_slow(MESSAGES, *_ALWAYS))
def test_messages_have_the_same_tables(name: str, tmp_path: Path) -> None:
    sim = MESSAGES[name]()
    rows = len(sim.engine.machine.messages)
    _same_tables(sim, "messages", tmp_path)
    assert name != "growing" or len(sim.engine.machine.messages) > rows


@pytest.mark.parametrize("name", mostly_slow(LAYERS, "random 1", "random 2", "a torus"))
def test_layers_have_the_same_tables(name: str, tmp_path: Path) -> None:
    _same_tables(LAYERS[name](), "layers", tmp_path)
