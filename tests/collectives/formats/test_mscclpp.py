"""MSCCL++ execution plans: read, run, written, and refused where they are broken."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.collectives import (
    Collective,
    Plan,
    algorithms,
    read_algorithm,
    read_mscclpp,
    verify,
    write_mscclpp,
)
from astranb.collectives.language.program import SWITCH_READS, SWITCH_WRITES
from astranb.collectives.lowering.lower import Extents
from astranb.core.errors import InputError
from astranb.net.shape import Shape
from tests.collectives.support import run

BUFFERS = "ios"


def local(buffer, index, size=1):
    return {"type": buffer, "index": index, "size": size}


def remote(rank, peer, buffer, index, size=1):
    """A chunk of a peer; `gpu` lists input, output and scratch of every peer in their order."""
    place = peer if peer < rank else peer - 1
    return {"buffer_id": 3 * place + BUFFERS.index(buffer), "index": index, "size": size}


def op(name, sources=(), targets=(), channel="memory", **more):
    found = {"name": name, **more}
    if sources or targets:
        found |= {"src_buff": list(sources), "dst_buff": list(targets), "channel_type": channel}
    return found


def signal(channels, name="signal", kind="memory"):
    return {"name": name, "channel_ids": list(channels), "channel_type": kind}


def wait(channels, kind="memory"):
    return signal(channels, "wait", kind)


def gpu(rank, ranks, blocks, chunks, scratch=0, kind="memory", semaphores=()):
    peers = [peer for peer in range(ranks) if peer != rank]
    return {
        "id": rank,
        "input_chunks": chunks[0],
        "output_chunks": chunks[1],
        "scratch_chunks": scratch,
        "threadblocks": [
            {
                "id": number,
                "ops": ops,
                "channels": [{"channel_type": kind, "channel_ids": list(range(len(peers)))}],
                "remote_buffer_refs": [
                    {"access_channel_type": kind, "remote_buffer_ids": list(range(3 * len(peers)))}
                ],
            }
            for number, ops in enumerate(blocks)
        ],
        "channels": [{"channel_type": kind, "connected_to": peers}],
        "remote_buffers": [
            {"rank": peer, "type": buffer, "access_channel_types": [kind]}
            for peer in peers
            for buffer in BUFFERS
        ],
        "semaphores": [{"init_value": value} for value in semaphores],
    }


def plan(gpus, collective="allreduce", *, protocol="Simple", inplace=False, **more):
    head = {"name": "test", "collective": collective, "protocol": protocol, "inplace": inplace}
    return {**head, "gpus": gpus, **more}


def all_pairs(n, *, inplace=False):
    """Everyone reduces one chunk and hands it out, by signals."""
    gpus = []
    for me in range(n):
        others = [(me + k) % n for k in range(1, n)]
        every = [peer if peer < me else peer - 1 for peer in others]  # the channels to them
        out = "i" if inplace else "o"
        ops = [
            *(op("put", [local("i", peer)], [remote(me, peer, "s", me)]) for peer in others),
            signal(every),
            wait(every),
            op(
                "res",
                [local("i", me), *(local("s", peer) for peer in others)],
                [local(out, me), *(remote(me, peer, out, me) for peer in others)],
                reduce_op="sum",
            ),
            signal(every),
            wait(every),
        ]
        gpus.append(gpu(me, n, [ops], (n, n), scratch=n))
    return plan(gpus, inplace=inplace)


def all_pairs_packets(n):
    """The same with packets and no signals."""
    gpus = []
    for me in range(n):
        others = [peer for peer in range(n) if peer != me]
        ops = [
            *(op("ppkt", [local("i", peer)], [remote(me, peer, "s", me)]) for peer in others),
            op(
                "respkt",
                [local("i", me), *(local("s", peer) for peer in others)],
                [local("o", me), *(remote(me, peer, "s", n + me) for peer in others)],
            ),
            *(op("upkt", [local("s", n + peer)], [local("o", peer)]) for peer in others),
        ]
        gpus.append(gpu(me, n, [ops], (n, n), scratch=2 * n))
    return plan(gpus, protocol="LL")


def all_gather(n, *, inplace=True, chunks=1):
    """Everyone puts its chunks, which stand in the output already, to everyone."""
    gpus = []
    for me in range(n):
        others = [peer for peer in range(n) if peer != me]
        mine = local("o", me * chunks, chunks)
        ops = [] if inplace else [op("copy", [local("i", 0, chunks)], [mine])]
        ops += [op("put", [mine], [remote(me, peer, "o", me * chunks, chunks)]) for peer in others]
        ops += [signal(range(n - 1)), wait(range(n - 1))]
        gpus.append(gpu(me, n, [ops], (chunks, n * chunks)))
    return plan(gpus, "allgather", inplace=inplace)


@pytest.fixture
def written(tmp_path):
    def write(document):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(document))
        return file

    return write


def operations(algorithm, collective, ranks, rank=0):
    program = Collective.of(collective, "4KiB", algorithm).program(ranks)
    return [block for block in program.blocks if block.rank == rank]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("inplace", [False, True])
def test_all_pairs_run_to_the_right_result(written, n, inplace):
    found = read_algorithm(written(all_pairs(n, inplace=inplace)))
    assert isinstance(found, Plan)
    assert (found.collective, found.ranks, found.inputs, found.outputs) == ("all_reduce", n, n, n)
    assert run(found, gpus=n) == run("allpairs", gpus=n, channels=1)


@pytest.mark.parametrize("inplace, chunks", [(True, 1), (False, 1), (True, 3), (False, 3)])
def test_all_gather_with_several_chunks(written, inplace, chunks):
    found = read_mscclpp(written(all_gather(4, inplace=inplace, chunks=chunks)))
    run(found, "all_gather", size="100KB")
    assert any("in place" in note for note in found.notes) == inplace


def test_a_reduce_scatter_in_place_that_overwrites_what_is_not_its_output(written):
    gpus = []
    for me in range(2):
        you = 1 - me
        ops = [
            op("copy", [local("i", you)], [local("s", 1)]),
            op("copy", [local("s", 1)], [local("i", you)]),
            op("put", [local("i", you)], [remote(me, you, "s", 0)]),
            signal([0]),
            wait([0]),
            op("re", [local("i", me), local("s", 0)], [local("i", me)]),
        ]
        gpus.append(gpu(me, 2, [ops], (2, 1), scratch=2))
    found = read_mscclpp(written(plan(gpus, "reducescatter", inplace=True)))
    run(found, "reduce_scatter", gpus=2)
    (block,) = operations(found, "reduce_scatter", 2, rank=1)
    moves = [(str(o.sources[0]), str(o.targets[0])) for o in block.operations if o.kind == "move"]
    assert moves == [
        ("rank 1 input[0]", "rank 1 scratch[1]"),
        ("rank 1 scratch[1]", "rank 1 scratch[2]"),
        ("rank 1 scratch[2]", "rank 0 scratch[0]"),
        ("rank 1 input[1]", "rank 1 output[0]"),
    ]


def test_channels_of_a_plan_are_further_copies_of_it(written):
    found = read_mscclpp(written(all_gather(4, chunks=2)))
    program = Collective.of("all_gather", "64KiB", found, channels=3).program(4)
    assert program.channels == 6
    assert {block.channel for block in program.blocks} <= set(range(6))
    run(found, "all_gather", channels=3)


def test_other_numbers_of_chunks_than_ranks(written):
    document = all_pairs(4)
    for one in document["gpus"]:
        one["input_chunks"] = one["output_chunks"] = 8
        one["threadblocks"][0]["ops"] = []
        for half in (0, 4):
            ops = copy.deepcopy(all_pairs(4)["gpus"][one["id"]]["threadblocks"][0]["ops"])
            for each in ops:
                for operand in (*each.get("src_buff", ()), *each.get("dst_buff", ())):
                    operand["index"] += half
            one["threadblocks"][0]["ops"] += ops
        one["scratch_chunks"] = 8
    run(read_mscclpp(written(document)))
    for one in document["gpus"]:
        one["input_chunks"] = one["output_chunks"] = 9  # no multiple of the ranks
        one["threadblocks"][0]["ops"].insert(
            0,
            op("put", [local("i", 8)], [local("s", 0)])
            if False
            else op("copy", [local("i", 8)], [local("o", 8)]),
        )
    program = Collective.of("all_reduce", "9KiB", read_mscclpp(written(document))).program(4)
    assert program.input_chunks == program.output_chunks == 9


def test_packets_are_read_where_they_arrive(written):
    found = read_mscclpp(written(all_pairs_packets(4)))
    assert found.protocol == "LL"
    assert found.summary()["checks"] == ["every wait has its signal"]
    (block,) = operations(found, "all_reduce", 4, rank=1)
    assert block.program.protocol == "LL"
    assert [(op.sources[0].buffer, [t.buffer for t in op.targets]) for op in block.operations] == [
        *[("input", ["packets"])] * 3,
        ("input", ["output", *["packets"] * 3]),
        *[("packets", ["output"])] * 3,
    ]
    assert [str(chunk) for chunk in block.operations[3].sources] == [
        "rank 1 input[1]", "rank 1 packets[0]", "rank 1 packets[2]", "rank 1 packets[3]"
    ]  # fmt: skip


def test_switch_operations(written):
    group = [{"size": 2, "ranks": [0, 1]}]
    gpus = []
    for me in range(2):
        multi = {"switch_channel_id": 0, "index": me, "size": 1}
        ops = [
            {"name": "nop"},
            signal([0], "rlxsignal"),
            signal([0], "rlxwait"),
            op("glres", [multi], [multi], "switch", reduce_op="sum"),
            op("gstore", [local("i", me)], [multi], "switch"),
        ]
        found = gpu(me, 2, [ops], (2, 2), scratch=2)
        found["channels"].append({"channel_type": "switch", "buffer_type": "o", "rank_groups": group})
        found["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
        gpus.append(found)
    (block,) = operations(read_mscclpp(written(plan(gpus))), "all_reduce", 2, rank=1)
    nop, signalled, waited, glres, gstore = block.operations
    assert (nop.kind, nop.value, signalled.relaxed, waited.kind) == ("compute", 1, True, "wait")
    assert glres.in_switch == SWITCH_READS | SWITCH_WRITES
    assert (
        [str(c) for c in glres.sources]
        == ["rank 0 output[1]", "rank 1 output[1]"]
        == [str(c) for c in glres.targets]
    )
    assert gstore.in_switch == SWITCH_WRITES


def test_a_switch_forwards_packets(written):
    """An all-gather of packets that each rank makes of its chunk and a switch stores to all."""
    ranks = 4
    group = [{"size": ranks, "ranks": list(range(ranks))}]
    gpus = []
    for me in range(ranks):
        multi = {"switch_channel_id": 0, "index": me, "size": 1}
        ops = [
            op("cpkt", [local("i", 0)], [local("s", me)]),
            op("gstorepkt", [local("s", me)], [multi], "switch"),
            *(op("upkt", [local("s", other)], [local("o", other)]) for other in range(ranks)),
        ]
        found = gpu(me, ranks, [ops], (1, ranks), scratch=ranks)
        found["channels"] = [{"channel_type": "switch", "buffer_type": "s", "rank_groups": group}]
        found["threadblocks"][0]["channels"] = [{"channel_type": "switch", "channel_ids": [0]}]
        gpus.append(found)
    file = written(plan(gpus, "allgather", protocol="LL"))
    wanted = Collective.of("all_gather", "64KiB", read_mscclpp(file))
    program = wanted.program(ranks)
    assert verify(program, "all_gather") == []
    sim = anb.Simulation(f"switch:gpus={ranks}", wanted)
    sim.run()  # which checks the result
    lines = 64 * 1024 // ranks // 64  # of packets, from each rank
    links = sim.engine.machine.links
    for number in sim.engine.fabric.gpus:
        up = links[links["src"] == number]["messages"].sum()
        assert up == lines + ranks * lines  # once for all, and an acknowledgement for each that came
    # Reading a packet that nobody sends is found.
    gpus[1]["threadblocks"][0]["ops"].pop(1)
    flaws = verify(
        Collective.of(
            "all_gather", "64KiB", read_mscclpp(written(plan(gpus, "allgather", protocol="LL")))
        ).program(ranks),
        "all_gather",
    )
    assert any("never written" in flaw.message for flaw in flaws)


@pytest.mark.parametrize(
    "name, channel, chunk",
    [("glre", "switch", "i")],
)
def test_an_operation_that_is_not_simulated_is_refused_by_its_name(written, capsys, name, channel, chunk):
    gpus = [
        gpu(me, 2, [[op(name, [local(chunk, 0)], [remote(me, 1 - me, "s", 0)], channel)]], (2, 2), 1, channel)
        for me in range(2)
    ]
    if channel == "switch":
        for one in gpus:
            one["channels"] = [
                {"channel_type": "switch", "buffer_type": "s", "rank_groups": [{"size": 2, "ranks": [0, 1]}]}
            ]
    file = str(written(plan(gpus, protocol="LL")))
    assert main(["collective", "import", file]) == 2
    error = capsys.readouterr().err
    assert "ops[0]: " in error
    assert f"operation {name!r}" in error
    assert error.count("\n") == 1


CUSTOM = ["run", "collective", "custom", "--infra", "switch:gpus=2", "--size", "6KiB", "--algorithm"]


def exchange(chunks, ops):
    return plan([gpu(me, 2, [ops(me)], chunks, scratch=2) for me in range(2)], "test")


@pytest.mark.parametrize(
    "chunks, ops",
    [
        # Output 0 receives the wrong chunk for any collective, and output 1 nothing.
        (
            (2, 2),
            lambda me: [op("put", [local("i", 1)], [remote(me, 1 - me, "o", 0)]), signal([0]), wait([0])],
        ),
        ((3, 2), lambda _: [op("re", [local("i", 0), local("i", 2)], [local("o", 1)])]),
        ((1, 0), lambda _: [op("copy", [local("s", 1)], [local("i", 0)])]),  # scratch that nobody writes
        ((0, 0), lambda _: [signal([0]), wait([0])]),
        ((0, 3), lambda _: [{"name": "nop"}]),
    ],
)
def test_a_plan_of_no_known_collective_runs_as_custom_and_unchecked(written, capsys, chunks, ops):
    file = str(written(exchange(chunks, ops)))
    assert main(["collective", "import", file]) == 0
    assert "collective 'test' is unknown: run it as custom, unchecked" in capsys.readouterr().out
    assert main([*CUSTOM, file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time_ps"] > 0
    assert found["checked"] is False
    assert main([*CUSTOM, file]) == 0
    assert "checks  none: astranb does not know the result" in capsys.readouterr().out
    assert main(["collective", "verify", "custom", "--ranks", "2", "--algorithm", file]) in (0, 4)
    assert "the promised result" not in capsys.readouterr().out


def test_a_custom_plan_that_deadlocks_is_a_deadlock(written, capsys):
    file = str(written(exchange((1, 1), lambda _: [wait([0])])))
    assert main([*CUSTOM, file]) == 3
    assert "deadlock" in capsys.readouterr().err


def test_a_plan_of_a_known_collective_may_run_unchecked(written, capsys):
    wrong = all_pairs(2)
    del wrong["gpus"][0]["threadblocks"][0]["ops"][0]
    file = str(written(wrong))
    assert main([*("all_reduce" if word == "custom" else word for word in CUSTOM), file]) in (2, 3, 4)
    right = str(written(all_pairs(2)))
    assert main([*("all_gather" if word == "custom" else word for word in CUSTOM), right]) == 2
    assert "run it as all_reduce, or as custom: then the result is not checked" in capsys.readouterr().err
    assert main([*CUSTOM, right, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] is False
    assert main([*("all_reduce" if word == "custom" else word for word in CUSTOM), right, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] is True


def hasty(n, how="rlxsignal"):
    """Everyone puts its chunk into the others' scratch, and signals without waiting for the stores."""
    gpus = []
    for me in range(n):
        others = [peer for peer in range(n) if peer != me]
        ops = [
            op("copy", [local("i", 0)], [local("o", me)]),
            *(op("put", [local("i", 0)], [remote(me, peer, "s", me)]) for peer in others),
            signal(range(n - 1), how),
            wait(range(n - 1)),
            *(op("copy", [local("s", peer)], [local("o", peer)]) for peer in others),
        ]
        gpus.append(gpu(me, n, [ops], (1, n), scratch=n))
    return plan(gpus, "allgather")


def multimem(how="rlxsignal"):
    """As MSCCL++'s all-gather over NVLS: the switch hands out, then a signal."""
    gpus = []
    for me in range(2):
        multi = {"switch_channel_id": 0, "index": me, "size": 1}
        ops = [op("gstore", [local("i", 0)], [multi], "switch"), signal([0], how), wait([0])]
        one = gpu(me, 2, [ops], (1, 2))
        group = [{"size": 2, "ranks": [0, 1]}]
        one["channels"].append({"channel_type": "switch", "buffer_type": "o", "rank_groups": group})
        one["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
        gpus.append(one)
    return plan(gpus, "allgather")


VERIFY = ["collective", "verify", "all_gather", "--algorithm"]


@pytest.mark.parametrize("n", [2, 3])
def test_a_missing_fence_names_both_operations_and_the_reading_under_which_it_is_right(written, capsys, n):
    assert main([*VERIFY, str(written(hasty(n)))]) == 4
    found = capsys.readouterr().out
    assert (
        f"rank 0 block 0 operation 1 [put] writes rank 1 scratch[0], and rank 1 block 0 operation {n + 2} "
        "[copy] may run before the write is visible; "
        f"rank 0 block 0 operation {n} [rlxsignal] is relaxed and does not wait for it"
    ) in found
    assert "it is right where every relaxed signal waits for the stores before it" in found
    assert main([*VERIFY, str(written(hasty(n, "signal")))]) == 0


def test_a_relaxed_signal_behind_stores_of_a_switch_is_named(written, capsys):
    assert main([*VERIFY, str(written(multimem()))]) == 4
    found = capsys.readouterr().out
    assert (
        "rank 0 block 0 operation 0 [gstore] writes rank 1 output[0], and rank 1 may end before the write is "
        "visible; rank 0 block 0 operation 1 [rlxsignal] is relaxed and does not wait for it"
    ) in found
    assert "it is right where every relaxed signal waits for the stores before it" in found
    assert main([*VERIFY, str(written(multimem("signal")))]) == 0


def test_the_reading_is_left_out_where_it_is_wrong_too(written, capsys):
    wrong = hasty(2)
    del wrong["gpus"][0]["threadblocks"][0]["ops"][0]
    assert main([*VERIFY, str(written(wrong))]) == 4
    found = capsys.readouterr().out
    assert "missing fence" in found
    assert "it is right where" not in found


UNCHECKED = ["run", "collective", "all_gather", "--infra", "switch:gpus=2", "--size", "4KiB", "--algorithm"]


def test_a_wrong_plan_is_timed_unchecked_and_says_so(written, capsys, tmp_path):
    wrong = hasty(2)
    ops = wrong["gpus"][0]["threadblocks"][0]["ops"]
    ops[2:4] = []  # rank 0 neither signals nor waits: it copies what has not come
    wrong["gpus"][1]["threadblocks"][0]["ops"].pop(3)
    file = str(written(wrong))
    assert main([*UNCHECKED, file]) == 4
    said = capsys.readouterr().err
    assert "wrong result on rank 0, output chunk 1" in said
    assert "race: rank 0 block 0 operation 1 [put] writes and rank 1 block 0 operation 3 [copy] reads" in said
    assert said.endswith("before the other; --unchecked (in Python unchecked=True) times it as it is\n")
    assert main([*UNCHECKED, file, "--unchecked"]) == 0
    assert "checks  none: timed unchecked: the result may be wrong" in capsys.readouterr().out
    assert main([*UNCHECKED, file, "--unchecked", "--json", "--save", str(tmp_path / "run.anb")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["checked"] is False
    for sim in (
        anb.Simulation.load(tmp_path / "run.anb"),
        anb.Simulation(
            "switch:gpus=2", anb.collectives.all_gather("4 KiB", read_algorithm(file)), unchecked=True
        )
        .rebuilt(launch="graph")
        .rebuilt(size="4 KiB", launch="none"),
    ):
        sim.run()
        assert sim.result.time_ps == found["time_ps"]
        assert "timed unchecked" in sim.result.summary()
    right = str(written(hasty(2, "signal")))
    assert main([*UNCHECKED, right, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] is True


def test_only_what_is_checked_is_timed_unchecked(capsys):
    assert main(["run", "collective", "all_gather", "--infra", "switch:gpus=2", "--size", "4KiB",
                 "--fidelity", "analytical", "--unchecked"]) == 2  # fmt: skip
    assert "--unchecked does not apply" in capsys.readouterr().err
    with pytest.raises(InputError, match="unchecked: does not apply"):
        anb.Simulation(
            "switch:gpus=2", anb.collectives.all_gather("4 KiB"), fidelity="congestion", unchecked=True
        )


def test_custom_needs_an_algorithm(capsys):
    assert main(CUSTOM[:-1]) == 2
    assert "a custom collective has no algorithm of its own; give a file" in capsys.readouterr().err


def test_a_port_channel_is_a_copy_engine(written):
    gpus = []
    for me in range(2):
        ops = [
            op("pws", [local("i", 0)], [remote(me, 1 - me, "o", me)], "port", channel_ids=[0]),
            op("put", [local("i", 0)], [remote(me, 1 - me, "s", 0)], "port", channel_ids=[0]),
            signal([0], kind="port"),
            {"name": "flush", "channel_ids": [0], "channel_type": "port"},
            op("pwsf", [local("i", 0)], [remote(me, 1 - me, "s", 0)], "port", channel_ids=[0]),
            wait([0], "port"),
        ]
        gpus.append(gpu(me, 2, [ops], (1, 2), scratch=1, kind="port"))
    found = read_mscclpp(written(plan(gpus, "allgather")))
    assert found.summary()["engines"] == 2
    assert found.summary()["checks"] == ["every wait has its signal"]
    block, engine = operations(found, "all_gather", 2)
    assert (block.unit, engine.unit) == ("sm", "engine")
    # Requests that follow one another are posted at once.
    assert [op.kind for op in block.operations] == ["signal", "wait", "signal", "wait", "wait"]
    assert [op.kind for op in engine.operations] == [
        "wait", "move", "signal", "move", "signal", "signal", "wait", "move", "signal", "signal",
    ]  # fmt: skip
    assert {op.semaphore.rank for op in engine.operations if op.kind == "wait"} == {0}


def packets_over_ports(n, width):
    """Sum up over nodes as MSCCL++'s plans for several nodes do: packets in nodes, then over ports."""
    nodes = n // width
    gpus = []
    for me in range(n):
        node, place = divmod(me, width)
        near = [node * width + k for k in range(width) if k != place]
        far = [k * width + place for k in range(nodes) if k != node]
        ops = [op("ppkt", [local("i", peer % width)], [remote(me, peer, "s", place)]) for peer in near]
        mine = local("i", place)
        ops.append(op("respkt", [mine, *(local("s", peer % width) for peer in near)], [local("o", place)]))
        ops.append(op("cpkt", [local("o", place)], [local("s", place)]))
        ops += [op("ppkt", [local("s", place)], [remote(me, peer, "s", n + node)], "port") for peer in far]
        parts = [local("o", place), *(local("s", n + peer // width) for peer in far)]
        ops.append(op("repkt", parts, [local("o", place)]))
        ops += [op("ppkt", [local("o", place)], [remote(me, peer, "s", 2 * n + place)]) for peer in near]
        ops += [op("upkt", [local("s", 2 * n + peer % width)], [local("o", peer % width)]) for peer in near]
        found = gpu(me, n, [ops], (width, width), scratch=3 * n)
        block = found["threadblocks"][0]
        for kind, peers in (("memory", near), ("port", far)):
            found["channels"].append({"channel_type": kind, "connected_to": peers})
            block["channels"].append({"channel_type": kind, "channel_ids": list(range(len(peers)))})
        found["channels"], block["channels"] = found["channels"][1:], block["channels"][1:]
        for one in found["remote_buffers"]:
            one["access_channel_types"] = ["memory", "port"]
        every = block["remote_buffer_refs"][0]["remote_buffer_ids"]
        block["remote_buffer_refs"].append({"access_channel_type": "port", "remote_buffer_ids": every})
        gpus.append(found)
    return plan(gpus, protocol="LL")


def test_packets_over_ports_are_moved_by_nics_between_nodes(written):
    found = read_mscclpp(written(packets_over_ports(4, 2)))
    assert run(found, gpus=4) > 0  # within a node by copy engines
    wanted = Collective.of("all_reduce", "16 KiB", found)
    for shape, unit in ((Shape(2, rdma=True), "nic"), (Shape(4), "engine")):
        program = wanted.program(4, shape)
        assert {block.unit for block in program.blocks} == {"sm", unit}
        assert verify(program, "all_reduce") == []
    anb.Simulation("single-tier:servers=2,server=server,factor=1", wanted, record=False).run()


def test_packets_of_a_port_are_in_scratch(written):
    ops = [op("ppkt", [local("i", 0)], [remote(0, 1, "s", 0)], "port")]
    gpus = [gpu(0, 2, [ops], (2, 2), 1, "port"), gpu(1, 2, [[]], (2, 2), 1, "port")]
    with pytest.raises(InputError, match="packets must be in scratch"):
        read_mscclpp(written(plan(gpus, protocol="LL")))


def test_barriers_and_semaphores_within_a_rank(written):
    gpus = []
    for me in range(2):
        barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
        release, acquire = ({"name": f"sem_{what}", "semaphore_ids": [0]} for what in ("release", "acquire"))
        first = [op("copy", [local("i", 0)], [local("s", 0)]), acquire, release, barrier]
        second = [
            acquire,
            op("put", [local("s", 0)], [remote(me, 1 - me, "o", me)]),
            signal([0]),
            barrier,
            op("copy", [local("s", 0)], [local("o", me)]),
            wait([0]),
        ]
        gpus.append(gpu(me, 2, [first, second], (1, 2), scratch=1, semaphores=[1]))
    found = read_mscclpp(written(plan(gpus, "allgather")))
    assert found.summary()["checks"] == ["every wait has its signal"]
    assert found.notes == []
    run(found, "all_gather", gpus=2)
    gpus[0]["semaphores"] = [{"init_value": 0}]
    assert read_mscclpp(written(plan(gpus, "allgather"))).notes == [
        "thread blocks that wait for the same semaphore each count all its signals"
    ]


def in_groups(*, inplace):
    """Two thread blocks of each GPU share the work of one, an all-gather of two GPUs."""
    document = all_gather(2, inplace=inplace)
    for one in document["gpus"]:
        first = one["threadblocks"][0]
        for each in first["ops"]:
            if "src_buff" in each:
                each["tbg_info"] = {"tb_id": 0, "tbg_size": 2}
        second = copy.deepcopy(first) | {"id": 1}
        for each in second["ops"]:
            if "tbg_info" in each:
                each["tbg_info"]["tb_id"] = 1
        one["channels"][0]["connected_to"] *= 2
        second["channels"][0]["channel_ids"] = [1]
        one["threadblocks"].append(second)
    return document


def test_blocks_of_a_group_share_a_chunk(written):
    document = in_groups(inplace=False)
    found = read_mscclpp(written(document))
    assert found.slices == 2
    program = Collective.of("all_gather", "4KiB", found).program(2)
    assert [block.channel for block in program.blocks] == [0, 1, 0, 1]
    run(found, "all_gather", gpus=2)


def in_pipelines(document, unit, chunks=1):
    """Put all that each thread block does into a loop."""
    found = copy.deepcopy(document)
    for one in found["gpus"]:
        for block in one["threadblocks"]:
            context = {"unit_size": unit, "num_chunks": chunks}
            block["ops"] = [{"name": "pipeline", "iter_context": context, "ops": block["ops"]}]
    return found


def moved(plan, size, ranks=2):
    """Bytes that each block stores, and its operations in order: kinds, and slices of moves."""
    program = Collective.of("all_reduce", size, plan).program(ranks)
    extents = Extents(program, "all_reduce", size, 128)
    known = extents.settle([op for block in program.blocks for op in block.operations])
    return [
        [(op.kind, sum(known[chunk][1] for chunk in op.targets)) for op in block.operations]
        for block in program.blocks
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(st.integers(1, 30), st.sampled_from([2, 3]))
def test_a_pipeline_is_a_loop_over_parts(written, lines, ranks):
    """Each iteration executes all operations with its part: as many bytes in all, the promised result."""
    size = ranks * 24 * 128
    whole = read_mscclpp(written(all_pairs(ranks)))
    looped = read_mscclpp(written(in_pipelines(all_pairs(ranks), lines * 128)))
    assert looped.notes == whole.notes
    once, parts = moved(whole, size, ranks), moved(looped, size, ranks)
    iterations = -(-24 // lines)
    for before, after in zip(once, parts, strict=True):
        assert sum(stored for _, stored in after) == sum(stored for _, stored in before)
        kinds = [kind for kind, _ in before if kind == "signal"]
        assert [kind for kind, _ in after if kind == "signal"] == kinds * iterations
        # Until its first wait, each iteration moves no more than its unit to each chunk.
        first = [stored for _, stored in after[: [kind for kind, _ in after].index("signal")]]
        assert sum(first) == min(lines, 24) * 128 * (ranks - 1)
    program = Collective.of("all_reduce", size, looped).program(ranks)
    assert verify(program, "all_reduce") == []
    run(looped, size=size, gpus=ranks)


def test_a_pipeline_is_kept_by_what_is_saved(written, tmp_path):
    """A plan that is written again, and a saved simulation: the same loop, in as long."""
    looped = read_mscclpp(written(in_pipelines(all_pairs(2), 512)))
    program = Collective.of("all_reduce", "8KiB", looped).program(2)
    write_mscclpp(program, tmp_path / "again.json")
    again = read_mscclpp(tmp_path / "again.json")
    assert run(again, size="8KiB", gpus=2) == run(looped, size="8KiB", gpus=2)
    assert run(looped, size="8KiB", gpus=2) != run("allpairs", size="8KiB", gpus=2, channels=1)
    sim = anb.Simulation("switch:gpus=2", Collective.of("all_reduce", "8KiB", looped))
    sim.run("3 us")
    sim.save(tmp_path / "half.npz")
    loaded = anb.Simulation.load(tmp_path / "half.npz")
    for each in (sim, loaded):
        each.run()
    assert loaded.state_hash() == sim.state_hash()


def test_pipelines_of_what_does_not_divide(written):
    looped = read_mscclpp(written(in_pipelines(all_pairs(2), 1000)))
    run(looped, size=2 * 3000, gpus=2)
    assert looped.notes == [
        "pipelines have iterations of equal parts of a chunk: unit_size does not cut it into lines"
    ]
    with pytest.raises(InputError, match="num_chunks"):
        read_mscclpp(written(in_pipelines(all_pairs(2), 1024, chunks=3)))


def test_a_loop_of_copies_by_engines(written):
    """Over port channels the proxy's requests are in the loop, too."""
    document = in_pipelines(put_over_ports(2), 512)
    looped = read_mscclpp(written(document))
    program = Collective.of("all_gather", 2 * 2048, looped).program(2)
    assert verify(program, "all_gather") == []
    engine = next(block for block in program.blocks if block.unit == "engine")
    assert [op.kind for op in engine.operations].count("move") == 4
    run(looped, "all_gather", size=2 * 2048, gpus=2)


def put_over_ports(n):
    gpus = []
    for me in range(n):
        others = [peer for peer in range(n) if peer != me]
        ops = [
            op("copy", [local("i", 0)], [local("o", me)]),
            *(
                op("pws", [local("i", 0)], [remote(me, peer, "o", me)], "port", channel_ids=[k])
                for k, peer in enumerate(others)
            ),
            wait(range(n - 1), "port"),
        ]
        gpus.append(gpu(me, n, [ops], (1, n), kind="port"))
    return plan(gpus, "allgather")


def test_what_a_plan_is_not_for(written):
    found = read_mscclpp(written(all_pairs(4) | {"min_message_size": 1024, "max_message_size": 4096}))
    with pytest.raises(InputError, match="it implements all_reduce, not all_gather; run it as all_reduce"):
        Collective.of("all_gather", "4KiB", found)
    with pytest.raises(InputError, match="for 4 ranks, not 8; use an infrastructure with 4 GPUs"):
        Collective.of("all_reduce", "4KiB", found).program(8)
    Collective.of("all_reduce", "4KiB", found)
    assert found.notes == []
    Collective.of("all_reduce", "8KiB", found)
    assert found.notes == ["8192 B is outside the range of the plan, 1024 B to 4096 B"]


def test_a_plan_that_waits_for_itself_says_so(written):
    document = all_pairs(2)
    del document["gpus"][0]["threadblocks"][0]["ops"][1]
    assert read_mscclpp(written(document)).summary()["checks"] == [
        "rank 1 waits for a signal that never comes"
    ]


def shape(program):
    """Return the operations of every block, up to names."""
    return [
        [
            (op.kind, [(c.rank, c.buffer) for c in op.sources], [(c.rank, c.buffer) for c in op.targets])
            for op in block.operations
        ]
        for block in sorted(program.blocks, key=lambda block: block.rank)
    ]


REFUSED = {
    ("reduce_scatter", "switch"): "does not store cannot be written",
    ("reduce_scatter", "nvls"): "does not store cannot be written",
    ("all_gather", "engines"): "a copy engine that waits for no doorbell cannot be written",
    ("all_to_all", "engines"): "a copy engine that waits for no doorbell cannot be written",
    ("all_reduce", "oneshot_packets_mc"): r"a switch cannot store rank 0 input\[0\] from here; copy it first",
    ("all_reduce", "oneshot_poison_mc"): r"a switch cannot store rank 0 input\[0\] from here; copy it first",
    ("all_reduce", "twoshot_poison_mc"): r"a switch cannot store rank 0 input\[0\] from here; copy it first",
    ("all_gather", "packets_mc"): r"a switch cannot store rank 0 input\[0\] from here; copy it first",
    ("all_reduce", "oneshot_mc"): "does not store cannot be written",
    ("all_reduce", "twoshot_mc_poison"): "roles of a thread block cannot be written",
    ("all_to_all", "allpairs_poison"): "roles of a thread block cannot be written",
    ("all_reduce", "nvls_tree"): "does not store cannot be written",
}


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda a: f"{a.collective}-{a.name}")
def test_there_and_back(algorithm, ranks, tmp_path):
    collective, name = algorithm.collective, algorithm.name
    channels = 2 if ranks == 4 else 1
    program = Collective.of(collective, "8KiB", name, channels=channels).program(ranks)
    if (collective, name) in REFUSED:
        with pytest.raises(InputError, match=REFUSED[collective, name]):
            write_mscclpp(program, tmp_path / "plan.json")
        return
    notes = write_mscclpp(program, tmp_path / "plan.json")
    found = read_mscclpp(tmp_path / "plan.json")
    time = run(found, collective, ranks, "8KiB")
    before = run(name, collective, ranks, "8KiB", channels=channels)
    again = Collective.of(collective, "8KiB", found).program(ranks)
    if not notes:  # whatever differs is said
        assert time == pytest.approx(before, rel=1e-3)  # scratch may lie elsewhere
        assert shape(again) == shape(program)
    if name == "allpairs_fifo" or (name == "staged_get" and collective != "all_gather"):
        return  # read again, a wait for all blocks of a rank is one for each, of which it is not known whose
    write_mscclpp(again, tmp_path / "again.json")
    third = Collective.of(collective, "8KiB", read_mscclpp(tmp_path / "again.json")).program(ranks)
    assert shape(third) == shape(again)


def everything(p):
    """Every kind of move that there is an operation for."""
    block = p.block(0)
    bell = p.semaphore(1)
    mine, far = p.scratch(0), p.scratch(1)
    block.copy(p.input(0)[0], p.packets(1)[0])
    block.copy(p.input(0)[0], p.packets(0)[9])
    block.reduce([p.input(0)[0], p.packets(0)[9]], p.output(0)[0], p.packets(1)[1])
    block.reduce([p.input(0)[0], p.packets(0)[9]], p.packets(1)[2])
    block.copy(p.packets(0)[9], p.packets(1)[3])
    block.copy(p.packets(0)[9], mine[0])
    block.reduce([p.input(1)[0], p.input(0)[0]], mine[1], far[0])
    block.reduce([p.input(0)[0], mine[1]], far[1])
    block.get(p.input(1)[1], mine[2])
    block.switch_reduce_store([p.input(r)[0] for r in range(2)], *(p.output(r)[1] for r in range(2)))
    block.switch_store(p.input(0)[0], *(p.output(r)[1] for r in range(2)))
    block.fence()
    block.compute(2)
    block.signal(bell, relaxed=True)
    p.block(1).wait(bell)


def test_every_operation_there_and_back(tmp_path):
    collective = Collective.of("all_reduce", "4KiB", everything, channels=1)
    program = collective.program(2)
    write_mscclpp(program, tmp_path / "plan.json")
    again = Collective.of("all_reduce", "4KiB", read_mscclpp(tmp_path / "plan.json")).program(2)
    (first, _), (other, _) = shape(program), shape(again)
    position = next(n for n, each in enumerate(first) if each[0] == "compute")
    first.insert(position, first[position])  # two instructions are two operations
    order = [(kind, sorted(sources), sorted(targets)) for kind, sources, targets in first]
    assert [(kind, sorted(sources), sorted(targets)) for kind, sources, targets in other] == order
    signals = [op for op in again.blocks[0].operations if op.kind == "signal"]
    assert [op.relaxed for op in signals] == [True]


@pytest.mark.parametrize(
    "write, text",
    [
        (
            lambda p: p.block(0).switch_reduce([p.input(0)[0], p.input(1)[0]], p.output(0)[0]),
            "use switch_reduce_store",
        ),
        (lambda p: p.block(0).copy(p.packets(1)[0], p.output(0)[0]), "rank 0 reads packets of another rank"),
        (lambda p: p.block(0).compute(1000), "cannot compute 1000 instructions"),
        (lambda p: p.block(0).wait(p.semaphore(0)), "waits for 1 signals, of which 0 are raised"),
        (lambda p: p.block(0).signal(p.semaphore(1)), "no block waits for a semaphore of rank 1"),
    ],
)
def test_what_no_plan_can_say(write, text, tmp_path):
    program = Collective.of(
        "all_reduce", "4KiB", lambda p: write(p) if p.channel == 0 else None, channels=1
    ).program(2)
    with pytest.raises(InputError, match=text):
        write_mscclpp(program, tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()


def ops_of(document):
    return document["gpus"][0]["threadblocks"][0]["ops"]


def at(path, value):
    """Put a value to a place of a document."""

    def change(document):
        *way, last = path
        for key in way:
            document = document[key]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


GPU, OPS = ("gpus", 0), ("gpus", 0, "threadblocks", 0, "ops")
BROKEN = [
    (at(["gpus"], None), "'gpus' is missing; give it"),
    (at(["gpus"], []), "gpus: the plan has no GPUs"),
    (at(["gpus"], 3), "gpus: a list is expected, not 3"),
    (at(["inplace"], "yes"), "inplace: true or false is expected, not 'yes'"),
    (at(["protocol"], "LL7"), "protocol: unknown 'LL7'; take Simple, LL, LL128"),
    (at(["name"], 7), "name: a string is expected, not 7"),
    (at(["min_message_size"], -1), "min_message_size: -1 is out of range"),
    (at([*GPU, "id"], 1), r"gpus\[0\].id: 1 is out of range; take 0 to 0"),
    (at([*GPU, "inputChunks"], 4), "older than 2025; write it with a newer MSCCL\\+\\+"),
    (at([*GPU, "input_chunks"], 3), r"gpus\[1\]: 2 input and 2 output chunks, gpus\[0\] has others"),
    (at([*GPU, "output_chunks"], 10**9), r"gpus\[0\].output_chunks: 1000000000 is out of range"),
    (at([*GPU, "channels", 0, "connected_to"], [5]), r"channels\[0\].connected_to\[0\]: 5 is out of range"),
    (at([*GPU, "channels", 0, "channel_type"], "wire"), r"channel_type: unknown 'wire'; take memory, port"),
    (at([*GPU, "threadblocks", 0, "id"], 4), r"gpus\[0\].threadblocks\[0\].id: 4 is out of range"),
    (
        at([*GPU, "threadblocks", 0, "channels"], []),
        r"ops\[1\].channel_ids\[0\]: the thread block has no memory",
    ),
    (
        at([*GPU, "threadblocks", 0, "remote_buffer_refs"], []),
        r"buffer_id: the thread block has no remote buffer",
    ),
    (at([*OPS, 0, "name"], "putt"), r"ops\[0\]: unknown operation 'putt'; did you mean 'put'"),
    (at([*OPS, 0, "ctype"], "sm"), r"ops\[0\]: 'ctype' is older than 2025"),
    (at([*OPS, 0, "src_buff"], []), r"ops\[0\].src_buff: put takes 1, not 0"),
    (
        at([*OPS, 0, "src_buff", 0, "size"], 2),
        r"src_buff\[0\]: chunks 1 to 2 of 'i', which has 2; use existing chunks",
    ),
    (at([*OPS, 0, "src_buff", 0, "type"], "x"), r"src_buff\[0\].type: unknown 'x'; take i, o, s"),
    (
        at([*OPS, 0, "dst_buff", 0, "buffer_id"], 99),
        r"dst_buff\[0\].buffer_id: 99 is out of range; take 0 to 2",
    ),
    (
        at([*OPS, 0, "dst_buff", 0, "index"], 1.0),
        r"dst_buff\[0\].index: a whole number is expected, not 1.0",
    ),
    (at([*OPS, 1, "channel_ids"], []), r"ops\[1\].channel_ids: no channel"),
    (at([*OPS, 1, "channel_type"], None), r"ops\[1\]: 'channel_type' is missing; give it"),
    (at([*OPS, 3, "reduce_op"], "mean"), r"ops\[3\].reduce_op: unknown 'mean'; take sum, min, max"),
    (at([*OPS, 0], {"name": "sem_acquire", "semaphore_ids": [0]}), "rank 0 lists no semaphores"),
    (at([*OPS, 0], {"name": "barrier", "barrier_id": 0}), r"ops\[0\]: 'num_threadblocks' is missing"),
    (
        at([*OPS, 0, "tbg_info"], {"tb_id": 2, "tbg_size": 2}),
        r"tbg_info.tb_id: 2 is out of range; take 0 to 1",
    ),
]


@pytest.mark.parametrize("change, text", BROKEN)
def test_what_is_broken_is_said_with_its_place(change, text, written):
    document = all_pairs(2)
    change(document)
    file = written(document)
    with pytest.raises(InputError, match=text) as caught:
        read_algorithm(file)
    assert str(caught.value).startswith((f"{file}: ", f"{file}:1"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "data, text",
    [
        (b"", "neither an MSCCL"),
        (b"hello", "neither an MSCCL"),
        (b'{"name": ', ":1: not JSON"),
        (b'{"name": "\xff"}', "not JSON: byte 10 is not UTF-8"),
        (b'{"gpus": ' + b"[" * 100_000, "not JSON"),
        (b'{"gpus": ' + b"9" * 10_000 + b"}", "not JSON"),
    ],
)
def test_what_is_no_json(data, text, tmp_path):
    file = tmp_path / "plan.json"
    file.write_bytes(data)
    with pytest.raises(InputError, match=text):
        read_algorithm(file)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="No such file"):
        read_algorithm(tmp_path / "none.json")
    with pytest.raises(InputError, match="this is a folder"):
        read_algorithm(tmp_path)
    monkeypatch.setattr("astranb.core.document.MOST_BYTES", 3)
    (tmp_path / "large.json").write_bytes(b"{   }")
    with pytest.raises(InputError, match="larger than"):
        read_algorithm(tmp_path / "large.json")


@pytest.mark.slow
def test_a_few_bytes_do_not_become_millions_of_operations(written):
    document = all_pairs(2)
    for one in document["gpus"]:
        one["input_chunks"] = one["output_chunks"] = 65536
        one["threadblocks"][0]["ops"] = [op("copy", [local("i", 0, 65536)], [local("o", 0, 65536)])] * 100
    with pytest.raises(InputError, match="more than 1000000 operations; use fewer or larger chunks"):
        read_algorithm(written(document))


def use(data, tmp_path):
    """Read whatever it is; where it can be read it can be written into a program."""
    file = tmp_path / "fuzz"
    file.write_bytes(data)
    try:
        found = read_algorithm(file)
        found.summary()
        Collective.of(found.collective or "all_reduce", "4KiB", found).program(found.ranks)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


VALID = [all_pairs(2), all_pairs(2, inplace=True), all_pairs_packets(2), all_gather(3)]
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([2**31, 2**70, -1, 65536, 1e300, float("nan")]),
    st.text(max_size=3),
    st.sampled_from(
        ["i", "o", "s", "put", "get", "res", "pwsf", "port", "switch", "pipeline", "LL", "\ud800"]
    ),
    st.builds(list),
    st.builds(dict),
)


def places(document, way=()):
    yield way
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        if isinstance(value, dict | list):
            yield from places(value, (*way, key))
        else:
            yield (*way, key)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(VALID), st.data())
def test_changed_documents_are_read_or_refused(tmp_path, document, data):
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(list(places(document))[1:]))
        at(way, data.draw(values))(document)
    use(json.dumps(document).encode(), tmp_path)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(VALID), st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=2)), max_size=4))
@example(VALID[0], [(0.0, b"\x00")])
def test_changed_bytes_are_read_or_refused(tmp_path, document, changes):
    data = bytearray(json.dumps(document).encode())
    for where, new in changes:
        place = int(where * len(data))
        data[place : place + 1] = new
    use(bytes(data), tmp_path)
