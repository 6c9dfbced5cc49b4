"""Specifications of runs: the same from Python, from words and from a command line."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from astranb.cli import main, parser
from astranb.cli.run import typed_spec
from astranb.core.errors import InputError
from astranb.explore import CollectiveRun, ExchangeRun, JobsRun, ModelRun, RunSpec, TraceRun, simulation_of
from astranb.explore.runs import line_of, spec_of

RING = CollectiveRun("all_reduce", infra="ring:gpus=4", size="4 KiB", algorithm="ring")
SPECS: list[tuple[RunSpec, dict[str, Any]]] = [
    (RING, {"collective": "all_reduce", "infra": "ring:gpus=4", "size": "4 KiB", "algorithm": "ring"}),
    (
        CollectiveRun("broadcast", infra="dgx-h100", size="1024", root_rank=3, roce="pfc,ecn,dcqcn"),
        {"collective": "broadcast", "infra": "dgx-h100", "size": 1024, "root_rank": "3", "roce": True},
    ),
    (
        ExchangeRun("dispatch", infra="dgx-h800", tokens=64, token_precision="bf16", skew=0.5),
        {"collective": "dispatch", "infra": "dgx-h800", "tokens": 64, "token-precision": "bf16", "skew": 0.5},
    ),
    (
        ModelRun(
            "gpt3-125m", tp=2, sp=True, recompute="full", cache_precision="fp8", start=("3@20us", "1@2us")
        ),
        {"model": "gpt3-125m", "tp": 2, "sp": True, "recompute": True, "cache_precision": "fp8",
         "start": ["3@20us", "1@2us"], "dropout": False, "gpu": None},
    ),
    (
        TraceRun("step", system="s.json", units_count=(4, 2), link_latency=(0.5,), rendezvous_protocol=True),
        {"workload": "step", "system": "s.json", "units_count": [4, 2], "link_latency": [0.5],
         "rendezvous_protocol": True},
    ),
    (JobsRun("jobs.yaml", fidelity="congestion"), {"jobs": "jobs.yaml", "fidelity": "congestion"}),
]  # fmt: skip


@pytest.mark.parametrize("spec, words", SPECS, ids=lambda one: getattr(one, "name", ""))
def test_words_and_their_command_line_make_the_specification(spec: RunSpec, words: dict[str, Any]) -> None:
    assert spec_of(words) == spec
    line = line_of(words)
    assert line[:3] == ["astranb", "run", spec.name]
    assert typed_spec(parser().parse_args(line[1:])) == spec


def test_a_simulation_is_that_of_its_inputs() -> None:
    sim = simulation_of(RING)
    ours = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", "ring"))
    assert sim.run().now_ps == ours.run().now_ps
    assert sim.state_hash() == ours.state_hash()


def test_a_contract_and_a_function_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    def both(p: Any) -> None:
        for rank in range(p.ranks):
            p.block(rank).copy(p.input(rank)[0], p.output(rank)[rank])

    infra = anb.infragraph.blueprint("ring:gpus=2")
    spec = spec_of({"collective": "all_gather", "infra": infra, "size": "1 KiB", "algorithm": both})
    assert spec == CollectiveRun("all_gather", infra=infra, size="1 KiB", algorithm=both)
    assert main(["run", "collective", "all_gather"]) == 2
    assert "run collective: --infra and --size are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, says",
    [
        ({"model": "gpt3-125m", "tpp": 2}, "unknown option 'tpp'; did you mean 'tp'"),
        ({"model": "gpt3-125m", "size": "1 MiB"}, "--size does not apply to a model"),
        ({"model": "gpt3-125m", "collective": "all_gather"}, "--collective and --model exclude each other"),
        ({"tp": 2}, "nothing to run"),
        ({"model": "gpt3-125m", "tp": "two"}, "run: --tp: 'two' is not a whole number"),
        ({"model": "gpt3-125m", "tp": 0}, "0 is out of range"),
        ({"workload": "step", "injection_scale": "nan"}, "use a number above 0"),
    ],
)
def test_words_that_are_wrong_are_one_line(words: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        spec_of(words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "spec, says",
    [
        (CollectiveRun("all_reduce", infra="dgx-h100"), "--size is missing"),
        (CollectiveRun("all_reduce", infra="ring:gpus=2", size="1", fidelity="congestion", gpu="a100"),
         "--gpu does not apply to a collective at --fidelity congestion"),
        (ModelRun("gpt3-125m", coalesce=4), "--coalesce does not apply to a model at --fidelity analytical"),
        (ExchangeRun("dispached", infra="dgx-h800"), "unknown exchange .*did you mean .dispatch"),
        (ExchangeRun("dispatch", infra="dgx-h800"), "--tokens is missing"),
        (ExchangeRun("dispatch", infra="dgx-h800", tokens=1, fidelity="congestion"),
         "--fidelity: an exchange of experts is simulated by cache lines only, not 'congestion'; leave it"),
        (TraceRun(), "the workload is missing"),
    ],
)  # fmt: skip
def test_specifications_that_do_not_fit_are_one_line(spec: RunSpec, says: str) -> None:
    with pytest.raises(InputError, match=says):
        simulation_of(spec)


def test_fields_are_described() -> None:
    for spec, _ in SPECS:
        said = type(spec).__doc__ or ""
        assert (
            "    infra : str | Infra | None\n        InfraGraph file, or blueprint such as dgx-h100\n" in said
        )
