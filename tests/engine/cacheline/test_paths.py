"""Paths of every part of a machine: what is proposed can be inspected, explained, watched and broken on."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.paths import BUFFERS, FIELDS, PARTS
from astranb.gpu import tables as t
from astranb.net import Network


@pytest.fixture(scope="module")
def run() -> anb.Simulation:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("16 KiB", "ring"), network=Network(buffers=3))
    sim.goto("2 us")
    return sim


ASKED = (
    *("", "gpu[5]", "GPU5.", "GPU5.sm.1", "dgx_h100.0", "nvsw", "dgx_h100.0.cx7.0.", "zzz"),
    *("dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0", "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0#", "->dgx_h100.0.xpu.3"),
    *(*PARTS, "port", "buffer"),
)


@pytest.mark.parametrize("text", ASKED)
def test_what_is_proposed_can_be_inspected_and_broken_on(run: anb.Simulation, text: str) -> None:
    found = run.paths(text)
    assert len(set(found)) == len(found) <= 50
    assert bool(found) == (text != "zzz")
    for path in found:
        one = run.at(path)
        assert run.at(one.path).title == one.title
        assert one["state"]
        assert all(isinstance(number, (int, float, str)) for number in one.state.values())
        assert run.why(path).links
        assert list(FIELDS.get(one.kind, ())) == run.watchable(path)
        run.clear(run.break_on(object=path))
        for field in run.fields(path)[:2]:
            run.clear(run.break_when(f"{path}.{field} > 0"))


@pytest.mark.parametrize(
    "text,first",
    [
        ("GPU5", "gpu[5]"),
        ("gpu[5].sem", "gpu[5].semaphore.10"),
        ("sem", "gpu[0].semaphore.1"),
        ("L2", "gpu[0].l2.0"),
        ("hbm.7", "gpu[0].hbm.7"),
        ("GPU3.engine", "gpu[3].engine.0"),
        ("cx7.3", "dgx_h100.0.cx7.3"),
        ("buffer", "dgx_h100.0.cpu.0->dgx_h100.0.cpu.1.buffer.requests"),
    ],
)
def test_the_most_likely_path_comes_first(run: anb.Simulation, text: str, first: str) -> None:
    assert run.paths(text)[0] == first


def test_a_gpu_is_named_as_the_views_name_it(run: anb.Simulation) -> None:
    assert run.at("GPU3").path == run.at("gpu[3]").path == "dgx_h100.0.xpu.3"
    assert run.at("GPU3.l2.5").path == "dgx_h100.0.xpu.3.l2.5"


@pytest.mark.parametrize(
    "path,says",
    [
        ("gpu[3].l2.999", "has no l2 999"),
        ("gpu[3].engine.4", "they count from 0 to 3"),
        ("gpu[3].semaphore.0", "has no semaphore 0"),
        ("dgx_h100.0.nvsw.0.l2.0", "is not a GPU"),
        ("dgx_h100.0.nvsw.0.port.99", "has no port 99"),
        ("gpu[0]->dgx_h100.0.nvsw.0.buffer.signals", "has no buffer 'signals'"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(run: anb.Simulation, path: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        run.inspect(path)
    assert "\n" not in str(error.value)


def test_links_without_queues_of_their_own_have_no_buffers() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    assert sim.paths("buffer") == []
    with pytest.raises(InputError, match="have no buffers"):
        sim.inspect("gpu[0]->dgx_h100.0.nvsw.0.buffer.requests")


def _hit(sim: anb.Simulation, kind: str | None, path: str) -> int:
    """The number of what the last event was about: a request."""
    sim.reset()
    sim.clear()
    sim.break_on(kind, path)
    assert sim.run().why == "breakpoint"
    return int(sim.engine.machine.clock[0].last_arg)


def test_a_breakpoint_stops_at_its_part_and_nowhere_else(run: anb.Simulation) -> None:
    sim = run.fork()
    machine, fabric = sim.engine.machine, sim.engine.fabric
    semaphore = sim.at(sim.paths("GPU2.semaphore")[0])
    request = machine.requests[_hit(sim, None, semaphore.path)]
    assert machine.ops[int(request.op)].semaphore == int(semaphore.path.rpartition(".")[2])
    assert request.kind in (t.SIGNAL, t.POLL)
    for kind, table in (("l2", "l2_slices"), ("hbm", "hbm_channels")):
        first = int(machine.gpus[1][f"first_{table[:-1]}"])
        sim.reset()
        sim.clear()
        sim.run()
        served = int(np.flatnonzero(machine.tables[table]["lines"][first:])[0])
        path = f"gpu[1].{kind}.{served}"
        _hit(sim, None, path)
        assert int(machine.clock[0].last_kind) == t.EVENT_KINDS.index(kind)
        assert int(machine.tables[table][first + served].lines) == 1  # its first line
        with pytest.raises(InputError, match=f"it has {kind} events"):
            sim.break_on("hop", path)
    link = next(name for name in sim.paths("gpu[0].port.") if _used(sim, name))
    out, back = sim.engine.machine.links[list(_rows(sim, link))]
    request = machine.requests[_hit(sim, "hop", link)]
    crossed = machine.links[int(request.link)]
    assert (crossed.src, crossed.dst) in ((out.src, out.dst), (back.src, back.dst))
    name = fabric.name(_rows(sim, link)[0])
    for number, buffer in enumerate(BUFFERS[:2]):
        request = machine.requests[_hit(sim, "hop", f"{name}.buffer.{buffer}")]
        assert bool(request.returning) == bool(number)


def _rows(sim: anb.Simulation, path: str) -> tuple[int, ...]:
    from astranb.engine.cacheline.paths import resolve

    return resolve(path, sim.engine.fabric, sim.engine.machine).rows


def _used(sim: anb.Simulation, path: str) -> bool:
    """Return whether lines go out and come back there."""
    sim.reset()
    sim.clear()
    sim.run()
    return bool((sim.engine.machine.links["messages"][list(_rows(sim, path))] > 0).all())


def test_a_breakpoint_on_a_node_or_an_instance_takes_few_rows(run: anb.Simulation) -> None:
    sim = run.fork()
    sim.clear()
    assert len(sim.break_on("hop", "dgx_h100.0.nvsw.2").rows) == 1
    assert len(sim.break_on("issue", "gpu[0-3]").rows) == 8
    sim.clear()
    sim.break_on("hop", "dgx_h100.0.nvsw.2")
    sim.reset()
    assert sim.run().why == "breakpoint"
    assert "nvsw.2" in sim.narrate()
    with pytest.raises(InputError, match="one line under way"):
        sim.break_on(object=f"line[{int(np.flatnonzero(sim.engine.machine.requests['live'])[0])}]")
