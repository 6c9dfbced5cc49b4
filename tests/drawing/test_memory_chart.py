"""The picture of what a rank holds over time, and the files of the command line."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.core.svg import Circle, Polygon
from astranb.drawing.memory_chart import memory_picture
from astranb.workload.models import Parallelism, workload


@pytest.fixture(scope="module")
def sim():
    step = workload("gpt3-1.3b", Parallelism(pipeline=2), batch=8, microbatches=8, gpu="h100-sxm")
    found = anb.Simulation(step)
    found.run()
    return found


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_names_the_parts_the_peak_and_the_limit(sim, tmp_path, dark):
    path = anb.export.memory(sim, tmp_path / "memory.svg", rank=1, dark=dark)
    root = ET.fromstring(path.read_text())
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    rows = sim.result.to_dataframe("memory").query("rank == 1")
    peak = f"peak {rows['total'].max() / 1e9:,.1f} GB at "
    assert any(text.startswith(peak) for text in texts)
    assert "Memory of rank 1 (stage 1) of gpt3-1.3b; the GPU has 85.5 GB" in texts
    polygons = list(root.iter("{http://www.w3.org/2000/svg}polygon"))
    assert len(polygons) == sum((rows[name] > 0).any() for name in sim.engine.about.footprint.parts)


def test_many_changes_keep_their_fullest_moment():
    step = workload("gpt3-1.3b", batch=32, microbatches=32, gpu="h100-sxm")
    found = anb.Simulation(step)
    found.run()
    rows = found.result.to_dataframe("memory")
    assert len(rows) > 1000
    picture = memory_picture(found)
    areas = [shape for shape in picture.moving if isinstance(shape, Polygon)]
    lowest = min(y for area in areas for _, y in area.corners)
    peak = next(shape for shape in picture.boxes if isinstance(shape, Circle))
    assert lowest == pytest.approx(peak.y, abs=0.1)


def test_other_ranks_files_and_runs_are_refused(sim, tmp_path):
    with pytest.raises(InputError, match="unknown rank 2"):
        anb.export.memory(sim, rank=2)
    with pytest.raises(InputError, match=r"extension '\.txt'"):
        anb.export.memory(sim, tmp_path / "memory.txt")
    lines = anb.Simulation("ring:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    with pytest.raises(InputError, match="have no memory footprint"):
        anb.export.memory(lines)


def test_the_command_line_writes_all_of_it(tmp_path, capsys):
    words = ["run", "model", "gpt3-125m", "--pp", "2", "--batch", "4", "--microbatches", "4"]
    files = [
        "--memory-svg",
        str(tmp_path / "m.svg"),
        "--frames",
        str(tmp_path),
        "--perfetto",
        str(tmp_path / "m.json"),
    ]
    assert main([*words, "--memory-table", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("stage  weights  gradients") for line in lines)
    assert (tmp_path / "m.svg").read_text().startswith("<svg")
    assert (tmp_path / "memory.csv").read_text().startswith("rank,stage,time_ps,weights")
    events = json.loads((tmp_path / "m.json").read_text())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["pid"] for event in counters} == {1, 2}
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for one in document["memory"]:
        assert one["free"] + one["total"] == document["memory_limit"]
        assert max(sum(e["args"].values()) for e in counters if e["pid"] == one["stage"] + 1) == one["total"]
