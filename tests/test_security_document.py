"""docs/security.md: every promise has its test, and limits and places are those of the package."""

from __future__ import annotations

import ast
import gzip
import html.parser
import json
import os
import pickle
import re
import socket
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

import astranb as anb
from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from astranb.core import packed
from astranb.core.display import Displayed
from astranb.core.errors import InputError
from astranb.explore import AlgorithmMap
from tests.documents import DOCS
from tests.drawing.support import HOSTILE, MARKUP, hostile_simulation
from tests.engine.operations.support import hostile, inputs_of

PAGE = (DOCS / "security.md").read_text(encoding="utf-8")
PACKAGE = Path(anb.__file__).parent
ROOT = DOCS.parent


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


def rows(heading):
    """Cells of the first table under a heading."""
    lines = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return cells[2:]


def test_every_promise_has_a_test():
    for heading in ("What is checked", "Promises, tests and figures"):
        for row in rows(heading):
            assert all(row), row
            assert any("`tests/" in cell for cell in row), row


# What is executed -----------------------------------------------------------------


@cache
def trees():
    files = [
        (file.relative_to(PACKAGE).as_posix(), file.read_text("utf-8")) for file in PACKAGE.rglob("*.py")
    ]
    return [(name, ast.parse(text)) for name, text in files]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def executes(tree):
    """Return whether code may become code here: what is called, and what is imported for it."""
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return bool(called & {"exec", "eval", "__import__", "compile"}) or any(
        name.split(".")[0] in {"runpy", "code", "codeop", "imp"} for name in imported(tree)
    )


def test_code_is_executed_at_the_listed_places_only():
    sentence = next(line for line in PAGE.splitlines() if "Python code is executed at these places" in line)
    listed = set(re.findall(r"`([\w/]+\.py)`", sentence))
    assert {file for file, tree in trees() if executes(tree)} == listed
    assert executes(ast.parse("eval('1')"))
    assert executes(ast.parse("import runpy"))


def test_nothing_is_unpickled():
    unsafe = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    for file, tree in trees():
        assert not {name.split(".")[0] for name in imported(tree)} & unsafe, file
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), file
                assert node.value.value is False, file


NETWORK = (
    *("socket", "ssl", "http", "urllib.request", "ftplib", "smtplib", "socketserver", "xmlrpc", "webbrowser"),
    *("requests", "aiohttp", "httpx", "websockets", "urllib3"),
)


BRINGING = "browser/sources.py"
"""File that ``astranb runtime`` runs: it alone uses the network, and is asked for by nothing else."""
LISTENING = "mcp/server.py"
"""File that ``astranb mcp`` runs: it listens on this machine, and connects to nothing."""


def test_only_the_command_for_it_brings_files():
    calling = {file for file, tree in trees() if file != BRINGING and "bring" in {*called(tree)}}
    assert calling == {"cli/runtime.py"}


def called(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr


def test_the_package_opens_no_connection(tmp_path, monkeypatch):
    for file, tree in trees():
        if file in (BRINGING, LISTENING):
            continue
        names = [*imported(tree)]
        assert not [n for n in names if any(n == one or n.startswith(f"{one}.") for one in NETWORK)], file

    def refuse(*_, **__):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    run = ["run", "collective", "all_reduce", "--infra", "ring:gpus=2", "--size", "1KiB"]
    files = ["--html", str(tmp_path / "a.html"), "--perfetto", str(tmp_path / "a.json")]
    assert main([*run, *files, "--save", str(tmp_path / "a.npz")]) == 0
    assert main(["infra", "draw", "ring:gpus=2", "--output", str(tmp_path / "a.svg")]) == 0


class Harm:
    """Object whose pickle runs a command."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (Path(self.file),)


def readers(file):
    """Every command that reads a file, with it."""
    yield ["infra", "check", file]
    yield ["infra", "convert", file, "--output", "out.yaml"]
    yield ["run", "collective", "all_reduce", "--infra", file, "--size", "1KiB"]
    yield ["run", "trace", file, "--system", file, "--network", file]
    yield ["run", "trace", "none", "--system", file, "--network", file]
    yield ["collective", "import", file]
    yield ["chakra", "info", file]
    yield ["chakra", "convert", file, "--output", "out.et"]
    yield ["chakra", "link", file, file, "--output", "out.et"]
    yield ["gpu", "show", file]


def refused(file, capsys):
    for command in readers(str(file)):
        assert main(command) == 2, command
        error = capsys.readouterr().err
        assert error.count("\n") == 1, command
        assert "Traceback" not in error


def test_no_document_executes_code(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    touch = f"touch {tmp_path}/harmed"
    texts = [
        f'!!python/object/apply:os.system ["{touch}"]',
        f"name: !!python/object/apply:os.system ['{touch}']",
        f'name: !!python/object/new:os.system ["{touch}"]',
        f"topology: !!python/object/apply:subprocess.check_output [[sh, -c, '{touch}']]",
        json.dumps(
            {"name": f"__import__('os').system('{touch}')", "py/object": "os.system", "py/reduce": touch}
        ),
        f'<?xml-stylesheet href="{touch}"?><system version="1" onload="{touch}"/>',
        f"DATA\n1\n`{touch}` -1 $({touch}) NONE 0 1 NONE 0 1 NONE 0 1\n",
        f"__import__('os').system('{touch}')",
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
        refused(tmp_path / f"{number}.yaml", capsys)
    harm = Harm(f"{tmp_path}/harmed")
    (tmp_path / "p.npz").write_bytes(pickle.dumps(harm))
    np.savez(tmp_path / "q.npz", inputs=np.array([harm], dtype=object))
    for name in ("p.npz", "q.npz"):
        refused(tmp_path / name, capsys)
        with pytest.raises(InputError):
            anb.Simulation.load(tmp_path / name)
    assert not (tmp_path / "harmed").exists()
    pickle.loads(pickle.dumps(harm))
    assert (tmp_path / "harmed").exists()  # it would have worked


def test_a_saved_simulation_does_not_execute_its_source(tmp_path):
    mark = tmp_path / "executed.npy"
    text = f"import numpy\nnumpy.save({str(mark)!r}, 0)\nfor me in p.everyone:\n"
    text += "    me.block().put(me.input[0], me.right.output[0])\n"
    write_it = anb.collectives.text_algorithm(text, "harm")
    sim = anb.Simulation("ring:gpus=2", anb.collectives.Collective.of("send_recv", "1KiB", write_it))
    assert mark.exists()
    sim.save(tmp_path / "a.npz")
    mark.unlink()
    again = anb.Simulation.load(tmp_path / "a.npz")
    again.run()
    bench = anb.Workbench(again)
    bench.to_html(tmp_path / "a.html")
    assert any("numpy.save" in one.text for one in again.source.parts)
    assert not mark.exists()


# What is limited -------------------------------------------------------------------


def test_a_small_file_cannot_become_a_large_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = "abcdefghi"
    laughs = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise(names))
    device = {"name": "d", "components": [{"name": "g", "choice": "xpu", "count": 2**31 - 1}]}
    many = {"devices": [device], "instances": [{"name": "h", "device": "d", "count": 2**31 - 1}]}
    files = {
        "laughs.xml": f'<!DOCTYPE system [<!ENTITY a "ha">{laughs}]><system version="1">&i;</system>',
        "outside.xml": f'<!DOCTYPE system [<!ENTITY x SYSTEM "file://{tmp_path}/a">]><system>&x;</system>',
        "aliases.yaml": "\n".join(
            [
                "a: &a [x]",
                *(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise(names)),
            ]
        ),
        "deep.json": "[" * 200_000,
        "deep.yaml": "- " * 200_000,
        "digits.json": '{"name": ' + "9" * 100_000 + "}",
        "many.json": json.dumps(many),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        refused(tmp_path / name, capsys)
    (tmp_path / "zeros.et.gz").write_bytes(gzip.compress(bytes(1 << 26)))
    refused(tmp_path / "zeros.et.gz", capsys)
    os.mkfifo(tmp_path / "fifo.yaml")
    refused(tmp_path / "fifo.yaml", capsys)
    refused(tmp_path, capsys)


def test_the_limits_are_those_of_the_page():
    from astranb.chakra.traces import trace_file
    from astranb.collectives.experts import routing
    from astranb.collectives.formats import mscclpp
    from astranb.collectives.proof import text
    from astranb.core import document, yaml_data
    from astranb.infragraph import loading
    from astranb.workload.astrasim2 import documents

    assert dict(rows("Limits")) == {
        "a document or plan": f"{document.MOST_BYTES >> 20} MiB",
        "an InfraGraph document": f"{loading._MOST_BYTES >> 20} MiB",
        "ASTRA-sim's system, network, memory and groups": f"{documents._MOST_BYTES >> 20} MiB",
        "levels of nesting in YAML": f"{yaml_data._MOST_DEPTH}",
        "values of a document, with YAML's aliases expanded": f"{yaml_data._MOST_VALUES:,}",
        "a Chakra trace, unpacked": f"{trace_file.MOST_BYTES >> 20} MiB",
        "a Chakra trace, or arrays of NumPy, unpacked, per packed byte": f"{packed.MOST_RATIO}",
        "tokens of all ranks in a routing": f"{routing._MOST_TOKENS:,}",
        "operations of an MSCCL++ plan": f"{mscclpp._MOST_STEPS:,}",
        "characters of an algorithm's text that is verified as you type": f"{text._MOST_CHARACTERS:,}",
    }


# Names -----------------------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    """The elements of a page, as a browser would see them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(attrs)


def harmless(text):
    """Check that no name became an element, an attribute with code, or the end of a script."""
    found = Elements(text)
    assert "img" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not [name for name, value in found.attributes if str(value).startswith("javascript:")]
    assert len(re.findall(r"<script\b", text)) == text.count("</script>")
    return found


def simulations():
    layers = inputs_of()
    table = layers.table
    named = tuple(type(layer)(HOSTILE.replace(" ", "_"), *layer.parts, update_ns=1) for layer in table.layers)
    hostile_layers = anb.Simulation(
        None, type(layers)(type(table)(table.loop, named), layers.system, layers.network, 1)
    )
    hostile_layers.run()
    return {"lines": hostile_simulation(), "messages": hostile(), "layers": hostile_layers}


@pytest.fixture(scope="module")
def hostile_runs():
    return simulations()


def hostile_map():
    names = {"infra": HOSTILE, "algorithm": HOSTILE, "protocol": "Simple"}
    numbers = {"ranks": 2, "size_bytes": 1024, "time_ps": 1000}
    return AlgorithmMap(HOSTILE, pd.DataFrame([names | numbers]))


class Sentence(Displayed):
    """Class like all whose notebook output is their sentence."""

    def __str__(self):
        return HOSTILE


@pytest.mark.parametrize("kind", ["lines", "messages", "layers"])
def test_names_from_files_are_text(hostile_runs, kind, tmp_path):
    sim = hostile_runs[kind]
    bench = anb.Workbench(sim)
    harmless(bench.to_html(tmp_path / "a.html").read_text())
    drawing = bench.to_svg()
    harmless(drawing)
    ET.fromstring(drawing)
    sim.result.to_perfetto(tmp_path / "a.json")
    assert any("onerror" in str(e) for e in json.loads((tmp_path / "a.json").read_text())["traceEvents"])
    shown = [sim, sim.step(), sim.result, sim.critical_path(), anb.compare(sim, sim), Sentence()]
    if kind == "lines":
        shown += [sim.why(), sim.what_if(), sim.at("gpu[0]"), sim.engine.infra, hostile_map()]
    for one in shown:
        harmless(one._repr_html_())
    for table in sim.result.tables:
        harmless(sim.result.to_dataframe(table).head(50).to_html())


def test_every_notebook_output_is_among_them():
    """A class that gets a notebook output is added to the test above."""
    found = {
        node.name
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(one, ast.FunctionDef) and one.name == "_repr_html_" for one in node.body)
    }
    assert found == {"Why", "WhatIf", "CriticalPath", "Infra", "ObjectView", "Displayed", "AlgorithmMap"}


def test_names_in_pictures_of_files_are_text(tmp_path):
    infra = hostile_simulation().engine.infra
    for name in ("a.svg", "a.html"):
        text = anb.export.draw(infra, tmp_path / name).read_text()
        harmless(re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL) if name == "a.html" else text)
        assert MARKUP not in re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    trace = TraceBuilder()
    trace.compute(HOSTILE, duration_us=1)
    write(trace.build(), tmp_path / "t.et")
    for command, name in (("draw", "t.svg"), ("timeline", "t.json"), ("draw", "t.dot")):
        assert main(["chakra", command, str(tmp_path / "t.et"), "--output", str(tmp_path / name)]) == 0
    harmless((tmp_path / "t.svg").read_text())
    assert HOSTILE in str(json.loads((tmp_path / "t.json").read_text()))


def test_the_name_of_a_plan_is_text(tmp_path):
    block = {"id": 0, "ops": [{"name": "nop"}], "channels": []}
    gpus = [
        {"id": n, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0, "threadblocks": [block]}
        for n in range(2)
    ]
    head = {"name": HOSTILE, "collective": HOSTILE, "protocol": "Simple", "inplace": False}
    (tmp_path / "p.json").write_text(json.dumps({**head, "gpus": gpus}))
    run = ["run", "collective", "custom", "--infra", "ring:gpus=2", "--size", "1KiB"]
    files = ["--html", str(tmp_path / "p.html"), "--svg", str(tmp_path / "p.svg")]
    assert main([*run, "--algorithm", str(tmp_path / "p.json"), *files]) == 0
    for name in ("p.html", "p.svg"):
        harmless((tmp_path / name).read_text())


@pytest.mark.parametrize("kind", ["lines", "messages", "layers"])
def test_a_page_loads_nothing(hostile_runs, kind, tmp_path):
    text = anb.Workbench(hostile_runs[kind]).to_html(tmp_path / "a.html").read_text()
    found = Elements(text)
    assert ("http-equiv", "Content-Security-Policy") in found.attributes
    (policy,) = [str(value) for _, value in found.attributes if str(value).startswith("default-src")]
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:|wss?:", policy)
    assert not {name for name, _ in found.attributes} & {"src", "href", "srcset", "action", "data", "poster"}
    assert not found.tags & {"iframe", "object", "embed", "link", "form", "base", "audio", "video"}


def test_the_names_can_do_harm():
    """A page that writes them without care is found."""
    with pytest.raises(AssertionError):
        harmless(f"<p>{HOSTILE}</p>")
    with pytest.raises(AssertionError):
        harmless(f"<script>{HOSTILE}</script>")
