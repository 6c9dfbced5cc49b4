"""All targets that start messages by the clock: messages to oneself, labels, and what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from astranb.core.errors import InputError
from astranb.traffic import Label, MessageGraph
from astranb.traffic.targets import translate
from astranb.workload.astrasim2 import RECV, SEND
from tests.traffic.targets.graphs import Builder

CLOCK = ["ns3", "omnet", "booksim", "pcap"]


def to_itself() -> MessageGraph:
    """A message to oneself, on which a message to another rank waits."""
    made = Builder(2, "own")
    made.send(0, 0, 100, 1)
    own = made.receive(0, 0, 100, 1)
    made.send(0, 1, 64, 2, [own])
    made.receive(1, 0, 64, 2)
    return made.graph()


@pytest.mark.parametrize("target", [*CLOCK, "packets"])
def test_messages_to_oneself_are_reported(target: str, tmp_path: Path) -> None:
    found = translate(to_itself(), target, tmp_path / "t")
    assert "1 of 2 messages: from a rank to itself: not sent" in found.not_expressed
    data = (tmp_path / "t").read_bytes()
    kept = {
        "ns3": b"1\n0 1 3 100 64 0e-9\n",
        "booksim": b"0 0 1 2\n",
        "packets": b"id,cycle,source,target,flits,delay,waits_for\n0,0,0,0,0,0,\n1,0,0,1,2,0,0\n",
        "omnet": b'sendScript = "0e-12 64"\n*.host[1]',
        "pcap": b"\x0a\x00\x00\x02",
    }[target]
    assert kept in data


@pytest.mark.parametrize("target", [*CLOCK, "flows", "packets"])
def test_labels_and_titles_are_not_in_the_text(target: str, tmp_path: Path) -> None:
    """Names come from files of others: whatever they hold, the output is the same."""
    graphs = []
    for name in ("plain", '"; rm\n[General]\n"'):
        nodes = [
            {"rank": 0, "kind": SEND, "peer": 1, "bytes": 64},
            {"rank": 1, "kind": RECV, "peer": 0, "bytes": 64},
        ]
        graphs.append(MessageGraph.of(2, nodes, labels=[Label(name, name, name, name)], title=name))
    texts = []
    for graph in graphs:
        found = translate(graph, target, tmp_path / "t")
        assert any("labels" in one and one.startswith("2 of 2 nodes") for one in found.not_expressed)
        texts.append((tmp_path / "t").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("target", [*CLOCK, "flows", "packets", "astrasim-ns3"])
def test_cycles_are_refused_and_nothing_is_written(target: str, tmp_path: Path) -> None:
    made = Builder(2, "cycle")
    for rank in range(2):
        received = made.receive(rank, 1 - rank, 1)
        made.send(rank, 1 - rank, 1, deps=[received])
    with pytest.raises(InputError, match="cycle: nodes wait for one another in a cycle"):
        translate(made.graph(), target, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []
