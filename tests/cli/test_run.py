"""``astranb run``: its table of options, and the same results as from Python."""

from __future__ import annotations

import inspect
import json
import re
import shlex

import pytest

import astranb as anb
from astranb.chakra import TraceBuilder, write
from astranb.cli import main, parser
from astranb.cli.run_options import _GROUPS, COLLECTIVE, LAYERS, MODEL, TRACES, kind_of
from astranb.collectives import Collective
from astranb.net import Network
from astranb.workload import astrasim1, astrasim2, models

OPTIONS = {option.name: option for group in _GROUPS for option in group.options}


@pytest.mark.parametrize("group", _GROUPS, ids=lambda group: group.title)
def test_the_example_of_a_group_names_something_to_run_and_uses_the_group(group):
    args = parser().parse_args(["run", *shlex.split(group.example)])
    kinds = kind_of(args)
    given = [option for option in OPTIONS.values() if getattr(args, option.name) not in (None, False)]
    assert any(option in group.options for option in given)
    for option in given:
        assert {*option.applies} & {*kinds}, option.name


def test_every_option_has_help_and_applies_to_something():
    for option in OPTIONS.values():
        assert option.help
        assert {*option.applies} <= {COLLECTIVE, MODEL, TRACES, LAYERS}
        assert all(option.applies.values())


@pytest.mark.parametrize(
    "function,names",
    [
        (Collective.of, {"protocol": "protocol", "root": "root"}),
        (Network, {name: name for name in ("arbitration", "buffers", "multipath", "coalesce")}),
        (anb.Simulation, {"launch": "launch"}),
        (
            models.Parallelism,
            {
                "dp": "data",
                "tp": "tensor",
                "pp": "pipeline",
                "cp": "context",
                "ep": "expert",
                "zero": "zero",
                "interleave": "interleave",
            },
        ),
        (models.workload, {"tokens": "tokens", "mode": "mode", "expert_imbalance": "expert_imbalance"}),
        (models.machine, {"gpu": "gpu"}),
        (astrasim2.load, {"num_queues_per_dim": "queues", "injection_scale": "injection_scale"}),
        (
            astrasim1.load,
            {
                "num_passes": "passes",
                "num_queues_per_dim": "queues",
                "comm_scale": "comm_scale",
                "compute_scale": "compute_scale",
            },
        ),
    ],
)
def test_the_defaults_in_the_help_are_those_of_the_library(function, names):
    """The command line passes on only what is given."""
    defaults = inspect.signature(function).parameters
    for option, parameter in names.items():
        *_, said = re.findall(r"\(default: ([\w-]+)\)", OPTIONS[option].help)
        default = defaults[parameter].default
        assert said == (f"{default:g}" if isinstance(default, float) else str(default)), option
        assert parser().parse_args(["run"]).__dict__[option] is None


def test_the_command_line_and_python_agree_on_a_model(capsys):
    assert main(["run", "--model", "gpt3-6.7b", "--dp", "2", "--tp", "8", "--pp", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    step = models.workload("gpt3-6.7b", models.Parallelism(data=2, tensor=8, pipeline=2))
    sim = anb.Simulation(None, step)
    sim.run()
    assert said["time_ps"] == sim.result.time_ps == 129_011_944_000
    assert said["assumed"] == models.machine(step).assumed
    assert [row["end_ps"] for row in said["per_rank"]] == [row["end_ps"] for row in sim.result.per_rank()]


def test_the_command_line_and_python_agree_on_a_collective(capsys):
    command = ["run", "--infra", "switch:gpus=4", "--collective", "all_gather", "--size", "4KiB"]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    sim = anb.Simulation("switch:gpus=4", anb.collectives.all_gather("4 KiB"))
    sim.run()
    assert (said["time_ps"], said["state_hash"]) == (sim.result.time_ps, sim.state_hash())


@pytest.mark.parametrize(
    "command,says",
    [
        ("--workload x --collective all_reduce", "run: --collective and --workload exclude each other"),
        ("--model gpt3-125m --coalesce 4", "run: --coalesce does not apply to a model; leave it out"),
        ("--model gpt3-125m --launch graph", "at --fidelity analytical; leave it out, or use --fidelity cac"),
        ("--infra dgx-h100 --collective all_reduce --size 1 --frames d", "--frames does not apply to a coll"),
        ("--infra dgx-h100 --collective all_reduce --size 1 --root two", "--root: 'two' is not a rank"),
        ("--num-passes 2", "run: --num-passes needs --workload; see astranb run --help"),
        ("--memory m.json", "run: --memory needs --workload or --model; see astranb run --help"),
        ("--injection-scale nan", "run: --injection-scale: nan is out of range; use a number above 0"),
        ("--rendezvous-protocol yes", "run: --rendezvous-protocol: 'yes' is neither true nor false"),
        ("--dp two", "run: --dp: 'two' is not a whole number"),
    ],
)
def test_options_that_do_not_fit_are_one_line(command, says, capsys):
    assert main(["run", *command.split()]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("astranb: ")
    assert error.count("\n") == 1
    assert says in error


def test_ethernet_flow_control(capsys):
    run = ["run", "--infra", "switch:gpus=4", "--collective", "all_reduce", "--size", "64KiB", "--explain"]
    assert main([*run, "--roce"]) == 0
    assert "Ethernet:" in capsys.readouterr().out
    assert main([*run, "--roce", "pfc"]) == 0
    assert "notifications" not in capsys.readouterr().out
    assert main([*run, "--roce", "dcqcn"]) == 2
    assert "add ecn" in capsys.readouterr().err


def test_a_workload_by_cache_lines_is_saved_launched_and_reads_graphs(tmp_path, capsys):
    step = TraceBuilder()
    step.collective("all_gather", 4096)
    for rank in range(4):
        write(tmp_path / f"w.{rank}.et", step.build())
        own = TraceBuilder()
        own.send(4096, (rank + 1) % 4, tag=5)
        own.recv(4096, (rank - 1) % 4, tag=5)
        write(tmp_path / f"own.{rank}.et", own.build())
    (tmp_path / "s.json").write_text(json.dumps({"all-gather-implementation-custom": ["own"]}))
    files = [f"--workload={tmp_path / 'w'}", f"--system={tmp_path / 's.json'}", "--infra=ring:gpus=4"]
    lines = ["run", *files, "--fidelity=cacheline", "--gpu=h100-sxm", "--json"]
    times = []
    for more in ([], ["--launch=stream", f"--save={tmp_path / 'saved'}"]):
        assert main([*lines, *more]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert times[1] == times[0] + anb.gpu.preset("h100-sxm").launch_ps
    assert anb.Simulation.load(tmp_path / "saved").result.time_ps == times[1]


def test_astrasim_files_on_an_infrastructure(tmp_path, capsys):
    step = TraceBuilder()
    step.collective("all_reduce", 1 << 20)
    for rank in range(32):
        write(tmp_path / f"step.{rank}.et", step.build())
    (tmp_path / "s.json").write_text(
        json.dumps({"all-reduce-implementation": ["ring", "ring"], "preferred-dataset-splits": 4})
    )
    command = ["run", f"--workload={tmp_path / 'step'}", f"--system={tmp_path / 's.json'}"]
    clos = "--infra=clos:servers=4"
    times = []
    for more in (["--fidelity=analytical"], ["--fidelity=congestion"], ["--dimensions=4x8"]):
        assert main([*command, clos, "--json", *more]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert times[0] < times[1]
    assert times[2] != times[0]
    for more, message in (
        ([clos, "--network=n.yml"], "--infra and --network exclude each other"),
        ([clos, "--compat=astrasim2"], "ASTRA-sim 2.0 reads no infrastructures"),
        ([clos, "--dimensions=8by4"], "'8by4' is not a list of dimensions; write 8x4"),
        ([clos, "--dimensions=8x5"], "dimensions of 8 x 5 for 32 GPUs"),
        (["--infra=clos:servers=5"], "the trace of rank 32"),
        ([], "--workload needs --network; give --network FILE"),
    ):
        assert main([*command, *more]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
