"""A plan that is dropped on a page runs there as in Python: the same tables at the start, the same errors."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, read_algorithm, write_algorithm
from astranb.core.errors import InputError
from astranb.core.units import size_bytes
from astranb.net import Fault, Network
from astranb.net.roce import Roce
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live
from astranb.widgets.session import session_of
from tests.collectives.formats.test_mscclpp import (
    BROKEN,
    VALID,
    all_gather,
    all_pairs,
    all_pairs_packets,
    at,
    in_groups,
    in_pipelines,
    local,
    op,
    places,
    put_over_ports,
    values,
)
from tests.collectives.judge.contracts import direct
from tests.collectives.language.test_contract import exchange
from tests.engine.cacheline import test_calls
from tests.widgets.live.kernels import NodeKernel, PythonKernel, differing, page_kernel, same
from tests.widgets.live.selection import mostly_slow


class PlanPage:
    """A page of a machine, in Node, on which plans are dropped."""

    def __init__(self, page: NodeKernel, infra: str, options: dict[str, Any]) -> None:
        self.page, self.infra, self.options = page, infra, options

    def drop(self, file: Path, size: int) -> dict[str, Any]:
        """Run the plan of a file: then the kernel is that of the plan."""
        data = base64.b64encode(file.read_bytes()).decode()
        ((found, _),) = self.page.send({"type": "drop", "name": str(file), "data": data, "size": size})
        return found

    def python(self, file: Path, size: int) -> tuple[anb.Simulation | None, list[str], str]:
        """What Python makes of the plan: a simulation and notes, or an error."""
        try:
            plan = read_algorithm(file)
            work = Collective.of(plan.collective or "custom", size, plan)
            sim = anb.Simulation(self.infra, work, **self.options)
        except InputError as error:
            return None, [], str(error)
        return sim, plan.notes, ""

    def check(self, file: Path, size: int, *, run: bool = True) -> dict[str, Any]:
        """Compare both sides: errors, notes, what the page is given, and the run to its end."""
        sim, notes, error = self.python(file, size)
        found = self.drop(file, size)
        assert found.get("error", "") == error
        if sim is None:
            return found
        assert found["notes"] == notes
        assert differing(sim, self.page) == []
        if not run:
            return found
        same_description(found["live"], sim)
        python = PythonKernel(sim)
        scenes = [kernel.send({"type": "ready"})[0] for kernel in (python, self.page)]
        assert scenes[0] == scenes[1]
        for message in ({"type": "event", "n": 1000}, {"type": "event", "n": 10**9}):
            python.send(message)
            self.page.send(message)
            assert differing(sim, self.page) == []
        assert self.page.ask("hash")["hash"] == sim.state_hash()
        return found


def same_description(page: dict[str, Any], sim: anb.Simulation) -> None:
    """Compare what a page knows of a plan with what Python would give it."""
    mine = json.loads(json.dumps(live(feed_of(session_of(sim)), Columns())))
    assert page["about"].keys() == mine["about"].keys()
    for name, value in mine["about"].items():
        assert page["about"][name] == value, name
    for name in ("title", "questions", "units"):
        assert page[name] == mine[name], name


@contextmanager
def plan_page(infra: str, work: Any = None, **options: Any) -> Iterator[PlanPage]:
    """Open the page of a machine, which shows a run of its own."""
    sim = anb.Simulation(infra, work or anb.collectives.all_reduce("8 KiB", "ring"), **options)
    with page_kernel(sim) as page:
        yield PlanPage(page, infra, options)


@pytest.fixture(scope="module")
def dgx():
    with plan_page("dgx-h100") as page:
        yield page


@pytest.fixture(scope="module")
def small():
    """Machines by their number of GPUs."""
    with (
        plan_page("switch:gpus=2") as two,
        plan_page("switch:gpus=3") as three,
        plan_page("switch:gpus=4") as four,
    ):
        yield {2: two, 3: three, 4: four}


def exported(tmp_path, infra, collective, size, algorithm, protocol="Simple"):
    """A plan as ``astranb collective export`` writes it for a machine."""
    sim = anb.Simulation(infra, anb.collectives.all_reduce("8 KiB", "ring"))
    engine = sim.engine
    one = Collective.of(collective, size, algorithm, protocol=protocol)
    file = tmp_path / "plan.json"
    write_algorithm(one.program(len(engine.presets), engine.fabric.shape), file)
    return file


def saved(tmp_path, document):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document, indent=1))
    return file


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "collective, algorithm, protocol, size",
    [
        pytest.param("all_reduce", "ring", "Simple", "64 KiB", marks=SLOW),
        pytest.param("all_reduce", "ring", "LL", "32 KiB", marks=SLOW),
        ("all_reduce", "allpairs", "LL", "8 KiB"),
        pytest.param("all_reduce", "allpairs", "LL128", "12 KB", marks=SLOW),
        ("all_reduce", "switch", "Simple", "256 KiB"),
        pytest.param("all_reduce", "double_tree", "Simple", "64 KiB", marks=SLOW),
        pytest.param("all_gather", "allpairs", "Simple", "100 KB", marks=SLOW),
        pytest.param("reduce_scatter", "ring", "Simple", "1000 B", marks=SLOW),
        pytest.param("all_to_all", "allpairs", "Simple", "100 KB", marks=SLOW),
        pytest.param("broadcast", "ring", "Simple", "64 KiB", marks=SLOW),
        pytest.param("all_gather", "nvls", "Simple", "64 KiB", marks=SLOW),
    ],
)
def test_plans_of_the_library_on_a_dgx(dgx, tmp_path, collective, algorithm, protocol, size):
    file = exported(tmp_path, "dgx-h100", collective, size, algorithm, protocol)
    dgx.check(file, size_bytes(size))
    dgx.check(file, 777)  # not a multiple of anything


COALESCED = {"network": Network(coalesce=4)}
FAIR = {"network": Network(arbitration="fair", buffers=4, multipath="spray")}
LATE = {"launch": "stream + 3 us", "start": {3: "2 us"}, "record": False}
ETHERNET = {"network": Network(roce=Roce(), proxy_ps=10**6)}


@pytest.mark.parametrize(
    "infra, options, collective, algorithm, protocol",
    [
        pytest.param("mi300x", {}, "all_gather", "allpairs", "Simple", marks=SLOW),
        pytest.param("dgx-1", {}, "all_reduce", "ring", "LL", marks=SLOW),  # over GPUs that forward
        pytest.param("torus2d:rows=2,columns=2", {}, "all_reduce", "allpairs", "Simple", marks=SLOW),
        pytest.param("generic:gpus=4", {}, "all_reduce", "ring", "Simple", marks=SLOW),  # with a mesh
        pytest.param("dgx-h100", FAIR, "all_reduce", "ring", "Simple", marks=SLOW),
        pytest.param("dgx-h100", COALESCED, "all_reduce", "allpairs", "LL", marks=SLOW),
        pytest.param("dgx-h100", COALESCED, "all_gather", "ring", "Simple", marks=SLOW),
        ("dgx-h100", LATE, "all_gather", "ring", "Simple"),
        pytest.param("clos:servers=2", {}, "all_reduce", "ring", "Simple", marks=SLOW),  # over NICs
        pytest.param("clos:servers=2", {}, "all_to_all", "allpairs", "Simple", marks=SLOW),
        pytest.param("clos:servers=2", {}, "all_reduce", "ring", "LL", marks=SLOW),
        ("clos:servers=2,network=ethernet", ETHERNET, "all_gather", "ring", "Simple"),
    ],
)  # fmt: skip
def test_plans_on_other_machines(tmp_path, infra, options, collective, algorithm, protocol):
    file = exported(tmp_path, infra, collective, "16 KiB", algorithm, protocol)
    with plan_page(infra, **options) as page:
        page.check(file, 16 * 1024)


def test_faults_come_at_their_times(tmp_path):
    link = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring")).engine.fabric.name(3)
    slow = Fault(link, at="1 us", until="5 us", latency="3 us", every="10 us", times=3)
    file = exported(tmp_path, "dgx-h100", "all_reduce", "16 KiB", "ring")
    with plan_page("dgx-h100", network=Network(faults=(slow,))) as page:
        page.check(file, 16 * 1024)


SEMAPHORES = [
    {"name": "sem_release", "semaphore_ids": [0]},
    {"name": "sem_acquire", "semaphore_ids": [0, 1]},
    {"name": "barrier", "barrier_id": 0, "num_threadblocks": 1},
    {"name": "nop"},
    {"name": "flush", "channel_ids": [], "channel_type": "memory"},
]


def with_semaphores():
    document = all_pairs(2)
    for one in document["gpus"]:
        one["semaphores"] = [{"init_value": 0}, {"init_value": 1}]
        one["threadblocks"][0]["ops"][:0] = SEMAPHORES
    return document


DOCUMENTS: dict[str, dict[str, Any]] = {
    "all pairs": all_pairs(2),
    "in place": all_pairs(4, inplace=True),
    "packets": all_pairs_packets(3),
    "an all-gather in place": all_gather(4, inplace=True, chunks=3),
    "an all-gather": all_gather(4, inplace=False),
    "ports": put_over_ports(3),
    "pipelines": in_pipelines(all_pairs(2), 512),
    "pipelines of three": in_pipelines(all_pairs(3), 1000),
    "pipelines over ports": in_pipelines(put_over_ports(2), 256),
    "semaphores": with_semaphores(),
    "groups": in_groups(inplace=True),
    "another collective": {
        **all_pairs(2), "collective": "something", "use_double_scratch_buffer": True,
    },
    "a size too small": {**all_pairs(2), "min_message_size": 1 << 20, "max_message_size": 2 << 20},
    "a wrong result": {**all_pairs(2), "collective": "alltoall"},
    "a name with markup": {**all_pairs(2), "name": "<b>é \N{GRINNING FACE}</b>"},
}  # fmt: skip
_ALWAYS = ("packets", "semaphores", "groups", "a name with markup")


@pytest.mark.parametrize("name", mostly_slow(DOCUMENTS, *_ALWAYS))
def test_what_a_plan_can_say(small, tmp_path, name):
    document = DOCUMENTS[name]
    page = small[len(document["gpus"])]
    for size in (1, 4096, 6 * 3000):
        page.check(saved(tmp_path, document), size)


def travels(page, file, size, folder):
    """Save a plan's run in the page, go on from it in Python, and open Python's file in the page."""
    assert "error" not in page.drop(file, size)
    for message in (
        {"type": "ready"},
        {"type": "event", "n": 5000},
        {"type": "save", "path": str(folder / "half.anb")},
    ):
        page.page.send(message)
    loaded = anb.Simulation.load(folder / "half.anb")
    sim, _, _ = page.python(file, size)
    sim.step(5000)
    assert (loaded.state_hash(), loaded.engine.title) == (sim.state_hash(), sim.engine.title)
    mine, theirs = (live(feed_of(session_of(one)), Columns()) for one in (sim, loaded))
    assert theirs["saved"]["document"] == mine["saved"]["document"]
    assert theirs["about"] == mine["about"]
    loaded.step(3000)
    loaded.save(folder / "on.anb")
    for one in (loaded, sim):
        one.run()
    assert loaded.state_hash() == sim.state_hash()
    opened = page.page.send({"type": "open", "path": str(folder / "on.anb")})
    assert not [meta for meta, _ in opened if meta["type"] == "refused"], opened
    page.page.send({"type": "event", "n": 10**9})
    assert page.page.ask("hash", at_ps=None)["hash"] == sim.state_hash()


def test_a_plan_is_saved_in_the_page_and_loaded_in_python(dgx, tmp_path):
    """Python goes on from the file; what it would have saved itself is the same."""
    file = exported(tmp_path, "dgx-h100", "all_reduce", "16 KiB", "allpairs")
    travels(dgx, file, 16 * 1024, tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"name": 'é "x", {1'}))
    travels(dgx, file, 16 * 1024, tmp_path)


@pytest.mark.parametrize(
    "infra, options, protocol",
    [
        ("dgx-h100", COALESCED, "LL"),  # packets travel one by one, and the page's lines together
        pytest.param("dgx-h100", COALESCED, "Simple", marks=SLOW),
        pytest.param("clos:servers=2", {}, "LL", marks=SLOW),  # more lines are under way for NICs
        pytest.param("clos:servers=2", COALESCED, "LL128", marks=SLOW),
        pytest.param("dgx-1", {}, "Simple", marks=SLOW),  # over GPUs that forward
    ],
)
def test_a_run_with_other_numbers_of_gpus_than_the_pages_travels(tmp_path, infra, options, protocol):
    file = exported(tmp_path, infra, "all_reduce", "16 KiB", "ring", protocol)
    with plan_page(infra, **options) as page:
        travels(page, file, 16 * 1024, tmp_path)


def works():
    """What a page can be of, other than a collective of the library."""
    return {
        "an exchange": anb.collectives.dispatch(4, "low_latency", hidden=512, experts=16, topk=2),
        "a contract": Collective.of(exchange(), algorithm=direct, channels=2),
        "packets": Collective.of("all_reduce", "8 KiB", "ring", protocol="LL"),
        "a workload": test_calls.workload(),
    }


@pytest.mark.parametrize("name", mostly_slow(works(), "an exchange"))
def test_a_plan_travels_from_the_page_of_other_work(tmp_path, name):
    with plan_page("switch:gpus=4", works()[name], gpu="h100-sxm", **COALESCED) as page:
        travels(page, saved(tmp_path, all_pairs(4)), 16 * 1024, tmp_path)


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("rows", {}),
    ("source", {}),
    ("where", {"at_ps": None}),
    ("chunks", {"at_ps": None}),
    ("held", {"at_ps": None}),
    ("line_times", {"at_ps": None, "path": False}),
    ("spans", {"kind": "blocks", "from": 0, "to": 4_000_000, "columns": 64, "folds": [0], "tracks": [0, 1]}),
    ("parameters", {"path": ""}),
    ("outcome", {}),
]


def test_views_of_a_plan_are_answered_as_python_answers_them(dgx, tmp_path):
    file = exported(tmp_path, "dgx-h100", "all_reduce", "16 KiB", "allpairs")
    dgx.drop(file, 16 * 1024)
    sim, _, _ = dgx.python(file, 16 * 1024)
    assert sim
    python = PythonKernel(sim)
    for events in (0, 20_000, 10**9):
        for kernel in (python, dgx.page):
            kernel.send({"type": "ready"})
            kernel.send({"type": "event", "n": events})
        for question, options in QUESTIONS:
            asked = {"type": "ask", "id": 1, "question": question, "options": options}
            assert "error" not in same(python, dgx.page, asked)[0][0]
        for path in ("gpu[3]", "gpu[3].sm.0", "gpu[1].memory"):
            same(python, dgx.page, {"type": "inspect", "path": path, "at_ps": None})


@pytest.mark.parametrize("change, text", BROKEN)
def test_what_is_broken_is_said_as_python_says_it(small, tmp_path, change, text):
    del text
    document = all_pairs(2)
    change(document)
    assert "error" in small[2].check(saved(tmp_path, document), 4096)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b'{"name": ',
        b'{"name": "\xff"}',
        b'{"name": "\xe2\x82"}',
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": 1} 2',
        b'{"a" 1}',
        b'{"a": [1 2]}',
        b'{"a": "\n"}',
        b'{"a": "\\x"}',
        b'{"a": "\\u12g4"}',
        b'{"a": "b',
        b'{"a": 01}',
        b'{\n"gpus": {\n}}',
        b'{"gpus": ' + b"[" * 100_000,
        b'{"gpus": ' + b"9" * 10_000 + b"}",
        b'{"gpus": 1e999}',
        b'\xef\xbb\xbf{"gpus": 7, "gpus": 1.50}',
        b'{"gpus": 99999999999999999999}',
    ],
)  # fmt: skip
def test_what_is_no_json(small, tmp_path, data):
    file = tmp_path / "plan.json"
    file.write_bytes(data)
    assert "error" in small[2].check(file, 4096)


def test_other_formats_need_python(small, tmp_path):
    file = tmp_path / "plan.xml"
    file.write_bytes(b"<algo/>")
    what = "no MSCCL++ execution plan (JSON); algorithms of MSCCL and schedules of TACOS need JupyterLab"
    assert small[2].drop(file, 4096)["error"] == f"{file}: {what}"


@pytest.mark.parametrize(
    "change, size",
    [
        (at(["collective"], "allgather"), 4096),
        (at(["collective"], "dispatch"), 4096),
        (lambda document: None, 0),
        (lambda document: None, 1 << 40),
        (lambda document: document["gpus"].pop(), 4096),
        (at(["gpus", 0, "threadblocks", 0, "ops"], [op("copy", [local("s", 0)], [local("s", 0)])]), 4096),
    ],
)
def test_what_does_not_fit_the_machine(small, tmp_path, change, size):
    document = all_pairs(2)
    change(document)
    assert "error" in small[2].check(saved(tmp_path, document), size)


def test_a_plan_for_more_gpus(small, tmp_path):
    error = small[2].check(saved(tmp_path, all_pairs(4)), 4096)["error"]
    assert error == "plan 'test': it is for 4 ranks, not 2; use an infrastructure with 4 GPUs"


@SLOW
def test_enormous_counts_are_refused(small, tmp_path):
    document = all_pairs(2)
    for one in document["gpus"]:
        one["input_chunks"] = one["output_chunks"] = 65536
        one["threadblocks"][0]["ops"] = [op("copy", [local("i", 0, 65536)], [local("o", 0, 65536)])] * 100
    error = small[2].check(saved(tmp_path, document), 4096)["error"]
    assert "more than 1000000 operations; use fewer or larger chunks" in error


@SLOW
def test_a_large_plan_runs_and_a_larger_one_is_refused_before_it_takes_memory(tmp_path):
    """Loops make more operations of a plan than there are in its file."""
    file, size = saved(tmp_path, in_pipelines(all_pairs(16), 1024)), 16 << 20
    with plan_page("switch:gpus=16", record=False) as page:
        page.check(file, size, run=False)
        sim, _, _ = page.python(file, size)
        assert sim
        assert len(sim.engine.machine.ops) > 1 << 20
        page.page.send({"type": "event", "n": 20_000})
        sim.step(20_000)
        assert page.page.ask("hash", at_ps=None)["hash"] == sim.state_hash()
    with plan_page("switch:gpus=24", record=False) as page:
        found = page.drop(saved(tmp_path, in_pipelines(all_pairs(24), 1024)), 24 << 20)
        assert "more than 1,428,571 operations, which take 1.4 kB of memory each" in found["error"]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(VALID), st.data())
def test_changed_documents_are_the_same_or_refused_alike(small, tmp_path, document, data):
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(list(places(document))[1:]))
        try:
            at(way, data.draw(values))(document)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    gpus = document.get("gpus")
    page = small[3 if isinstance(gpus, list) and len(gpus) == 3 else 2]
    page.check(saved(tmp_path, document), 4096, run=False)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(VALID), st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=2)), max_size=4))
def test_changed_bytes_are_the_same_or_refused_alike(small, tmp_path, document, changes):
    data = bytearray(json.dumps(document).encode())
    for where, new in changes:
        place = int(where * len(data))
        data[place : place + 1] = new
    file = tmp_path / "plan.json"
    file.write_bytes(bytes(data))
    small[len(document["gpus"])].check(file, 4096, run=False)
