"""The systolic array: SCALE-sim's cycles, and layer tables made of shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import read_layer_table, write_layer_table
from astranb.workload.systolic import (
    GOOGLE_TPU,
    Array,
    Gemm,
    MatrixProduct,
    convolution,
    layer_table,
    read_shapes,
    roofline_ns,
)

SIZES = st.integers(1, 4096)
GEMMS = st.builds(Gemm, SIZES, SIZES, SIZES)
ARRAYS = st.builds(Array, st.integers(1, 256), st.integers(1, 256), st.sampled_from(["os", "ws", "is"]))
TABLE = "Layer,m,n,k\na,1024,128,512\nb,1024,512,16\n"


@pytest.mark.parametrize(
    "dataflow, cycles",
    [
        # M 1024, K 512, N 128 on 256 x 256: outputs 4 x 1 folds, weights 2 x 1, inputs 2 x 4.
        ("os", (256 + 256 + 512 - 2) * 4),
        ("ws", (2 * 256 + 256 + 1024 - 2) * 2),
        ("is", (2 * 256 + 256 + 128 - 2) * 8),
    ],
)
def test_cycles_are_scale_sims(dataflow, cycles):
    assert Array(256, 256, dataflow).cycles(Gemm(1024, 512, 128)) == cycles


@given(GEMMS, ARRAYS)
def test_an_array_is_never_used_more_than_it_is(gemm, array):
    assert 0 < array.utilisation(gemm) <= array.mapping_efficiency(gemm) <= 1
    assert array.utilisation(gemm) * array.cycles(gemm) * array.rows * array.columns == pytest.approx(
        gemm.macs
    )


@given(GEMMS, ARRAYS)
def test_more_work_never_takes_less(gemm, array):
    more = Gemm(gemm.m + 1, gemm.k + 1, gemm.n + 1)
    assert array.cycles(more) >= array.cycles(gemm)


@given(GEMMS, ARRAYS)
def test_turning_the_product_round_swaps_weights_and_inputs(gemm, array):
    other = {"ws": "is", "is": "ws", "os": "os"}[array.dataflow]
    turned = Array(array.rows, array.columns, other)
    if other != "os":
        assert turned.cycles(Gemm(gemm.n, gemm.k, gemm.m)) == array.cycles(gemm)
    else:
        square = Array(array.rows, array.rows, "os")
        assert square.cycles(Gemm(gemm.n, gemm.k, gemm.m)) == square.cycles(gemm)


def test_convolutions_are_products():
    assert convolution(224, 224, 3, 64, filter_height=3, filter_width=3, padding=1) == Gemm(50176, 27, 64)
    assert convolution(56, 56, 64, 256, stride=2, batch=4) == Gemm(4 * 28 * 28, 64, 256)
    with pytest.raises(InputError, match="has no output"):
        convolution(2, 2, 3, 4, filter_height=3, filter_width=3)


def test_roofline_is_flat_then_slanted():
    wide, narrow = Gemm(8192, 8192, 8192), Gemm(1, 8192, 8192)
    assert roofline_ns(wide, 100, 2000) == int(2 * wide.macs / 100e12 * 1e9)
    moved = 2 * (8192 + 8192 * 8192 + 8192)
    assert roofline_ns(narrow, 100, 2000) == pytest.approx(moved / 2000e9 * 1e9, abs=1)
    assert roofline_ns(narrow, 100, 2000, intercept_TFLOPS=1) > roofline_ns(narrow, 100, 2000)
    with pytest.raises(InputError, match="must be greater than zero"):
        roofline_ns(narrow, 100, 1, intercept_TFLOPS=1)


@pytest.mark.parametrize(
    "policy, forward, given_, weight",
    [
        # Of m 1024, k 512, n 128 over 8 NPUs in 2 packages of 4, numbers of two bytes.
        ("DATA", ((128, 512, 128), "NONE", 0), ((128, 128, 512), "NONE", 0),
         ((512, 128, 128), "ALLREDUCE", 512 * 128 * 2)),
        ("MODEL", ((1024, 512, 16), "ALLGATHER", 1024 * 128 * 2 // 8),
         ((1024, 16, 512), "REDUCESCATTER", 1024 * 512 * 2), ((512, 1024, 16), "NONE", 0)),
        ("HYBRID_DATA_MODEL", ((512, 512, 32), "ALLGATHER", 1024 * 128 * 2 // 8),
         ((512, 32, 512), "REDUCESCATTER", 1024 * 512 * 2 // 2),
         ((512, 512, 32), "ALLREDUCE", 512 * 128 * 2 // 4)),
        ("HYBRID_MODEL_DATA", ((256, 512, 64), "ALLGATHER", 1024 * 128 * 2 // 8),
         ((256, 64, 512), "REDUCESCATTER", 1024 * 512 * 2 // 4),
         ((512, 256, 64), "ALLREDUCE", 512 * 128 * 2 // 2)),
    ],
)  # fmt: skip
def test_shares_of_a_layer(policy, forward, given_, weight):
    table = layer_table([MatrixProduct("a", Gemm(1024, 512, 128))], policy, 8, packages=2)
    layer = table.layers[0]
    for part, (shape, collective, size) in zip(
        (layer.forward, layer.input_gradient, layer.weight_gradient), (forward, given_, weight), strict=True
    ):
        assert part.compute_ns == GOOGLE_TPU.cycles(Gemm(*shape))
        assert (part.collective, part.size) == (collective, size)


def test_a_table_of_shapes_becomes_a_workload_file(tmp_path):
    file = tmp_path / "shapes.csv"
    file.write_text(TABLE.replace("\n", "\r\n"))
    shapes = read_shapes(file)
    assert shapes == [MatrixProduct("a", Gemm(1024, 512, 128)), MatrixProduct("b", Gemm(1024, 16, 512))]
    table = layer_table(shapes, "MODEL", 8)
    write_layer_table(table, tmp_path / "workload.txt")
    again = read_layer_table(tmp_path / "workload.txt")
    assert (again.loop, again.layers) == (table.loop, table.layers)
    own = [MatrixProduct(s.name, s.gemm, "DATA") for s in shapes]
    write_layer_table(layer_table(own, "HYBRID_CUSTOMIZED", 8), tmp_path / "workload.txt")
    assert [layer.policy for layer in read_layer_table(tmp_path / "workload.txt").layers] == ["DATA", "DATA"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("Layer,m,n,k\n", "no layers"),
        ("Layer,m,n,k\na,1,2\n", "line 2: 3 columns"),
        ("Layer,m,n,k\na,1,2,3\nb,1,-2,3\n", "line 3: n is '-2'"),
        ("Layer,m,n,k\na,1,2,x\n", "line 2: k is 'x'"),
        ("Layer,m,n,k\na,1,2,3,DATTA\n", "line 2: unknown policy 'DATTA'; did you mean 'DATA'"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
    ],
)
def test_shapes_that_are_of_no_use(text, message, tmp_path):
    file = tmp_path / "shapes.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        read_shapes(file)


def test_layers_that_are_too_small():
    with pytest.raises(InputError, match="m 4 and n 128 for 8 and 1 parts"):
        layer_table([MatrixProduct("a", Gemm(4, 512, 128))], "DATA", 8)
    with pytest.raises(InputError, match="8 NPUs do not divide among 3 packages"):
        layer_table([MatrixProduct("a", Gemm(1024, 512, 128))], "HYBRID_DATA_MODEL", 8, packages=3)
    with pytest.raises(InputError, match="unknown policy 'None'"):
        layer_table([MatrixProduct("a", Gemm(1024, 512, 128))], "HYBRID_CUSTOMIZED", 8)
    with pytest.raises(InputError, match="dataflow 'xs'"):
        Array(8, 8, "xs")
