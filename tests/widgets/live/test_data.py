"""What memory holds, what devices do and where time is lost: a page's answers are Python's, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import astranb as anb
from astranb.collectives import BUFFERS, Collective, all_gather_gemm, gemm_reduce_scatter
from astranb.net import Network
from tests.collectives.judge.contracts import direct
from tests.collectives.language.test_contract import exchange
from tests.engine.cacheline import test_calls
from tests.widgets.live.kernels import NodeKernel, PythonKernel, page_kernel, same
from tests.widgets.live.machines import MACHINES
from tests.widgets.live.selection import mostly_slow


def made(
    kind: str, size: str, infra: str = "switch:gpus=4", algorithm: Any = None, **options: Any
) -> anb.Simulation:
    return anb.Simulation(infra, Collective.of(kind, size, algorithm), **options)


TWO_SERVERS = "single-tier:server=dgx-h100,servers=2"
RUNS: dict[str, Callable[[], anb.Simulation]] = {
    **MACHINES,
    "all to all": lambda: made("all_to_all", "16 KiB"),
    "reduce-scatter": lambda: made("reduce_scatter", "16 KiB", algorithm="ring"),
    "reduce": lambda: made("reduce", "16 KiB", algorithm="ring"),
    "gather": lambda: made("gather", "16 KiB"),
    "scatter": lambda: made("scatter", "16 KiB"),
    "barrier": lambda: made("barrier", "64 B"),
    "two servers": lambda: made("all_reduce", "64 KiB", TWO_SERVERS, "hierarchical"),
    "product behind a gather": lambda: anb.Simulation(
        "ring:gpus=2", all_gather_gemm(256, 128, 128, 2, (64, 64)), gpu="h100-sxm"
    ),
    "product before a scatter": lambda: anb.Simulation(
        "ring:gpus=2", gemm_reduce_scatter(256, 64, 128, 2, (64, 64)), gpu="h100-sxm"
    ),
    "experts": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.dispatch(4, "low_latency", hidden=512, experts=16, topk=2)
    ),
    "sums of experts": lambda: anb.Simulation(
        "dgx-h100", anb.collectives.combine(4, hidden=512, experts=16, topk=2), record=False
    ),
    "largest of a contract": lambda: anb.Simulation(
        "ring:gpus=4",
        Collective.of(exchange(dtype="int8", reduce="max"), algorithm=direct, channels=2),
        gpu="h100-sxm",
    ),
    "late": lambda: made("all_reduce", "16 KiB", start={1: "3 us"}),
    "without a recording": lambda: made("all_reduce", "64 KiB", algorithm="ring", record=False),
    "workload without a recording": lambda: anb.Simulation(
        "ring:gpus=4", test_calls.workload(), gpu="h100-sxm", record=False
    ),
    "buffers of one message": lambda: made(
        "all_gather", "16 KiB", "dgx-h100", "allpairs", network=Network(buffers=1)
    ),
}


def ask(question: str, **options: Any) -> dict[str, Any]:
    return {"type": "ask", "id": 7, "question": question, "options": options}


def questions(sim: anb.Simulation, at_ps: int | None) -> list[dict[str, Any]]:
    """Everything that this file's answers can be asked at a moment."""
    last = sim.ranks - 1
    used = {BUFFERS[b] for b in sim.engine.machine.slices["buffer"].tolist()}
    asked = [ask("chunks", at_ps=at_ps), ask("chunks", buffer="fullest", at_ps=at_ps)]
    asked += [ask("chunks", buffer=name, at_ps=at_ps) for name in sorted({"output", *used})]
    asked += [ask(name, at_ps=at_ps) for name in ("buffers", "inside", "held")]
    asked += [ask("line_times", path=False, at_ps=at_ps)]
    asked += [ask("device", rank=rank, at_ps=at_ps) for rank in (0, last)]
    for name in sorted(used):
        for rank in (0, last):
            asked += [ask("buffer", rank=rank, buffer=name, columns=256 if rank else 5, at_ps=at_ps)]
            asked += [
                ask("cell", rank=rank, buffer=name, chunk=chunk, column=column, columns=columns, at_ps=at_ps)
                for chunk, column, columns in ((0, 0, 256), (1, 3, 4))
            ]
    objects = "", "gpu[0]", f"gpu[{last}].block.0", "gpu[0].sm.1", "gpu[0].l2.0", "line[0]", "gpu[0]->gpu[1]"
    asked += [ask("lost_time", path=path, at_ps=at_ps) for path in objects]
    return asked


def moments(python: PythonKernel, page: NodeKernel) -> Iterator[int | None]:
    """Move both kernels from stop to stop; yields the present of each, and at last the past, too."""
    for events in (0, 4_000, 30_000, 10**9):
        for kernel in (python, page):
            kernel.send({"type": "event", "n": events})
        yield None
    yield from (python.sim.now_ps // 3, python.sim.now_ps * 4 // 5)


@pytest.mark.parametrize(
    "run", mostly_slow(RUNS, "late", "products", "barrier", "experts", "workload without a recording")
)
def test_a_page_knows_what_memory_holds_and_where_time_is_lost(run):
    python = PythonKernel(RUNS[run]())
    with page_kernel(RUNS[run]()) as page:
        for kernel in (python, page):
            kernel.send({"type": "ready"})
        for at_ps in moments(python, page):
            for message in questions(python.sim, at_ps):
                same(python, page, message)


TEXTS = ("x", "3", " 2 ", "", "a'b\"\n\u2028", "n" * 5000)
VALUES: tuple[Any, ...] = (None, True, -1, 3.7, 10**15, [], [1], {}, {"a": [True, None, 1.5]}, *TEXTS)
OPTIONS = {
    "chunks": ("buffer", "at_ps"),
    "device": ("rank", "at_ps"),
    "buffer": ("rank", "buffer", "columns", "at_ps"),
    "cell": ("chunk", "column", "rank", "buffer", "columns"),
    "buffers": ("at_ps",),
    "inside": ("at_ps",),
    "held": ("at_ps",),
    "lost_time": ("path", "at_ps"),
    "line_times": ("at_ps",),
}
GIVEN: dict[str, dict[str, Any]] = {
    "cell": {"chunk": 0, "column": 0}, "device": {"rank": 0}, "line_times": {"path": False},
}  # fmt: skip


def test_whatever_the_options_are_the_answers_and_errors_are_pythons():
    python = PythonKernel(RUNS["ring"]())
    with page_kernel(RUNS["ring"]()) as page:
        for kernel in (python, page):
            kernel.send({"type": "ready"})
            kernel.send({"type": "event", "n": 20_000})
        for question, names in OPTIONS.items():
            given = GIVEN.get(question, {})
            for name in names:
                for value in VALUES:
                    same(python, page, ask(question, **{**given, name: value}))
                if name in given:
                    same(python, page, ask(question, **{k: v for k, v in given.items() if k != name}))


def test_what_a_page_cannot_find_it_says():
    with page_kernel(RUNS["ring"]()) as page:
        page.send({"type": "event", "n": 20_000})
        for question in ("critical_path", "what_if", "what_if_run"):
            ((answer, _),) = page.send(ask(question, at_ps=None))
            assert answer["error"] == f"“{question}” needs JupyterLab: open this state there"
        ((answer, _),) = page.send(ask("line_times", path=True))
        assert answer["error"] == "“critical_path” needs JupyterLab: open this state there"
        ((answer, _),) = page.send(ask("line_times"))
        assert not answer["path"]
        assert answer["rows"]
