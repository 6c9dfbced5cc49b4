"""Plug-ins: listed without being loaded, loaded whole or not at all, refused in one line."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from astranb.cli import main
from astranb.collectives import ALGORITHMS, Collective, algorithm, algorithms
from astranb.core import plugins
from astranb.core.errors import InputError
from astranb.core.file_formats import FORMATS, format_of
from astranb.core.plugins import KINDS, Registry, installed, of, recorded
from astranb.gpu import named_gpus
from astranb.hardware import GPU_FILES, gpu_named, preset
from astranb.infragraph import blueprint, convert
from tests.infragraph.test_convert import edges, input_file

Offer = Callable[..., Path]
"""Installs a distribution: its name, its module's text, entry points by group, what it requires."""


def offered(
    folder: Path,
    name: str,
    text: str,
    *entries: tuple[str, str, str],
    requires: str = "",
    version: str = "1.0",
) -> Path:
    """Write an installed distribution, as pip does."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    for file in ("acme-one", "acme-two"):
        (folder / f"{file}.yaml").write_text(FILE)
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    needed = f"Requires-Dist: {requires}\n" if requires else ""
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}")
    lines = [f"[astranb.{kind}]\n{entry} = {value}\n" for kind, entry, value in entries]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    known, loaded = set(sys.modules), dict(plugins._loaded)
    count = 0

    def add(name: str, text: str, *entries: tuple[str, str, str], **more: Any) -> Path:
        nonlocal count
        folder = offered(tmp_path / f"site{count}", name, text, *entries, **more)
        count += 1
        monkeypatch.syspath_prepend(folder)
        return folder

    yield add
    for name in set(sys.modules) - known:
        if name.startswith("acme"):
            del sys.modules[name]
    plugins._loaded.clear()
    plugins._loaded.update(loaded)


ONE = "from pathlib import Path\nONE = Path(__file__).with_name('acme-one.yaml')\n"
FILE = "format: astranb-gpu\nversion: 1\nlike: h100-sxm\nmachine: {sms: 7}\n"
GPU = ("presets", "acme-one", "acme:ONE")


def error(act: Callable[[], Any]) -> str:
    """Return the error of a call, which must be one line."""
    with pytest.raises(InputError) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_is_installed_here() -> None:
    assert installed() == []
    assert of("presets", "h100-sxm") is None


def test_a_plugin_is_listed_without_its_code(offer: Offer, capsys: pytest.CaptureFixture[str]) -> None:
    offer("acme", "raise SystemExit('ran')\n", GPU, ("algorithms", "all_reduce.acme", "acme:f"))
    assert [(one.kind, one.name, one.source) for one in installed()] == [
        ("algorithms", "all_reduce.acme", "acme 1.0"),
        ("presets", "acme-one", "acme 1.0"),
    ]
    assert "acme-one" in GPU_FILES
    assert list(GPU_FILES)[-1] == "acme-one"
    assert ("all_reduce", "acme") in ALGORITHMS
    for command in (["plugins"], ["gpu", "list"], ["collective", "list"], ["gpu", "show", "h100-sxm"]):
        assert main(command) == 0
    assert "acme-one     of acme 1.0" in capsys.readouterr().out
    assert "acme" not in sys.modules


def test_a_plugin_is_loaded_once_when_its_name_is_asked_for(offer: Offer) -> None:
    offer("acme", ONE, GPU)
    with recorded() as used:
        found = preset("acme-one")
        assert (found.sms, preset("h100-sxm").sms) == (7, 132)
        assert preset("acme-one") == found
        assert gpu_named("acme-one").peak_flops == gpu_named("h100").peak_flops
    assert list(map(str, used)) == ["acme 1.0, astranb.presets 'acme-one'"]
    assert of("presets", "acme-one") in used


def test_a_new_process_imports_no_plugin(offer: Offer) -> None:
    folder = offer("acme", "print('ran')\n", GPU, ("views", "acme", "acme:V"), ("costs", "acme", "acme:C"))
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import astranb, astranb.widgets, astranb.cli; "
    code += "astranb.cli.main(['infra', 'check', 'ring:gpus=2']); print('acme' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[-2:] == ["False", ""]
    assert "ran" not in run.stdout


@pytest.mark.parametrize(
    "text, problem",
    [
        ("1 / 0", "ZeroDivisionError: division by zero; update it, or run pip uninstall acme"),
        ("import missing_acme", "ModuleNotFoundError: No module named 'missing_acme'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("from astranb.core.errors import InputError\nraise InputError('no', where='here')", "here: no"),
        ("", "AttributeError: module 'acme' has no attribute 'ONE'"),
        ("ONE = 3", "TypeError: "),
        (ONE.replace("acme-one", "acme-two"), "acme:ONE is called 'acme-two': give the entry point the same"),
        ("syntax error", "SyntaxError: invalid syntax"),
    ],
)
def test_a_plugin_that_fails_is_one_line(
    offer: Offer, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    offer("acme", text, GPU)
    assert f"plug-in acme 1.0, astranb.presets 'acme-one': {problem}" in error(lambda: preset("acme-one"))
    assert "acme" not in sys.modules
    assert main(["gpu", "show", "acme-one"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["plugins"]) == 0
    assert main(["plugins", "--check"]) == 2
    assert problem in capsys.readouterr().out


def test_a_plugin_that_fails_leaves_nothing_behind(offer: Offer) -> None:
    text = (
        "from astranb.collectives import algorithm\n@algorithm('all_reduce', 'acme')\ndef f(p): ...\n1 / 0\n"
    )
    offer("acme", text, ("algorithms", "all_reduce.acme", "acme:f"))
    for _ in range(2):
        assert "ZeroDivisionError" in error(lambda: ALGORITHMS["all_reduce", "acme"])
    assert ("all_reduce", "acme") not in ALGORITHMS.own()
    assert "acme" not in sys.modules
    assert Collective.of("all_reduce", 1024, "ring").algorithm == "ring"


@pytest.mark.parametrize("name, why", [("ring", "is built in"), ("other", "is none of its entry points")])
def test_a_plugin_registers_only_what_its_entry_points_name(offer: Offer, name: str, why: str) -> None:
    ring = ALGORITHMS["all_reduce", "ring"]
    text = "from astranb.collectives import algorithm\n@algorithm('all_reduce', 'acme')\ndef f(p): ...\n"
    text += f"@algorithm('all_reduce', {name!r})\ndef g(p): ...\n"
    offer("acme", text, ("algorithms", "all_reduce.acme", "acme:f"))
    found = error(lambda: ALGORITHMS["all_reduce", "acme"])
    assert f"its module registers 'all_reduce.{name}', which {why}" in found
    assert ALGORITHMS["all_reduce", "ring"] is ring
    assert ("all_reduce", "other") not in ALGORITHMS
    assert "acme" not in sys.modules


def test_several_algorithms_of_one_module(offer: Offer) -> None:
    text = "from astranb.collectives import algorithm\n"
    for name in ("a", "b"):
        text += f"@algorithm('all_reduce', 'acme_{name}')\ndef {name}(p):\n    'Number {name}.'\n"
    offer("acme", text, *(("algorithms", f"all_reduce.acme_{x}", f"acme:{x}") for x in "ab"))
    assert [ALGORITHMS["all_reduce", f"acme_{x}"].summary for x in "ba"] == ["Number b.", "Number a."]
    assert [one.name for one in algorithms("all_reduce")][-2:] == ["acme_a", "acme_b"]
    assert len(ALGORITHMS) == len(ALGORITHMS.own()) + 2


MINE = "from astranb.collectives import algorithm\n@algorithm('all_reduce', 'acme')\ndef f(p): 'Mine.'\n"


def test_a_plugin_whose_module_is_imported_is_the_same(offer: Offer) -> None:
    """``import acme`` in a notebook registers what a lookup would load."""
    offer("acme", MINE, ("algorithms", "all_reduce.acme", "acme:f"))
    module = importlib.import_module("acme")
    assert ALGORITHMS["all_reduce", "acme"].write is module.f
    assert ("all_reduce", "acme") in list(ALGORITHMS)
    assert ("all_reduce", "acme") not in ALGORITHMS.own()
    with recorded() as used:
        assert [one.summary for one in algorithms("all_reduce")][-1] == "Mine."
    assert list(map(str, used)) == ["acme 1.0, astranb.algorithms 'all_reduce.acme'"]


def test_an_import_that_fails_registers_nothing(offer: Offer) -> None:
    offer("acme", MINE + "1 / 0\n", ("algorithms", "all_reduce.acme", "acme:f"))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("acme")
    assert "ZeroDivisionError" in error(lambda: ALGORITHMS["all_reduce", "acme"])


def test_an_import_of_a_plugin_for_another_version_is_refused(offer: Offer) -> None:
    offer("acme", MINE, ("algorithms", "all_reduce.acme", "acme:f"), requires="astranb>=99")
    assert "it is for astranb >=99" in error(lambda: importlib.import_module("acme"))


def test_the_name_of_a_plugin_is_not_registered_by_others(offer: Offer) -> None:
    offer("acme", MINE, ("algorithms", "all_reduce.acme", "acme:f"))

    def mine(p: Any) -> None:
        """Nothing."""

    found = error(lambda: algorithm("all_reduce", "acme")(mine))
    assert f"{__name__}: 'all_reduce.acme' is the name of plug-in acme 1.0" in found
    assert "register it by another name" in found
    assert ALGORITHMS["all_reduce", "acme"].summary == "Mine."


@pytest.mark.parametrize(
    "kind, name, asked",
    [
        ("presets", "h100-sxm", ["gpu", "show", "h100"]),
        ("algorithms", "all_reduce.ring", ["collective", "list"]),
    ],
)
def test_a_built_in_name_is_not_replaced(
    offer: Offer, capsys: pytest.CaptureFixture[str], kind: str, name: str, asked: list[str]
) -> None:
    offer("acme", "print('ran')", (kind, name, "acme:x"))
    assert main(asked) == 2
    out = capsys.readouterr()
    assert out.err == (
        f"astranb: plug-in acme 1.0, astranb.{kind} {name!r}: the name is taken: a plug-in cannot replace "
        "what is built in; update it, or run pip uninstall acme\n"
    )
    assert main(["plugins"]) == 2
    assert "the name is taken" in capsys.readouterr().out
    assert "acme" not in sys.modules
    assert preset("mi300x").name == "mi300x"  # other names are not touched


def test_two_plugins_with_one_name_are_refused(offer: Offer) -> None:
    offer("acme", ONE, GPU)
    offer("acme_other", ONE, ("presets", "acme-one", "acme_other:ONE"), version="2.0")
    found = error(lambda: preset("acme-one"))
    assert "another distribution has the same name: acme_other 2.0" in found
    assert {"acme", "acme_other"} & set(sys.modules) == set()


def test_of_one_distribution_the_first_on_the_path_counts(offer: Offer) -> None:
    offer("acme", "1 / 0", GPU, version="1.0")
    offer("acme", ONE, GPU, version="2.0")
    assert [one.version for one in installed()] == ["2.0"]
    assert preset("acme-one").name == "acme-one"


@pytest.mark.parametrize(
    "requires, met",
    [
        ("astranb>=0.1,<0.2", True), ("astranb", True), ("astranb[all]>=0.1; python_version > '3'", True),
        ("astranb (>=0.1)", True), ("numpy>=99", True), ("astranb>=0.2", False), ("astranb~=0.0.9", False),
        ("astranb==0.1.*", True), ("astranb!=0.1.0", False), ("Astranb>99", False), ("astranb-x>=99", True),
        ("astranb (>=0.2)", False), ("astranb [all] (>=0.1,<0.2) ; python_version > '3'", True),
        ("astranb>=0.2rc1", False), ("astranb>=0.1rc1", True), ("astranb==0.1.0rc1", False),
        ("astranb<0.1.0.post1", True), ("astranb>=99; extra == 'test'", True), ("astranb @ file:///a", True),
    ],
)  # fmt: skip
def test_a_plugin_for_another_version_is_not_loaded(
    offer: Offer, capsys: pytest.CaptureFixture[str], requires: str, met: bool
) -> None:
    offer("acme", ONE, GPU, requires=requires)
    if met:
        assert preset("acme-one").name == "acme-one"
        assert main(["plugins", "--check"]) == 0
        return
    found = error(lambda: preset("acme-one"))
    assert "it is for astranb" in found
    assert "update astranb, or run pip uninstall acme" in found
    assert "acme" not in sys.modules
    assert main(["plugins"]) == 2
    assert "it is for astranb" in capsys.readouterr().out


def test_an_unknown_kind_is_a_problem_that_is_listed(
    offer: Offer, capsys: pytest.CaptureFixture[str]
) -> None:
    offer("acme", "", ("presents", "x", "acme:x"))
    assert main(["plugins"]) == 2
    assert f"there is no kind 'presents': {', '.join(KINDS)}" in capsys.readouterr().out


def test_an_algorithm_of_a_plugin_that_fails_names_the_plugin(offer: Offer) -> None:
    text = "from astranb.collectives import algorithm\n@algorithm('all_reduce', 'acme')\ndef f(p): 1 / 0\n"
    offer("acme", text, ("algorithms", "all_reduce.acme", "acme:f"))
    one = Collective.of("all_reduce", 1024, "acme")
    assert "plug-in acme 1.0, astranb.algorithms 'all_reduce.acme': ZeroDiv" in error(lambda: one.program(2))


@pytest.mark.parametrize(
    "text, problem",
    [
        (FILE.replace("7", "-7"), "acme-one.yaml:4, machine.sms: -7 is out of range"),
        (FILE.replace("like: h100-sxm\n", ""), "acme-one.yaml:3, machine: 'issue_ps' is missing"),
        (FILE + "name: h200-sxm\n", "acme:ONE is called 'h200-sxm': give the entry point the same name"),
    ],
)
def test_the_file_of_a_gpu_that_is_wrong_is_named(
    offer: Offer, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    folder = offer("acme", ONE, GPU)
    (folder / "acme-one.yaml").write_text(text)
    found = error(lambda: preset("acme-one"))
    assert "plug-in acme 1.0, astranb.presets 'acme-one': " in found
    assert problem in found
    assert main(["plugins", "--check"]) == 2
    assert problem in capsys.readouterr().out
    (folder / "acme-one.yaml").unlink()
    assert "acme-one.yaml: No such file" in error(lambda: preset("acme-one"))


def test_hints_name_plugins(offer: Offer) -> None:
    offer("acme", ONE, GPU)
    assert "unknown GPU 'acme-on'; did you mean 'acme-one'" in error(lambda: preset("acme-on"))
    assert "no GPU 'acme-on' for a model; did you mean 'acme-one'" in error(lambda: gpu_named("acme-on"))


READER = """import re
from astranb.experimental import FileFormat
FORMAT = FileFormat({ending!r}, "mine", "give it as --infra", re.compile(rb"mine"), "infrastructure", dict)
"""


@pytest.mark.parametrize("ending", ["plan", "network", "memory", "zip"])
def test_a_format_of_a_plugin_has_an_ending_that_a_built_in_one_is_called(
    offer: Offer, tmp_path: Path, ending: str
) -> None:
    """Built-in formats are recognized by their contents, before those of plug-ins."""
    offer("acme", READER.format(ending=ending), ("formats", ending, "acme:FORMAT"))
    for text, key in (
        ("mine", ending),
        ("PK\x03\x04", "zip"),
        ('{"memory-type": 1}', "memory"),
        ("yours", None),
    ):
        file = tmp_path / f"a.{ending}"
        file.write_text(text)
        found = format_of(file)
        assert (found and found.key) == key
    assert list(FORMATS) == [ending]
    assert main(["plugins", "--check"]) == 0


def test_a_plugin_changes_no_assumption(offer: Offer) -> None:
    """Its name is used where it is given, not where the name of an infrastructure happens to fit."""
    offer("acme", "1 / 0", ("presets", "ring", "acme:ONE"))
    assert named_gpus(blueprint("ring:gpus=2"))[0] == ["h100-sxm"] * 2


def test_what_a_program_registers_itself_is_no_plugin() -> None:
    def mine(p: Any) -> None:
        """Nothing."""

    algorithm("all_reduce", "acme_mine")(mine)
    try:
        assert ALGORITHMS.plugin(("all_reduce", "acme_mine")) is None
        assert ALGORITHMS["all_reduce", "acme_mine"].write is mine
    finally:
        del ALGORITHMS["all_reduce", "acme_mine"]
    assert ("all_reduce", "acme_mine") not in ALGORITHMS


def test_errors_of_built_in_code_stay_as_they_are() -> None:
    registry = Registry("presets", int, str, {"1": 1})
    with pytest.raises(ZeroDivisionError), registry.running("1"):
        _ = 1 / 0
    with pytest.raises(KeyError):
        _ = registry["2"]


def test_the_gpu_of_a_plugin_has_the_links_of_what_it_is_like(offer: Offer, tmp_path: Path) -> None:
    offer("acme", ONE, GPU)
    plain = convert(input_file(tmp_path))
    assert edges(plain.completed("acme-one")) == edges(plain.completed("h100-sxm")) != edges(plain)
