"""Small traces of every type of node: written, read back and simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astranb.chakra import CASES, CollectiveType, NodeType, case, check, rank_faults, read, read_groups
from astranb.chakra.traces.schema import NUMBERS
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.messages import simulate
from astranb.workload.astrasim2 import load

NPUS = 4
_PUBLIC = (
    "one_metadata_node_all_types", "one_remote_mem_load_node", "one_remote_mem_store_node", "one_comp_node",
    "two_comp_nodes_independent", "two_comp_nodes_dependent", "one_comm_coll_node_allreduce",
    "one_comm_coll_node_alltoall", "one_comm_coll_node_allgather", "one_comm_coll_node_reducescatter",
    "one_comm_coll_node_broadcast", "one_comm_coll_node_barrier", "one_comm_send_node", "one_comm_recv_node",
)  # fmt: skip
"""Traces that mlcommons/chakra's src/generator/generator.py writes (21585d8)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all cases, and the files to simulate them on."""
    found = tmp_path_factory.mktemp("cases")
    assert main(["chakra", "generate", "--case", "all", "--npus", str(NPUS), "--output", str(found)]) == 0
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    (found / "system.json").write_text(json.dumps({f"{one}-implementation": ["direct"] for one in kinds}))
    (found / "network.yml").write_text(
        f"topology: [Switch]\nnpus_count: [{NPUS}]\nbandwidth: [50]\nlatency: [500]\n"
    )
    memory = {
        "memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 1000, "remote-mem-bw": 1,
    }  # fmt: skip
    (found / "memory.json").write_text(json.dumps(memory))
    return found


def test_the_public_generators_cases_are_there() -> None:
    assert set(_PUBLIC) <= set(CASES)
    types = {int(one) for name in CASES for one in case(name, NPUS).traces[0].type}
    types |= {int(one) for name in CASES for one in case(name, NPUS).traces[1].type}
    assert types == {int(one) for one in NodeType if one}
    collectives = {int(case(name, NPUS).traces[0].comm_type[0]) for name in CASES}
    assert collectives - {-1} == {int(one) for one in CollectiveType}
    attributes = case("one_metadata_node_all_types", 1).traces[0].node(0).attributes.values()
    assert {one.kind for one in attributes} == set(NUMBERS)


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_back_and_simulated(name: str, folder: Path) -> None:
    made = case(name, NPUS)
    traces = [read(folder / f"{name}.{rank}.et") for rank in range(NPUS)]
    assert traces == list(made.traces)
    for one in traces:
        check(one)
    assert rank_faults(dict(enumerate(traces))) == []
    groups = folder / f"{name}.groups.json"
    assert groups.exists() == bool(made.groups)
    if made.groups:
        assert read_groups(groups, NPUS) == made.groups
    run = simulate(
        load(
            folder / name, folder / "system.json", folder / "network.yml", memory=folder / "memory.json",
            groups=groups if made.groups else None,
        )
    )  # fmt: skip
    exact = {
        "one_metadata_node_all_types": 0,
        "one_comp_node": 5_000,
        "two_comp_nodes_independent": 10_000,  # a GPU does one at a time
        "two_comp_nodes_dependent": 10_000,
        "one_comm_send_node": 2 * 500 + 65536 // 50 + 1,  # over the switch: up and down
    }
    end_ns = int(run.end_ns.max())
    assert end_ns > 0 or name in exact
    if name in exact:
        assert end_ns == pytest.approx(exact[name], abs=2)


@pytest.mark.parametrize(
    "name,npus,text",
    [
        ("one_comp", 4, "unknown case 'one_comp'; did you mean 'one_comp_node'"),
        ("one_comm_recv_node", 3, "3 ranks do not divide into pairs or halves; take an even number"),
        ("one_comp_node", 0, "0 is out of range"),
    ],
)
def test_what_is_no_case_is_refused(name: str, npus: int, text: str) -> None:
    with pytest.raises(InputError, match=text):
        case(name, npus)
