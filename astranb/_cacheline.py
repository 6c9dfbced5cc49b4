"""``astranb run --workload … --fidelity cacheline``: every collective of a workload by cache lines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from astranb._leave import recorded, write_files
from astranb._print import print_json

if TYPE_CHECKING:
    import numpy as np

    from .engine.messages import Inputs

__all__ = ["LINES_TOO", "run_lines"]

LINES_TOO: Final = ("infra", "gpu", "launch")
"""Options of a run of one collective that a workload by cache lines takes as well."""


def run_lines(args: argparse.Namespace, inputs: Inputs, durations_ns: np.ndarray | None = None) -> int:
    """Run files by cache lines, on ``--infra`` or on an infrastructure made of the network's dimensions.

    Parameters
    ----------
    args : Namespace
    inputs : Inputs
        What the files hold.
    durations_ns : ndarray, optional
        What each operation takes, where the inputs do not say it.
    """
    from astranb.infragraph import dimensions, resolve
    from astranb.sim import Simulation
    from astranb.workload.astrasim2 import Network

    from .engine.cacheline.workload import Graph

    network = inputs.network
    if args.infra is not None:
        infra = resolve(args.infra)
    elif isinstance(network, Network):
        rates = [rate * (2**30 if args.compat else 10**9) for rate in network.bandwidth]
        infra = dimensions(network.topology, network.npus_count, rates, network.latency)
    else:
        infra = network.infra
    graph = Graph.of(inputs, str(args.workload or args.model), durations_ns)
    sim = Simulation(
        infra, graph, gpu=args.gpu, launch=args.launch, record=recorded(args), checkpoint_bytes=0
    )
    sim.run()
    write_files(sim, args)
    ends = sim.engine.machine.gpus["ended_ps"].tolist()
    computed = graph.compute_ps().tolist()
    if not args.json:
        for rank, (end, compute) in enumerate(zip(ends, computed, strict=True)):
            cycles, exposed = end // 1000, (end - compute) // 1000
            print(f"sys[{rank}] finished, {cycles} cycles, exposed communication {exposed} cycles.")
        return 0
    print_json(
        {
            "workload": args.workload or args.model,
            "infra": sim.engine.infra.name,
            "gpu": sim.engine.presets[0].name,
            "fidelity": "cacheline",
            "compat": args.compat,
            "time_ps": sim.result.time_ps,
            "events": sim.events,
            "line_hops": int(sim.engine.machine.clock[0].hops),
            "per_rank": [
                {"rank": rank, "end_ps": end, "exposed_comm_ps": end - compute, "compute_ps": compute}
                for rank, (end, compute) in enumerate(zip(ends, computed, strict=True))
            ],
            "breakdown": sim.result.breakdown(),
            "assumed": sim.engine.assumed,
            "state_hash": sim.state_hash(),
        }
    )
    return 0
