"""A user's own model, from a file."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

import yaml

from astranb.core.document import contents
from astranb.core.errors import InputError, near

from ._transformer import Transformer

__all__ = ["read_model"]

_MOST_BYTES: Final = 1 << 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    try:
        said = yaml.load(contents(path, _MOST_BYTES), _LOADER)  # noqa: S506 - a safe loader
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"no YAML: {problem}"[:200], where=where, hint="correct the file") from None
    if not isinstance(said, dict):
        raise InputError("a model is names and values", where=where, hint="as layers: 32")
    known = {field.name: field for field in fields(Transformer)}
    for key in said:
        if key not in known:
            raise InputError(f"unknown key {str(key)[:60]!r}", where=where, hint=near(str(key), known))
    said = {"name": Path(path).stem, **said}
    missing = [name for name, field in known.items() if field.default is MISSING and name not in said]
    if missing:
        raise InputError(f"{', '.join(missing)} missing", where=where, hint="give them")
    try:
        return Transformer(**said)
    except InputError as error:
        raise InputError(error.what, where=where, hint=error.hint) from None
