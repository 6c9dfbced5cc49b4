"""What a page is given of a run to change it, to say how it ended, and what it may have ended in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from astranb.collectives import Joined
from astranb.engine.cacheline import CacheLineEngine
from astranb.engine.cacheline.edits import CHANGEABLE, EFFECTS
from astranb.sim.variants import parameters

__all__ = ["described"]


def described(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe what can be changed of the whole run, the program, and what its bandwidth is of.

    Returns
    -------
    dict
        ``changes``: what can be changed of objects, and when that takes effect; ``parameters``: of the whole
        run; ``program``: its name, and of a workload ``parts``: the name of each
        program in it, with the first slice behind its memory; ``work``: the size of the only collective, and
        the factor from algorithm to bus bandwidth.
    """
    program, collective = engine.program, engine.collective
    parts: list[tuple[str, int]] = []
    if isinstance(program, Joined):
        parts = [(part.name, where.stop) for part, where in zip(program.parts, program.of_part, strict=True)]
    return {
        "changes": {"what": CHANGEABLE, "effects": EFFECTS},
        "parameters": [asdict(one) for one in parameters(engine)],
        "program": {"name": program.name, "parts": parts},
        "work": {"size": collective and collective[1], "bus_factor": engine.bus_factor},
    }
