"""Recipes: a saved simulation is its inputs, and where it is.

A recipe is a zip file: ``recipe.json`` with the inputs, the changes at their events, the position and the
hash of the state there; files and tables that the inputs consist of. Whoever opens it simulates up to the
position and compares the hash. So it is small, holds no code, and any version that reaches the same hash
opens it.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from astranb.core.archive import read_archive, write_archive
from astranb.core.document import contents
from astranb.core.encoded import Decoder, Encoder
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.planes import pack, unpack
from astranb.core.progress import Interrupted
from astranb.core.version import __version__

from . import snapshots
from .driver import Driver
from .history import History
from .position import Position, go, points_of, position_of, read_position
from .recipe_inputs import ENGINES, inputs_of, kinds_of, root_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from astranb.engine import Breakpoint

__all__ = ["Saved", "open_recipe", "recipe_of", "save"]

_FORMAT: Final = "astranb recipe 1"
_WHAT, _HINT = "a saved simulation", "save one with sim.save(path)"
_DOCUMENT, _TABLES = "recipe.json", "tables"
_MOST_BYTES: Final = 1 << 31
_MOST_BUDGET: Final = 1 << 50
_STATE_HASH: Final = re.compile("[0-9a-f]{32}")


class Saved(NamedTuple):
    """The parts of a simulation that a recipe holds.

    Attributes
    ----------
    driver : Driver
    points : sequence of Breakpoint
    watches : sequence of str
    notes : dict
        What views keep.
    """

    driver: Driver
    points: Sequence[Breakpoint]
    watches: Sequence[str]
    notes: dict[str, Any]


def recipe_of(saved: Saved) -> bytes:
    """Return the recipe of a simulation as it is now.

    Raises
    ------
    InputError
        The inputs hold something that cannot be written, such as a function.
    """
    driver = saved.driver
    name, inputs = inputs_of(driver.engine)
    encoder = Encoder(kinds_of(name))
    document = {
        "format": _FORMAT,
        "version": __version__,
        "what": driver.engine.title,
        "engine": name,
        "plugins": list(driver.plugins),
        "position": position_of(driver, saved.points, saved.watches),
        "inputs": encoder.encode(inputs),
        "shared": encoder.shared,
        "parts": _parts_of(driver.engine),
        "notes": saved.notes,
        "checkpoint_bytes": driver.history.budget_bytes,
    }
    members = {_DOCUMENT: json.dumps(document, indent=1, allow_nan=False).encode(), **encoder.files}
    if encoder.arrays:
        members[_TABLES] = pack(encoder.arrays)
    return write_archive(members)


def save(saved: Saved, path: Path) -> None:
    """Write the recipe of a simulation to exactly this path, whole or not at all.

    Of a run that takes long to simulate, its state is kept in the user's cache, too (:mod:`.snapshots`).
    """
    made = recipe_of(saved)
    with whole_file(path) as file:
        file.write(made)
    snapshots.keep(made, saved.driver)


def open_recipe(given: Path | bytes, where: str, *, unequal: bool = False) -> Saved:
    """Open a recipe: build its inputs, and simulate up to its position.

    Parameters
    ----------
    given : Path or bytes
        A file, or its contents.
    where : str
        What errors call it.
    unequal : bool
        Whether a run that does not reach the saved state is opened all the same, as far as it got.

    Raises
    ------
    InputError
        It is not a recipe, or this version does not reach the saved state.
    Interrupted
        The user has interrupted the simulation.
    """
    data = contents(given, _MOST_BYTES) if isinstance(given, Path) else given
    members = read_archive(data, where, _WHAT, _HINT)
    document = _document(members, where)
    position = _position(document, where)
    engine = _engine(document, members, where)
    history = History(_budget(document, where))
    history.take(engine, 0)
    driver = Driver(engine, history, _plugins(document))
    try:
        if not snapshots.enter(data, driver, position):
            go(driver, position)
            snapshots.keep(data, driver)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while {where} was simulated; nothing was opened") from None
    except InputError as error:
        if not unequal:
            raise _unequal(error, document, engine, where) from error
    try:
        points = points_of(driver, position.breakpoints)
    except InputError as error:
        raise InputError(error.what, where=f"{where}, breakpoints", hint=error.hint or _HINT) from error
    return Saved(driver, points, position.watches, dict(document["notes"]))


def _document(members: dict[str, bytes], where: str) -> dict[str, Any]:
    """Read the document of a recipe, and check its form and version."""
    try:
        document = json.loads(members[_DOCUMENT], parse_constant=_refuse, object_pairs_hook=_mapping)
        if not isinstance(document, dict) or not isinstance(document["format"], str):
            raise TypeError("no mapping")  # noqa: TRY301 - one report for all
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"not {_WHAT}", where=where, hint=_HINT) from error
    if document["format"] != _FORMAT:
        what = f"a recipe of another form ({document['format']:.80}), by astranb {_version(document)}"
        raise InputError(what, where=where, hint=f"open it with that version; this is {__version__}")
    fields = {"engine": str, "notes": dict, "parts": dict, "plugins": list, "shared": list}
    for name, kind in fields.items():
        if not isinstance(document.get(name), kind):
            raise InputError(f"{name} is missing or not valid", where=f"{where}, {_DOCUMENT}", hint=_HINT)
    return document


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate name")
    return found


def _version(document: dict[str, Any]) -> str:
    return f"{document.get('version', '?')!s:.40}"


def _plugins(document: dict[str, Any]) -> tuple[str, ...]:
    """Return the plug-ins that the inputs were made with, each with its distribution and version."""
    return tuple(f"{one!s:.200}" for one in document["plugins"])


def _with_plugins(document: dict[str, Any]) -> str:
    """Describe what saved a document: the version, and plug-ins."""
    used = _plugins(document)
    return f"saved by astranb {_version(document)}" + (f" with {'; '.join(used)}" if used else "")


def _position(document: dict[str, Any], where: str) -> Position:
    try:
        position = read_position(document.get("position"))
        if not _STATE_HASH.fullmatch(position.hash):
            raise InputError(f"{position.hash!r:.40} is not the hash of a state")  # noqa: TRY301 - as below
    except InputError as error:
        raise InputError(error.what, where=f"{where}, position", hint=_HINT) from error
    return position


def _budget(document: dict[str, Any], where: str) -> int:
    found = document.get("checkpoint_bytes")
    if type(found) is not int or not 0 <= found <= _MOST_BUDGET:
        what = f"{found!r:.40} is not a number of bytes"
        raise InputError(what, where=f"{where}, checkpoint_bytes", hint=_HINT)
    return found


def _engine(document: dict[str, Any], members: dict[str, bytes], where: str) -> Any:
    """Build the engine from the inputs of a document."""
    name = document["engine"]
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r:.40}", where=where, hint=f"use {', '.join(ENGINES)}")
    try:
        arrays = unpack(members[_TABLES], where, "tables", _HINT) if _TABLES in members else {}
        decoder = Decoder(kinds_of(name), arrays, members, document["shared"])
        return decoder.decode(document["inputs"], root_of(name), "inputs").engine()
    except InputError as error:
        place = error.where if error.where.startswith(where) else f"{where}, {error.where}".rstrip(", ")
        raise InputError(
            f"{error.what} ({_with_plugins(document)})", where=place, hint=error.hint or _HINT
        ) from error
    except MemoryError:
        hint = "open it where there is more, if it is not damaged"
        raise InputError("takes more memory than there is", where=where, hint=hint) from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError) as error:
        what = f"its inputs do not fit together: {type(error).__name__}: {error}"
        raise InputError(what[:200], where=where, hint=_HINT) from error


def _parts_of(engine: Any) -> dict[str, str]:
    """Hash what an engine makes of some of its inputs, by what they are called: to name what differs."""
    return {name: _hash(tables) for name, tables in engine.inputs().made.items()}


def _hash(tables: Sequence[Any]) -> str:
    state = hashlib.blake2b(digest_size=8)
    for table in tables:
        state.update(np.ascontiguousarray(table).view(np.uint8).data)
    return state.hexdigest()


def _unequal(error: InputError, document: dict[str, Any], engine: Any, where: str) -> InputError:
    """Report which input differs, which version saved the recipe, and what to do."""
    now, then = _parts_of(engine), document["parts"]
    differs = [name for name, found in now.items() if name in then and then[name] != found]
    why = f"{' and '.join(differs)} differ" if differs else "its inputs are equal, what is simulated differs"
    what = f"{error.what}: {why} ({_with_plugins(document)}, this is {__version__})"
    hint = "open it as far as it gets with load(path, unequal=True)"
    return InputError(what, where=where, hint=hint)
