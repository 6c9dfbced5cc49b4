"""Time by line and by phase: nothing is lost, and nothing counted twice."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline.program_times import OUTSIDE
from astranb.engine.cacheline.time_classes import BLOCK_COLUMNS
from astranb.gpu import tables as t
from tests.engine.cacheline.support import CASES, check_path, made, made_of, playing_roles, posting


def check_conserved(sim):
    """Rows add up to blocks times the time, in each state to what the blocks were in it, and to the path."""
    for frame in (sim.result.by_line(), sim.result.by_phase()):
        blocks = sim.result.to_dataframe("ranks")
        assert frame["path_ps"].sum() == sim.result.time_ps
        assert frame["block_ps"].sum() == sim.result.time_ps * len(sim.engine.machine.blocks)
        assert (frame[[*BLOCK_COLUMNS.values(), "idle_ps"]].sum(axis=1) == frame["block_ps"]).all()
        assert (frame.select_dtypes("number").drop(columns=["start_ps", "end_ps"], errors="ignore") >= 0).all(
            axis=None
        )
        times = sim.result.to_dataframe("blocks")
        for column in BLOCK_COLUMNS.values():
            if sim.finished:  # a block's own sums are of states that have ended
                assert frame[column].sum() == times[column].sum(), column
        assert len(blocks) == sim.ranks


@settings(max_examples=20, deadline=None)
@given(case=CASES, size=st.integers(200, 20_000), part=st.floats(0.05, 1))
def test_time_by_line_is_all_the_time(case, size, part):
    kind, name, protocol = case
    try:
        sim = made(size, name, protocol, kind, record=False)
    except InputError:
        return  # it does not fit the infrastructure
    sim.run()
    check_conserved(sim)
    sim.goto(int(sim.now_ps * part))
    if sim.events:
        check_conserved(sim)


@pytest.mark.parametrize("program", [posting, playing_roles])
def test_signals_that_are_posted_and_roles_are_counted_once(program):
    sim = made_of("broadcast", "16 KiB", program, record=False)
    sim.run()
    check_conserved(sim)
    check_path(sim)
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        past = sim.fork()
        past.goto(int(sim.now_ps * part))
        check_conserved(past)


def test_a_block_in_a_fence_is_at_the_line_that_the_source_shows():
    """Of every line, the time spent there is the time for which ``where`` says that blocks are at it."""
    sim = made("8 KiB", "allpairs", record=False)
    seen: dict[int, int] = {}
    before_ps = 0
    at: list[int] = []
    while not sim.finished:
        sim.step(1, "cycle")
        for line in at:
            seen[line] = seen.get(line, 0) + sim.now_ps - before_ps
        before_ps = sim.now_ps
        spots = sim.where()
        at = spots["line"][(spots["part"] >= 0) & (spots["state"] != t.PENDING)].tolist()
    frame = sim.result.by_line().set_index("line")
    last = frame.index[-2]
    for line, ps in seen.items():
        here = frame.loc[line, "block_ps"]
        # What drains at the end of a block counts at its last line, though it is at none any more.
        assert here == ps or (line == last and here > ps), line


def test_the_path_is_divided_by_the_lines_of_its_segments():
    sim = made("64 KiB", "ring", record=False)
    sim.run()
    frame = sim.result.by_line()
    assert frame.iloc[-1]["text"] == OUTSIDE
    assert frame.iloc[-1]["line"] == 0
    path = sim.critical_path()
    source = sim.source
    here: dict[int, int] = {}
    for segment in path.line_segments:
        line = int(source.line[segment.op]) if segment.op >= 0 else 0
        here[line] = here.get(line, 0) + segment.end_ps - segment.start_ps
    assert {row.line: row.path_ps for row in frame.itertuples() if row.path_ps} == here


def test_lines_are_a_table_only_where_there_is_a_program():
    sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("8 KiB"), fidelity="congestion")
    sim.run()
    with pytest.raises(InputError, match="cacheline"):
        sim.result.by_line()
    with pytest.raises(InputError, match="phases of chunks"):
        sim.result.by_phase()
    with pytest.raises(InputError, match="cacheline"):
        sim.result.to_dataframe("lines")
