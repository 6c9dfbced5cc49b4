"""The exchange of experts: dispatch and combine of a mixture of experts, as DeepEP does them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from astranb.collectives.language import Program
from astranb.collectives.library import Collective, ranks_of
from astranb.core.errors import InputError, near
from astranb.core.state import require_bytes
from astranb.infragraph import Infra
from astranb.net import Shape

from .low_latency import combine_low_latency, dispatch_low_latency
from .normal import combine_normal, dispatch_normal
from .one_sided import combine_one_sided, dispatch_one_sided
from .routing import Routing, draw_routing, read_routing
from .tokens import Tokens

if TYPE_CHECKING:
    import numpy as np

__all__ = ["EXCHANGE_KERNELS", "EXCHANGE_LAUNCH", "Exchange", "combine", "dispatch"]

EXCHANGE_KERNELS: Final = {
    "normal": "many tokens: over the network once to each node, then over NVLink (DeepEP)",
    "low_latency": "few tokens: straight to each of their experts (DeepEP)",
    "one_sided": "over NVLink alone: straight to each GPU of their experts, read from there (TensorRT-LLM)",
}
"""The kernels of an exchange, with a line about each."""

EXCHANGE_LAUNCH: Final = "stream"
"""Launch of an exchange's kernels in DeepEP's tests: from the host, one behind the other."""

_WRITERS: Final[dict[tuple[str, str], Callable[[Program, Tokens], None]]] = {
    ("dispatch", "normal"): dispatch_normal,
    ("combine", "normal"): combine_normal,
    ("dispatch", "low_latency"): dispatch_low_latency,
    ("combine", "low_latency"): combine_low_latency,
    ("dispatch", "one_sided"): dispatch_one_sided,
    ("combine", "one_sided"): combine_one_sided,
}
_CHANNELS: Final = 12  # 24 SMs (DeepEP, deep_ep/buffers/legacy.py, which all its V1 figures use)
_MOST_CHANNELS: Final = 64
_BYTES_PER_MOVE: Final = 800  # as of any program's operation
_PRECISIONS: Final = ("nvfp4", "fp8", "bf16")
_SCALED: Final = 128  # elements that share one float32 scale in FP8
_SCALED_FP4: Final = 16  # and those that share one of 8 bits in NVFP4


@dataclass(frozen=True)
class Exchange(Collective):
    """A dispatch or combine to run; :func:`dispatch` and :func:`combine` make it.

    Attributes
    ----------
    tokens, hidden, topk, experts : int
        Tokens of each rank, elements of a token, experts of a token, experts of all ranks.
    groups : int, optional
        Nodes that a token's experts may be on.
    skew, seed
        Of the draw: see :func:`draw_routing`.
    precision : str
        ``"fp8"``, with a scale for each 128 elements, ``"nvfp4"``, with one for each 16, or ``"bf16"``.
    given : Routing, optional
        The experts of each token, instead of a draw.
    sms : int
        Of a GPU, which :meth:`on_gpu` sets; by default those of H100.
    """

    tokens: int = 128
    hidden: int = 7168
    topk: int = 8
    experts: int = 256
    groups: int | None = None
    skew: float = 0.0
    seed: int = 0
    precision: str = "bf16"
    given: Routing | None = None
    sms: int = 132

    routed: ClassVar = True

    def __post_init__(self) -> None:
        """Check that the exchange is possible."""
        super().__post_init__()
        if (self.name, self.algorithm) not in _WRITERS:
            raise InputError(
                f"{self.name} has no algorithm {self.algorithm_name!r}",
                where="algorithm",
                hint=near(self.algorithm_name, EXCHANGE_KERNELS),
            )
        if self.protocol != "Simple":
            raise InputError(f"{self.title} does not support it", where="protocol", hint="use Simple")
        if self.precision not in _PRECISIONS:
            raise InputError(
                f"unknown precision {self.precision!r:.80}", where="precision", hint="use nvfp4, fp8 or bf16"
            )
        if not 1 <= self.hidden <= 2**20:
            raise InputError(f"hidden must be from 1 to {2**20:,}, got {self.hidden}", where="hidden")
        if self.channels is not None and self.algorithm != "normal":
            raise InputError(
                f"{str(self.algorithm).replace('_', '-')} kernels have no channels",
                where="channels",
                hint="leave it out",
            )
        if self.channels is not None and self.channels > _MOST_CHANNELS:
            raise InputError(
                f"channels must be at most {_MOST_CHANNELS}, got {self.channels}",
                where="channels",
                hint="a channel is two SMs",
            )

    @property
    def token_bytes(self) -> int:
        """Bytes of a token as it travels, scales included."""
        return token_bytes(self.hidden, self.precision)

    def routing(self, ranks: int, per_node: int) -> Routing:
        """Return the experts of every token: those given, or drawn.

        Raises
        ------
        InputError
            It is of other ranks, or the experts do not divide among the ranks.
        """
        if self.given is not None:
            if self.given.ranks != ranks:
                raise InputError(
                    f"the routing is of {self.given.ranks} ranks, the infrastructure has {ranks}",
                    where="routing",
                    hint="use the routing of this number of ranks",
                )
            return self.given
        return draw_routing(
            ranks, self.tokens, self.topk, self.experts, groups=self.groups, groups_of=ranks // per_node,
            skew=self.skew, seed=self.seed,
        )  # fmt: skip

    def on(self, ranks: int, shape: Shape | int | None = None) -> Tokens:
        """Return who sends which tokens to whom.

        Examples
        --------
        >>> tokens = dispatch(4, experts=8, topk=2).on(4)
        >>> tokens.copies.shape  # rank that sends, token, rank that receives
        (4, 4, 4)
        """
        joined = Shape(shape) if isinstance(shape, int) else shape or Shape(ranks)
        if ranks < 2 or ranks % joined.per_node:
            raise InputError(
                f"{ranks} ranks do not fill nodes of {joined.per_node} ranks"
                if ranks > 1
                else "an exchange needs 2 ranks or more",
                where=f"algorithm {self.title}",
                hint="use nodes of equal size",
            )
        moves = 2 * ranks * self.tokens * min(self.topk, ranks)  # to a rank, and from its receive buffer
        require_bytes(moves * _BYTES_PER_MOVE, where="tokens", hint="use fewer tokens or ranks")
        routing = self.routing(ranks, joined.per_node)
        channels = self.channels or (_CHANNELS if self.algorithm == "normal" else 1)
        return Tokens(routing, joined.per_node, channels, self.sms)

    def on_gpu(self, sms: int) -> Exchange:
        """Return it for GPUs of so many SMs."""
        return dataclasses.replace(self, sms=sms)

    def counted_bytes(self, ranks: int, shape: Shape | int | None = None) -> dict[str, int]:
        """Return the bytes by which DeepEP states its bandwidth, of a rank on average.

        ``"NVLink"``: tokens that a rank receives (dispatch) or sends (combine), its own ones included;
        ``"RDMA"``: tokens for each node that they go to, its own one included. Low-latency kernels
        count every token for every expert.

        Examples
        --------
        >>> dispatch(16, hidden=128, experts=8, topk=1).counted_bytes(8)
        {'NVLink': 2112}
        """
        tokens = self.on(ranks, shape)
        if self.algorithm == "low_latency":
            extra = 16 if self.name == "dispatch" else 0  # a header of 16 B goes with each token
            return {"RDMA": int(tokens.copies.sum()) * (self.token_bytes + extra) // ranks}
        found = {"NVLink": int((tokens.copies > 0).sum()) * self.token_bytes // ranks}
        if tokens.nodes > 1:
            found["RDMA"] = int(tokens.to_node.sum()) * self.token_bytes // ranks
        return found

    def program(self, where: int | str | Path | Infra, shape: Shape | int | None = None) -> Program:
        """Build the program for an infrastructure or a number of ranks; as for any collective."""
        ranks, given = ranks_of(where, shape)
        joined = given or Shape(ranks)
        tokens = self.on(ranks, joined)
        chunks = tokens.ranks * tokens.count * tokens.slots(self.algorithm_name)
        program = Program(
            self.title, ranks=ranks, channels=tokens.channels, input_chunks=chunks, output_chunks=chunks,
            shape=joined, size=self.size,
        )  # fmt: skip
        program.layout = tokens.layout(self.name, self.algorithm_name, self.token_bytes)
        _WRITERS[self.name, self.algorithm_name](program, tokens)
        program.finish()
        return program

    def changed(self, **changes: Any) -> Exchange:
        """Return it with another algorithm or number of channels.

        Raises
        ------
        InputError
            The size or protocol is to be changed.
        """
        if set(changes) - {"algorithm", "channels"}:
            raise InputError("an exchange of experts has its size from its tokens", where="rebuilt")
        return dataclasses.replace(self, **changes)


def token_bytes(hidden: int, precision: str) -> int:
    """Return the bytes of a token, scales included.

    Examples
    --------
    >>> token_bytes(7168, "nvfp4"), token_bytes(7168, "fp8"), token_bytes(7168, "bf16")
    (4032, 7392, 14336)
    """
    if precision == "nvfp4":
        return -(-hidden // 2) + -(-hidden // _SCALED_FP4)
    return hidden + 4 * -(-hidden // _SCALED) if precision == "fp8" else 2 * hidden


def _exchange(
    name: str,
    tokens: int | None,
    algorithm: str | None,
    precision: str,
    routing: Routing | np.ndarray | str | Path | None,
    **options: Any,
) -> Exchange:
    if routing is not None:
        given = ("groups", "skew", "seed")
        drawn = next((one for one in given if options[one] not in (None, 0)), None)
        if drawn is None and tokens is not None:
            drawn = "tokens"
        if drawn is not None:
            raise InputError("does not apply to a routing that is given", where=drawn, hint="leave it out")
        if isinstance(routing, str | Path):
            routing = read_routing(routing, options["experts"])
        elif not isinstance(routing, Routing):
            routing = Routing(routing, options["experts"])
        tokens, options["topk"] = routing.tokens, int(routing.chosen.shape[2])
    elif tokens is None:
        raise InputError("the number of tokens is needed", where="tokens", hint="for example 4096")
    if not isinstance(tokens, int) or tokens < 1:
        raise InputError(f"tokens must be at least 1, got {tokens!r:.80}", where="tokens")
    size = tokens * token_bytes(max(1, options["hidden"]), precision)
    return Exchange(
        name, size, algorithm or "normal", tokens=tokens, precision=precision, given=routing, **options
    )


def dispatch(
    tokens: int | None = None,
    algorithm: str | None = None,
    *,
    hidden: int = 7168,
    topk: int = 8,
    experts: int = 256,
    groups: int | None = None,
    skew: float = 0.0,
    seed: int = 0,
    precision: str = "fp8",
    routing: Routing | np.ndarray | str | Path | None = None,
    channels: int | None = None,
) -> Exchange:
    """Every token goes to the ranks of its experts.

    Parameters
    ----------
    tokens : int
        Tokens of each rank; not with ``routing``.
    algorithm : str, optional
        ``"normal"`` (default): over the network once to each node, then over NVLink to each GPU that has
        one of its experts; ``"low_latency"``: straight to each expert; ``"one_sided"``: straight to each GPU
        that has one, over NVLink alone (TensorRT-LLM).
    hidden, topk, experts : int
        Elements of a token, experts of each token, experts of all ranks.
    groups : int, optional
        Nodes that the experts of one token may be on, as DeepSeek-V3's gate limits them.
    skew : float
        How unevenly popular experts are: ``place ** -skew``; 0 for none.
    seed : int
        Of the draw.
    precision : str
        ``"fp8"`` or ``"nvfp4"`` with scales, or ``"bf16"``.
    routing : Routing, array or path, optional
        The experts of each token (ranks x tokens x topk), or a file that :func:`read_routing` reads.
    channels : int, optional
        Pairs of SMs; by default 12, as DeepEP's.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h800", dispatch(16, hidden=512))
    >>> sim.run().why  # every token has come to each of its experts' ranks
    'end'
    """
    return _exchange(
        "dispatch", tokens, algorithm, precision, routing, hidden=hidden, topk=topk, experts=experts,
        groups=groups, skew=skew, seed=seed, channels=channels,
    )  # fmt: skip


def combine(
    tokens: int | None = None,
    algorithm: str | None = None,
    *,
    hidden: int = 7168,
    topk: int = 8,
    experts: int = 256,
    groups: int | None = None,
    skew: float = 0.0,
    seed: int = 0,
    precision: str = "bf16",
    routing: Routing | np.ndarray | str | Path | None = None,
    channels: int | None = None,
) -> Exchange:
    """Every token gets the sum of its experts' results; parameters as for :func:`dispatch`.

    Examples
    --------
    >>> combine(4096).title
    'combine/normal'
    """
    return _exchange(
        "combine", tokens, algorithm, precision, routing, hidden=hidden, topk=topk, experts=experts,
        groups=groups, skew=skew, seed=seed, channels=channels,
    )  # fmt: skip
