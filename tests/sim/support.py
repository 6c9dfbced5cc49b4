"""What several tests of simulations share."""

import astranb as anb


def check_save(sim, network, path):
    """A saved simulation is loaded with its network's options, and goes on to the same end."""
    sim.save(path)
    other = anb.Simulation.load(path)
    assert other.engine.network == network
    sim.run()
    other.run()
    assert other.state_hash() == sim.state_hash()
