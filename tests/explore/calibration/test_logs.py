"""Logs of nccl-tests, rccl-tests and NCCL Inspector, whole and damaged."""

import json

import pytest

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import joined_logs, read_log
from tests.explore.calibration.logs import HEAD, devices, row

OLD = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid 1821213 on AI-A100 device  0 [0x07] NVIDIA A100-SXM4-40GB
#   Rank  1 Pid 1821213 on AI-A100 device  1 [0x0f] NVIDIA A100-SXM4-40GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256   float     sum    10.14    0.10    0.10  0e+00    10.11    0.10    0.10  0e+00
        2048           512   float     sum    10.35    0.20    0.20  1e-07    10.24    0.20    0.20  0e+00
# Out of bounds values : 0 OK
"""
PER_ITERATION = """\
# nccl-tests version 2.18.4 nccl-headers=23003 nccl-library=23003
# Collective test starting: broadcast_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 graph: 4 unalign: 0
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%)
        1024           256     float    none       1    12.50    0.08    0.08       0    12.00    14.00    13.90     3.50    12.40    0.08    0.08     N/A    12.00    14.00    13.90     3.50  2026-01-02 03:04:05
"""  # noqa: E501


def read(tmp_path, text, name="log.txt", **options):
    file = tmp_path / name
    file.write_text(text)
    return read_log(file, **options)


def test_a_table(tmp_path):
    text = "# Collective test starting: all_reduce_perf\n" + devices(8) + HEAD + row(1 << 20, -1, 28.39)
    log = read(tmp_path, text + "# Avg bus bandwidth    : 110.464\n")
    assert (log.ranks, log.devices, log.launch) == (8, ("NVIDIA H100 80GB HBM3",), "stream")
    (one,) = log.rows
    assert (one.key, one.time_us) == (("all_reduce", 1 << 20, 0), 28.39)
    assert one.where.endswith("log.txt:14")


def test_an_old_table_without_roots(tmp_path):
    log = read(tmp_path, OLD, "all_reduce-a100.txt")
    assert (log.ranks, log.devices) == (2, ("NVIDIA A100-SXM4-40GB",))
    assert [(r.size, r.root, r.time_us) for r in log.rows] == [(1024, 0, 10.14), (2048, 0, 10.35)]


def test_times_of_iterations_a_graph_and_time_stamps(tmp_path):
    log = read(tmp_path, PER_ITERATION)
    assert log.launch == "graph"
    (one,) = log.rows
    assert (one.collective, one.root, one.time_us, one.spread) == ("broadcast", 1, 12.5, 0.035)


def test_what_launchers_print_and_several_tests_in_one_file(tmp_path):
    first = "$ mpirun -np 2 ./build/all_gather_perf_mpi -b 8\n" + devices(2) + HEAD + row(4096, -1, 10)
    second = "$ ./build/alltoall_perf -b 8\n" + devices(2) + HEAD + row(0, -1, 0.9) + row(4096, -1, 20)
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in (first + second).splitlines())
    noisy = text.replace(HEAD, "3 more processes have sent help message\n" + HEAD)
    log = read(tmp_path, noisy)
    assert [(r.collective, r.time_us) for r in log.rows] == [("all_gather", 10), ("all_to_all", 20)]


def document_of(**changes):
    result = {
        "size": 1024,
        "root": "    -1",
        "out_of_place": {"time": 20.0, "alg_bw": 0.1, "bus_bw": 0.1, "nwrong": 0.0},
        "out_of_place_per_iter": {"cv_pct": 2.0, "times_us": [12.0, 13.0, 90.0]},
        "in_place": {"time": 11.0, "alg_bw": 0.1, "bus_bw": 0.1, "nwrong": None},
    }
    config = {
        "nthreads": 1,
        "ngpus": 4,
        "graph": 0,
        "devices": [{"rank": 0, "device_info": "NVIDIA H100"}] * 2,
    }
    document = {"version": 2, "args": ["./build/all_reduce_perf", "-J"], "config": config}
    return json.dumps(
        document | {"results": [result | changes], "out_of_bounds": {"count": 0, "okay": "true"}}
    )


def test_the_json_of_nccl_tests(tmp_path):
    log = read(tmp_path, document_of())
    assert (log.ranks, log.devices) == (8, ("NVIDIA H100",))
    assert [(r.collective, r.size, r.time_us, r.spread) for r in log.rows] == [
        ("all_reduce", 1024, 13.0, 0.02)
    ]
    bare = read(tmp_path, document_of(out_of_place=None))
    assert bare.rows[0].time_us == 11.0


def inspector(coll, size, time_us, *, rank=0, sn=1):
    header = {"id": "0x1", "rank": rank, "n_ranks": 4, "nnodes": 1}
    perf = {"coll": coll, "coll_sn": sn, "coll_msg_size_bytes": size, "coll_exec_time_us": time_us}
    return json.dumps({"header": header, "metadata": {"pid": 1}, "coll_perf": perf}) + "\n"


def test_records_of_nccl_inspector(tmp_path):
    records = [
        inspector("AllReduce", 4096, t, rank=k, sn=n) for n in (1, 2, 3) for k, t in ((0, 9), (1, 10 + n))
    ]
    log = read(
        tmp_path, "".join([*records, inspector("AllGather", 1024, 7), '{"p2p_perf": {"p2p": "Send"}}'])
    )
    assert (log.ranks, log.launch) == (4, "none")
    # The size of an all-gather is that of one rank; nccl-tests prints that of all.
    assert [(r.collective, r.size, r.time_us) for r in log.rows] == [
        ("all_gather", 4096, 7),
        ("all_reduce", 4096, 12),
    ]
    assert log.rows[1].spread == pytest.approx(1 / 12)


GOOD = "$ ./all_reduce_perf\n" + devices(4) + HEAD


@pytest.mark.parametrize(
    "text,expected",
    [
        ("", "no table of measured times"),
        ("hello\n1 2 3\n", "no table of measured times"),
        (
            GOOD + "   16777216       4194304     float     sum      -1    149.9  111",
            "half a row of the table",
        ),
        (GOOD + "   1677", "half a row of the table"),
        (GOOD + row(1024, -1, 10, wrong=3), "wrong results of 1024 bytes"),
        (GOOD + row(1024, -1, 10) + "# Out of bounds values : 2 FAILED\n", "the test failed"),
        (
            GOOD + row(1024, -1, 10) + "n0: Test NCCL failure common.cu:1005 'unhandled system error'",
            "the test failed",
        ),
        (GOOD + row(1024, -1, 10) + " .. n0 pid 77: Test failure common.cu:844\n", "the test failed"),
        (GOOD + row(1024, -1, 0.001).replace("0.00", "nan"), "half a row of the table"),
        (devices(4) + HEAD + row(1024, -1, 10), "does not say which collective"),
        ("$ ./hypercube_perf\n" + HEAD + row(1024, -1, 10), "hypercube_perf has no counterpart"),
        (document_of(out_of_place={"time": 1.0, "nwrong": 4.0}), "wrong results of 1024 bytes"),
        (document_of()[:200], "this JSON document is not whole"),
        (document_of().replace('"count": 0', '"count": 7'), "the test found wrong results"),
        (
            inspector("AllReduce", 8, 1)
            + inspector("AllReduce", 8, 1).replace('"n_ranks": 4', '"n_ranks": 2'),
            "of 2, 4",
        ),
        ('{"coll_perf": {"coll": "AllReduce"}}', "'n_ranks' is missing"),
    ],
)
def test_damaged_logs_get_one_line(tmp_path, capsys, text, expected):
    file = tmp_path / "log.txt"
    file.write_text(text)
    assert main(["gpu", "fit", str(file), "--infra", "switch:gpus=4"]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert str(file) in err
    assert err.count("\n") == 1


def test_logs_of_two_machines_are_not_joined(tmp_path):
    logs = [read(tmp_path, f"$ ./reduce_perf\n{devices(n)}{HEAD}{row(64, 0, 9)}", f"{n}.txt") for n in (2, 4)]
    with pytest.raises(InputError, match=r"a log of 4 ranks, but .* has 2"):
        joined_logs(logs)
    assert joined_logs([logs[0], logs[0]]).rows == logs[0].rows
