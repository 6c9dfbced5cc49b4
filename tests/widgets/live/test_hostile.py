"""Names that every object of JavaScript has, markup, and huge numbers: a page answers them as Python does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same
from tests.widgets.live.machines import MACHINES
from tests.widgets.live.workloads import layers, messages

NAMES = ["__proto__", "constructor", "toString", "<img src=x onerror=alert(1)>"]
PATHS = [
    *NAMES,
    *(f"{name}[0]" for name in NAMES[:2]),
    *(f"{rank}[0].{name}" for rank in ("gpu", "rank") for name in (*NAMES[:2], "constructor.0")),
    "rank[0].op[0].__proto__", "link[0].constructor", "gpu[99999999999999999999]",
    "rank[99999999999999999999]",
]  # fmt: skip
VALUES: list[Any] = [*NAMES[:2], -1, 2**40, 1.5, True, [], ["__proto__"], {}, {"constructor": 1}]
OPTIONS = ["path", "kind", "rank", "by", "name", "at_ps"]
COMMANDS = ["set", "take_down", "repair", "enable", "clear", "breakpoint", "watch", "unwatch", "next_line"]
VALUES_OF = ["path", "value", "what", "how", "link", "number", "block"]
OTHERWISE = {"line_times"}  # without the critical path
ONLY_PYTHON = {"critical_path", "what_if", "what_if_run"}
RUNS = {"lines": MACHINES["ring"], "messages": lambda: messages(3), "layers": lambda: layers(3)}


@pytest.fixture(scope="module", params=RUNS)
def kernels(request: Any) -> Iterator[tuple[PythonKernel, NodeKernel]]:
    sim = RUNS[request.param]()
    with page_kernel(sim) as page:
        python = PythonKernel(sim)
        same(python, page, {"type": "event", "n": 40})
        yield python, page


def ask(question: Any, **options: Any) -> dict[str, Any]:
    return {"type": "ask", "id": 1, "question": question, "options": {"at_ps": None, **options}}


def test_questions(kernels: tuple[PythonKernel, NodeKernel]):
    python, page = kernels
    known = set(python.questions) - OTHERWISE
    refused = set()
    options = [{"path": path} for path in PATHS] + [{name: value} for name in OPTIONS for value in VALUES]
    for question in [*sorted(known), *NAMES]:
        asked = [ask(question, **one) for one in options]
        theirs = page.send(asked)
        if "needs JupyterLab" in theirs[0][0].get("error", ""):
            refused.add(question)
            continue
        mine = [python.send(one) for one in asked]
        for message, answer, own in zip(asked, theirs, mine, strict=True):
            assert [answer] == own, message
    assert refused - {"source"} <= ONLY_PYTHON  # the text of the program: the page has it for no options only


def test_messages_and_commands(kernels: tuple[PythonKernel, NodeKernel]):
    python, page = kernels
    for value in [*VALUES, *PATHS]:
        same(python, page, {"type": value})
        same(python, page, {"type": "inspect", "path": value})
        same(python, page, {"type": "ask", "id": 1, "question": value})
    for command in COMMANDS:
        for name in VALUES_OF:
            for value in [*VALUES, *NAMES]:
                same(python, page, {"type": command, name: value})
    for path in PATHS:
        for name in NAMES:
            same(python, page, {"type": "breakpoint", "how": "on", "kind": name, "object": path})
            same(python, page, {"type": "breakpoint", "how": "when", "condition": f"{path}.{name} > 3"})
            same(python, page, {"type": "watch", "what": f"{path}.{name}"})
            same(python, page, {"type": "set", "path": f"{path}.{name}", "value": "__proto__"})
    assert python.sim.state_hash() == page.ask("hash", at_ps=None)["hash"]
