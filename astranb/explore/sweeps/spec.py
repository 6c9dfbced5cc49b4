"""Specification of a sweep: from a file or a dict, checked before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from astranb.core.document import DocumentNode, DocumentSource, read_document
from astranb.core.errors import InputError, near
from astranb.engine import FIDELITIES
from astranb.explore.runs import option_names

from .axes import SweepAxis, read_axes
from .expressions import Expression
from .points import ESTIMATE, is_document_key, is_parameter

__all__ = ["Objective", "SearchSpec", "SweepSpec", "SweepStage", "read_spec"]

_KEYS: Final = ("name", "run", "axes", "constraints", "objectives", "search", "fidelity", "stages")
_KINDS: Final = ("grid", "random", "latin", "optuna")
_SAMPLERS: Final = ("tpe", "nsga2")
_FIDELITIES: Final = (ESTIMATE, *FIDELITIES)
_TEMPLATE: Final = re.compile(r"\{(\w+)\}")
_MOST: Final = 10**7


@dataclass(frozen=True)
class Objective:
    """A figure that is to be small or large.

    Attributes
    ----------
    figure : Expression
        Of the names in a row.
    sign : int
        1: small is good; -1: large is.
    """

    figure: Expression
    sign: int

    @property
    def name(self) -> str:
        """Its column."""
        return self.figure.text

    def of(self, row: Mapping[str, Any]) -> float:
        """Return its value in a row; NaN where the row lacks a figure."""
        if any(name not in row for name in self.figure.names):
            return math.nan
        return float(self.figure.value(row))


@dataclass(frozen=True)
class SearchSpec:
    """Choice of points to run: all of the grid, or ``count`` of it."""

    kind: str = "grid"
    count: int = 0
    seed: int = 0
    sampler: str = "tpe"


@dataclass(frozen=True)
class SweepStage:
    """A fidelity, and how many of the best points of the stage before it are run at it; 0: all."""

    fidelity: str | None = None
    keep: int = 0


@dataclass(frozen=True)
class SweepSpec:
    """Specification of a sweep.

    Attributes
    ----------
    name : str
    run : dict
        What all points share: options of ``astranb run``.
    axes : list of SweepAxis
    constraints : list of Expression
    objectives : list of Objective
    search : SearchSpec
    stages : list of SweepStage
    """

    name: str
    run: dict[str, Any]
    axes: list[SweepAxis]
    constraints: list[Expression]
    objectives: list[Objective]
    search: SearchSpec
    stages: list[SweepStage]

    @property
    def size(self) -> int:
        """Number of points of the grid, before constraints."""
        return math.prod(len(axis.values) for axis in self.axes)

    def words(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """Return all that is given for a point: names in braces are filled in."""
        given = {**self.run, **axes}
        used: set[str] = set()

        def filled(value: Any) -> Any:
            if not isinstance(value, str) or "{" not in value:
                return value
            used.update(_TEMPLATE.findall(value))
            return _TEMPLATE.sub(lambda found: str(given.get(found[1], found[0])), value)

        words = {name: filled(value) for name, value in given.items()}
        known = option_names()
        return {name: value for name, value in words.items() if name not in used or name in known}


def read_spec(what: str | Path | Mapping[str, Any]) -> SweepSpec:
    """Read what a sweep is asked to do.

    Parameters
    ----------
    what : str or Path or mapping
        A file of YAML or JSON, or what it would contain. Files named in it are relative to its folder.

    Raises
    ------
    InputError
        Something is unknown, missing or contradictory.
    """
    folder = None
    if isinstance(what, Mapping):
        top = DocumentNode(dict(what), DocumentSource("sweep"))
    else:
        top, folder = read_document(what), Path(what).resolve().parent
    _known(top, _KEYS)
    run = top.get("run", {})
    if not isinstance(run.value, dict):
        raise run.error("options of astranb run are expected", "write for example model: gpt3-125m")
    axes = read_axes(top.get("axes"))
    shared = {str(name).replace("-", "_"): value for name, value in run.value.items()}
    axes = [SweepAxis(_option_or(axis.name), tuple(map(_renamed, axis.values))) for axis in axes]
    if folder is not None:
        shared = {name: _beside(folder, value) for name, value in shared.items()}
        axes = [_axis_beside(folder, axis) for axis in axes]
    _check_names(top, shared, axes)
    spec = SweepSpec(
        str(top.get("name", "sweep").value),
        shared,
        axes,
        [_expression(one) for one in _items(top.get("constraints", []))],
        _objectives(top.get("objectives", {"time_ps": "min"})),
        _search(top.get("search", {"kind": "grid"})),
        _stages(top),
    )
    if spec.size > _MOST and spec.search.kind == "grid":
        what_for = f"a grid of {spec.size:,} points"
        raise top.get("axes").error(what_for, "take fewer values, or search: {kind: random, n: 1000}")
    return spec


def _known(node: DocumentNode, keys: tuple[str, ...]) -> None:
    if not isinstance(node.value, dict):
        raise node.error(f"an object is expected, not {node.brief}", f"give some of {', '.join(keys)}")
    for key in node.value:
        if key not in keys:
            raise node.get(key).error(f"unknown key {str(key)[:40]!r}", near(str(key), keys))


def _option_or(name: str) -> str:
    """Return an option's name as Python writes it; other names as they are."""
    plain = name.replace("-", "_")
    return plain if plain in option_names() else name


def _renamed(value: Any) -> Any:
    return (
        {_option_or(str(name)): one for name, one in value.items()} if isinstance(value, Mapping) else value
    )


def _beside(folder: Path, value: Any) -> Any:
    """Return a file beside the sweep's own with its folder; anything else as it is."""
    if isinstance(value, str) and value and not Path(value).is_absolute():
        place = folder / value.partition(".py:")[0]
        script = ".py:" in value and (folder / f"{value.partition('.py:')[0]}.py").is_file()
        if place.is_file() or script or Path(f"{folder / value}.0.et").is_file():
            return str(folder / value)
    return value


def _axis_beside(folder: Path, axis: SweepAxis) -> SweepAxis:
    def placed(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: _beside(folder, one) for name, one in value.items()}
        return _beside(folder, value)

    return SweepAxis(axis.name, tuple(map(placed, axis.values)))


def _check_names(top: DocumentNode, run: Mapping[str, Any], axes: list[SweepAxis]) -> None:
    """Raise InputError for names that nothing takes."""
    known = option_names()
    values = [*run.values(), *(value for axis in axes for value in axis.values)]
    inside = [one for value in values for one in (value.values() if isinstance(value, Mapping) else [value])]
    braces = {name for value in inside if isinstance(value, str) for name in _TEMPLATE.findall(value)}
    for name in run:
        if name not in known:
            raise top.get("run").error(f"unknown option {name[:40]!r}", near(name, known))
    for axis in axes:
        for name in axis.sets:
            if name in known or name in braces or "[" in name or is_document_key(name) or is_parameter(name):
                continue
            hint = near(name, [*known, *braces])
            raise _axis_node(top, axis, name).error(f"unknown axis {name[:40]!r}", hint)
    sets = [name for axis in axes for name in axis.sets]
    for name in braces - {*sets, *run}:
        raise top.get("run").error(f"no axis gives {{{name}}}", near(name, sets))
    twice = [name for name in sets if sum(name in axis.sets for axis in axes) > 1]
    if twice:
        raise top.get("axes").error(f"two axes set {twice[0]!r}", "leave one of them out")


def _axis_node(top: DocumentNode, axis: SweepAxis, name: str) -> DocumentNode:
    """Return where an axis, or the first value of it that sets a name, is written."""
    nodes = top.get("axes")
    written = next(one for one in nodes.value if axis.name in (one, _option_or(str(one))))
    node = nodes.get(written)
    if name == axis.name or not isinstance(node.value, list):
        return node
    return next((one for one in node.items() if isinstance(one.value, dict) and name in one.value), node)


def _items(node: DocumentNode) -> list[DocumentNode]:
    return node.items() if isinstance(node.value, list) else [node]


def _expression(node: DocumentNode) -> Expression:
    try:
        return Expression(node.text())
    except InputError as error:
        raise node.error(error.what, error.hint) from None


def _objectives(node: DocumentNode) -> list[Objective]:
    if not isinstance(node.value, dict) or not node.value:
        raise node.error("objectives are figures with min or max", "write for example step_ps: min")
    found = []
    for name in node.value:
        goal = node.get(name).choice(("min", "max"))
        try:
            found.append(Objective(Expression(str(name)), 1 if goal == "min" else -1))
        except InputError as error:
            raise node.get(name).error(error.what, error.hint) from None
    return found


def _search(node: DocumentNode) -> SearchSpec:
    if isinstance(node.value, str):
        node = DocumentNode({"kind": node.value}, node.source, node.place)
    _known(node, ("kind", "n", "seed", "sampler"))
    kind = node.get("kind", "grid").choice(_KINDS)
    if kind == "grid":
        for name in ("n", "seed", "sampler"):
            if node.has(name):
                raise node.get(name).error(f"a grid has no {name}", "leave it out, or take another kind")
        return SearchSpec()
    if node.has("sampler") and kind != "optuna":
        raise node.get("sampler").error(f"{kind} has no sampler", "leave it out, or take optuna")
    return SearchSpec(
        kind,
        node.get("n").number(1, _MOST),
        node.get("seed", 0).number(0, 2**32 - 1),
        node.get("sampler", "tpe").choice(_SAMPLERS),
    )


def _stages(top: DocumentNode) -> list[SweepStage]:
    if not top.has("stages"):
        given = top.get("fidelity", None)
        return [SweepStage(None if given.value is None else given.choice(_FIDELITIES))]
    if top.has("fidelity"):
        raise top.get("fidelity").error("stages have fidelities of their own", "leave it out")
    stages: list[SweepStage] = []
    for node in top.get("stages").items():
        _known(node, ("fidelity", "keep"))
        keep = node.get("keep").number(1, _MOST) if stages or node.has("keep") else 0
        if not stages and keep:
            raise node.get("keep").error("the first stage runs all points", "leave keep out")
        stages.append(SweepStage(node.get("fidelity").choice(_FIDELITIES), keep))
    if not stages:
        raise top.get("stages").error("no stages", "give at least one fidelity")
    return stages
