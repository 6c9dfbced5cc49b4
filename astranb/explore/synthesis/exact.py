"""The least number of steps of a schedule, as an integer program: for a few ranks and chunks.

Time goes in steps, as in SCCL (Cai et al., PPoPP 2021, arXiv 2008.08708) and TE-CCL (Liu et al., SIGCOMM
2024, arXiv 2305.13479). In a step a port carries one slice; a slower edge takes several steps. HiGHS decides
whether a number of steps is enough; the first one that is, from below, is the least.
"""

from __future__ import annotations

from itertools import count
from math import ceil
from typing import Any, Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

from .condition import Condition
from .network import RankNetwork
from .schedule import Schedule, finished

__all__ = ["exact_schedule", "least_steps"]

_MOST_VARIABLES: Final = 40_000
_LIMIT_S: Final = 60.0


def exact_schedule(network: RankNetwork, condition: Condition, slices: int, slice_bytes: int) -> Schedule:
    """Return a schedule with the least number of steps.

    Parameters
    ----------
    network : RankNetwork
    condition : Condition
    slices, slice_bytes : int
        Slices of each chunk, and their bytes.

    Raises
    ------
    InputError
        There are too many ranks and chunks, or the solver has no answer in a minute.
    """
    before, after = (
        np.repeat(condition.matrix(s, network.ranks), slices, axis=1) for s in ("before", "after")
    )
    if not condition.reduces:
        edge, chunk = least_steps(network, before, after, slice_bytes)[1:]
        return finished(network, condition, slices, slice_bytes, [], [(edge, chunk)])
    owned = np.zeros_like(after)
    for number, rank in condition.owners.items():
        owned[rank, number * slices : (number + 1) * slices] = True
    edge, chunk = least_steps(network.reversed(), owned, before & owned.any(axis=0), slice_bytes)[1:]
    sums, copies = [(edge[::-1], chunk[::-1])], []
    if (after & ~owned).any():
        copies.append(least_steps(network, owned, after, slice_bytes)[1:])
    return finished(network, condition, slices, slice_bytes, sums, copies)


def least_steps(
    network: RankNetwork, before: np.ndarray, after: np.ndarray, slice_bytes: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the least number of steps, and the edges and slices of the transfers in their order.

    ``before`` and ``after`` say which rank has and needs which slice: bool, shape (ranks, slices).
    """
    tables = network.edges(slice_bytes)
    step_ps = int(tables.busy_ps.min())
    # Latency is not counted: a step is what a slice occupies the fastest port for.
    busy = np.maximum(1, np.rint(tables.busy_ps / step_ps)).astype(np.int64)
    takes = np.array([int(busy[network.ports(edge)].max()) for edge in range(len(network.source))])
    wanted = after & ~before
    incoming = [np.flatnonzero(network.target == rank) for rank in range(network.ranks)]
    fewest = 1
    for rank in range(network.ranks):
        if wanted[rank].any():
            # No port into the rank carries more than a slice in each of its intervals.
            last = {int(network.ports(int(edge))[-1]) for edge in incoming[rank]}
            rate = sum(1 / int(busy[port]) for port in last)
            fewest = max(fewest, int(takes[incoming[rank]].min()), ceil(wanted[rank].sum() / rate - 1e-9))
    for steps in count(fewest):
        size = len(network.source) * before.shape[1] * steps
        if size > _MOST_VARIABLES:
            raise InputError(
                f"{size:,} variables are too many for an exact solution",
                where="exact",
                hint="use fewer ranks or slices, or leave exact out",
            )
        found = _solve(network, before, wanted, busy, takes, steps)
        if found is not None:
            return steps, *found
    raise AssertionError  # count does not end


def _solve(
    network: RankNetwork,
    before: np.ndarray,
    wanted: np.ndarray,
    busy: np.ndarray,
    takes: np.ndarray,
    steps: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return transfers that meet all needs in a number of steps, in their order; None if there are none.

    Variable (e, c, t) says whether edge e starts to carry slice c at step t. A slice can be sent on from the
    step on at which it has come.
    """
    with needs_extra("exact"):
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    edges, slices = len(network.source), before.shape[1]
    number = np.arange(edges * slices * steps).reshape(edges, slices, steps)
    rows: list[tuple[np.ndarray, np.ndarray, float, float]] = []  # variables, coefficients, least, most
    upper = np.ones(number.size)
    for edge in range(edges):
        upper[number[edge, :, max(0, steps - takes[edge] + 1) :].ravel()] = 0  # would come too late
        upper[number[edge][before[network.target[edge]]].ravel()] = 0
    into = [np.flatnonzero(network.target == rank) for rank in range(network.ranks)]
    for rank in range(network.ranks):
        out = np.flatnonzero(network.source == rank)
        for chunk in range(slices):
            arrivals = number[into[rank], chunk].ravel()
            if wanted[rank, chunk]:
                rows.append((arrivals, np.ones(len(arrivals)), 1, 1))
            elif not before[rank, chunk] and len(arrivals):
                rows.append((arrivals, np.ones(len(arrivals)), 0, 1))
            if before[rank, chunk]:
                continue
            for edge in out.tolist():
                for step in range(steps):
                    come = [
                        number[other, chunk, : max(0, step - int(takes[other]) + 1)] for other in into[rank]
                    ]
                    here = np.concatenate([number[edge, chunk, step : step + 1], *come])
                    signs = np.concatenate([[1.0], -np.ones(len(here) - 1)])
                    rows.append((here, signs, -np.inf, 0))
    for port in range(len(network.rate_Bps)):
        of = [edge for edge in range(edges) if port in network.ports(edge)]
        for step in range(steps):
            during = number[of, :, max(0, step - int(busy[port]) + 1) : step + 1].ravel()
            rows.append((during, np.ones(len(during)), 0, 1))
    first = np.concatenate([[0], np.cumsum([len(row[0]) for row in rows])])
    matrix: Any = csr_array(
        (np.concatenate([row[1] for row in rows]), np.concatenate([row[0] for row in rows]), first),
        shape=(len(rows), number.size),
    )
    found = milp(
        np.ones(number.size),
        constraints=LinearConstraint(matrix, [row[2] for row in rows], [row[3] for row in rows]),
        bounds=Bounds(0, upper),
        integrality=np.ones(number.size),
        options={"time_limit": _LIMIT_S, "mip_rel_gap": 1e9},  # any transfers that meet the needs
    )
    if found.status == 2:
        return None
    if found.x is None:
        raise InputError(
            f"no answer within {_LIMIT_S:.0f} s whether {steps} steps are enough",
            where="exact",
            hint="use fewer ranks or slices, or leave exact out",
        )
    carriers, carried, started = np.nonzero(np.rint(found.x).astype(np.int64).reshape(number.shape))
    order = np.argsort(started, kind="stable")
    return carriers[order], carried[order]
