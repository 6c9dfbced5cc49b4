"""Whatever a view sends, a page's kernel answers as Python's does: commands, questions, and nonsense."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from tests.widgets.live.kernels import PythonKernel, page_kernel, same

_LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"

COMMANDS: list[dict[str, Any]] = [
    {"type": "event"},
    {"type": "event", "n": 300},
    {"type": "event", "n": -1},
    {"type": "event", "n": 1.5},
    {"type": "event", "n": True},
    {"type": "event", "n": "many"},
    {"type": "event", "n": None},
    {"type": "event", "n": 10**12 + 1},
    {"type": "event", "n": [1], "more": {}},
    {"type": "operation", "n": 2},
    {"type": "pass"},
    {"type": "back", "n": 2, "unit": "operation"},
    {"type": "back", "n": 20, "unit": "hop"},
    {"type": "back", "n": 1, "unit": "nonsense"},
    {"type": "goto", "when": 0},
    {"type": "goto", "when": "1 parsec"},
    {"type": "goto", "when": -5},
    {"type": "goto", "when": "x" * 300},
    {"type": "goto", "when": None},
    {"type": "goto", "when": 400.7},
    {"type": "reset"},
    {"type": "next_line", "block": "gpu[2].block.0"},
    {"type": "next_line", "block": "gpu[99].block.0"},
    {"type": "next_line"},
    {"type": "record", "on": False},
    {"type": "record", "on": False},
    {"type": "record", "on": "yes"},
    {"type": "set", "path": f"{_LINK}.bandwidth", "value": "1 GB/s"},
    {"type": "set", "path": f"{_LINK}.bandwidth", "value": "1 parsec"},
    {"type": "set", "path": f"{_LINK}.colour", "value": "red"},
    {"type": "set", "path": 7},
    {"type": "set"},
    {"type": "take_down", "link": _LINK, "both": True},
    {"type": "take_down", "link": "gpu[0]", "both": True},
    {"type": "event", "n": 500},
    {"type": "repair", "link": _LINK, "both": "yes"},
    {"type": "undo", "number": 1},
    {"type": "undo", "number": 99},
    {"type": "undo", "number": True},
    {"type": "undo"},
    {"type": "undo"},
    {"type": "breakpoint", "how": "at", "time": "3 us"},
    {"type": "breakpoint", "how": "at", "time": "soon"},
    {"type": "breakpoint", "how": "on", "kind": "hop", "object": _LINK},
    {"type": "breakpoint", "how": "on", "kind": "explosion"},
    {"type": "breakpoint", "how": "on"},
    {"type": "breakpoint", "how": "when", "condition": "gpu[3].sm.0.outstanding > 2"},
    {"type": "breakpoint", "how": "when", "condition": "gpu[3].sm.0.nonsense > 2"},
    {"type": "breakpoint", "how": "never"},
    {"type": "breakpoint"},
    {"type": "enable", "number": 1, "enabled": False},
    {"type": "enable", "number": 1.5},
    {"type": "hop", "n": 3},
    {"type": "clear", "number": 0},
    {"type": "clear", "number": -1},
    {"type": "clear"},
    {"type": "watch", "what": "gpu[3].sm.0.outstanding"},
    {"type": "watch", "what": "gpu[3]"},
    {"type": "unwatch", "number": 0},
    {"type": "unwatch", "number": 0},
    {"type": "unwatch"},
    {"type": "set_speed", "speed": 0},
    {"type": "set_speed", "speed": 1e30},
    {"type": "set_speed", "speed": "5"},
    {"type": "set_speed", "speed": "fast"},
    {"type": "set_speed", "speed": None},
    {"type": "set_speed"},
    {"type": "pause"},
    {"type": "to_end"},
    {"type": "pause", "at_ps": 2_000_000},
    {"type": "pause", "at_ps": "x"},
    {"type": "pause", "at_ps": []},
    {"type": "read"},
    {"type": "fine"},
    {"type": "timeline"},
    {"type": "away"},
    {"type": "event"},
    {"type": "ready"},
]

OTHERS: list[dict[str, Any]] = [
    {},
    {"type": "explode"},
    {"type": "__proto__"},
    {"type": "constructor"},
    {"type": 5},
    {"type": None},
    {"type": "inspect"},
    {"type": "inspect", "path": "gpu[3]", "at_ps": None},
    {"type": "inspect", "path": "gpu[3]", "at_ps": 1_000_000},
    {"type": "inspect", "path": "gpu[3]", "at_ps": 1e15},
    {"type": "inspect", "path": "nowhere", "at_ps": 1.5},
    {"type": "inspect", "path": 3},
    {"type": "inspect", "path": "gpu[3]", "at_ps": "1"},
    {"type": "inspect", "path": "gpu[3]", "at_ps": {}},
    {"type": "ask", "id": 2, "question": "hash", "options": 5},
    {"type": "ask", "id": 2, "question": "hash", "options": {"at_ps": True}},
    {"type": "inspect", "path": ["gpu[3]"]},
    {"type": "ask"},
    {"type": "ask", "id": 1},
    {"type": "ask", "id": 2, "question": "hash"},
    {"type": "ask", "id": 2, "question": "hash", "options": {"at_ps": 12_345}},
    {"type": "ask", "id": 2, "question": "hash", "options": {"at_ps": "x"}},
    {"type": "ask", "id": 3, "question": "nonsense", "options": {}},
    {"type": "ask", "id": 3, "question": "toString", "options": {}},
    {"type": "ask", "id": 4, "question": None, "options": {}},
    {"type": "ask", "id": "five", "question": "rows", "options": {}},
    {"type": "ask", "id": 6, "question": "source", "options": {}},
]


def _key(message: dict[str, Any]) -> str:
    return ", ".join(f"{name}={str(value)[:40]}" for name, value in message.items())


@pytest.fixture(scope="module")
def kernels():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"))
    with page_kernel(sim) as page:
        yield PythonKernel(sim), page


@pytest.mark.parametrize("message", OTHERS, ids=_key)
def test_questions_and_nonsense(kernels, message: dict[str, Any]) -> None:
    python, page = kernels
    same(python, page, {"type": "event", "n": 40})
    same(python, page, message)


def test_commands(kernels) -> None:
    python, page = kernels
    for message in COMMANDS:
        for kernel in kernels:
            kernel.send({"type": "ready"})
        mine, theirs = python.send(message), page.send(message)
        assert len(theirs) >= len(mine), message
        for (expected, columns), (found, theirs_columns) in zip(mine[-1:], theirs[-1:], strict=True):
            if len(mine) == len(theirs):
                assert theirs_columns == columns, message
            played = {"first", "total", "one_in", "coarse", "seq"}
            wanted = {name: value for name, value in expected.items() if name not in played}
            assert {name: value for name, value in found.items() if name not in played} == wanted, message
        assert page.ask("hash")["hash"] == python.sim.state_hash(), message
