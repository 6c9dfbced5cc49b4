"""Stages of a workload from tokens, one after the other, so that they agree with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from astranb.chakra._schema import NodeType

from astranb.core.errors import AstranbError

from .outline import SIZES, GroupRole, Letter, Outline, Stage, agree, stage_of
from .patterns import PatternContext
from .tokens import Budget, NodeToken, Repetition, Token, Vocabulary, absolute

__all__ = ["Assembly"]

_MOST_ROWS: Final = 1 << 17  # of a stage
_SEND, _RECV = int(NodeType.COMM_SEND), int(NodeType.COMM_RECV)


class Assembly:
    """A workload that is being written.

    What a stage has to exchange with earlier ones is known when it is written: only that may be chosen, and
    what is left at its end is added.

    Parameters
    ----------
    vocabulary : Vocabulary
    plan : tuple of int
        Tensor, data, pipeline.
    layers : int
    ends : sequence of mapping
        The messages of each stage of a workload like this one, by peer and type.
    random : Generator
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        plan: tuple[int, int, int],
        layers: int,
        ends: Sequence[Mapping[tuple[str, int], int]],
        random: np.random.Generator,
    ) -> None:
        self._vocabulary, self._plan, self._layers = vocabulary, plan, layers
        self._ends, self._random = ends, random
        self._letters: dict[Letter, int] = {}
        self._symbols: dict[object, int] = {}
        self._named: list[object] = []
        self._sizes: list[np.ndarray] = []
        self._stages: list[Stage] = []
        self._messages: dict[tuple[int, int, int], int] = {}  # source, target, number: symbol
        self._done: Counter[tuple[int, int, int]] = Counter()  # type, source, target
        self._calls: dict[GroupRole, list[tuple[int, int]]] = {}
        self._begin()

    @property
    def own(self) -> int:
        """The number of the stage that is being written."""
        return len(self._stages)

    @property
    def rows(self) -> int:
        """How many nodes it has."""
        return len(self._rows)

    def _begin(self) -> None:
        self._rows: list[int] = []
        self._parents: list[tuple[int, ...]] = []
        self._tags: list[int] = []
        self._context = PatternContext(self._layers)
        self._tail: list[tuple[int, int, int] | None] = []  # token, pattern, letter; None: not to be repeated
        self._called: Counter[GroupRole] = Counter()
        if self.own < self._plan[2]:
            self.budget = Budget(self._to_exchange())
            self._places = [
                absolute(one, self.own, self._plan[2]) if isinstance(one, NodeToken) else None
                for one in self._vocabulary.tokens
            ]

    def _to_exchange(self) -> dict[tuple[str, int], int]:
        """Say how many messages there will be: with earlier stages as they need, with later ones as usual."""
        own, stages = self.own, self._plan[2]
        same = len(self._ends) == stages
        like = dict(self._ends[own] if same else self._ends[0 if own == 0 else min(1, len(self._ends) - 1)])
        made = {end: count for end, count in like.items() if not end[0].startswith("-")}
        before = self._due(own - 1) if own else {}
        for kind in (_SEND, _RECV):
            made["-1", kind] = before.get(kind, 0)
        if own == stages - 1:
            made = {end: count for end, count in made.items() if end[0] != "+1"}
        elif own and not same:  # a stage passes on what it gets
            made["+1", _SEND], made["+1", _RECV] = made["-1", _RECV], made["-1", _SEND]
        return made

    def _due(self, other: int) -> dict[int, int]:
        """Give how many sends to, and receives from, an earlier stage are missing."""
        own, done = self.own, self._done
        return {
            _SEND: done[_RECV, own, other] - done[_SEND, own, other],
            _RECV: done[_SEND, other, own] - done[_RECV, other, own],
        }

    def allowed(self) -> np.ndarray:
        """Say which tokens may follow."""
        return np.array([self._allows(at, token) for at, token in enumerate(self._vocabulary.tokens)])

    def _allows(self, at: int, token: Token) -> bool:
        own = self.own
        if token is None:
            return (
                bool(self._rows)
                and not self._missing()
                and not any(left > 0 and end[0] == "+1" for end, left in self.budget.left.items())
            )
        if isinstance(token, Repetition):
            last = self._tail[-token.period :]
            times = token.count + self._layers * token.of_layers
            fits = len(last) == token.period and None not in last and times > 1
            return (
                fits
                and (not token.of_layers or self._layers > 1)
                and self.rows + times * token.period < _MOST_ROWS
            )
        places = self._places[at]
        if places is None:
            return False
        peer, members = places
        if peer >= 0:
            return (
                self._due(peer)[token.type] > 0
                if peer < own
                else self.budget.left[token.peer, token.type] > 0
            )
        if token.group is None:
            return True
        if (token.group[0] and self._plan[0] == 1) or (token.group[1] and self._plan[1] == 1):
            return False
        if len(members) == 1 or own == members[0]:
            return True
        role = GroupRole(*token.group[:2], members)
        calls, called = self._calls.get(role, []), self._called[role]
        return called < len(calls) and calls[called][0] == token.collective

    def _missing(self) -> list[tuple[Letter, bool]]:
        """Give what a stage still has to do for earlier ones: nodes, and whether each is a message."""
        made = []
        for other in range(self.own):
            for kind, count in self._due(other).items():
                made += [(_plain(kind, peer=other), True)] * max(0, count)
        for role, calls in self._calls.items():
            if self.own in role.stages[1:]:
                for collective, symbol in calls[self._called[role] :]:
                    kind = int(NodeType.COMM_COLL)
                    made.append((_plain(kind, collective, role, symbol=symbol), False))
        return made

    def take(self, number: int, pattern: int, sizes: Callable[[], np.ndarray]) -> bool:
        """Write a token that is allowed, and say whether that ended the stage.

        Parameters
        ----------
        number, pattern : int
        sizes : callable
            Gives the sizes of the token's symbol, where it is new.
        """
        token = self._vocabulary.tokens[number]
        self.budget.take(token)
        if token is None:
            self.end()
            return True
        if isinstance(token, Repetition):
            last = self._tail[-token.period :]
            for _ in range(token.count + self._layers * token.of_layers - 1):
                for one in last:
                    if one is not None:
                        self._add(*one, -1)
            self._tail = []
            return False
        places = self._places[number]
        if places is None:
            raise AstranbError(f"{token} has no place in stage {self.own}")
        peer, members = places
        role = None if token.group is None else GroupRole(*token.group[:2], members)
        letter = Letter(token.type, token.collective, role, peer, token.background, token.cpu, -1)
        tag, key = -1, (token.place, token.ordinal, token.signs, self._kind(letter))
        if peer >= 0:
            tag, symbol = self._message(letter, key, sizes, token.signs)
        elif role is not None and len(role.stages) > 1 and self.own != role.stages[0]:
            symbol = self._calls[role][self._called[role]][1]
        else:
            symbol = self._symbol(key if token.ordinal >= 0 else object(), letter, sizes, token.signs)
        self._put(number, pattern, letter._replace(symbol=symbol), tag)
        return False

    def _put(self, number: int, pattern: int, letter: Letter, tag: int) -> None:
        if letter.role is not None and len(letter.role.stages) > 1:
            if self.own == letter.role.stages[0]:
                self._calls.setdefault(letter.role, []).append((letter.collective, letter.symbol))
            self._called[letter.role] += 1
        at = self._letters.setdefault(letter, len(self._letters))
        self._add(number, pattern, at, tag)
        self._tail.append(None if letter.crosses_stages else (number, pattern, at))

    def _add(self, number: int, pattern: int, letter: int, tag: int) -> None:
        told = self._vocabulary.patterns[pattern] if pattern >= 0 else (("before", 0, 0),)
        self._parents.append(self._context.parents(number, told, self._random))
        self._rows.append(letter)
        self._tags.append(tag)

    def _message(
        self, letter: Letter, key: object, sizes: Callable[[], np.ndarray], signs: Sequence[int]
    ) -> tuple[int, int]:
        """Give the tag and symbol of a message: both ends have the same."""
        ends = (self.own, letter.peer) if letter.type == _SEND else (letter.peer, self.own)
        tag = self._done[letter.type, *ends]
        self._done[letter.type, *ends] += 1
        if (*ends, tag) not in self._messages:
            self._messages[*ends, tag] = self._symbol(key, letter, sizes, signs)
        return tag, self._messages[*ends, tag]

    def _symbol(
        self, key: object, letter: Letter, sizes: Callable[[], np.ndarray], signs: Sequence[int]
    ) -> int:
        if key not in self._symbols:
            self._symbols[key] = len(self._sizes)
            self._named.append((self._kind(letter), *signs))
            self._sizes.append(np.where(np.array(signs) > 0, sizes(), signs))
        return self._symbols[key]

    @staticmethod
    def _kind(letter: Letter) -> object:
        role = letter.role
        if letter.peer >= 0:
            return "message"
        return (letter.type, letter.collective, role and (role.tensor, role.data, len(role.stages)))

    def end(self) -> None:
        """End the stage, with what it still has to do for earlier ones."""
        for letter, is_message in self._missing():
            if is_message:
                signs = (-1,) * len(SIZES)
                tag, symbol = self._message(letter, None, lambda: np.zeros(len(SIZES)), signs)
                self._put(-1, -1, letter._replace(symbol=symbol), tag)
            else:
                self._put(-1, -1, letter, -1)
        self._stages.append(Stage(self._rows, self._parents, self._tags, [], []))
        self._begin()

    def outline(self, divided: bool) -> Outline:
        """Give the whole workload as a grammar that is written out already.

        Parameters
        ----------
        divided : bool
            Whether ranks of a stage are alike.
        """
        letters = list(self._letters)
        _untangle(self._stages, letters)
        stages = [stage_of(one.letters, one.parents, one.tags, letters) for one in self._stages]
        if what := agree(stages, letters):
            raise AstranbError(what)
        sizes = np.array(self._sizes, float).reshape(len(self._sizes), len(SIZES))
        signature = tuple(self._named)
        return Outline(letters, sizes, signature, stages, self._layers, self._plan, divided)  # type: ignore[arg-type]


def _plain(
    kind: int, collective: int = -1, role: GroupRole | None = None, *, peer: int = -1, symbol: int = -1
) -> Letter:
    return Letter(kind, collective, role, peer, background=False, cpu=False, symbol=symbol)


def _untangle(stages: Sequence[Stage], letters: Sequence[Letter]) -> None:
    """Leave out dependencies that make stages wait for each other in a circle."""
    nodes = [(own, row) for own, stage in enumerate(stages) for row in range(len(stage.letters))]
    meets: dict[tuple[int, int], object] = {}
    waits: dict[object, set[object]] = {}
    for own, stage in enumerate(stages):
        called: Counter[GroupRole] = Counter()
        for row, at in enumerate(stage.letters):
            letter = letters[at]
            if letter.role is not None and len(letter.role.stages) > 1:
                meets[own, row] = (letter.role, called[letter.role])  # all ranks of a group begin together
                called[letter.role] += 1
    sends = {
        (own, letters[at].peer, stage.tags[row]): (own, row)
        for own, stage in enumerate(stages)
        for row, at in enumerate(stage.letters)
        if letters[at].type == _SEND
    }
    for own, row in nodes:
        stage, letter = stages[own], letters[stages[own].letters[row]]
        key = meets.get((own, row), (own, row))
        before = {meets.get((own, one), (own, one)) for one in stage.parents[row]}
        if letter.type == _RECV:
            before.add(sends[letter.peer, own, stage.tags[row]])
        waits.setdefault(key, set()).update(before)
    of: dict[object, list[tuple[int, int]]] = {}
    for node in nodes:
        of.setdefault(meets.get(node, node), []).append(node)
    children: dict[object, list[object]] = {}
    for key, before in waits.items():
        for one in before:
            children.setdefault(one, []).append(key)
    left = {key: len(before) for key, before in waits.items()}
    ready = [key for key, count in left.items() if not count]
    held = sorted(nodes, key=lambda node: (node[1], node[0]))
    place = 0
    while True:
        while ready:
            key = ready.pop()
            left.pop(key)
            for child in children.get(key, ()):
                if child in left:
                    left[child] -= 1
                    if not left[child]:
                        ready.append(child)
        while place < len(held) and meets.get(held[place], held[place]) not in left:
            place += 1
        if place == len(held):
            return
        # In a circle somebody waits for a node of its own stage.
        for own, row in held[place:]:
            key = meets.get((own, row), (own, row))
            if key not in left:
                continue
            stuck = [one for one in stages[own].parents[row] if meets.get((own, one), (own, one)) in left]
            if stuck:
                stages[own].parents[row] = tuple(one for one in stages[own].parents[row] if one not in stuck)
                gone = {meets.get((own, one), (own, one)) for one in stuck}
                still = {
                    meets.get((other, one), (other, one))
                    for other, at in of[key]
                    for one in stages[other].parents[at]
                }
                gone -= still
                for one in gone:
                    children[one].remove(key)
                left[key] -= len(gone)
                if not left[key]:
                    ready.append(key)
                break
