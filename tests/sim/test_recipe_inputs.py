"""Everything that an engine is built of can be written: each class in an annotation is known."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

import pytest

from astranb.core.encoded import TYPING
from astranb.sim.recipe_inputs import ENGINES, kinds_of, root_of


def _classes(hint: Any) -> list[type]:
    if get_args(hint):
        return [one for inner in get_args(hint) for one in _classes(inner)]
    return [hint] if inspect.isclass(hint) and hint.__module__.startswith("astranb.") else []


@pytest.mark.parametrize("engine", ENGINES)
def test_each_class_in_the_inputs_has_a_form(engine: str) -> None:
    kinds = kinds_of(engine)
    names = {one.__name__: one for one in (*kinds.classes, *kinds.forms)} | TYPING
    assert root_of(engine) in kinds.classes
    for cls in kinds.classes:
        assert dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")
        hints = get_type_hints(cls, localns=names)
        for name in kinds.fields(cls):
            if (cls.__name__, name) in (("Collective", "contract"), ("Exchange", "contract")):
                continue  # a contract that holds functions is its layout by then
            for found in _classes(hints[name]):
                assert found in kinds.classes or kinds.form(found), f"{cls.__name__}.{name}: {found}"


@pytest.mark.parametrize("engine", ENGINES)
def test_names_of_classes_are_different(engine: str) -> None:
    kinds = kinds_of(engine)
    names = [one.__name__ for one in kinds.classes]
    assert len(set(names)) == len(names)
