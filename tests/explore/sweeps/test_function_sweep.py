import math

import pytest
from bokeh.models import Scatter

import astranb as anb
from astranb.core.errors import InputError


def two_shot(p, *, order=1):
    """An all-reduce; with ``order`` -1 ranks send to the last rank first."""
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others[::order]:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others[::order]]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others[::order]:
            wires[me, you].send(block, me.output[me.number])
        for you in me.others[::order]:
            block.copy(wires[you, me].receive(block), me.output[you.number])


def forgets(p, *, order=1):
    for me in p.everyone:
        block = me.block()
        for you in me.others[::order]:
            block.put(me.input[you.number], you.output[me.number])


def swept(**options):
    given = {"sizes": ["8 KiB", "16 KiB"], "channels": [1, 2], **options}
    return anb.explore.sweep("switch:gpus=4", "all_reduce", two_shot, **given)


def test_every_combination_is_a_row_with_the_times_of_a_single_run():
    found = swept(params={"order": [1, -1]}, gpu={"unroll": [2, 8]})
    frame = found.to_dataframe()
    assert len(frame) == 16
    assert list(frame.columns[:4]) == ["size", "params.order", "channels", "gpu.unroll"]
    assert frame["proved"].all()
    assert {"time_ps", "algbw_Bps", "busbw_Bps", "events"} <= set(frame.columns)
    for row in (frame.iloc[3], frame.iloc[12]):
        one = anb.collectives.Collective.of(
            "all_reduce",
            row["size"],
            two_shot,
            channels=int(row["channels"]),
            params={"order": int(row["params.order"])},
        )
        sim = anb.Simulation("switch:gpus=4", one, gpu={"unroll": int(row["gpu.unroll"])})
        sim.run()
        assert sim.result.time_ps == row["time_ps"]
    assert frame["time_ps"].nunique() > 4


def test_a_wrong_program_is_a_row_with_its_fault():
    found = anb.explore.sweep(
        "switch:gpus=4", "all_reduce", forgets, sizes=["4 KiB"], params={"order": [1, -1]}
    )
    frame = found.to_dataframe()
    assert len(frame) == 2
    assert not frame["proved"].any()
    assert frame["fault"].str.contains("may end before the write is visible").all()
    assert found.best() == []


def test_a_run_that_cannot_end_is_a_row_with_its_error():
    def waits(p):
        for me in p.everyone:
            me.block().wait(me.semaphore())

    frame = anb.explore.sweep("switch:gpus=2", "all_reduce", waits, sizes=["4 KiB"]).to_dataframe()
    assert frame["status"].tolist() == ["failed"]
    assert frame["error"].str.contains("wait").all()


def test_names_of_the_library_and_protocols():
    found = anb.explore.sweep("switch:gpus=4", "all_gather", "ring", sizes=[4096], protocols=["Simple", "LL"])
    assert found.to_dataframe()["protocol"].tolist() == ["Simple", "LL"]
    line, rest = found.command(1)
    assert "--protocol=LL" in line
    assert rest == []


def test_the_figure_has_a_line_for_each_combination():
    found = swept(params={"order": [1, -1]})
    drawn = found.figure()
    names = {
        one.name for one in drawn.select({"type": object}) if getattr(one, "glyph", None).__class__ is Scatter
    }
    assert names == {f"order {order}, channels {count}" for order in (1, -1) for count in (1, 2)}
    assert "best by time_ps" in found._repr_html_()
    over_channels = anb.explore.sweep(
        "switch:gpus=4", "all_reduce", two_shot, sizes=["8 KiB"], channels=[1, 2]
    )
    assert over_channels.figure().xaxis[0].axis_label == "channels"
    with pytest.raises(InputError, match="no axis has several ascending numbers"):
        swept(sizes=["8 KiB"], channels=[]).figure()


def test_a_point_opens_and_its_command_has_its_parameters():
    found = swept(params={"order": [1, -1]})
    sim = found.simulation(2)
    assert sim.events == 0
    assert "order=-1" in sim.title
    line, rest = found.command(2)
    assert "--param=order=-1" in line
    assert rest == []


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"params": {"ordr": [1]}}, "two_shot has no parameter 'ordr'.*did you mean 'order'"),
        ({"params": {"order": []}}, "order has no values"),
        ({"gpu": {"unrol": [4]}}, "unknown number 'unrol'; did you mean 'unroll'"),
        ({"sizes": []}, "no sizes"),
        ({"sizes": ["8 XB"]}, "8 XB"),
        ({"protocols": ["LL1"]}, "LL1"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises(InputError, match=message):
        swept(**wrong)


def test_other_processes_find_the_same():
    here, there = swept().to_dataframe(), swept(workers=1).to_dataframe()
    assert here["time_ps"].tolist() == there["time_ps"].tolist()
    assert not math.isnan(here["time_ps"].sum())
