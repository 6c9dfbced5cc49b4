"""A file of another format is named by its format; files of a reader's own formats keep their errors."""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.core.file_formats import _outlines, format_of, names_format
from astranb.core.packed import MOST_RATIO, unpacked

SAMPLES: dict[str, str | bytes] = {
    "ns-3 topology": "3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 200Gbps 0.0005ms 0\n",
    "ns-3 flows": "2\n0 1 3 100 5000 2.0\n1 0 3 100 5000 2000e-9\n",
    "SimAI topology": "10 4 1 2 14 H100\n4 8\n0 4 900Gbps 0.000025ms 0\n",
    "HTSim topology": "# two racks\nNodes 4\nTiers 2\nPodsize 4\n\nTier 0\nDownlink_speed_Gbps 100\n",
    "BookSim network": "router 0 node 0 router 1 15\nrouter 1 node 1\n",
    "HTSim traffic": "Nodes 4\nConnections 1\n0->3 start 0 size 2000\n",
    "GOAL": "// by hand\n/* of two\n ranks */\nnum_ranks 2\nrank 0 {\nsend 8b to 1\n}\n"
    "rank 1 {\nrecv 8b from 0\n}\n",
    "ns-3 configuration": "ENABLE_QCN 1\n\nPACKET_PAYLOAD_SIZE 1000\n",
    "ns-3 dimensions": '{\n  "logical-dims": ["2", "2"]\n}\n',
    "SimAI workload": "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 "
    "all_gpus: 2 checkpoints: 0 checkpoint_initiates: 0\n1\nlayer -1 1 ALLGATHER_EP 8 1 NONE 0 1 NONE 0 1\n",
    "network": "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]  # GB/s\nlatency: [ 500 ]\n",
    "system": '{"scheduling-policy": "LIFO", "endpoint-delay": 10, "preferred-dataset-splits": 4}',
    "network 1.0": '{"topology-name": "Hierarchical", "dimensions-count": 1}',
    "system 1.0": "scheduling-policy: LIFO\npreferred-dataset-splits: 1\ncollective-optimization: baseline\n",
    "memory": '{"memory-type": "NO_MEMORY_EXPANSION"}',
    "layer table": "DATA\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n",
    "Kineto trace": '{"schemaVersion": 1, "traceEvents": []}',
    "execution trace": '{\n  "schema": "1.0.2-chakra.0.0.4", "pid": 1,\n  "nodes": []\n}',
    "plan": '{"name": "p", "collective": "allreduce", "protocol": "LL", "inplace": true, "gpus": []}',
    "InfraGraph": "name: box\ndevices:\n- name: server\n",
    "MSCCL": '<!-- two\n ranks --><!-- by hand -->\n<algo name="a" ngpus="2"></algo>',
    "TACOS": "NPUs Count,2\nLinks Count,2\nChunks Count,2\n",
    "NCCL topology": '<system version="1"><cpu numaid="0"/></system>',
    "lstopo": '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0"/>',
    "FlexFlow task graph": b"\x20\0\0\0\x1c\0\x30\0\x2c\0\x28\0" + bytes(60),
    "FlexFlow task graph, JSON": "{\n  ngpupernode: 1,\n  nnode: 2\n}\n",
    "NDJSON": '{"a": 1}\n{"b": {"traceEvents": 2}}\n',
    "gzip": gzip.compress(b"x"),
    "zstd": b"\x28\xb5\x2f\xfd\x24\x01\x09\x00\x00\x78\x00\x00\x00\x00",
    "zip": b"PK\x03\x04" + bytes(30),
    "SQLite": b"SQLite format 3\x00" + bytes(30),
    "PDF": b"%PDF-1.7\n%\xe2",
    "PNG": b"\x89PNG\r\n\x1a\n",
    "HTML": "<!doctype html>\n<html></html>",
}
INFRA = ["infra", "check"]
TRACES = ["run", "trace", "step", "--system", "no/such.json", "--network"]
LAYERS = ["run", "trace", "{layers}", "--system", "{system}", "--network"]
TASK_GRAPHS = {"FlexFlow task graph", "FlexFlow task graph, JSON"}
SIMULATORS = {"ns-3 topology", "HTSim topology", "BookSim network", *TASK_GRAPHS}
BINARY = {"gzip", "zip", "zstd", "SQLite"}  # as a workload no text, so a prefix of traces
READERS = [
    (INFRA, {"InfraGraph", *SIMULATORS}),
    (["infra", "convert"], {"NCCL topology", "lstopo", *SIMULATORS}),
    (TRACES, {"network", *SIMULATORS}),
    (LAYERS, {"network", "network 1.0"}),
    (
        ["run", "trace", "--network", "{network}", "--system", "{system}"],
        {"layer table", *BINARY, *TASK_GRAPHS},
    ),
    (["run", "trace", "{layers}", "--network", "{network}", "--system"], {"system 1.0"}),
    (["collective", "import"], {"plan", "MSCCL", "TACOS"}),
    (
        ["chakra", "info"],
        {"gzip", "zstd", "layer table", "SimAI workload", "Kineto trace", "execution trace", *TASK_GRAPHS},
    ),
    (["traffic", "show"], {"HTSim traffic", "GOAL"}),
]


@pytest.fixture
def sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what is converted is written there
    write(TraceBuilder().build(), "step.0.et")

    def make(key):
        text = SAMPLES[key]
        file = tmp_path / f"{key.replace(' ', '_')}.file"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return make


@pytest.mark.parametrize("key", SAMPLES)
def test_every_format_is_recognized(sample, key):
    found = format_of(sample(key))
    assert found is not None
    assert found.key == key


def test_a_chakra_trace_is_recognized(tmp_path, capsys):
    trace = TraceBuilder()
    trace.compute("a", num_ops=1)
    write(trace.build(), tmp_path / "t.0.et")
    found = format_of(tmp_path / "t.0.et")
    assert found is not None
    assert found.key == "Chakra"
    assert main(["infra", "check", str(tmp_path / "t.0.et")]) == 2
    assert (
        "this is a Chakra trace; run PREFIX of PREFIX.RANK.et with 'astranb run trace PREFIX'"
        in capsys.readouterr().err
    )


def test_what_is_none_of_them_is_not_recognized(tmp_path):
    for text in (
        "",
        "hello",
        "{}",
        "[]",
        "1 2",
        "\0" * 9000,
        "<a/>",
        "topology: x",
        " " * 16_000 + "1 " * 9000,
    ):
        (tmp_path / "f").write_text(text)
        assert format_of(tmp_path / "f") is None, text[:20]
    assert format_of(tmp_path) is None
    assert format_of(tmp_path / "missing") is None
    assert format_of("a\0b") is None


@pytest.mark.parametrize("key", SAMPLES)
def test_every_reader_names_the_format_of_what_it_cannot_read(sample, capsys, key):
    given = {
        name: str(sample(of))
        for name, of in [("layers", "layer table"), ("system", "system 1.0"), ("network", "network 1.0")]
    }
    file = str(sample(key))
    for words, own in READERS:
        exit_code = main([*(word.format(**given) for word in words), file])
        error = capsys.readouterr().err
        if key in own:
            assert f"{file}: this is " not in error, words
            continue
        assert exit_code == 2, words
        assert error.startswith(f"astranb: {file}: this is "), (words, error)
        assert error.count("\n") == 1
        assert "; " in error  # and says what to do


def test_only_errors_about_the_file_are_replaced(sample):
    @names_format("plan")
    def read(path):
        raise InputError("broken", where=str(path) if "HTML" in str(path) else "--size")

    with pytest.raises(InputError, match="this is a web page"):
        read(sample("HTML"))
    with pytest.raises(InputError, match="--size: broken"):
        read(sample("PDF"))
    with pytest.raises(InputError, match="--size: broken"):
        read({})


@pytest.mark.parametrize(
    "filler", [b" ", b"1", b"1 ", b"\n", b"#\n", b"<?x", b"<!-- -->", b'"', b"{", b"Nodes ", b"topology"]
)
def test_no_content_makes_it_slow(tmp_path, filler):
    from time import perf_counter

    (tmp_path / "f").write_bytes(filler * (20_000 // len(filler)))
    start = perf_counter()
    format_of(tmp_path / "f")
    assert perf_counter() - start < 0.5


def zstd(data: bytes) -> bytes:
    """Pack as the command does: in frames, the second one empty."""
    codec = pa.Codec("zstd")
    return b"".join(codec.compress(some, asbytes=True) for some in (data, b""))


PACKED: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, zstd]

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_an_object_is_recognized_by_its_members_wherever_they_are(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(_JSON, max_size=4))
    members = [(f"other {number}", value) for number, value in enumerate(drawn)]
    size = data.draw(st.sampled_from([0, 100, 20_000, 1 << 20]))
    members.append(
        ("long", random.Random(0).randbytes(size // 2).hex())
    )  # which gzip packs as it does traces
    members = data.draw(st.permutations([*members, ("traceEvents", [{"ph": "X", "name": "a"}])]))
    text = json.dumps(dict(members), indent=data.draw(st.sampled_from([None, 1])))
    packed = data.draw(st.sampled_from(PACKED))
    begin = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf", b" \n\t"]))
    lines = data.draw(st.sampled_from([0, 0, 1, 2]))  # of values before it, one a line
    first = json.dumps(dict(members) | {"traceEvents": 0, "other": size}).replace("traceEvents", "events")
    with TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        file.write_bytes(packed(begin + (lines * (first + "\n") + text).encode()))
        found = format_of(file)
    assert found is not None
    assert found.key == ("NDJSON" if lines else "Kineto trace")


@pytest.mark.parametrize("name", ["job.json", "job.json.gz", "job.json.zst"])
def test_packed_recordings_are_read(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    event = {"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 0, "tid": 0, "cat": "kernel"}
    text = json.dumps({"notes": random.Random(0).randbytes(1 << 19).hex(), "traceEvents": [event]}).encode()
    pack = PACKED[[".json", ".gz", ".zst"].index(Path(name).suffix)]
    file = tmp_path / name
    file.write_bytes(pack(text))
    assert main(["chakra", "info", str(file)]) == 0
    assert "format: Kineto trace\nevents: 1\n" in capsys.readouterr().out
    if name != "job.json":
        file.write_bytes(pack(text)[:-9000])
        for verb in ("info", "check", "statistics"):
            assert main(["chakra", verb, str(file)]) == 2
            assert re.search("the (gzip|zstd) file ends at byte|packed; unpack it", capsys.readouterr().err)
    if name.endswith(".zst"):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert main(["chakra", "info", str(file)]) == 2
        error = capsys.readouterr().err
        assert f"{file}: " in error
        assert "unpack it" in error
        assert error.count("\n") == 1


@given(
    st.binary(max_size=3000), st.sampled_from([0, 1 << 10, 1 << 22]), st.sampled_from([gzip.compress, zstd])
)
def test_what_is_packed_is_unpacked_within_bounds(
    some: bytes, more: int, pack: Callable[[bytes], bytes]
) -> None:
    """Bytes that repeat unpack to thousands of times their size: those are refused."""
    whole = some + bytes(more)
    packed = pack(whole)
    if len(whole) > max(1 << 20, MOST_RATIO * len(packed)):
        with pytest.raises(InputError, match="unpacks to more than"):
            unpacked(packed, "a file", 1 << 30)
    else:
        assert unpacked(packed, "a file", 1 << 30) == whole


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64])
def test_where_parts_end_does_not_matter(step: int) -> None:
    text = rb'{"a\"{": {"b": [1, {"c": "}\\"}]}, "d" : "[", "traceEvents": []}'
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    names = [re.findall(rb'"((?:[^"\\]|\\.)*)"\s*:\Z', outline)[0] for outline in _outlines(parts)]
    assert names == [rb"a\"{", b"d", b"traceEvents"]
