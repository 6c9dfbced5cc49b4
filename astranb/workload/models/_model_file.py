"""A user's own model, from a file."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

from astranb.core.document import read_document
from astranb.core.errors import InputError, near

from ._transformer import Transformer

__all__ = ["read_model"]

_MOST_BYTES: Final = 1 << 20


def read_model(path: str | Path) -> Transformer:
    """Read a transformer from a YAML (or JSON) file: the fields of :class:`Transformer` by name.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Transformer
        Called as the file where it does not say.

    Raises
    ------
    InputError
        It cannot be read, or a key or value is of no use.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.yaml"
    >>> _ = file.write_text("{layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 1000}")
    >>> read_model(file).name
    'mine'
    """
    where = str(path)
    document = read_document(path, _MOST_BYTES)
    said = document.value
    if not isinstance(said, dict):
        raise document.error("a model is names and values", "as layers: 32")
    known = {field.name: field for field in fields(Transformer)}
    for key in said:
        if key not in known:
            raise document.get(key).error(f"unknown key {key[:60]!r}", near(key, known))
    said = {"name": Path(path).stem, **said}
    missing = [name for name, field in known.items() if field.default is MISSING and name not in said]
    if missing:
        raise InputError(f"{', '.join(missing)} missing", where=where, hint="give them")
    try:
        return Transformer(**said)
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from None
