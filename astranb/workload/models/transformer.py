"""Transformers as data: their sizes and numbers of parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from astranb.core.errors import InputError, near

__all__ = ["ParameterBlock", "Transformer"]

_NORMS = ("layer", "rms")
_MOST = 1 << 24
_POSITIVE = ("layers", "hidden", "heads", "ffn", "sequence", "norms", "expert_step")


@dataclass(frozen=True)
class ParameterBlock:
    """The parameters of a part of a layer, by how tensor parallelism divides them.

    Parameters
    ----------
    split : int
        Parameters of matrices that tensor parallelism divides.
    whole : int
        Parameters of matrices that every rank of a tensor group has.
    small : int
        Norms and biases, which are not in matrix products; every rank has all of them.
    """

    split: int = 0
    whole: int = 0
    small: int = 0

    @property
    def total(self) -> int:
        """All of them, each once."""
        return self.split + self.whole + self.small


@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer, dense or with experts.

    Parameters
    ----------
    name : str
    layers, hidden, heads, ffn : int
        Layers, width, heads of queries, width inside the MLP.
    vocab : int
        Words; 0 for a model without embedding and head.
    sequence : int
        Default tokens of a sequence.
    kv_heads : int
        Heads of keys and values (grouped-query attention); 0: as many as ``heads``.
    head_size : int
        0: ``hidden // heads``.
    gated : bool
        Whether the MLP has three matrices (SwiGLU) instead of two.
    biases : bool
        Whether matrices of layers have biases.
    norm : str
        ``layer`` (two vectors) or ``rms`` (one).
    positions : int
        Learned embeddings of positions; 0: none.
    tied : bool
        Whether the head is the embedding.
    qkv_biases, output_bias, expert_biases, head_bias : bool
        Whether only these matrices have biases: queries, keys and values; attention's output; experts and
        their router; the head.
    norms : int
        Norms of a layer: 2, 1 where attention and the MLP share one, 4 where their outputs have one, too.
    qk_norm : int
        Parameters of the norms of queries and keys in a layer; 0: none.
    sinks : bool
        Whether each head has a learned score of attending to nothing.
    window, full_every : int
        Tokens that a token attends to in layers with a window, the last ones; 0: all. Every ``full_every``-th
        layer has none; 0: all layers have it.
    experts, top_k, shared_experts, expert_ffn : int
        Experts of a layer, experts per token, shared experts, and the inner width of an expert
        (0: ``ffn``). No experts: dense.
    shared_gate : bool
        Whether a gate weights the shared experts.
    dense_layers, expert_step : int
        The number of first layers that are dense in a model with experts; behind them, every so many-th
        layer has experts.
    q_rank, kv_rank, rope_size, v_size : int
        Latent attention (DeepSeek): widths of the latent queries, of the latent keys and values, of the
        rotary part of a head, and of a head of values. ``kv_rank`` 0: none; ``q_rank`` 0: queries have none.
    source : str
        The publication of the numbers.
    left_out : str
        What a described model has and this one has not.
    weights : str
        One of :data:`astranb.workload.kernels.WEIGHTS`, in which the checkpoint has its parameters: inference
        stores them so. Empty: in none of these.

    Raises
    ------
    InputError
        A value is not valid.

    Examples
    --------
    >>> Transformer("mine", layers=2, hidden=64, heads=4, ffn=256, vocab=1000).parameters
    226944
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int = 2048
    kv_heads: int = 0
    head_size: int = 0
    gated: bool = False
    biases: bool = False
    norm: str = "layer"
    positions: int = 0
    tied: bool = False
    experts: int = 0
    top_k: int = 0
    shared_experts: int = 0
    expert_ffn: int = 0
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    rope_size: int = 0
    v_size: int = 0
    source: str = ""
    qkv_biases: bool = False
    output_bias: bool = False
    expert_biases: bool = False
    head_bias: bool = False
    norms: int = 2
    qk_norm: int = 0
    sinks: bool = False
    window: int = 0
    full_every: int = 0
    shared_gate: bool = False
    expert_step: int = 1
    left_out: str = ""
    weights: str = ""

    def __post_init__(self) -> None:
        """Check the values, and set the defaults that follow from others."""
        where = f"model {self.name!r}"
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                low = int(field.name in _POSITIVE)
                if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= _MOST:
                    what = f"{field.name} is {value!r:.40}"
                    raise InputError(what, where=where, hint=f"take a whole number, {low} to {_MOST}")
            elif not isinstance(value, bool if field.type == "bool" else str):
                raise InputError(f"{field.name} is {value!r:.40}", where=where, hint=f"take a {field.type}")
        if self.norm not in _NORMS:
            raise InputError(f"unknown norm {self.norm[:40]!r}", where=where, hint=near(self.norm, _NORMS))
        for name, value in (
            ("kv_heads", self.kv_heads or self.heads),
            ("head_size", self.head_size or self.hidden // self.heads),
            ("expert_ffn", self.expert_ffn or self.ffn),
        ):
            object.__setattr__(self, name, value)
        if self.heads % self.kv_heads or not self.head_size:
            what = f"{self.heads} heads of queries do not fit {self.kv_heads} of keys, of {self.head_size}"
            raise InputError(what, where=where, hint="let kv_heads divide heads, and heads hidden")
        if bool(self.experts) != bool(self.top_k) or self.top_k > self.experts:
            what = f"a token cannot go to {self.top_k} of {self.experts} experts"
            raise InputError(what, where=where, hint=f"take top_k (--topk) from 1 to {self.experts}")
        if self.kv_rank and not (self.rope_size and self.v_size):
            raise InputError("kv_rank needs rope_size and v_size", where=where, hint="give all three")
        if self.experts and self.biases:
            raise InputError(
                "experts with biases are not modelled", where=where, hint="leave one of them out"
            )

    def with_experts(self, experts: int = 0, top_k: int = 0) -> Transformer:
        """Return the model with experts in place of its MLPs, each as wide, or with another number of them.

        Parameters
        ----------
        experts : int
            Of a layer. Default: the model's.
        top_k : int
            Experts of a token. Default: the model's, else 2, as GShard's (arXiv 2006.16668).

        Raises
        ------
        InputError
            The numbers do not fit together.

        Examples
        --------
        >>> small = Transformer("mine", layers=2, hidden=64, heads=4, ffn=256, vocab=1000, biases=True)
        >>> small.with_experts(8).name, small.with_experts(8).top_k
        ('mine-8e', 2)
        """
        count = experts or self.experts
        if not count:
            raise InputError(f"{self.name} has no experts", where="top_k", hint="give their number too")
        was = f"{self.experts} experts" if self.experts else "dense MLPs"
        return replace(
            self, name=f"{self.name}-{count}e", experts=count, top_k=top_k or self.top_k or min(2, count),
            biases=False, source=f"{self.source or 'given by the user'}; {count} experts for its {was}",
        )  # fmt: skip

    @property
    def is_latent(self) -> bool:
        """Whether attention uses latent vectors."""
        return self.kv_rank > 0

    @property
    def head_groups(self) -> int:
        """Number of parts into which tensor parallelism can divide attention: heads of keys, with queries."""
        return self.heads if self.is_latent else self.kv_heads

    @property
    def key_size(self) -> int:
        """The width of a head of queries and keys."""
        return self.head_size + self.rope_size if self.is_latent else self.head_size

    @property
    def value_size(self) -> int:
        """The width of a head of values."""
        return self.v_size if self.is_latent else self.head_size

    @property
    def norms_all_heads(self) -> bool:
        """Whether queries and keys are normed over all heads together, and not each head for itself."""
        return self.qk_norm >= (self.heads + self.kv_heads) * self.head_size

    @property
    def cache_width(self) -> int:
        """Numbers per token in a layer's key-value cache."""
        return self.kv_rank + self.rope_size if self.is_latent else 2 * self.kv_heads * self.head_size

    def seen(self, layer: int, tokens: int) -> int:
        """Count the tokens that a token attends to in a layer, of so many."""
        return min(tokens, self.window) if self.is_windowed(layer) else tokens

    def is_windowed(self, layer: int) -> bool:
        """Return whether a layer's tokens attend to the last ones only."""
        return self.window > 0 and (self.full_every == 0 or (layer + 1) % self.full_every > 0)

    @property
    def _norm(self) -> int:
        return self.hidden * (2 if self.norm == "layer" else 1)

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer has experts."""
        return self.experts > 0 and layer >= self.dense_layers and (layer + 1) % self.expert_step == 0

    @property
    def attention(self) -> ParameterBlock:
        """Attention of a layer, its norm included."""
        h, n = self.hidden, self.heads
        out = n * self.value_size * h
        small = (self.norms + 1) // 2 * self._norm + self.qk_norm + (n if self.sinks else 0)
        small += h if self.biases or self.output_bias else 0
        if self.is_latent:
            queries = self.q_rank or h  # from a latent vector, or from the layer's input
            split = queries * n * self.key_size + self.kv_rank * n * (self.head_size + self.v_size) + out
            whole = h * self.q_rank + h * (self.kv_rank + self.rope_size)
            return ParameterBlock(split, whole, small + self.q_rank + self.kv_rank)
        wide = (n + 2 * self.kv_heads) * self.head_size
        return ParameterBlock(h * wide + out, 0, small + (wide if self.biases or self.qkv_biases else 0))

    @property
    def mlp(self) -> ParameterBlock:
        """A dense MLP, its norm included."""
        matrices = 3 if self.gated else 2
        biases = (self.ffn * (matrices - 1) + self.hidden) if self.biases else 0
        return ParameterBlock(matrices * self.hidden * self.ffn, 0, self.norms // 2 * self._norm + biases)

    @property
    def expert(self) -> int:
        """Parameters of one expert."""
        matrices = 3 if self.gated else 2
        biases = ((matrices - 1) * self.expert_ffn + self.hidden) if self.expert_biases else 0
        return matrices * self.hidden * self.expert_ffn + biases

    @property
    def around_experts(self) -> ParameterBlock:
        """Router, shared experts and norm of a layer with experts."""
        small = self.norms // 2 * self._norm + (self.experts if self.expert_biases else 0)
        small += self.hidden if self.shared_gate else 0
        return ParameterBlock(self.shared_experts * self.expert, self.hidden * self.experts, small)

    def layer(self, layer: int) -> int:
        """Parameters of a layer."""
        if self.has_experts(layer):
            return self.attention.total + self.around_experts.total + self.experts * self.expert
        return self.attention.total + self.mlp.total

    @property
    def embedding(self) -> int:
        """Parameters before the first layer."""
        return (self.vocab + self.positions) * self.hidden

    @property
    def head(self) -> int:
        """Parameters after the last layer: the last norm, and the head unless it is tied."""
        if not self.vocab:
            return 0
        vocabulary = self.vocab * ((0 if self.tied else self.hidden) + int(self.head_bias))
        return self._norm + vocabulary

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.embedding + sum(map(self.layer, range(self.layers))) + self.head

    @property
    def active_parameters(self) -> int:
        """The number of parameters used for one token."""
        idle = (self.experts - self.top_k) * self.expert
        return self.parameters - idle * sum(map(self.has_experts, range(self.layers)))
