"""Sends and receives that do not fit together are named by ``check`` and by ``run``."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import Trace, TraceBuilder, write
from astranb.chakra.traces.pairs import message_pairs
from astranb.cli import main

RANKS: Final = 3
_Message = tuple[int, int, int, int]
"""Source, target, tag and bytes."""

_MESSAGES = st.lists(
    st.tuples(
        st.integers(0, RANKS - 1),
        st.integers(0, RANKS - 1),
        st.sampled_from([0, 7, 1 << 30]),
        st.sampled_from([1, 2, 1 << 40]),
    ).filter(lambda one: one[0] != one[1]),
    max_size=12,
)


def traces(sent: list[_Message], received: list[_Message]) -> dict[int, Trace]:
    steps = [TraceBuilder() for _ in range(RANKS)]
    for source, target, tag, size in sent:
        steps[source].send(size, target, rank=source, tag=tag)
    for source, target, tag, size in received:
        steps[target].recv(size, source, rank=target, tag=tag)
    return {rank: step.build() for rank, step in enumerate(steps)}


@given(_MESSAGES, _MESSAGES, st.randoms(use_true_random=False))
def test_pairs_are_those_of_lists_by_key(sent: list[_Message], other: list[_Message], random) -> None:
    """The same messages in another order, and others: what Python's lists say of each key."""
    received = random.sample(sent, len(sent)) + (other if random.random() < 0.5 else [])
    lists: dict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, messages in enumerate((sent, received)):
        for source, target, tag, size in messages:
            lists[source, target, tag][side].append(size)
    expected = []
    for key, (ours, theirs) in sorted(lists.items()):
        pairs = list(zip(ours, theirs, strict=False)) if len(ours) == len(theirs) else []
        differ = [(one, its) for one, its in pairs if one != its]
        if differ or len(ours) != len(theirs):
            same = not differ or Counter(ours) == Counter(theirs)
            first = differ[0] if differ else (0, 0)
            expected.append((*key, len(ours), len(theirs), len(differ), int(same), *first))
    assert [tuple(row) for row in message_pairs(traces(sent, received)).tolist()] == expected


@pytest.fixture
def machine(tmp_path: Path) -> list[str]:
    (tmp_path / "net.yml").write_text(
        f"topology: [Switch]\nnpus_count: [{RANKS}]\nbandwidth: [50]\nlatency: [500]\n"
    )
    (tmp_path / "sys.json").write_text(
        '{"scheduling-policy": "LIFO", "endpoint-delay": 0, "preferred-dataset-splits": 1, '
        '"all-reduce-implementation": ["direct"], "collective-optimization": "localBWAware"}'
    )
    return ["--system", str(tmp_path / "sys.json"), "--network", str(tmp_path / "net.yml")]


MIB: Final = 1 << 20
SMALL, LARGE = (0, 1, 7, MIB), (0, 1, 7, 2 * MIB)
ORDER = (
    "2 messages received in another order of sizes than sent: rank 0 to 1, tag 7: 1,048,576 bytes sent, "
    "2,097,152 expected"
)
SIZE = (
    "1 message of another size than their receive's: rank 0 to 1, tag 7: 1,048,576 bytes sent, "
    "2,097,152 expected"
)
EXTRA = "1 send without a receive: rank 0 to 1, tag 7: 2 sends, 1 receives"


@pytest.mark.parametrize(
    "sent,received,said,checked,run",
    [
        ([SMALL, LARGE], [LARGE, SMALL], ORDER, 0, 0),
        ([SMALL], [LARGE], SIZE, 1, 2),
        ([SMALL, SMALL], [SMALL], EXTRA, 1, 0),
        ([SMALL, LARGE], [SMALL, LARGE], "", 0, 0),
    ],
    ids=["order", "size", "extra", "right"],
)
def test_check_and_run_name_them(
    sent: list[_Message],
    received: list[_Message],
    said: str,
    checked: int,
    run: int,
    machine: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for rank, trace in traces(sent, received).items():
        write(trace, tmp_path / f"job.{rank}.et")
    assert main(["chakra", "check", str(tmp_path / "job")]) == checked
    out = capsys.readouterr().out
    assert said in out
    assert ("nothing wrong" in out) == (not said)
    assert main(["run", "trace", str(tmp_path / "job"), *machine]) == run
    err = capsys.readouterr().err
    assert said in err
    assert bool(err) == bool(said)
