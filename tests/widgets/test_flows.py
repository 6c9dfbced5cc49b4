"""The flow table and the traffic matrix of runs by messages, worked out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.traffic import Label, MessageGraph
from astranb.widgets.feed import feed_of, unpack
from astranb.widgets.session import session_of
from astranb.widgets.views import answers_of
from astranb.workload.astrasim2 import RECV, SEND, DimensionNetwork


def _incast(fidelity: str, **options: Any) -> anb.Simulation:
    """Ranks 1 and 2 send 50,000 bytes to rank 0 at once, and rank 1 as many again behind them."""
    nodes = [
        *({"rank": 0, "kind": RECV, "peer": peer, "bytes": 50_000, "tag": tag}
          for peer, tag in ((1, 0), (2, 1), (1, 2))),
        {"rank": 1, "kind": SEND, "peer": 0, "bytes": 50_000, "tag": 0, "label": 1},
        {"rank": 1, "kind": SEND, "peer": 0, "bytes": 50_000, "tag": 2},
        {"rank": 2, "kind": SEND, "peer": 0, "bytes": 50_000, "tag": 1},
    ]  # fmt: skip
    graph = MessageGraph.of(3, nodes, [(), (), (), (), (3,), ()], [Label(), Label("<b>first</b>")])
    network = DimensionNetwork(["Switch"], [3], [50], [500])
    sim = anb.Simulation(network, graph, fidelity=fidelity, **options)
    sim.run()
    return sim


def _ask(sim: anb.Simulation, name: str, **options: Any) -> tuple[dict[str, Any], list[bytes]]:
    feed = feed_of(session_of(sim))
    found: tuple[dict[str, Any], list[bytes]] = answers_of(feed)[name](feed, options)
    return found


def test_two_messages_for_one_port_wait_for_one_another() -> None:
    frame = _incast("congestion").result.to_dataframe("flows")
    assert frame["bytes"].tolist() == [50_000] * 3
    # A microsecond on the wire, half a microsecond of latency on each of two links, which both carry it at
    # one time; the second message waits at the switch for as long as the first is on the wire.
    assert sorted(frame["duration_ps"][:2]) == [2_000_000, 3_000_000]
    assert sorted(frame["waited_ps"][:2]) == [0, 1_000_000]
    assert frame["done"].all()
    assert frame["complete"].all()
    rows = {(row["source"], row["tag"]): row for row in frame.to_dict("records")}
    assert rows[1, 0]["operation"] == "<b>first</b>"
    assert rows[1, 2]["start_ps"] == rows[1, 0]["end_ps"]
    assert frame["rate_GBps"].max() == pytest.approx(50_000 / 2e-6 / 1e9)


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
def test_a_message_is_a_row_however_many_links_it_crosses(fidelity: str, collective: str) -> None:
    made = getattr(anb.collectives, collective)("1 MiB", "ring" if collective == "all_reduce" else "allpairs")
    sim = anb.Simulation("dgx-h100", made, fidelity=fidelity)
    sim.run()
    frame = sim.result.to_dataframe("flows")
    assert len(frame) == sim.counts["message"]
    assert set(frame["collective"]) == {collective}
    sent = 7 * 2 if collective == "all_reduce" else 7
    assert frame["bytes"].sum() == 8 * sent * (1 << 20) // 8
    assert (frame["phase"] > 0).all()
    matrix = unpack("traffic", _ask(sim, "traffic")[1])["cells"].reshape(8, 8)
    wanted = np.zeros((8, 8))
    np.add.at(wanted, (frame["source"], frame["target"]), frame["bytes"])
    np.testing.assert_allclose(matrix, wanted)


def test_the_table_is_filtered_and_sorted() -> None:
    sim = _incast("congestion")
    found, _ = _ask(sim, "flows")
    assert (found["all"], found["shown"], found["dropped"]) == (3, 3, 0)
    assert found["rows"][0][2] == max(row[2] for row in found["rows"])  # the latest first
    assert _ask(sim, "flows", rank=2)[0]["shown"] == 1
    assert _ask(sim, "flows", text="FIRST")[0]["rows"][0][:2] == ["rank[1].op[0]", "link[1]"]
    assert _ask(sim, "flows", at_ps=2_500_000, now=True)[0]["shown"] == 2
    waits = _ask(sim, "flows", order="waited_ps")[0]["rows"]
    assert waits[0][10] == "1 µs"
    slowest = _ask(sim, "flows", order="rate")[0]["rows"]
    assert [row[9] for row in slowest] == sorted((row[9] for row in slowest), key=float)
    with pytest.raises(InputError, match="unknown order 'size'"):
        _ask(sim, "flows", order="size")


def test_windows_of_the_traffic_add_up() -> None:
    sim = _incast("congestion")
    whole = unpack("traffic", _ask(sim, "traffic")[1])["cells"]
    assert whole.reshape(3, 3).tolist() == [[0, 0, 0], [100_000, 0, 0], [50_000, 0, 0]]
    cuts = [0, 1_234_567, 2_500_000, sim.now_ps]
    parts = [
        unpack("traffic", _ask(sim, "traffic", window=[a, b])[1])["cells"]
        for a, b in itertools.pairwise(cuts)
    ]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)


def test_runs_without_a_recording_say_so() -> None:
    sim = _incast("congestion", record=False)
    assert "flows" not in sim.result.tables
    assert "record=True" in sim.result.absent["flows"]
    found, _ = _ask(sim, "flows")
    assert "record=True" in found["absent"]
    assert (found["rows"], found["all"]) == ([], 0)
    found, buffers = _ask(sim, "traffic")
    assert "record=True" in found["absent"]
    assert not unpack("traffic", buffers)["cells"].any()
