"""The ways of whole messages, the long way: a search for each target, every way of each pair."""

import heapq
from itertools import islice

from astranb.net.fabric import _THROUGH_GPU_PS


def costs_to(fabric, target, sources, homes):
    """Dijkstra backwards over all nodes, with a heap of Python's."""
    instance = fabric.graph.instance
    owners = {int(instance[gpu]) for gpu in fabric.gpus}
    gpus = set(fabric.gpus.tolist())
    cost: dict[int, int] = {}
    heap, left = [(0, target)], set(sources)
    incoming: dict[int, list[tuple[int, int]]] = {}
    for src, bundles in fabric._out.items():
        for dst, _, price in bundles:
            incoming.setdefault(dst, []).append((src, price))
    while heap and left:
        so_far, node = heapq.heappop(heap)
        if node in cost:
            continue
        cost[node] = so_far
        left.discard(node)
        toll = _THROUGH_GPU_PS if node in gpus and node != target else 0
        for previous, price in incoming.get(node, ()):
            home = int(instance[previous])
            if previous not in cost and (homes is None or home not in owners or home in homes):
                heapq.heappush(heap, (so_far + price + toll, previous))
    return cost


def onward(fabric, node, target, cost):
    """The nodes after one on ways of least cost."""
    gpus = set(fabric.gpus.tolist())
    return [
        to
        for to, _, price in fabric._out.get(node, ())
        if to in cost
        and cost[to] + price + (_THROUGH_GPU_PS if to in gpus and to != target else 0) == cost[node]
    ]


def walk(steps, node, end):
    for to in steps[node]:
        for tail in [[]] if to == end else walk(steps, to, end):
            yield [(node, to), *tail]


def layers_of(steps, start, end):
    """Links hop by hop; None where the ways differ in length."""
    depth, layers, frontier = {start: 0}, [], [start]
    while frontier != [end]:
        edges = [(node, to) for node in frontier for to in steps.get(node, ())]
        layers.append(frozenset(edges))
        frontier = sorted({to for _, to in edges})
        if any(depth.setdefault(node, len(layers)) != len(layers) for node in frontier):
            return None
        if end in frontier and len(frontier) > 1:
            return None
    return layers


def message_routes(fabric, pairs):
    """Give ``{(source, target): [(latency_ns, rate_Bpns, [lanes of each link])]}``."""
    spread, single = {}, {}
    instance = fabric.graph.instance
    for target in sorted({target for _, target in pairs}):
        end = int(fabric.gpus[target])
        sources = sorted(source for source, to in pairs if to == target)
        starts = {int(fabric.gpus[source]) for source in sources}
        cost = costs_to(fabric, end, starts, {int(instance[node]) for node in (end, *starts)})
        if not starts <= cost.keys():
            cost = costs_to(fabric, end, starts, None)
        for source in sources:
            steps, left = {}, [int(fabric.gpus[source])]
            while left:
                node = left.pop()
                if node != end and node not in steps:
                    steps[node] = onward(fabric, node, end, cost)
                    left += steps[node]
            start = int(fabric.gpus[source])
            if not steps[start]:
                raise LookupError(source, target)
            layers = layers_of(steps, start, end)
            every = [[frozenset([edge]) for edge in way] for way in islice(walk(steps, start, end), 16)]
            single[source, target] = every
            if layers is not None:
                spread[source, target] = layers
    while True:
        used = {stage for layers in spread.values() for stage in layers}
        used |= {stage for pair in single if pair not in spread for way in single[pair] for stage in way}
        clash = {stage for stage in used if any(stage != other and stage & other for other in used)}
        leaving = [pair for pair, layers in spread.items() if any(len(s) > 1 and s in clash for s in layers)]
        if not leaving:
            break
        for pair in leaving:
            del spread[pair]
    return {
        pair: [described(fabric, way) for way in ([spread[pair]] if pair in spread else single[pair])]
        for pair in single
    }


def described(fabric, way):
    """What a message meets on a way: latency, the narrowest rate, and the lanes of each link."""
    lanes = {(src, to): own for src, bundles in fabric._out.items() for to, own, _ in bundles}
    own = [[lane for edge in sorted(stage) for lane in lanes[edge]] for stage in way]
    links = fabric.links
    latency_ns = 0.0
    for each in own:
        latency_ns += float((links["latency_ps"][each] + links["forward_ps"][each]).max() / 1000)
    return latency_ns, min(float(links["bandwidth_Bps"][each].sum() / 1e9) for each in own), own
