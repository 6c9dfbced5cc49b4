"""Layer tables and SimAI's workloads as traces: every loop, and every group."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from astranb.chakra import NodeType, check, faults, rank_faults, read_ranks
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.workload.astrasim1 import layer_table_trace, loop_names, read_simai, simai_trace

LAYER = "fc{n} -1 10{n} ALLGATHER 1{n} 20{n} REDUCESCATTER 2{n} 30{n} ALLREDUCE 3{n} 99"
HEADS = {
    "HYBRID_TRANSFORMER": " model_parallel_NPU_group: 2",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD": (
        " model_parallel_NPU_group: 2 checkpoints: 2 0 2 checkpoint_initiates: 1 1"
    ),
    "HYBRID_DLRM": " 1",
    "HYBRID_DLRM_ENHANCED": " 1",
}
SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 "
    "checkpoints: 0 checkpoint_initiates: 0\n3\n"
    "norm\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLGATHER_DP_EP\t64\t100\n"
    "attention\t-1\t1500\tALLREDUCE\t32\t1500\tALLREDUCE\t32\t1\tNONE\t0\t100\n"
    "moe\t-1\t1700\tALLTOALL_EP\t16\t1700\tALLTOALL_EP\t16\t1\tREDUCESCATTER\t128\t100\n"
)


def _table(folder: Path, loop: str) -> Path:
    file = folder / "w.txt"
    ending = " DATA" if loop == "HYBRID_CUSTOMIZED" else ""
    lines = [LAYER.format(n=n) + ending for n in range(3)]
    file.write_text("\n".join([loop + HEADS.get(loop, ""), "3", *lines]) + "\n")
    return file


@pytest.mark.parametrize("loop", sorted(set(loop_names()) & {*HEADS, "MICRO", "DATA", "DATA_REORDER", "MODEL",
    "DISTRIBUTED_INFERENCE", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_CUSTOMIZED"}))  # fmt: skip
def test_every_loop_has_a_trace_that_can_be_run(tmp_path: Path, loop: str):
    once, twice = (layer_table_trace(_table(tmp_path, loop), passes).trace for passes in (1, 2))
    check(twice)
    assert len(twice) == 2 * len(once)
    names = [name for row in range(len(once)) if (name := once.names[row]) and name.startswith("COMP")]
    assert (len(names) >= 3) == (loop != "MICRO")
    # One computation at a time, in the order of the loop.
    rows = [row for row in range(len(twice)) if twice.type[row] == NodeType.COMP]
    done: dict[int, set[int]] = {}
    for row in range(len(twice)):
        done[row] = {int(one) for one in twice.parents.of(row)}
        done[row] |= {one for parent in done[row].copy() for one in done[parent]}
    assert all(before in done[after] for before, after in pairwise(rows))


def test_what_is_recomputed_is_there_again(tmp_path: Path):
    trace = layer_table_trace(_table(tmp_path, "HYBRID_TRANSFORMER_FWD_IN_BCKWD")).trace
    names = [trace.names[row] for row in range(len(trace)) if trace.type[row] == NodeType.COMP]
    short = [(name or "").removeprefix("COMP_NODE_fc") for name in names]
    assert short == [
        *("0_FWD", "1_FWD", "2_FWD", "2_BWD_IG", "2_BWD_WG"),
        *("0_FWD", "1_BWD_IG", "1_BWD_WG", "0_BWD_IG", "0_BWD_WG"),
    ]


def test_a_table_names_its_groups_where_it_has_a_degree(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = _table(tmp_path, "HYBRID_TRANSFORMER")
    assert main(["chakra", "convert", str(file), "-o", str(tmp_path / "t"), "--npus", "4"]) == 0
    groups = json.loads((tmp_path / "t.groups.json").read_text())
    traces = read_ranks(tmp_path / "t")
    assert list(groups.values()) == [[0, 2], [1, 3], [0, 1], [2, 3]]
    for rank, trace in enumerate(traces):
        for row in range(len(trace)):
            name = trace.pg_name[row]
            assert name is None or rank in groups[name]
        forward = [trace.names[row] for row in range(len(trace))].index("COMM_COLL_NODE_fc0_ALLGATHER")
        assert groups[str(trace.pg_name[forward])] == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert not rank_faults(dict(enumerate(traces)))
    plan = json.loads((tmp_path / "t.job.json").read_text())
    assert (plan["tensor"], plan["data"], plan["pipeline"]) == (2, 2, 1)
    assert main(["chakra", "convert", str(file), "-o", str(tmp_path / "t"), "--npus", "3"]) == 2
    assert "3 ranks are not a multiple of 2 x 1 x 1 (TP, PP, EP)" in capsys.readouterr().err


def test_simais_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As its simulator has them: experts over neighbouring tensor-parallel groups."""
    (tmp_path / "s.txt").write_text(SIMAI)
    table = simai_trace(tmp_path / "s.txt")
    assert table.groups(8) == {
        "TP": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "DP": [[0, 2, 4, 6], [1, 3, 5, 7]],
        "EP": [[0, 2], [1, 3], [4, 6], [5, 7]],
        "DP_EP": [[0, 4], [1, 5], [2, 6], [3, 7]],
    }
    assert main(["chakra", "convert", str(tmp_path / "s.txt"), "-o", str(tmp_path / "t")]) == 0
    assert "SimAI workload" in capsys.readouterr().out
    traces = read_ranks(tmp_path / "t")
    assert len(traces) == 8
    for trace in traces:
        assert not faults(trace)
    assert not rank_faults(dict(enumerate(traces)))
    # Nanoseconds of the table, to less than one microsecond in sum.
    total = 2 * 1500 + 2 * 1700 + 5
    assert total // 1000 == int(traces[0].duration_us.sum())
    assert main(["chakra", "info", str(tmp_path / "s.txt")]) == 0
    assert "ranks: 8: TP 2, EP 2, PP 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("ep: 2", "experts: 2", "line 1: unknown 'experts'"),
        ("all_gpus: 8", "all_gpus: 0", "line 1: all_gpus is missing or 0"),
        ("checkpoints: 0", "checkpoints: 1", "1 checkpoints; SimAI's tables have none"),
        ("ALLTOALL_EP", "ALLTOALL_XP", "line 5: unknown collective ALLTOALL_XP"),
        ("\n3\n", "\n2\n", "line 5: more than the 2 layers"),
        ("\t1700", "\t-1", "line 5: forward compute time: -1 is out of range"),
    ],
)
def test_bad_workloads_of_simai_are_refused_by_line(tmp_path: Path, old: str, new: str, said: str):
    (tmp_path / "s.txt").write_text(SIMAI.replace(old, new, 1))
    with pytest.raises(InputError, match=said):
        read_simai(tmp_path / "s.txt")
