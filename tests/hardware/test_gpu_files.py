"""The files of GPUs: shipped and a person's own."""

from __future__ import annotations

import ast
import json
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
from astranb.workload.kernels import KernelTimes
from astranb.workload.models import workload

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
    assert again.kernels == preset(name).kernels


def test_changed_numbers_of_models_are_written_too(own, tmp_path):
    mine = preset(own)
    write_preset(mine, tmp_path / "again.json")
    again = preset(tmp_path / "again.json")
    assert again == mine
    assert again.kernels == mine.kernels != GPUS["h100-sxm"]


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
        "run --infra switch:gpus=2 --gpu {gpu} --collective all_reduce --size 4KiB",
        "run --model gpt3-125m --mode decode --batch 1 --gpu {gpu}",
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
    assert main(["run", "--model", "gpt3-125m", "--gpu", str(path)]) == 2
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
    run = ["run", "--infra", "ring:gpus=2", "--collective", "all_reduce", "--size", "1KiB", "--gpu"]
    assert main([*run, str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_unknown_names():
    with pytest.raises(InputError, match=r"unknown GPU 'h100-smx'; did you mean 'h100-sxm'"):
        preset("h100-smx")
    with pytest.raises(InputError, match=r"or give a file, for example my-gpu\.yaml"):
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
    """A string that is a GPU's name is a second home; in a hint, a help text or an example it is a word."""
    names = set(device_names("gpus")) - {"generic"} | set(SHORT_NAMES)
    found = {
        file.relative_to(PACKAGE).as_posix(): sorted(names & {text.lower() for text in _literals(file)})
        for file in PACKAGE.rglob("*.py")
    }
    named = {file for file, known in found.items() if known}
    assert named - NAMED_BY_THEMSELVES.keys() == {"hardware/gpu_files.py"}, found
    assert found["hardware/gpu_files.py"] == [DEFAULT_GPU]
    assert found["infragraph/servers.py"]


@pytest.mark.parametrize(
    "text, gpu",
    [
        ("8xh100", "h100-sxm"), ("dgx_h20", "h20-sxm"), ("my-h20-8", "h20-sxm"), ("gh200", "h200-sxm"),
        ("mesh20", None), ("h200-box", "h200-sxm"), ("gb200x", "gb200"), ("b200", "b200-sxm"),
    ],
)  # fmt: skip
def test_a_name_is_a_gpus_only_as_a_word(text, gpu):
    assert suggested_gpu(text) == gpu
