"""Topology of a rank: its box, rail, neighbours and coordinates, and programs that use them."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.cli import main
from astranb.collectives import Collective, Program, verify
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.infragraph import blueprint
from astranb.net import compile_fabric
from astranb.net.shape import Shape

TWO_BOXES = "single-tier:servers=2,server=dgx-h100"


def _program(infra: str) -> Program:
    fabric = compile_fabric(blueprint(infra).expand())
    return Program(
        "x", ranks=len(fabric.gpus), channels=1, input_chunks=1, output_chunks=1, shape=fabric.shape
    )


def _numbers(ranks):
    return [rank.number for rank in ranks]


def test_box_rail_and_place():
    me = _program(TWO_BOXES).rank(11)
    assert (me.place, _numbers(me.box), _numbers(me.rail)) == (3, list(range(8, 16)), [3, 11])
    assert me.coordinates == (1, 3)
    alone = _program("ring:gpus=4").rank(2)
    assert (alone.place, _numbers(alone.box), _numbers(alone.rail)) == (2, [0, 1, 2, 3], [2])


@pytest.mark.parametrize(
    "infra,dimensions,rank,neighbours",
    [
        ("torus2d:rows=4,columns=4", (4, 4), 5, [1, 4, 6, 9]),
        ("torus2d:rows=4,columns=4", (4, 4), 0, [1, 3, 4, 12]),
        ("torus2d:rows=3,columns=5", (3, 5), 0, [1, 4, 5, 10]),
        ("mesh2d:rows=3,columns=4", (3, 4), 0, [1, 4]),
        ("torus3d:planes=3,rows=3,columns=3", (3, 3, 3), 13, [4, 10, 12, 14, 16, 22]),
        ("ring:gpus=6", (6,), 0, [1, 5]),
        ("dgx-h100", (8,), 3, [0, 1, 2, 4, 5, 6, 7]),
        (TWO_BOXES, (2, 8), 9, [8, 10, 11, 12, 13, 14, 15]),
        ("mi300x", (8,), 0, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_neighbours_and_dimensions(infra, dimensions, rank, neighbours):
    program = _program(infra)
    assert program.dimensions == dimensions
    assert _numbers(program.rank(rank).neighbours) == neighbours


def test_a_step_along_a_dimension_is_undone_and_goes_around():
    program = _program("torus3d:planes=2,rows=3,columns=4")
    assert program.dimensions == (2, 3, 4)
    for me in program.everyone:
        for dimension, size in enumerate(program.dimensions):
            assert me.along(dimension).along(dimension, -1) == me
            assert me.along(dimension, size) == me
            if size > 2:
                assert me.along(dimension) in me.neighbours
    with pytest.raises(InputError, match=r"unknown dimension 3; dimensions are 0 to 2"):
        program.rank(0).along(3)


def test_distances_are_the_links_of_routes():
    for infra in ("torus2d:rows=4,columns=4", TWO_BOXES, "mi300x"):
        fabric, program = compile_fabric(blueprint(infra).expand()), _program(infra)
        pairs = [(0, other) for other in range(1, program.ranks)]
        routes = fabric.routes(pairs)[0]
        assert [program.distance(*pair) for pair in pairs] == [len(routes[pair][0]) for pair in pairs]
    plain = Program("x", ranks=8, channels=1, input_chunks=1, output_chunks=1, shape=Shape(8))
    assert (plain.distance(0, 0), plain.distance(0, 7)) == (0, 1)
    assert _program(TWO_BOXES).distance(program.rank(0), 0) == 0


def test_a_thousand_ranks_are_looked_up_quickly():
    program = _program("torus2d:rows=32,columns=32")
    assert program.dimensions == (32, 32)
    assert {len(me.neighbours) for me in program.everyone} == {4}
    assert program.distance(0, 33 * 16) == 32


def _four_ports(p):
    """All-gather on a torus: channel k goes one way around in one dimension, then in the other."""
    first, by = p.channel % 2, 1 if p.channel < 2 else -1
    n, m = p.dimensions[first], p.dimensions[1 - first]
    blocks = [me.block() for me in p.everyone]
    came = [[me.semaphore() for _ in range(2)] for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        block.copy(me.input[0], me.output[me.number])
    for stage, (dimension, steps) in enumerate(((first, n - 1), (1 - first, m - 1))):
        for me, block in zip(p.everyone, blocks, strict=True):
            there = me.along(dimension, by)
            for step in range(steps):
                of = me.along(dimension, -by * step)
                line = [of.along(first, k) for k in range(n)] if stage else [of]
                for one in line:
                    block.put(me.output[one.number], there.output[one.number])
                block.signal(came[there.number][stage])
                block.wait(came[me.number][stage])


def test_channels_take_the_four_ports_of_a_torus():
    infra = "torus2d:rows=4,columns=4"
    times = {}
    for channels in (1, 4):
        collective = Collective.of("all_gather", "1 MiB", _four_ports, channels=channels)
        assert verify(collective, infra) == []
        sim = anb.Simulation(infra, collective, record=False)
        sim.run()
        times[channels] = sim.result.time_ps
        used = np.count_nonzero(sim.result.to_dataframe("links")["bytes"])
    assert used == 4 * 16
    assert times[4] < times[1] / 2


def test_verify_takes_boxes_and_gpus_of_the_infrastructure():
    def leader(p):
        """Only the first rank of each box sends to the next box: wrong unless there are boxes of 8."""
        assert p.shape.per_node == 8
        p.barrier([me.block() for me in p.everyone])

    assert verify(Collective.of("barrier", 1, leader, channels=1), TWO_BOXES) == []

    slots = preset("h100-sxm").slots[0]

    def many(p):
        p.barrier([me.block() for me in p.everyone[:2] for _ in range(slots + 1)])

    crowded = Collective.of("barrier", 1, many, channels=1)  # one block more than its GPUs hold at once
    assert verify(crowded.program(8), "barrier") == []
    assert verify(crowded, "dgx-h100")[0].kind == "deadlock"
    with pytest.raises(InputError, match="did you mean"):
        verify(crowded, "dgx-h10")


def test_the_command_verifies_on_an_infrastructure_with_parameters(tmp_path, capsys):
    def outcome(arguments):
        return (main(arguments), *capsys.readouterr())

    file = tmp_path / "mine.py"
    file.write_text(
        "def rails(p, *, rounds=1):\n"
        "    for _ in range(rounds):\n"
        "        p.barrier([me.block() for me in p.everyone if me.rail[0] == me or True])\n"
        "    assert len(p.rank(0).rail) == 2\n"
    )
    command = ["collective", "verify", "barrier", "--algorithm", f"{file}:rails", "--channels", "1"]
    code, out, err = outcome([*command, "--infra", TWO_BOXES, "--param", "rounds=2"])
    assert (code, out.splitlines()[0]) == (
        0, "barrier/rails(rounds=2) (16 ranks): correct: no deadlock, no race, the promised result",
    ), err  # fmt: skip
    code, _, err = outcome([*command, "--infra", TWO_BOXES, "--param", "round=2"])
    assert (code, "has no parameter 'round'; did you mean 'rounds'" in err) == (2, True)
    code, _, err = outcome([*command, "--infra", TWO_BOXES, "--ranks", "4"])
    assert (code, "exclude each other" in err) == (2, True)


def test_boxes_rails_and_rings_are_ranks_with_others():
    program = _program(TWO_BOXES)
    me = program.rank(11)
    assert _numbers(me.box.others) == [12, 13, 14, 15, 8, 9, 10]
    assert (_numbers(me.rail.others), _numbers(program.rank(3).rail.others)) == ([3], [11])
    ring = program.ring(me)
    assert ring[0] == me
    assert _numbers(ring.others) == _numbers(ring[1:])
    assert sorted(_numbers(program.ring())) == list(range(16))
    assert [sorted(_numbers(chain)) for chain in program.chains()] == [[*range(8)], [*range(8, 16)]]


def test_a_rank_stands_for_its_number():
    program = _program(TWO_BOXES)
    me, you = program.rank(2), program.rank(9)
    assert program.rank(you) == you
    assert program.input(you)[0] == you.input[0]
    assert me.scratch[you] == me.scratch[9]
    assert [*range(16)][you] == 9
    assert program.block(you).rank == 9
    assert program.semaphore(you).rank == 9
    wires = program.connections()
    assert wires[me, you] is wires[2, 9]


def test_a_program_for_an_infrastructure_knows_its_nodes_and_links():
    def detour(p):
        """Send to the right: directly, or through another rank where a link is down."""
        for me in p.everyone:
            block = me.block()
            if me.right in me.neighbours:
                block.put(me.input[0], me.right.output[0])
            else:
                block.put(me.input[0], me.left.scratch[0])

    shift = Collective.of("custom", "4 KiB", detour, channels=1)
    ring = blueprint("ring:gpus=4")
    for infra, passed_on in ((ring, 0), (ring.without("gpu[0]->gpu[1]"), 1)):
        program = shift.program(infra)
        targets = [chunk for block in program.blocks for op in block.operations for chunk in op.targets]
        assert sum(chunk.buffer == "scratch" for chunk in targets) == passed_on
    with pytest.raises(
        InputError, match=r"neighbours depends on the links, .* 4 ranks only; .*program\(infra\)"
    ):
        shift.program(4)
    with pytest.raises(InputError, match="distance depends on the links"):
        Program("x", ranks=4, channels=1, input_chunks=1, output_chunks=1).distance(0, 1)
    with pytest.raises(InputError, match="an infrastructure has its own shape"):
        shift.program("ring:gpus=4", 2)


def test_a_rank_is_one_object():
    program = Program("x", ranks=8, channels=1, input_chunks=1, output_chunks=1, shape=Shape(4))
    for me in program.everyone:
        assert [you for you in me.box if you is not me] == sorted(me.box.others, key=int)
        assert me.right.left is me is program.rank(me)
    assert [me for me in program.everyone if me == 3 or me > 6] == [program.rank(3), program.rank(7)]
    assert program.rank(3) != Program("y", ranks=8, channels=1, input_chunks=1, output_chunks=1).rank(3)
    assert len({3, program.rank(3)}) == 1
    program.everyone.clear()  # a list of its own
    assert len(program.everyone) == 8


def test_a_program_says_what_it_is_written_for():
    exchange = anb.collectives.all_to_all("64 KiB", channels=1)
    assert str(exchange.program(16)) == "all_to_all/allpairs: 16 ranks in one node; 16 thread blocks"
    assert str(exchange.program(TWO_BOXES)) == (
        "all_to_all/allpairs: 16 ranks in 2 nodes of 8; 16 thread blocks, 16 NICs"
    )
    routed = anb.collectives.dispatch(16, hidden=128, experts=16, topk=1)
    assert str(routed.program(TWO_BOXES)).startswith("dispatch/normal: 16 ranks in 2 nodes of 8; ")
