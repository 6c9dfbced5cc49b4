"""Pages that simulate: what they hold, and what they may do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.widgets import assets, live_page
from tests.widgets.test_leaving import unpack


def test_the_page_of_a_dgx_is_small(tmp_path: Path) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
    text = sim.to_html(tmp_path / "ring.html", live=True).read_text()
    assert len(text) < 1_500_000
    header, _ = unpack(text)
    assert header["modules"] == assets.MODULES
    assert header["kernel"] == assets.LIVE_MODULES
    memory = sum(table["rows"] * table["size"] for table in header["live"]["tables"])
    assert f"about {memory / 1e6:,.0f} MB of memory" in text


def test_only_a_page_that_simulates_runs_web_assembly(tmp_path: Path) -> None:
    bench = anb.Workbench(anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB")))
    policies = [
        re.findall(r'"Content-Security-Policy" content="([^"]+)"', bench.to_html(file, live=on).read_text())
        for file, on in ((tmp_path / "a.html", True), (tmp_path / "b.html", False))
    ]
    assert ["wasm-unsafe-eval" in policy for (policy,) in policies] == [True, False]


def test_modules_of_live_pages_are_not_in_notebooks_and_have_what_they_import() -> None:
    for name, text in assets.LIVE_MODULES.items():
        own = re.findall(r'^(?:import|export) \{[^}]*\} from "(\.\.?)/(\w+)\.js";$', text, re.MULTILINE)
        assert len(own) == len(
            re.findall(r"^(?:import|export)\b.* from \"|^\} from \"", text, re.MULTILINE)
        ), name
        assert name not in assets.MODULES
        for folder, imported in own:
            beside = name.startswith("live/") and folder == "."
            known = assets.LIVE_MODULES if beside else {**assets.MODULES, **assets.LIVE_MODULES}
            assert (f"live/{imported}" if beside else imported) in known, (name, imported)


def test_a_machine_that_takes_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB"))
    monkeypatch.setattr(live_page, "_MOST_BYTES", 1_000_000)
    with pytest.raises(InputError, match=r"GB of memory.*open it in JupyterLab"):
        sim.to_html(tmp_path / "a.html", live=True)
    assert not (tmp_path / "a.html").exists()


def test_the_command_line_writes_a_page_that_begins_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--infra", "ring:gpus=4", "--collective", "all_reduce", "--size", "4KiB"]
    assert main([*run, "--html", str(tmp_path / "a.html"), "--live"]) == 0
    header, _ = unpack((tmp_path / "a.html").read_text())
    assert header["live"]["engine"] == "cacheline"
    assert main([*run, "--live"]) == 2
    assert "--live needs --html" in capsys.readouterr().err
