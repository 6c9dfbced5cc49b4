"""What a page is given of a run to change it, to say how it ended, and what it may have ended in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from astranb.collectives import Joined
from astranb.engine.cacheline import CacheLineEngine
from astranb.sim.variants import parameters

__all__ = ["described"]


def described(engine: CacheLineEngine) -> dict[str, Any]:
    """Describe what can be changed of the whole run, the program, and what its bandwidth is of.

    Returns
    -------
    dict
        ``parameters``: of the whole run; ``program``: its name, and of a workload ``parts``: the name of each
        program in it, with the first slice behind its memory; ``work``: the size of the only collective, and
        the factor from algorithm to bus bandwidth.
    """
    program, collective = engine.program, engine.collective
    joined = isinstance(program, Joined)
    ends = [where.stop for where in program.of_part] if joined else []
    names = [part.name for part in program.parts] if joined else []
    return {
        "parameters": [asdict(one) for one in parameters(engine)],
        "program": {"name": program.name, "parts": list(zip(names, ends, strict=True))},
        "work": {"size": collective and collective[1], "bus_factor": engine.bus_factor},
    }
