"""Grammar of the names of nodes, links and numbered objects: whatever is shown of them can be typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from astranb.core.errors import InputError, nearest
from astranb.core.plural import plural

from .node_names import ending_in, named, near_names

if TYPE_CHECKING:
    from .graph import I64, NodeGraph

__all__ = [
    "ARROW", "ambiguous", "each_named", "find_nodes", "is_link", "is_several", "is_short", "link_ends",
    "one_node", "opposite", "short_name", "spelled", "spelled_rank", "the_only", "title_of", "typed",
]  # fmt: skip

ARROW: Final = "->"
_ARROWS: Final = re.compile(r"\s*(?:->|→)\s*")
_RANK: Final = re.compile(
    r"(?:gpu|rank|npu)\s*(?:([0-9]{1,9})(?!\w)|\[\s*([0-9]{1,9}(?:-[0-9]{1,9})?|\*)\s*\])(?!\.[0-9])",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"(?<=[\]\w*])(?:\.|\s+)([a-z]\w*)"
    r"(?:\s+([0-9]{1,12})|\s*\[\s*([0-9]{1,12}(?:-[0-9]{1,9})?|\*)\s*\])(?![\w\]])",
    re.IGNORECASE,
)
_NUMBERED: Final = re.compile(r"([A-Za-z_][\w-]*)\[([0-9]{1,9}(?:-[0-9]{1,9})?|\*)\]")
_RANGE: Final = re.compile(r"\[[0-9]+-[0-9]+\]|\.[0-9]+-[0-9]+(?![\w-])")
_SEVERAL: Final = re.compile(
    r"(?P<before>.*?(?P<kind>\w+))\[(?:(?P<first>[0-9]{1,9})-(?P<last>[0-9]{1,9})|\*)\](?P<rest>.*)"
)
_RANK_REMARK: Final = re.compile(r"(?:\s+\(GPU\d{1,9}\))+\Z")
_REMARK: Final = re.compile(r"(?<=\])\s+\(.*\)\Z", re.DOTALL)
_MOST_LETTERS: Final = 4096


class _Named(Protocol):
    @property
    def path(self) -> str: ...


_Object = TypeVar("_Object", bound=_Named)


def title_of(name: str, remark: str = "", *, rank: int = -1) -> str:
    """Return the title of an object: its name, and a remark in brackets, which :func:`spelled` leaves out.

    Parameters
    ----------
    name : str
    remark : str
    rank : int
        Of a GPU.

    Examples
    --------
    >>> title_of("host.0.xpu.3", rank=3), title_of("rank[3].op[0]", "norm 1"), title_of("host.0.nvsw.0")
    ('host.0.xpu.3 (GPU3)', 'rank[3].op[0] (norm 1)', 'host.0.nvsw.0')
    """
    remark = f"GPU{rank}" if rank >= 0 else remark
    return f"{name} ({remark})" if remark else name


def spelled(text: str, graph: NodeGraph | None = None) -> str:
    """Return a name as engines look it up, from how it is shown or typed.

    Parameters
    ----------
    text : str
        ``GPU2 → nvsw.0``, ``gpu 3 block 0``, ``rank[3]``, ``gpu[0].hbm[*]`` or a title; other words stay as
        they are.
    graph : NodeGraph, optional
        Whose nodes are meant: their full names stay as they are, too.

    Returns
    -------
    str
        ``gpu[2]->nvsw.0``, ``gpu[3].block.0``, ``gpu[3]`` or ``gpu[0].hbm.*``.

    Raises
    ------
    InputError
        It has more letters than any name.

    Examples
    --------
    >>> spelled("GPU2 → nvsw.0"), spelled("GPU3 block 0"), spelled("rank[3].sm[7]")
    ('gpu[2]->nvsw.0', 'gpu[3].block.0', 'gpu[3].sm.7')
    """
    name = typed(text)
    _check_length(name)
    if graph is not None and len(named(graph, name)):
        return name
    return ARROW.join(_spelled_end(end, graph) for end in _ARROWS.split(name, maxsplit=1))


def typed(name: str) -> str:
    """Return a name without the spaces around it; raise InputError if it is no text.

    Examples
    --------
    >>> typed(" gpu[3] ")
    'gpu[3]'
    """
    if not isinstance(name, str):
        raise InputError(f"a name is text, got {name!r:.80}", hint="write for example 'gpu[3]'")
    return name.strip()


def _check_length(text: str) -> None:
    if len(text) > _MOST_LETTERS:
        raise InputError(f"a name of {len(text):,} letters", hint="names have a few dozen")


def _spelled_end(text: str, graph: NodeGraph | None) -> str:
    name = _RANK_REMARK.sub("", text)
    if graph is not None and len(named(graph, name)):
        return name
    return _PART.sub(lambda part: f".{part[1]}.{part[2] or part[3]}", spelled_rank(text, "gpu"))


def spelled_rank(text: str, word: str) -> str:
    """Return a name, or the name of a title, with the rank that it begins with, if it does, as ``word[3]``.

    Examples
    --------
    >>> spelled_rank("GPU 3.op[norm 1]", "rank"), spelled_rank("dim[0]", "rank")
    ('rank[3].op[norm 1]', 'dim[0]')
    """
    _check_length(text)
    text = _REMARK.sub("", _RANK_REMARK.sub("", text))
    rank = _RANK.match(text)
    return f"{word}[{rank[1] or rank[2]}]{text[rank.end() :]}" if rank else text


def is_several(name: str) -> bool:
    """Return whether a name stands for every object that fits: it has a ``*`` or a range of ranks."""
    return "*" in name or _RANGE.search(name) is not None


def each_named(name: str, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the name of each object that a name stands for.

    Parameters
    ----------
    name : str
    counts : mapping of str to int
        How many there are of each kind.

    Raises
    ------
    InputError
        There is no such kind, or not so many.

    Examples
    --------
    >>> list(each_named("rank[0-1].dim[*]", {"rank": 8, "dim": 2}))
    ['rank[0].dim[0]', 'rank[0].dim[1]', 'rank[1].dim[0]', 'rank[1].dim[1]']
    """
    several = _SEVERAL.fullmatch(name)
    if several is None:
        yield name
        return
    count = counts.get(several["kind"], 0)
    first, last = int(several["first"] or 0), int(several["last"] or count - 1)
    if not first <= last < count:
        hint = f"they count from 0 to {count - 1}" if count else f"{', '.join(counts)} are numbered"
        raise InputError(f"{name!r:.80} names nothing", hint=hint)
    for number in range(first, last + 1):
        yield from each_named(f"{several['before']}[{number}]{several['rest']}", counts)


def the_only(name: str, found: Sequence[_Object]) -> _Object:
    """Return the only object that a name stands for.

    Raises
    ------
    InputError
        It stands for several.
    """
    if len(found) > 1:
        hint = f"name one of them, as {found[0].path}"
        raise InputError(f"{name!r:.80} names {len(found):,} objects", hint=hint)
    return found[0]


def is_link(graph: NodeGraph, name: str) -> bool:
    """Return whether a name is that of a link: it has an arrow, and no node has it."""
    return ARROW in name and not len(named(graph, name))


def link_ends(graph: NodeGraph, name: str) -> tuple[str, str, str]:
    """Return both ends of a link, and the number of its lane behind ``#``; empty: all lanes.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> link_ends(blueprint("ring:gpus=4").expand(), "gpu[0]->box.0.gpu.1#0")
    ('gpu[0]', 'box.0.gpu.1', '0')
    """
    plain, _, lane = name.partition("#")
    words = plain.split(ARROW)
    splits = [(ARROW.join(words[:at]), ARROW.join(words[at:])) for at in range(1, len(words))]
    # Names of nodes may have arrows, too.
    a, b = next((ends for ends in splits[1:] if all(len(named(graph, end)) for end in ends)), splits[0])
    return a, b, lane


def opposite(graph: NodeGraph, link: str, where: str) -> str:
    """Return the name of the other direction of a link.

    Raises
    ------
    InputError
        It is no link.
    """
    name = spelled(link, graph)
    if not is_link(graph, name):
        raise InputError(f"{link!r:.80} is not a link", where=where, hint="write A->B or A->B#k")
    a, b, lane = link_ends(graph, name)
    return f"{b}{ARROW}{a}{'#' if lane else ''}{lane}"


def find_nodes(graph: NodeGraph, name: str, *, allow_ambiguous: bool = False) -> I64:
    """Find the nodes that a name stands for: one, or several of a pattern, a range or an instance.

    Parameters
    ----------
    graph : NodeGraph
    name : str
        As :func:`spelled` returns it: a full name (``dgx.0.xpu.3``); the end of one that no other node has
        (``nvsw.0``); a rank (``gpu[3]``), several (``gpu[0-3]``) or all (``gpu[*]``); a component by its
        number in the whole infrastructure (``nic[9]``); an instance (``host.0``), which is all its nodes;
        or a pattern, in which ``*`` stands for any text between two dots (``dgx.*.nvsw.0``, ``nvsw.*``).
    allow_ambiguous : bool
        Return all nodes that a short name may be the end of, instead of an error.

    Returns
    -------
    ndarray of int64
        In the order of ranks, or of the document.

    Raises
    ------
    InputError
        No node is called so, or the short name is that of several.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> graph = blueprint("clos:servers=2").expand()
    >>> [len(find_nodes(graph, name)) for name in ("gpu[9]", "gpu[*]", "nic[9]", "nic[*]", "host.*.nvsw.0")]
    [1, 16, 1, 16, 2]
    """
    rank = _RANK.fullmatch(name)
    if rank:
        return _ranks(graph, rank[1] or rank[2], name)
    found = _whole(graph, name)
    numbered = None if len(found) else _NUMBERED.fullmatch(name)
    if numbered:
        return _numbered(graph, name, *numbered.groups())
    if not len(found):
        found = ending_in(graph, name)
        if not len(found):
            raise _unknown(graph, name)
        if len(found) > 1 and not is_several(name) and not allow_ambiguous:
            raise ambiguous(name, [graph.name(int(node)) for node in found[:3]], len(found))
    return found


def _whole(graph: NodeGraph, name: str) -> I64:
    """Find the node of a full name, or all of an instance or of a slice; none for a short name."""
    found = named(graph, name)
    if not len(found) and "*" not in name:
        with suppress(InputError):
            return graph.select(name)
    return found


def _numbered(graph: NodeGraph, name: str, word: str, number: str) -> I64:
    """Find a node by its number among all that are called so, or else are of that type; ``*`` is all."""
    found = ending_in(graph, f"{word}.*")
    if not len(found):
        types = [row for row, (_, one) in enumerate(graph.plan.components) if one.type == word]
        found = np.flatnonzero(np.isin(graph.nodes.component, types))
    if not len(found):
        raise _unknown(graph, name)
    if number == "*":
        return found
    first, last = (int(one) for one in (number.split("-") * 2)[:2])
    if not first <= last < len(found):
        raise InputError(f"unknown {name!r}", hint=f"they count from 0 to {len(found) - 1}")
    return found[first : last + 1]


def ambiguous(name: str, some: Sequence[str], count: int) -> InputError:
    """Return the error for a short name of several objects, with the full names of some."""
    return InputError(f"{name!r} may be any of {count} objects", hint=f"write more of it: {', '.join(some)}")


def is_short(graph: NodeGraph, name: str) -> bool:
    """Return whether a name is no full name, rank, instance or pattern: the end of one, if it is any."""
    return not is_several(name) and not _RANK.fullmatch(name) and not len(_whole(graph, name))


def one_node(graph: NodeGraph, name: str) -> int:
    """Find the only node that a name stands for.

    Raises
    ------
    InputError
        There is none, or it stands for several.
    """
    found = find_nodes(graph, name)
    if len(found) != 1:
        raise InputError(f"{name!r} names {len(found)} nodes", where=graph.title, hint="name one of them")
    return int(found[0])


def short_name(graph: NodeGraph, nodes: Iterable[int]) -> str:
    """Return the shortest name of some nodes and no others, as :func:`find_nodes` reads it.

    Parameters
    ----------
    graph : NodeGraph
    nodes : iterable of int
        One, or several that a link of whole messages leads to.

    Returns
    -------
    str
        ``gpu[3]``, ``nvsw.0``, where several nodes end in that ``host.0.nvsw.0``; of several ``nvsw.*``.
        Where no pattern stands for just these, ``leafsw.0.port.8 and 7 others``, which cannot be typed.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> graph = blueprint("dgx-h100").expand()
    >>> short_name(graph, [graph.index("dgx_h100.0.xpu.3")]), short_name(graph, find_nodes(graph, "nvsw.*"))
    ('gpu[3]', 'nvsw.*')
    """
    some = sorted({int(node) for node in nodes})
    if len(some) == 1:
        ranks = np.flatnonzero(graph.gpus == some[0])
        if len(ranks):
            return f"gpu[{ranks[0]}]"
    rows = [graph.name(node).split(".")[::-1] for node in some]
    columns = [set(column) for column in zip(*rows, strict=False)]
    any_of = tuple(part for part, found in enumerate(columns, 1) if len(found) > 1)
    pattern = ["*" if len(found) > 1 else found.pop() for found in columns][::-1]
    # A name is a row of words, each with a number.
    for parts in range(2 * ((max(2, *any_of, 0) + 1) // 2), len(pattern) + 1, 2):
        name = ".".join(pattern[-parts:])
        if len(ending_in(graph, name)) == len(some) and (any_of or is_short(graph, name)):
            return name
    if len(some) == 1:
        return graph.name(some[0])
    return f"{short_name(graph, some[:1])} and {plural(len(some) - 1, 'other')}"


def _ranks(graph: NodeGraph, which: str, name: str) -> I64:
    ranks = graph.gpus.astype(np.int64)
    if which == "*":
        return ranks
    first, last = (int(number) for number in (which.split("-") * 2)[:2])
    if not first <= last < len(ranks):
        raise InputError(f"unknown {name}", hint=f"ranks are 0 to {len(ranks) - 1}")
    return ranks[first : last + 1]


def _unknown(graph: NodeGraph, name: str) -> InputError:
    """Return the error for an unknown name, with the nearest names of nodes, whole or short."""
    return InputError(f"unknown object {name!r:.80}", hint=nearest(name, near_names(graph, name)))
