"""Layer tables and systems, given in short."""

import pytest

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import (
    HierarchicalNetwork,
    Layer,
    LayerAlgorithm,
    LayerSystem,
    LayerTable,
    LayerWorkload,
    Part,
)


def test_scales_are_those_of_32_bits_under_compat():
    layer = Layer("x", Part(36290323), Part(3429), Part(1, "ALLREDUCE", 1048576))
    table = LayerTable("DATA", (layer,))
    assert table.scaled(compat=True).layers[0].forward.compute_ns == 36290324
    assert table.scaled().layers[0].forward.compute_ns == 36290323
    scaled = table.scaled(0.41, 2, compat=True).layers[0]
    assert (scaled.input_gradient.compute_ns, scaled.weight_gradient.size) == (1405, 2097152)


def test_sizes_have_units_and_layers_are_any_sequence():
    layer = Layer("x", weight_gradient=Part(collective="ALLREDUCE", size="1 MiB"))
    assert layer.weight_gradient == Part(0, "ALLREDUCE", 1 << 20)
    assert LayerTable("DATA", [layer]) == LayerTable("DATA", (layer,))
    with pytest.raises(InputError, match="size must not be negative, got -1"):
        Part(size=-1)
    with pytest.raises(InputError, match="ambiguous: write MB"):
        Part(size="1 M")


def test_algorithms_are_those_of_a_system_file():
    ring, direct = LayerAlgorithm("ring"), LayerAlgorithm("direct", 4)
    assert LayerSystem({"all-reduce": "ring_direct4"}).algorithms == {"all-reduce": (ring, direct)}
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    assert LayerSystem("ring").algorithms == dict.fromkeys(kinds, (ring,))
    assert LayerSystem().algorithms == {}
    torus = HierarchicalNetwork("Ring", units=[4, 4], links=2, latency_ns=500, bandwidth=50)
    table = LayerTable("DATA", [Layer("x")])
    assert LayerWorkload(table, LayerSystem("ring"), torus).system == LayerSystem("ring_ring")
    named = LayerSystem({"all-reduce": (ring,)})  # as a system file that names one
    assert LayerWorkload(table, named, torus).system == named
    with pytest.raises(InputError, match="unknown algorithm 'rnig': use ring, direct"):
        LayerSystem("rnig")
    with pytest.raises(InputError, match="unknown collective 'all_reduce'; did you mean 'all-reduce'"):
        LayerSystem({"all_reduce": "ring"})
