"""The pins of ``constraints.txt`` are those of ``pyproject.toml``, and name no machine and no index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.documents import REPOSITORY

_LEFT_OUT = {"torch"}
"""Extras that are not pinned: see CONTRIBUTING.md."""

_OURS = "astranb (pyproject.toml"
_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?: ; .+)?")


def pins(text: str) -> dict[str, tuple[str, list[str]]]:
    """Return each pinned package, its version and what asks for it."""
    found: dict[str, tuple[str, list[str]]] = {}
    asking: list[str] = []
    for line in text.splitlines():
        if pin := _PIN.fullmatch(line):
            asking = found.setdefault(canonicalize_name(pin["name"]), (pin["version"], []))[1]
        elif asker := re.fullmatch(r" +#(?: via)? +(?!via$)(.+)", line):
            asking.append(asker[1])
    return found


def _group(groups: dict[str, list[Any]], name: str) -> Iterator[Requirement]:
    for one in groups[name]:
        if isinstance(one, dict):
            yield from _group(groups, one["include-group"])
        else:
            yield Requirement(one)


def requirements(project: dict[str, Any]) -> list[Requirement]:
    """Return what a project asks for itself: for users, with the pinned extras, and for development."""
    extras = project["project"]["optional-dependencies"]
    named = [one for name, group in extras.items() if name not in {"all", *_LEFT_OUT} for one in group]
    ours = [Requirement(one) for one in (*project["project"]["dependencies"], *named)]
    return [*ours, *_group(project["dependency-groups"], "dev")]


def faults(project: dict[str, Any], text: str) -> list[str]:
    """Name what is wrong with the pins of a project."""
    pinned, wanted = pins(text), requirements(project)
    found = []
    for one in wanted:
        version, asking = pinned.get(canonicalize_name(one.name), ("", []))
        if not version:
            found.append(f"{one.name} is not pinned")
        elif not one.specifier.contains(version, prereleases=True):
            found.append(f"{one} has the pin {version}")
        elif not any(asker.startswith(_OURS) for asker in asking):
            found.append(f"{one.name} is pinned for others only")
    names = {canonicalize_name(one.name) for one in wanted}
    for name, (_, asking) in pinned.items():
        if any(asker.startswith(_OURS) for asker in asking) and name not in names:
            found.append(f"{name} is pinned, pyproject.toml asks for it no more")
        others = {canonicalize_name(asker) for asker in asking if not asker.startswith(_OURS)}
        found += [f"{name} is pinned for {other}, which is not" for other in sorted(others - pinned.keys())]
    return found


def _project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def _constraints() -> str:
    return (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")


def test_the_pins_are_in_step_with_what_asks_for_packages() -> None:
    assert faults(_project(), _constraints()) == [], "run 'make pins'"


def test_every_pin_says_what_asks_for_it() -> None:
    assert [name for name, (_, asking) in pins(_constraints()).items() if not asking] == []


def test_the_pins_name_no_machine_and_no_index() -> None:
    lines = [line for line in _constraints().splitlines() if line and not line.lstrip().startswith("#")]
    assert [line for line in lines if not _PIN.fullmatch(line)] == []
    assert all(Requirement(line).specifier for line in lines)  # so pip reads them, too
    assert not re.search(r"://|/(?:home|root|work|tmp)/", _constraints())


@pytest.mark.parametrize(
    "text, found",
    [
        ("numpy==2.1\n    # via astranb (pyproject.toml)\n", []),
        ("numpy==1.9\n    # via astranb (pyproject.toml)\n", ["numpy>=2 has the pin 1.9"]),
        ("", ["numpy is not pinned"]),
        (
            "numpy==2.1\n    # via\n    #   gone\n",
            ["numpy is pinned for others only", "numpy is pinned for gone, which is not"],
        ),
        (
            "numpy==2.1\n    # via astranb (pyproject.toml)\nx==1\n    # via astranb (pyproject.toml:dev)\n",
            ["x is pinned, pyproject.toml asks for it no more"],
        ),
    ],
)
def test_pins_that_are_out_of_step_are_found(text: str, found: list[str]) -> None:
    project = {
        "project": {"dependencies": ["numpy>=2"], "optional-dependencies": {"torch": ["torch>=2"]}},
        "dependency-groups": {"dev": []},
    }
    assert faults(project, text) == found
