"""A judge of programs that knows nothing of how they were made, and small models to divide."""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from astranb.chakra import CollectiveType, NodeType, Trace
from astranb.workload.models import MODELS, ModelStep, Parallelism, Transformer

TRANSFORMERS = {name: one for name, one in MODELS.items() if isinstance(one, Transformer)}
"""Of the library, by name."""


def traces(step: ModelStep) -> list[Trace]:
    return [step.trace(rank) for rank in range(step.ranks)]


def waiting_ranks(step: ModelStep) -> list[int]:
    """Do every rank's trace one node after the other; give the ranks that do not end.

    A send is done at once, a receive when its message has been sent, a collective when all its
    group have come to it, each with the same kind and bytes.
    """
    all_ranks = list(range(step.ranks))
    programs: list[deque[tuple[Any, ...]]] = []
    for rank, trace in enumerate(traces(step)):
        listed: deque[tuple[Any, ...]] = deque()
        for row in range(len(trace)):
            kind, size = NodeType(int(trace.type[row])), int(trace.comm_size[row])
            if kind == NodeType.COMM_COLL:
                name = trace.pg_name[row]
                members = step.groups[int(name)] if name else all_ranks
                assert rank in members
                listed.append((kind, tuple(members), int(trace.comm_type[row]), size))
            elif kind == NodeType.COMM_SEND:
                assert int(trace.comm_src[row]) == rank
                listed.append((kind, (rank, int(trace.comm_dst[row]), int(trace.comm_tag[row]), size)))
            elif kind == NodeType.COMM_RECV:
                assert int(trace.comm_dst[row]) == rank
                listed.append((kind, (int(trace.comm_src[row]), rank, int(trace.comm_tag[row]), size)))
        programs.append(listed)
    sent: Counter[Any] = Counter()
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(programs):
            while program:
                kind, what, *rest = program[0]
                if kind == NodeType.COMM_SEND:
                    sent[what] += 1
                elif kind == NodeType.COMM_RECV:
                    if not sent[what]:
                        break
                    sent[what] -= 1
                else:
                    here = [programs[one][0] if programs[one] else None for one in what]
                    if any(one != (kind, what, *rest) for one in here):
                        break
                    for one in what:
                        if one != rank:
                            programs[one].popleft()
                program.popleft()
                moved = True
    waiting = [rank for rank, program in enumerate(programs) if program]
    assert waiting or not +sent, "messages that nobody receives"
    return waiting


def depends_in_order(trace: Trace) -> bool:
    """Return whether what sends, in each stream, and what computes, each waits for the one before.

    With it the order of the file is the only one in which these can begin.
    """
    parents = trace.parents
    stream = trace.integers("comm_stream")
    sends = (NodeType.COMM_SEND, NodeType.COMM_COLL)
    for kinds, which in (((NodeType.COMP,), 0), (sends, 0), (sends, 1)):
        rows = [row for row in range(len(trace)) if trace.type[row] in kinds and stream[row] == which]
        for before, row in pairwise(rows):
            if before not in parents.of(row):
                return False
    return bool((parents.flat < parents.owner).all())


def collected(trace: Trace, kind: str, name: str = "") -> tuple[int, int]:
    """Count the collectives of a kind whose names contain something, and their bytes."""
    rows = [
        row
        for row in range(len(trace))
        if trace.type[row] == NodeType.COMM_COLL
        and trace.comm_type[row] == CollectiveType[kind.upper()]
        and name in (trace.names[row] or "")
    ]
    return len(rows), sum(int(trace.comm_size[row]) for row in rows)


def tiny(**more: Any) -> Transformer:
    """A model that can be divided by 2 and 4."""
    sizes = {"layers": 8, "hidden": 64, "heads": 8, "ffn": 256, "vocab": 512, "sequence": 32}
    return Transformer("tiny", **{**sizes, **more})


_POWERS = st.sampled_from([1, 2, 4])


@st.composite
def divided(draw: Any) -> tuple[Transformer, Parallelism, dict[str, Any]]:
    """A small model, a division of it over at most 32 ranks, and the rest of a job."""
    mode = draw(st.sampled_from(["training", "training", "training", "prefill", "decode"]))
    with_experts = draw(st.booleans())
    model = tiny(
        layers=draw(st.sampled_from([4, 8, 9])),
        tied=draw(st.booleans()),
        gated=draw(st.booleans()),
        kv_heads=draw(st.sampled_from([4, 8])),
        vocab=draw(st.sampled_from([0, 509])),
        **({"experts": 4, "top_k": 2, "dense_layers": 1, "shared_experts": 1} if with_experts else {}),
    )
    data, tensor, pipeline = draw(_POWERS), draw(_POWERS), draw(st.sampled_from([1, 2, 3, 4]))
    context = 1 if mode == "decode" else draw(st.sampled_from([1, 1, 2, 4]))
    while data * tensor * pipeline * context > 32:
        data, context = max(data // 2, 1), max(context // 2, 1)
        tensor = max(tensor // 2, 1) if data == context == 1 else tensor
    train = mode == "training"
    interleave = draw(st.sampled_from([1, 2])) if train and 1 < pipeline <= model.layers // 2 else 1
    degrees = Parallelism(
        data, tensor, pipeline, context,
        expert=draw(st.sampled_from([n for n in (1, 2, 4) if data % n == 0])) if with_experts else 1,
        sequence=tensor > 1 and mode != "decode" and draw(st.booleans()),
        zero=draw(st.integers(0, 3)) if train else 0,
        interleave=interleave,
    )  # fmt: skip
    micro = draw(st.integers(1, 4)) * (pipeline if interleave > 1 else 1)
    more = {
        "mode": mode,
        "elementwise": draw(st.booleans()),
        "microbatches": micro,
        "batch": data * micro * draw(st.sampled_from([1, 2])),
        "recompute": train and draw(st.booleans()),
        "tokens": draw(st.integers(1, 3)) if mode == "decode" else 1,
    }
    return model, degrees, more
