"""Output of ``astranb run`` besides its numbers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import astranb as anb
from astranb.cli import main
from tests.workload.astrasim1.test_files import NETWORK, SYSTEM, TABLE

RUN = ["run", "collective", "all_gather", "--infra", "switch:gpus=2", "--size", "2KiB", "--json"]


def test_a_run_leaves_a_page_a_picture_and_a_trace(tmp_path: Path, capsys) -> None:
    page, drawing, trace = (tmp_path / name for name in ("run.html", "run.svg", "run.json"))
    assert main([*RUN, "--html", str(page), "--svg", str(drawing), "--perfetto", str(trace)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert f"{said['events']:,} events" in page.read_text()
    assert ET.fromstring(drawing.read_text()).tag.endswith("svg")
    assert json.loads(trace.read_text())["otherData"]["events"] == said["events"]
    # What is recorded changes nothing that is simulated.
    assert main(RUN) == 0
    assert json.loads(capsys.readouterr().out)["state_hash"] == said["state_hash"]


@pytest.mark.parametrize("engine", ["2.0", "1.0"])
def test_a_workload_leaves_as_much(tmp_path: Path, capsys, engine: str) -> None:
    if engine == "2.0":
        run = ["run", "model", "gpt3-125m", "--dp", "2", "--tp", "2", "--json"]
    else:
        (tmp_path / "w.txt").write_text(TABLE)
        (tmp_path / "s.txt").write_text(SYSTEM)
        (tmp_path / "n.json").write_text(json.dumps(NETWORK))
        names = {"system": "s.txt", "network": "n.json"}
        run = [
            "run",
            "trace",
            str(tmp_path / "w.txt"),
            *(f"--{name}={tmp_path / file}" for name, file in names.items()),
            "--json",
        ]
    assert main(run) == 0
    said = json.loads(capsys.readouterr().out)
    page, drawing, trace, saved = (tmp_path / name for name in ("r.html", "r.svg", "r.json", "r.npz"))
    wanted = ["--html", str(page), "--svg", str(drawing), "--perfetto", str(trace), "--save", str(saved)]
    assert main([*run, *wanted]) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == said["time_ps"]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert ET.fromstring(drawing.read_text()).tag.endswith("svg")
    assert json.loads(trace.read_text())["traceEvents"]
    again = anb.Simulation.load(saved)
    assert again.finished
    assert again.result.time_ps == said["time_ps"]
    again.back(3)
    again.run()
    assert again.result.time_ps == said["time_ps"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys) -> None:
    assert main([*RUN, "--svg", str(tmp_path / "no" / "run.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_workload_leaves_a_trace_and_tables(tmp_path, capsys):
    from astranb.chakra import TraceBuilder, write

    for rank in range(4):
        step = TraceBuilder()
        step.compute("forward", duration_us=5)
        step.collective("all_reduce", "1 MiB", name="gradients")
        write(step.build(), tmp_path / f"w.{rank}.et")
    (tmp_path / "s.json").write_text('{"all-reduce-implementation": ["ring"], "local-mem-bw": 1600}')
    network = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n"
    (tmp_path / "n.yml").write_text(network)
    command = ["run", "trace", str(tmp_path / "w"), "--system", str(tmp_path / "s.json")]
    command += ["--network", str(tmp_path / "n.yml")]
    more = ["--perfetto", str(tmp_path / "t.json.gz"), "--frames", str(tmp_path / "f")]
    assert main([*command, *more]) == 0
    lines = capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out == lines
    assert (tmp_path / "t.json.gz").stat().st_size > 100
    assert "gradients" in (tmp_path / "f" / "operations.csv").read_text()
    assert main([*command, "--explain"]) == 0
    assert "gradients (all_reduce, 1 MiB)" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["per_rank"][0]["exposed_comm_ps"] <= document["per_rank"][0]["astrasim_exposed_comm_ps"]
    assert "dimensions" not in document
    assert main([*command, "--json", "--frames", str(tmp_path / "f")]) == 0
    assert json.loads(capsys.readouterr().out)["dimensions"][0]["bytes"] == 6 * (1 << 20)
