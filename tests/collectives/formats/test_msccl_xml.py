"""MSCCL algorithms in XML: read, run, written, and refused where they are broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from astranb.cli import main
from astranb.collectives import (
    Collective,
    algorithms,
    read_algorithm,
    read_msccl_xml,
    write_algorithm,
    write_msccl_xml,
)
from astranb.core.errors import InputError
from tests.collectives.support import run


def step(number, kind, source=("i", 0), target=("o", 0), **more):
    attributes = {
        "s": number,
        "type": kind,
        "srcbuf": source[0],
        "srcoff": source[1],
        "dstbuf": target[0],
        "dstoff": target[1],
        "cnt": 1,
        "depid": -1,
        "deps": -1,
        "hasdep": 0,
    } | more
    return "<step " + " ".join(f'{key}="{value}"' for key, value in attributes.items()) + "/>"


def algo(gpus, chunks, coll="allreduce", proto="Simple", inplace=0, parts=(1, 1), scratch=0):
    """The whole document; `gpus` are lists of (send, recv, chan, steps)."""
    text = f'<algo name="test" proto="{proto}" nchannels="1" nchunksperloop="{chunks}" '
    text += f'ngpus="{len(gpus)}" coll="{coll}" inplace="{inplace}">\n'
    counts = f'i_chunks="{chunks // parts[0]}" o_chunks="{chunks // parts[1]}" s_chunks="{scratch}"'
    for rank, blocks in enumerate(gpus):
        text += f'<gpu id="{rank}" {counts}>\n'
        for number, (send, recv, chan, steps) in enumerate(blocks):
            text += f'<tb id="{number}" send="{send}" recv="{recv}" chan="{chan}">\n'
            text += "\n".join(steps) + "\n</tb>\n"
        text += "</gpu>\n"
    return text + "</algo>\n"


def ring(n, *, inplace=0, proto="Simple"):
    """Reduce-scatter around the ring, then all-gather, in one thread block a rank."""
    gpus = []
    for me in range(n):
        out = "i" if inplace else "o"
        does = [("s", me)] + [("rrs", (me - k) % n) for k in range(1, n - 1)]
        does += [("rrcs", (me + 1) % n)] + [("rcs", (me - k) % n) for k in range(n - 2)]
        does += [("r", (me + 2) % n)]
        steps = [step(at, kind, ("i", chunk), (out, chunk)) for at, (kind, chunk) in enumerate(does)]
        gpus.append([((me + 1) % n, (me - 1) % n, 0, steps)])
    return algo(gpus, n, inplace=inplace, proto=proto)


def all_gather_two():
    """Two ranks, each with a block that copies and one that receives and copies on what came."""
    gpus = []
    for me in range(2):
        you = 1 - me
        first = [
            step(0, "cpy", ("i", 0), ("s", 0), cnt=2, hasdep=1),
            step(1, "cpy", ("i", 0), ("o", 2 * me), cnt=2),
            step(2, "nop", depid=1, deps=2),
        ]
        second = [
            step(0, "nop", depid=0, deps=0),
            step(1, "s", ("s", 0), ("o", 2 * me), cnt=2),
            step(2, "r", ("i", 0), ("o", 2 * you), cnt=2, hasdep=1),
        ]
        gpus.append([(-1, -1, 0, first), (you, you, 0, second)])
    return algo(gpus, 4, "allgather", parts=(2, 1), scratch=2)


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "algo.xml"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("inplace", [0, 1])
def test_a_ring_of_four(written, inplace):
    found = read_algorithm(written(ring(4, inplace=inplace)))
    assert (found.collective, found.in_place) == ("all_reduce", bool(inplace))
    assert found.summary()["checks"] == ["every wait has its signal"]
    # The ring of astranb also waits for slots of its buffer.
    assert run(found) < run("ring", channels=1) < 1.05 * run(found)


def test_a_ring_with_packets(written):
    found = read_msccl_xml(written(ring(4, proto="LL128")))
    assert (found.protocol, found.summary()["checks"]) == ("LL128", ["every wait has its signal"])
    program = Collective.of("all_reduce", "4KiB", found).program(4)
    assert program.protocol == "LL128"
    assert program.semaphores == []
    kinds = [[c.buffer for c in (*op.sources, *op.targets)] for op in program.blocks[0].operations]
    assert kinds == [
        ["input", "packets"],
        *[["packets", "input", "packets"]] * 2,
        ["packets", "input", "output", "packets"],
        *[["packets", "output", "packets"]] * 2,
        ["packets", "output"],
    ]


def test_blocks_wait_for_steps_of_others(written):
    found = read_msccl_xml(written(all_gather_two()))
    assert found.summary()["checks"] == ["every wait has its signal"]
    program = Collective.of("all_gather", "4KiB", found).program(2)
    first, second = program.blocks[:2]
    assert [op.kind for op in first.operations] == [*["move"] * 2, "signal", *["move"] * 2, "wait"]
    assert [op.kind for op in second.operations] == [
        "wait", *["move"] * 2, "signal", "wait", *["move"] * 2, "signal"
    ]  # fmt: skip
    run(found, "all_gather", gpus=2)


def test_reduce_adds_to_its_target(written):
    gpus = []
    for me in range(2):
        you = 1 - me
        steps = [
            step(0, "s", ("i", 0), cnt=2),
            step(1, "r", target=("s", 0), cnt=2),
            step(2, "cpy", ("i", 0), ("o", 0), cnt=2),
            step(3, "re", ("s", 0), ("o", 0), cnt=2),
        ]
        gpus.append([(you, you, 0, steps)])
    run(read_msccl_xml(written(algo(gpus, 2, scratch=2))), gpus=2)


def test_sizes_that_an_algorithm_is_for(written):
    text = ring(4).replace("<algo ", '<algo minBytes="1024" maxBytes="4096" ')
    found = read_msccl_xml(written(text))
    Collective.of("all_reduce", "1MiB", found)
    assert "1048576 B is outside" in found.notes[0]


def loads_from_others(program):
    return any(
        chunk.rank != block.rank
        for block in program.blocks
        for op in block.operations
        for chunk in op.sources
    )


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda a: f"{a.collective}-{a.name}")
def test_there_and_back(algorithm, ranks, tmp_path):
    collective, name = algorithm.collective, algorithm.name
    program = Collective.of(collective, "8KiB", name, channels=2 if ranks == 4 else 1).program(ranks)
    if (
        name in ("allpairs_fifo", "switch", "switch_ring", "nvls", "nvls_tree", "engine", "engines")
        or "_mc" in name
        or ("_poison" in name and name != "oneshot_poison")  # whose packets can be sent
        or collective == "barrier"
        or loads_from_others(program)
    ):
        with pytest.raises(
            InputError, match=r"MSCCL cannot|no switch|copy engines|blocks wait for one|roles of"
        ):
            write_msccl_xml(program, tmp_path / "algo.xml")
        return
    notes = [note for note in write_msccl_xml(program, tmp_path / "algo.xml") if "no collective" not in note]
    found = read_msccl_xml(tmp_path / "algo.xml")
    run(found, collective, ranks, "8KiB")
    if not notes:
        # What is fused in the file is what the algorithm does; only scratch lies elsewhere.
        before = run(name, collective, ranks, "8KiB", channels=program.channels)
        assert run(found, collective, ranks, "8KiB") == pytest.approx(before, rel=1e-2)


def by_channel(p):
    """A two-shot all-reduce over channels, under any protocol."""
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        block.phase("all")
        for you in me.others:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others:
            wires[me, you].send(block, me.output[me.number])
        for you in me.others:
            block.copy(wires[you, me].receive(block), me.output[you.number])


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
@pytest.mark.parametrize("ending", ["json", "xml"])
def test_channels_there_and_back_under_all_protocols(protocol, ending, tmp_path):
    file = tmp_path / f"algo.{ending}"
    program = Collective.of("all_reduce", "8KiB", by_channel, channels=2, protocol=protocol).program(4)
    write_algorithm(program, file)
    found = read_algorithm(file)
    assert found.protocol == ("LL" if ending == "json" and protocol != "Simple" else protocol)
    assert found.summary()["checks"] == ["every wait has its signal"]
    if protocol == "Simple":
        run(found, size="8KiB")


def two_blocks(p):
    """One block copies to scratch, another sends it: a semaphore within a rank."""
    for r in range(p.ranks):
        ready, come = p.semaphore(r), p.semaphore((r + 1) % p.ranks)
        first, second = p.block(r), p.block(r)
        first.phase("copy")
        first.copy(p.input(r)[0], p.scratch(r)[0], p.output(r)[r])
        first.signal(ready)
        second.wait(ready)
        second.copy(p.scratch(r)[0], p.output((r + 1) % p.ranks)[r])
        second.signal(come)
        p.block((r + 1) % p.ranks).wait(come)


@pytest.mark.parametrize("ending", ["json", "xml"])
def test_blocks_of_a_rank_that_wait_for_one_another(ending, tmp_path):
    file = tmp_path / f"algo.{ending}"
    write_algorithm(Collective.of("all_gather", "8KiB", two_blocks, channels=1).program(2), file)
    run(read_algorithm(file), "all_gather", 2, "8KiB")


def one_block(does, p):
    if p.channel == 0:
        does(p, p.block(0), p.block(1), p.semaphore(1))


@pytest.mark.parametrize(
    "does,text",
    [
        (lambda _p, a, b, s: (a.signal(s), b.wait(s)), "rank 0 signals rank 1 without data"),
        (lambda p, a, _b, _s: a.put(p.input(0)[0], p.output(1)[0]), "no signal follows the store of rank 0"),
        (lambda p, a, _b, _s: a.get(p.input(1)[0], p.output(0)[0]), "rank 0 reads from another rank"),
        (lambda _p, a, _b, _s: a.compute(1), "MSCCL has no computation"),
        (lambda p, a, _b, _s: a.switch_store(p.input(0)[0], p.output(1)[0]), "no switch operations"),
        (lambda p, a, _b, _s: a.put(p.input(0)[0], p.packets(1)[0]), r"no block reads rank 1 packets\[0\]"),
        (lambda p, _a, _b, _s: p.engine(0).copy(p.input(0)[0], p.output(0)[0]), "copy engines"),
        (
            lambda p, a, _b, s: (a.put(p.input(0)[0], p.output(1)[0]), a.signal(s)),
            "0 blocks wait for one semaphore of rank 1",
        ),
    ],
)
def test_what_no_algorithm_can_say(does, text, tmp_path):
    collective = Collective.of("all_reduce", "4KiB", lambda p: one_block(does, p), channels=1)
    with pytest.raises(InputError, match=text):
        write_msccl_xml(collective.program(2), tmp_path / "algo.xml")


BROKEN = [
    (('name="test"', ""), "algo: attribute 'name' is missing; give it"),
    (('proto="Simple"', 'proto="LL7"'), "algo: unknown proto='LL7'; take Simple"),
    (('ngpus="4"', 'ngpus="5"'), "algo: ngpus=5, but 4 <gpu> elements"),
    (('ngpus="4"', 'ngpus="four"'), "algo: ngpus='four' is not a whole number"),
    (('nchunksperloop="4"', 'nchunksperloop="0"'), "algo: nchunksperloop=0 is out of range"),
    (('coll="allreduce"', 'coll="allgather"'), r"algo/gpu\[0\]: i_chunks=4 does not match"),
    (('inplace="0"', 'inplace="2"'), "algo: inplace=2 is out of range; take 0 to 1"),
    (('<gpu id="0"', '<gpu id="3"'), r"algo/gpu\[0\]: id=3 is out of range; take 0 to 0"),
    (
        ('i_chunks="4"', 'i_chunks="5"'),
        r"algo/gpu\[0\]: i_chunks=5 does not match nchunksperloop=4; use 4",
    ),
    (('send="1"', 'send="0"'), r"algo/gpu\[0\]/tb\[0\]: rank 0 is its own peer; use another rank, or -1"),
    (('send="1"', 'send="-1"'), r"tb\[0\]/step\[0\]: the thread block has no send peer; give it send="),
    (('send="1"', 'send="2"'), "rank 1 receives|rank 0 sends|duplicate block|which receives"),
    (('recv="3"', 'recv="9"'), r"tb\[0\]: recv=9 is out of range; take -1 to 3"),
    (('type="rrs"', 'type="rrx"'), r"step\[1\]: unknown type='rrx'; take s, r, rcs"),
    (('srcbuf="i"', 'srcbuf="x"'), r"step\[0\]: unknown srcbuf='x'; take i, o, s"),
    (('srcoff="0"', 'srcoff="4"'), r"step\[0\]: chunks 4 to 4 of 'i', which has 4; use existing chunks"),
    (('srcoff="0"', 'srcoff="-1"'), r"step\[0\]: srcoff=-1 is out of range"),
    (('cnt="1"', 'cnt="0"'), r"step\[0\]: cnt=0 is out of range"),
    (('<step s="0"', '<step s="7"'), r"step\[0\]: s=7 is out of range; take 0 to 0"),
    (
        ('depid="-1" deps="-1"', 'depid="3" deps="0"'),
        "it depends on step 0 of thread block 3, which does not exist",
    ),
    (('depid="-1" deps="-1"', 'depid="0" deps="2"'), "which has hasdep=0; set hasdep=1 there"),
    (('type="s"', 'type="nop"'), "rank 0 sends rank 1 5 chunks on channel 0, which receives 6; give every s"),
    (
        ('nchannels="1"', 'nchannels="2"'),
        "algo: nchannels=2, but the thread blocks have 1; write nchannels=1",
    ),
    (("<step ", "<stepp "), r"tb\[0\]: an element <stepp>; <step> is expected here"),
    (("<algo ", "<algorithm "), "line 1[0-9]*|not XML"),
    (("</algo>", ""), "not XML: no element found"),
    (("<algo ", '<!DOCTYPE a [<!ENTITY b "c">]><algo '), "a DOCTYPE with declarations, an ENTITY or"),
    (("<algo ", '<?xml version="1.0" encoding="klingon"?><algo '), "not XML: "),
]


@pytest.mark.parametrize("replaced,text", BROKEN)
def test_what_is_broken_is_said_with_its_place(replaced, text, written):
    file = written(ring(4).replace(*replaced, 1))
    with pytest.raises(InputError, match=text) as caught:
        read_algorithm(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_another_document(written):
    with pytest.raises(InputError, match="html: not an MSCCL algorithm; the root element must be <algo>"):
        read_algorithm(written("<html/>"))


def test_a_few_bytes_do_not_become_millions_of_operations(written):
    steps = [step(n, "cpy", cnt=60000) for n in range(20)]
    with pytest.raises(InputError, match="more than 1000000 chunks are moved"):
        read_algorithm(written(algo([[(-1, -1, 0, steps)]], 60000)))


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


VALID = [ring(2), ring(3, inplace=1), ring(3, proto="LL"), all_gather_two()]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(VALID),
    st.lists(
        st.tuples(
            st.floats(0, 0.999),
            st.sampled_from(["-1", "0", "1", "2", "3", "99999999", "s", "rrcs", "nop", ""]),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_changed_attributes_are_read_or_refused(tmp_path, text, changes):
    for where, new in changes:
        values = list(re.finditer(r'"[^"]*"', text))
        chosen = values[int(where * len(values))]
        text = f'{text[: chosen.start()]}"{new}"{text[chosen.end() :]}'
    use(text.encode(), tmp_path)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(VALID), st.lists(st.tuples(st.floats(0, 0.999), st.binary(max_size=2)), max_size=4))
@example(VALID[0], [(0.0, b"\x00")])
def test_changed_bytes_are_read_or_refused(tmp_path, text, changes):
    data = bytearray(text.encode())
    for where, new in changes:
        place = int(where * len(data))
        data[place : place + 1] = new
    use(bytes(data), tmp_path)


def test_a_custom_collective_runs_unchecked(tmp_path, capsys):
    """As the examples of MSCCL's language that send every rank's buffer to the next one do."""
    gpus = [[(1, -1, 0, [step(0, "s")])], [(-1, 0, 0, [step(0, "r")])]]
    file = tmp_path / "next.xml"
    file.write_text(algo(gpus, 2, "custom"))
    assert main(["collective", "import", str(file)]) == 0
    assert "collective 'custom' is unknown: run it as custom, unchecked" in capsys.readouterr().out
    sized = ["--size", "4KiB", "--algorithm", str(file)]
    assert main(["run", "collective", "custom", "--infra", "switch:gpus=2", *sized]) == 0
    assert "checks  none" in capsys.readouterr().out


def test_the_command_line(tmp_path, capsys, written):
    file = str(written(ring(4)))
    assert main(["collective", "import", file]) == 0
    assert "collective: all_reduce\nranks: 4\n" in capsys.readouterr().out
    assert main(["collective", "import", file, "--json"]) == 0
    assert '"operations": 76' in capsys.readouterr().out
    assert main(["collective", "show", "all_reduce", "--algorithm", file, "--rank", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "rank 1, thread block 0, channel 0\n  rank 1 input[1] -> rank 2 scratch[5]\n  signal "
    )
    assert main(["collective", "show", "all_reduce", "--algorithm", "ring", "--rank", "9"]) == 2
    assert "rank 9 does not exist; ranks are 0 to 3" in capsys.readouterr().err
    command = ["collective", "export", "all_reduce", "--algorithm", "tree", "--ranks", "4", "--output"]
    for ending in ("json", "xml"):
        to = str(tmp_path / f"tree.{ending}")
        assert main([*command, to]) == 0
        sized = ["--size", "4KiB", "--algorithm", to]
        assert main(["run", "collective", "all_reduce", "--infra", "switch:gpus=4", *sized]) == 0
        assert "all_reduce/all_reduce_tree" in capsys.readouterr().out
    assert main([*command, str(tmp_path / "tree.txt")]) == 2
    assert "unknown file extension '.txt'; use FILE.json or FILE.xml" in capsys.readouterr().err


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
def test_a_send_and_its_receive_have_one_count(counts: tuple[int, int], tmp_path: Path) -> None:
    """Three chunks each way, in two messages: MSCCL would take the parts of one for those of another."""

    def block(peer: int, sent: tuple[int, int], received: tuple[int, int]) -> str:
        steps, at = [], 0
        for kind, sizes in (("s", sent), ("r", received)):
            offset = 0
            for size in sizes:
                into = f'srcbuf="i" srcoff="{offset}" dstbuf="o" dstoff="{offset + 3 * peer}" cnt="{size}"'
                steps.append(f'<step s="{at}" type="{kind}" {into}/>')
                at, offset = at + 1, offset + size
        return f'<tb id="0" send="{peer}" recv="{peer}" chan="0">{"".join(steps)}</tb>'

    gpus = "".join(
        f'<gpu id="{rank}" i_chunks="3" o_chunks="6" s_chunks="0">{block(1 - rank, (1, 2), counts)}</gpu>'
        for rank in range(2)
    )
    file = tmp_path / "algo.xml"
    head = (
        'name="swap" proto="Simple" nchannels="1" nchunksperloop="6" ngpus="2" coll="allgather" inplace="0"'
    )
    file.write_text(f"<algo {head}>{gpus}</algo>")
    if counts == (1, 2):
        assert read_algorithm(file).outputs == 6
        return
    with pytest.raises(
        InputError, match=r"sends rank . 1 chunk with its send 0 on channel 0, which receives 2"
    ):
        read_algorithm(file)
