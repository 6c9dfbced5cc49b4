"""One spelling of GPU names: every command and Python take the same ones, short and long."""

from __future__ import annotations

import json

import pytest

import astranb as anb
from astranb.cli import main
from astranb.gpu import PRESETS, SHORT_NAMES
from astranb.workload.kernels import GPUS
from astranb.workload.models import workload

LONG = sorted(set(PRESETS) & set(GPUS))
SHORT = {long: short for short, long in SHORT_NAMES.items()}


@pytest.mark.parametrize("name", LONG)
def test_all_commands_take_both_spellings(name, capsys, tmp_path):
    commands = (
        "gpu show {gpu}",
        "run model gpt3-125m --gpu {gpu}",
        f"chakra generate --model gpt3-125m --gpu {{gpu}} --output {tmp_path}/step",
        "run collective all_reduce --infra ring:gpus=2 --size 1KiB --gpu {gpu}",
    )
    for command in commands:
        printed = []
        for spelling in {name, SHORT.get(name, name)}:
            assert main([*command.format(gpu=spelling).split(), "--json"]) == 0
            printed.append(json.loads(capsys.readouterr().out))
        assert printed[0] == printed[-1]


@pytest.mark.parametrize("name", LONG)
def test_python_takes_both_spellings(name):
    short = SHORT.get(name, name)
    known = [step.times for step in (workload("gpt3-125m", gpu=one) for one in (name, short))]
    assert [one.gpu for one in known if one] == [GPUS[name]] * 2
    times = []
    for one in (name, short):
        sim = anb.Simulation("ring:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"), gpu=one)
        sim.run()
        times.append(sim.result.time_ps)
    assert times[0] == times[1]
