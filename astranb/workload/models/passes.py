"""The passes of microbatches through a stage of the pipeline, whatever its units compute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final

from astranb.chakra import NodeType
from astranb.chakra.scaling import NEXT_STAGE, PEERS
from astranb.core.errors import InputError
from astranb.workload.kernels import HostUpdate

from .job import Job
from .program import Cost, StageProgram, Unit, optimizer_pass
from .weights import Held, unit_name

__all__ = ["PREVIOUS_STAGE", "PassWriter"]

PREVIOUS_STAGE: Final = PEERS.index("previous stage")
_FOREACH_BYTES: Final = 92
"""Per parameter that PyTorch's AdamW and the clipping of gradients read and write where no kernel fuses
them, in float32: decay (8), both moments (12, 8, 12), root, division, addition (8 each), step (16); norm (4),
scaling (8) (torch/optim/adamw.py, ``_multi_tensor_adamw``, and ``clip_grad_norm_``)."""
_OPTIMIZER_FLOPS: Final = 12
"""Operations of Adam on a parameter, about; its time is that of the memory."""


class PassWriter(ABC):
    """Writes the program of a stage, pass by pass: messages between stages, units, gradients, the optimizer.

    Parameters
    ----------
    job : Job
    stage : int
        Its number, from 0.
    passes : sequence of list of int
        The units of each chunk, in the order of a forward pass.
    held : mapping of int to Held
        The parameters that a rank holds of each unit.
    trained : mapping of int to Held, optional
        Those of them that are trained. Default: all.
    bucket_bytes : int
        Gradients are summed when so many are complete; 0: unit by unit.
    """

    def __init__(
        self,
        job: Job,
        stage: int,
        passes: Sequence[list[int]],
        held: Mapping[int, Held],
        bucket_bytes: int = 0,
        trained: Mapping[int, Held] | None = None,
    ) -> None:
        self.job, self.stage, self.degrees = job, stage, job.parallelism
        self.bucket_bytes = bucket_bytes
        self.program = StageProgram(self.degrees)
        self._passes, self._held, self._trained = passes, held, held if trained is None else trained
        self._gathered: dict[int, tuple[int, ...]] = {}
        self._ready: list[tuple[int, int, tuple[int, ...]]] = []
        self._reduced: list[int] = []
        self._late: tuple[int, ...] = ()
        self._waiting: dict[tuple[int, int], tuple[int, ...]] = {}
        self._stored: list[tuple[int, ...]] = []
        self._kept_at: dict[tuple[int, int], tuple[int, ...]] = {}
        if self._gathers_first:
            # The parameters that the optimizer of the step before has changed.
            for keys in self._passes:
                for key in keys:
                    self._gather_one(key, [])

    @abstractmethod
    def received_bytes(self, chunk: int) -> int:
        """Return the bytes of activations that come into a chunk from the stage before."""

    @abstractmethod
    def sent_bytes(self, chunk: int) -> int:
        """Return the bytes of activations that go from a chunk to the stage behind."""

    @property
    @abstractmethod
    def shared_bytes(self) -> int:
        """Bytes of gradients of the parameters that both ends of the pipeline hold."""

    @abstractmethod
    def forward_unit(
        self, key: int, micro: int, x: tuple[int, ...], *, seen: int, again: bool = False
    ) -> tuple[int, ...]:
        """Add the forward pass of a unit, or its recomputation; gives its last operations."""

    @abstractmethod
    def backward_unit(self, key: int, micro: int, g: tuple[int, ...]) -> tuple[int, ...]:
        """Add the backward pass of a unit."""

    def weights_unit(self, key: int, micro: int, after: tuple[int, ...]) -> None:  # noqa: ARG002 - as above
        """Add the gradients of a unit's parameters, where its backward pass leaves them out.

        Raises
        ------
        InputError
            The unit's backward pass cannot be divided.
        """
        what = f"the backward pass of {unit_name(key)} is known as a whole"
        raise InputError(what, where="schedule", hint="take 1f1b")

    def kept_bytes(self, key: int) -> int:  # noqa: ARG002 - of units of a known size
        """Return the bytes of activations that a unit's backward pass needs; its layer's size is known."""
        return 0

    def is_first(self, chunk: int) -> bool:
        """Return whether a chunk is the first of the model."""
        return self.stage == 0 and chunk == 0

    def is_last(self, chunk: int) -> bool:
        """Return whether a chunk is the last of the model."""
        return self._part_beside(chunk, 1) is None

    def turns_into(self, chunk: int) -> bool:
        """Return whether the chunk before one is on this stage, too: at the turn of a V."""
        return self.degrees.is_vee and chunk == 1 and self.stage == self.degrees.pipeline - 1

    def _part_beside(self, chunk: int, step: int) -> tuple[int, int] | None:
        """Return the stage and chunk of the next part of the model (1) or the one before (-1); None: none."""
        stages, chunks = self.degrees.pipeline, self.degrees.interleave
        if not self.degrees.is_vee:
            number = chunk * stages + self.stage + step
            return (number % stages, number // stages) if 0 <= number < stages * chunks else None
        number = (self.stage if chunk == 0 else 2 * stages - 1 - self.stage) + step
        if not 0 <= number < 2 * stages:
            return None
        return (number, 0) if number < stages else (2 * stages - 1 - number, 1)

    def _peer(self, chunk: int, step: int) -> int:
        """Return the peer that has the next part of the model (1) or the one before (-1)."""
        down = step > 0 if not self.degrees.is_vee or chunk == 0 else step < 0
        return NEXT_STAGE if down else PREVIOUS_STAGE

    # Passes

    def forward(
        self, chunk: int, micro: int, *, seen: int = 0, after: tuple[int, ...] = ()
    ) -> tuple[int, ...]:
        """Add the forward pass of a microbatch through a chunk.

        Parameters
        ----------
        chunk, micro : int
        seen : int
            Tokens that each token attends to; by default the job's sequence.
        after : tuple of int
            Operations that the first stage's part waits for.

        Returns
        -------
        tuple of int
            Its last operations.
        """
        x = after
        if not self.is_first(chunk) and not self.turns_into(chunk):
            tag = self._tag(micro, chunk, 0)
            peer = self._peer(chunk, -1)
            x = (self.program.receive(peer, self.received_bytes(chunk), tag, f"recv x{micro}"),)
        keys = self._passes[chunk]
        self._gather(keys[:1])
        for at, key in enumerate(keys):
            self._gather(keys[at + 1 : at + 2])
            since = len(self.program)
            if self._stored[-2:-1]:
                # The memory of the activations before the last ones is free when these are stored.
                x = (*x, *self._stored[-2])
            x = self.forward_unit(key, micro, x, seen=seen or self.job.sequence)
            self._mark(key, chunk, since, is_forward=True)
            self._store(key, micro)
        to = self._part_beside(chunk, 1)
        if to and not self.turns_into(chunk + 1):
            tag = self._tag(micro, to[1], 0, stage=to[0])
            self.program.send(self._peer(chunk, 1), self.sent_bytes(chunk), tag, f"send x{micro}", x)
        return x

    def backward(self, chunk: int, micro: int, *, last: bool, end: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Add the backward pass of a microbatch through a chunk.

        A schedule that divides it has the gradients of inputs here, and those of parameters in
        :meth:`weights_pass`.

        Parameters
        ----------
        chunk, micro : int
        last : bool
            Whether it is the last microbatch of this chunk, after which gradients are complete.
        end : tuple of int
            The last operations of the forward pass, or those of the chunk behind where it is here, too.

        Returns
        -------
        tuple of int
            Its last operations.
        """
        g = end
        if not self.is_last(chunk) and not self.turns_into(chunk + 1):
            tag = self._tag(micro, chunk, 1)
            peer = self._peer(chunk, 1)
            g = (self.program.receive(peer, self.sent_bytes(chunk), tag, f"recv g{micro}"),)
        keys = self._passes[chunk][::-1]
        self._gather(keys[:1], micro)
        for at, key in enumerate(keys):
            self._gather(keys[at + 1 : at + 2], micro)
            since = len(self.program)
            g = self.backward_unit(key, micro, g)
            if self.degrees.splits_backward:
                self._waiting[key, micro] = self._late
                continue
            self._mark(key, chunk, since, is_forward=False)
            self._complete(key, chunk, micro, (*g, *self._late), last=last)
        to = self._part_beside(chunk, -1)
        if to and not self.turns_into(chunk):
            tag = self._tag(micro, to[1], 1, stage=to[0])
            self.program.send(self._peer(chunk, -1), self.received_bytes(chunk), tag, f"send g{micro}", g)
        if self.degrees.interleave == 1 or not last:
            self._reduce()
        return g

    def weights_pass(self, chunk: int, micro: int, *, last: bool) -> None:
        """Add the gradients of a chunk's parameters, of a microbatch whose backward pass left them out."""
        for key in self._passes[chunk][::-1]:
            since, after = len(self.program), self._waiting.pop((key, micro))
            self.weights_unit(key, micro, after)
            self._mark(key, chunk, since, is_forward=False)
            self._complete(key, chunk, micro, after, last=last)
        self._reduce()

    def _complete(self, key: int, chunk: int, micro: int, after: tuple[int, ...], *, last: bool) -> None:
        """Record that a unit's gradients are complete, behind what has been computed and some operations."""
        if last or self.degrees.zero > 1:
            self._ready.append((key, micro, (*after, self.program.computed)))
            if self.is_first(chunk):
                self._reduce()

    def update(self) -> None:
        """Add the optimizer's step, and the collectives of ZeRO after it."""
        self._reduce(ends=True)
        p, degrees, size = self.program, self.degrees, self.job.bytes_each
        held = Held()
        for one in self._trained.values():
            held = held.plus(one)
        if degrees.pipeline > 1:
            reduced = p.collect("all_reduce", "ends", self.shared_bytes, "ends grads", self._reduced)
            self._reduced.extend(reduced if self.shared_bytes else ())
        shared, own = degrees.size("data"), degrees.size("expert data")
        part = held if degrees.zero == 0 else Held(-(-held.shared // shared), -(-held.experts // own))
        count = part.shared + part.experts
        # Its state is read and written; gradients are read, parameters written.
        touched = count * (2 * self.job.optimizer_bytes + 2 * size)
        if self.job.framework == "pytorch":
            touched = count * _FOREACH_BYTES
        wait = [*self._reduced, *self._late]
        if self.job.updates_by_units:
            done = self._update_by_units(touched / count, wait)
        else:
            cost = Cost(_OPTIMIZER_FLOPS * count, touched, vector=True, kernels=(optimizer_pass(touched),))
            if self.job.host_updates:
                # Parameters come back, unless they stay there.
                back = 0 if self.job.offloads("parameters") else size
                update = HostUpdate((self.job.gradient_bytes + back) * count, touched)
                cost = Cost(0, 0, vector=True, kernels=(update,))
            done = p.compute("optimizer", cost, wait)
            if self.job.offloads("parameters") and not self.job.host_updates:
                for key in self._held:
                    p.move(NodeType.MEM_STORE, self._share_bytes(key), f"store params {key}", [done])
        if degrees.zero in (1, 2) and not self._gathers_first:
            p.collect("all_gather", "data", part.shared * size, "params", [done], background=True)
            p.collect(
                "all_gather", "expert data", part.experts * size, "expert params", [done], background=True
            )

    def _update_by_units(self, touched: float, wait: list[int]) -> int:
        """Add updates of the units' states, which are loaded one ahead, and stored; gives the last one."""
        p, job, keys = self.program, self.job, list(self._held)
        counts = [self._share(self._trained[key], zero=1) for key in keys]

        def load(at: int) -> tuple[int, ...]:
            size = job.optimizer_bytes * counts[at]
            return p.move(NodeType.MEM_LOAD, size, f"load states {keys[at]}", [p.computed])

        coming, done = load(0), p.computed
        for at, (key, count) in enumerate(zip(keys, counts, strict=True)):
            loaded = coming
            if at + 1 < len(keys):
                coming = load(at + 1)
            moved = round(touched * count)
            cost = Cost(_OPTIMIZER_FLOPS * count, moved, vector=True, kernels=(optimizer_pass(moved),))
            done = p.compute(f"optimizer {key}", cost, [*wait, *loaded])
            p.move(NodeType.MEM_STORE, job.optimizer_bytes * count, f"store states {key}", [done])
            if job.offloads("parameters"):
                p.move(NodeType.MEM_STORE, self._share_bytes(key), f"store params {key}", [done])
        return done

    def _share(self, held: Held, zero: int) -> int:
        """Return a rank's parameters of some, if ZeRO divides them from a stage on."""
        degrees = self.degrees
        if degrees.zero < zero:
            return held.shared + held.experts
        return -(-held.shared // degrees.size("data")) - (-held.experts // degrees.size("expert data"))

    def _share_bytes(self, key: int) -> int:
        """Return the bytes of a unit's parameters that a rank keeps."""
        each = self.job.weight_bytes if key >= 0 else self.job.bytes_each
        return ceil(each * self._share(self._held[key], zero=3))

    def _store(self, key: int, micro: int) -> None:
        """Add the store of what a layer's backward pass needs, if it is offloaded."""
        if not self.job.offloads("activations") or not (size := self.kept_bytes(key)):
            return
        name = f"store L{key} {micro}"
        found = self.program.move(NodeType.MEM_STORE, size, name, [self.program.computed])
        self._kept_at[key, micro] = found
        self._stored.append(found)

    @property
    def _gathers_first(self) -> bool:
        """Whether a step begins with gathering the parameters that the step before has changed."""
        return self.degrees.zero in (1, 2) and "parameters" in self.job.overlap

    def _mark(self, key: int, chunk: int, since: int, *, is_forward: bool) -> None:
        """Record a unit whose operations have been written, from one on."""
        p = self.program
        computed = [row for row in range(since, len(p)) if p.kind[row] == NodeType.COMP]
        if computed:
            p.units.append(Unit(key, chunk, is_forward, computed[0], p.computed))

    # Parameters and gradients

    def _gather(self, keys: list[int], micro: int = -1) -> None:
        """Add what brings the next unit's data, and overlaps with computations.

        That are loads of offloaded parameters, ZeRO 3's all-gathers, and before a backward pass (of a
        microbatch) loads of activations.
        """
        p = self.program
        for key in keys:
            after = [p.computed]
            found: tuple[int, ...] = ()
            if self.job.offloads("parameters"):
                after = list(p.move(NodeType.MEM_LOAD, self._share_bytes(key), f"load params {key}", after))
                found = tuple(after)
            if self.degrees.zero > 2:
                self._gather_one(key, after)
                found = (*found, *self._gathered[key])
            if stored := self._kept_at.pop((key, micro), ()):
                size = self.kept_bytes(key)
                name = f"load L{key} {micro}"
                found += p.move(NodeType.MEM_LOAD, size, name, [*stored, p.computed])
            if found:
                self._gathered[key] = found

    def _gather_one(self, key: int, after: list[int]) -> None:
        """Add the all-gathers of a layer's parameters: of ZeRO 3, or of those that a step has changed."""
        held, size = (self._held if self.degrees.zero > 2 else self._trained)[key], self.job.bytes_each
        found: list[int] = []
        for group, count in (("data", held.shared), ("expert data", held.experts)):
            part = -(-count // self.degrees.size(group)) * size
            name = f"{unit_name(key)} params"
            found.extend(self.program.collect("all_gather", group, part, name, after, background=True))
        self._gathered[key] = tuple(one for one in found if one not in after)

    def _reduce(self, *, ends: bool = False) -> None:
        """Add the sums of gradients over replicas; only the optimizer waits for them.

        Messages to other stages are added before, so that they do not wait for the sums.
        """
        behind = "gradients" in self.job.overlap or self.degrees.zero >= 2
        if not ends and not behind:
            return
        kind = "reduce_scatter" if self.degrees.zero else "all_reduce"
        last = () if behind else (self.program.computed,)
        while some := self._bucket(ends=ends):
            key, micro, _ = some[-1]
            held, size = Held(), self.job.gradient_bytes
            for one, _, _ in some:
                held = held.plus(self._trained[one])
            first, last_unit = unit_name(key), unit_name(some[0][0])
            name = f"{first if len(some) == 1 else f'{first} to {last_unit}'} grads {micro}"
            after = (*(row for _, _, wait in some for row in wait), *last)
            for group, count in (("data", held.shared), ("expert data", held.experts)):
                if self.degrees.size(group) > 1 and count:
                    sums = self.program.collect(kind, group, count * size, name, after, background=True)
                    self._reduced.extend(sums)

    def _bucket(self, *, ends: bool) -> list[tuple[int, int, tuple[int, ...]]]:
        """Take the next units whose gradients are summed at once: one, or as many as fill a bucket."""
        size = 0
        for count, (key, _, _) in enumerate(self._ready, 1):
            size += sum(self._trained[key]) * self.job.gradient_bytes
            if size >= self.bucket_bytes or (ends and count == len(self._ready)):
                some, self._ready = self._ready[:count], self._ready[count:]
                return some
        return []

    def _tag(self, micro: int, chunk: int, back: int, stage: int | None = None) -> int:
        """Return the tag of a message into a chunk of a stage; gradients have odd ones."""
        at = chunk * self.degrees.pipeline + (self.stage if stage is None else stage)
        return 2 * (micro * self.degrees.pipeline * self.degrees.interleave + at) + back
