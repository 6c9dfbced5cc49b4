import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.gpu import tables as t
from astranb.gpu.memory import read_slice, serve, write_slice
from astranb.gpu.travel import spread


@given(st.integers(0, 2**31), st.integers(1, 128))
def test_a_line_has_a_slice(line, slices):
    assert 0 <= spread(line, slices) < slices


@given(st.integers(1, 64), st.integers(0, 1000))
def test_no_stride_hits_only_some_slices(stride, start):
    hit = {int(spread(start + stride * k, 80)) for k in range(4096)}
    assert len(hit) == 80


def test_consecutive_lines_spread_evenly():
    counts = np.bincount([spread(k, 80) for k in range(80 * 100)], minlength=80)
    assert counts.min() > 80
    assert counts.max() < 120


def test_a_server_is_a_fifo():
    servers = np.zeros(1, t.SERVER).view(np.recarray)
    assert serve(servers, 0, 100, 10) == 110
    assert serve(servers, 0, 105, 10) == 120
    assert serve(servers, 0, 500, 10) == 510
    assert (servers[0].queued_ps, servers[0].busy_ps, servers[0].lines) == (5, 30, 3)


def _tables(lines):
    slices = np.zeros(1, t.SLICE).view(np.recarray)
    slices[0].lines, slices[0].writer, slices[0].writing = lines, t.INITIAL, -1
    operands = np.zeros(4, t.OPERAND).view(np.recarray)
    operands["flag"] = -1
    operands["seen"] = t.TORN - 1
    return slices, operands


def _ops(lines, alike=0):
    """Ten operations that write this many lines; all write the same data if ``alike`` is above 0."""
    ops = np.zeros(10, t.OP).view(np.recarray)
    ops["lines"], ops["value"] = lines, alike
    return ops


def test_a_write_counts_when_its_last_line_is_there():
    slices, operands = _tables(2)
    ops = _ops(2)
    read_slice(slices, operands, 0, 9)
    write_slice(slices, operands, ops, 0, 5)
    read_slice(slices, operands, 1, 9)
    read_slice(slices, operands, 2, 5)  # the writer itself may read on
    write_slice(slices, operands, ops, 0, 5)
    read_slice(slices, operands, 3, 9)
    assert operands["seen"].tolist() == [t.INITIAL, t.TORN, t.INITIAL, 5]


def test_a_source_whose_lines_show_different_writes_is_torn():
    slices, operands = _tables(1)
    read_slice(slices, operands, 0, 9)
    write_slice(slices, operands, _ops(1), 0, 5)
    read_slice(slices, operands, 0, 9)
    assert operands[0].seen == t.TORN


@given(st.lists(st.sampled_from([3, 4]), min_size=1, max_size=12))
def test_two_writers_at_once_never_leave_a_complete_write(order):
    """A write is whole only if its lines came with no other's between them."""
    slices, operands = _tables(3)
    for op in order:
        write_slice(slices, operands, _ops(3), 0, op)
    runs = "".join(map(str, order))
    if int(slices[0].writing) < 0:
        assert runs.endswith(("333", "444"))
    if runs[:3] in ("333", "444") and len(runs) == 3:
        assert slices[0].writer == int(runs[0])


@given(st.permutations([3, 3, 3, 4, 4, 4]))
def test_writes_of_the_same_data_at_once_are_complete_when_one_of_them_is(order):
    slices, operands = _tables(3)
    operands["seen"] = t.NEVER_SEEN
    ops = _ops(3, alike=1)
    for n, op in enumerate(order, 1):
        write_slice(slices, operands, ops, op - 3, op)
        if 3 in (order[:n].count(3), order[:n].count(4)):
            assert slices[0].writer in (3, 4)
            assert slices[0].writing < 0
        else:
            assert slices[0].writer == t.INITIAL
            assert slices[0].writing >= 0


def test_other_data_between_writes_of_the_same_leave_a_mixture():
    slices, operands = _tables(2)
    operands["seen"] = t.NEVER_SEEN
    ops = _ops(2, alike=1)
    ops["value"][5] = 0
    for op in (3, 5, 3, 5, 4, 4):
        write_slice(slices, operands, ops, 0, op)
    assert slices[0].writing >= 0
