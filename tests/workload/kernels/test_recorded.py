"""Products and attention from recorded shapes, and the SMs that recorded launches hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.gpu.tables import ROOM
from astranb.workload.kernels import Attention, Launch, Product, shaped_kernel
from astranb.workload.kernels.recorded import OPERATORS

H100 = preset("h100-sxm")


def types(*names):
    return str([f"Tensor({name})" for name in names])


BF16 = types(*["c10::BFloat16"] * 4)


@pytest.mark.parametrize(
    "operator, shapes, found",
    [
        ("mm", [[64, 32], [32, 16]], (64, 16, 32, 1, False)),
        ("_scaled_mm", [[64, 32], [32, 16], [], []], (64, 16, 32, 1, False)),
        ("bmm", [[5, 64, 32], [5, 32, 16]], (64, 16, 32, 5, False)),
        ("addmm", [[16], [64, 32], [32, 16], [], []], (64, 16, 32, 1, True)),
        ("baddbmm", [[5, 64, 16], [5, 64, 32], [5, 32, 16]], (64, 16, 32, 5, True)),
        ("linear", [[2, 32, 48], [16, 48], [16]], (64, 16, 48, 1, True)),
        ("linear", [[64, 48], [16, 48], []], (64, 16, 48, 1, False)),
        ("matmul", [[2, 3, 64, 32], [2, 3, 32, 16]], (64, 16, 32, 6, False)),
        ("matmul", [[2, 3, 64, 32], [32, 16]], (384, 16, 32, 1, False)),
    ],
)
def test_shapes_are_a_product(operator, shapes, found):
    one = shaped_kernel(f"aten::{operator}", str(shapes), BF16)
    assert one is not None
    assert one.precision == "bf16"
    assert isinstance(one.kernel, Product)
    assert (one.kernel.m, one.kernel.n, one.kernel.k, one.kernel.copies, one.kernel.bias) == found
    m, n, k, copies, _ = found
    assert one.flops == 2 * m * n * k * copies
    assert one.touched == 2 * copies * (m * k + k * n + m * n)


@pytest.mark.parametrize(
    "name, precision, each",
    [("c10::Half", "fp16", 2), ("c10::Float8_e4m3fn", "fp8", 1), ("float", "float32", 4)],
)
def test_the_type_is_the_precision(name, precision, each):
    one = shaped_kernel("aten::mm", "[[64, 32], [32, 16]]", types(name, name))
    assert one is not None
    assert (one.precision, one.number_bytes) == (precision, each)
    # fp8 has results of two bytes.
    assert one.touched == each * (64 * 32 + 32 * 16) + max(2, each) * 64 * 16


@pytest.mark.parametrize(
    "operator, first, values",
    [
        ("_flash_attention_forward", 0, [None] * 8 + [True]),
        ("_flash_attention_backward", 1, [None] * 11 + [True]),
        ("_efficient_attention_forward", 0, [None] * 9 + [1]),
    ],
)
def test_shapes_are_attention(operator, first, values):
    shapes = [[2, 512, 32, 128]] * first + [[2, 512, 32, 128], [2, 1024, 8, 128], [2, 1024, 8, 64]]
    one = shaped_kernel(f"aten::{operator}", str(shapes), BF16, str(values))
    assert one is not None
    backward = operator.endswith("backward")
    assert one.kernel == Attention(2, 512, 1024, 32, 8, 128, 64, causal=True, is_backward=backward)
    open_to_all = shaped_kernel(f"aten::{operator}", str(shapes), BF16)
    assert open_to_all is not None
    assert isinstance(open_to_all.kernel, Attention)
    assert not open_to_all.kernel.causal
    assert open_to_all.flops > one.flops


def test_heads_before_tokens():
    shapes = [[2, 32, 512, 128], [2, 32, 512, 128], [2, 32, 512, 128]]
    one = shaped_kernel(
        "aten::_scaled_dot_product_flash_attention", str(shapes), BF16, "[[], [], [], 0.0, True]"
    )
    assert one is not None
    assert one.kernel == Attention(2, 512, 512, 32, 32, 128, 128)


@pytest.mark.parametrize(
    "operator, shapes, said",
    [
        ("mm", [[64, 32], [31, 16]], "aten::mm of 64 x 32 and 31 x 16 is not a product of matrices"),
        ("mm", [[2, 64, 32], [32, 16]], "is not a product"),
        ("bmm", [[5, 64, 32], [4, 32, 16]], "aten::bmm of 5 x 64 x 32 and 4 x 32 x 16"),
        ("linear", [[64, 48], [48, 16]], "aten::linear of 64 x 48 and 48 x 16"),
        ("_flash_attention_forward", [[1, 8, 3, 64], [1, 8, 2, 64], [1, 8, 2, 64]], "is not attention"),
        ("_flash_attention_forward", [[1, 8, 2, 64], [1, 8, 2, 32], [1, 8, 2, 64]], "is not attention"),
    ],
)
def test_shapes_that_are_none_are_refused(operator, shapes, said):
    with pytest.raises(InputError, match=said):
        shaped_kernel(f"aten::{operator}", str(shapes), BF16)


@pytest.mark.parametrize(
    "operator, shapes, kinds",
    [
        ("aten::add", "[[64], [64]]", BF16),
        ("mine::mm", "[[64, 32], [32, 16]]", BF16),
        ("aten::mm", "[]", BF16),
        ("aten::mm", "[[64, 32]]", BF16),
        ("aten::mm", "[[64, 32], [32, 16]]", "[]"),
        ("aten::mm", "[[64, 32], [32, 16]]", types("c10::complex<float>", "c10::complex<float>")),
        ("aten::mm", "[[64, 0], [0, 16]]", BF16),
        ("aten::_flash_attention_forward", "[[64, 8, 64], [64, 8, 64], [64, 8, 64]]", BF16),
    ],
)
def test_what_shapes_do_not_say_is_nothing(operator, shapes, kinds):
    assert shaped_kernel(operator, shapes, kinds) is None


@given(
    st.sampled_from(sorted(OPERATORS)), st.text("[]{}(), 0123456789-'aeT", max_size=60), st.text(max_size=40)
)
def test_any_text_is_refused_or_nothing(operator, shapes, kinds):
    for text in (kinds, BF16):
        try:
            found = shaped_kernel(operator, shapes, text, kinds)
        except InputError:
            continue
        assert found is None or found.flops > 0


def test_deep_text_is_nothing():
    assert shaped_kernel("aten::mm", "[" * 60_000, BF16) is None
    assert shaped_kernel("aten::mm", "[" * (1 << 20), BF16) is None


@given(st.integers(1, 1 << 30), st.integers(1, 1024), st.integers(0, 255), st.integers(0, 227 << 10))
def test_a_launch_takes_its_time_and_no_more_than_there_is(blocks, threads, registers, shared):
    grid = Launch(blocks, threads, registers, shared).grid("one", 5_000_000, H100)
    assert 0 < grid.held <= ROOM
    assert grid.splits * grid.step_ps == 5_000_000
    assert grid.rows == min(blocks, H100.sms)
    # All of its blocks: on no SM more than fit, and in a whole number of waves.
    own = max(threads / 2048, 4 * registers * threads / H100.register_bytes, shared / H100.shared_bytes)
    assert grid.held <= max(1, int(1 / max(own, 1 / ROOM))) * (own * ROOM + 1)
    assert grid.splits == 1 or blocks >= grid.splits * H100.sms


def test_occupancy_is_that_of_registers_threads_or_shared_memory():
    for launch, part in (
        (Launch(132, 1024, 32, 0), 1 / 2),  # threads
        (Launch(132, 128, 128, 0), 1 / 4),  # registers: 64 KiB of 256
        (Launch(132, 128, 32, H100.shared_bytes // 2), 1 / 2),
        (Launch(264, 1024, 32, 0), 1),  # two blocks of an SM are one
    ):
        assert launch.grid("one", 1000, H100).held == pytest.approx(part * ROOM, rel=0.01)
