"""The passes of a transformer on a rank of one stage of the pipeline."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from astranb.chakra.scaling import NEXT_STAGE, PEERS

from .activations import LayerActivations
from .costs import Costs
from .job import Job
from .passes import PREVIOUS_STAGE, PassWriter
from .program import Cost
from .transformer import Transformer
from .weights import EMBEDDING, HEAD, of_unit, trained_of_unit, units

__all__ = ["Stage"]

_BEHIND: Final = PEERS.index("previous in context")
_BEFORE: Final = PEERS.index("next in context")


class Stage(PassWriter):
    """Writes the program of a transformer's stage, pass by pass.

    Parameters
    ----------
    model : Transformer
    job : Job
    stage : int
        Its number, from 0.
    part : int
        The rank's number in its tensor group.
    """

    def __init__(self, model: Transformer, job: Job, stage: int, part: int = 0) -> None:
        self.model, self.costs = model, Costs(model, job, part)
        passes = units(model, job.parallelism, stage)
        self._ring = 0
        self._own: list[Cost] = []
        self._owns: dict[tuple[int, int], list[Cost]] = {}
        self._activations = LayerActivations(model, job, part)
        super().__init__(
            job,
            stage,
            passes,
            {key: of_unit(model, job.parallelism, key, part) for keys in passes for key in keys},
            trained={
                key: trained_of_unit(model, job.parallelism, key, part, job.lora)
                for keys in passes
                for key in keys
            },
        )

    def received_bytes(self, chunk: int) -> int:  # noqa: ARG002 - all are of one size
        """Return the bytes of activations that come from the stage before."""
        return self.costs.message

    def sent_bytes(self, chunk: int) -> int:  # noqa: ARG002 - all are of one size
        """Return the bytes of activations that go to the stage behind."""
        return self.costs.message

    @property
    def shared_bytes(self) -> int:
        """Bytes of gradients of the words that both ends of the pipeline hold."""
        tied = self.model.tied and not self.degrees.ends_meet and not self.job.lora
        ends = tied and {EMBEDDING, HEAD} & set(self._held)
        return self.costs.words * self.model.hidden * self.job.gradient_bytes if ends else 0

    def kept_bytes(self, key: int) -> int:
        """Return the bytes of activations that a layer's backward pass needs."""
        return self._activations.kept(experts=self.model.has_experts(key)) if key >= 0 else 0

    # One layer, the embedding or the head

    def forward_unit(
        self, key: int, micro: int, x: tuple[int, ...], *, seen: int, again: bool = False
    ) -> tuple[int, ...]:
        """Add the forward pass of a layer, the embedding or the head."""
        p, c = self.program, self.costs
        ready = (*x, *self._gathered.pop(key, ()))
        again_text = "again" if again else "fwd"
        if key == EMBEDDING:
            done = p.compute(f"embedding fwd {micro}", c.embedding(), ready)
            return self._join(f"embedding {micro}", done)
        if key == HEAD:
            ready = self._elementwise(f"head norm {micro}", c.norm(), ready)
            done = p.compute(f"head fwd {micro}", c.head(), self._open(f"head {micro}", ready))
            if self.job.mode == "training":
                return p.collect("all_reduce", "tensor", 12 * c.tokens, f"loss {micro}", [done])
            size = self.job.micro * c.words * self.job.bytes_each
            return p.collect("all_gather", "tensor", size, f"logits {micro}", [done])
        name = f"L{key} {again_text} {micro}"
        x = self._elementwise(f"{name} attn norm", c.norm(), ready, again=again)
        x = self._attention(name, x, self.model.seen(key, seen), again=again)
        x = self._elementwise(f"{name} attn residual", c.residual(), x, again=again)
        x = self._elementwise(f"{name} mlp norm", c.norm(), x, again=again)
        if self.model.has_experts(key):
            x = self._experts(name, x, again=again)
        else:
            x = self._half(f"{name} mlp", x, *c.mlp(), again=again)
        return self._elementwise(f"{name} mlp residual", c.residual(), x, again=again)

    def backward_unit(self, key: int, micro: int, g: tuple[int, ...]) -> tuple[int, ...]:
        """Add its backward pass."""
        self._own = []
        done = self._backward_unit(key, micro, g)
        if self.degrees.splits_backward:
            self._owns[key, micro] = self._own
        return done

    def weights_unit(self, key: int, micro: int, after: tuple[int, ...]) -> None:
        """Add the gradients of its parameters."""
        name = {EMBEDDING: "embedding", HEAD: "head"}.get(key, f"L{key}")
        own = self._owns.pop((key, micro))
        if not own:
            return  # nothing of it is trained
        first, *others = own
        for one in others:
            first = first.plus(one)
        self.program.compute(f"{name} weights {micro}", first, after)

    def _divided(self, cost: Cost) -> Cost:
        """Return the backward pass of a product; a schedule may leave its parameters' gradients for later."""
        if not self.degrees.splits_backward:
            return cost.backward()
        inward, own = cost.halves()
        self._own.append(own)
        return inward

    def _backward_unit(self, key: int, micro: int, g: tuple[int, ...]) -> tuple[int, ...]:
        p, c = self.program, self.costs
        ready = (*g, *self._gathered.pop(key, ()))
        if key == EMBEDDING:
            if self.job.lora:
                return ready
            if self.degrees.splits_backward:
                self._own.append(c.embedding().backward())
                return ready
            return (p.compute(f"embedding bwd {micro}", c.embedding().backward(), ready),)
        if key == HEAD:
            done = p.compute(f"head bwd {micro}", self._divided(c.head()), ready)
            g = self._join(f"head bwd {micro}", done)
            return self._elementwise(f"head norm bwd {micro}", c.norm().times(2), g)
        if self.job.recompute == "full":
            # The layer's input is in memory: only its parameters have to arrive.
            again = self.forward_unit(key, micro, ready[len(g) :], seen=self.job.sequence, again=True)
            ready = (*ready, *again)
        name = f"L{key} bwd {micro}"
        if self.job.recompute == "ops":
            cost = c.again(experts=self.model.has_experts(key))
            ready = (*ready, p.compute(f"{name} again", cost, ready[len(g) :], again=True))
        g = self._elementwise(f"{name} mlp residual", c.residual().times(2), ready)
        if self.model.has_experts(key):
            g = self._experts_back(name, g)
        else:
            g = self._half_back(f"{name} mlp", g, *c.mlp())
        g = self._elementwise(f"{name} mlp norm", c.norm().times(2), g)
        g = self._elementwise(f"{name} attn residual", c.residual().times(2), g)
        g = self._attention_back(name, g, self.model.seen(key, self.job.sequence))
        return self._elementwise(f"{name} attn norm", c.norm().times(2), g)

    def _half(
        self, name: str, x: tuple[int, ...], opening: Cost, *then: Cost, again: bool = False
    ) -> tuple[int, ...]:
        """Add attention or an MLP: what opens it, the rest, and the sum of the partial products.

        Where products overlap with tensor parallelism's collectives, only the first part of what is
        gathered comes before the opening product, and only the last part of the sum after the closing one.
        """
        p, opening = self.program, self.costs.around().plus(opening)
        if not self._overlaps:
            cost = opening
            for one in then:
                cost = cost.plus(one)
            done = p.compute(name, cost, self._open(name, x), again=again)
            return self._join(name, done)
        here, rest = self._open_in_parts(name, x)
        done = p.compute(f"{name} opening", opening, (*x, *here), again=again)
        for one in then[:-1]:
            done = p.compute(f"{name} core", one, (done, *rest), again=again)
        *_, closing = then
        early = self._summed(name, self._early, (done, *rest))
        done = p.compute(f"{name} closing", closing, (done, *rest), again=again)
        return (*early, *self._summed(f"{name} last", 1 - self._early, (done,)))

    def _half_back(self, name: str, g: tuple[int, ...], opening: Cost, *then: Cost) -> tuple[int, ...]:
        """Add the backward pass of attention or an MLP.

        The sum of the gradients of its input is under way while those of the opening parameters are
        computed.
        """
        p, cost = self.program, self.costs.around().backward().plus(self._divided(then[-1]))
        if self._overlaps:
            here, rest = self._open_in_parts(name, g, back=True)
            done = p.compute(f"{name} closing", cost, (*g, *here))
            cost, g = Cost(0, 0), (done, *rest)
        else:
            g = self._open(name, g, back=True)
        for one in then[-2::-1]:
            cost = cost.plus(one.backward())
        if self.degrees.splits_backward:
            return self._join(name, p.compute(name, cost.plus(self._divided(opening)), g))
        if self.degrees.tensor == 1:
            return (p.compute(name, cost.plus(opening.backward()), g),)
        inward, own = opening.halves()
        done = p.compute(name, cost.plus(inward), g)
        summed = self._join(name, done)
        p.compute(f"{name} weights", own, (done,))
        return summed

    def _experts(self, name: str, x: tuple[int, ...], *, again: bool) -> tuple[int, ...]:
        """Add the experts of a layer, with the router before them."""
        p, c = self.program, self.costs
        x = self._open(f"{name} mlp", x)
        done = p.compute(f"{name} router", c.around().plus(c.around_experts()), x, again=again)
        sent = p.collect("all_to_all", "expert", c.dispatched, f"{name} dispatch", [done])
        done = p.compute(f"{name} experts", c.experts(), sent, again=again)
        back = p.collect("all_to_all", "expert", c.dispatched, f"{name} combine", [done])
        return self._join(f"{name} mlp", *back)

    def _experts_back(self, name: str, g: tuple[int, ...]) -> tuple[int, ...]:
        """Add the backward pass of the experts of a layer."""
        p, c = self.program, self.costs
        g = self._open(f"{name} mlp", g, back=True)
        back = p.collect("all_to_all", "expert", c.dispatched, f"{name} combine", g)
        done = p.compute(f"{name} experts", c.around().backward().plus(self._divided(c.experts())), back)
        sent = p.collect("all_to_all", "expert", c.dispatched, f"{name} dispatch", [done])
        done = p.compute(f"{name} router", c.around_experts().backward(), sent)
        return self._join(f"{name} mlp", done)

    def _elementwise(
        self, name: str, cost: Cost, x: tuple[int, ...], *, again: bool = False
    ) -> tuple[int, ...]:
        """Add an element-wise operation, if the job counts them."""
        if not self.job.elementwise:
            return x
        return (self.program.compute(name, cost, x, again=again),)

    def _attention(self, name: str, x: tuple[int, ...], seen: int, *, again: bool) -> tuple[int, ...]:
        """Add attention; with context parallelism, keys and values are passed around (ring attention)."""
        p, c, parts = self.program, self.costs, self.degrees.context
        if parts == 1 and not self.job.elementwise:
            return self._half(f"{name} attn", x, c.queries(), c.attention(seen), c.output(), again=again)
        x = self._open(f"{name} attn", x)
        have: tuple[int, ...] = (p.compute(f"{name} qkv", c.around().plus(c.queries()), x, again=again),)
        done = self._ring_of(name, have, c.attention(max(1, seen // parts)), 1, again=again)
        done = self._elementwise(f"{name} softmax", c.softmax(seen), done, again=again)
        return self._join(f"{name} attn", p.compute(f"{name} attn out", c.output(), done, again=again))

    def _attention_back(self, name: str, g: tuple[int, ...], seen: int) -> tuple[int, ...]:
        """Add the backward pass of attention."""
        p, c, parts = self.program, self.costs, self.degrees.context
        core = c.attention(max(1, seen // parts))
        if self.job.recompute == "selective":
            p.compute(f"{name} core again", core.times(parts), g, again=True)
            self._elementwise(f"{name} softmax again", c.softmax(seen), g, again=True)
        if parts == 1 and not self.job.elementwise:
            return self._half_back(f"{name} attn", g, c.queries(), core, c.output())
        g = self._open(f"{name} attn", g, back=True)
        cost = c.around().backward().plus(self._divided(c.output()))
        have = (p.compute(f"{name} attn out", cost, g),)
        done = self._ring_of(name, have, core.backward(), 2, again=False)
        done = self._elementwise(f"{name} softmax", c.softmax(seen).times(2), done)
        return self._join(f"{name} attn", p.compute(f"{name} qkv", self._divided(c.queries()), done))

    def _ring_of(
        self, name: str, have: tuple[int, ...], core: Cost, times: int, *, again: bool
    ) -> tuple[int, ...]:
        """Add attention to every part of the sequence, while keys and values are passed around.

        In a backward pass (``times`` 2) gradients follow keys and values, and go one step further.
        """
        p, parts = self.program, self.degrees.context
        done: tuple[int, ...] = ()
        for step in range(parts):
            coming: tuple[int, ...] = ()
            blocks = times if step < parts - 1 else times - 1
            if blocks and parts > 1:
                tag, self._ring = self._ring, self._ring + 1
                own = done if times > 1 else ()
                size = blocks * self.costs.cache_block
                p.send(_BEFORE, size, tag, f"{name} kv{step}", [*have, *own])
                coming = (p.receive(_BEHIND, size, tag, f"{name} kv{step}"),)
            done = (p.compute(f"{name} ring{step}", core, have, again=again),)
            have = coming
        return (*done, *have)

    @property
    def _overlaps(self) -> bool:
        """Whether products overlap with the collectives of tensor parallelism."""
        return self.degrees.sequence and "tensor" in self.job.overlap

    @property
    def _early(self) -> Fraction:
        """The part of a sum that is under way while its product is computed, a piece for each rank."""
        return 1 - Fraction(1, self.degrees.tensor)

    def _summed(self, name: str, part: Fraction, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add a part of a sum of partial products."""
        size = max(1, int(self.costs.activation * part))
        return self.program.collect("reduce_scatter", "tensor", size, f"{name} sum", after)

    def _open_in_parts(
        self, name: str, x: tuple[int, ...], *, back: bool = False
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Add an all-gather in two parts: what the opening product begins with, and the rest."""
        part = self.costs.activation // self.degrees.tensor
        first = max(1, part // self.degrees.tensor)
        p = self.program
        here = p.collect("all_gather", "tensor", first, f"{name} gather", x)
        rest = p.collect("all_gather", "tensor", max(1, part - first), f"{name} gather rest", x)
        if back:
            self._late = p.collect("all_gather", "tensor", part, f"{name} input", x)
        return here, rest

    def _join(self, name: str, *after: int) -> tuple[int, ...]:
        """Add the sum of the partial products of tensor parallelism."""
        kind = "reduce_scatter" if self.degrees.sequence else "all_reduce"
        return self.program.collect(kind, "tensor", self.costs.activation, f"{name} sum", after)

    def _open(self, name: str, x: tuple[int, ...], *, back: bool = False) -> tuple[int, ...]:
        """Add the all-gather of what sequence parallelism divides."""
        if not self.degrees.sequence:
            return x
        part = self.costs.activation // self.degrees.tensor
        got = self.program.collect("all_gather", "tensor", part, f"{name} gather", x)
        if back:
            # The layer's input is divided too; it is gathered while gradients are computed.
            self._late = self.program.collect("all_gather", "tensor", part, f"{name} input", x)
        return (*x, *got)

    def send_words(self, size: int, number: int, after: tuple[int, ...]) -> None:
        """Add the sending of generated tokens to the first stage."""
        self.program.send(NEXT_STAGE, size, self._tag(number, 0, 0, stage=0), f"send words {number}", after)

    def receive_words(self, size: int, number: int) -> int:
        """Add the receipt of the last stage's generated tokens."""
        return self.program.receive(PREVIOUS_STAGE, size, self._tag(number, 0, 0), f"recv words {number}")
