"""Dimensions that each policy uses, and dimensions that a model-parallel group splits."""

import pytest

from astranb.core.errors import InputError
from astranb.workload.astrasim1 import HierarchicalNetwork
from astranb.workload.astrasim1.levels import involved, levels_of


def test_dimensions_of_each_policy():
    torus = HierarchicalNetwork(("Ring",) * 3, (4, 4, 4), (2,) * 3, (1,) * 3, (50,) * 3)
    levels = levels_of(torus, None, "w")
    assert involved("DATA", levels, "w") == (0, 0, 7)
    assert involved("MODEL", levels, "w") == (7, 7, 0)
    assert involved("HYBRID_DATA_MODEL", levels, "w") == (1, 1, 6)
    assert involved("HYBRID_MODEL_DATA", levels, "w") == (6, 6, 1)
    assert involved("HYBRID_TRANSFORMER", levels_of(torus, 16, "w"), "w") == (3, 3, 4)
    cut = levels_of(torus, 8, "w")
    assert (cut.units, cut.physical) == ((4, 2, 2, 4), (0, 1, 1, 2))
    assert involved("HYBRID_TRANSFORMER", cut, "w") == (3, 3, 12)
    assert involved("HYBRID_TRANSFORMER", levels_of(torus, 1, "w"), "w") == (0, 0, 7)
    for group in (3, 12, 128):
        with pytest.raises(InputError, match="does not fit into 4 x 4 x 4"):
            levels_of(torus, group, "w")
