"""A link to a moment of a run: what stands behind ``#state=`` in the address of a page.

Unpacked it is a line of JSON: the hash of the run's start, where the run is (:mod:`astranb.sim.position`),
and what is shown. Where a page runs something that was opened on it, what that is follows as text.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError
from astranb.sim import Position, Simulation, read_position

__all__ = [
    "Brought", "Linked", "brought_of", "link_of", "linked_state", "of_another", "read_brought", "read_link",
    "shown_of",
]  # fmt: skip

_BEGIN: Final = "#state="
_MOST: Final = 8192  # characters that every program passes on
_MOST_UNPACKED: Final = 1032 * _MOST  # deflate packs nothing smaller
_VERSION: Final = 3
_MOST_TEXT: Final = 1000
_SAVE: Final = "save it as a file"
_NOTES: Final = "brought"  # of our part of a saved simulation
_STRING_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')

_KINDS: Final = {
    "plan": ("name", "size"),
    "text": ("name", "infra", "size", "collective", "protocol", "params"),
}
"""Fields of a link that determine how a plan or an algorithm's text is run."""


class Brought(NamedTuple):
    """Run that takes the place of a page's own run.

    Attributes
    ----------
    kind : str
        ``"plan"``: a file of an algorithm; ``"text"``: an algorithm as it is written in the editor.
    about : dict
        How it is run: ``name``, ``size`` (a plan's in bytes) and of a text ``collective``, ``protocol``,
        ``params`` and ``infra`` (None: the machine of the page).
    text : str
    """

    kind: str
    about: dict[str, Any]
    text: str

    def note(self, sim: Simulation) -> None:
        """Have what is saved of a simulation say what it is."""
        sim.notes[_NOTES] = {**self._asdict()}


class Linked(NamedTuple):
    """Contents of a link."""

    inputs: str
    position: Position
    shown: dict[str, Any]
    brought: Brought | None


def brought_of(sim: Simulation) -> Brought | None:
    """Return a simulation's source, if it was brought to a page; None where no page has recorded it."""
    try:
        return read_brought(sim.notes.get(_NOTES))
    except InputError:
        return None


def read_brought(given: Any) -> Brought | None:
    """Check what should be a :class:`Brought` as JSON; None: none.

    Raises
    ------
    InputError
        It is something else.
    """
    if given is None:
        return None
    try:
        kind, about, text = given["kind"], dict(given["about"]), given["text"]
        names = _KINDS[kind]
        about = {name: about[name] for name in names}
        texts = [about[name] for name in names if name not in ("params", "infra", "size")]
        size = about["size"]
        sized = type(size) is int and 0 < size < 1 << 62 if kind == "plan" else isinstance(size, str)
        own = about.get("infra") is None or isinstance(about["infra"], str)
        right = sized and own and isinstance(about.get("params", {}), dict) and isinstance(text, str)
        if not right or not all(isinstance(one, str) and len(one) <= _MOST_TEXT for one in texts):
            raise TypeError("no such thing")  # noqa: TRY301 - one report for all
    except (KeyError, TypeError, ValueError) as error:
        raise InputError("not a plan of a run") from error
    return Brought(kind, about, text)


def link_of(
    sim: Simulation, shown: Mapping[str, Any], inputs: str = "", brought: Brought | None = None
) -> str:
    """Write the link to a simulation's state.

    Parameters
    ----------
    sim : Simulation
    shown : mapping
        What is shown of it.
    inputs : str
        The hash of the start of the page's own run; of this one where not given.
    brought : Brought, optional
        What runs in place of that.

    Raises
    ------
    InputError
        It would be too long.
    """
    document = {
        "version": _VERSION,
        "inputs": inputs or sim.start_hash(),
        "state": sim.position(),
        "shown": {**shown},
        "brought": None if brought is None else {"kind": brought.kind, "about": brought.about},
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    if brought is not None:
        text += "\n" + _in_one_line(brought.text)
    packing = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packing.compress(text.encode()) + packing.flush()
    link = _BEGIN + base64.urlsafe_b64encode(packed).decode().rstrip("=")
    if len(link) > _MOST or len(text) > _MOST_UNPACKED:
        what = "this state" if brought is None else f"this {brought.kind}"
        raise InputError(f"{what} is too large for a link", hint=_SAVE)
    return link


def _in_one_line(text: str) -> str:
    """Leave out the space between the strings of JSON; another text stays as it is."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    return _STRING_OR_SPACE.sub(lambda found: found[0] if found[0].startswith('"') else "", text)


def read_link(link: str) -> Linked:
    """Read a link, or the fragment of one.

    Raises
    ------
    InputError
        It is damaged, or of another version of astranb.
    """
    try:
        _, begin, letters = link.partition(_BEGIN)
        if not begin or len(letters) > _MOST:
            raise ValueError("no link")  # noqa: TRY301 - one report for all
        packed = base64.b64decode(letters + "=" * (-len(letters) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        data = unpacking.decompress(packed, _MOST_UNPACKED)
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError("cut")  # noqa: TRY301 - one report for all
        first, _, text = data.decode().partition("\n")
        document = json.loads(first, parse_constant=_refused)
        version, inputs = document["version"], document["inputs"]
    except (ValueError, KeyError, TypeError, zlib.error, binascii.Error, RecursionError) as error:
        raise InputError("this link is damaged", hint="copy the whole of it") from error
    if version != _VERSION or not isinstance(inputs, str):
        raise of_another()
    brought = document.get("brought")
    if isinstance(brought, dict):
        brought = {**brought, "text": text}
    shown = document.get("shown")
    return Linked(
        inputs,
        read_position(document.get("state")),
        shown_of(shown if isinstance(shown, dict) else {}),
        read_brought(brought),
    )


def _refused(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def of_another() -> InputError:
    """Return the refusal of a link to another run."""
    return InputError("this link belongs to another page: its run or its version of astranb is another one")


def linked_state(sim: Simulation, found: Linked) -> None:
    """Take a simulation to the state of a link to it.

    Raises
    ------
    InputError
        The link is to another run, or the state cannot be reached.
    """
    if found.brought is not None:
        what = f"this link is to a {found.brought.kind} that was opened on a page"
        raise InputError(what, hint="open it in that page, and save it there as a file")
    if found.inputs != sim.start_hash():
        raise of_another()
    sim.enter(found.position)


def shown_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a view from foreign data: invalid fields are left out."""

    def number(name: str, least: float, most: float, otherwise: float) -> float:
        value = given.get(name)
        right = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        return float(value) if right else otherwise  # type: ignore[arg-type]  # is a number

    window, panels, sizes = given.get("window_ps"), given.get("panels"), given.get("sizes")
    selection = given.get("selection")
    return {
        "selection": selection if _is_text(selection) else "",
        "cursor_ps": number("cursor_ps", 0, 2**62, -1.0),
        "window_ps": [float(end) for end in window] if window and _is_window(window) else [],
        "panels": panels if _is_map(panels, lambda v: isinstance(v, bool) or _is_text(v)) else {},
        "sizes": sizes if _is_map(sizes, lambda v: _is_number(v) and 0 <= v < 1e5) else {},
        "redraw_hz": number("redraw_hz", 1, 60, 60.0),
        "speed": number("speed", 1, 1e15, 1e6),
    }


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < _MOST_TEXT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_window(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _is_map(value: Any, right: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(name) and right(one) for name, one in value.items())
