"""A replay reads as the run that it was recorded of: operations, collectives, messages, critical path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import astranb as anb
from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import InputError
from astranb.core.planes import pack, unpack
from astranb.traffic import Label, MessageGraph, record
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND, DimensionNetwork
from astranb.workload.models import Parallelism, workload

_OF_OPERATIONS = ("rank", "operation", "name", "what", "start_ps", "end_ps")
_OF_COLLECTIVES = ("name", "collective", "ranks", "start_ps", "last_start_ps", "end_ps", "skew_ps", "done")


@pytest.fixture(scope="module")
def runs() -> tuple[anb.Simulation, anb.Simulation]:
    """A training step, and its replay, both with congestion."""
    model = Parallelism(tensor=2, pipeline=2, data=2)
    step = workload("gpt3-125m", model, batch=4, microbatches=2, sequence=64)
    ran = anb.Simulation("dgx-h100", step, fidelity="congestion", cost="wire")
    again = anb.Simulation("dgx-h100", record(ran, fidelity="congestion"), fidelity="congestion")
    for sim in (ran, again):
        sim.run()
    return ran, again


def _columns(rows: Sequence[Mapping[Any, Any]], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_it_has_the_operations_and_collectives_of_the_run(
    runs: tuple[anb.Simulation, anb.Simulation],
) -> None:
    ran, again = (sim.result.to_dataframe("operations").to_dict("records") for sim in runs)
    assert _columns(again, _OF_OPERATIONS) == _columns(ran, _OF_OPERATIONS)
    ran, again = (sim.result.table("collectives") for sim in runs)
    assert _columns(again, _OF_COLLECTIVES) == _columns(ran, _OF_COLLECTIVES)
    assert len(ran) > 100
    assert runs[1].result.per_rank() == runs[0].result.per_rank()
    assert runs[1].lost_time().equals(runs[0].lost_time())


def test_its_messages_belong_to_operations_with_phase_and_chunk(
    runs: tuple[anb.Simulation, anb.Simulation],
) -> None:
    found = []
    for sim in runs:
        flights, about = sim.engine.flights(0).flights, sim.engine.about
        names = [about.label(row) for row in flights.operation.tolist()]
        columns = [column.tolist() for column in (flights.start_ps, flights.source, flights.target)]
        found.append(sorted(zip(names, *columns, flights.phase.tolist(), strict=True)))
    assert found[1] == found[0]


def test_its_critical_path_names_the_same_operations(runs: tuple[anb.Simulation, anb.Simulation]) -> None:
    ran, again = (sim.engine.critical_path() for sim in runs)
    assert [(s.start_ps, s.end_ps, s.cause) for s in again] == [(s.start_ps, s.end_ps, s.cause) for s in ran]
    assert [s.name.split(" (")[0] for s in again] == [s.name.split(" (")[0] for s in ran]


def test_it_can_be_inspected_asked_why_and_saved(
    runs: tuple[anb.Simulation, anb.Simulation], tmp_path: Path
) -> None:
    ran, again = (sim.fork() for sim in runs)
    for sim in (ran, again):
        sim.reset()
        sim.run(until="1 ms")
    for rank in range(8):
        assert dict(again.inspect(f"rank[{rank}]")["state"]) == dict(ran.inspect(f"rank[{rank}]")["state"])
        assert str(again.why(f"rank[{rank}]")) == str(ran.why(f"rank[{rank}]"))
    found = dict(again.inspect("rank[0].op[5]")["state"])
    assert (found["what"], found["algorithm"], found["state"]) == ("all_reduce", "ring", "done")
    assert again.inspect("rank[0].op[L0 fwd 0 attn sum]")["path"] == "rank[0].op[3]"
    with pytest.raises(InputError, match="no operation '139'"):
        again.inspect("rank[0].op[139]")
    again.save(tmp_path / "replay.npz")
    loaded = anb.Simulation.load(tmp_path / "replay.npz")
    assert loaded.inspect("rank[2]") == again.inspect("rank[2]")
    loaded.run()
    assert loaded.state_hash() == runs[1].state_hash()


def test_a_damaged_list_of_parts_is_refused(runs: tuple[anb.Simulation, anb.Simulation]) -> None:
    members = read_archive(runs[1].recipe(), "", "", "")
    tables = unpack(members["tables"], "", "", "")
    shared = json.loads(members["recipe.json"])["shared"]
    parts = next(one["parts"] for one in shared if one.get("parts"))
    for name, value in {"first": -1, "label": 10**6, "kind": 99, "bytes": -1}.items():
        column = tables[parts[name]["array"]].copy()
        column[:] = value
        damaged = pack({**tables, parts[name]["array"]: column})
        with pytest.raises(InputError, match=f"parts.{name}: out of range"):
            anb.Simulation.of_saved_bytes(write_archive({**members, "tables": damaged}))


def test_labels_of_jobs_are_named_and_what_has_no_label_is_its_kind() -> None:
    nodes = [
        {"rank": 0, "kind": COMPUTE, "duration_ps": 5_000, "label": 1},
        {"rank": 0, "kind": SEND, "peer": 1, "bytes": 4096},
        {"rank": 1, "kind": RECV, "peer": 0, "bytes": 4096},
    ]
    pair = MessageGraph.of(2, nodes, [(), (0,), ()], [Label(), Label("load", job="a")])
    sim = anb.Simulation("ring:gpus=2", pair, fidelity="congestion")
    sim.run()
    about = sim.engine.about
    assert [about.text(int(row)) for row in about.rows_of(0)] == ["a: load (compute)", "send, 4 KiB"]
    assert [about.text(int(row)) for row in about.rows_of(1)] == ["receive, 4 KiB"]


def test_a_replay_is_one_of_several_jobs() -> None:
    nodes = [
        {"rank": 0, "kind": SEND, "peer": 1, "bytes": 4096, "label": 1},
        {"rank": 1, "kind": RECV, "peer": 0, "bytes": 4096, "label": 1},
    ]
    pair = MessageGraph.of(2, nodes, (), [Label(), Label("load")])
    network = DimensionNetwork(["Switch"], [2], [50], [500])
    jobs = [
        anb.Job(pair.on(network), name=name, start=start) for name, start in (("a", "0 ns"), ("b", "5 us"))
    ]
    sim = anb.Simulation("single-tier:server=dgx-h100,servers=1", jobs=jobs, fidelity="congestion")
    sim.run()
    frame = sim.result.to_dataframe("flows")
    assert frame[["job", "operation"]].to_numpy().tolist() == [["a", "a: load"], ["b", "b: load"]]
    assert frame["start_ps"].tolist() == [0, 5_000_000]
    rank = int(frame["source"][1])
    assert sim.inspect(f"rank[{rank}].op[1]")["title"].endswith("(b: load)")
    assert dict(sim.inspect(f"rank[{rank}].op[1]")["state"])["job"] == "b"
