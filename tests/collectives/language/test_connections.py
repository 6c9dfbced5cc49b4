"""Connections: what they send, and one thread block at each end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astranb.collectives import Collective, Program, verify
from astranb.collectives.language.source import ProgramError


def here(mark: str) -> int:
    """Return the number of the line of this file that ends with a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def _pair():
    p = Program("pair", ranks=2, channels=1, input_chunks=4, output_chunks=4)
    return p, *p.everyone


def test_a_list_of_chunks_is_sent_as_their_sum():
    def two_shot(p):
        wires = p.connections()
        for me in p.everyone:
            block = me.block()
            for you in me.others:
                wires[me, you].send(block, me.input[you])
            parts = [wires[you, me].receive(block) for you in me.others]
            total = block.reduce([me.input[me], *parts], me.output[me])
            for you in me.others:
                wires[me, you].send(block, total)
            for you in me.others:
                block.copy(wires[you, me].receive(block), me.output[you])

    def around(p):
        wires = p.connections()
        for me in p.everyone:
            block = me.block()
            for step in range(2 * p.ranks - 1):
                chunk = (me.number - step) % p.ranks
                parts = [wires[me.left, me].receive(block)] if step else []
                parts += [me.input[chunk]] if step < p.ranks else []
                done = [me.output[chunk]] if step >= p.ranks - 1 else []
                if step < 2 * p.ranks - 2:
                    wires[me, me.right].send(block, parts, also=done)
                else:
                    block.reduce(parts, *done)

    for write in (two_shot, around):
        assert verify(Collective.of("all_reduce", "64 KiB", write).program(4), "all_reduce") == []


def test_one_chunk_or_a_list_may_be_sent_and_stored():
    p, me, you = _pair()
    block, wire = me.block(), p.connections()[me, you]
    wire.send(block, me.input[0], also=me.output[0])
    wire.send(block, (me.input[k] for k in range(3)), also=[me.output[0], me.output[1]])
    wire.send(block, me.input[0:2])
    moves = [op for op in block.operations if op.kind == "move"]
    assert [(len(op.sources), len(op.targets)) for op in moves] == [(1, 2), (3, 3), (1, 1), (1, 1)]
    with wire.message(block) as m:
        m.reduce([me.input[0], me.input[1]], also=me.output[2])
    assert block.operations[-2].targets[0] == me.output[2]


def test_a_sum_is_returned_as_its_first_target():
    _, me, you = _pair()
    block = me.block()
    assert block.reduce([me.input[0], me.input[1]], me.scratch[5], you.scratch[5]) == me.scratch[5]


def _sends_twice(p, me, you):
    wire = p.connections()[me, you]
    wire.send(me.block(), me.input[0])  # FIRST
    wire.send(me.block(), me.input[1])  # SECOND


def _messages_twice(p, me, you):
    wire = p.connections()[me, you]
    with wire.message(me.block()) as m:  # OPENED
        m.put(me.input[0])
    wire.message(me.block())  # AGAIN


def _receives_twice(p, me, you):
    wire = p.connections()[me, you]
    wire.receive(you.block())  # TAKEN
    wire.receive_all(you.block(), 2)  # TOO


@pytest.mark.parametrize(
    "use, does, first, second",
    [
        (_sends_twice, "sends", "FIRST", "SECOND"),
        (_messages_twice, "sends", "OPENED", "AGAIN"),
        (_receives_twice, "receives", "TAKEN", "TOO"),
    ],
)
def test_a_connection_of_two_blocks_is_refused_with_both_places(use, does, first, second):
    with pytest.raises(ProgramError) as caught:
        use(*_pair())
    file = re.escape(Path(__file__).name)
    assert re.search(
        rf"{file} line {here(second)}: a second thread block {does} on the connection from rank 0 to rank 1, "
        rf"the first one at {file} line {here(first)}: .*; call p.connections\(\) once for each block",
        str(caught.value),
    )
    assert "\n" not in str(caught.value)


def test_blocks_with_connections_of_their_own_are_right():
    def halves(p):
        wires = [p.connections() for _ in range(2)]
        for me in p.everyone:
            for k, of_block in enumerate(wires):
                block = me.block()
                of_block[me, me.right].send(block, me.input[k])
                block.copy(of_block[me.left, me].receive(block), me.output[k])

    wanted = Collective.of("send_recv", "64 KiB", halves, chunks=2)
    assert verify(wanted.program(3), "send_recv") == []
