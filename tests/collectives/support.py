"""Support of the tests of algorithms from files."""

import astranb as anb
from astranb.collectives import Collective


def run(algorithm, collective="all_reduce", gpus=4, size="16KiB", **more):
    sim = anb.Simulation(
        f"switch:gpus={gpus}",
        Collective.of(collective, size, algorithm, **more),
        record=False,
        checkpoint_bytes=0,
    )
    sim.run()  # raises WrongResult where it does not end as the collective promises
    return sim.result.time_ps
