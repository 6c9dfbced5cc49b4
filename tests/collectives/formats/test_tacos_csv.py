"""Schedules of TACOS: the samples are made here, in the form of its CsvWriter (src/writer/csv_writer.cpp)."""

import itertools

import pytest

import astranb as anb
from astranb.collectives import Collective, read_algorithm, verify
from astranb.core.errors import InputError

HEAD = "NPUs Count,{}\nLinks Count,{}\nChunks Count,{}\nChunk Size,65536,B\n"
NAMES = "SrcID,DestID,Latency (ns),Bandwidth (GB/s),Chunks\n"


def ring(ranks, each=1, cell="{chunk}"):
    """A ring around which every chunk goes; a link carries its own rank's chunks first."""
    rows = []
    for rank in range(ranks):
        order = [k * ranks + (rank - step) % ranks for step in range(ranks - 1) for k in range(each)]
        cells = [cell.format(chunk=c, start=100 * n, end=100 * n + 100) for n, c in enumerate(order)]
        rows.append(",".join([f"{rank},{(rank + 1) % ranks},500,50", *cells]))
    return HEAD.format(ranks, ranks, each * ranks) + NAMES + "\n".join(rows) + "\n"


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / "schedule.csv"
        file.write_text(text)
        return file

    return write


@pytest.mark.parametrize("ranks, each", [(2, 1), (4, 1), (4, 3), (5, 2)])
@pytest.mark.parametrize("cell", ["{chunk}", "{chunk}:{end}:{start}", "{chunk}:{start}:{end}"])
def test_a_schedule_is_a_correct_all_gather(written, ranks, each, cell):
    found = read_algorithm(written(ring(ranks, each, cell)))
    assert (found.collective, found.ranks, found.inputs, found.outputs) == (
        "all_gather",
        ranks,
        each,
        each * ranks,
    )
    collective = Collective.of("all_gather", 65536 * each * ranks, found)
    assert verify(collective.program(ranks), "all_gather") == []
    sim = anb.Simulation(f"ring:gpus={ranks}", collective)
    sim.run()
    assert sim.result.time_ps > 0
    assert found.summary()["checks"] == ["every wait has its signal"]


def test_the_order_is_that_of_the_times(written):
    text = ring(3, 1, "{chunk}:{start}:{end}")
    turned = "\n".join(
        ",".join([*row.split(",")[:4], *row.split(",")[:3:-1]]) if row[:1].isdigit() else row
        for row in text.splitlines()
    )
    plans = [read_algorithm(written(one)) for one in (text, turned)]
    moves = [[[step.targets for step in block.steps] for block in plan.blocks] for plan in plans]
    assert moves[0] == moves[1]


def test_links_that_are_not_used_and_what_the_file_expects(written):
    text = (
        ring(4).replace("Links Count,4", "Links Count,5").replace("SrcID", "Collective Time,3906.5,ns\nSrcID")
    )
    found = read_algorithm(written(text + "0,2,500,50,None\n"))
    assert found.notes == ["the file expects 3.906 µs on its own links, with chunks of 65536 B"]
    assert verify(Collective.of("all_gather", "1 MiB", found).program(4), "all_gather") == []


def test_a_chunk_that_comes_twice_is_stored_once(written):
    text = ring(3).replace("Links Count,3", "Links Count,4") + "0,2,500,50,0\n"
    found = read_algorithm(written(text))
    assert "left out: 1 chunk that the rank has already" in found.notes[0]
    assert verify(Collective.of("all_gather", "3 KiB", found).program(3), "all_gather") == []


@pytest.mark.parametrize(
    "replaced, text",
    [
        (("NPUs Count,4", "NPUs Count,0"), "line 1: NPUs Count is '0'; give a whole number from 1"),
        (("Chunks Count,4", "Chunks Count,5"), "line 3: 5 chunks of 4 ranks"),
        (("Links Count,4", "Links Count,7"), "line 2: Links Count is 7, but 4 links follow"),
        (("Chunks Count,4\n", ""), "Chunks Count is missing"),
        (("SrcID", "Source"), "no line begins with SrcID"),
        (("\n1,2,500,50,1,0,3", "\n1,1,500,50,1,0,3"), "line 7: duplicate link 1 to 1, or a link to itself"),
        (("\n1,2,500,50,1,0,3", "\n0,1,500,50,1,0,3"), "line 7: duplicate link 0 to 1"),
        (("\n1,2,500,50,1,0,3", "\n1,2,500"), "line 7: no link"),
        (("\n1,2,500,50,1,0,3", "\n1,2,500,50,1,0,9"), "line 7: a chunk is '9'"),
        (("\n1,2,500,50,1,0,3", "\n1,2,500,50,1:x,0,3"), "line 7: '1:x' has no times"),
        (
            ("\n1,2,500,50,1,0,3", "\n1,2,500,50,2,0,3"),
            "line 8: rank 2 sends chunk 1, which never comes to it",
        ),
        (("\n1,2,500,50,1,0,3", "\n1,2,500,50,1,0"), "never comes to rank"),
        (("SrcID", "Collective Time,x,ns\nSrcID"), "line 5: Collective Time is 'x'"),
    ],
)
def test_what_is_broken_is_said_with_its_line(written, replaced, text):
    changed = ring(4).replace(*replaced)
    assert changed != ring(4)
    with pytest.raises(InputError, match=text):
        read_algorithm(written(changed))


def test_xml_of_tacos_gives_the_chunks_of_a_rank(tmp_path):
    """As TACOS's XmlWriter writes it: nchunksperloop and o_chunks are those of one rank."""
    step = '<step s="{}" type="{}" srcbuf="o" srcoff="{}" dstbuf="o" dstoff="{}" cnt="1" {}/>'
    gpus = []
    for rank in range(3):
        came, goes = [(rank - 1) % 3, (rank - 2) % 3], [rank, (rank - 1) % 3]
        none, has = 'depid="-1" deps="-1" hasdep="0"', 'depid="-1" deps="-1" hasdep="1"'
        ins = [step.format(n, "r", c, c, has if n == 0 else none) for n, c in enumerate(came)]
        after = 'depid="0" deps="0" hasdep="0"'
        outs = [step.format(n, "s", c, c, after if n else none) for n, c in enumerate(goes)]
        gpus.append(
            f'<gpu id="{rank}" i_chunks="0" o_chunks="1" s_chunks="0">'
            f'<tb id="0" send="-1" recv="{(rank - 1) % 3}" chan="0">{"".join(ins)}</tb>'
            f'<tb id="1" send="{(rank + 1) % 3}" recv="-1" chan="0">{"".join(outs)}</tb></gpu>'
        )
    head = (
        'name="tacos" proto="LL128" nchannels="1" nchunksperloop="1" ngpus="3" coll="allgather" inplace="1"'
    )
    file = tmp_path / "tacos.xml"
    file.write_text(f"<algo {head}>{''.join(gpus)}</algo>")
    found = read_algorithm(file)
    assert (found.inputs, found.outputs) == (1, 3)
    assert verify(Collective.of("all_gather", "6 KiB", found).program(3), "all_gather") == []


@pytest.mark.parametrize("cut", range(0, 160, 7))
def test_a_file_cut_short_is_read_or_refused(written, cut):
    text = ring(4)[:-cut] if cut else ring(4)
    try:
        found = read_algorithm(written(text))
    except InputError:
        return
    assert verify(Collective.of("all_gather", "1 MiB", found).program(4), "all_gather") == []


def test_lines_in_any_order(written):
    head, *rows = ring(3).split("\n0,")
    lines = ["0," + rows[0]]
    body = [line for line in "\n".join(lines).splitlines() if line]
    for order in itertools.permutations(body):
        found = read_algorithm(written(head + "\n" + "\n".join(order) + "\n"))
        assert verify(Collective.of("all_gather", "3 KiB", found).program(3), "all_gather") == []
