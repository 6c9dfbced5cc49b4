"""Where a rank is: its box, rail, neighbours and coordinates, and programs that use them."""

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
    plain = Program("x", ranks=8, channels=1, input_chunks=1, output_chunks=1)
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
