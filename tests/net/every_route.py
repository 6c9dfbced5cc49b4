"""The routes of whole messages, the long way: pair after pair, in the links that it may use."""

import heapq
from itertools import islice
from typing import Any

from astranb.infragraph import NodeKind

THROUGH_GPU_PS, THROUGH_CPU_PS, BETWEEN_CPUS_PS = 10**9, 10**8, 10**12


class Plain:
    """A fabric as dictionaries.

    ``price`` and ``lanes``: of each pair of nodes; ``box``: the GPUs' box of each node; ``owner``: the
    box of each NIC.
    """

    def __init__(self, fabric):
        graph, links = fabric.graph, fabric.links
        self.fabric, self.gpus = fabric, [int(gpu) for gpu in fabric.gpus]
        hosts = {int(graph.nodes.instance[gpu]) for gpu in self.gpus}
        cpus = {
            n
            for n in range(len(graph))
            if graph.nodes.kind[n] == NodeKind.CPU and int(graph.nodes.instance[n]) in hosts
        }
        self.nics = {n for n in range(len(graph)) if graph.nodes.kind[n] == NodeKind.NIC}
        self.lanes: dict[tuple[int, int], list[int]] = {}
        self.price: dict[tuple[int, int], int] = {}
        for lane in range(len(links)):
            if lane in fabric.closed:
                continue
            src, dst = int(links["src"][lane]), int(links["dst"][lane])
            self.lanes.setdefault((src, dst), []).append(lane)
            if (src, dst) not in self.price:
                rate = int(links["bandwidth_Bps"][lane])
                price = -(-4096 * 10**12 // rate) + int(links["latency_ps"][lane] + links["forward_ps"][lane])
                price += THROUGH_CPU_PS * (dst in cpus) + BETWEEN_CPUS_PS * ({src, dst} <= cpus)
                self.price[src, dst] = price
        self._find_boxes(len(graph))

    def _find_boxes(self, nodes):
        self.box: dict[int, int] = {}
        joined: dict[int, set[int]] = {}
        for a, b in self.price:
            joined.setdefault(a, set()).add(b)
            joined.setdefault(b, set()).add(a)
        for first in range(nodes):
            if first in self.box or first in self.nics:
                continue
            members, left = {first}, [first]
            while left:
                for there in joined.get(left.pop(), set()) - members - self.nics:
                    members.add(there)
                    left.append(there)
            self.box |= dict.fromkeys(members, first if members & set(self.gpus) else -1)
        of_nic = {
            nic: {self.box[b] for a, b in self.price if a == nic and self.box.get(b, -1) >= 0}
            for nic in self.nics
        }
        shared = {box for boxes in of_nic.values() if len(boxes) > 1 for box in boxes}
        self.owner = {
            nic: min(boxes) for nic, boxes in of_nic.items() if len(boxes) == 1 and not boxes & shared
        }
        kept = set(self.owner.values())
        self.box = {node: box if box in kept else -1 for node, box in self.box.items()}
        self.network = {n for n in range(nodes) if self.box.get(n, -1) < 0 and n not in self.owner}

    def costs(self, end, usable):
        """Dijkstra backwards, over some pairs of nodes."""
        into: dict[int, list[int]] = {}
        for a, b in usable:
            into.setdefault(b, []).append(a)
        cost, heap = {}, [(0, end)]
        while heap:
            far, node = heapq.heappop(heap)
            if node not in cost:
                cost[node] = far
                toll = THROUGH_GPU_PS if node in self.gpus and node != end else 0
                for before in into.get(node, ()):
                    heapq.heappush(heap, (far + toll + self.price[before, node], before))
        return cost

    def steps(self, start, end, usable):
        """The next nodes on every least way, in the order of the fabric; none where there is no way."""
        cost = self.costs(end, usable)
        out: dict[int, list[int]] = {}
        for a, b in usable:
            out.setdefault(a, []).append(b)
        after, left = {}, [start]
        while left:
            node = left.pop()
            if node in after or node == end or node not in cost:
                continue
            found = [
                b
                for b in out.get(node, ())
                if b in cost
                and cost[b] + self.price[node, b] + (THROUGH_GPU_PS if b in self.gpus and b != end else 0)
                == cost[node]
            ]
            after[node] = sorted(found, key=lambda b: self.lanes[node, b][0])
            left += after[node]
        return after

    def inside(self, box, nic=None):
        """The pairs of nodes within a box, and those with one of its NICs."""
        return [
            (a, b)
            for a, b in self.price
            if (self.box.get(a, -1) == box or a == nic) and (self.box.get(b, -1) == box or b == nic)
        ]

    def nics_of(self, gpu, way):
        """The NICs of a GPU: the fastest, of these the nearest, of these its share."""
        box = self.box[gpu]
        mine = [other for other in self.gpus if self.box[other] == box]
        rate: dict[int, float] = {}
        for (a, b), lanes in self.lanes.items():
            nic, other = (a, b) if way == "out" else (b, a)
            if self.owner.get(nic) == box and other in self.network:
                total = sum(int(self.fabric.links["bandwidth_Bps"][lane]) for lane in lanes)
                rate[nic] = rate.get(nic, 0) + total
        nearest = {}
        for one in mine:
            far = {}
            for nic in sorted(rate):
                start, end = (one, nic) if way == "out" else (nic, one)
                cost = self.costs(end, self.inside(box, nic)).get(start)
                if cost is not None:
                    far[nic] = (-rate[nic], cost)
            nearest[one] = [nic for nic in far if far[nic] == min(far.values())]
        nics, equal = nearest[gpu], [one for one in mine if nearest[one] == nearest[gpu]]
        place, count = equal.index(gpu), len(equal)
        if len(nics) < count:
            return nics and [nics[place % len(nics)]]
        return nics[len(nics) * place // count : len(nics) * (place + 1) // count]

    def usable(self, start, end):
        """The pairs of nodes that routes from a GPU to another may use."""
        here, there = self.box[start], self.box[end]
        if here < 0 or there < 0:
            return list(self.price)
        if here == there:
            return self.inside(here)
        found = {(a, b) for a, b in self.price if a in self.network and b in self.network}
        for gpu, way in ((start, "out"), (end, "into")):
            for nic in self.nics_of(gpu, way):
                a, b = (gpu, nic) if way == "out" else (nic, gpu)
                within = self.steps(a, b, self.inside(self.box[gpu], nic))
                found |= {(node, to) for node, after in within.items() for to in after}
                found |= {
                    (x, y)
                    for x, y in self.price
                    if (x if way == "out" else y) == nic and {x, y} & self.network
                }
        return sorted(found)


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
    """Return ``{(source, target): [(latency_ns, rate_Bpns, [lanes of each link])]}``."""
    plain = Plain(fabric)
    spread, single = {}, {}
    for source, target in sorted(pairs):
        start, end = plain.gpus[source], plain.gpus[target]
        steps = plain.steps(start, end, plain.usable(start, end))
        if not steps.get(start):
            steps = plain.steps(start, end, list(plain.price))
        if not steps.get(start):
            raise LookupError(source, target)
        layers = layers_of(steps, start, end)
        every = [[frozenset([edge]) for edge in way] for way in islice(walk(steps, start, end), 16)]
        single[source, target] = every
        if layers is not None:
            spread[source, target] = layers
    while True:
        used = {stage for layers in spread.values() for stage in layers}
        used |= {stage for pair in single if pair not in spread for way in single[pair] for stage in way}
        owners: dict[Any, list[Any]] = {}
        for stage in used:
            for edge in stage:
                owners.setdefault(edge, []).append(stage)
        clash = {stage for stages in owners.values() if len(stages) > 1 for stage in stages}
        leaving = [pair for pair, layers in spread.items() if any(len(s) > 1 and s in clash for s in layers)]
        if not leaving:
            break
        for pair in leaving:
            del spread[pair]
    return {
        pair: [described(plain, way) for way in ([spread[pair]] if pair in spread else single[pair])]
        for pair in single
    }


def described(plain, way):
    """Describe a route: its latency, the narrowest rate, and the lanes of each link."""
    own = [[lane for edge in sorted(stage) for lane in plain.lanes[edge]] for stage in way]
    links = plain.fabric.links
    latency_ns = 0.0
    for each in own:
        latency_ns += float((links["latency_ps"][each] + links["forward_ps"][each]).max() / 1000)
    return latency_ns, min(float(links["bandwidth_Bps"][each].sum() / 1e9) for each in own), own
