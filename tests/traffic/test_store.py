"""Patterns as files: the same again, or one clear line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from astranb.chakra import read_ranks
from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.traffic import (
    MessageGraph,
    Pattern,
    read_pattern,
    read_traffic,
    record,
    write_chakra,
    write_pattern,
)
from astranb.workload.astrasim2 import DimensionNetwork, load
from astranb.workload.models import Parallelism, workload


@pytest.fixture(scope="module")
def pattern() -> Pattern:
    degrees = Parallelism(tensor=2, pipeline=2, data=2)
    return record(workload("gpt3-125m", degrees, batch=4, microbatches=2, sequence=64).on())


@pytest.fixture
def stored(pattern: Pattern, tmp_path: Path) -> Path:
    return write_pattern(pattern, tmp_path / "step.parquet")


def test_a_pattern_is_the_same_again(pattern: Pattern, stored: Path) -> None:
    again = read_pattern(stored)
    one, other = pattern.unfold(), again.unfold()
    assert one.nodes.tolist() == other.nodes.tolist()
    assert one.deps.tolist() == other.deps.tolist()
    assert one.labels == other.labels
    assert (again.title, again.time_ns, dict(again.assumptions)) == (
        pattern.title, pattern.time_ns, dict(pattern.assumptions),
    )  # fmt: skip
    assert isinstance(read_traffic(stored), Pattern)


def test_the_file_has_units_and_names(stored: Path) -> None:
    frame = pq.read_table(stored).to_pandas()
    assert {"duration_ps", "start_ps", "bytes", "collective", "algorithm", "phase", "chunk"} <= set(frame)
    assert set(frame["kind"]) == {"compute", "send", "receive", "collective"}
    assert "ring" in set(frame["algorithm"])


def test_the_same_pattern_is_the_same_file(pattern: Pattern, stored: Path, tmp_path: Path) -> None:
    assert write_pattern(pattern, tmp_path / "again.parquet").read_bytes() == stored.read_bytes()


def _changed(stored: Path, **changes: Any) -> Path:
    table = pq.read_table(stored)
    document = json.loads(table.schema.metadata[b"astranb"]) | changes
    pq.write_table(table.replace_schema_metadata({"astranb": json.dumps(document)}), stored)
    return stored


@pytest.mark.parametrize(
    "changes",
    [
        {"class": [0, 0, 0, 0, 9, 1, 1, 1]}, {"class": "no list"}, {"rank_groups": [[5]] * 8},
        {"rank_peers": [[99] * 4] * 8}, {"groups": {"0": [0, 0]}}, {"groups": {"0": [0, 800]}},
        {"template_ranks": [1] * 9}, {"template_ranks": []}, {"time_ns": None}, {"assumptions": 3},
    ],
)  # fmt: skip
def test_a_damaged_document_is_refused(stored: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        read_pattern(_changed(stored, **changes)).unfold()
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("column", ["peer", "group", "template", "deps", "rank"])
def test_damaged_numbers_are_refused(stored: Path, column: str) -> None:
    table = pq.read_table(stored)
    place = table.column_names.index(column)
    old = table[column].to_pylist()
    new = [[10**6]] * len(old) if column == "deps" else [10**6] * len(old)
    pq.write_table(table.set_column(place, column, pa.array(new, table[column].type)), stored)
    with pytest.raises(InputError):
        read_pattern(stored)


def test_what_is_no_pattern_is_said(stored: Path, tmp_path: Path) -> None:
    table = pq.read_table(stored)
    pq.write_table(table.drop_columns(["phase"]), stored)
    with pytest.raises(InputError, match="column 'phase' is missing"):
        read_pattern(stored)
    pq.write_table(table.replace_schema_metadata(None), stored)
    with pytest.raises(InputError, match="not a pattern"):
        read_pattern(stored)
    junk = tmp_path / "junk.parquet"
    junk.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="cannot be read: Parquet magic bytes not found"):
        read_pattern(junk)
    with pytest.raises(InputError, match="No such file"):
        read_pattern(tmp_path / "nowhere.parquet")
    junk.write_text("hello")
    with pytest.raises(InputError, match="no traffic of a known format"):
        read_traffic(junk)
    with pytest.raises(
        InputError, match=r"nowhere\.parquet: No such file or directory; did you mean 'step\.parquet'"
    ):
        read_traffic(tmp_path / "nowhere.parquet")


def test_chakra_traces_are_the_same_traffic(pattern: Pattern, tmp_path: Path) -> None:
    graph = pattern.unfold()
    files = write_chakra(graph, tmp_path / "step")
    assert len(files) == graph.ranks
    traces = read_ranks(tmp_path / "step", graph.ranks)
    assert sum(len(trace) for trace in traces) == len(graph.nodes)
    sent = sum(int(trace.comm_size[trace.type == 5].sum()) for trace in traces)
    assert sent == graph.bytes


def test_chakra_traces_of_messages_run(tmp_path: Path) -> None:
    pair = MessageGraph.of(2, [
        {"rank": 0, "kind": 0, "duration_ps": 2_000_000},
        {"rank": 0, "kind": 2, "peer": 1, "bytes": 50_000},
        {"rank": 1, "kind": 3, "peer": 0, "bytes": 50_000},
    ], [(), (0,), ()])  # fmt: skip
    write_chakra(pair, tmp_path / "pair")
    (tmp_path / "system.json").write_text(json.dumps({"all-reduce-implementation": ["ring"]}))
    (tmp_path / "network.yml").write_text(
        "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"
    )
    work = load(tmp_path / "pair", tmp_path / "system.json", tmp_path / "network.yml")
    network = DimensionNetwork(["Ring"], [2], [50], [500])
    assert simulate(work).end_ns.tolist() == simulate(pair.on(network)).end_ns.tolist() == [3500, 3500]


def test_times_are_counted_in_picoseconds(stored: Path) -> None:
    frame = pq.read_table(stored).to_pandas()
    compute = frame[(frame["part"] == "class") & (frame["kind"] == "compute")]
    assert (compute["duration_ps"] % 1000 == 0).all()
    assert np.median(compute["duration_ps"]) > 1_000_000
