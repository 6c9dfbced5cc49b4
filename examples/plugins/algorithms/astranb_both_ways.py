"""A plug-in: an all-gather in which every chunk travels half around the ring in each direction."""

from astranb.collectives import algorithm


@algorithm("all_gather", "both_ways", protocols=("Simple", "LL", "LL128"))
def both_ways(p):
    """Send every chunk half around the ring in each direction."""
    wires, ranks = p.connections(), p.ranks
    for me in p.everyone:
        block = me.block()
        block.copy(me.input[0], me.output[me])
        for sign, steps in ((1, ranks // 2), (-1, (ranks - 1) // 2)):
            ahead = p.everyone[(me.number + sign) % ranks]
            behind = p.everyone[(me.number - sign) % ranks]
            for step in range(steps):
                wires[me, ahead].send(block, me.output[(me.number - sign * step) % ranks])
                received = wires[behind, me].receive(block)
                block.copy(received, me.output[(me.number - sign * (step + 1)) % ranks])
