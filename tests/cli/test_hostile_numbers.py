"""Hostile numbers in every file of numbers that a command takes: a result, or one line and exit code 2."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from astranb.cli import main
from astranb.core.errors import Deadlock
from astranb.traffic import Label, MessageGraph, record, translate, write_pattern
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    DimensionNetwork,
    Operations,
    System,
    Workload,
)

_MOST_BYTES = 3 << 30
"""Memory of a command beyond this process's: less than the smallest of the requests."""
NUMBERS = (
    "-1", "0", "2147483647", "2147483648", "-2147483649", "4611686018427387904", "9223372036854775807",
    "9223372036854775808", "1" * 400, "1e400", "1e18", "nan", "inf", "-inf", "1.5", "", "text", "1,1", "\n",
)  # fmt: skip
MESSAGES = MessageGraph.of(
    3,
    [
        {"rank": 0, "kind": COMPUTE, "duration_ps": 5000, "start_ps": 0},
        {"rank": 0, "kind": SEND, "peer": 1, "bytes": 4096, "tag": 3, "start_ps": 5000},
        {"rank": 1, "kind": RECV, "peer": 0, "bytes": 4096, "tag": 3, "start_ps": 5000},
        {"rank": 1, "kind": SEND, "peer": 2, "bytes": 64, "start_ps": 9000},
        {"rank": 2, "kind": RECV, "peer": 1, "bytes": 64, "start_ps": 9000},
    ],
    [(), (0,), (), (2,), ()],
    [Label("layer", "all_gather")],
)
ROUTED = ["run", "exchange", "dispatch", "--infra", "switch:gpus=2", "--experts", "2", "--routing", "{}"]
TACOS = (
    "NPUs Count,2\nLinks Count,2\nChunks Count,2\nChunk Size,1024,B\nCollective Time,100,ps\n"
    "SrcID,DestID,Latency,Bandwidth,Chunks\n0,1,1,1,0:1:2\n1,0,1,1,1:1:2\n"
)
MODEL = ["run", "model", "gpt3-125m", "--infra", "switch:gpus=2", "--dp", "2"]


class Taker(NamedTuple):
    """A command, the file of numbers that it takes, and valid contents of it; {} is the file's path."""

    argv: list[str]
    file: str
    text: str


def _messages(name: str, target: str = "csv", file: str = "") -> Callable[[Path], str]:
    def made(folder: Path) -> str:
        translate(MESSAGES, target, folder / (file or "job.csv"))
        return (folder / name).read_text()

    return made


TAKERS: dict[str, tuple[list[str], str, str | Callable[[Path], str]]] = {
    "counts of experts": (ROUTED, "counts.csv", "3,1\n0,4\n"),
    "experts of tokens": (ROUTED, "chosen.csv", "rank,a\n0,1\n1,0\n"),
    "requests": (
        ["serve", "--model", "gpt3-125m", "--requests", "{}"],
        "requests.csv",
        "arrival_s,prompt,output\n0.5,100,4\n0.75,64,2\n",
    ),
    "timings": (
        [*MODEL, "--kernels", "{}"],
        "timings.csv",
        "# sms: 132\ngpu,kernel,precision,shape,ns\nmine,gemm,bf16,m=4096 n=4096 k=4096,200000\n",
    ),
    "rates": (
        [*MODEL, "--rates", "{}"], "rates.json", '{"gpu_peak_W": 700, "lifetime_years": 4, "gpu_dollars": 9}'
    ),
    "schedule": (
        ["collective", "import", "{}"],
        "tacos.csv",
        TACOS,
    ),
    "connections": (["traffic", "replay", "{}", "--infra", "switch:gpus=3"], "job.cm",
                    _messages("job.cm", "htsim", "job.cm")),
    "schedule of messages": (["traffic", "replay", "{}", "--infra", "switch:gpus=3"], "job.goal",
                             _messages("job.goal", "goal", "job.goal")),
    "topology": (
        ["run", "collective", "all_reduce", "--infra", "{}", "--size", "1MiB", "--fidelity", "congestion"],
        "topology.txt",
        "5 2 4\n3 4\n0 3 100Gbps 0.001ms 0\n1 3 100Gbps 500ns 0\n2 4 10MB/s 1us 0\n3 4 1Tbps 0ms 0.01\n",
    ),
    **{
        f"table of {name}": (["traffic", "show", "{folder}/job.csv"], f"job.{name}.csv",
                             _messages(f"job.{name}.csv"))
        for name in ("messages", "computations", "dependencies", "ranks")
    },
}  # fmt: skip


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit the memory of commands: one that takes more ends in a traceback."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def answered(argv: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command: it ends with a result, or with one line that says why not."""
    capsys.readouterr()
    with bounded_memory():
        code = main(argv)
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert code in (0, 2, Deadlock.exit_code), shown.err
    assert all(line.startswith("astranb: ") for line in lines), shown.err
    assert code == 0 or len(lines) == 1, shown.err
    return code


@pytest.fixture(params=sorted(TAKERS))
def taker(request: pytest.FixtureRequest, tmp_path: Path) -> Taker:
    """A command, with files beside the one that will be hostile."""
    argv, name, text = TAKERS[request.param]
    valid = text if isinstance(text, str) else text(tmp_path)
    words = [word.replace("{}", str(tmp_path / name)).replace("{folder}", str(tmp_path)) for word in argv]
    return Taker(words, str(tmp_path / name), valid)


@settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@example(changes=[])
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(NUMBERS)), max_size=3))
def test_hostile_numbers_give_a_result_or_one_line(
    taker: Taker, capsys: pytest.CaptureFixture[str], changes: list[tuple[float, str]]
) -> None:
    text = taker.text
    for place, number in changes:
        spots = list(re.finditer(r"(?<![\w.])-?\d+(?:\.\d+)?", text)) or list(re.finditer("", text))
        spot = spots[int(place * len(spots))]
        text = text[: spot.start()] + number + text[spot.end() :]
    Path(taker.file).write_text(text)
    code = answered(taker.argv, capsys)
    assert changes or code == 0


@pytest.mark.parametrize("name", ["counts", "chosen"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "array",
    [
        np.full((2, 2), 1 << 62),
        np.full((2, 2), (1 << 31) - 1),
        np.full((2, 2), 1 << 63, np.uint64),
        np.full((2, 2), -1),
        np.full((2, 2), np.nan),
        np.zeros((2, 1 << 24), np.int64),
        np.zeros((1 << 24, 2), np.int8),
        np.zeros((2, 0), np.int64),
        np.zeros((2, 1, 1), np.int64),
        np.zeros((2, 1, 1), np.bool_),
        np.array(7),
        np.array([["a", "b"]] * 2),
    ],
    ids=lambda array: f"{array.dtype} {array.shape} {array.flat[:1]}",
)
def test_hostile_arrays_give_a_result_or_one_line(
    name: str, array: np.ndarray, packed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays: dict[str, Any] = {name: array}
    (np.savez_compressed if packed else np.savez)(tmp_path / "routing.npz", **arrays)
    answered([word.replace("{}", str(tmp_path / "routing.npz")) for word in ROUTED], capsys)


def _values(column: pa.ChunkedArray) -> list[pa.Array]:
    """Return columns to put in the place of one."""
    size = len(column)
    numbers = [-1, 2**31, 2**62, 2**63 - 1, -(2**63)]
    return [
        *(pa.array([number] * size, pa.int64()) for number in numbers),
        pa.array([2**63] * size, pa.uint64()),
        pa.array([float("nan")] * size),
        pa.array([None] * size, pa.int64()),
        pa.array(["text"] * size),
        pa.array([[1]] * size),
    ]


def _tables(folder: Path) -> tuple[list[Path], list[str]]:
    translate(MESSAGES, "parquet", folder / "job.parquet")
    return sorted(folder.glob("job.*.parquet")), ["traffic", "show", str(folder / "job.parquet")]


def _pattern(folder: Path) -> tuple[list[Path], list[str]]:
    one = Operations.of([{"kind": COLLECTIVE, "collective": 0, "bytes": 65536}])
    ring = System.from_document({"all-reduce-implementation": ["ring"]})
    pattern = record(Workload([one] * 4, DimensionNetwork(["Ring"], [4], [50], [500]), ring))
    return [write_pattern(pattern, folder / "ring.parquet")], [
        "traffic",
        "show",
        str(folder / "ring.parquet"),
    ]


@pytest.mark.parametrize("made", [_tables, _pattern])
def test_hostile_columns_give_a_result_or_one_line(
    made: Callable[[Path], tuple[list[Path], list[str]]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files, argv = made(tmp_path)
    assert answered(argv, capsys) == 0
    for file in files:
        valid, table = file.read_bytes(), pq.read_table(file)
        for at, name in enumerate(table.column_names):
            for column in _values(table.column(name)):
                pq.write_table(table.set_column(at, name, column), file)
                answered(argv, capsys)
        file.write_bytes(valid)


@pytest.mark.parametrize("key", ["class", "rank_groups", "rank_peers", "template_ranks", "groups", "time_ns"])
def test_hostile_numbers_beside_columns_give_a_result_or_one_line(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,), argv = _pattern(tmp_path)
    table = pq.read_table(file)
    document = json.loads(table.schema.metadata[b"astranb"])
    values: tuple[Any, ...] = (
        -1, 2**31, 2**62, 2**63, 10**400, 1e308, "text", None, [], {}, [2**62], [-5], [[2**62]],
        [2**31] * 4, {"0": [2**62]}, {"0": [[]]}, {str(2**70): [0, 1]},
    )  # fmt: skip
    for value in values:
        text = json.dumps({**document, key: value})
        pq.write_table(table.replace_schema_metadata({"astranb": text}), file)
        answered(argv, capsys)
