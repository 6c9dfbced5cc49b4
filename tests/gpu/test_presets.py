import dataclasses

import pytest

from astranb.core.errors import InputError
from astranb.gpu import PRESETS, preset


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_number_has_a_source(name):
    found = preset(name)
    assert found.name == name
    numbers = {f.name for f in dataclasses.fields(found) if f.type in ("int", int)}
    assert set(found.sources) == numbers
    assert all(len(text) > 5 for text in found.sources.values())
    assert all(getattr(found, n) >= 0 for n in numbers)


def test_an_unknown_preset():
    with pytest.raises(InputError, match="did you mean 'h100-sxm'"):
        preset("h100-smx")
