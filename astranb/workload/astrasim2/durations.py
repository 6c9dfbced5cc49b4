"""Durations of computations and memory accesses; those of communication follow from the network."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from astranb.core.errors import InputError
from astranb.core.timesteps import NEVER

from .kinds import COMPUTE, DELAY, MEMORY, REPLAY
from .memory import NO_MEMORY, Memory
from .system import System

__all__ = ["at_speed", "durations_ns"]


def durations_ns(rows: np.ndarray, system: System, memory: Memory) -> np.ndarray:
    """Return the durations of operations in whole nanoseconds, rounded down.

    Parameters
    ----------
    rows : ndarray
        Operations as columns.
    system : System
    memory : Memory

    Returns
    -------
    ndarray of int64
        0 for operations whose duration the network determines; at most ``NEVER``.

    Raises
    ------
    InputError
        The roofline or a remote memory is needed and not described.
    """
    recorded = np.where(rows["duration_ns"] > 0, np.minimum(rows["duration_ns"], NEVER), 1)
    if system.replay:
        return recorded.astype(np.int64)
    result = np.where(np.isin(rows["kind"], (COMPUTE, REPLAY, DELAY)), recorded, 0).astype(np.int64)
    modelled = (rows["kind"] == COMPUTE) & (rows["on_cpu"] == 0) & (rows["flops"] >= 0)
    if system.roofline and modelled.any():
        # An operation that moves nothing takes no time.
        some = modelled & (rows["bytes"] > 0)
        if some.any() and (system.peak_flops <= 0 or system.memory_Bps <= 0):
            raise InputError(
                "the roofline has no peak-perf or local-mem-bw", where=system.where, hint="give both"
            )
        result[modelled & ~some] = 0
        flops = rows["flops"][some].astype(np.float64)
        intensity = flops / rows["bytes"][some].astype(np.float64)
        rate = np.minimum(system.memory_Bps * intensity, system.peak_flops)
        with np.errstate(invalid="ignore"):
            taken = np.where(rate > 0, flops / rate, 0.0)
        result[some] = _whole(taken * 1e9)
    remote = rows["kind"] == MEMORY
    if remote.any():
        if memory.kind == NO_MEMORY:
            raise InputError(
                "an operation uses remote memory, but none is described",
                hint="describe it (--memory)",
            )
        if memory.pool is not None:
            result[remote] = memory.pool.durations_ns(rows["bytes"][remote])
            return np.minimum(result, NEVER)
        moved = _whole(rows["bytes"][remote].astype(np.float64) / memory.rate_Bpns)
        result[remote] = min(memory.latency_ns, NEVER) + moved
    return np.minimum(result, NEVER)


def at_speed(took_ns: np.ndarray, speed: Fraction) -> np.ndarray:
    """Return the durations of computations on an NPU with a speed, in nanoseconds, rounded down."""
    slower = (ns * speed.denominator // speed.numerator for ns in took_ns.tolist())
    return np.array([min(ns, NEVER) for ns in slower], np.int64)


def _whole(taken_ns: np.ndarray) -> np.ndarray:
    """Round nanoseconds down; what does not end before ``NEVER`` takes so long."""
    return np.asarray(np.minimum(taken_ns, NEVER).astype(np.int64))
