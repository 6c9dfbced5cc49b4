"""Expected times: published tables, simulations and bounds are those of others, and logs are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import CollectiveLog, LogRow, expected, library_run
from astranb.explore.calibration.expectation import period_us
from astranb.hardware import measured_collectives
from astranb.infragraph import resolve

MIB = 2**20
HEAD = "# size count type redop root time algbw busbw #wrong"


def log_of(*rows: tuple[int, float], collective: str = "all_reduce", **more: Any) -> CollectiveLog:
    return CollectiveLog(
        "log", rows=tuple(LogRow(collective, size, 0, us, 0.0, "log") for size, us in rows), **more
    )


def test_every_machine_that_a_table_names_is_a_blueprint_with_as_many_gpus() -> None:
    for table in measured_collectives():
        assert table.times_us
        assert table.source
        if table.infra:
            assert len(resolve(table.infra).expand().gpus) % table.boxes == 0


def test_what_is_printed_is_what_was_published_and_what_is_simulated() -> None:
    found = expected("dgx-h100", "all_reduce", sizes=["1 KiB", "64 MiB"])
    (table,) = [one for one in found.tables if one.id == "h100-ar-dgxc"]
    rows: list[Any] = found.rows.to_dict("records")
    small, large = rows
    assert small["published_us"] == table.times_us[1024]
    assert large["published_least_us"] <= large["published_us"] <= large["published_most_us"]
    for name, fidelity in (("lines_us", "cacheline"), ("messages_us", "congestion")):
        run = library_run("dgx-h100", "all_reduce", 1024, fidelity=fidelity).run()
        assert small[name] == run.now_ps / anb.units.us
    assert np.isnan(large["lines_us"])
    assert large["bound_us"] == pytest.approx(
        64 * MIB / 450e3
    )  # switches add: each byte goes up and down once
    assert found.notes == ()


def test_a_log_stands_beside_what_is_expected() -> None:
    found = expected("dgx-h100", "all_reduce", log=log_of((MIB, 55.0), (4 * MIB, 100.0)))
    assert found.rows.size_bytes.tolist() == [MIB, 4 * MIB]
    assert found.rows.log_us.tolist() == [55.0, 100.0]
    assert found.rows.log_ratio.tolist() == (found.rows.log_us / found.rows.published_us).tolist()


def test_a_log_of_a_graph_is_compared_with_graphs() -> None:
    plain, graph = (
        expected("mi300x", "all_reduce", log=log_of((1024, 14.0), graph=g)) for g in (False, True)
    )
    assert [one.in_graph for one in graph.tables] == [True]
    assert not any(one.in_graph for one in plain.tables)
    assert (graph.rows.messages_us < plain.rows.messages_us).all()
    assert (graph.rows.lines_us < plain.rows.lines_us).all()


def test_without_tables_or_a_library_the_bound_remains() -> None:
    unknown = expected("ring:gpus=4", "all_gather", sizes=["1 MiB"])
    assert [note.partition(":")[0] for note in unknown.notes] == [
        "not simulated",
        "no published table of all_gather on such a machine is known",
    ]
    assert unknown.rows[["messages_us", "lines_us", "published_us"]].isna().all(axis=None)
    assert unknown.rows.bound_us[0] == pytest.approx(0.75 * MIB / 100e3)  # two links of 50 GB/s


@pytest.mark.parametrize(
    "infra,collective,log,message",
    [
        ("dgx-h100", "allreduce", None, "unknown collective 'allreduce'; did you mean 'all_reduce'"),
        ("dgx-h100", "all_gather", log_of((MIB, 50.0)), "the log has no all_gather; it has all_reduce"),
        (
            "dgx-h100",
            "all_reduce",
            log_of((16 * MIB, 3.0)),
            "16 MiB in 3 us, where the links of dgx_h100-infra need",
        ),
        (
            "dgx-h100",
            "all_reduce",
            log_of((MIB, 50.0), ranks=4),
            "a log of 4 ranks, but dgx_h100-infra has 8 GPUs",
        ),
        ("dgx-h10", "all_reduce", None, "did you mean 'dgx-h100'"),
    ],
)
def test_what_cannot_be_is_said(infra: str, collective: str, log: CollectiveLog | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        expected(infra, collective, sizes=None if log else ["1 KiB"], log=log)


def test_the_command_takes_the_collective_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from astranb.cli import main

    file = tmp_path / "log.txt"
    file.write_text(
        f"# Collective test starting: all_reduce_perf\n{HEAD}\n65536 16384 float sum -1 20.5 3.2 5.6 0\n"
    )
    assert main(["gpu", "expected", "--infra", "dgx-h100", "--log", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "64 KiB" in printed
    assert "20.5  +5%" in printed
    assert "published h100-ar-dgxc:" in printed
    assert main(["gpu", "expected", "--infra", "dgx-h100"]) == 2
    assert "give --collective, as all_reduce" in capsys.readouterr().err
    assert anb.explore.read_log(file).rows[0].time_us == 20.5


@pytest.mark.parametrize("collective,first", [("broadcast", 0), ("reduce", 1)])
def test_calls_down_a_chain_follow_as_fast_as_the_rank_that_waits_for_none(collective, first):
    """The root of a broadcast, the first of the chain that ends at the root of a reduction."""
    sim = library_run("dgx-h100", collective, "256 KiB")
    sim.run()
    ends = [rank["end_ps"] / 1e6 for rank in sim.result.per_rank()]
    assert period_us(sim, collective) == ends[first] < 0.9 * sim.now_us
    assert period_us(sim, "all_reduce") == sim.now_us
