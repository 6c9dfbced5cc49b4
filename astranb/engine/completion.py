"""Completion of object paths: what a person may mean with the beginning of one, or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

__all__ = ["complete"]

_Parts = Callable[[str], Mapping[str, Iterable[str]]]

_IGNORED = str.maketrans("", "", "[] \t")

_MOST_OF_ONE = 4
"""Parts of one kind that each object contributes, where only the kind is given."""


def complete(text: str, objects: Sequence[str], kinds: Collection[str], parts: _Parts) -> Iterator[str]:
    """Yield the paths that a text may stand for, the most likely first; each of them once.

    These are, in this order: paths that begin with the text, of parts too; paths that contain it;
    parts whose own name begins with it, as ``l2`` of every GPU. Capitals and brackets are ignored, so that
    ``GPU5`` means ``gpu[5]``.

    Parameters
    ----------
    text : str
    objects : sequence of str
        Paths of objects that are no part of another one.
    kinds : collection of str
        Kinds of their parts.
    parts : callable
        From one of these to the paths of its parts, by their kinds.
    """
    found = set[str]()
    for path in _candidates(folded(text), objects, kinds, parts):
        if path not in found:
            found.add(path)
            yield path


def folded(text: str) -> str:
    """A path without capitals, spaces and brackets."""
    return text.translate(_IGNORED).lower()


def _candidates(wanted: str, objects: Sequence[str], kinds: Collection[str], parts: _Parts) -> Iterator[str]:
    keys = [folded(path) for path in objects]
    exact = [path for path, key in zip(objects, keys, strict=True) if wanted == key]
    yield from exact
    for path in exact:
        yield from (name for kind in parts(path).values() for name in islice(kind, _MOST_OF_ONE))
    for path, key in zip(objects, keys, strict=True):
        if wanted != key and wanted.startswith(key) and wanted[len(key)] in ".#":
            every: list[Iterable[str]] = list(parts(path).values())
            if wanted == f"{key}.":
                every = [islice(kind, _MOST_OF_ONE) for kind in every]
            yield from (name for kind in every for name in kind if folded(name).startswith(wanted))
    yield from (path for path, key in zip(objects, keys, strict=True) if key.startswith(wanted))
    yield from (path for path, key in zip(objects, keys, strict=True) if wanted in key)
    meant = {kind for kind in kinds if kind.startswith(wanted) or wanted.startswith(f"{kind}.")}
    for path, key in zip(objects, keys, strict=True) if meant else ():
        for kind, names in parts(path).items():
            if kind in meant:
                tails = (name for name in names if folded(name)[len(key) :].lstrip(".#").startswith(wanted))
                yield from islice(tails, _MOST_OF_ONE)
