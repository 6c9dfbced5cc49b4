"""Stages of a workload from tokens, one after the other, so that they agree with one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from operator import or_
from typing import Final

import numpy as np

from astranb.chakra.traces import NodeType
from astranb.core.errors import AstranbError

from .outline import SIZES, GrammarStage, GroupRole, Letter, Outline, agree, stage_of
from .patterns import PatternContext
from .tokens import Budget, NodeToken, Repetition, Token, Vocabulary, absolute

__all__ = ["WorkloadAssembly"]

_MOST_ROWS: Final = 1 << 17  # of a stage
_SEND, _RECV = int(NodeType.COMM_SEND), int(NodeType.COMM_RECV)


class WorkloadAssembly:
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
        self._known: list[Letter] = []
        self._symbols: dict[object, int] = {}
        self._named: list[object] = []
        self._sizes: list[np.ndarray] = []
        self._stages: list[tuple[list[int], list[tuple[int, ...]], list[int]]] = []
        self._messages: dict[tuple[int, int, int], int] = {}  # source, target, number: symbol
        self._done: Counter[tuple[int, int, int]] = Counter()  # type, source, target
        self._ahead: dict[int, list[int]] = {}  # of each stage: sends to the next one before each receipt
        self._calls: list[tuple[GroupRole, int, int]] = []  # of several stages, in one order for all: symbols
        self._begin()

    @property
    def own(self) -> int:
        """The number of the stage that is being written."""
        return len(self._stages)

    @property
    def rows(self) -> int:
        """Number of nodes."""
        return len(self._rows)

    def _begin(self) -> None:
        self._rows: list[int] = []
        self._parents: list[tuple[int, ...]] = []
        self._behind: list[int] = []  # of each row a bit for each one that it waits for, in steps too
        self._tags: list[int] = []
        self._context = PatternContext(self._layers)
        self._tail: list[tuple[int, int, int] | None] = []  # token, pattern, letter; None: not to be repeated
        self._called = 0  # so far this stage is in the calls
        self._sends: list[int] = []  # since the last call
        self._last: dict[object, int] = {}  # collective of each stream and group
        if self.own < self._plan[2]:
            self.budget = Budget(self._to_exchange())
            self._places = [
                absolute(one, self.own, self._plan[2]) if isinstance(one, NodeToken) else None
                for one in self._vocabulary.tokens
            ]

    def _to_exchange(self) -> dict[tuple[str, int], int]:
        """Return the number of messages to come: with earlier stages as needed, with later ones as usual."""
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
        """Return how many sends to, and receives from, an earlier stage are missing."""
        own, done = self.own, self._done
        return {
            _SEND: done[_RECV, own, other] - done[_SEND, own, other],
            _RECV: done[_SEND, other, own] - done[_RECV, other, own],
        }

    def allowed(self) -> np.ndarray:
        """Return a mask of the tokens that may follow."""
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
            times = token.more + self._layers * token.of_layers
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
            if peer > own:
                return self.budget.left[token.peer, token.type] > 0
            return self._due(peer)[token.type] > 0 and not (
                token.type == _RECV and peer == own - 1 and self._too_early()
            )
        if token.group is None:
            return True
        if (token.group[0] and self._plan[0] == 1) or (token.group[1] and self._plan[1] == 1):
            return False
        if len(members) == 1:
            return True
        if self._vocabulary.calls_last and any(left > 0 for left in self.budget.left.values()):
            return False
        if own == members[0]:
            return True
        waiting = self._waiting()
        return bool(waiting) and self._calls[waiting[0]][:2] == (
            GroupRole(*token.group[:2], members),
            token.collective,
        )

    def _too_early(self) -> bool:
        """Return whether the previous stage gets a message from here before it may send its next one."""
        own, ahead = self.own, self._ahead.get(self.own - 1, [])
        sent = self._done[_SEND, own, own - 1]
        return sent < len(ahead) and self._done[_RECV, own - 1, own] >= ahead[sent]

    def _waiting(self) -> list[int]:
        """Return the calls of earlier stages that this one has yet to join, in order."""
        return [at for at in range(self._called, len(self._calls)) if self.own in self._calls[at][0].stages]

    def _missing(self) -> list[tuple[Letter, bool]]:
        """Return what a stage still has to do for earlier ones: nodes, and whether each is a message."""
        made = []
        for other in range(self.own):
            for kind, count in self._due(other).items():
                made += [(_plain(kind, peer=other), True)] * max(0, count)
        for at in self._waiting():
            role, collective, symbol = self._calls[at]
            made.append((_plain(int(NodeType.COMM_COLL), collective, role, symbol=symbol), False))
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
            for _ in range(token.more + self._layers * token.of_layers - 1):
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
            symbol = self._calls[self._waiting()[0]][2]
        else:
            symbol = self._symbol(key if token.ordinal >= 0 else object(), letter, sizes, token.signs)
        self._put(number, pattern, letter._replace(symbol=symbol), tag)
        return False

    def _put(self, number: int, pattern: int, letter: Letter, tag: int) -> None:
        at = self._letters.setdefault(letter, len(self._letters))
        if at == len(self._known):
            self._known.append(letter)
        self._add(number, pattern, at, tag)
        self._tail.append(None if letter.crosses_stages else (number, pattern, at))

    def _join(self, letter: Letter, role: GroupRole) -> None:
        """Put the last node, a collective, into one order with those of other groups on all ranks.

        Without it ranks could begin two collectives, or one and a message that others need before it, in
        different orders, and deadlock.
        """
        row, several = len(self._rows) - 1, len(role.stages) > 1
        if several:
            while self._sends:
                self._follow(self._sends.pop())
            self._last["call"] = row
        keys = [role, *((False, True) if several else (letter.background,))]
        for before in {self._last.get(key, -1) for key in keys}:
            self._follow(before)
        self._last.update(dict.fromkeys(keys, row))
        if not several:
            return
        if self.own == role.stages[0]:
            self._calls.insert(self._called, (role, letter.collective, letter.symbol))
            self._called += 1
        else:
            self._called = self._waiting()[0] + 1

    def _follow(self, before: int) -> None:
        """Make the last node wait for one, where it does not yet do so."""
        if before >= 0 and not self._behind[-1] >> before & 1:
            self._parents[-1] = tuple(sorted({*self._parents[-1], before}))
            self._behind[-1] |= self._behind[before] | 1 << before

    def _add(self, number: int, pattern: int, letter: int, tag: int) -> None:
        dependencies = self._vocabulary.patterns[pattern] if pattern >= 0 else (("before", 0, 0),)
        row = len(self._rows)
        parents = self._context.parents(number, dependencies, self._random)
        self._parents.append(parents)
        self._behind.append(reduce(or_, (self._behind[one] | 1 << one for one in parents), 0))
        self._rows.append(letter)
        self._tags.append(tag)
        known = self._known[letter]
        if known.role is not None:
            self._join(known, known.role)
        elif known.type == _SEND:
            self._follow(self._last.get("call", -1))
            self._sends.append(row)

    def _message(
        self, letter: Letter, key: object, sizes: Callable[[], np.ndarray], signs: Sequence[int]
    ) -> tuple[int, int]:
        """Return the tag and symbol of a message: both ends have the same."""
        ends = (self.own, letter.peer) if letter.type == _SEND else (letter.peer, self.own)
        tag = self._done[letter.type, *ends]
        if letter.type == _RECV and letter.peer == self.own + 1:
            self._ahead.setdefault(self.own, []).append(self._done[_SEND, self.own, letter.peer])
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
        self._stages.append((self._rows, self._parents, self._tags))
        self._begin()

    def outline(self, *, divided: bool) -> Outline | None:
        """Return the whole workload as a grammar that is written out, or None if its stages could not end.

        Parameters
        ----------
        divided : bool
            Whether ranks of a stage are alike.
        """
        letters = self._known
        stages = [stage_of(*one, letters) for one in self._stages]
        if not _ends(stages, letters):
            return None
        if what := agree(stages, letters):
            raise AstranbError(what)
        sizes = np.array(self._sizes, float).reshape(len(self._sizes), len(SIZES))
        signature = tuple(self._named)
        return Outline(letters, sizes, signature, stages, self._layers, self._plan, divided)  # type: ignore[arg-type]


def _plain(
    kind: int, collective: int = -1, role: GroupRole | None = None, *, peer: int = -1, symbol: int = -1
) -> Letter:
    return Letter(kind, collective, role, peer, background=False, cpu=False, symbol=symbol)


def _ends(stages: Sequence[GrammarStage], letters: Sequence[Letter]) -> bool:
    """Return whether stages never wait for one another in a cycle."""
    keys: list[list[object]] = []  # of each node; ranks begin a collective together
    sends: dict[tuple[int, int, int], object] = {}
    for own, stage in enumerate(stages):
        called: Counter[GroupRole] = Counter()
        keys.append([(own, row) for row in range(len(stage.letters))])
        for row, at in enumerate(stage.letters):
            letter = letters[at]
            if letter.role is not None and len(letter.role.stages) > 1:
                keys[own][row] = (letter.role, called[letter.role])
                called[letter.role] += 1
            elif letter.type == _SEND:
                sends[own, letter.peer, stage.tags[row]] = (own, row)
    waits: dict[object, set[object]] = {}
    for own, stage in enumerate(stages):
        for row, at in enumerate(stage.letters):
            before = {keys[own][one] for one in stage.parents[row]}
            if letters[at].type == _RECV:
                before.add(sends[letters[at].peer, own, stage.tags[row]])
            waits.setdefault(keys[own][row], set()).update(before)
    try:
        TopologicalSorter(waits).prepare()
    except CycleError:
        return False
    return True
