"""A broadcast down a chain in slices: while one slice goes on, the next one comes."""


def sliced_chain(p):
    chain = [p.rank((p.root + k) % p.ranks) for k in range(p.ranks)]
    wires = p.connections()
    for place, me in enumerate(chain):
        block = me.block()
        block.phase(f"place {place}")
        for k in range(p.input_chunks):
            got = wires[chain[place - 1], me].receive(block) if place else me.input[k]
            if place < p.ranks - 1:
                wires[me, chain[place + 1]].send(block, got, also=(me.output[k],))
            else:
                block.copy(got, me.output[k])
