"""Delays and cost of the hierarchical network."""

import numpy as np
import pytest

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import HierarchicalNetwork


def test_without_compat_a_message_pays_for_every_dimension_that_it_crosses():
    shape = (("Ring", "Switch"), (2, 2), (2, 1), (500, 700), (50, 10))
    plain, peer = HierarchicalNetwork(*shape), HierarchicalNetwork(*shape, compat=True)
    src, dst = np.array([0]), np.array([3])
    assert plain.delay_ps(src, dst, 10_000).tolist() == [(500 + 1400 + 1000) * 1000]
    assert peer.delay_ps(src, dst, 10_000).tolist() == [int(1400 + 10_000 / (10 * (1 << 30) / 1e9)) * 1000]


def test_memory_is_the_lower_limit_of_a_message():
    network = HierarchicalNetwork(
        ("Switch",), (4,), (1,), (500,), (25,), nic_ns=(3,), router_ns=(10,), hbm_ns=(500,),
        hbm_bandwidth=(370,), hbm_scale=(1,), compat=True,
    )  # fmt: skip
    one, other = np.array([0]), np.array([1])
    assert network.delay_ps(one, other, 25).tolist() == [1016000]
    slow = HierarchicalNetwork(
        ("Switch",), (4,), (1,), (1,), (25,), hbm_ns=(500,), hbm_bandwidth=(370,), hbm_scale=(2,), compat=True
    )
    assert slow.delay_ps(one, other, 370).tolist() == [1002000]


def test_price_of_a_network():
    network = HierarchicalNetwork(("Switch", "Switch"), (16, 16), (6, 1), (500, 500), (25, 6.25))
    assert network.cost_dollars == 680_000
    pods = HierarchicalNetwork(("Switch",), (4,), (1,), (500,), (10,), kinds=("Pod",))
    assert pods.cost_dollars == pytest.approx(4 * 10 * (7.4 + 23.7 + 47.8))
    full = HierarchicalNetwork(("FullyConnected",), (8,), (7,), (500,), (50,))
    assert full.cost_dollars == 5600


def test_a_single_value_is_for_all_dimensions():
    torus = HierarchicalNetwork("Ring", units=[4, 4, 4], links=2, latency_ns=500, bandwidth=[32, 16, 16])
    listed = HierarchicalNetwork(("Ring",) * 3, (4, 4, 4), (2, 2, 2), (500, 500, 500), (32, 16, 16))
    assert torus == listed
    assert hash(torus) == hash(listed)
    assert torus.kinds == ("Node",) * 3
    assert HierarchicalNetwork("Ring", 8, 2, 500, 50).units == (8,)


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="lists differ in length: 2 in units, 3 in bandwidth; give"):
        HierarchicalNetwork("Ring", units=[4, 4], links=2, latency_ns=500, bandwidth=[32, 16, 16])
    with pytest.raises(InputError, match="unknown topology 'Rnig'; did you mean 'Ring'"):
        HierarchicalNetwork("Rnig", units=8, links=2, latency_ns=500, bandwidth=50)
    with pytest.raises(InputError, match="0 dimensions"):
        HierarchicalNetwork([], units=8, links=2, latency_ns=500, bandwidth=50)
