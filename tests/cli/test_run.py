"""``astranb run``: its table of options, and the same results as from Python."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import re
import shlex

import pytest

import astranb as anb
from astranb.chakra import TraceBuilder, write
from astranb.cli import main, parser
from astranb.cli.options import RUN_GROUPS, RunOutputs
from astranb.cli.parsing import leaves
from astranb.collectives import Collective
from astranb.core.units import time_ps
from astranb.engine.fidelity import FIDELITIES
from astranb.explore.runs import RUNS, CollectiveRun, ExchangeRun, ModelRun, StepSpec, TraceRun
from astranb.net import Network
from astranb.workload import astrasim1, astrasim2, models
from astranb.workload.kernels import DEFAULT_GPU, HybridMemory
from tests.workload.astrasim1.test_files import NETWORK, SYSTEM, TABLE

COLLECTIVE_BY_MESSAGES = "collective all_reduce --infra dgx-h100 --size 1 --fidelity congestion"
COMMANDS = {one.prog: one for one in leaves(parser())}


def namesakes():
    """The fields of all groups of options, by command."""
    for kind in RUNS:
        flags = [flag for group in RUN_GROUPS[kind.name] for flag in re.findall(r"--([\w-]+)", group.options)]
        yield kind, [flag.replace("-", "_") for flag in flags]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_and_topic_fits_a_screen(name, monkeypatch):
    command = COMMANDS[name]
    for width, topic in itertools.product((80, 100), (None, *command.topics.values())):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = command.format_help(topic).splitlines()
        assert len(lines) <= 60, topic
        assert max(map(len, lines)) <= width, topic


def test_the_example_in_a_help_is_a_command():
    for kind in RUNS:
        for name in (f"astranb run {kind.name}", f"astranb traffic record {kind.name}"):
            if name == "astranb traffic record exchange":
                assert name not in COMMANDS  # it has no messages to record
                continue
            words = shlex.split(str(COMMANDS[name].description).split("Example: astranb ")[1])
            assert parser().parse_args(words).kind is kind


def test_every_field_is_an_option_with_a_text_and_every_option_a_field():
    for kind, flags in namesakes():
        fields = {one.name for one in dataclasses.fields(kind)}
        outputs = {one.name for one in dataclasses.fields(RunOutputs)}
        assert fields - {kind.subject} <= {*flags}
        aliases = {"csv", *(flag for flag in flags if flag.endswith("_configuration"))}
        assert {*flags} - fields - outputs <= aliases
        for action in COMMANDS[f"astranb run {kind.name}"]._actions:
            assert action.help


def test_an_option_means_the_same_for_all_kinds_of_runs():
    texts: dict[str, set[str]] = {}
    for name in ("run", "traffic record"):
        for kind in RUNS:
            if (name, kind) == ("traffic record", ExchangeRun):
                continue
            for action in COMMANDS[f"astranb {name} {kind.name}"]._actions:
                said = str(action.help).partition(" (default:")[0]
                texts.setdefault((action.option_strings or [kind.name])[0], set()).add(said)
    several = {option for option, said in texts.items() if len(said) > 1}
    # DeepEP's own names, in place of a model's MLP, and no pattern is recorded by cache lines.
    assert several == {"--algorithm", "--experts", "--fidelity"}


@pytest.mark.parametrize(
    "function,kind,names",
    [
        (Collective.of, CollectiveRun, {"root_rank": "root"}),
        (Network, CollectiveRun, {name: name for name in (
            "arbitration", "buffers", "cut_through", "multipath", "coalesce", "compute_lines",
        )}),
        (anb.collectives.dispatch, ExchangeRun, {name: name for name in (
            "hidden", "topk", "experts", "skew", "seed",
        )}),
        (models.Parallelism, StepSpec, {
            "dp": "data", "tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert", "sp": "sequence",
            "zero": "zero", "interleave": "interleave",
        }),
        (models.workload, StepSpec, {
            "output_tokens": "tokens", "framework": "library",
            **{name: name for name in (
                "mode", "expert_imbalance", "recompute", "elementwise", "dropout", "uneven", "attention",
                "precision", "offload", "gradient_bytes",
            )},
        }),
        (HybridMemory, ModelRun, {"expanded_streaming": "streaming", "expanded_placement": "placement"}),
        (astrasim2.load, TraceRun, {
            "num_queues_per_dim": "queues", "injection_scale": "injection_scale",
            "rendezvous_protocol": "rendezvous",
        }),
        (astrasim1.load, TraceRun, {
            "num_passes": "passes", "num_queues_per_dim": "queues", "injection_scale": "injection_scale",
            "comm_scale": "comm_scale", "compute_scale": "compute_scale",
        }),
    ],
)  # fmt: skip
def test_the_defaults_of_specifications_are_those_of_the_library(function, kind, names):
    """Only what differs is passed on."""
    defaults = inspect.signature(function).parameters
    for field in dataclasses.fields(kind):
        if field.name in names:
            assert field.default == defaults[names[field.name]].default, field.name


def test_help_prints_the_defaults(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = " ".join(COMMANDS["astranb run model"].format_help("all").split())
    for said in (
        f"else {DEFAULT_GPU})",
        "--tp N parts of each matrix (tensor parallelism) (default: 1)",
        "parameters; or none (default: gradients,parameters)",
        "(default: 0)",
        "(default: never)",
    ):
        assert said in text
    assert all(value is None for value in vars(parser().parse_args(["run", "jobs", "x"])).values()
               if not callable(value) and value != "x")  # fmt: skip


@pytest.mark.parametrize(
    "typed,says",
    [
        ("run collective all_reduce --algorith ring",
         "run collective: unknown option --algorith; did you mean --algorithm? see astranb run coll"),
        ("run collective all_reduce --tp 4", "unknown option --tp; it belongs to astranb run model"),
        ("run collective broadcast --root 3", "unknown option --root; write --root-rank (root of a "),
        ("run colective all_reduce", "run: unknown command 'colective'; did you mean 'collective'?"),
        ("run model gpt3-125m --help=costs", "no help about 'costs'; did you mean 'cost'?"),
        ("run collective all_reduce 1MiB --infra dgx-h100", "run collective: unexpected '1MiB'"),
        ("run collective dispatch --infra dgx-h800", "write: astranb run exchange dispatch"),
        ("chakra draw x.et --start 3", "chakra draw: unknown option --start; it belongs to astranb run "),
        ("run --infra dgx-h100 --collective all_reduce --size 1MiB",
         "astranb: write: astranb run collective all_reduce --infra dgx-h100 --size 1MiB\n"),
        ("run --collective=broadcast --root 3 --infra dgx-h100 --size '1 MiB'",
         "write: astranb run collective broadcast --root-rank 3 --infra dgx-h100 --size '1 MiB'\n"),
        ("run --infra dgx-h800 --collective dispatch --precision bf16",
         "write: astranb run exchange dispatch --infra dgx-h800 --token-precision bf16\n"),
        ("run --model gpt3-125m --library pytorch --json",
         "write: astranb run model gpt3-125m --framework pytorch --json\n"),
        ("run --workload-configuration=w --system-configuration=s",
         "write: astranb run trace w --system-configuration=s\n"),
        ("traffic record --model gpt3-125m -o x", "write: astranb traffic record model gpt3-125m -o x\n"),
        ("run --infra dgx-h100", "what to run comes first: collective, exchange, model, trace, jobs"),
        ("run trace w --workload-configuration=w", "'w' and --workload-configuration exclude each other"),
    ],
)  # fmt: skip
def test_a_mistyped_command_line_is_answered_by_the_right_one(typed, says, capsys):
    assert main(shlex.split(typed)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert says in error


def test_the_command_line_and_python_agree_on_a_model(capsys):
    assert main(["run", "model", "gpt3-6.7b", "--dp", "2", "--tp", "8", "--pp", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    step = models.workload("gpt3-6.7b", models.Parallelism(data=2, tensor=8, pipeline=2))
    sim = anb.Simulation(step)
    sim.run()
    assert said["time_ps"] == sim.result.time_ps
    assert said["assumed"] == models.machine(step).assumed
    assert [row["end_ps"] for row in said["per_rank"]] == [row["end_ps"] for row in sim.result.per_rank()]


MODEL_FILE = "{name: mine, layers: 1, hidden: 64, heads: 4, ffn: 128, vocab: 0, sequence: 16}"
SUBJECTS = {
    "a collective": "collective all_gather --infra=ring:gpus=4 --size=4KiB",
    "a collective with options": "collective all_reduce --infra=ring:gpus=4 --size=4KiB --algorithm=ring",
    "a model": "model mine.yaml --tp=2 --dp=2",
    "a model on an infrastructure": "model mine.yaml --tp=2 --dp=2 --infra=ring:gpus=4",
    "2.0 files": "trace step --system=s.json --network=n.yml",
    "2.0 files, as the peer": "trace step --system=s.json --network=n.yml --compat=astrasim2",
    "2.0 files on an infrastructure": "trace step --system=s.json --infra=ring:gpus=4",
    "1.0 files": "trace w.txt --system=s.txt --network=n.json",
    "1.0 files, as the peer": "trace w.txt --system=s.txt --network=n.json --compat=astrasim1",
}


def in_python(name):
    """The infrastructure and what runs, as a person writes them."""
    if name.startswith("a collective"):
        made = anb.collectives.all_reduce("4 KiB", "ring") if "options" in name else None
        return "ring:gpus=4", made or anb.collectives.all_gather("4 KiB")
    if name.startswith("a model"):
        step = models.workload("mine.yaml", models.Parallelism(tensor=2, data=2))
        return "ring:gpus=4" if "infrastructure" in name else None, step
    compat = "peer" in name
    if name.startswith("1.0"):
        return None, astrasim1.load("w.txt", "s.txt", "n.json", compat=compat)
    infra = anb.infragraph.blueprint("ring:gpus=4")
    network = astrasim2.InfraNetwork(infra) if "infrastructure" in name else "n.yml"
    return None, astrasim2.load("step", "s.json", network, compat=compat)


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A folder with all files of the subjects."""
    monkeypatch.chdir(tmp_path)
    step = TraceBuilder()
    step.compute("forward", duration_us=5)
    step.collective("all_reduce", 1 << 14)
    for rank in range(4):
        write(step.build(), tmp_path / f"step.{rank}.et")
    system = {"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 2}
    (tmp_path / "s.json").write_text(json.dumps(system))
    (tmp_path / "n.yml").write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    (tmp_path / "mine.yaml").write_text(MODEL_FILE)
    (tmp_path / "w.txt").write_text(TABLE)
    (tmp_path / "s.txt").write_text(SYSTEM)
    (tmp_path / "n.json").write_text(json.dumps(NETWORK))


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_command_line_and_python_agree(name, fidelity, capsys):
    """The command line neither records nor looks into a run: one NPU may stand for all."""
    assert main(["run", *SUBJECTS[name].split(), "--fidelity", fidelity, "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    sim = anb.Simulation(*in_python(name), fidelity=fidelity)
    sim.run()
    result = sim.result
    assert (given["time_ps"], given["events"]) == (result.time_ps, sim.events)
    assert given["state_hash"] == sim.state_hash()
    assert given["fidelity"] == sim.fidelity == fidelity
    assert [row["end_ps"] for row in given["per_rank"]] == [row["end_ps"] for row in result.per_rank()]
    assert given["breakdown"] == result.breakdown()


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_same_fidelity_where_none_is_given(name, capsys):
    assert main(["run", *SUBJECTS[name].split(), "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert given["fidelity"] == anb.Simulation(*in_python(name)).fidelity


@pytest.mark.parametrize(
    "command,says",
    [
        (
            "model gpt3-125m --coalesce 4",
            "--coalesce does not apply to a model at --fidelity analytical; leave it out, or use",
        ),
        ("collective all_reduce --infra dgx-h100 --size 1 --frames d", "unknown option --frames"),
        (
            "collective broadcast --infra dgx-h100 --size 1 --root-rank two",
            "--root-rank: 'two' is not a whole",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --protocol LL",
            "--protocol does not apply to a collective at --fidelity ",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --channels 2",
            "--channels does not apply to a collective at --fidelity ",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --gpu h100-sxm",
            "--gpu does not apply to a collective at --fidelity cong",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --launch graph",
            "--launch does not apply to a collective at --fidelity ",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --multipath spray",
            "--multipath does not apply to a collective at --fid",
        ),
        (
            f"{COLLECTIVE_BY_MESSAGES} --compute-lines 8",
            "--compute-lines does not apply to a collective at --fidelity congestion",
        ),
        (
            "model gpt3-125m --fidelity cacheline --num-queues-per-dim 2",
            "or use --fidelity analytical or c",
        ),
        (
            "model gpt3-125m --fidelity cacheline --rendezvous-protocol",
            "--rendezvous-protocol does not app",
        ),
        (
            "model x --injection-scale nan",
            "run model: --injection-scale: nan is out of range; use a number above",
        ),
        (
            "trace x --rendezvous-protocol=yes",
            "run trace: --rendezvous-protocol: 'yes' is neither true nor false",
        ),
        ("model x --dp two", "run model: --dp: 'two' is not a whole number"),
    ],
)
def test_options_that_do_not_fit_are_one_line(command, says, capsys):
    assert main(["run", *command.split()]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("astranb: ")
    assert error.count("\n") == 1
    assert says in error


def test_products_of_an_algorithm_are_coarse(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = "layer = gemm_reduce_scatter(512, 256, 1024, 2).algorithm"
    (tmp_path / "layer.py").write_text(f"from astranb.collectives import gemm_reduce_scatter\n{made}\n")
    command = "run collective reduce_scatter --infra ring:gpus=2 --gpu h100 --size 256KiB --channels 1"
    events = []
    for lines in ("1", "16"):
        more = f"--algorithm layer.py:layer --compute-lines {lines} --json"
        assert main([*command.split(), *more.split()]) == 0
        events.append(json.loads(capsys.readouterr().out)["events"])
    assert events[1] < events[0] / 2


def test_ethernet_flow_control(capsys):
    run = ["run", "collective", "all_reduce", "--infra", "switch:gpus=4", "--size", "64KiB", "--explain"]
    assert main([*run, "--roce"]) == 0
    assert "Ethernet:" in capsys.readouterr().out
    assert main([*run, "--roce=pfc"]) == 0
    assert "notifications" not in capsys.readouterr().out
    assert main([*run, "--roce=dcqcn"]) == 2
    assert "add ecn" in capsys.readouterr().err


def test_a_workload_by_cache_lines_is_saved_launched_and_reads_graphs(tmp_path, capsys):
    step = TraceBuilder()
    step.collective("all_gather", 4096)
    for rank in range(4):
        write(step.build(), tmp_path / f"w.{rank}.et")
        own = TraceBuilder()
        own.send(4096, (rank + 1) % 4, tag=5)
        own.recv(4096, (rank - 1) % 4, tag=5)
        write(own.build(), tmp_path / f"own.{rank}.et")
    (tmp_path / "s.json").write_text(json.dumps({"all-gather-implementation-custom": ["own"]}))
    files = [str(tmp_path / "w"), f"--system={tmp_path / 's.json'}", "--infra=ring:gpus=4"]
    lines = ["run", "trace", *files, "--fidelity=cacheline", "--gpu=h100-sxm", "--json"]
    times = []
    for more in ([], ["--launch=stream", f"--save={tmp_path / 'saved'}"]):
        assert main([*lines, *more]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert times[1] == times[0] + anb.gpu.preset("h100-sxm").launch_ps
    assert anb.Simulation.load(tmp_path / "saved").result.time_ps == times[1]


def test_logical_dimensions_of_ns3(tmp_path, capsys):
    """Collectives go dimension by dimension over the physical topology, as ASTRA-sim's do with ns-3."""
    for rank in range(4):
        step = TraceBuilder()
        step.collective("all_reduce", 1 << 20)
        write(step.build(), tmp_path / f"step.{rank}.et")
    rings = {"all-reduce-implementation": ["ring", "ring"], "preferred-dataset-splits": 1}
    rings["collective-optimization"] = "localBWAware"  # reduce-scatter, all-reduce, all-gather
    (tmp_path / "s.json").write_text(json.dumps(rings))
    links = "".join(f"{rank} 4 80Gbps 0.0005ms 0\n" for rank in range(4))
    (tmp_path / "t.txt").write_text(f"5 1 4\n4\n{links}")
    for name, dims in (
        ("line", ["4", "1"]),
        ("square", ["2", "2"]),
        ("numbers", [2, 2]),
        ("bad", ["4", "4"]),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps({"logical-dims": dims}))
    (tmp_path / "words.json").write_text(json.dumps({"logical-dims": ["two", "2"]}))
    (tmp_path / "n.yml").write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [10]\nlatency: [500]\n")
    topology = str(tmp_path / "t.txt")
    command = ["run", "trace", str(tmp_path / "step"), f"--system={tmp_path / 's.json'}"]

    def time_ps(*more):
        assert main([*command, "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)["time_ps"]

    def logical(name):
        return f"--logical-topology-configuration={tmp_path / name}.json"

    line, square = (time_ps(f"--network={topology}", logical(name)) for name in ("line", "square"))
    # 6 steps of a quarter, or 2 of a half and 2 of a quarter: the same bytes, two steps over two links less.
    assert line - square == 2 * 2 * 500_000
    assert square == time_ps(f"--infra={topology}", "--dimensions=2x2")
    assert square == time_ps(f"--infra={topology}", f"--logical-topology={tmp_path / 'numbers.json'}")
    files = [str(tmp_path / "step"), str(tmp_path / "s.json"), topology]
    sim = anb.Simulation.of_files(*files, logical=tmp_path / "square.json")
    sim.run()
    assert sim.now_ps == square
    for more, message in (
        ([f"--network={topology}", logical("bad")], "bad.json: dimensions 4 x 4 do not fit 4 GPUs"),
        (
            [f"--network={topology}", logical("words")],
            "words.json:1, logical-dims[0]: a whole number is expected",
        ),
        ([f"--network={tmp_path / 'n.yml'}", logical("line")], "--logical-topology needs --infra"),
        (
            [f"--infra={topology}", logical("line"), "--dimensions=2x2"],
            "--logical-topology exclude each other",
        ),
    ):
        assert main([*command, *more]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_astrasim_files_on_an_infrastructure(tmp_path, capsys):
    step = TraceBuilder()
    step.collective("all_reduce", 1 << 20)
    for rank in range(32):
        write(step.build(), tmp_path / f"step.{rank}.et")
    (tmp_path / "s.json").write_text(
        json.dumps({"all-reduce-implementation": ["ring", "ring"], "preferred-dataset-splits": 4})
    )
    command = ["run", "trace", str(tmp_path / "step"), f"--system={tmp_path / 's.json'}"]
    clos = "--infra=clos:servers=4"
    times = []
    for more in (["--fidelity=analytical"], ["--fidelity=congestion"], ["--dimensions=4x8"]):
        assert main([*command, clos, "--json", *more]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert times[0] == times[1]  # rings through all NICs share the links between switches evenly
    assert times[2] != times[0]
    for more, message in (
        ([clos, "--network=n.yml"], "--infra and --network exclude each other"),
        ([clos, "--compat=astrasim2"], "ASTRA-sim 2.0 reads no infrastructures"),
        ([clos, "--dimensions=8by4"], "'8by4' is not a list of dimensions; write 8x4"),
        ([clos, "--dimensions=8x5"], "dimensions 8 x 5 do not fit 32 GPUs"),
        (["--infra=clos:servers=5"], "the trace of rank 32"),
        ([], "--network is missing; give --network FILE"),
    ):
        assert main([*command, *more]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


DGX = "run collective all_reduce --infra dgx-h100 --algorithm ring --size 256KiB"
DOWN = "--down dgx_h100.0.nvsw.0 --down gpu[0]->dgx_h100.0.nvsw.1"


def test_failed_links_before_the_run(capsys):
    times = []
    for more in ("", f" {DOWN}"):
        assert main([*shlex.split(f"{DGX} --fidelity congestion --json{more}")]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    infra = anb.infragraph.resolve("dgx-h100").without("dgx_h100.0.nvsw.0", "gpu[0]->dgx_h100.0.nvsw.1")
    sim = anb.Simulation(infra, anb.collectives.all_reduce("256KiB", "ring"), fidelity="congestion")
    assert times == sorted(times)
    assert times[1] == sim.run().now_ps > times[0]


CLOS = "run collective all_reduce --infra clos:servers=2 --algorithm ring --size 4MiB"
RING = "run collective all_reduce --infra ring:gpus=4 --algorithm ring --size 16KiB"
UPLINK = "host.0.cx7.0->leafsw.0.port.0"


@pytest.mark.parametrize(
    "run,link,at,detection",
    [
        (f"{CLOS} --fidelity congestion", UPLINK, "10us", "5us"),
        (f"{CLOS} --fidelity analytical", UPLINK, "10us", "5us"),
        (RING, "gpu[0]->gpu[1]", "5us", "2us"),
        (f"{RING} --roce", "gpu[0]->gpu[1]", "5us", "2us"),
    ],
)
def test_links_that_fail_while_the_run_goes(run, link, at, detection, capsys):
    words = shlex.split(f"{run} --json")
    assert main([*words, "--fail", f"{link}@{at}", "--reroute", detection]) == 0
    printed = json.loads(capsys.readouterr().out)
    args = parser().parse_args(words)
    collective = anb.collectives.all_reduce(args.size, "ring")
    network = None if args.roce is None else Network(roce=anb.net.Roce())
    sim = anb.Simulation(args.infra, collective, fidelity=args.fidelity, network=network)
    sim.take_down(link, both=True, at=at)
    sim.reroute(at=time_ps(at) + time_ps(detection))
    sim.run()
    assert printed["time_ps"] == sim.result.time_ps


@pytest.mark.parametrize("run", [f"{CLOS} --fidelity congestion", RING])
def test_a_failure_without_other_routes_hangs_until_it_is_repaired(run, capsys):
    link, at = (UPLINK, "10us") if run.startswith(CLOS) else ("gpu[0]->gpu[1]", "5us")
    words = [*shlex.split(run), "--fail", f"{link}@{at}"]
    assert main(words) == 3
    error = capsys.readouterr().err
    assert f"is down since {at[:-2]} µs" in error
    assert error.count("\n") == 1
    assert main([*words, "--json", "--repair", f"{link}@3ms"]) == 0
    assert 3_000_000_000 < json.loads(capsys.readouterr().out)["time_ps"] < 4_000_000_000


@pytest.mark.parametrize(
    "words,error",
    [
        (f"{RING} --fail gpu[0]->gpu[1]", "--fail: 'gpu[0]->gpu[1]' has no time; write LINK@TIME"),
        (f"{RING} --fail gpu[0]->gpu[1]@soon", "--fail: cannot read time 'soon'"),
        (f"{RING} --fail gpu[0]->gpu[2]@5us", "unknown link"),
        (f"{RING} --fail nothing@5us", "unknown object 'nothing'"),
        (f"{RING} --reroute 5us", "--reroute needs --fail"),
        (f"{RING} --fail gpu[0]@1us --reroute soon", "--reroute: cannot read time 'soon'"),
        (f"{RING} --fail gpu[0]@1us --fidelity analytical", "give --reroute 5us, or --fidelity congestion"),
        ("run model gpt3-125m --dp 4 --fail gpu[0]@1us --reroute 0ps", "names, and no other routes"),
        ("run model gpt3-125m --dp 4 --suggest --fail gpu[0]@1us", "does not apply to a search of plans"),
    ],
)
def test_failures_that_cannot_be(words, error, capsys):
    assert main(shlex.split(words)) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    "words,error",
    [
        (f"{DGX} --down nothing", "unknown object 'nothing'"),
        (f"{DGX} --down gpu[0]->gpu[1]", "unknown link 'gpu[0]->gpu[1]'"),
        (
            "run model gpt3-125m --dp 4 --down gpu[0]",
            "--down names links of an infrastructure; give --infra",
        ),
        (
            "run collective all_reduce --infra switch:gpus=4 --size 1KiB --down gpu[1]",
            "no route to rank 1 (box.0.gpu.1): down: box.0.gpu.1->box.0.sw.0",
        ),
    ],
)
def test_failed_links_that_cannot_be(words, error, capsys):
    assert main(shlex.split(words)) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1
