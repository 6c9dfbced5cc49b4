"""The waits of each rank and of each thread block add up to the run."""

import pytest

from astranb.core.errors import InputError
from astranb.engine.cacheline import LOSSES
from tests.engine.cacheline.support import made


@pytest.mark.parametrize("part", [0, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize("protocol,launch", [("Simple", "none"), ("LL", "stream")])
def test_lost_times_add_up(part, protocol, launch):
    sim = made("16 KiB", protocol=protocol, launch=launch)
    sim.run()
    sim.goto(int(part * sim.now_ps)) if part < 1 else None
    for per, rows in (("block", len(sim.engine.machine.blocks)), ("rank", 8)):
        frame = sim.lost_time(per)
        assert len(frame) == rows
        causes = [f"{name.replace(': ', '_').replace(' ', '_')}_ps" for name in LOSSES]
        assert (frame[causes].to_numpy() >= 0).all()
        assert (frame[causes].sum(axis=1) == frame["time_ps"]).all()
    if part == 1:
        blocks = sim.engine.machine.blocks
        assert (sim.lost_time("block")["semaphore_ps"] == blocks["waiting_ps"]).all()
        assert (sim.lost_time("block")["idle_ended_ps"] == sim.result.time_ps - blocks["ended_ps"]).all()
    with pytest.raises(InputError, match="per rank or per block"):
        sim.lost_time("link")
