"""Grammars as sequences of tokens, and back: what an autoregressive model reads and writes.

A token is a node, described by places relative to its stage, or the repetition of the nodes just written.
A node has a pattern of dependencies on earlier tokens, so that both fit other numbers of layers, microbatches
and stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from astranb.chakra.scaling import RepeatedModules
from astranb.chakra.traces import NodeType

from .outline import GrammarStage, Outline
from .patterns import Pattern, PatternContext, simple_pattern

__all__ = [
    "FEATURES",
    "Budget",
    "Item",
    "NodeToken",
    "Repetition",
    "Token",
    "Vocabulary",
    "absolute",
    "items_of",
]

FEATURES: Final = 9  # of a place in a sequence: see Budget
_MOST_SYMBOLS: Final = 12  # of a kind that are known again; more are drawn anew each time
_MOST_PATTERNS: Final = 600
_NEAR_LAYERS: Final = 2
_ENDS: Final = tuple(
    (peer, int(kind)) for peer in ("+1", "-1") for kind in (NodeType.COMM_SEND, NodeType.COMM_RECV)
)


class NodeToken(NamedTuple):
    """A node: its kind, its group or peer by place, and which symbol of this kind it is."""

    type: int
    collective: int
    group: tuple[bool, bool, str] | None  # spans a tensor group, replicas; stages
    peer: str
    background: bool
    cpu: bool
    signs: tuple[int, ...]  # which sizes it has
    place: str  # of the stage where the symbol is used first
    ordinal: int  # of the symbol; -1 for one that is drawn anew


class Repetition(NamedTuple):
    """The last nodes are repeated: so often, or so many times more than there are layers."""

    period: int
    of_layers: bool
    more: int


Token = NodeToken | Repetition | None  # None: the end of a stage


class Item(NamedTuple):
    """A token in a sequence, with its pattern (-1: none), logarithms of sizes, and features before it."""

    token: int
    pattern: int
    sizes: tuple[float, ...]
    features: tuple[float, ...]


class Budget:
    """Number of messages that a stage still has to send to its neighbours, and to receive from them."""

    def __init__(self, ends: Mapping[tuple[str, int], int]) -> None:
        self.left = Counter(ends)
        self._all = max([1, *ends.values()])
        self._steps = 0

    def take(self, token: Token) -> None:
        """Count a token."""
        self._steps += 1
        if isinstance(token, NodeToken) and token.peer:
            self.left[token.peer, token.type] -= 1

    @property
    def features(self) -> tuple[float, ...]:
        """Features of a place in the sequence: messages left, near the end also one by one."""
        made = [np.log1p(self._steps) / 5]
        for end in _ENDS:
            left = max(0, self.left[end])
            made += [left / self._all, min(left, 6) / 6]
        return tuple(made)


class Vocabulary:
    """The tokens and patterns of some grammars.

    Attributes
    ----------
    tokens : list
    patterns : list
        Of elements (name, token, number).
    calls_last : bool
        Whether stages do collectives with one another only after all messages.
    """

    def __init__(self, tokens: Sequence[Token], patterns: Sequence[Pattern], calls_last: bool = True) -> None:
        self.tokens, self.patterns, self.calls_last = list(tokens), list(patterns), calls_last
        self.number = {token: at for at, token in enumerate(tokens)}
        self.pattern_number = {pattern: at for at, pattern in enumerate(patterns)}

    @classmethod
    def of(cls, outlines: Sequence[Outline]) -> Vocabulary:
        """Collect what there is; rare patterns are left to the nearest ones."""
        tokens: dict[Token, int] = {None: 0}
        counts: Counter[Pattern] = Counter()
        for outline in outlines:
            names = _names(outline)
            for own in range(len(outline.stages)):
                rows = [tokens.setdefault(one, len(tokens)) for one in _nodes(outline, own, names)]
                counts.update(_patterns(rows, outline.stages[own], outline.layers))
        counts[()] += 1
        common = [pattern for pattern, _ in counts.most_common(_MOST_PATTERNS)]
        common += [one for one in {simple_pattern(pattern) for pattern in counts} if one not in common]
        found = cls(list(tokens), common, calls_last=all(map(_calls_last, outlines)))
        for outline in outlines:
            for own in range(len(outline.stages)):
                for token in found.sequence(outline, own)[0]:
                    if isinstance(token, Repetition) and token not in found.number:
                        found.number[token] = len(found.tokens)
                        found.tokens.append(token)
        return found

    def sequence(self, outline: Outline, own: int) -> tuple[list[Token], list[int], list[int]]:
        """Return the tokens of a stage, their patterns, and their rows (-1: none)."""
        names = _names(outline)
        nodes = _nodes(outline, own, names)
        rows = [self.number[one] for one in nodes]
        patterns = [self.find(one) for one in _patterns(rows, outline.stages[own], outline.layers)]
        keys = np.array([row * len(self.patterns) + one for row, one in zip(rows, patterns, strict=True)])
        letters = [outline.letters[at] for at in outline.stages[own].letters]
        alone = [
            letter.crosses_stages or node.ordinal < 0 for letter, node in zip(letters, nodes, strict=True)
        ]
        tokens: list[Token] = []
        chosen: list[int] = []
        places: list[int] = []
        modules = RepeatedModules.of(np.where(alone, -1 - np.arange(len(rows)), keys), ())
        for start, period, repeats in modules.segments:
            tokens += nodes[start : start + period]
            chosen += patterns[start : start + period]
            places += range(start, start + period)
            if repeats > 1:
                of_layers = outline.layers > 1 and abs(repeats - outline.layers) <= _NEAR_LAYERS
                tokens.append(Repetition(period, of_layers, repeats - outline.layers * of_layers))
                chosen.append(-1)
                places.append(-1)
        return [*tokens, None], [*chosen, -1], [*places, -1]

    def find(self, pattern: Pattern) -> int:
        """Return the number of a pattern, or of what is nearest to it."""
        return self.pattern_number.get(pattern, self.pattern_number.get(simple_pattern(pattern), 0))


def items_of(vocabulary: Vocabulary, outline: Outline, own: int) -> tuple[list[Item], Budget]:
    """Return the sequence of a stage, and the messages that it has to exchange."""
    tokens, patterns, rows = vocabulary.sequence(outline, own)
    ends = Counter((one.peer, one.type) for one in tokens if isinstance(one, NodeToken) and one.peer)
    budget, made = Budget(ends), []
    for token, pattern, row in zip(tokens, patterns, rows, strict=True):
        sizes: tuple[float, ...] = ()
        if row >= 0:
            sizes = tuple(outline.sizes[outline.letters[outline.stages[own].letters[row]].symbol].tolist())
        made.append(Item(vocabulary.number[token], pattern, sizes, budget.features))
        budget.take(token)
    return made, Budget(ends)


def absolute(token: NodeToken, own: int, stages: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the peer (-1: none) and the stages of the group of a node; None where they do not exist."""
    peer = -1
    if token.peer:
        peer = {"first": 0, "last": stages - 1}.get(token.peer, -2)
        peer = own + int(token.peer) if peer == -2 else peer
        if not 0 <= peer < stages or peer == own:
            return None
    if token.group is None:
        return peer, ()
    where = token.group[2]
    named = {"own": (own,), "all": tuple(range(stages)), "ends": (0, stages - 1)}
    group = named.get(where) or tuple(own + int(one) for one in where.split(","))
    return (
        (peer, group)
        if own in group and min(group) >= 0 and max(group) < stages and len(set(group)) == len(group)
        else None
    )


def place_of(own: int, stages: int) -> str:
    """Name a stage by its place."""
    return "first" if own == 0 else "last" if own == stages - 1 else "middle"


def _calls_last(outline: Outline) -> bool:
    for stage in outline.stages:
        crossing = [one for at in stage.letters if (one := outline.letters[at]).crosses_stages]
        if any(one.peer < 0 and other.peer >= 0 for one, other in pairwise(crossing)):
            return False
    return True


def _names(outline: Outline) -> dict[int, tuple[str, int]]:
    """Name the symbols by the place of the stage where they are used first, and their order there."""
    found: dict[int, tuple[str, int]] = {}
    counts: Counter[tuple[object, str]] = Counter()
    for own, stage in enumerate(outline.stages):
        place = place_of(own, len(outline.stages))
        for at in stage.letters:
            symbol = outline.letters[at].symbol
            if symbol not in found:
                kind = (outline.signature[symbol][0], place)
                found[symbol] = (place, counts[kind] if counts[kind] < _MOST_SYMBOLS else -1)
                counts[kind] += 1
    return found


def _nodes(outline: Outline, own: int, names: Mapping[int, tuple[str, int]]) -> list[NodeToken]:
    stages = len(outline.stages)
    known: dict[int, NodeToken] = {}
    for at in set(outline.stages[own].letters):
        letter = outline.letters[at]
        role, group = letter.role, None
        if role is not None:
            group = (role.tensor, role.data, _where(role.stages, own, stages))
        peer = ""
        if letter.peer >= 0:
            step = letter.peer - own
            peer = (
                f"{step:+d}"
                if abs(step) == 1
                else {0: "first", stages - 1: "last"}.get(letter.peer, f"{step:+d}")
            )
        signs = tuple(int(one) for one in np.sign(outline.sizes[letter.symbol]))
        known[at] = NodeToken(
            letter.type,
            letter.collective,
            group,
            peer,
            letter.background,
            letter.cpu,
            signs,
            *names[letter.symbol],
        )
    return [known[at] for at in outline.stages[own].letters]


def _where(members: tuple[int, ...], own: int, stages: int) -> str:
    if members == (own,):
        return "own"
    if members == (0, stages - 1):
        return "ends"
    if len(members) == stages:
        return "all"
    return ",".join(f"{one - own:+d}" for one in members)


def _patterns(tokens: Sequence[int], stage: GrammarStage, layers: int) -> list[Pattern]:
    """Return the pattern of nodes that each node waits for."""
    context = PatternContext(layers)
    return [context.pattern_of(*one) for one in zip(tokens, stage.parents, strict=True)]
