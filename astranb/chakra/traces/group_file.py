"""The file of communicator groups beside traces."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from astranb.core.document import read_document
from astranb.core.file_formats import names_format

__all__ = ["read_groups"]

_MOST_BYTES: Final = 16 << 20
_MANY: Final = 1 << 31


@names_format()
def read_groups(path: str | Path, npus: int) -> dict[int, list[int]]:
    """Read ``comm-group.json``: numbers of groups, each with its ranks.

    Parameters
    ----------
    path : str or Path
    npus : int
        The number of ranks.

    Raises
    ------
    InputError
        It cannot be read, or a group is not a list of different ranks.
    """
    # ASTRA-sim takes the last of duplicate keys.
    document = read_document(path, _MOST_BYTES, form="json", strict=False)
    if not isinstance(document.value, dict):
        raise document.error(f"an object is expected, not {document.brief}", 'as {"1": [0, 1]}')
    groups = {}
    for name in document.value:
        node = document.get(name)
        if not (name.isascii() and name.isdecimal() and int(name[:12]) < _MANY):
            raise node.error(f"the name of a group must be a number, not {name[:40]!r}", 'as {"1": [0, 1]}')
        ranks = [part.number(0, npus - 1) for part in node.items()]
        if not ranks or len(set(ranks)) < len(ranks):
            raise node.error("a group must list each of its ranks once", "list its ranks")
        groups[int(name)] = ranks
    return groups
