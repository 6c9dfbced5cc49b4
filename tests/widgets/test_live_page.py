"""Pages that simulate, as files: what is in them, and what they may load."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.browser import runtime
from astranb.core.errors import InputError
from tests.browser.conftest import unpacked

_SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


def made(tmp_path: Path, *, live: bool | str, record: bool = True) -> Path:
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("4 KiB", "ring"), record=record)
    sim.step(100)
    return anb.export.page(sim, tmp_path / "page.html", live=live)


def header_of(text: str) -> dict[str, Any]:
    packed = next(body for about, body in _SCRIPT.findall(text) if "anb-recording" in about)
    data = gzip.decompress(base64.b64decode(packed))
    found: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return found


def policy_of(text: str) -> str:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found
    return found[1].replace("&#x27;", "'")


def test_a_whole_page_holds_all_that_it_needs(tmp_path: Path) -> None:
    text = made(tmp_path, live=True).read_text("utf-8")
    packs = [(about, body) for about, body in _SCRIPT.findall(text) if "data-pack" in about]
    assert [base64.b64decode(body) for _, body in packs] == [pack.data for pack in runtime()]
    assert len(text) < 16.5e6
    policy = policy_of(text)
    assert policy.startswith("default-src 'none';")
    assert "'unsafe-eval'" not in policy.replace("'wasm-unsafe-eval'", "")
    assert policy.endswith("; worker-src blob:; connect-src blob: ")
    assert re.search(r"\b(?:src|href)=", re.sub(_SCRIPT, "", text)) is None


def test_a_thin_page_shares_its_python(tmp_path: Path) -> None:
    page = made(tmp_path, live="shared")
    text = page.read_text("utf-8")
    assert len(text) < 1e6
    named = re.findall(r'data-from="([^"]*)"', text)
    assert [(tmp_path / name).read_bytes() for name in named] == [pack.data for pack in runtime()]
    assert policy_of(text).endswith("connect-src blob: 'self'")


def test_a_page_may_fetch_from_the_address_of_its_python_only(tmp_path: Path) -> None:
    address = "ht" + "tp://127.0.0.1:9/python"
    text = made(tmp_path, live=address).read_text("utf-8")
    assert policy_of(text).endswith(f"connect-src blob: {address}/")
    assert all(one.startswith(f"{address}/") for one in re.findall(r'data-from="([^"]*)"', text))
    assert not (tmp_path / "astranb-runtime").exists()


def test_only_a_page_that_simulates_runs_web_assembly(tmp_path: Path) -> None:
    assert "wasm-unsafe-eval" in policy_of(made(tmp_path, live="shared").read_text("utf-8"))
    assert "wasm" not in policy_of(made(tmp_path, live=False).read_text("utf-8"))


def test_a_page_of_an_unrecorded_run_shows_a_still_picture_first(tmp_path: Path) -> None:
    text = made(tmp_path, live="shared", record=False).read_text("utf-8")
    assert "scene" not in header_of(text)
    assert "<noscript><svg" in text


def test_a_page_names_what_it_is_made_of(tmp_path: Path) -> None:
    about = header_of(made(tmp_path, live="shared").read_text("utf-8"))["about"]
    assert all(name in about for name in ("Pyodide", "Mozilla Public License", "NumPy", "CPython", "PyYAML"))


def test_names_do_not_leave_their_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an address"):
        made(tmp_path, live='x"><script>alert(1)</script>')
    with pytest.raises(InputError, match="is not an address"):
        made(tmp_path, live="a; script-src *")


def test_a_machine_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.widgets.live_page._MOST_BYTES", 1000)
    with pytest.raises(InputError, match="and a page has"):
        made(tmp_path, live=True)


def test_without_its_python_the_error_says_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astranb.browser.sources._folder", lambda: tmp_path / "nothing")
    with pytest.raises(InputError, match="run astranb runtime once"):
        made(tmp_path, live=True)
    assert not (tmp_path / "page.html").exists()


def test_the_packs_hold_no_more_than_pages_use() -> None:
    scripts, python, package = map(unpacked, runtime())
    assert list(scripts) == ["limit_memory.js", "pyodide.js", "pyodide.asm.js"]
    own = {name for name in python if not name.startswith("site/numpy")}
    assert own == {"pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip"}
    assert {name.split("/")[1] for name in package} == {"astranb", "yaml"}
    assert sum(len(pack.data) for pack in runtime()) < 12e6
