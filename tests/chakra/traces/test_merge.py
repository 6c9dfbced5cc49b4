"""The traces of all ranks in one file, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import Node, Trace, check, merge, merged_groups, read, split
from astranb.cli import main
from astranb.core.errors import InputError
from tests.chakra.support import NODES, framed


def _lower(node: Node) -> Node:
    """Ids that leave room for those of other ranks."""
    data, control = (tuple(one >> 8 for one in some) for some in (node.data_deps, node.ctrl_deps))
    return replace(node, id=node.id >> 8, data_deps=data, ctrl_deps=control)


_RANKS = st.lists(st.lists(NODES.map(_lower), max_size=4), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(_RANKS, st.none() | st.text(st.characters(codec="utf-8"), max_size=9))
def test_what_is_merged_is_split_into_the_same_bytes(ranks, groups):
    traces = [Trace.of(some, version="", metadata={"rank": n}) for n, some in enumerate(ranks)]
    both = merge(traces, groups)
    again = split(Trace(both.data))
    assert [one.data for one in again] == [one.data for one in traces]
    assert merged_groups(both) == groups
    assert both.integers("merged_rank").tolist() == [n for n, some in enumerate(ranks) for _ in some]
    named = [set(one.tolist()) for one in np.split(both.id, np.cumsum([len(one) for one in traces])[:-1])]
    assert not set.intersection(*named) or len(named) == 1
    assert [one.name for one in both.nodes()] == [one.name for some in ranks for one in some]


def test_nodes_in_another_encoding_stay_equal():
    """Dependencies that are not packed, an id of too many bytes, fields in another order, unknown fields."""
    body = bytes([0x28, 3, 0x28, 4, 0x12, 1, 97, 0x08, 0x87, 0x80, 0x00, 0x18, 4, 0xA0, 0x06, 9])
    first = Trace(framed(b"\x0a\x050.0.4", body, body.replace(b"\x87", b"\x85")))
    second = Trace.of([Node(7, "b", 4, data_deps=(7,), other=b"\xa0\x06\x09")])
    again = split(Trace(merge([first, second]).data))
    assert [list(one.nodes()) for one in again] == [list(first.nodes()), list(second.nodes())]
    assert again[1].data == second.data


def test_a_job_is_merged_described_and_split(tmp_path, capsys):
    def do(*words: str) -> str:
        assert main(["chakra", *words]) == 0
        printed: str = capsys.readouterr().out
        return printed

    prefix = str(tmp_path / "step")
    do("generate", "--model", "gpt3-125m", "--dp", "2", "--tp", "2", "--output", prefix, "--gpu", "h100-sxm")
    (tmp_path / "step.job.json").unlink()  # how the step is divided is beside the traces, not in them
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    one = str(tmp_path / "job.et.gz")
    assert do("merge", prefix, "-o", one).startswith("4 ranks, 568 nodes, and ")
    check(read(one))
    assert do("info", one).splitlines()[:2] == [
        "4 ranks",
        "rank 0: 142 nodes, all_reduce 65 (284,232,192 bytes)",
    ]
    assert do("check", one) == "4 traces, 568 nodes: nothing wrong\n"
    for name in before:
        (tmp_path / name).unlink()
    do("split", one, "-o", prefix)
    (tmp_path / "job.et.gz").unlink()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_what_cannot_be_merged_or_split(tmp_path, capsys):
    one = Trace.of([Node((1 << 64) - 1, "a", 4)])
    with pytest.raises(InputError, match="ids are too large to be merged; number the nodes anew"):
        merge([one, one])
    both = merge([Trace.of([Node(1, "a", 4)])])
    with pytest.raises(InputError, match="holds several ranks already; split it first"):
        merge([both])
    with pytest.raises(InputError, match="this is not a merged trace; give what"):
        split(one)
    with pytest.raises(InputError, match="no traces to merge"):
        merge([])
    strange = Trace.of([*both.nodes(), Node(9, "b", 4)], metadata=both.metadata)
    with pytest.raises(InputError, match="node 9 'b': not of one of 1 ranks"):
        split(strange)
    assert main(["chakra", "merge", str(tmp_path / "none"), "-o", str(tmp_path / "x.et")]) == 2
    assert main(["chakra", "merge", str(tmp_path / "none"), "-o", "x.json"]) == 2
    assert "unknown file extension; use FILE.et" in capsys.readouterr().err
