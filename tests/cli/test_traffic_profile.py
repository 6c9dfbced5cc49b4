"""``astranb traffic profile``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from astranb.cli.parsing import Parser
from astranb.cli.traffic_profile import add_profile
from astranb.core.errors import InputError
from astranb.traffic import Profile
from astranb.workload.models import Parallelism, workload


def profile(*words: str) -> Any:
    """Return what the command prints with ``--json``."""
    parser = Parser(prog="astranb traffic")
    add_profile(parser.add_subparsers(parser_class=Parser))
    args = parser.parse_args(["profile", *words])
    report = args.command(args)
    assert list(report.lines)
    return json.loads(json.dumps(report.document, allow_nan=False))


def test_a_model_is_profiled_and_written(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    found = profile(
        "--model", "llama3-405b", "--tp", "8", "--pp", "16", "--dp", "128", "--sp", "--zero", "1",
        "--microbatches", "16", "-o", str(file),
    )  # fmt: skip
    assert (found["ranks"], found["stages"], found["tokens"]) == (16384, 16, 16 * 128 * 8192)
    assert found["file"] == str(file)
    assert Profile.load(file).summary() | {"file": str(file)} == found
    assert file.stat().st_size < 1 << 20
    # Six times the parameters and tokens, and attention.
    assert found["model_flops"] == pytest.approx(6 * 405.8e9 * found["tokens"], rel=0.17)


def test_traces_are_profiled_and_scaled(tmp_path: Path) -> None:
    prefix = str(tmp_path / "small")
    workload("gpt3-125m", Parallelism(data=2, tensor=2), batch=2, gpu="h100-sxm").write(prefix)
    found = profile("--traces", prefix, "--dp", "64")
    assert found["ranks"] == 128
    assert found["assumptions"]["traced job"] == "4 ranks: data 2, tensor 2"
    assert profile("--traces", prefix, "--traced", "dp=2,tp=2")["ranks"] == 4


def test_a_function_that_makes_a_module_is_profiled(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra of its own")
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\nfrom torch import nn\n"
        "def model():\n"
        "    layers = [nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 64)) for _ in range(4)]\n"
        "    return nn.Sequential(*layers), torch.zeros(8, 64)\n"
    )
    plan = tmp_path / "plan.yaml"
    plan.write_text('{"*.0": colwise, "*.1": rowwise}')
    found = profile(
        "--torch", f"{file}:model", "--dp", "2", "--tp", "2", "--pp", "2", "--plan", str(plan),
        "--balance", "flops", "--microbatches", "2", "-o", str(tmp_path / "job.json"),
    )  # fmt: skip
    assert (found["ranks"], found["samples"]) == (8, 8 * 2 * 2)
    assert found["assumptions"]["parameters"] == f"{4 * (2 * 64 * 256 + 256 + 64):,}"
    assert (
        found["model_flops"] == 2 * 2 * (3 * 4 * 2 - 1) * 2 * 8 * 64 * 256
    )  # the first input has no gradient
    assert Profile.load(tmp_path / "job.json").operators
    with pytest.raises(InputError, match="there is no function 'modle'"):
        profile("--torch", f"{file}:modle")


def test_without_pytorch_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "mine.py").write_text("def model(): ...")
    with pytest.raises(InputError, match=r"torch is not installed; run pip install 'astranb\[torch\]'"):
        profile("--torch", f"{tmp_path / 'mine.py'}:model")


@pytest.mark.parametrize(
    "words,text",
    [
        ((), "nothing to profile"),
        (("--model", "gpt3-125m", "--traces", "x"), "--model and --traces"),
        (("--model", "gpt3-125m", "--micro", "2"), "--micro does not apply to --model"),
        (("--torch", "x.py:f", "--micro", "2"), "--micro does not apply to --torch"),
        (("--torch", "none.py:f"), "none.py: No such file"),
        (("--traces", "x", "--seq", "2"), "--seq does not apply to --traces"),
        (("--traces", "x", "--traced", "cats=2"), "no degree 'cats=2'"),
        (("--model", "gpt3-126m"), "unknown model"),
        (("--model", "gpt3-125m", "--tp", "5000"), "tensor parallelism 5000 exceeds an MLP's 3072"),
        (("--model", "llama3-405b"), "GB of h100-sxm"),
        (("--model", "gpt3-125m", "--memory-limit", "1GiB"), "needs"),
    ],
)
def test_bad_options_give_one_line(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(InputError, match=text):
        profile(*words)


def test_memory_is_not_checked_where_it_has_no_limit() -> None:
    assert profile("--model", "gpt3-6.7b", "--memory-limit", "none")["ranks"] == 1
