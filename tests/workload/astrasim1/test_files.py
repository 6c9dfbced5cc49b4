"""ASTRA-sim 1.0's files, as they are: what is read, what is refused, the command line."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.layers import LayerEngine, LayerRun
from astranb.engine.layers.paths import FIELDS
from astranb.workload.astrasim1 import (
    LayerAlgorithm,
    is_layer_table,
    load,
    read_layer_table,
    read_network,
    read_system,
)

TABLE = "MICRO\n1\nallreduce -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1048576 1\n"
SYSTEM = (
    "scheduling-policy: LIFO\nendpoint-delay: 10\nactive-chunks-per-dimension: 1\n"
    "preferred-dataset-splits: 4\nboost-mode: 1\nall-reduce-implementation: ring\n"
    "all-gather-implementation: ring\nreduce-scatter-implementation: ring\n"
    "all-to-all-implementation: direct\ncollective-optimization: localBWAware\n"
)
NETWORK = {
    "dimensions-count": 1,
    "topologies-per-dim": ["Ring"],
    "units-count": [8],
    "links-count": [2],
    "link-latency": [500],
    "link-bandwidth": [50],
}
LAYER = "a -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 1024 1"


@pytest.fixture
def files(tmp_path):
    """The tutorial's first exercise: 1 MiB reduced on a ring of eight."""
    (tmp_path / "workload.txt").write_text(TABLE)
    (tmp_path / "system.txt").write_text(SYSTEM)
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    return tmp_path


def _command(files, *more):
    return [
        *("run", "trace"),
        *(f"{files / 'workload.txt'}", f"--system={files / 'system.txt'}"),
        *(f"--network={files / 'network.json'}", *more),
    ]


def _refused(text, reader, tmp_path):
    file = tmp_path / "file.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        reader(file)
    line = str(caught.value)
    assert "\n" not in line
    assert str(file) in line
    return line


# Files.


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_words_are_separated_by_any_blanks(end, tmp_path):
    text = f"DATA\t\t \n2\n{LAYER}\nb\t\t-1   5 NONE 0\t5 NONE 0 5\tALLREDUCE 2048 1 \n\n".replace("\n", end)
    (tmp_path / "w.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    workload = read_layer_table(tmp_path / "w.txt")
    assert workload.loop == "DATA"
    assert [(x.name, x.weight_gradient.size, x.update_ns) for x in workload.layers] == [
        ("a", 1024, 1),
        ("b", 2048, 1),
    ]


def test_a_policy_after_a_layer_is_accepted(tmp_path):
    (tmp_path / "w.txt").write_text(f"DATA\n2\n{LAYER} DATA\n{LAYER} DATA\n")
    assert [layer.policy for layer in read_layer_table(tmp_path / "w.txt").layers] == [None, None]


def test_first_lines_of_the_hybrids(tmp_path):
    file = tmp_path / "w.txt"
    layers = f"\n3\n{LAYER}\n{LAYER}\n{LAYER}\n"
    file.write_text(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 2 0 1 "
        "checkpoint_initiates: 1 2" + layers
    )
    again = read_layer_table(file)
    assert (again.group, again.checkpoints, again.initiates) == (4, (0, 1), (2,))
    file.write_text("HYBRID_DLRM 1" + layers)
    assert read_layer_table(file).last_bottom == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "line 1: the file is empty"),
        ("DATTA\n1\n" + LAYER, "line 1: unknown training loop 'DATTA'; did you mean 'DATA'"),
        ("DATA\n", "line 1: the number of layers is missing: the file ends"),
        ("DATA\nx\n" + LAYER, "line 2: the number of layers: a whole number is expected, not 'x'"),
        ("DATA\n0\n", "line 2: the number of layers: 0 is out of range"),
        ("DATA\n2\n" + LAYER, "line 3: 1 of 2 layers"),
        ("DATA\n1\n" + LAYER + "\n" + LAYER, "line 4: more than the 1 layers"),
        ("DATA\n1\n" + LAYER + " 7", "line 3: '7' after the layer; a layer has 12 words"),
        ("DATA\n1\na -1 5 NONE 0 5 NONE 0 5 ALLREDUCE", "line 3: weight gradient size is missing"),
        ("DATA\n1\na -1 5 NONE 0 5 NONE 0 5 ALREDUCE 4 1", "line 3: .*'ALREDUCE'; did you mean 'ALLREDUCE'"),
        (
            "DATA\n1\na -1 5 NONE 0 5 NONE 0 5 ALLREDUCEALLTOALL 4 1",
            "line 3: no training loop issues ALLREDUCEALLTOALL",
        ),
        (
            "DATA\n1\na -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 0 1",
            "line 3: weight gradient: size of ALLREDUCE is zero",
        ),
        ("DATA\n1\na -1 -5 NONE 0 5 NONE 0 5 NONE 0 1", "line 3: forward compute time: -5 is out of range"),
        ("DATA\n1\na -1 5.5 NONE 0 5 NONE 0 5 NONE 0 1", "line 3: forward compute time: a whole number"),
        ("DATA\n1\na -1 5 NONE 0 5 NONE 0 5 NONE 0 9" + "9" * 30, "line 3: update time: a whole number"),
        ("DATA\n1\na -1 5 NONE 0 5 NONE 0 5 NONE 0 1" + "0" * 18, "line 3: update time: .* out of range"),
        ("HYBRID_CUSTOMIZED\n1\n" + LAYER, "line 3: the layer's policy is missing"),
        ("HYBRID_CUSTOMIZED\n1\n" + LAYER + " MODLE", "line 3: unknown policy 'MODLE'; did you mean 'MODEL'"),
        ("HYBRID_TRANSFORMER\n1\n" + LAYER, "line 2: unknown '1'; write model_parallel_NPU_group"),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 0\n1\n" + LAYER, "line 1: .* 0 is out of range"),
        ("HYBRID_DLRM\n1\n" + LAYER, "line 3: the number of layers: a whole number is expected, not 'a'"),
        ("HYBRID_DLRM 1\n1\n" + LAYER, "line 1: the last bottom layer is 1 of 1"),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 1 3 "
            "checkpoint_initiates: 0\n1\n" + LAYER,
            "line 1: checkpoints names layer 3 of 1",
        ),
        (b"DATA\n1\n\xff\xfe", "not a text file"),
    ],
)
def test_layer_tables_that_are_refused(text, message, tmp_path):
    line = _refused(text, read_layer_table, tmp_path)
    assert re.search(message, line), line


@given(st.text(max_size=200) | st.lists(st.sampled_from([*LAYER.split(), "DATA", "\n", "1"])).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("text") / "w.txt"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for reader in (read_layer_table, read_system):
        refused = ""
        try:
            reader(file)
        except InputError as error:
            refused = str(error)
        assert not refused or str(file) in refused


@pytest.mark.parametrize(
    "text, message",
    [
        (
            SYSTEM.replace("endpoint-delay", "endpoint-dely"),
            "line 2: unknown key 'endpoint-dely'; did you mean",
        ),
        (SYSTEM.replace("endpoint-delay:", "endpoint-delay"), "line 2: endpoint-delay lacks its colon"),
        (SYSTEM.replace("LIFO", "LILO"), "line 1: scheduling-policy is 'LILO'; did you mean 'LIFO'"),
        (SYSTEM.replace("splits: 4", "splits: 0"), "line 4: preferred-dataset-splits is '0'; use a whole"),
        (SYSTEM.replace("splits: 4", "splits: -1"), "line 4: preferred-dataset-splits is '-1'; use a whole"),
        (SYSTEM.replace("splits: 4\n", ""), "line 4: .*|preferred-dataset-splits is missing"),
        (SYSTEM.replace("delay: 10", "delay: ten"), "line 2: endpoint-delay is 'ten'"),
        (
            SYSTEM.replace("implementation: ring", "implementation: rign", 1),
            "line 6: all-reduce.* unknown algorithm 'rign'",
        ),
        (SYSTEM.replace("direct", "direct0"), "line 9: .*unknown algorithm 'direct0'"),
        (SYSTEM.replace("localBWAware", "localBW"), "line 10: collective-optimization is 'localBW'; did you"),
        (SYSTEM + "endpoint-delay: 3\n", "line 11: duplicate key 'endpoint-delay'"),
        (SYSTEM + "gap-denominator:", "line 11: the value of gap-denominator is missing"),
        (SYSTEM + "intra-dimension-scheduling: SFC\n", "line 11: .*; did you mean 'SCF'"),
        (SYSTEM + "inter-dimension-scheduling: temis\n", "line 11: .*; did you mean 'themis'"),
        (SYSTEM + "model-shared-bus: 1\n", "model-shared-bus is not simulated"),
        ("", "scheduling-policy is missing"),
    ],
)
def test_systems_that_are_refused(text, message, tmp_path):
    line = _refused(text, read_system, tmp_path)
    assert re.search(message, line), line


def test_a_system_of_every_kind_of_algorithm(tmp_path):
    file = tmp_path / "s.txt"
    file.write_text(
        SYSTEM.replace("all-reduce-implementation: ring", "all-reduce-implementation: ring_direct3")
    )
    system = read_system(file, queues=2, injection_scale=1.5)
    assert system.algorithms["all-reduce"] == (LayerAlgorithm("ring"), LayerAlgorithm("direct", 3))
    assert (system.endpoint_ns, system.queues, system.boost) == (15, 2, True)
    assert LayerAlgorithm.parse("oneHalvingDoubling") == LayerAlgorithm("halvingDoubling", whole=True)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"link-bandwith": [50]}, "unknown key 'link-bandwith'; did you mean 'link-bandwidth'"),
        ({"units-count": [8, 8]}, "units-count: 2 values for 1 dimensions"),
        ({"units-count": [0]}, "units-count"),
        ({"units-count": 8}, "units-count: a list is expected"),
        ({"link-latency": [-1]}, "out of range"),
        ({"link-bandwidth": [0]}, "out of range"),
        ({"link-bandwidth": ["fast"]}, "a number is expected"),
        ({"link-bandwidth": [float("nan")]}, "out of range"),
        ({"topologies-per-dim": ["Rign"]}, "unknown 'Rign'"),
        ({"topology-name": "Flat"}, "unknown 'Flat'"),
        (
            {"topologies-per-dim": ["FullyConnected"]},
            "has 2 links per NPU, so its bandwidth is zero; give 7 or more",
        ),
        ({"hbm-scale": []}, "hbm-scale: 0 values for 1 dimensions"),
        ({"units-count": [1 << 21]}, "units-count"),
    ],
)
def test_networks_that_are_refused(change, message, tmp_path):
    line = _refused(json.dumps({**NETWORK, **change}), read_network, tmp_path)
    assert re.search(message, line), line


def test_a_ring_of_one_link_is_a_ring(tmp_path):
    """One of ASTRA-sim 1.0's own samples has one, and the program refuses it."""
    file = tmp_path / "n.json"
    file.write_text(json.dumps({**NETWORK, "links-count": [1]}))
    network = read_network(file)
    assert (network.rates_Bpns, network.cost_dollars) == ((50.0,), 800)
    with pytest.raises(InputError, match=r"dimension 0 .Ring. has 1 links per NPU.*give 2 or more"):
        read_network(file, compat=True)


@pytest.mark.parametrize("missing", ["units-count", "link-latency", "topologies-per-dim"])
def test_networks_with_missing_keys(missing, tmp_path):
    line = _refused(json.dumps({k: v for k, v in NETWORK.items() if k != missing}), read_network, tmp_path)
    assert f"'{missing}' is missing" in line
    assert "not JSON" in _refused("{", read_network, tmp_path)
    assert "an object is expected" in _refused("[1]", read_network, tmp_path)


def test_runs_that_are_too_large_are_refused(files):
    """Sizes, times and bandwidths beyond any machine are refused at once."""
    names = [files / name for name in ("workload.txt", "system.txt", "network.json")]
    for file, text, message in (
        ("workload.txt", TABLE.replace("1048576", str(1 << 51)), "out of range"),
        ("network.json", json.dumps({**NETWORK, "link-bandwidth": [1e-6]}), "takes over an hour"),
        ("system.txt", SYSTEM.replace("splits: 4", "splits: 70000"), "preferred-dataset-splits"),
    ):
        kept = (files / file).read_text()
        (files / file).write_text(text)
        with pytest.raises(InputError, match=message):
            LayerRun(load(*names, comm_scale=1 << 20))
        (files / file).write_text(kept)
    with pytest.raises(InputError, match=r"chunks|operations"):
        LayerRun(load(*names, passes=1 << 30))
    with pytest.raises(InputError, match="--comm-scale"):
        load(*names, comm_scale=0)


def test_files_are_recognised_by_their_content(files):
    assert is_layer_table(files / "workload.txt")
    assert not is_layer_table(files)
    assert not is_layer_table(files / "nothing")
    (files / "binary").write_bytes(b"\x00\x01")
    assert not is_layer_table(files / "binary")


# The command line.


def test_the_command_gives_a_document(files, capsys):
    assert main(_command(files, "--compat", "astrasim1", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["time_ps"] == document["exposed_comm_ps"] == 45_681_000
    assert document["compute_ps"] == 0
    assert document["message_bytes"] == 1_835_008
    assert document["cost_dollars"] == 1600
    assert document["layers"][0]["layer"] == "allreduce"
    assert document["layers"][0]["wg_total_comm_ps"] == 45_681_000
    assert len(document["state_hash"]) == 32
    assert main(_command(files, "--compat=astrasim1", "--json", "--comm-scale=1024")) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == 17_534_229_000
    assert main(_command(files, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == 46_956_596


def test_the_command_prints_the_lines_of_astrasim(files, capsys):
    peer = [
        f"--{name}-configuration={files / file}"
        for name, file in (
            ("workload", "workload.txt"),
            ("system", "system.txt"),
            ("network", "network.json"),
        )
    ]
    assert (
        main(["run", "trace", *peer, "--compat", "astrasim1", "--num-passes=1", "--run-name=Exercise 1"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pass: 0 finished at time: 0"
    assert "id: allreduce ,Total cycles spent idle waiting for weight grad finish: 45681" in lines
    assert lines[-3] == "all passes finished at time: 45681, id of first layer: allreduce"
    assert lines[-1] == "Exercise 1,45.681000,0.000000,45.681000,1.750000"


@pytest.mark.parametrize("option", ["--path", "--csv"])
def test_the_command_writes_the_tables_of_astrasim(option, files, capsys):
    folder = files / "out" / "here"
    assert main(_command(files, "--compat", "astrasim1", option, str(folder), "--run-name=Exercise 1")) == 0
    capsys.readouterr()
    with (folder / "EndToEnd.csv").open(newline="") as lines:
        heading, row = csv.reader(lines)
    assert heading[:3] == ["", "", "fwd compute"]
    assert heading[11:] == ["workload finished at", "total comp", "total exposed comm"]
    assert row[:2] == ["allreduce", "Exercise 1"]
    assert [cell for cell in row[2:] if cell != "0.000000"] == ["45.681000"] * 4
    with (folder / "backend_end_to_end.csv").open(newline="") as lines:
        backend = next(csv.DictReader(lines))
    assert backend["Cost"] == "1600.000000"
    assert (backend["PayloadSize_Dim0"], backend["PayloadSize_Dim1"]) == ("1.750000", "-1")
    with (folder / "backend_dim_info.csv").open(newline="") as lines:
        assert next(csv.DictReader(lines))["AverageChunkLatency"] == "11.420000"
    assert (folder / "tutorial_result.csv").read_text().splitlines()[1].endswith(",1.750000")


def test_the_command_writes_a_trace_and_tables_and_explains(files, capsys):
    compat = ("--compat", "astrasim1")
    assert main(_command(files, *compat)) == 0
    lines = capsys.readouterr().out
    more = ("--perfetto", str(files / "t.json"), "--frames", str(files / "frames"))
    assert main(_command(files, *compat, *more)) == 0
    assert capsys.readouterr().out == lines
    spans = [e for e in json.loads((files / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert max(span["args"]["end_ps"] for span in spans) == 45681000
    with (files / "frames" / "layers.csv").open(newline="") as rows:
        assert next(csv.DictReader(rows))["wg_exposed_comm_ps"] == "45681000"
    assert {file.stem for file in (files / "frames").glob("*.csv")} == {
        "ranks", "operations", "collectives", "phases", "dimensions", "layers", "critical_path",
    }  # fmt: skip
    assert main(_command(files, *compat, "--explain")) == 0
    printed = capsys.readouterr().out
    assert "allreduce WG comm (all_reduce, 1 MiB); the last to end" in printed
    hashes = []
    for extra in ((), ("--explain",)):
        assert main(_command(files, *compat, "--json", *extra)) == 0
        hashes.append(json.loads(capsys.readouterr().out)["state_hash"])
    assert hashes[0] == hashes[1]


def test_the_network_with_congestion_has_a_file_of_its_own(files, capsys):
    """As in the tutorial of 2023: YAML, one dimension, a link in each direction."""
    network = files / "network.yml"
    network.write_text("# one\ntopology: Switch\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n")
    system = files / "system.txt"
    system.write_text(SYSTEM.replace(": ring", ": direct"))
    times = []
    for fidelity in ("analytical", "congestion"):
        command = _command(
            files, f"--network={network}", "--json", "--compat=astrasim1", "--fidelity", fidelity
        )
        assert main(command) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["fidelity"] == fidelity
        times.append(document["time_ps"])
    # Of a chunk of 256 KiB, 7 messages of 32 KiB one after another, twice; then the link from the switch.
    message = int(32768 / (50 * (1 << 30) / 1e9))
    assert times[1] == (4 * (2 * (6 * message + 2 * (500 + message)) + 30) + 1) * 1000
    assert times[0] < times[1]
    for text, refusal in (
        ("topology: Switch\nnpu_count: [8]\n", "unknown key 'npu_count'; did you mean 'npus_count'"),
        ("topology: Mesh2D\nnpus_count: [8]\nbandwidth: [1]\nlatency: [1]\n", "unknown 'Mesh2D'"),
        ("topology: Ring\n", "'npus_count' is missing"),
        ("topology: [", "not YAML"),
        ("- 1", "an object is expected"),
    ):
        network.write_text(text)
        assert main(_command(files, f"--network={network}")) == 2
        assert refusal in capsys.readouterr().err


def test_runs_share_tables_and_change_the_network(files, capsys):
    """As the tutorial's scripts do it: one file for a sweep, a row for each run."""
    folder = files / "out"
    for row, npus in enumerate(("8", "16", "4")):
        rows = ["--total-stat-rows=3", f"--stat-row={row}", f"--run-name=of {npus}"]
        command = _command(files, "--path", str(folder), "--units-count", npus, *rows, "--json")
        assert main(command) == 0
        assert json.loads(capsys.readouterr().out)["npus"] == int(npus)
    with (folder / "tutorial_result.csv").open(newline="") as lines:
        assert [row["Name"] for row in csv.DictReader(lines)] == ["of 8", "of 16", "of 4"]
    with (folder / "EndToEnd.csv").open(newline="") as lines:
        assert [row[:2] for row in csv.reader(lines)][1:] == [
            ["allreduce", "of 8"],
            ["", "of 16"],
            ["", "of 4"],
        ]
    assert main(_command(files, "--units-count", "8", "8")) == 2
    assert "units-count: 2 values for 1 dimensions" in capsys.readouterr().err


def test_a_custom_training_loop_from_a_file(files, capsys):
    (files / "mine.py").write_text(
        "from astranb.workload.astrasim1 import training_loop\n\n\n"
        "@training_loop('TWICE', dimensions='DATA')\n"
        "def twice(layers):\n"
        "    for layer in [*layers, *layers]:\n"
        "        yield layer.weight_gradient.compute(), layer.weight_gradient.issue()\n"
        "        yield layer.weight_gradient.wait()\n"
    )
    (files / "workload.txt").write_text(TABLE.replace("MICRO", "TWICE"))
    assert main(_command(files, "--json", "--training-loops", str(files / "mine.py"))) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["training_loop"] == "TWICE"
    assert document["message_bytes"] == 2 * 1_835_008
    assert document["compute_ps"] == 2000
    (files / "mine.py").write_text("1 / 0")
    assert main(_command(files, "--training-loops", str(files / "mine.py"))) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, message",
    [
        (["--compat", "astrasim2"], "--compat: 'astrasim2' does not apply to ASTRA-sim 1.0 files"),
        (["--fidelity", "cachelin"], "unknown fidelity 'cachelin'; did you mean 'cacheline'"),
        (["--memory", "m.json"], "--memory does not apply to ASTRA-sim 1.0 files"),
        (["--comm-group", "g.json"], "--comm-group does not apply to"),
        (["--rendezvous-protocol"], "--rendezvous-protocol"),
        (["--stat-row", "1"], "--stat-row: row 1 of 1"),
        (["--link-bandwidth", "0"], "out of range"),
        (["--num-passes", "0"], "--num-passes: 0 is out of range; use 1 or more"),
        (["--num-queues-per-dim", "0"], "--num-queues-per-dim"),
        (["--compute-scale", "-1"], "--compute-scale"),
        (["--infra", "dgx-h100"], "--infra and --network exclude each other"),
        (["--training-loops", "nothing.py"], "nothing.py: file not found"),
    ],
)
def test_options_that_do_not_go_together(more, message, files, capsys):
    assert main(_command(files, *more)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_missing_file_is_named(files, capsys):
    (files / "workload.txt").unlink()
    assert main(_command(files)) == 2
    assert f"{files / 'workload.txt'}: No such file" in capsys.readouterr().err


def test_options_of_1_0_are_refused_for_2_0(tmp_path, capsys):
    write(TraceBuilder().build(), tmp_path / "step.0.et")
    command = ["run", "trace", str(tmp_path / "step"), "--system=s", "--network=n", "--num-passes=2"]
    assert main(command) == 2
    assert "--num-passes does not apply to ASTRA-sim 2.0 files" in capsys.readouterr().err


def test_the_document_of_the_example_is_right():
    """The example of docs/astrasim1.md runs, and prints what the page shows."""
    text = (Path(__file__).parents[3] / "docs" / "astrasim1.md").read_text()
    code = text.split("```python\n")[2].split("```")[0]
    scope: dict[str, object] = {}
    exec(code, scope)
    shown = [line.split("# ")[1] for line in code.splitlines() if line.startswith("print(")]
    assert shown
    for line in shown:
        assert line in str(scope["printed"])


def test_the_document_steps_through_it(capsys):
    """The second example of docs/astrasim1.md runs, and says what it should."""
    text = (Path(__file__).parents[3] / "docs" / "astrasim1.md").read_text()
    code = text.split("## Step through it")[1].split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/astrasim1.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "DATA, conv0 FWD, conv1 FWD, conv2 FWD, conv2 WG, conv2 IG\n" in printed
    assert "DATA_REORDER, conv0 FWD, conv1 FWD, conv2 FWD, conv2 IG, conv2 WG\n" in printed
    assert "stopped at a breakpoint (collective end of layer[conv2])" in printed
    assert "Layers whose collectives are waited for longest:" in printed
    for words in (*FIELDS.values(), LayerEngine.traits.units, ["layers"]):
        assert all(f"`{word}`" in text or f'"{word}"' in text for word in words if word not in SHARED)


SHARED = ("event", "cycle", "operation", "phase")  # documented in docs/stepping.md
