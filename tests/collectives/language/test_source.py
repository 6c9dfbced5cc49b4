"""Every operation knows the line of the text that asked for it."""

import linecache

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective, Program, SourceLine, lower


def two_shot(p):
    """Channels, helpers and a barrier: what a person writes."""
    wires = p.connections()
    blocks = []
    for me in p.everyone:
        block = me.block()
        blocks.append(block)
        for you in me.others:
            wires[me, you].send(block, me.input[you.number])  # SEND
        parts = [wires[you, me].receive(block) for you in me.others]  # RECEIVE
        block.reduce([me.input[me.number], *parts], me.output[me.number])  # REDUCE
        _pass_on(me, block, wires)
    p.barrier(blocks)  # BARRIER


def _pass_on(me, block, wires):
    for you in me.others:
        wires[me, you].send(block, me.output[me.number])  # PASS
    for you in me.others:
        block.copy(wires[you, me].receive(block), me.output[you.number])  # KEEP


def line_of(mark):
    lines = linecache.getlines(__file__)
    return next(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {mark}"))


def number_of(operation):
    assert operation.line is not None
    return operation.line.number


def lowered(algorithm, kind="all_reduce", ranks=4, size=4096):
    collective = Collective.of(kind, size, algorithm, channels=1)
    return lower(collective.program(ranks), kind=kind, size=size)


def test_each_operation_has_the_line_that_asked_for_it():
    program = Collective.of("all_reduce", 4096, two_shot, channels=1).program(4)
    block = program.blocks[0]
    said = [(op.kind, number_of(op)) for op in block.operations]
    send, receive, put, keep = (line_of(mark) for mark in ("SEND", "RECEIVE", "PASS", "KEEP"))
    assert said[:6] == [("move", send), ("signal", send)] * 3
    assert said[6:9] == [("wait", receive)] * 3
    assert said[9] == ("move", line_of("REDUCE"))
    assert said[10:16] == [("move", put), ("signal", put)] * 3
    assert said[16:22] == [("wait", keep), ("move", keep)] * 3
    assert {line for _, line in said[22:]} == {line_of("BARRIER")}
    assert {op.line.file for op in block.operations if op.line} == {__file__}


def test_the_text_is_cut_to_the_functions_that_write():
    source = lowered(two_shot).source
    assert [part.name for part in source.parts] == ["test_source.py"] * 2
    assert sorted(part.text.partition("(")[0] for part in source.parts) == ["def _pass_on", "def two_shot"]
    assert not any(part.shipped for part in source.parts)
    assert source.text_of(0) == "wires[me, you].send(block, me.input[you.number])  # SEND"
    assert source.name_of(0) == f"test_source.py line {line_of('SEND')}"
    for op in range(len(source.line)):
        part = source.parts[source.part[op]]
        assert part.first <= source.line[op] <= part.last


@pytest.mark.parametrize("kind,name", sorted(anb.collectives.ALGORITHMS))
def test_shipped_algorithms_have_lines_too(kind, name):
    source = lowered(name, kind, size=16384).source
    assert source.known
    assert all(part.shipped for part in source.parts)
    assert (source.part >= 0).all()
    assert "(" in source.text_of(0)


def test_a_program_made_by_hand_has_lines():
    program = Program("shift", ranks=2, channels=1, input_chunks=1, output_chunks=1)
    program.block(0).put(program.input(0)[0], program.output(1)[0])  # BY HAND
    assert program.blocks[0].operations[0].line == SourceLine(__file__, line_of("BY HAND"))


def test_lines_are_no_part_of_what_operations_are():
    one, two = (Collective.of("all_reduce", 4096, two_shot, channels=1).program(2) for _ in range(2))
    p = Program("x", ranks=2, channels=1, input_chunks=1, output_chunks=1)
    p.block(0).fence()
    p.block(0).fence()
    assert p.blocks[0].operations == p.blocks[1].operations
    assert [b.operations for b in one.blocks] == [b.operations for b in two.blocks]


def test_an_algorithm_from_a_file_has_none(tmp_path):
    path = tmp_path / "ring.json"
    made = Collective.of("all_reduce", 4096, "allpairs", channels=1).program(2)
    anb.collectives.write_algorithm(made, path)
    source = lowered(anb.collectives.read_algorithm(path), ranks=2).source
    assert not source.known
    assert (source.part == -1).all()
    assert (source.text_of(0), source.name_of(0)) == ("", "")


def test_text_that_cannot_be_had_leaves_the_number():
    scope: dict[str, object] = {}
    exec(compile("def f(p):\n  p.block(0).fence()", "<gone>", "exec"), scope)
    source = lowered(scope["f"], "barrier", 2).source
    assert not source.known
    assert source.line.tolist() == [2]
    assert source.text_of(0) == ""


def test_text_that_is_no_program_any_more_is_shown_whole(tmp_path):
    file = tmp_path / "algo.py"
    file.write_text("def f(p):\n  p.block(0).fence()\n")
    scope: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    file.write_text("<img src=x onerror=alert(1)>\n  p.block(0).fence()\n")
    linecache.checkcache(str(file))
    source = lowered(scope["f"], "barrier", 2).source
    assert source.parts[0].first == 1
    assert source.parts[0].text.startswith("<img src=x")
    assert source.text_of(0) == "p.block(0).fence()"


def test_where_and_next_line_follow_a_block():
    sim = anb.Simulation("switch:gpus=4", Collective.of("all_reduce", "4 KiB", two_shot, channels=1))
    assert sim.where()["state"].tolist() == [0] * 4
    lines = []
    while True:
        sim.next_line("gpu[1].block.0")
        spot = sim.where()[1]
        if spot.part < 0:
            break
        lines.append(int(spot.line))
    program = Collective.of("all_reduce", 4096, two_shot, channels=1).program(4)
    assert lines == [number_of(op) for op in program.blocks[1].operations]
    assert spot.op == spot.ops == len(lines)
    assert not sim.breakpoints
    with pytest.raises(anb.core.errors.InputError, match="has ended; go back"):
        sim.next_line("gpu[1].block.0")


def test_next_line_leaves_other_breakpoints_alone():
    sim = anb.Simulation("switch:gpus=4", Collective.of("all_reduce", "4 KiB", two_shot, channels=1))
    sim.next_line("gpu[0].block.0")
    point = sim.break_at(sim.now_ps + 1)
    assert sim.next_line("gpu[0].block.0").breakpoint is point
    assert sim.breakpoints == [point]
    with pytest.raises(anb.core.errors.InputError, match="not a thread block; name one"):
        sim.next_line("gpu[0]")


def test_the_text_is_saved_and_is_no_part_of_the_hash(tmp_path):
    sim = anb.Simulation("switch:gpus=4", Collective.of("all_reduce", "4 KiB", two_shot, channels=1))
    sim.step(500)
    sim.save(tmp_path / "run.anb")
    other = anb.Simulation.load(tmp_path / "run.anb")
    assert other.source.parts == sim.source.parts
    assert np.array_equal(other.source.line, sim.source.line)
    assert np.array_equal(other.where(), sim.where())
    assert other.state_hash() == sim.state_hash()
    assert str(tmp_path) not in repr(other.source.parts)
    assert other.fork().source is other.source
