"""States that travel: files between a page and Python in both directions, and links to a page."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.state import read_tables, write_tables
from astranb.workload import models
from tests.widgets.live.kernels import NodeKernel, page_kernel
from tests.widgets.live.selection import mostly_slow

LINK = "gpu[0]->dgx_h100.0.nvsw.0"


def ring(size: str = "64 KiB", **options: Any) -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce(size, "ring"), **options)


def changed(sim: anb.Simulation) -> anb.Simulation:
    """Take a run to its middle, with changes on the way, a breakpoint and a watch."""
    sim.step(3000)
    sim.set(f"{LINK}.bandwidth", "100 GB/s")
    sim.step(1500)
    sim.record(on=False)
    sim.step(10, "cycle")
    sim.set("gpu[3].l2", "300 ns")
    sim.record(on=True)
    sim.break_at("12 us")
    sim.break_when("gpu[2].sm.0.issued > 5000")
    sim.watch("gpu[1].sm.0.issued")
    sim.step(2000)
    return sim


def hash_of(page: NodeKernel) -> str:
    return str(page.ask("hash", at_ps=None)["hash"])


def refusal(page: NodeKernel, message: dict[str, Any]) -> str:
    ((found, _),) = page.send(message)
    assert found["type"] == "refused"
    return str(found["text"])


def test_a_page_goes_on_with_pythons_file(tmp_path: Path) -> None:
    sim = changed(ring())
    view = {
        "selection": "gpu[3]",
        "cursor_ps": -1.0,
        "window_ps": [],
        "panels": {"blocks": True},
        "sizes": {"main": 340.5},
        "redraw_hz": 4.0,
        "speed": 2e6,
    }
    sim.notes["workbench"] = view
    sim.save(tmp_path / "a.anb")
    with page_kernel(ring()) as page:
        page.send({"type": "open", "path": str(tmp_path / "a.anb")})
        assert hash_of(page) == sim.state_hash()
        ((shown, _),) = page.send({"type": "shown"})
        assert shown["events"] == sim.events
        assert [(e["events"], e["path"], e["value"]) for e in shown["edits"]] == sim.edits
        assert [point["text"] for point in shown["breakpoints"]] == [point.text for point in sim.breakpoints]
        assert shown["watches"] == [watch.text for watch in sim.watches]
        assert shown["shown"] == view
        page.send({"type": "to_end"})
        stop = sim.run()
        assert stop.why == "breakpoint"
        assert hash_of(page) == sim.state_hash()
        page.send({"type": "back", "n": 4000})
        sim.back(4000)
        assert hash_of(page) == sim.state_hash()


def test_python_goes_on_with_a_pages_file(tmp_path: Path) -> None:
    sim = ring()
    file = tmp_path / "b.anb"
    with page_kernel(sim) as page:
        for message in (
            {"type": "event", "n": 5000},
            {"type": "set", "path": f"{LINK}.bandwidth", "value": "50 GB/s"},
            {"type": "breakpoint", "how": "at", "time": "11 us"},
            {"type": "watch", "what": "gpu[1].sm.0.issued"},
            {"type": "event", "n": 2500},
            {"type": "save", "path": str(file)},
        ):
            page.send(message)
        again = anb.Simulation.load(file)
        assert again.events == 7500
        assert again.edits == [(5000, f"{sim.inspect(LINK)['path']}.bandwidth", "50 GB/s")]
        assert again.state_hash() == hash_of(page)
        assert [point.text for point in again.breakpoints] == ["at 11 µs"]
        assert [watch.text for watch in again.watches] == ["dgx_h100.0.xpu.1.sm.0.issued"]
        assert again.run().why == "breakpoint"
        page.send({"type": "to_end"})
        assert again.state_hash() == hash_of(page)
    bench = anb.Workbench.load(file)
    assert bench.sim.events == 7500


def test_both_write_the_same_arrays(tmp_path: Path) -> None:
    """Whatever happened before: a file of the page is Python's, but for the view and spare bytes of JSON."""
    sim = ring()
    sim.step(4000)
    sim.notes["workbench"] = {}
    sim.save(tmp_path / "a.anb")
    with page_kernel(sim) as page:
        page.send([{"type": "event", "n": 4000}, {"type": "save", "path": str(tmp_path / "b.anb")}])
    mine, theirs = (read_tables(tmp_path / name, "a file", "") for name in ("a.anb", "b.anb"))
    assert list(mine) == list(theirs)
    documents = [json.loads(found.pop("inputs").tobytes()) for found in (mine, theirs)]
    for document in documents:
        del document["notes"]
    assert documents[0] == documents[1]
    for name, array in mine.items():
        assert array.dtype == theirs[name].dtype, name
        assert np.array_equal(array.view(np.uint8), theirs[name].view(np.uint8)), name


def test_a_file_of_another_run_says_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "other.anb"
    with page_kernel(ring()) as page:

        def refused() -> str:
            return refusal(page, {"type": "open", "path": str(file)})

        ring("32 KiB").save(file)
        assert "it differs in “collective”" in refused()
        ring(launch="graph").save(file)
        assert "it differs in “launch”" in refused()
        ring().save(file)
        arrays = read_tables(file, "", "")
        document = json.loads(arrays["inputs"].tobytes())

        def rewritten(**changes: Any) -> None:
            text = json.dumps({**document, **changes}).encode()
            write_tables(file, {**arrays, "inputs": np.frombuffer(text, np.uint8)})

        rewritten(format="astranb simulation 3")
        assert refused() == "written by another version (astranb simulation 3)"
        rewritten(edits=[{"events": 5}])
        assert refused() == "this is no state of a run"
        rewritten(breakpoints=[{"text": "x", "at_ps": -3, "rows": [], "object": "", "enabled": True}])
        assert refused() == "this is no state of a run"
        row = {"owner": 99, "place": 10**12, "relation": 0, "value": 0}
        point = {"text": "x", "at_ps": None, "rows": [row], "object": "", "enabled": True}
        rewritten(breakpoints=[point])
        assert refused() == "the breakpoints of this state are not of this run"
        edit = {"events": 0, "at_ps": 0, "path": "<img src=x>.bandwidth", "value": "1 GB/s"}
        rewritten(edits=[edit])
        assert "<img src=x>" in refused()
        wrong = {**arrays, "program/operands": arrays["program/operands"][:-1]}
        write_tables(file, wrong)
        assert "it differs in “program/operands”" in refused()
        whole = file.read_bytes()
        file.write_bytes(whole[:-100])
        assert refused() == "not a saved simulation"
        ring().save(file)
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        file.write_bytes(bytes(damaged))
        assert refused() == "damaged: its checksum is another one"
        file.write_text("{}")
        assert refused() == "not a saved simulation"


def test_a_link_goes_to_a_moment_of_the_same_run() -> None:
    with page_kernel(ring()) as page, page_kernel(ring()) as other, page_kernel(ring("32 KiB")) as smaller:
        page.send({"type": "event", "n": 5000})
        page.send({"type": "set", "path": f"{LINK}.bandwidth", "value": "50 GB/s"})
        page.send({"type": "breakpoint", "how": "when", "condition": "gpu[2].sm.0.issued > 5000"})
        page.send({"type": "event", "n": 4000})
        ((link, _),) = page.send({"type": "copy_link"})
        assert len(link["fragment"]) < 2000
        other.send({"type": "event", "n": 100})
        other.send({"type": "follow_link", "fragment": link["fragment"]})
        assert hash_of(other) == hash_of(page)
        ((mine, _),), ((theirs, _),) = (one.send({"type": "shown"}) for one in (page, other))
        assert mine == theirs
        follow = {"type": "follow_link", "fragment": link["fragment"]}
        assert "belongs to another page" in refusal(smaller, follow)
        for fragment in (link["fragment"][:-20], "#state=", "#state=" + "A" * 100_000, "#state=AAAA"):
            assert "this link is damaged" in refusal(other, {"type": "follow_link", "fragment": fragment})


def test_a_link_that_somebody_has_made_up_is_refused() -> None:
    with page_kernel(ring()) as page:
        page.send({"type": "event", "n": 500})
        page.send({"type": "breakpoint", "how": "when", "condition": "gpu[2].sm.0.issued > 5000"})
        ((link, _),) = page.send({"type": "copy_link"})
        document = json.loads(zlib.decompress(base64.urlsafe_b64decode(link["fragment"][7:] + "=="), -15))

        def refused(**changes: Any) -> str:
            text = json.dumps({**document, "state": {**document["state"], **changes}}).encode()
            data = zlib.compressobj(9, zlib.DEFLATED, -15)
            fragment = base64.urlsafe_b64encode(data.compress(text) + data.flush()).decode().rstrip("=")
            return refusal(page, {"type": "follow_link", "fragment": f"#state={fragment}"})

        (point,) = document["state"]["breakpoints"]
        for name in ("constructor", "__proto__", "nothing"):
            made_up = {**point, "rows": [{**point["rows"][0], name: 1}]}
            assert "breakpoints of this state" in refused(breakpoints=[made_up])
        assert "this run ends after" in refused(events=10**11)
        edit = {"events": 0, "at_ps": 0, "path": "__proto__.up", "value": "no"}
        assert "__proto__" in refused(edits=[edit])
        assert "constructor" in refused(watches=["gpu[0].constructor"])
        assert "no state of a run" in refused(edits=[{**edit, "events": 501}])


@pytest.mark.parametrize("algorithm", mostly_slow(["ring", "allpairs", "double_tree"], "double_tree"))
def test_files_of_other_runs_travel_too(algorithm: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"network": anb.Network(arbitration="fair", buffers=4)}

    def make() -> anb.Simulation:
        return anb.Simulation(
            "dgx-h100", anb.collectives.all_reduce("32 KiB", algorithm, protocol="LL"), **options
        )

    sim = make()
    sim.step(2000)
    sim.save(tmp_path / "a.anb")
    with page_kernel(make()) as page:
        page.send({"type": "open", "path": str(tmp_path / "a.anb")})
        assert hash_of(page) == sim.state_hash()
        page.send({"type": "event", "n": 1000})
        page.send({"type": "save", "path": str(tmp_path / "b.anb")})
        assert anb.Simulation.load(tmp_path / "b.anb").state_hash() == hash_of(page)


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_files_of_runs_of_messages_travel_in_both_directions(fidelity: str, tmp_path: Path) -> None:
    step = models.workload("gpt3-125m", models.Parallelism(data=2, tensor=2))

    def make() -> anb.Simulation:
        return anb.Simulation(None, step, fidelity=fidelity)

    sim = make()
    sim.step(500)
    sim.set("rank[1].speed", 0.5)
    sim.step(700)
    sim.save(tmp_path / "a.anb")
    with page_kernel(make()) as page:
        assert not [meta for meta, _ in page.send({"type": "open", "path": str(tmp_path / "a.anb")})]
        assert hash_of(page) == sim.state_hash()
        page.send([{"type": "event", "n": 300}, {"type": "save", "path": str(tmp_path / "b.anb")}])
        again = anb.Simulation.load(tmp_path / "b.anb")
        assert again.edits == sim.edits
        assert again.state_hash() == hash_of(page)
        again.run()
        page.send({"type": "to_end"})
        assert again.state_hash() == hash_of(page)
