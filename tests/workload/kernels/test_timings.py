"""Tables of timings: what is read, what is refused; and that a fit finds the numbers that made a table."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.workload.kernels import GPUS, KernelTimes, fit_gpu, gpu_of_file
from astranb.workload.kernels.timings import COLUMNS, KERNELS, KernelTiming, read_facts, read_timings

HEAD = ",".join(COLUMNS)


def _file(tmp_path, *lines):
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


def test_a_table_is_read(tmp_path):
    path = _file(
        tmp_path, "# source: my GPU", "# use: blind", "# sms: 100", "# bf16_TFLOPs: 200", HEAD,
        "mine,gemm,bf16,m=8 n=16 k=32,4000", "mine,launch graph,bf16,kernels=1000,1500000",
    )  # fmt: skip
    first, second = read_timings(path)
    assert first == KernelTiming("mine", "gemm", "bf16", {"m": 8, "n": 16, "k": 32}, 4000, "my GPU", "blind")
    assert second.predicted_ns(KernelTimes(GPUS["h100-sxm"])) == 1000 * GPUS["h100-sxm"].graph_ns
    assert read_facts(path) == {"sms": 100, "bf16": 200 * 10**12}


@pytest.mark.parametrize(
    "line, said",
    [
        ("mine,gemm,bf16,m=8 n=16,4000", "k is missing"),
        ("mine,gemm,bf16,m=8 n=16 k=0,4000", "k is '0'"),
        ("mine,gemm,bf16,m=8 n=16 k=-1,4000", "k is '-1'"),
        ("mine,gemm,bf16,m=8 m=8 n=16 k=2,4000", "unknown or duplicate number 'm' of gemm"),
        ("mine,gemm,bf16,m=8 n=16 k=2,0", "ns is '0'"),
        ("mine,gemm,bf16,m=8 n=16 k=2,nan", "ns is 'nan'"),
        ("mine,gemm,int4,m=8 n=16 k=2,4000", "unknown precision 'int4'"),
        ("mine,gem,bf16,m=8 n=16 k=2,4000", "unknown kernel 'gem'; did you mean 'gemm'"),
        (",gemm,bf16,m=8 n=16 k=2,4000", "the GPU's name is missing"),
        ("mine,gemm,bf16,m=8 n=16 k=2", "4 values"),
    ],
)
def test_what_is_no_timing_is_refused_with_its_line(tmp_path, line, said):
    with pytest.raises(InputError, match=r"mine\.csv:2") as error:
        read_timings(_file(tmp_path, HEAD, line))
    assert said in str(error.value)


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(InputError, match="the columns are"):
        read_timings(_file(tmp_path, "gpu,time"))
    with pytest.raises(InputError, match="unknown use 'guess'"):
        read_timings(_file(tmp_path, "# use: guess", HEAD))
    with pytest.raises(InputError, match="sms is '0'"):
        read_facts(_file(tmp_path, "# sms: 0", HEAD))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        read_timings(tmp_path / "binary.csv")
    with pytest.raises(InputError, match="no timings"):
        fit_gpu([], GPUS["h100-sxm"])


@given(st.text(max_size=60), st.text(max_size=40))
@settings(max_examples=100)
def test_any_text_is_a_timing_or_an_input_error(tmp_path_factory, row, note):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text(f"#{note}\n{HEAD}\n{row}\n", encoding="utf-8", errors="replace")
    with contextlib.suppress(InputError):
        assert all(one.ns > 0 for one in read_timings(path))


_ATTENDED = {"sequences": 2, "heads": 16, "kept_heads": 4, "size": 128}


def _table(gpu):
    """Rows of every kernel, with the times that a GPU's numbers predict."""
    shapes = [
        *[("gemm", {"m": m, "n": 8192, "k": 8192}) for m in (1, 128, 4096, 8192)],
        *[("gemm", {"m": m, "n": 4096, "k": 1024}) for m in (1, 128, 4096, 8192)],
        ("gemm", {"m": 512, "n": 4096, "k": 4096, "copies": 8}),
        ("experts", {"tokens": 64, "hidden": 4096, "width": 1024, "experts": 16, "top": 2}),
        *[("attention", {**_ATTENDED, "queries": n, "keys": n}) for n in (512, 2048, 16384)],
        *[("attention backward", {**_ATTENDED, "queries": n, "keys": n}) for n in (2048, 16384)],
        *[("decode", {**_ATTENDED, "queries": 1, "keys": n}) for n in (512, 65536)],
        *[("pass", {"bytes": 1 << n}) for n in (12, 20, 30)],
        *[(name, {"kernels": 1000}) for name in ("launch graph", "launch stream")],
    ]
    assert {name for name, _ in shapes} == set(KERNELS) - {"linear", "prompt"}
    empty = [KernelTiming("mine", name, "bf16", shape, 1.0) for name, shape in shapes]
    empty += [KernelTiming("mine", "linear", "fp8", shape, 1.0) for name, shape in shapes if name == "gemm"]
    times = {precision: KernelTimes(gpu, precision, sustained=1.0) for precision in ("bf16", "fp8")}
    return [replace(row, ns=row.predicted_ns(times[row.precision])) for row in empty]


def test_a_fit_finds_the_numbers_that_made_the_table():
    real = replace(
        GPUS["h100-sxm"], matrices={"bf16": 0.7, "fp16": 0.7, "fp8": 0.6}, attention=0.5, attention_back=0.4,
        half_keys=1000, stream=0.75, feed=0.6, kernel_ns=4000, decode_ns=9000, graph_ns=1700, stream_ns=7000,
    )  # fmt: skip
    found = fit_gpu(_table(real), GPUS["h100-sxm"], name="mine")
    assert found.gpu.name == "mine"
    assert max(abs(error) for _, error in found.errors) < 0.02
    for precision, part in real.matrices.items():
        assert found.gpu.matrices[precision] == pytest.approx(part, rel=0.03)
    for number in found.changed:
        if "." not in number:
            assert getattr(found.gpu, number) == pytest.approx(getattr(real, number), rel=0.05), number


def test_odd_rows_do_not_move_a_fit_far():
    real = replace(GPUS["h100-sxm"], stream=0.6)
    rows = [row for row in _table(real) if row.kernel == "pass"]
    odd = replace(rows[-1], ns=10 * rows[-1].ns)
    found = fit_gpu([*rows, *rows, odd], GPUS["h100-sxm"])
    assert found.gpu.stream == pytest.approx(0.6, rel=0.03)
    assert found.gpu.matrices == GPUS["h100-sxm"].matrices


def test_a_fit_that_failed_is_refused(tmp_path):
    """Microseconds in a column of nanoseconds gave a GPU at the bounds of its numbers."""
    rows = [
        f"mine,{row.kernel},{row.precision},{' '.join(f'{k}={v}' for k, v in row.shape.items())},{row.ns:.3f}"
        for row in (replace(one, ns=one.ns / 1000) for one in _table(GPUS["h100-sxm"]))
    ]
    with pytest.raises(InputError, match=r"mine.csv: no numbers of a GPU like h100-sxm explain these times"):
        gpu_of_file(_file(tmp_path, HEAD, *rows), GPUS["h100-sxm"])


def test_a_file_makes_a_gpu(tmp_path):
    like = GPUS["h100-sxm"]
    facts = ["# sms: 120", "# memory_GBps: 3000", "# bf16_TFLOPs: 800"]
    real = replace(like, sms=120, memory_Bps=3000 * 10**9, peaks={**like.peaks, "bf16": 800 * 10**12})
    rows = [
        f"mine,{row.kernel},{row.precision},{' '.join(f'{k}={v}' for k, v in row.shape.items())},{row.ns:.0f}"
        for row in _table(real)
    ]
    found = gpu_of_file(_file(tmp_path, *facts, HEAD, *rows), like)
    assert (found.gpu.sms, found.gpu.peaks["fp16"]) == (120, 800 * 10**12)
    assert found.gpu.fitted.startswith(f"fitted to mine.csv: {len(rows)} rows, mean error 0%")
    assert KernelTimes(found.gpu).text.startswith("kernels of h100-sxm fitted to mine.csv")
    with pytest.raises(InputError, match="rows of 2 GPUs, none of b200-sxm"):
        gpu_of_file(_file(tmp_path, HEAD, rows[0], rows[1].replace("mine", "yours")), GPUS["b200-sxm"])
