"""The core runs without the packages of the extras, and a missing one gives one clear line."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from astranb.core.errors import InputError
from astranb.core.extras import _EXTRAS, _INSTALLED_AS, needs_extra

REPOSITORY = Path(__file__).resolve().parents[1]

CORE_ONLY = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {tuple(_EXTRAS)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

RUN = """
import json
from pathlib import Path
import astranb as anb
from astranb.cli import main

folder = Path(sys.argv[1])
run = ["run", "collective", "all_reduce", "--infra", "switch:gpus=2", "--size", "4KiB"]
page, drawing, trace = (str(folder / name) for name in ("run.html", "run.svg", "run.json"))
said = {"codes": [
    main([*run, "--html", page, "--svg", drawing, "--perfetto", trace]),
    main(["run", "model", "gpt3-125m", "--dp", "2", "--html", str(folder / "model.html")]),
    main(["infra", "draw", "switch:gpus=2", "--output", str(folder / "infra.svg")]),
    main(["collective", "verify", "all_reduce", "--algorithm", "ring"]),
    main(["chakra", "generate", "--model", "gpt3-125m", "--dp", "2", "--output", str(folder / "step")]),
]}
sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("4 KiB", "ring"))
sim.run()
said["rows"] = len(sim.result.to_dataframe("links"))

def line(call):
    try:
        call()
    except ValueError as error:
        return str(error)

from astranb.widgets.files import files_of
said["lines"] = {
    "Workbench": line(lambda: anb.Workbench(sim)),
    "Editor": line(lambda: anb.Editor("")),
    "Runs": line(lambda: anb.Runs([sim])),
    "SideBySide": line(lambda: anb.SideBySide(sim, sim)),
    "Study": line(lambda: anb.Study({})),
    "TraceGraph": line(lambda: anb.TraceGraph("")),
    "figures": line(lambda: anb.export.figures.heat_map(sim)),
    "to_png": line(lambda: files_of(sim).to_png(folder / "run.png")),
    "to_gif": line(lambda: files_of(sim).to_gif(folder / "run.gif")),
    "draw": line(lambda: anb.export.draw("switch:gpus=2")),
    "pyvis": line(lambda: anb.export.draw("switch:gpus=2", folder / "infra.html")),
    "serve": line(lambda: anb.mcp.serve(sim)),
    "infragraph": line(lambda: anb.infragraph.blueprint("switch:gpus=2").to_infragraph()),
}
said["written"] = sorted(file.name for file in folder.iterdir())
print(json.dumps(said))
"""


def test_the_core_needs_no_extra(tmp_path: Path) -> None:
    command = (sys.executable, "-c", CORE_ONLY + RUN, str(tmp_path))
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    said = json.loads(run.stdout.splitlines()[-1])
    assert said["codes"] == [0] * 5, run.stderr
    assert said["rows"] > 0
    assert {"infra.svg", "model.html", "run.html", "run.json", "run.svg"} <= set(said["written"])
    assert not {"infra.html", "run.gif", "run.png"} & set(said["written"])
    assert said["lines"] == {
        "Workbench": "anb.Workbench: anywidget is not installed; run pip install 'astranb[lab]'",
        "Editor": "anb.Editor: anywidget is not installed; run pip install 'astranb[lab]'",
        "Runs": "anb.Runs: anywidget is not installed; run pip install 'astranb[lab]'",
        "SideBySide": "anb.SideBySide: anywidget is not installed; run pip install 'astranb[lab]'",
        "Study": "anb.Study: anywidget is not installed; run pip install 'astranb[lab]'",
        "TraceGraph": "anb.TraceGraph: anywidget is not installed; run pip install 'astranb[lab]'",
        "figures": "anb.export.figures: bokeh is not installed; run pip install 'astranb[figures]'",
        "to_png": "to_png: pillow is not installed; run pip install 'astranb[figures]'",
        "to_gif": "animate: pillow is not installed; run pip install 'astranb[figures]'",
        "draw": "export.draw: IPython is not installed; run pip install 'astranb[lab]'",
        "pyvis": "export.pyvis: pyvis is not installed; run pip install 'astranb[figures]'",
        "serve": "a server for assistants: mcp is not installed; run pip install 'astranb[mcp]'",
        "infragraph": "Infra.to_infragraph: infragraph is not installed; "
        "run pip install 'astranb[infragraph]'",
    }


@pytest.mark.parametrize(
    "command,said",
    [
        ("lab", "lab: jupyterlab is not installed; run pip install 'astranb[lab]'"),
        ("mcp", "a server for assistants: mcp is not installed; run pip install 'astranb[mcp]'"),
    ],
)
def test_a_server_that_is_not_installed_is_one_line_and_writes_nothing(
    command: str, said: str, tmp_path: Path
) -> None:
    code = CORE_ONLY + f"from astranb.cli import main; sys.exit(main(['{command}']))"
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": ""}
    python = (sys.executable, "-c", code)
    run = subprocess.run(python, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 2
    assert run.stderr == f"astranb: {said}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_broken_package_is_not_called_missing() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("anb.Workbench"):
        raise ModuleNotFoundError(name="psygnal")
    with pytest.raises(InputError, match=r"pip install 'astranb\[figures\]'"), needs_extra("to_png"):
        raise ModuleNotFoundError(name="PIL.Image")


def test_every_named_extra_is_declared() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    assert declared["all"] == ["astranb[lab,figures,page,infragraph,traffic,explore,mcp]"]
    come_along = {"IPython", "traitlets", "dask"}  # with ipywidgets and distributed
    for name, extra in _EXTRAS.items():
        package = _INSTALLED_AS.get(name, name)
        assert name in come_along or any(one.startswith(f"{package}>=") for one in declared[extra])
        assert not any(one.startswith(f"{package}>=") for one in project["dependencies"])
