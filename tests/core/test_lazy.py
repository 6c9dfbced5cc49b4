"""Parts of a package that are loaded when they are first used."""

from __future__ import annotations

import pytest

import astranb
from astranb.core.lazy import lazy


def test_a_name_comes_from_its_module_and_a_module_is_itself() -> None:
    get, listed = lazy("astranb", {"net": "net", "Network": "net"})
    assert get("net").__name__ == "astranb.net"
    assert get("Network") is get("net").Network
    assert listed() == ["Network", "net"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'astranb' has no attribute 'Simulatoin'"):
        astranb.Simulatoin  # noqa: B018 - the look at the attribute is what is tested
