"""Layout of nodes in the picture: deterministic, by instance and tier."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from astranb.infragraph import NodeKind

from .blocks import HEIGHT, LOW_ROW, RAIL_HEIGHT, WIDTH, PlacedBlock, by_shape, railed, rows_of, stacked
from .collapse import Detail, DrawnNetwork, Units, contracted, detail_of, natural, units_of
from .parts import Box, Frame, Layout
from .shapes import GraphShape, shape_of
from .tiers import Arranged, arrange, distances, shelves

__all__ = ["Box", "Frame", "Layout", "lay_out"]

_MARGIN = 8.0
_FEW_BESIDE = 24  # of more instances the only one in full is enlarged, up to so many times
_MOST_ENLARGED = 6.0
_FEW_UNITS = 48  # that many are drawn one by one, however many GPUs they hold
_SWITCH_HEIGHT = 36.0
_MOST_RAILS = 8
_WIDE_HOSTS = 4  # up to so many have their GPUs in one row
_BETWEEN = 0.22  # of the usual distance between ports, where links pass between two other boxes
_BAND = (1000.0, 60.0, 14.0, 80.0)  # of a tier drawn as one: width, height (and for tiles), gap to the next


def lay_out(
    fabric: DrawnNetwork,
    used: np.ndarray,
    *,
    opened: Collection[str] = (),
    focus: str = "",
    detail: Detail | None = None,
) -> Layout:
    """Place the GPUs and whatever lies on the routes between them.

    Parameters
    ----------
    fabric : DrawnNetwork
    used : ndarray of int
        Links on the program's routes.
    opened : collection of str
        Instances to show in full where there are too many to show all so.
    focus : str
        An instance to show alone, with what it is joined with.
    detail : Detail, optional
        How much is drawn; by default as follows from the number of GPUs.

    Returns
    -------
    Layout
        Each instance that holds GPUs is a frame, or one box from 128 GPUs on; what joins them is
        placed in rows by its distance in hops. GPUs that are joined directly are placed as the
        ring, grid or full mesh that they form.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("torus2d:rows=3,columns=3", anb.collectives.all_to_all("8 KiB"), record=False)
    >>> lay_out(sim.engine.fabric, np.unique(sim.engine.machine.route_links)).shapes
    ('3 x 3 torus',)
    """
    used = np.unique(np.asarray(used, np.int64))
    detail = detail or detail_of(len(fabric.gpus))
    ends = fabric.links["src"][used], fabric.links["dst"][used]
    nodes = np.unique(np.concatenate([fabric.gpus, *ends]).astype(np.int64))
    hidden = len(fabric.graph.nodes.kind) - len(nodes)
    units = units_of(fabric, nodes, collapsed=detail.collapsed)
    if focus in units.names:
        number = units.names.index(focus)
        used = used[(units.of[ends[0]] == number) | (units.of[ends[1]] == number)]
        ends = fabric.links["src"][used], fabric.links["dst"][used]
        inner = np.flatnonzero(units.of == number)
        nodes = np.unique(np.concatenate([inner, *ends]).astype(np.int64))
        detail, opened = detail_of(1), {focus}
    else:
        focus = ""
        if detail.level == "aggregates" and len(units.names) <= _FEW_UNITS:
            detail = Detail("collapsed", detail.hot)
    return _Picture(fabric, used, nodes, units, detail, set(opened), focus, hidden).layout()


class _Picture:
    """One picture while it is made: nodes become items, items get places."""

    def __init__(
        self, fabric: DrawnNetwork, used: np.ndarray, nodes: np.ndarray, units: Units, detail: Detail,
        opened: set[str], focus: str, hidden: int,
    ) -> None:  # fmt: skip
        self.fabric, self.used, self.units, self.detail = fabric, used, units, detail
        self.focus, self.nodes, self.hidden = focus, nodes, hidden
        self.src, self.dst = (fabric.links[end][used].astype(np.int64) for end in ("src", "dst"))
        self.rank = {int(node): rank for rank, node in enumerate(fabric.gpus)}
        present = np.unique(units.of[nodes]).tolist()
        self.hosts = [u for u in present if units.gpus[u] and (not focus or units.names[u] == focus)]
        if focus and not self.hosts:
            self.hosts = [units.names.index(focus)]
        self.others = [u for u in present if u not in set(self.hosts)]
        self.open = {u for u in self.hosts if not detail.collapsed or units.names[u] in opened}
        self.enlarged: set[int] = set()  # items whose boxes are larger, and by which factor
        self.factor = 1.0
        self.shapes: list[str] = []
        self.bent: dict[tuple[int, int], str] = {}
        self.item = self._items()
        self.near = self._neighbours(self.src, self.dst)
        # A shape is one of what is there, whichever of its links the program goes over.
        src, dst = (fabric.links[end].astype(np.int64) for end in ("src", "dst"))
        shown = np.isin(src, nodes) & np.isin(dst, nodes)
        self.joined = self._neighbours(src[shown], dst[shown])

    # What represents each node -------------------------------------------------

    def _items(self) -> np.ndarray:
        """Item of each node: itself, or number of nodes + its unit."""
        graph, units = self.fabric.graph, self.units
        item = np.arange(len(graph), dtype=np.int64)
        alone = np.bincount(units.of[self.nodes], minlength=len(units.names)) == 1
        closed = np.array([u not in self.open for u in range(len(units.names))]) & ~alone
        of = units.of[self.nodes]
        item[self.nodes] = np.where(closed[of], len(graph) + of, self.nodes)
        if self.detail.level != "everything" and self.open:
            inner = np.isin(of, list(self.open))
            kept = np.isin(self.src, self.nodes[inner]) | np.isin(self.dst, self.nodes[inner])
            for node, nic in contracted(self.fabric, self.nodes.tolist(), self.used[kept]).items():
                if item[node] == node:
                    item[node] = item[nic]
        return item

    def _neighbours(self, src: np.ndarray, dst: np.ndarray) -> dict[int, set[int]]:
        """Items that links join."""
        near: dict[int, set[int]] = defaultdict(set)
        a, b = self.item[src], self.item[dst]
        differ = a != b
        pairs = np.unique(np.stack([a[differ], b[differ]], 1), axis=0)
        for p, q in pairs.tolist():
            near[p].add(q)
            near[q].add(p)
        return near

    def _of_unit(self, unit: int) -> list[int]:
        """Items of a unit, GPUs by rank and then the others by name."""
        mine = self.nodes[self.units.of[self.nodes] == unit]
        items = np.unique(self.item[mine]).tolist()
        return sorted(items, key=lambda i: (self.rank.get(i, 2**62), natural(self._name(i))))

    def _name(self, item: int) -> str:
        graph = self.fabric.graph
        return graph.name(item) if item < len(graph) else self.units.names[item - len(graph)]

    # Places -------------------------------------------------------------------

    def layout(self) -> Layout:
        """Place everything."""
        if self.detail.level == "aggregates":
            return self._aggregates()
        if self.detail.collapsed and len(self.open) == 1 and len(self.hosts) > _FEW_BESIDE:
            made = self._one_in_full()
        else:
            made = self._arranged()
        order = sorted(made.places, key=lambda i: (self.rank.get(i, 2**62), natural(self._name(i))))
        at = ((item, *made.places[item]) for item in order)
        boxes = [self._box(item, x + _MARGIN, y + _MARGIN, wide) for item, x, y, wide in at]
        number = {item: place for place, item in enumerate(order)}
        frames = tuple(Frame(t, x + _MARGIN, y + _MARGIN, w, h) for t, x, y, w, h in made.frames)
        return self._finished(boxes, number, frames, made)

    def _one_in_full(self) -> Arranged:
        """An instance in full, large, and beside it the others, row by row, there and back."""
        unit = next(iter(self.open))
        others = [item for host in self.hosts if host != unit for item in self._of_unit(host)]
        rows = rows_of(others, math.ceil(math.sqrt(1.5 * len(others))))
        rows = [row[::-1] if number % 2 else row for number, row in enumerate(rows)]
        beside = stacked(rows)
        block = self._block(unit)
        self.factor = max(1.0, min(_MOST_ENLARGED, 0.7 * beside.height / block.height))
        self.enlarged = set(block.places)
        tiers = [row for tier in reversed(self._upper()) for row in rows_of(tier)]
        above = [[replace(stacked([row]), title="")] for row in tiers]
        return shelves([*above, [block.enlarged(self.factor), beside]])

    def _arranged(self) -> Arranged:
        """Instances, and what joins them."""
        blocks = [self._block(unit) for unit in self.hosts]
        if self.others:
            return arrange(blocks, self._upper(), self.near)
        return shelves([blocks]) if len(blocks) == 1 else self._without_switches(blocks)

    def _upper(self) -> list[list[int]]:
        """Items of what joins the hosts, by tier and then by name."""
        starts = {item for unit in self.hosts for item in self._of_unit(unit)}
        away = distances(self.near, starts)
        tiers: dict[int, list[int]] = defaultdict(list)
        for unit in self.others:
            for item in self._of_unit(unit):
                tiers[away.get(item, len(self.near))].append(item)
        return [sorted(tiers[tier], key=lambda i: natural(self._name(i))) for tier in sorted(tiers)]

    def _without_switches(self, blocks: list[PlacedBlock]) -> Arranged:
        """Units joined directly: as the shape that they make."""
        place = {item: k for k, unit in enumerate(self.hosts) for item in self._of_unit(unit)}
        joined = [
            {place[o] for item in block.places for o in self.joined.get(item, ()) if o in place} - {k}
            for k, block in enumerate(blocks)
        ]
        shape = shape_of(joined)
        if all(len(block.places) == 1 for block in blocks):
            block = by_shape([next(iter(b.places)) for b in blocks], shape)
            self._record_shape(block)
            return shelves([[block]])
        self.shapes += [shape.title] if shape.title else []
        order = [blocks[k] for k in shape.order]
        if shape.kind == "grid":
            columns = shape.columns
        else:
            columns = math.ceil(len(order) / 2) if shape.kind == "ring" else math.ceil(math.sqrt(len(order)))
        rows = [order[k : k + columns] for k in range(0, len(order), columns)]
        if shape.kind == "ring":
            rows[1:] = [row[::-1] for row in rows[1:]]
        return shelves(rows)

    def _block(self, unit: int) -> PlacedBlock:
        items = self._of_unit(unit)
        if len(items) == 1:
            return stacked([items])
        block = self._inner(items)
        self._record_shape(block)
        alone = len(self.hosts) == 1 and not self.others
        return block if alone else block.framed(self.units.names[unit])

    def _record_shape(self, block: PlacedBlock) -> None:
        self.bent |= block.bent
        if block.shape and block.shape not in self.shapes:
            self.shapes.append(block.shape)

    def _inner(self, items: Sequence[int]) -> PlacedBlock:
        """An opened unit: what leads outside on top, then GPUs, with what joins them among them."""
        mine = set(items)
        near = {item: self.near.get(item, set()) & mine for item in items}
        gpus = [item for item in items if item in self.rank] or list(items)
        others = [item for item in items if item not in set(gpus)]
        from_gpu = distances(near, gpus)
        doors = [item for item in others if self.near.get(item, set()) - mine]
        to_door = distances(near, doors)
        least = min((from_gpu.get(door, 2**30) for door in doors), default=0)
        outward: dict[int, list[int]] = defaultdict(list)
        inward: dict[int, list[int]] = defaultdict(list)
        for item in others:
            away = from_gpu.get(item, 2**30)
            on_route = item in to_door and away + to_door[item] <= least
            (outward if on_route or item in doors else inward)[away].append(item)
        leads = [row for away in sorted(outward, reverse=True) for row in rows_of(outward[away])]
        lead = stacked(leads, LOW_ROW)
        middle = [row for away in sorted(inward) for row in rows_of(inward[away])]
        place = {gpu: k for k, gpu in enumerate(gpus)}
        switches = next(iter(inward.values()), [])
        if len(inward) == 1 and self._joins_all(switches, gpus):
            most = 8 if len(self.hosts) <= _WIDE_HOSTS or self.focus else 4
            made = railed(gpus, switches, below=bool(lead.places), most=most).below(lead)
            for row in reversed(leads) if len(gpus) <= most else ():
                made = made.aligned(row, near)
            return made
        if middle or not any(o in place for gpu in gpus for o in near[gpu]):
            return stacked(_between(gpus, middle)).below(lead)
        direct = [{place[o] for o in self.joined[gpu] if o in place} for gpu in gpus]
        shape = shape_of(direct) if len(gpus) > 1 else GraphShape("none", (0,))
        return by_shape(gpus, shape).below(lead)

    def _joins_all(self, switches: Sequence[int], boxes: Sequence[int]) -> bool:
        """Return whether each of a few switches is connected to all of some boxes, and none to another."""
        return len(switches) <= _MOST_RAILS and all(
            self.near[switch].issuperset(boxes) and self.near[switch].isdisjoint(switches)
            for switch in switches
        )

    # Results ------------------------------------------------------------------

    def _box(self, item: int, x: float, y: float, wide: float) -> Box:
        graph, units = self.fabric.graph, self.units
        name = self._name(item)
        factor = self.factor if item in self.enlarged else 1.0
        if item >= len(graph):
            unit = item - len(graph)
            first = int(self.nodes[np.argmax(units.of[self.nodes] == unit)])
            count = units.gpus[unit] or 1
            tall = _height(wide, gpus=units.gpus[unit] > 0)
            return Box(first, name, name, "instance", x, y, wide, tall, *units.ranks[unit], count)
        kind = NodeKind(int(graph.nodes.kind[item])).name.lower()
        rank = self.rank.get(item, -1)
        unit = units.of[item]
        # A switch of which one port represents all is called as the switch.
        called = units.names[unit] if units.sizes[unit] == 1 else ".".join(name.split(".")[-2:])
        label = f"GPU{rank}" if rank >= 0 else called
        tall = factor * _height(wide / factor, gpus=rank >= 0)
        return Box(item, name, label, kind, x, y, wide, tall, rank, rank)

    def _aggregates(self) -> Layout:
        """One band a tier, the furthest on top; hosts below all."""
        graph = self.fabric.graph
        bands = [*reversed(self._upper()), [i for unit in self.hosts for i in self._of_unit(unit)]]
        classes: list[list[int]] = []
        for band in bands:
            by_kind: dict[str, list[int]] = defaultdict(list)
            for item in band:
                by_kind[self._name(item).partition(".")[0].partition("[")[0]].append(item)
            classes += by_kind.values()
        width, least, more, gap = _BAND
        boxes, tiles, top = [], [], 0.0
        of: dict[int, int] = {}
        for place, items in enumerate(classes):
            names = tuple(self._name(item) for item in items)
            kind = names[0].partition(".")[0].partition("[")[0]
            of |= dict.fromkeys(items, place)
            height = least + more * math.sqrt(len(items))
            y = _MARGIN + top + height / 2
            top += height + gap
            first = self._box(items[0], 0, 0, WIDTH)
            label = f"{len(items):,} x {kind}"
            rank = first.rank if first.rank >= 0 else -1
            box = Box(
                first.node, f"tier {place}: {kind}", label, "tier", _MARGIN + width / 2, y, width, height,
                rank, -1, len(items),
            )  # fmt: skip
            boxes.append(box)
            tiles.append(names)
        largest = np.zeros(len(graph) + len(self.units.names), np.int64)
        for item, place in of.items():
            largest[item] = place
        self.item = np.where(self.units.of >= 0, largest[self.item], 0)
        number = {place: place for place in range(len(classes))}
        made = Arranged(width=width, height=top - gap)
        return replace(self._finished(boxes, number, (), made), tiles=tuple(tiles))

    def _finished(
        self, boxes: Iterable[Box], number: dict[int, int], frames: tuple[Frame, ...], made: Arranged
    ) -> Layout:
        """Gather links by the boxes at their ends, in the order of the first lane of each bundle."""
        boxes = tuple(boxes)
        place = np.zeros(int(max(number)) + 1, np.int64)
        place[list(number)] = list(number.values())
        a, b = place[self.item[self.src]], place[self.item[self.dst]]
        key = a * len(boxes) + b
        order = np.argsort(key, kind="stable")
        cuts = np.flatnonzero(np.diff(key[order])) + 1
        groups = [(int(g[0]), tuple(self.used[g].tolist())) for g in np.split(order, cuts) if len(g)]
        inside: list[tuple[int, ...]] = [()] * len(boxes)
        bundles, bent = [], []
        items = {at: item for item, at in number.items()}
        for first, lanes in sorted(groups, key=lambda group: group[1][0]):
            p, q = int(a[first]), int(b[first])
            if p == q:
                inside[p] = lanes
                continue
            bundles.append((p, q, lanes))
            bent.append(self.bent.get((items[p], items[q]), ""))
        return Layout(
            boxes, tuple(bundles), made.width + 2 * _MARGIN, made.height + 2 * _MARGIN, self.hidden,
            frames, tuple(inside), tuple(bent), _ports(boxes, bundles), tuple(self.shapes), self.detail,
            focus=self.focus, units=self.units,
        )  # fmt: skip


def _height(width: float, *, gpus: bool) -> float:
    return RAIL_HEIGHT if width > WIDTH else HEIGHT if gpus else _SWITCH_HEIGHT


def _ports(
    boxes: Sequence[Box], bundles: Sequence[tuple[int, int, tuple[int, ...]]]
) -> tuple[float | None, ...]:
    """Return the places of links to rails at each box: side by side, for each rail above it, and below."""
    rails: dict[tuple[int, bool], set[int]] = defaultdict(set)  # by box and whether they are below it
    for a, b, _ in bundles:
        for box, rail in ((a, b), (b, a)):
            if boxes[rail].rail and not boxes[box].rail:
                rails[box, boxes[rail].y > boxes[box].y].add(rail)
    place: dict[tuple[int, int], float] = {}
    for (box, below), found in rails.items():
        one = boxes[box]
        order = sorted(found, key=lambda rail: boxes[rail].y)
        low, high = sorted((one.y, boxes[order[0] if below else order[-1]].y))
        between = any(
            not other.rail and low < other.y < high and abs(other.x - one.x) < WIDTH for other in boxes
        )
        for number, rail in enumerate(order):
            share = (number + 1) / (len(order) + 1) - 0.5
            place[box, rail] = place[rail, box] = share * (_BETWEEN if between else 1.0)
    return tuple(place.get((a, b)) for a, b, _ in bundles)


def _between(gpus: Sequence[int], middle: Sequence[Sequence[int]]) -> list[list[int]]:
    """GPUs in rows, half of them above what joins them and half below."""
    if len(gpus) <= 4:
        return [list(gpus), *map(list, middle)]
    rows = rows_of(gpus, 16 if len(gpus) > 32 else -(-len(gpus) // 2))
    half = len(rows) // 2
    return [*rows[:half], *map(list, middle), *rows[half:]]
