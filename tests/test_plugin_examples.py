"""The example plug-ins: built and installed as their users do it, then used from command line and Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.cli import main
from astranb.collectives import Collective, verify
from astranb.core import plugins
from astranb.core.errors import InputError
from astranb.core.plugins import KINDS
from astranb.hardware import GPUS, gpu_named, preset
from astranb.traffic import read_traffic, record, translate
from astranb.widgets.feed import feed_of
from astranb.widgets.plugged import module_texts
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from astranb.workload.kernels import KernelTimes, Product, Stream
from tests.node import NODE

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "plugins"
MOST_LINES = 26
SQUARE = "0,1,50,500\n1,2,50,500\n2,3,50,500\n3,0,25,500\n"


def install(site: Path, *kinds: str) -> Path:
    """Build and install examples in a folder, without the network: those of some kinds, or all."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, *offline, *(str(FOLDER / kind) for kind in kinds or KINDS)], check=True)
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("plugins") / "site")


@pytest.fixture
def examples(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make the plug-ins importable, and work in a folder of one's own."""
    known, loaded = set(sys.modules), dict(plugins._loaded)
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.startswith("astranb_"):
            del sys.modules[name]
    plugins._loaded.clear()
    plugins._loaded.update(loaded)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    """Run a command and return its document."""
    capsys.readouterr()
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_there_is_one_for_each_kind_and_it_is_short() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == set(KINDS)
    for file in FOLDER.rglob("*.py"):
        assert len(file.read_text().splitlines()) <= MOST_LINES, file


@pytest.mark.usefixtures("examples")
def test_they_are_listed_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    listed = printed(capsys, "plugins", "--check")
    assert [row["kind"] for row in listed] == sorted(KINDS)
    assert {row["version"] for row in listed} == {"1.0"}
    assert [row["problem"] for row in listed] == [""] * len(KINDS)


@pytest.mark.usefixtures("examples")
def test_the_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    for ranks in (2, 3, 4, 5, 8):
        for protocol in ("Simple", "LL", "LL128"):
            one = Collective.of("all_gather", "64 KiB", "both_ways", protocol=protocol)
            assert verify(one.program(ranks), "all_gather") == []
    what = ("all_gather", "--algorithm", "both_ways", "--size", "4KiB")
    found = printed(capsys, "run", "collective", *what, "--infra", "ring:gpus=4")
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("4 KiB", "both_ways"))
    sim.run()
    assert found["time_ps"] == sim.result.time_ps
    used = ("astranb-both-ways 1.0, astranb.algorithms 'all_gather.both_ways'",)
    assert sim.plugins == sim.fork().plugins == sim.replica().plugins == used
    assert sim.rebuilt(size="8 KiB").plugins == used
    assert sim.rebuilt(algorithm="ring").plugins == ()
    best = anb.explore.best_algorithm("ring:gpus=4", "all_gather", "4 KiB")
    assert "both_ways" in set(best["algorithm"])


def test_a_saved_run_names_its_plugins(examples: Path) -> None:
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("4 KiB", "both_ways"), gpu="h100-pcie")
    sim.step(100)
    sim.save(examples / "run.anb")
    again = anb.Simulation.load(examples / "run.anb")
    assert again.state_hash() == sim.state_hash()
    names = [text.partition(",")[0] for text in again.plugins]
    assert names == ["astranb-h100-pcie 1.0", "astranb-both-ways 1.0"]
    assert set(again.rebuilt(size="8 KiB").plugins) == set(again.rebuilt().plugins) == set(sim.plugins)
    ring = sim.rebuilt(algorithm="ring")
    assert ring.plugins == again.rebuilt(algorithm="ring").plugins == sim.plugins[:1]
    assert anb.compare(sim, ring).names == ("algorithm both_ways", "algorithm ring")
    assert ("plug-ins", "; ".join(sim.plugins), "; ".join(ring.plugins)) in anb.compare(sim, ring).inputs


def test_the_format(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (examples / "square.edges").write_text(SQUARE)
    (examples / "wrong.edges").write_text(SQUARE + "3,1,fast,500\n")
    summary = anb.infragraph.load("square.edges").summary()
    assert (summary["gpus"], summary["edges_by_link"]) == (4, {"link-25-500": 1, "link-50-500": 3})
    assert main(["infra", "check", "square.edges"]) == 0
    assert printed(capsys, "infra", "convert", "square.edges")["name"] == "square"
    assert anb.infragraph.load("square.yaml").to_dict() == anb.infragraph.load("square.edges").to_dict()
    assert main(["infra", "check", "wrong.edges"]) == 2
    wrong = "astranb: wrong.edges:5: not a link: '3,1,fast,500'; write a,b,GB/s,ns\n"
    assert capsys.readouterr().err == wrong
    assert main(["chakra", "info", "square.edges"]) == 2
    assert "square.edges: this is a list of links; give it as --infra" in capsys.readouterr().err
    sim = anb.Simulation("square.edges", anb.collectives.all_reduce("4 KiB", "ring"))
    assert [text.partition(",")[0] for text in sim.plugins] == ["astranb-edge-list 1.0"]
    assert sim.rebuilt(gpu={"sms": 64}).plugins == sim.plugins


@pytest.mark.parametrize("ending", ["edges", "txt"])
def test_a_file_that_begins_otherwise_is_none_of_the_format(examples: Path, ending: str) -> None:
    file = examples / f"other.{ending}"
    file.write_text("hello\n" if ending == "edges" else SQUARE)
    with pytest.raises(InputError, match=file.name):
        anb.infragraph.load(file)


@pytest.mark.parametrize(
    "becomes, made, problem",
    [
        ("traces", "TraceBuilder().build()", ""),
        ("traces", "{}", "TypeError: its reader must return a Trace, not a dict"),
        ("traces", "1 / 0", "ZeroDivisionError"),
        ("traffic", "MessageGraph.of(1, [])", ""),
    ],
)
def test_other_things_that_formats_become(
    examples: Path, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    becomes: str, made: str, problem: str,
) -> None:  # fmt: skip
    text = (site / "astranb_edge_list.py").read_text()
    imports = "from astranb.chakra import TraceBuilder\nfrom astranb.traffic import MessageGraph\n"
    text = imports + text.replace('BEGIN, "infrastructure", read', f'BEGIN, "{becomes}", lambda path: {made}')
    (examples / "astranb_edge_list.py").write_text(text)
    monkeypatch.syspath_prepend(examples)  # in front of the installed module
    (examples / "square.edges").write_text(SQUARE)
    if becomes == "traffic":
        assert read_traffic("square.edges").ranks == 1
        return
    code = main(["chakra", "info", "square.edges"])
    out = capsys.readouterr()
    assert (code, "format: a list of links" in out.out) == ((2, False) if problem else (0, True))
    assert problem in out.err
    with pytest.raises(InputError, match="this is a list of links"):
        anb.infragraph.load("square.edges")


@pytest.mark.usefixtures("examples")
def test_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert preset("h100-pcie").sms == 114
    shown = printed(capsys, "gpu", "show", "h100-pcie")
    assert "NVIDIA H100 PCIe data sheet" in json.dumps(shown)
    assert gpu_named("h100-pcie").peak_flops == 756 * 10**12
    what = ("all_reduce", "--size", "4KiB")
    found = printed(capsys, "run", "collective", *what, "--infra", "ring:gpus=2", "--gpu", "h100-pcie")
    sim = anb.Simulation("ring:gpus=2", anb.collectives.all_reduce("4 KiB"), gpu="h100-pcie")
    sim.run()
    assert found["time_ps"] == sim.result.time_ps
    assert sim.plugins == ("astranb-h100-pcie 1.0, astranb.presets 'h100-pcie'",)


def test_the_target(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("4 KiB", "ring"), fidelity="analytical")
    graph = record(sim).unfold()
    done = translate(graph, "matrix", "bytes.csv")
    rows = [[int(number) for number in line.split(",")] for line in Path("bytes.csv").read_text().split()]
    assert (len(rows), sum(map(sum, rows)), done.messages) == (4, 4 * 3 * 1024, graph.messages)
    translate(graph, "goal", "ring.goal")
    listed = printed(capsys, "traffic", "translate", "--list")
    assert listed[-1] == {"target": "matrix", "suffix": "", "description": "of astranb-traffic-matrix 1.0"}
    found = printed(capsys, "traffic", "translate", "ring.goal", "--to", "matrix")
    assert found["files"] == ["ring.csv"]
    assert (examples / "ring.csv").read_text() == (examples / "bytes.csv").read_text()
    assert main(["traffic", "translate", "ring.goal", "--to", "matrix", "--set", "colour=red"]) == 2
    assert "--set: matrix has no option 'colour'; it has none" in capsys.readouterr().err


@pytest.mark.usefixtures("examples")
def test_the_cost_model(capsys: pytest.CaptureFixture[str]) -> None:
    own = KernelTimes(GPUS["h100-sxm"])
    measured = KernelTimes(GPUS["h100-sxm"], costs="measured")
    assert measured.kernel_ns(Product(2048, 2304, 768)) == 31_000
    for kernel in (Product(2048, 2304, 769), Stream(10**6)):
        assert measured.kernel_ns(kernel) == own.kernel_ns(kernel)
    step = ("run", "model", "gpt3-125m", "--dp", "2", "--gpu", "h100-sxm", "--batch", "2")
    plain, costed = printed(capsys, *step), printed(capsys, *step, "--costs", "measured")
    assert costed["time_ps"] > plain["time_ps"]
    assert printed(capsys, *step, "--costs", "kernels") == plain
    assert main([*step, "--costs", "measured", "--efficiency", "ideal"]) == 2
    assert "a cost model and an efficiency exclude each other" in capsys.readouterr().err
    assert main([*step, "--costs", "measures"]) == 2
    assert "unknown cost model 'measures'; did you mean 'measured'?" in capsys.readouterr().err


@pytest.mark.usefixtures("examples")
def test_a_run_names_its_cost_model_each_time() -> None:
    from astranb.workload.models import Parallelism, workload

    step = workload("gpt3-125m", Parallelism(data=2), gpu=KernelTimes(GPUS["h100-sxm"], costs="measured"))
    for _ in range(2):  # the second time its times are known already
        sim = anb.Simulation(step)
        assert sim.plugins == ("astranb-measured-products 1.0, astranb.costs 'measured'",)


@pytest.mark.usefixtures("examples")
def test_a_time_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    times = KernelTimes(GPUS["h100-sxm"], costs="measured")
    _ = times.model
    module = sys.modules["astranb_measured_products"]
    monkeypatch.setitem(module.MEASURED_NS, (2, 2, 2), -1)
    with pytest.raises(
        InputError, match=r"astranb\.costs 'measured': ValueError: the time of a kernel must be"
    ):
        times.kernel_ns(Product(2, 2, 2))


@pytest.mark.usefixtures("examples")
def test_the_profile_of_a_job_names_its_cost_model(tmp_path: Path) -> None:
    from astranb.traffic import Profile, profile_of
    from astranb.workload.models import Parallelism, workload

    step = workload("gpt3-125m", Parallelism(data=2), gpu=KernelTimes(GPUS["h100-sxm"], costs="measured"))
    profile_of(step, "a test").save(tmp_path / "job.json")
    times = Profile.load(tmp_path / "job.json").step.times
    assert times is not None
    assert times.costs == "measured"


def test_the_view(examples: Path) -> None:
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", "ring"))
    sim.run()
    feed = feed_of(session_of(sim))
    answer, _ = answers_of(feed)["patience"](feed, {})
    assert answer["semaphore_ps"] == max(row["semaphore_ps"] for row in sim.result.per_rank())
    sent = module_texts()
    assert '["cacheline", "stage", "patience", "Patience", create0]' in sent["plugged"]
    assert 'import { create as create0 } from "./plugin_patience.js";' in sent["plugged"]
    assert anb.Workbench(sim)._modules == sent
    anb.Workbench(sim).to_html(examples / "run.html")
    other = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB"), fidelity="analytical")
    assert "patience" not in answers_of(feed_of(session_of(other)))


@pytest.mark.usefixtures("examples")
def test_the_script_of_the_view_is_among_those_of_the_workbench(tmp_path: Path) -> None:
    assert NODE, "Node comes with the group `test`"
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name, text in module_texts().items():
        (tmp_path / f"{name}.js").write_text(text)
    script = (
        "const { PLUGGED } = await import('./plugged.js'); const { slotOf } = await import('./panels.js');"
        "console.log(PLUGGED.map((row) => row.map((part) => typeof part)).join(), slotOf('patience'));"
    )
    run = [NODE, "--input-type=module", "--eval", script]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "string,string,string,string,function stage\n", done.stderr


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("patience.js", "missing.js", "its script cannot be read"),
        ('Panel("patience", ', 'Panel("pa-tience", ', "called 'pa-tience'"),
        ('{"patience": patience}', '{"chunks": patience}', "a built-in view answers the question 'chunks'"),
        ('.js"))', '.js"), "left")', "unknown slot 'left', the slots are stage, side, below"),
        ("max(feed", "1 / 0, max(feed", "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_view_that_is_wrong_is_refused(
    examples: Path, site: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, problem: str
) -> None:
    folder = examples / "astranb_patience"
    folder.mkdir()
    for file in (site / "astranb_patience").glob("*.*"):
        (folder / file.name).write_text(file.read_text().replace(old, new) if file.suffix == ".py" else "")
    monkeypatch.syspath_prepend(examples)
    sim = anb.Simulation("ring:gpus=2", anb.collectives.all_reduce("4 KiB", "ring"))
    sim.run()

    def asked() -> None:
        feed = feed_of(anb.Workbench(sim).session)
        answers_of(feed)["patience"](feed, {})

    with pytest.raises(InputError, match=problem) as caught:
        asked()
    assert "plug-in astranb-patience 1.0, astranb.views 'patience'" in str(caught.value)
