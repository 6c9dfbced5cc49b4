"""Read an infrastructure from whatever holds one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from astranb.core.document import Place, Source, parse_document, read_document
from astranb.core.errors import InputError

from ._convert import convert
from ._infra import Infra

__all__ = ["load"]

_MOST_BYTES = 256 << 20
_COMBINED = {"infrastructure", "annotations"}


def load(source: Any, annotations: Any = None) -> Infra:
    """Read an InfraGraph document.

    Parameters
    ----------
    source : path, str, dict or object
        A YAML or JSON file; text (it has a line break or begins with ``{``); a dict; an object
        of the ``infragraph`` package (anything with ``serialize``). The combined form
        ``{infrastructure: …, annotations: …}`` is read as well, and so is a topology file of
        NCCL or lstopo (``.xml``; see `convert`).
    annotations : path, str, dict or object, optional
        Annotations kept apart from the document; they replace those of a combined form.

    Returns
    -------
    Infra

    Raises
    ------
    InputError
        It cannot be read, or something in it does not fit: one line with file, line, hint.

    Examples
    --------
    >>> load({"devices": [], "instances": [{"name": "host", "device": "box", "count": 1}]})
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: infrastructure, instances[0].device: there is no device 'box'; declare it
    under devices
    """
    if _is_topology(source):
        made = convert(source)
        if annotations is None:
            return made
        source = made
    data, place = _read(source, "infrastructure")
    at: Place = ()
    noted_at: Place = ()
    notes: Any = None
    notes_place = place
    if isinstance(data, dict) and set(data) <= _COMBINED and isinstance(data.get("infrastructure"), dict):
        notes = data.get("annotations")
        data, at, noted_at = data["infrastructure"], ("infrastructure",), ("annotations",)
    if annotations is not None:
        notes, notes_place = _read(annotations, "annotations")
        noted_at = ()
        if isinstance(notes, dict) and set(notes) <= _COMBINED and "annotations" in notes:
            notes, noted_at = notes["annotations"], ("annotations",)
    return Infra(data, notes, source=place, annotations_source=notes_place, at=at, annotations_at=noted_at)


def _is_topology(source: Any) -> bool:
    named = isinstance(source, str | os.PathLike) and "\n" not in str(source)
    return named and str(source).lower().endswith(".xml")


def _read(source: Any, name: str) -> tuple[Any, Source]:
    if isinstance(source, Infra):
        return source.to_dict(), Source(name)
    if isinstance(source, dict):
        return source, Source(name)
    if hasattr(source, "serialize"):
        try:
            return source.serialize("dict"), Source(name)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the object cannot be serialised: {error}", where=name) from None
    if isinstance(source, str) and ("\n" in source or source.lstrip()[:1] == "{"):
        node = parse_document(source, f"<{name}>")
        return node.value, node.source
    if isinstance(source, str | os.PathLike):
        node = read_document(Path(source), _MOST_BYTES)
        return node.value, node.source
    raise InputError(
        f"cannot read {name} from a {type(source).__name__}",
        hint="give a file, text, a dict or an InfraGraph object",
    )
