"""Batching of requests, and balancing over the instances of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from astranb.core.errors import InputError

__all__ = ["ServingPolicy"]

_LIMITS: Final = {
    "max_batch": (1, 1 << 20), "token_budget": (1, 1 << 24), "block_size": (1, 1 << 16),
    "instances": (1, 1024), "prefill_instances": (0, 1024), "decode_instances": (0, 1024),
    "host_ns": (0, 10**9), "hidden_ns": (0, 10**9), "front_ns": (0, 10**10), "graph_batch": (0, 1 << 20),
}  # fmt: skip

_TOKEN_NS: Final = 1500
"""To make a token of a prompt's text: 4 bytes at 2.7 MiB/s, what Hugging Face's tokenizers achieve in Python
(gist.github.com/benvanik/9090b155a3102b333896c1d92c451cbc)."""


@dataclass(frozen=True)
class ServingPolicy:
    """The policy of a server.

    Requests are scheduled before each iteration (Yu et al., Orca, OSDI 2022), first come first served, and
    their keys and values are kept in blocks (Kwon et al., vLLM, SOSP 2023, arXiv 2309.06180).

    Parameters
    ----------
    max_batch : int
        Requests that an instance works on at once.
    token_budget : int
        Tokens of an iteration, at most.
    chunked_prefill : bool
        Whether prompts are computed in parts that fit in the token budget (Agrawal et al., Sarathi-Serve,
        OSDI 2024, arXiv 2403.02310), otherwise whole.
    block_size : int
        Tokens of a block of keys and values.
    reserve_output : bool
        Whether a request is admitted only when there are blocks for all of its tokens, those that it will
        give included, as TensorRT-LLM does by default (GUARANTEED_NO_EVICT). Nothing is preempted then.
        Otherwise there have to be blocks for its prompt.
    watermark : float
        Part of the blocks that stays free when a request is admitted, from 0 to 0.5.
    memory_fraction : float
        Part of a GPU's memory that may be used; the rest is left for what is not counted here.
    fraction_of_rest : bool
        Whether that part is of what weights and buffers leave, as TensorRT-LLM's, and not of all.
    instances : int
        Copies of the model; a request goes to the one with the fewest requests.
    prefill_instances, decode_instances : int
        If not 0, prompts are computed by instances of their own, and their keys and values are sent to
        those that decode (Zhong et al., DistServe, OSDI 2024, arXiv 2401.09670).
    host_ns : int
        What the host takes between two iterations, as the GPU waits: scheduling, sampling, detokenising. The
        default is chosen: the one that fits nine published measurements of five libraries best
        (tests/data/published).
    mixed_batches : bool, optional
        Whether prompts are computed in iterations that decode too; otherwise they have iterations of their
        own, which come before decoding. None: as ``chunked_prefill``.
    overlap : bool
        Whether the host schedules the next iteration while one is computed. A request that comes meanwhile
        waits for the one after that; ``hidden_ns`` of the host's time take no time of the GPU then.
    hidden_ns : int
        What the host takes for an iteration besides ``host_ns``, and hides with ``overlap``.
    graph_batch : int
        Iterations without prompts that decode so many requests, or fewer, are launched as one graph, all
        others kernel by kernel. 0: all as the GPU's times say.
    layer_ns : tuple of (requests, ns)
        What the host takes at least to launch a layer with latent attention in an iteration that is no graph,
        from so many requests of an instance on: DeepSeek's layers have several times the kernels that are
        modelled, and nothing was published of others. 0: what its kernels' launches take.
    receive_every : tuple of (requests, iterations)
        Decoding iterations from one look at new requests to the next, from so many requests on; 1 where
        nothing is given. Behind prompts, and where nobody decodes, the scheduler looks at once (SGLang's
        ``--scheduler-recv-interval``).
    engine : str
        Name of the engine whose policy this is.
    kernels : str
        Engine whose kernels and all-reduces are taken as measured, where they were
        (:mod:`astranb.workload.kernels.engine_tables`). Empty: those of the built-in model.
    front_ns : int
        What a request takes before the scheduler sees it and its first token takes back, besides turning its
        prompt into tokens: HTTP, and messages between processes. 0: there is no server, requests come as
        tokens. The default is that of SGLang in front of a mock model: a first token after 9.54 ms, of which
        the model takes 2.63, its host 0.31 and the prompt's 128 tokens 0.2
        (github.com/tenstorrent/tt-inference-server, issue 3560).

    Raises
    ------
    InputError
        The values do not fit together.

    Examples
    --------
    >>> ServingPolicy(prefill_instances=1, decode_instances=3).copies
    4
    """

    max_batch: int = 256
    token_budget: int = 8192
    chunked_prefill: bool = True
    block_size: int = 16
    reserve_output: bool = False
    watermark: float = 0.01
    memory_fraction: float = 0.9
    instances: int = 1
    prefill_instances: int = 0
    decode_instances: int = 0
    host_ns: int = 1_300_000
    front_ns: int = 6_400_000
    mixed_batches: bool | None = None
    overlap: bool = False
    hidden_ns: int = 0
    graph_batch: int = 0
    layer_ns: tuple[tuple[int, int], ...] = ()
    receive_every: tuple[tuple[int, int], ...] = ()
    fraction_of_rest: bool = False
    engine: str = ""
    kernels: str = ""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"{value} is out of range", where=name, hint=f"take {low} to {high}")
        for name, least, most in (("watermark", 0.0, 0.5), ("memory_fraction", 0.05, 1.0)):
            part = getattr(self, name)
            if not least <= part <= most:
                raise InputError(f"{part} is out of range", where=name, hint=f"take {least:g} to {most:g}")
        if self.max_batch > self.token_budget:
            what = (
                f"token budget {self.token_budget} is less than a token for each of {self.max_batch} requests"
            )
            raise InputError(what, where="token_budget", hint=f"take at least {self.max_batch}")
        if bool(self.prefill_instances) != bool(self.decode_instances):
            what = (
                f"prefill and decode need instances, got {self.prefill_instances} and {self.decode_instances}"
            )
            raise InputError(what, where="disaggregate", hint="take at least one of each")
        if self.prefill_instances and self.instances > 1:
            what = "instances that do both cannot be combined with disaggregated ones"
            raise InputError(what, where="instances", hint="leave one of them out")

    @staticmethod
    def at(steps: tuple[tuple[int, int], ...], requests: int, default: int) -> int:
        """Return the value of :attr:`layer_ns` or :attr:`receive_every` for some requests.

        Examples
        --------
        >>> [ServingPolicy.at(((0, 10), (16, 30)), requests, 1) for requests in (4, 16)]
        [10, 30]
        """
        return max(((least, value) for least, value in steps if least <= requests), default=(0, default))[1]

    @property
    def mixes(self) -> bool:
        """Whether prompts are computed beside decoding requests."""
        return self.chunked_prefill if self.mixed_batches is None else self.mixed_batches

    def tokenizing_ns(self, prompt: int) -> int:
        """Return the time of the tokenizer for a prompt; it takes one after the other.

        Examples
        --------
        >>> ServingPolicy().tokenizing_ns(1000)
        1500000
        """
        return prompt * _TOKEN_NS if self.front_ns else 0

    def admission_ns(self, prompt: int) -> int:
        """Return the time from the arrival of a request, of so many tokens, until the scheduler sees it.

        Requests that come while the tokenizer is busy wait for it besides.

        Examples
        --------
        >>> ServingPolicy().admission_ns(1000), ServingPolicy(front_ns=0).admission_ns(1000)
        (7900000, 0)
        """
        return self.front_ns + self.tokenizing_ns(prompt)

    @property
    def copies(self) -> int:
        """Copies of the model, whatever they do."""
        return self.prefill_instances + self.decode_instances or self.instances
