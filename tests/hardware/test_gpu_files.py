"""The files of GPUs: shipped and a person's own."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.hardware import (
    DEFAULT_GPU,
    GPUS,
    KINDS,
    PRESETS,
    SHORT_NAMES,
    Preset,
    gpu_named,
    preset,
    read_gpu,
    write_preset,
)
from astranb.hardware.gpu_files import SECTIONS, suggested_gpu
from astranb.hardware.reader import device_names, quantities
from astranb.workload.kernels import KernelTimes, Stream
from astranb.workload.models import Parallelism, workload

PACKAGE = Path(anb.__file__).parent
OWN = """
format: astranb-gpu
version: 1
like: h100-sxm
memory:
  sold_bytes: {value: 80 GB, kind: data sheet, source: NVIDIA H100 PCIe data sheet}
machine:
  sms: {value: 114, kind: data sheet, source: NVIDIA H100 PCIe data sheet}
  hbm_Bps: 2 TB/s
kernels:
  matrices: {value: {bf16: 0.5, fp16: 0.5, fp8: 0.4}, kind: fitted, source: my bench}
host:
  link_Bps: 20 GB/s
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "h100-pcie.yaml"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_has_a_source_and_a_kind(name):
    found = read_gpu(name)
    assert found.name == found.preset.name == name
    assert found.preset.sources.keys() == quantities(Preset).keys()
    for section, schema in SECTIONS.items():
        if name == "generic" and section not in ("memory", "machine"):  # the paper has no more
            continue
        known = {n for n, what in quantities(schema).items() if not (what.shared or what.text)}
        assert known - {"fp8_tiles"} <= found.file.sections[section].origins.keys()
    for row in found.rows():
        assert row["kind"] in KINDS or row["number"] in ("text", "fitted")
        assert len(row["source"]) > 5 or not row["kind"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_written_file_is_the_preset_again(name, tmp_path):
    write_preset(preset(name), tmp_path / "mine.json")
    again = preset(tmp_path / "mine.json")
    assert again == preset(name)
    assert again.sources == preset(name).sources
    assert again.library == preset(name).library
    assert (again.shipped, preset(name).shipped) == (False, True)
    if (kernels := preset(name).kernels) is not None:
        assert again.kernels == replace(kernels, fitted=kernels.fitted or f"like those of {name}")


@pytest.mark.parametrize("more", ["", "library: {compute_capability: 89}", "  text: my host"])
def test_an_own_preset_is_written_whole(own, more, tmp_path):
    own.write_text(OWN + more)
    mine = preset(own)
    write_preset(mine, tmp_path / "again.json")
    again = preset(tmp_path / "again.json")
    assert again == mine
    assert again.kernels == mine.kernels != GPUS["h100-sxm"]
    assert list(read_gpu(tmp_path / "again.json").rows()) == list(read_gpu(own).rows())


def test_a_preset_that_is_not_like_another_is_written_whole(tmp_path):
    path = tmp_path / "alone.json"
    path.write_text(read_gpu("mi300x").path.read_text())
    write_preset(preset(path), tmp_path / "again.json")
    again, alone = read_gpu(tmp_path / "again.json"), read_gpu(path)
    assert list(again.rows()) == list(alone.rows()) == list(read_gpu("mi300x").rows())
    assert (again.like, again.shipped, again.preset) == ("", False, alone.preset)


def test_a_number_of_models_that_a_program_changed_has_no_source_of_another(tmp_path):
    mine = preset("h100-sxm")
    assert mine.kernels is not None
    mine = replace(mine, name="mine", kernels=replace(mine.kernels, stream=0.5))
    write_preset(mine, tmp_path / "mine.json")
    rows = {row["number"]: row for row in read_gpu(tmp_path / "mine.json").rows()}
    assert (rows["stream"]["value"], rows["stream"]["source"]) == (0.5, "given in mine.json")
    assert rows["feed"]["source"].startswith("as h100-sxm: ")


def test_an_own_file_may_have_the_name_of_a_shipped_gpu(own, tmp_path):
    path = tmp_path / "h100-sxm.yaml"
    path.write_text(OWN)
    times = []
    for gpu in (own, path, "h100-sxm"):
        sim = anb.Simulation("switch:gpus=2", workload("gpt3-125m", Parallelism(data=2)), gpu=preset(gpu))
        sim.run()
        times.append(sim.result.time_ps)
    assert times[0] == times[1] > times[2]
    assert gpu_named(path).own_machine == preset(path) != preset("h100-sxm")
    assert not preset("h100-sxm").but(sms=8).shipped


def test_the_two_memories_are_two_numbers():
    for name in GPUS:
        memory = read_gpu(name).memory
        assert PRESETS[name].memory_bytes == GPUS[name].memory_bytes == memory.usable_bytes
        assert 0.9 < memory.usable_bytes / memory.sold_bytes < 1.1


def test_models_and_cache_lines_have_one_machine():
    for name, gpu in GPUS.items():
        machine = PRESETS[name]
        assert (gpu.sms, gpu.memory_Bps, gpu.graph_ns) == (
            machine.sms,
            machine.hbm_Bps,
            machine.graph_ps // 1000,
        )


def test_an_own_file_has_what_it_is_like(own):
    mine, h100 = read_gpu(own), read_gpu("h100")
    assert (mine.name, mine.preset.sms, mine.preset.unroll) == ("h100-pcie", 114, h100.preset.unroll)
    assert (mine.kernels.sms, mine.kernels.memory_Bps) == (114, 2 * 10**12)
    assert mine.kernels.host == replace(h100.kernels.host, link_Bps=20 * 10**9)
    assert mine.kernels.interconnect == h100.kernels.interconnect
    sources = mine.preset.sources
    assert str(sources["sms"]) == "data sheet: NVIDIA H100 PCIe data sheet"
    assert str(sources["hbm_Bps"]) == "assumed: given in h100-pcie.yaml"
    assert str(sources["l2_slices"]) == "assumed: as h100-sxm: as A100: 80 slices (NVIDIA A100 white paper)"


def test_a_file_is_accepted_wherever_a_name_is(own, tmp_path, capsys):
    for command in (
        "gpu show {gpu}",
        "run collective all_reduce --infra switch:gpus=2 --gpu {gpu} --size 4KiB",
        "run model gpt3-125m --mode decode --batch 1 --gpu {gpu}",
        "serve --model llama3-8b --gpu {gpu} --requests constant:rate=4,prompt=64,output=8,count=3",
        f"traffic profile --model gpt3-125m --gpu {{gpu}} --output {tmp_path}/profile.json",
        f"chakra generate --model gpt3-125m --gpu {{gpu}} --output {tmp_path}/step",
        "collective verify all_reduce --ranks 2 --gpu {gpu}",
    ):
        assert main([*command.format(gpu=own).split(), "--json"]) == 0, command
        mine = json.loads(capsys.readouterr().out)
        assert main([*command.format(gpu="h100").split(), "--json"]) == 0
        h100 = json.loads(capsys.readouterr().out)
        if not command.startswith(("chakra", "collective")):
            assert mine != h100, command


def test_python_takes_files(own):
    times = []
    for gpu in (own, str(own), preset(own)):
        sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("4 KiB"), gpu=gpu)
        sim.run()
        times.append(sim.result.time_ps)
    assert len(set(times)) == 1
    step = workload("gpt3-125m", gpu=str(own))
    assert step.times is not None
    assert step.times.gpu == gpu_named(own)
    assert KernelTimes(gpu_named(own)).peak_flops == 989 * 10**12


def test_a_saved_run_needs_no_file(own, tmp_path):
    sim = anb.Simulation("switch:gpus=2", anb.collectives.all_reduce("4 KiB"), gpu=own)
    sim.run()
    sim.save(tmp_path / "run.sim")
    own.unlink()
    again = anb.Simulation.load(tmp_path / "run.sim")
    assert again.engine.presets == sim.engine.presets
    assert again.engine.presets[0].kernels == sim.engine.presets[0].kernels
    assert again.engine.presets[0].sources == sim.engine.presets[0].sources


def test_a_file_without_kernels_cannot_run_models(tmp_path, capsys):
    path = tmp_path / "bare.json"
    write_preset(replace(preset("generic"), name="bare", like=""), path)
    assert main(["run", "model", "gpt3-125m", "--gpu", str(path)]) == 2
    assert f"{path}:1: section 'kernels' is missing; add it, or 'like' with" in capsys.readouterr().err
    with pytest.raises(InputError, match="no GPU 'generic' for a model"):
        gpu_named("generic")


@pytest.mark.parametrize(
    "line, message",
    [
        ("  l2_ways: 0", "h100-pcie.yaml:10, machine.l2_ways: 0 is out of range; take 1 to 1000000"),
        ("  warps_per_block: 65", "h100-pcie.yaml:7, machine: a block of 65 warps does not fit on an SM"),
        ("  smss: 3", "machine.smss: unknown number 'smss'; did you mean 'sms'?"),
        ("  hbm_Bps: 1 TB/s", "h100-pcie.yaml:10: duplicate key 'hbm_Bps'"),
    ],
)
def test_bad_numbers_are_one_line_of_the_command(line, message, tmp_path, capsys):
    path = tmp_path / "h100-pcie.yaml"
    path.write_text(OWN.partition("kernels:")[0] + line + "\n")
    run = "run collective all_reduce --infra ring:gpus=2 --size 1KiB --gpu"
    refused((run, "gpu show", "gpu show --json"), path, message, capsys)


def refused(commands, path, message, capsys):
    """Check that commands report a file in one line."""
    for command in commands:
        assert main([*command.split(), str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert message in err


@pytest.mark.parametrize(
    "text, message",
    [
        ("kernels: {stream: 0.5}", "mine.yaml:1: machine.sms is missing, which kernels needs; give it"),
        ("machine: {sms: 12}", "mine.yaml:3, machine: 'issue_ps' is missing; give it"),
        ("like: h100-sxm\nmachine: {graph_ps: 1500}", "machine.graph_ps: 1500 ps are no whole number of ns"),
        ("like: h100-sxm\nkernels: {peaks: {fp8: 1e15}}", "kernels: no number for bf16"),
    ],
)
def test_missing_numbers_are_one_line_of_the_command(text, message, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    path.write_text(f"format: astranb-gpu\nversion: 1\n{text}\n")
    refused(("gpu show", "gpu show --json"), path, message, capsys)


def test_a_time_of_a_kernel_beyond_all_bounds_names_the_gpu(tmp_path):
    path = tmp_path / "slow.yaml"
    path.write_text("format: astranb-gpu\nversion: 1\nlike: h100-sxm\nmachine: {hbm_Bps: 1}\n")
    with pytest.raises(InputError, match=r"GPU 'slow', costs .*: the time of a kernel must be from 0"):
        KernelTimes(gpu_named(path)).kernel_ns(Stream(10**9))


@pytest.mark.parametrize(
    "part, number, value, message",
    [
        ("", "l2_ways", 10**12, "GPU 'h100-sxm': l2_ways is out of range: 1000000000000; take 1 to 1000000"),
        ("", "sms", 1.5, "sms must be a whole number, got 1.5"),
        ("kernels", "stream", 0, "stream is out of range: 0; take 0.01 to 1"),
        ("kernels", "stream", "half", "stream must be a number, got 'half'"),
        ("kernels", "peaks", {}, "peaks is empty; take bf16, fp16, fp8"),
        ("kernels", "peaks", {"int4": 10**15}, "peaks has 'int4'"),
        ("kernels", "matrices", {"bf16": 0.5}, "no number for fp16, fp8"),
        ("kernels", "fitted", 3, "fitted must be a text, got 3"),
        ("host", "achieved", float("nan"), "achieved is out of range: nan"),
        ("interconnect", "per_node", 0, "per_node is out of range: 0"),
        ("costs", "peak_W", True, "peak_W must be a number, got True"),
        ("library", "compute_capability", -1, "compute_capability is out of range: -1"),
    ],
)
def test_numbers_are_in_range_without_a_file(part, number, value, message):
    gpu = read_gpu("h100-sxm")
    with pytest.raises(InputError) as error:
        replace(gpu.section(part) if part else gpu.preset, **{number: value})
    assert message in str(error.value)


def test_unknown_names():
    with pytest.raises(InputError, match=r"unknown GPU 'h100-smx'; did you mean 'h100-sxm'"):
        preset("h100-smx")
    with pytest.raises(InputError, match=r"\(or give a file, as my-gpu\.yaml\)"):
        preset("h100.jsn")
    with pytest.raises(InputError, match="No such file"):
        preset("none.json")


NAMED_BY_THEMSELVES = {
    "infragraph/link_types.py": "patterns of the products that have a link type",
    "infragraph/nccl.py": "products by compute capability, as NCCL's files have it",
    "infragraph/servers.py": "names of servers",
    "infragraph/blueprint_catalog.py": "names of servers",
}
"""Files with GPU names of their own, and why."""


WORDS = {
    "__init__.py": "the name of a server in a hint",
    "chakra/analysis/timeline.py": "a command in a hint",
    "cli/chakra.py": "an example in a help text",
    "cli/serve.py": "an example in a help text",
    "collectives/formats/__init__.py": "the name of a server in a hint",
    "collectives/choice/rccl.py": "the machine that is modelled, in a hint",
    "explore/calibration/preset_fit.py": "a command in a hint",
    "cli/run.py": "examples of commands",
    "explore/runs/specs.py": "a default in a help text",
    "infragraph/detected.py": "a pattern of the names that drivers show",
    "infragraph/lstopo.py": "a command in a hint",
    "mcp/tools.py": "an example in the description of a tool",
    "sim/engines.py": "the name of a server in a hint",
    "widgets/draft.py": "the name of the server that a draft begins with",
    "widgets/editor.py": "the name of the server that an editor begins with",
    "widgets/page_editor.py": "the name of the server that an editor begins with",
    "workload/kernels/kernel_grids.py": "a command in a hint",
    "workload/operation_list.py": "the name of a server in a hint",
}
"""Files in which a GPU's name is only a word of a longer text, and which."""


def _literals(file: Path) -> set[str]:
    """Return the strings of a file without its documentation."""
    tree = ast.parse(file.read_text("utf-8"))
    documented = {
        id(inner.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        for inner in node.body
        if isinstance(inner, ast.Expr)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    }


def test_no_other_file_names_a_gpu():
    """A string with a GPU's name is a second home; in a hint, a help text or an example it is a word."""
    names = set(device_names("gpus")) - {"generic"} | set(SHORT_NAMES)
    word = re.compile(rf"\b({'|'.join(sorted(names, key=lambda name: -len(name)))})\b", re.IGNORECASE)
    files = {file.relative_to(PACKAGE).as_posix(): _literals(file) for file in PACKAGE.rglob("*.py")}
    found = {file: [text for text in texts if word.search(text)] for file, texts in files.items()}
    named = {file for file, texts in found.items() if texts}
    assert named == {"hardware/gpu_files.py", *NAMED_BY_THEMSELVES, *WORDS}, found
    assert found["hardware/gpu_files.py"] == [DEFAULT_GPU]
    for file in WORDS:
        assert not names & {text.lower() for text in found[file]}, file


@pytest.mark.parametrize(
    "text, gpu",
    [
        ("8xh100", "h100-sxm"), ("dgx_h20", "h20-sxm"), ("my-h20-8", "h20-sxm"), ("gh200", "h200-sxm"),
        ("mesh20", None), ("h200-box", "h200-sxm"), ("gb200x", "gb200"), ("b200", "b200-sxm"),
    ],
)  # fmt: skip
def test_a_name_is_a_gpus_only_as_a_word(text, gpu):
    assert suggested_gpu(text) == gpu
