"""Operations by module in a page: what Python answers, of any rank, module and moment."""

from __future__ import annotations

import pytest

from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live, operations
from astranb.widgets.session import session_of
from tests.widgets.live.both import both
from tests.widgets.live.workloads import LAYERS, MESSAGES

RUNS = {
    "a model": MESSAGES["a model"],
    "a replay": MESSAGES["a replay"],
    "memory": MESSAGES["memory"],
    "random": MESSAGES["random 3"],
    "layers": LAYERS["random 3"],
    "a torus": LAYERS["a torus"],
}
WORDS = ["", "fwd", "L1", "0", "7", "99999", "l0 fwd", "all", "Compute", "rank"]


@pytest.mark.parametrize("name", RUNS)
def test_modules_are_those_of_python(name: str):
    with both(RUNS[name]()) as kernels:
        last = kernels.sim.ranks - 1
        for rank in (0, last, -3, last + 7):
            about = kernels.ask("modules", rank=rank)
            assert about["nodes"] > 0
            whole = about["modules"] + about["nodes"]
            for module in (-1, *range(min(about["modules"], 40)), about["modules"]):
                kernels.same("module", rank=rank, module=module)
            for entity in (-1, *range(0, whole + 1, max(1, whole // 60))):
                kernels.same("module_detail", rank=rank, entity=entity)
            for text in WORDS:
                kernels.same("module_search", rank=rank, text=text)


@pytest.mark.parametrize("name", RUNS)
def test_how_far_modules_are_is_what_python_says_at_any_moment(name: str):
    with both(RUNS[name]()) as kernels:
        kernels.go(type="event", n=30)
        middle_ps = kernels.sim.now_ps
        kernels.go(type="to_end")
        kernels.page.send({"type": "read"})
        for at_ps in (0, middle_ps // 2, middle_ps, kernels.sim.now_ps // 2, None):
            for rank in (0, kernels.sim.ranks - 1):
                kernels.same("module_states", rank=rank, modules=[0, 1, 2, -1, 10**6], at_ps=at_ps)
        assert kernels.ask("module_states", rank=0, modules=[], at_ps=None)["rank"] == 0


def test_ranks_with_the_same_operations_share_a_tree():
    about = live(feed_of(session_of(MESSAGES["a model"]())), Columns())["about"]
    assert len(about["trees"]) < len(about["tree_of"]) == 4
    assert -1 not in about["tree_of"]


def test_what_is_too_large_for_a_page_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(operations, "_MOST_IN_TREES", 1)
    with both(MESSAGES["memory"]()) as kernels:
        message = {"type": "ask", "id": 1, "question": "modules", "options": {"rank": 2}}
        ((answer, _),) = kernels.page.send(message)
        assert answer["error"] == "“modules of rank 2” needs JupyterLab: open this state there"
        assert "error" not in kernels.python.send(message)[0][0]
