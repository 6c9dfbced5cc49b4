"""A network of dimensions as an infrastructure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import dimensions
from astranb.net import compile_fabric


def test_each_dimension_has_its_links():
    fabric = compile_fabric(dimensions(["Ring", "Switch"], [4, 2], [50e9, 25e9], [500, 1000]).expand())
    rates = sorted(set(fabric.links["bandwidth_Bps"].tolist()))
    assert rates == [25_000_000_000, 50_000_000_000]
    # Two rings of four, and four switches with two GPUs each; both ways.
    assert (fabric.links["bandwidth_Bps"] == 50_000_000_000).sum() == 2 * 2 * 4
    assert (fabric.links["bandwidth_Bps"] == 25_000_000_000).sum() == 2 * 4 * 2
    assert set(fabric.links["latency_ps"].tolist()) == {500_000, 1_000_000}


@given(
    st.lists(
        st.tuples(st.sampled_from(["Ring", "FullyConnected", "Switch"]), st.integers(1, 5)),
        min_size=1,
        max_size=3,
    )
)
def test_links_are_counted_by_the_shapes(listed):
    shapes, sizes = zip(*listed, strict=True)
    count = len(listed)
    graph = dimensions(shapes, sizes, [1e9] * count, [1.0] * count).expand()
    gpus = int(np.prod(sizes))
    assert len(graph.gpus) == gpus
    per = {
        "Ring": lambda n: {1: 0, 2: 1}.get(n, n),
        "FullyConnected": lambda n: n * (n - 1) // 2,
        "Switch": lambda n: n if n > 1 else 0,
    }
    wanted = sum(per[shape](n) * gpus // n for shape, n in listed)
    assert len(compile_fabric(graph).links) == 2 * wanted


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="did you mean 'Ring'"):
        dimensions(["Rign"], [4], [1e9], [1])
    with pytest.raises(InputError, match="at most 4,096"):
        dimensions(["Ring"], [5000], [1e9], [1])
