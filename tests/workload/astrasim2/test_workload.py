"""ASTRA-sim 2.0's files, as they are: recorded runs, what is refused, the command line."""

import json
from collections import Counter
from pathlib import Path

import pytest

from astranb.chakra import CollectiveType, Node, NodeType, Trace, TraceBuilder, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.workload.astrasim2 import load

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "reference" / "astrasim2"
HERE = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the shared folder with ASTRA-sim's recorded runs and files is not here"
)
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}
NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]  # GPUs\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"


@pytest.fixture
def files(tmp_path):
    """Four ranks that reduce 64 KiB: a case that was recorded, written with our own tools."""
    step = TraceBuilder()
    step.collective("all_reduce", 65536)
    for rank in range(4):
        write(step.build(), tmp_path / f"step.{rank}.et")
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    (tmp_path / "network.yml").write_text(NETWORK)
    return tmp_path


def _command(files, *more):
    return [
        *("run", "trace"),
        *(f"{files / 'step'}", f"--system={files / 'system.json'}"),
        *(f"--network={files / 'network.yml'}", *more),
    ]


def _peer_command(case, *more):
    named = {
        "workload": case["workload_files"].replace(".{rank}.et", ""),
        "system": case["system_file"],
        "network": case["network_file"],
        "remote-memory": case["remote_memory_file"],
        "comm-group": case.get("comm_group_file"),
    }
    files = [f"--{name}-configuration={RECORDED / file}" for name, file in named.items() if file]
    return ["run", "trace", *files, *case["flags"], "--compat=astrasim2", *more]


def _sample():
    """Every small group whole, of the large ones every twentieth run; without the custom graph's
    files, which were not handed out."""
    cases = json.loads((RECORDED / "results.json").read_text())["cases"]
    sizes = Counter(case["group"] for case in cases)
    seen: Counter[str] = Counter()
    for case in cases:
        seen[case["group"]] += 1
        system = case["system"]
        if any(key.endswith("-custom") for key in system):
            continue
        if (sizes[case["group"]] <= 36 and case["workload_files"].find("64npus") < 0) or seen[
            case["group"]
        ] % 20 == 0:
            yield case


@HERE
def test_recorded_runs_from_their_files_are_exact(capsys):
    total: Counter[str] = Counter()
    wrong = []
    for case in _sample():
        for name, fidelity in (("congestion_unaware", "analytical"), ("congestion_aware", "congestion")):
            recorded = case["results"].get(name)
            if recorded is None or recorded["status"] != "ok":
                continue
            assert main(_peer_command(case, "--json", f"--fidelity={fidelity}")) == 0, case["id"]
            ranks = json.loads(capsys.readouterr().out)["per_rank"]
            cycles = recorded["cycles"]
            expected = cycles if isinstance(cycles, list) else [cycles] * len(ranks)
            total[case["group"]] += 1
            if [rank["end_ps"] for rank in ranks] != [1000 * one for one in expected]:
                wrong.append((case["id"], name))
    with capsys.disabled():
        print(f"\nfrom files: {total.total() - len(wrong)} of {total.total()} exact ({dict(total)})")
    assert not wrong
    assert total.total() > 150


def test_the_lines_of_a_run_are_those_of_the_peer(files, capsys):
    assert main(_command(files, "--compat", "astrasim2")) == 0
    lines = capsys.readouterr().out.splitlines()
    # Recorded: A/all_reduce/64KB/Ring4/ring.
    assert lines == [
        f"sys[{r}] finished, 14176 cycles, exposed communication 14176 cycles." for r in range(4)
    ]


def test_json_has_every_rank(files, capsys):
    assert main(_command(files, "--json", "--compat=astrasim2", "--fidelity=congestion")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["time_ps"] == 14_176_000
    row = {"rank": 3, "end_ps": 14_176_000, "astrasim_exposed_comm_ps": 14_176_000, "astrasim_compute_ps": 0}
    row |= {"exposed_comm_ps": 14_176_000, "compute_ps": 0, "idle_ps": 0}
    assert document["per_rank"][3].items() >= row.items()
    assert document["breakdown"]["exposed_comm"] == 1


def test_files_run_by_cache_lines_on_their_own_network_or_on_another(files, tmp_path, capsys):
    assert main(_command(files, "--json", "--fidelity=cacheline", "--compat=astrasim2")) == 0
    own = json.loads(capsys.readouterr().out)
    assert [rank["rank"] for rank in own["per_rank"]] == [0, 1, 2, 3]
    assert own["time_ps"] == max(rank["end_ps"] for rank in own["per_rank"])
    assert own["gpu"]
    perfetto = tmp_path / "trace.json"
    more = ["--fidelity=cacheline", "--infra=switch:gpus=4", "--gpu=h100-sxm", f"--perfetto={perfetto}"]
    assert main(_command(files, *more)) == 0
    assert capsys.readouterr().out.count("sys[") == 4
    assert json.loads(perfetto.read_text())["traceEvents"]


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("system.json", '{"active-chunk-per-dimension": 1}', "did you mean 'active-chunks-per-dimension'"),
        ("system.json", '{"preferred-dataset-splits": 0}', "preferred-dataset-splits: 0 is out of range"),
        ("system.json", '{"local-mem-bw": -1}', "local-mem-bw: -1 is out of range"),
        ("system.json", '{"roofline-enabled": 2}', "roofline-enabled: 2 is out of range"),
        ("system.json", "[]", "an object is expected"),
        ("system.json", "{", ":1: not JSON"),
        ("network.yml", NETWORK.replace("50.0", "0"), "bandwidth[0]: 0 is out of range"),
        ("network.yml", NETWORK.replace("50.0", ".nan"), "bandwidth[0]: nan is out of range"),
        ("network.yml", NETWORK.replace("500.0", "-1"), "latency[0]: -1 is out of range"),
        ("network.yml", NETWORK.replace("4 ", "0 "), "npus_count[0]: 0 is out of range"),
        ("network.yml", NETWORK.replace("4 ", "5 "), "the trace of rank 4 is missing"),
        ("network.yml", NETWORK.replace("latency", "latencies"), "did you mean 'latency'"),
        ("network.yml", NETWORK.replace("Ring", "Rign"), "unknown 'Rign'"),
        ("network.yml", "a: [", ":2: not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_one_line(files, capsys, file, text, message):
    (files / file).write_text(text)
    assert main(_command(files)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert file in error or "step.4" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "more, message",
    [
        (["--fidelity=cacheline", "--infra=ring:gpus=3"], "ranks for an infrastructure of 3 GPUs"),
        (["--infra=ring:gpus=4"], "exclude each other"),
        (["--fidelity=analytic"], "did you mean 'analytical'"),
        (["--compat=astrasim1"], "did you mean 'astrasim2'"),
        (["--infra=dgx-h100"], "--infra and --network exclude each other"),
        (["--size=1MiB"], "--size; it belongs to astranb run collective"),
        (["--launch=graph"], "--launch does not apply to ASTRA-sim 2.0 files at --fidelity analytical"),
        (["--arbitration=fair"], "--arbitration; it belongs to astranb run collective"),
        (["--buffers=4"], "--buffers; it belongs to astranb run collective"),
        (["--protocol=LL"], "--protocol; it belongs to astranb run collective"),
        (["--cut-through"], "--cut-through; it belongs to astranb run collective"),
        (["--dimensions=2x2"], "--dimensions needs --infra"),
        (["--num-queues-per-dim=0"], "use 1 to 1,024"),
        (["--injection-scale=-1"], "use a number above 0"),
        (["--memory=nothing.json"], "nothing.json: No such file"),
    ],
)
def test_options_that_make_no_sense_are_refused(files, capsys, more, message):
    assert main(_command(files, *more)) == 2
    assert message in capsys.readouterr().err


def test_files_without_a_workload_are_refused(capsys):
    assert main(["run", "trace", "--system=s.json"]) == 2
    assert "the workload is missing" in capsys.readouterr().err
    assert main(["run", "collective", "all_reduce"]) == 2
    assert "--infra and --size" in capsys.readouterr().err


def test_ranks_that_wait_for_ever_are_a_deadlock(files, capsys):
    receive = Node(1, "wait", NodeType.COMM_RECV)
    for name, value in (("comm_src", 2), ("comm_size", 8)):
        receive.attributes[name] = _attribute(name, value)
    write(Trace.of([receive]), files / "step.1.et")
    assert main(_command(files)) == 3
    assert "wait" in capsys.readouterr().err


def _attribute(name, value):
    from astranb.chakra import Attribute

    return Attribute(value, {"pg_name": "string_val"}.get(name, "int64_val"))


def _send(**values):
    attributes = {name: _attribute(name, value) for name, value in values.items()}
    return Node(0, "s", NodeType.COMM_SEND, attributes=attributes)


def _all_reduce(number, group="", **more):
    values = {"comm_type": CollectiveType.ALL_REDUCE, "comm_size": 65536, "pg_name": group}
    attributes = {name: _attribute(name, value) for name, value in values.items()}
    return Node(number, f"step {number}", NodeType.COMM_COLL, attributes=attributes, **more)


def test_what_waits_for_metadata_waits_for_what_that_waits_for(files):
    nodes = [
        Node(5, "last", NodeType.COMP, ctrl_deps=(4,), duration_us=1),
        Node(3, "first", NodeType.COMP, duration_us=2),
        Node(4, "note", NodeType.METADATA, data_deps=(3,)),
    ]
    for rank in range(4):
        write(Trace.of(nodes), files / f"step.{rank}.et")
    run = Run(load(files / "step", files / "system.json", files / "network.yml"))
    run.finish()
    assert run.result().end_ns.tolist() == [3000] * 4


def test_groups_are_found_by_their_number(files):
    (files / "groups.json").write_text('{"1": [0, 1], "2": [2, 3]}')
    for rank in range(4):
        write(Trace.of([_all_reduce(0, "12"[rank // 2])]), files / f"step.{rank}.et")
    given = (files / "step", files / "system.json", files / "network.yml")
    run = Run(load(*given, groups=files / "groups.json"))
    run.finish()
    assert len(set(run.result().end_ns.tolist())) == 1
    with pytest.raises(InputError, match="unknown group '1' \\(pg_name\\); describe the groups"):
        load(*given)
    (files / "groups.json").write_text('{"1": [0, 4]}')
    with pytest.raises(InputError, match=r"groups.json:1, 1\[1\]: 4 is out of range"):
        load(*given, groups=files / "groups.json")


def test_a_custom_collective_is_its_graph(files):
    for rank in range(4):
        nodes = [Node(number, "turn", number + 5) for number in (0, 1)]
        for node, name, peer in zip(nodes, ("comm_dst", "comm_src"), (rank + 1, rank - 1), strict=True):
            node.attributes[name] = _attribute(name, peer % 4)
            node.attributes["comm_size"] = _attribute("comm_size", 50_000)
        write(Trace.of(nodes), files / f"around.{rank}.et")
    (files / "system.json").write_text(
        json.dumps(SYSTEM | {"all-reduce-implementation-custom": ["around"], "preferred-dataset-splits": 1})
    )
    run = Run(load(files / "step", files / "system.json", files / "network.yml"))
    run.finish()
    result = run.result()
    assert result.messages == 4
    assert result.message_bytes == 200_000
    (files / "around.0.et").unlink()
    with pytest.raises(InputError, match=r"no traces around.0.et of a custom collective; .*--root DIR"):
        load(files / "step", files / "system.json", files / "network.yml")


def _around(prefix, members, size):
    """One turn of a message around the places of a group."""
    for place in range(members):
        nodes = [Node(number, "turn", number + 5) for number in (0, 1)]
        for node, name, peer in zip(nodes, ("comm_dst", "comm_src"), (place + 1, place - 1), strict=True):
            node.attributes[name] = _attribute(name, peer % members)
            node.attributes["comm_size"] = _attribute("comm_size", size)
        write(Trace.of(nodes), prefix.with_name(f"{prefix.name}.{place}.et"))


def test_one_node_may_have_a_graph_of_its_own(files):
    for rank in range(4):
        nodes = [_all_reduce(4), _all_reduce(7, data_deps=(4,))]
        write(Trace.of(nodes), files / f"step.{rank}.et")
    (files / "graphs").mkdir()
    _around(files / "graphs" / "around", 4, 50_000)
    (files / "nodes.yml").write_text("7: graphs/around\n")
    (files / "system.json").write_text(json.dumps(SYSTEM | {"per-node-custom-implementation": "nodes.yml"}))
    run = Run(load(files / "step", files / "system.json", files / "network.yml"))
    run.finish()
    # The ring of node 4: 4 chunks, 6 steps, 4 ranks; the graph of node 7: one message a rank.
    assert run.result().messages == 4 * 6 * 4 + 4
    assert run.result().message_bytes == 6 * 65536 + 4 * 50_000
    (files / "nodes.yml").write_text("seven: graphs/around\n")
    with pytest.raises(InputError, match=r"nodes.yml:1, seven: 'seven' is not a node's id"):
        load(files / "step", files / "system.json", files / "network.yml")
    (files / "nodes.yml").unlink()
    with pytest.raises(InputError, match=r"per-node-custom-implementation: file 'nodes.yml' not found"):
        load(files / "step", files / "system.json", files / "network.yml")


def test_the_places_of_a_graph_are_those_of_its_group(files):
    (files / "groups.json").write_text('{"1": [1, 3]}')
    for rank in range(4):
        write(Trace.of([_all_reduce(0, "1")] if rank % 2 else []), files / f"step.{rank}.et")
    _around(files / "around", 2, 50_000)
    system = SYSTEM | {"all-reduce-implementation-custom": ["around"]}
    (files / "system.json").write_text(json.dumps(system))
    run = Run(
        load(files / "step", files / "system.json", files / "network.yml", groups=files / "groups.json")
    )
    run.finish()
    result = run.result()
    # From 1 to 3 and back: two links of 50 GB/s and 500 ns, bytes once.
    assert result.end_ns.tolist()[1::2] == [2 * 500 + 1000] * 2
    assert result.messages == 2


_GATHER = {"comm_type": CollectiveType.GATHER, "comm_size": 8}


@pytest.mark.parametrize(
    "node, message",
    [
        (
            Node(0, "g", NodeType.COMM_COLL, attributes={k: _attribute("", v) for k, v in _GATHER.items()}),
            "GATHER is not simulated by ASTRA-sim 2.0",
        ),
        (_all_reduce(0, "3"), "unknown group '3'"),
        (
            Node(0, "s", NodeType.COMM_SEND, attributes={"comm_size": _attribute("", 8)}),
            "comm_dst is missing",
        ),
        (_send(comm_size=8, comm_dst=9), "comm_dst is 9; take another rank than 0, from 0 to 3"),
    ],
)
def test_a_node_that_cannot_be_done_is_named(files, node, message):
    write(Trace.of([node]), files / "step.0.et")
    compat = node.name == "g"  # that one is refused only where ASTRA-sim 2.0 would do nothing with it
    with pytest.raises(InputError, match=message) as error:
        load(files / "step", files / "system.json", files / "network.yml", compat=compat)
    assert "step.0.et: node 0" in str(error.value)


def _step(before_us, kind, size, **values):
    step = TraceBuilder()
    first = step.compute("before", duration_us=before_us)
    step.compute("after", duration_us=7, after=[step.collective(kind, size, after=[first], **values)])
    return step.build()


def test_a_barrier_ends_when_the_last_rank_has_come(files):
    def ends(kind, size):
        for rank in range(4):
            write(_step(10 * rank, kind, size), files / f"step.{rank}.et")
        run = Run(load(files / "step", files / "system.json", files / "network.yml"))
        run.finish()
        return run.result().end_ns.tolist()

    found = ends("barrier", 0)
    assert found == ends("all_reduce", 4)
    assert min(found) > 30_000 + 7_000
    assert ends("reduce_scatter_block", 1 << 20) == ends("reduce_scatter", 1 << 20)
    for kind in ("barrier", "reduce_scatter_block"):
        write(_step(0, kind, 8), files / "step.0.et")
        with pytest.raises(
            InputError, match=f"{kind.upper()} is not simulated by ASTRA-sim 2.0; take one of ALL"
        ):
            load(files / "step", files / "system.json", files / "network.yml", compat=True)
