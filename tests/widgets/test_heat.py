"""Bytes from GPU to GPU: worked out by hand, and in agreement with what links carried."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.widgets.feed import LineFeed
from astranb.widgets.session import session_of
from astranb.widgets.views.heat import MOST_CELLS, answer, traffic

KIB = 1024


def matrix_of(infra: str, collective: anb.collectives.Collective, **options: Any) -> np.ndarray:
    sim = anb.Simulation(infra, collective, record=False, **options)
    sim.run()
    return traffic(sim)


def test_a_ring_sends_to_the_right_only() -> None:
    matrix = matrix_of("dgx-h100", anb.collectives.all_gather("64 KiB", "ring"))
    expected = np.zeros((8, 8))
    for rank in range(8):
        expected[rank, (rank + 1) % 8] = 7 * 8 * KIB  # seven of the eight chunks pass by
    assert (matrix == expected).all()


@pytest.mark.parametrize("algorithm", ["allpairs", "get"])
def test_loads_and_stores_count_from_where_data_is_to_where_it_comes(algorithm: str) -> None:
    matrix = matrix_of("dgx-h100", anb.collectives.all_gather("64 KiB", algorithm))
    assert (matrix == 8 * KIB * (1 - np.eye(8))).all()


def test_a_broadcast_has_one_row() -> None:
    matrix = matrix_of("dgx-h100", anb.collectives.broadcast("32 KiB", "allpairs", root=3))
    assert (matrix[3] == 32 * KIB * (np.arange(8) != 3)).all()
    assert matrix.sum() == matrix[3].sum()


def test_half_way_it_is_what_has_been_issued_and_windows_add_up() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"), record=False)
    assert traffic(sim).sum() == 0
    sim.step(30_000)
    half = traffic(sim)
    sim.run()
    whole = traffic(sim)
    assert 0 < half.sum() < whole.sum() == 8 * 14 * 8 * KIB
    assert (half <= whole).all()
    cuts = [0, *sorted(np.random.default_rng(1).integers(0, sim.now_ps, 4).tolist()), sim.now_ps]
    parts = [traffic(sim, a, b) for a, b in itertools.pairwise(cuts)]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-9)
    assert traffic(sim, 0, 0).sum() == 0


def test_links_carried_what_the_matrix_says() -> None:
    """On a ring of links every byte to the right-hand neighbour crosses exactly one link."""
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("32 KiB", "ring"), record=False)
    sim.run()
    matrix, links = traffic(sim), sim.engine.machine.links
    gpu = sim.engine.machine.gpus[0]
    node = {int(n): rank for rank, n in enumerate(sim.engine.fabric.gpus)}
    for link in range(len(links)):
        a, b = node[int(links[link].src)], node[int(links[link].dst)]
        lines = matrix[a, b] / gpu.line_bytes
        # Lines with their headers, and besides signals and acknowledgements.
        assert links[link].bytes >= lines * (gpu.line_bytes + gpu.header_bytes)
        assert links[link].messages >= lines


def test_many_ranks_are_folded_without_losing_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_CELLS >= 128
    monkeypatch.setattr("astranb.widgets.views.heat.MOST_CELLS", 4)
    sim = anb.Simulation("dgx-h100", anb.collectives.all_gather("64 KiB", "allpairs"))
    sim.run()
    feed = LineFeed(session_of(sim))
    meta, (buffer,) = answer(feed, {})
    cells = np.frombuffer(buffer, "<f4").reshape(meta["rows"], meta["rows"])
    assert meta["each"] * meta["rows"] >= 8
    assert cells.sum() == meta["total"] == 56 * 8 * KIB
    meta, (buffer,) = answer(feed, {"window": [0, sim.now_ps / 2]})
    assert 0 < np.frombuffer(buffer, "<f4").sum() < cells.sum()
    with pytest.raises(InputError, match="a window is two times"):
        answer(feed, {"window": "now"})
