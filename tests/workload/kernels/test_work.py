"""The kernels of backward passes, and the operations of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astranb.workload.kernels import Attention, Product, Stream

SIZES = st.integers(1, 1 << 14)


@given(SIZES, SIZES, SIZES, st.integers(1, 64), st.booleans())
def test_a_product_s_backward_pass_is_two_products_of_the_same_operations(m, n, k, copies, weights):
    one = Product(m, n, k, copies, weights=weights)
    back = one.backward()
    assert [other.flops for other in back[:2]] == [one.flops, one.flops]
    added = back[2:]
    assert [other.size for other in added if isinstance(other, Stream)] == (
        [8 * n * k * copies] if weights else []
    )


def test_attention_counts_what_the_mask_leaves():
    whole = Attention(2, 1024, 1024, 8, 2, 64, 64, causal=False)
    assert whole.flops == 2 * 2 * 8 * 1024 * 1024 * 128
    masked = Attention(2, 1024, 1024, 8, 2, 64, 64)
    assert masked.flops == whole.flops // 2
    (back,) = masked.backward()
    assert back.flops == masked.flops * 5 // 2
    # New tokens see all that are there, and half of one another.
    assert Attention(1, 100, 1100, 1, 1, 64, 64).flops == 2 * (100 * 1100 - 5000) * 128
    assert Attention(3, 1, 1000, 8, 2, 64, 64).flops == 2 * 3 * 8 * 1000 * 128


def test_keys_and_values_are_read_once_for_the_heads_that_share_them():
    one = Attention(4, 1, 1000, 32, 8, 128, 128)
    assert one.kept_numbers == 4 * 1000 * 8 * 256
    latent = Attention(4, 1, 1000, 128, 1, 576, 512, kept_size=576)
    assert latent.kept_numbers == 4 * 1000 * 576


def test_what_has_no_backward_pass_has_none():
    assert Stream(100, back=0.0).backward() == ()
    assert Stream(100).backward() == (Stream(150),)
