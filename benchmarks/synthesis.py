"""Synthesised algorithms beside the library's, by cache lines: ``python -m benchmarks.synthesis``.

For six machines and two collectives: the bound, how many times as long the schedule takes, and the times by
cache lines of the synthesised algorithm and of the library's best (algorithm and protocol).
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any, Final

import astranb as anb
from astranb.collectives import PROTOCOLS
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time, size_bytes
from astranb.explore.synthesis.condition import condition_of
from astranb.explore.synthesis.network import rank_network
from astranb.explore.synthesis.schedule import drawn_schedule
from astranb.net import Network

__all__ = ["synthesis"]

MACHINES: Final = {
    "ring of 8": "ring:gpus=8",
    "mesh 4x4": "mesh2d:rows=4,columns=4",
    "torus 4x4": "torus2d:rows=4,columns=4",
    "fully connected 8": "fully-connected:gpus=8",
    "DGX H100": "dgx-h100",
    "two-box rail": "rails:servers=2",
}
COLLECTIVES: Final = ("all_gather", "all_reduce")
_MOST_EVENTS: Final = 1_000_000  # of a library's algorithm once it is slower than the best so far

_SPEEDS: Final = (
    ((8, 16), "all_reduce", 1.08, "TACOS, 128 heterogeneous NPUs"),
    ((32, 32), "all_gather", 60.0, "the goal"),
)
"""Rows and columns of a torus, and seconds: as TACOS recorded (arXiv 2304.05301v3, abstract), or wanted."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthesis", description=main.__doc__)
    parser.add_argument("--size", default="16MiB", help="bytes in a rank's larger buffer (default: 16MiB)")
    parser.add_argument(
        "--lines", type=int, default=16, help="lines that travel as one request (default: 16)"
    )
    parser.add_argument(
        "--protocols", nargs="+", default=PROTOCOLS, help="of the library (default: all): packets take long"
    )
    parser.add_argument("--machines", nargs="+", default=MACHINES, help="some of them (default: all six)")
    options = parser.parse_args()
    network = Network(coalesce=options.lines)
    print(f"{format_bytes(size_bytes(options.size))}, {plural(options.lines, 'line')} as one request")
    heads = f"{'bound':>11}{'schedule':>10}{'simulated':>12}{'by':>7}{'library':>9}"
    print(f"{'machine':<18}{'collective':<12}{heads}  its best")
    for machine in options.machines:
        infra = MACHINES[machine]
        for collective in COLLECTIVES:
            found = anb.explore.synthesize(infra, collective, options.size)
            sim = anb.Simulation(infra, found.collective, network=network, record=False, checkpoint_bytes=0)
            ours_ps = sim.run().now_ps
            best = anb.explore.best_algorithm(
                infra,
                collective,
                options.size,
                network=network,
                protocols=options.protocols,
                most_events=_MOST_EVENTS,
            ).iloc[0]
            theirs_ps = int(best["time_ps"])
            schedule = f"{format_time(found.bound_ps):>11}{found.slower:>9.3f}x"
            ours = f"{format_time(ours_ps):>12}{found.protocol:>7}"
            library = f"{theirs_ps / ours_ps:>8.2f}x  {best['algorithm']}/{best['protocol']}"
            print(f"{machine:<18}{collective:<12}{schedule}{ours}{library}", flush=True)
    return 0


def synthesis(row: Any, _bare: float) -> None:
    """Measure how long a schedule of a 2-D torus takes to draw, beside TACOS's recorded time."""
    for (rows, columns), collective, seconds, whose in _SPEEDS:
        network = rank_network(f"torus2d:rows={rows},columns={columns}")
        condition = condition_of(collective, network.ranks)
        drawn_schedule(rank_network("ring:gpus=4"), condition_of(collective, 4), 1, 2**16, seed=0, looked=16)
        began = perf_counter()
        drawn_schedule(network, condition, 1, 2**16, seed=1, looked=16)
        took = perf_counter() - began
        what = f"synthesis, {collective} on a torus of {network.ranks:,} NPUs"
        row(what, took, "s", f"{whose}, {seconds:g} s", seconds / took)


if __name__ == "__main__":
    raise SystemExit(main())
