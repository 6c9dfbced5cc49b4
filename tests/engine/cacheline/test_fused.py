"""Products fused with a collective, and waits for some moves: laws, the proof, and what they are for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, all_gather_gemm, gemm_reduce_scatter, list_operations, verify
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.gpu import tables as t
from astranb.workload.kernels import Product

from .support import check_path

SMALL = preset("h100-sxm").but(sms=4, l2_slices=8, hbm_channels=8)
GPU = preset("h100-sxm").but(sms=24)  # which has four waves of tiles
BOTH = (gemm_reduce_scatter, all_gather_gemm)


def simulate(collective, ranks=2, gpu=SMALL, **more):
    return anb.Simulation(f"ring:gpus={ranks}", collective, gpu=gpu, **more)


def ran(collective, ranks=2, **more):
    sim = simulate(collective, ranks, **more)
    sim.run()
    return sim


def part_of(fused, keep, kind=None):
    """Only some operations of a program, with nothing else of it."""

    def write(p):
        fused.algorithm(p)
        for block in p.blocks:
            block.operations = [op for op in block.operations if keep(op)]
        used = {c for b in p.blocks for op in b.operations if op.kind == "tile" for c in op.sources}
        p.fixed = {c: size for c, size in p.fixed.items() if c in used or (used and c.buffer != "output")}

    return Collective.of(kind or fused.name, fused.size, write, channels=1)


def is_product(op):
    return op.kind == "tile" or (op.kind == "move" and not op.sources)


def of_links(sim):
    return int(sim.engine.machine.links["bytes"][: len(sim.engine.fabric.links)].sum())


def of_l2(sim):
    """Lines that the L2s have served, but for reads of semaphores in vain."""
    machine = sim.engine.machine
    return int(machine.l2_slices["lines"].sum() - machine.blocks["polls"].sum())


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(BOTH), st.integers(2, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 3),
    st.sampled_from([(64, 64), (128, 64), (64, 128)]), st.sampled_from([1, 4]),
)  # fmt: skip
def test_a_fused_program_does_what_both_do(make, ranks, rows, columns, steps, tile, burst):
    """Time of matrix units, bytes on links and lines of the L2 are the sums of the two alone."""
    fused = make(ranks * rows * tile[0], columns * tile[1], 64 * steps, ranks, tile)
    assert verify(fused.program(ranks), fused.name) == []
    network = anb.net.Network(compute_lines=burst)
    together = ran(fused, ranks, network=network)
    product = ran(part_of(fused, is_product, "custom"), ranks, network=network)
    collective = ran(part_of(fused, lambda op: not is_product(op)), ranks, network=network)
    matrix = [int(sim.engine.machine.sms["matrix_ps"].sum()) for sim in (together, product, collective)]
    assert matrix[0] == matrix[1] > matrix[2] == 0
    assert of_links(together) == of_links(collective) > of_links(product) == 0
    assert of_l2(together) == of_l2(product) + of_l2(collective)
    assert together.now_ps >= max(matrix[0] // (ranks * SMALL.sms), collective.now_ps // 2)
    machine = together.engine.machine
    assert (machine.sms["free"] == t.ROOM).all()
    assert (machine.blocks["state"] == t.DONE).all()


@pytest.mark.parametrize("make", BOTH)
def test_communication_is_hidden(make):
    """Fused it takes less than one after the other, and than it would with all communication exposed."""
    fused = make(2048, 512, 1024, 4)
    together = ran(fused, 4, record=False)
    product = ran(part_of(fused, is_product, "custom"), 4, record=False).now_ps
    collective = ran(part_of(fused, lambda op: not is_product(op)), 4, record=False).now_ps
    assert max(product, collective) < together.now_ps < product + 0.6 * collective
    ranks = together.result.to_dataframe("ranks")
    assert (ranks["compute_ps"] >= together.engine.machine.sms["matrix_ps"].sum() / (4 * SMALL.sms)).all()
    assert (ranks["overlapped_comm_ps"] > 0.8 * product).all()
    assert (ranks["exposed_comm_ps"] + ranks["compute_ps"] + ranks["idle_ps"] == ranks["end_ps"]).all()


def test_one_after_the_other_takes_longer_than_fused():
    """The product as a library launches it and a collective, against both fused."""
    network = anb.net.Network(compute_lines=16)
    for fused, first in ((gemm_reduce_scatter(2048, 1536, 512), "kernels"),
                         (all_gather_gemm(2048, 1536, 512), "collective")):  # fmt: skip
        alone = Collective.of(fused.name, fused.size, "allpairs")
        kernels = [Product(2048, 1536, 512)]
        works = fused, anb.beside(kernels), anb.beside(kernels, alone, first=first)
        sims = [anb.Simulation("dgx-h100", work, gpu=GPU, network=network, record=False) for work in works]
        for sim in sims:
            sim.run()
        together, product, apart = (sim.now_ps for sim in sims)
        assert product < together < 0.9 * apart
        assert ", then " in works[2].title
    with pytest.raises(InputError, match="no order"):
        anb.beside([], alone, first="both")


@pytest.mark.parametrize("make", BOTH)
def test_steps_lead_back_and_a_state_is_saved(make, tmp_path):
    sim = simulate(make(256, 128, 128, 2, (64, 64)))
    while not sim.finished:
        before, events = sim.state_hash(), sim.events
        sim.step(2003)
        sim.save(tmp_path / "now.npz")
        assert anb.Simulation.load(tmp_path / "now.npz").state_hash() == sim.state_hash()
        after, reached = sim.state_hash(), sim.events
        sim.back(sim.events - events)
        assert sim.state_hash() == before
        sim.step(reached - events)
        assert sim.state_hash() == after
    check_path(sim)
    assert sim.critical_path().by_cause()["compute"] > 0


@pytest.mark.parametrize("make", BOTH)
def test_every_view_knows_its_products(make):
    sim = simulate(make(256, 128, 128, 2, (64, 64)))
    words = [text for block in list_operations(sim.engine.work.program(2)) for text in block["operations"]]
    assert sum(text.startswith("product 64 x 64 x 128 of rank") for text in words) == 2 * 8
    while not sim.finished:
        sim.step(997)
        assert sim.why("gpu[0]") is not None
        assert sim.contributions() is not None
        for name in sim.result.tables:
            assert sim.result.to_dataframe(name) is not None
    assert sim.contributions("panels").to_dataframe() is not None


# The proof ---------------------------------------------------------------------


def scatter(*, product=True, signals=True, waits=True):
    """Rank by rank: one block computes what the other adds."""

    def write(p):
        come = [p.semaphore(r) for r in range(p.ranks)]
        for me in p.everyone:
            you = me.right
            block = me.block()
            if product:
                block.product(64, 64, 64, (me.panels[0], me.panels[1]), me.input[you.number])
            block.put(me.input[you.number], you.scratch[0])
            block.signal(come[you.number], relaxed=not signals)
            other = me.block()
            other.product(64, 64, 64, (me.panels[0], me.panels[2]), me.input[me.number])
            if waits:
                other.wait(come[me.number])
            other.reduce([me.input[me.number], me.scratch[0]], me.output[0])

    return Collective.of("reduce_scatter", 2 * 64 * 64 * 2, write, channels=1)


def faults(collective, ranks=2):
    return {flaw.kind for flaw in verify(collective.program(ranks), collective.name)}


def test_the_proof_knows_products():
    assert faults(scatter()) == set()
    assert faults(scatter(product=False)) == set()  # then it is the rank's input
    assert faults(scatter(signals=False)) == {"fence"}
    assert "race" in faults(scatter(waits=False))


def test_an_input_is_not_there_before_it_is_computed():
    def early(p):
        for me in p.everyone:
            block, other = me.block(), me.block()
            block.copy(me.input[0], me.output[0])
            other.product(64, 64, 64, (me.panels[0], me.panels[1]), me.input[0])

    collective = Collective.of("all_gather", 64 * 64 * 2, early, channels=1)
    assert "result" in faults(collective, 1)


def test_a_product_waits_for_what_comes():
    def careless(p):
        come = [p.semaphore(r) for r in range(2)]
        for me in p.everyone:
            block = me.block()
            block.copy(me.input[0], me.output[me.number], me.right.output[me.number])
            block.signal(come[me.right.number])
            block.wait(come[me.number])
            other = me.block()
            other.product(64, 64, 64, (me.output[me.right.number], me.panels[1]), me.panels[2])

    collective = Collective.of("all_gather", 2 * 64 * 64 * 2, careless, channels=1)
    assert "race" in faults(collective)


# Bad input -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "say,says",
    [
        (
            lambda b, me: b.product(64, 64, 100, (me.panels[0], me.panels[1]), me.panels[2]),
            "a multiple of 64",
        ),
        (
            lambda b, me: b.product(0, 64, 64, (me.panels[0], me.panels[1]), me.panels[2]),
            "cannot compute a product of 0 x 64",
        ),
        (
            lambda b, me: b.product(64, 64, 64, (me.panels[0], me.right.panels[1]), me.panels[2]),
            "cannot compute",
        ),
        (lambda b, me: b.product(64, 64, 64, (me.panels[0], me.panels[1]), me.output[0]), "cannot store"),
        (
            lambda b, me: b.product(128, 64, 64, (me.panels[0], me.panels[0]), me.panels[2]),
            "16,384 B in one product and 8,192 B",
        ),
        (lambda b, me: b.product(100, 64, 64, (me.panels[0], me.panels[1]), me.panels[2]), "has 256 x 128"),
        (
            lambda b, me: b.product(64, 64, 64, (me.panels[0], me.panels[1]), me.input[0]),
            "has 4,096 B, a product",
        ),
        (lambda b, _: b.waitcnt(-1), "from 0, got -1"),
    ],
)
def test_products_that_cannot_be_are_refused(say, says):
    def write(p):
        say(p.rank(0).block(), p.rank(0))

    with pytest.raises(InputError) as error:
        simulate(Collective.of("custom", 2 * 4096, write, channels=1))
    assert says in str(error.value)


def test_what_no_file_can_hold_is_refused(tmp_path):
    for collective, says in ((scatter(), "products cannot be written"), (pipelined(1), "waitcnt cannot")):
        for name in ("plan.json", "plan.xml"):
            with pytest.raises(InputError, match=says):
                anb.collectives.write_algorithm(collective.program(2), tmp_path / name)


def test_a_size_that_is_not_that_of_the_tiles():
    wrong = Collective.of("reduce_scatter", 4096, scatter().algorithm, channels=1)
    assert faults(wrong) == {"size"}
    with pytest.raises(InputError, match="so that a slice is a tile"):
        simulate(wrong)


def test_engines_reach_one_node():
    with pytest.raises(InputError, match="do not reach other nodes"):
        anb.Simulation("single-tier:server=dgx-h100,servers=2", gemm_reduce_scatter(2048, 256, 64, 16))


def test_a_product_leaves_as_packets_too():
    """By LL: what waits finds the tiles by their flags, and the result is the promised one."""
    packets = Collective.of("reduce_scatter", 2 * 64 * 64 * 2, scatter().algorithm, channels=1, protocol="LL")
    assert faults(packets) == set()
    assert ran(packets).now_ps != ran(scatter()).now_ps


def test_products_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="m must be a multiple of 1024"):
        gemm_reduce_scatter(1000, 512, 256)


# Waits for some moves ------------------------------------------------------------

GENERIC = preset("generic").but(fence_ps=0)


def pipelined(most, *, parts=8, early=0):
    """Send part after part, each announced while ``most`` later ones are under way; -1: a fence after each.

    ``early``: announced so many parts too early.
    """

    def write(p):
        come = {(me.number, part): me.semaphore() for part in p.cut_into(parts) for me in p.everyone}
        for me in p.everyone:
            block, you = me.block(), me.right
            for part in p.cut_into(parts):
                block.put(me.input[0], you.scratch[0])
                if most < 0:
                    block.fence()
                    block.signal(come[you.number, part], relaxed=True)
                elif part >= most:
                    block.waitcnt(most + early)
                    block.signal(come[you.number, part - most], relaxed=True)
            for left in range(min(most, parts) - 1, -1, -1):
                block.waitcnt(left)
                block.signal(come[you.number, parts - 1 - left], relaxed=True)
            other = me.block()
            for part in p.cut_into(parts):
                other.wait(come[me.number, part])
                other.copy(me.scratch[0], me.output[0])

    return Collective.of("send_recv", parts * 4096, write, channels=1)


def test_later_stores_go_on_meanwhile():
    """The more moves may be under way, the faster; with none it is a fence after each move."""
    sims = {most: ran(pipelined(most), gpu=GENERIC) for most in (-1, 0, 1, 2, 4)}
    times = {most: sim.now_ps for most, sim in sims.items()}
    assert times[0] > times[1] > times[2] > times[4]
    assert times[0] > 1.5 * times[2]
    assert times[0] == times[-1]
    assert sims[0].events == sims[-1].events
    # A system-wide fence takes more than a wait for acknowledgements.
    wide = preset("generic")
    assert wide.fence_ps > 0
    assert ran(pipelined(-1), gpu=wide).now_ps > ran(pipelined(0), gpu=wide).now_ps


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 5), st.integers(1, 9), st.integers(0, 2))
def test_the_proof_knows_for_which_stores_it_waits(most, parts, early):
    found = faults(pipelined(most, parts=parts, early=early))
    assert found == ({"fence"} if early and parts > most else set())


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 4), st.integers(1, 6))
def test_it_is_passed_when_those_moves_are_complete(most, parts):
    sim = simulate(pipelined(most, parts=parts), gpu=SMALL)
    ops, blocks = sim.engine.machine.ops, sim.engine.machine.blocks
    waits = [int(op) for op in range(len(ops)) if ops["fence"][op] == t.COUNTED]
    while not sim.finished:
        sim.step(1)
        ops, blocks = sim.engine.machine.ops, sim.engine.machine.blocks
        for op in waits:
            first = int(blocks["first_op"][ops["block"][op]])
            moves = [k for k in range(first, op) if ops["kind"][k] == t.MOVE]
            left = op - int(ops["value"][op])
            before = [k for k in moves if k <= left]
            done = all(ops["ended_ps"][k] >= 0 for k in before)
            assert ops["started_ps"][op] < 0 or done
    assert (ops["ended_ps"][waits] >= 0).all()


def test_what_it_waits_for_is_explained():
    sim = simulate(pipelined(1), gpu=SMALL)
    said = ""
    while not sim.finished:
        sim.step(11)
        said += str(sim.why("gpu[0]"))
    assert "but those of its last moves" in said


def test_a_state_at_such_a_wait_is_saved(tmp_path):
    sim = simulate(pipelined(1), gpu=SMALL)
    while not (sim.engine.machine.blocks["state"] == t.DRAINING).any():
        sim.step(1)
    sim.save(tmp_path / "now.npz")
    again = anb.Simulation.load(tmp_path / "now.npz")
    for each in (sim, again):
        each.run()
    assert again.state_hash() == sim.state_hash()
    check_path(sim)
