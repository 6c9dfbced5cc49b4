"""The scheduler of one instance of a model: which tokens the next iteration computes, and its blocks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from astranb.workload.serving import Batch, ServingPolicy, blocks_of

__all__ = ["REASONS", "Scheduler", "Sequence"]

REASONS: Final = {
    "batch": "the batch is full (max_batch)",
    "memory": "blocks of keys and values are short",
    "budget": "the iteration's token budget is spent",
    "prefill": "prompts are computed first",
    "overlap": "iterations are scheduled while the one before is computed",
}
"""Reasons for which an arrived request waits while an iteration is computed."""


@dataclass(eq=False)
class Sequence:
    """A request on its way.

    Attributes
    ----------
    number : int
        Of the request.
    prompt, output : int
        Its tokens.
    prefill : int
        Tokens that are computed before it decodes: its prompt, and after a preemption what it had given.
    computed : int
        Tokens of these whose keys and values are in memory.
    given : int
        Tokens that it has given, when it last began to decode.
    joined : int
        The instance's decoding step at which it did; -1: it does not decode.
    preemptions : int
    last_ns : int
        When it gave its last token, if not in the decoding steps since it joined; -1: it has given none.
    arrived_ns : int
        When the scheduler saw it.
    """

    number: int
    prompt: int
    output: int
    prefill: int = 0
    computed: int = 0
    given: int = 0
    joined: int = -1
    preemptions: int = 0
    last_ns: int = -1
    arrived_ns: int = 0

    def __post_init__(self) -> None:
        """Begin with the prompt."""
        self.prefill = self.prefill or self.prompt


@dataclass
class _Plan:
    """The iteration that is computed."""

    batch: Batch
    parts: list[tuple[Sequence, int]] = field(default_factory=list)
    waits: str = ""


class Scheduler:
    """Forms an instance's iterations, one after the other.

    Decoding sequences all advance by a token in the iterations that decode, so that a sequence's length
    follows from the step at which it joined: an iteration costs the same however many there are.

    Parameters
    ----------
    policy : ServingPolicy
    blocks : int
        Blocks of keys and values.
    on_preempt : callable
        Called with a sequence that loses its blocks.

    Attributes
    ----------
    waiting : deque of Sequence
        Not admitted, in their order.
    running : dict of Sequence
        Admitted, in that order; they have blocks.
    free : int
        Blocks that nobody has.
    decodes : int
        Sequences that decode.
    """

    def __init__(self, policy: ServingPolicy, blocks: int, on_preempt: Callable[[Sequence], None]) -> None:
        self._policy, self._on_preempt = policy, on_preempt
        self.blocks = self.free = blocks
        self._promised = 0
        self._watermark = int(policy.watermark * blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self._coming: set[Sequence] = set()
        self._joining: list[Sequence] = []
        self._prompts: dict[Sequence, None] = {}
        self._step = 0
        self.decodes = self._tokens = 0
        self._boundaries: Counter[int] = Counter()
        self._ends: dict[int, dict[Sequence, None]] = {}
        self._now: _Plan | None = None
        self._step_ns: list[int] = []
        self._gaps: Counter[int] = Counter()
        self._spans: Counter[int] = Counter()

    @property
    def is_busy(self) -> bool:
        """Whether an iteration is computed."""
        return self._now is not None

    @property
    def load(self) -> int:
        """Requests that are here."""
        return len(self.waiting) + len(self.running)

    @property
    def tokens(self) -> int:
        """Tokens whose keys and values are in memory, or have blocks for them."""
        return self._tokens + sum(one.prefill for one in self._prompts)

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest sequence that can be admitted."""
        return (self.blocks - self._watermark) * self._policy.block_size

    # Sequences that come and go

    def has_room(self, one: Sequence) -> bool:
        """Return whether a sequence can be admitted now."""
        if len(self.running) >= self._policy.max_batch:
            return False
        if self._policy.reserve_output:
            return self.blocks - self._promised - self._whole(one) >= self._watermark
        return self.free - blocks_of(one.prefill, self._policy.block_size) >= self._watermark

    def _whole(self, one: Sequence) -> int:
        """Return the blocks of a sequence at its end; its last token has none."""
        return blocks_of(one.prompt + one.output - 1, self._policy.block_size)

    def reserve(self, one: Sequence) -> None:
        """Admit a sequence whose keys and values are on their way from elsewhere, until :meth:`join`."""
        self._admit(one)
        self._prompts.pop(one)
        self._coming.add(one)

    def join(self, one: Sequence) -> None:
        """Start decoding an admitted sequence, all of whose tokens are in memory, at the next iteration."""
        if self.is_busy:
            self._joining.append(one)
            return
        self._coming.discard(one)
        one.joined = self._step
        self.decodes += 1
        self._tokens += one.computed
        self._boundaries[(one.computed - self._step) % self._policy.block_size] += 1
        self._ends.setdefault(self._step + one.output - one.given, {})[one] = None

    def release(self, one: Sequence) -> None:
        """Free the blocks of a sequence that does not decode."""
        self._remove(one, one.prefill)
        self._prompts.pop(one, None)

    def _admit(self, one: Sequence) -> None:
        self.free -= blocks_of(one.prefill, self._policy.block_size)
        self._promised += self._whole(one)
        self.running[one] = None
        self._prompts[one] = None

    def _leave(self, one: Sequence) -> int:
        """Take a sequence out of those that decode; gives the tokens that it has in memory."""
        size = self._policy.block_size
        tokens = one.computed + self._step - one.joined
        if self._step > one.joined:
            self._gaps[self._step_ns[one.joined] - one.last_ns] += 1
            self._spans[one.joined + 1] += 1
            self._spans[self._step] -= 1
            one.last_ns = self._step_ns[-1]
        self.decodes -= 1
        self._tokens -= tokens
        self._boundaries[(one.computed - one.joined) % size] -= 1
        self._remove(one, tokens)
        return tokens

    def _remove(self, one: Sequence, tokens: int) -> None:
        """Free the blocks of a sequence with these tokens."""
        self.running.pop(one)
        self._promised -= self._whole(one)
        self.free += blocks_of(tokens, self._policy.block_size)

    def _preempt(self) -> None:
        """Take the blocks of the sequence that was admitted last; its tokens are computed again later."""
        one = next(one for one in reversed(self.running) if one not in self._coming)
        if one.joined >= 0:
            del self._ends[one.joined + one.output - one.given][one]
            # Its last token is in no block yet.
            one.prefill = self._leave(one) + 1
            one.given += self._step - one.joined
        else:
            self.release(one)
        one.computed, one.joined = 0, -1
        one.preemptions += 1
        self.waiting.appendleft(one)
        self._on_preempt(one)

    # Iterations

    def begin(self, seen_ns: int | None = None) -> Batch | None:
        """Form the next iteration; None: there is nothing to compute.

        Its blocks are taken here.

        Parameters
        ----------
        seen_ns : int, optional
            When the iteration was scheduled: requests that arrived later wait for another one. Default: now.
        """
        policy = self._policy
        plan = _Plan(Batch(0))
        room = policy.token_budget
        decodes, preempted = self._decode() if policy.mixes else (0, False)
        room -= decodes
        for one in self._prompts if policy.chunked_prefill else ():
            if not room:
                break
            room -= self._take(plan, one, min(room, one.prefill - one.computed))
        if not preempted:
            self._admit_waiting(plan, room, seen_ns)
        if not policy.mixes:
            if not plan.parts:
                decodes, preempted = self._decode()
            elif self.waiting and plan.waits == "budget":
                plan.waits = "prefill"
        if preempted and self.waiting:
            plan.waits = "memory"
        if not decodes and not plan.parts:
            return None
        chunks = tuple((count, one.computed + count) for one, count in plan.parts)
        ended = sum(one.computed + count == one.prefill for one, count in plan.parts)
        seen = self._tokens + decodes if decodes else 0
        plan.batch = Batch(decodes, seen, chunks, ended)
        self._now = plan
        return plan.batch

    @property
    def computing(self) -> list[Sequence]:
        """Sequences of whose prompts a part is computed."""
        return [one for one, _ in self._now.parts] if self._now is not None else []

    @property
    def waits(self) -> str:
        """Reason for which requests wait during the iteration, of :data:`REASONS`; "": none does."""
        return self._now.waits if self._now is not None and self.waiting else ""

    def _decode(self) -> tuple[int, bool]:
        """Take blocks for a token of each decoding sequence; others lose theirs where they are short."""
        size, preempted = self._policy.block_size, False
        while (needed := self._boundaries[-self._step % size]) > self.free:
            self._preempt()
            preempted = True
        self.free -= needed
        return self.decodes, preempted

    def _take(self, plan: _Plan, one: Sequence, count: int) -> int:
        if count:
            plan.parts.append((one, count))
        return count

    def _admit_waiting(self, plan: _Plan, room: int, seen_ns: int | None) -> None:
        """Admit requests in their order, as long as there is room for them."""
        policy = self._policy
        while self.waiting:
            one = self.waiting[0]
            if seen_ns is not None and one.arrived_ns > seen_ns:
                plan.waits = "overlap"
            elif len(self.running) >= policy.max_batch:
                plan.waits = "batch"
            elif not self.has_room(one):
                plan.waits = "memory"
            elif room < (1 if policy.chunked_prefill else one.prefill) and (plan.parts or room < 1):
                plan.waits = "budget"
            else:
                self._admit(self.waiting.popleft())
                count = min(room, one.prefill) if policy.chunked_prefill else one.prefill
                room -= self._take(plan, one, count)
                continue
            break

    def gaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the times from a token to the next one of its request, in ns, and how often each occurs.

        Sequences that have left count. Nothing is kept for each token: all that decode have the same steps.
        """
        among = np.zeros(len(self._step_ns) + 1, np.int64)
        for step, change in self._spans.items():
            among[step] += change
        steps = np.diff(np.array(self._step_ns, np.int64))
        values = np.concatenate([np.fromiter(self._gaps, np.int64), steps])
        counts = np.concatenate([np.fromiter(self._gaps.values(), np.int64), np.cumsum(among)[1:-1]])
        return values, counts

    def _give(self, one: Sequence, now: int) -> None:
        """Emit the token that follows a prompt."""
        one.given += 1
        if one.last_ns >= 0:
            self._gaps[now - one.last_ns] += 1
        one.last_ns = now

    def end(self, now: int) -> tuple[list[Sequence], list[Sequence]]:
        """End the iteration.

        Parameters
        ----------
        now : int
            Nanoseconds.

        Returns
        -------
        done : list of Sequence
            Those that have given their last token.
        ready : list of Sequence
            Those of which all of the prompt is computed. They have given a token, and hold their blocks
            until :meth:`join` or :meth:`release`.
        """
        plan, self._now = self._now, None
        assert plan is not None  # noqa: S101 - begin() comes before end()
        done: list[Sequence] = []
        if plan.batch.decodes:
            self._step += 1
            self._step_ns.append(now)
            self._tokens += self.decodes
            for one in self._ends.pop(self._step, {}):
                self._leave(one)
                one.given = one.output
                done.append(one)
        ready: list[Sequence] = []
        for one, count in plan.parts:
            one.computed += count
            if one.computed == one.prefill:
                self._prompts.pop(one)
                self._give(one, now)
                if one.given == one.output:
                    self._remove(one, one.prefill)
                    done.append(one)
                else:
                    ready.append(one)
        while self._joining:
            self.join(self._joining.pop(0))
        return done, ready
