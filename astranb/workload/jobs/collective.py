"""One collective as an operation of every rank, with the algorithm of that name by messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from astranb.collectives import Collective
from astranb.core.errors import InputError, near
from astranb.workload.astrasim2 import (
    ALGORITHM_WORDS,
    COLLECTIVE,
    COLLECTIVE_NAMES,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
)

__all__ = ["collective_operations", "collective_row", "flat"]

_PIECE_BYTES: Final = 1 << 17
_MOST_PIECES: Final = 64
"""Greatest number of pieces into which data that goes from rank to rank is cut, so that all links are busy:
of 64 pieces, a chain of eight ranks takes a tenth longer than its bytes."""


def flat(network: DimensionNetwork | InfraNetwork) -> DimensionNetwork | InfraNetwork:
    """Return an infrastructure as one dimension, in which an algorithm knows no nodes."""
    return InfraNetwork(network.infra, (network.npus,)) if isinstance(network, InfraNetwork) else network


def collective_operations(
    what: Collective, network: DimensionNetwork | InfraNetwork, ranks: int
) -> tuple[Operations, System]:
    """Return the only operation of each rank, and the system layer with its algorithm.

    Parameters and errors are those of :func:`collective_row`.
    """
    row, options = collective_row(what, network, ranks)
    return Operations.of([row]), System.from_document(options)


def collective_row(
    what: Collective, network: DimensionNetwork | InfraNetwork, ranks: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a collective as an operation of a rank, and the system layer's document with its algorithm.

    The size of a collective is that of the larger of a rank's buffers; its operation has the bytes that a
    rank gives, which in an all-gather or gather are a part of that.

    Parameters
    ----------
    what : Collective
    network : DimensionNetwork or InfraNetwork
    ranks : int
        How many take part.

    Raises
    ------
    InputError
        It is not simulated by messages.
    """
    name, algorithm = what.name, what.algorithm_name
    if name not in COLLECTIVE_NAMES:
        raise InputError(f"{name} is not simulated by messages", where="fidelity", hint="use 'cacheline'")
    if algorithm not in ALGORITHM_WORDS or not isinstance(what.algorithm, str):
        hint = "use fidelity='cacheline'"
        hint += f", or {near(algorithm, ALGORITHM_WORDS)}" if isinstance(what.algorithm, str) else ""
        raise InputError(f"algorithm {algorithm!r} is not simulated by messages", where="fidelity", hint=hint)
    dimensions: Sequence[object] = (
        network.topology if isinstance(network, DimensionNetwork) else network.npus_count
    )
    # Hierarchical: an all-reduce scatters from dimension to dimension and gathers on the way back; what has a
    # target of its own goes straight to it in each dimension.
    word = "direct" if (name, algorithm) == ("all_to_all", "hierarchical") else ALGORITHM_WORDS[algorithm]
    pipelined = word == "doubleBinaryTree" or (name in ("broadcast", "reduce") and word != "direct")
    pieces = min(max(what.size // _PIECE_BYTES, 1), _MOST_PIECES) if pipelined else 1
    options = {
        f"{name.replace('_', '-')}-implementation": [word] * len(dimensions),
        "preferred-dataset-splits": pieces,
        "active-chunks-per-dimension": pieces,
        "collective-optimization": "localBWAware",
        "channels": "library",
        "cost": "wire" if what.named else "library",
    }
    part = -(-what.size // ranks) if name in ("all_gather", "gather") else what.size
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": part, "peer": what.root}
    return row, options
