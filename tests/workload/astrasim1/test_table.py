"""Scaled layer tables."""

from astranb.workload.astrasim1 import Layer, LayerTable, Part


def test_scales_are_those_of_32_bits_under_compat():
    layer = Layer("x", Part(36290323), Part(3429), Part(1, "ALLREDUCE", 1048576))
    table = LayerTable("DATA", (layer,))
    assert table.scaled(compat=True).layers[0].forward.compute_ns == 36290324
    assert table.scaled().layers[0].forward.compute_ns == 36290323
    scaled = table.scaled(0.41, 2, compat=True).layers[0]
    assert (scaled.input_gradient.compute_ns, scaled.weight_gradient.size) == (1405, 2097152)
