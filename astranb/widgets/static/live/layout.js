// @ts-check
// Where nodes are placed in the picture: deterministic, by instance and tier. Counterpart of export/layout/layout.py.

import {
  HEIGHT, LOW_ROW, RAIL_HEIGHT, WIDTH, aligned, below, byShape, chunks, enlarged, framed, railed, rowsOf, stacked,
} from "./layout_blocks.js";
import { shapeOf, shapeless, titleOf } from "./layout_shapes.js";
import { arrange, arranged, distances, shelves } from "./layout_tiers.js";
import { contracted, detailOf, inOrder, isCollapsed, unitsOf } from "./layout_units.js";
import { commas } from "./text.js";

/** @import { ItemRows, PlacedBlock } from "./layout_blocks.js" */
/** @import { Arranged } from "./layout_tiers.js" */
/** @import { Detail, Units } from "./layout_units.js" */

/**
 * What is laid out.
 * @typedef {object} DrawnNetwork
 * @property {string[]} nodes their names
 * @property {(node: number) => string} kindOf of a node: xpu, nic, switch, ..., or custom
 * @property {ArrayLike<number>} instance the number of the instance that each node is in
 * @property {(node: number) => string} instanceName
 * @property {ArrayLike<number>} src of each link
 * @property {ArrayLike<number>} dst
 * @property {number[]} gpus the node of each rank
 * @property {Map<number, number>} rankOf the rank of each of these nodes
 */
/**
 * One node, or what represents several; `x` and `y` are its centre.
 * @typedef {{ name: string, label: string, kind: string, x: number, y: number, w: number, h: number, rank: number, last: number, count: number }} Box
 */
/** Boxes at the ends, and the lanes from the first to the second. @typedef {[from: number, to: number, lanes: number[]]} Bundle */
/**
 * Boxes and the bundles of parallel lanes between them: as the class of export/layout/parts.py.
 * @typedef {object} Layout
 * @property {Box[]} boxes
 * @property {Bundle[]} bundles
 * @property {number} width
 * @property {number} height
 * @property {number} hidden
 * @property {{ name: string, x: number, y: number, w: number, h: number }[]} frames
 * @property {number[][]} inside
 * @property {string[]} bent
 * @property {(number | null)[]} ports
 * @property {string[]} shapes
 * @property {Detail} detail
 * @property {string[][]} tiles
 * @property {string} focus
 * @property {Units} units
 */

const MARGIN = 8;
const FEW_BESIDE = 24; // of more instances the only one in full is enlarged, up to so many times
const MOST_ENLARGED = 6;
const FEW_UNITS = 48; // that many are drawn one by one, however many GPUs they hold
const SWITCH_HEIGHT = 36;
const MOST_RAILS = 8;
const WIDE_HOSTS = 4; // up to so many have their GPUs in one row
const BETWEEN = 0.22; // of the usual distance between ports, where links pass between two other boxes
const [BAND_WIDTH, BAND_HEIGHT, BAND_TILES, BAND_GAP] = [1000, 60, 14, 80]; // of a tier drawn as one

/** Numbers, each once, in ascending order. @param {Iterable<number>} numbers */
const distinct = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);

/** Whether it is a switch drawn as a rail: as wide as the boxes that it joins, with vertical links. @param {Box} box */
export const isRail = ({ w, kind }) => w > WIDTH && kind !== "tier";

/** One picture while it is made: nodes become items, items get places. */
class LaidOut {
  /**
   * @param {DrawnNetwork} network @param {number[]} used @param {number[]} nodes @param {Units} units @param {Detail} detail
   * @param {Set<string>} opened @param {string} focus @param {number} hidden
   */
  constructor(network, used, nodes, units, detail, opened, focus, hidden) {
    this.network = network;
    this.used = used;
    this.nodes = nodes;
    this.units = units;
    this.detail = detail;
    this.focus = focus;
    this.hidden = hidden;
    const present = distinct(nodes.map((node) => units.of[node]));
    this.hosts = present.filter((unit) => units.gpus[unit] && (!focus || units.names[unit] === focus));
    if (focus && !this.hosts.length) this.hosts = [units.names.indexOf(focus)];
    this.others = present.filter((unit) => !this.hosts.includes(unit));
    this.open = new Set(this.hosts.filter((unit) => !isCollapsed(detail) || opened.has(units.names[unit])));
    /** @type {Set<number>} items whose boxes are larger, by the factor */
    this.enlarged = new Set();
    this.factor = 1;
    /** @type {string[]} */
    this.shapes = [];
    /** @type {Map<string, string>} */
    this.bent = new Map();
    const { src, dst } = network;
    this.item = this._items();
    this.near = this._neighbours(used);
    // A shape is one of what is there, whichever of its links the program goes over.
    const shown = new Set(nodes);
    this.joined = this._neighbours(Array.from({ length: src.length }, (_, link) => link).filter((link) => shown.has(src[link]) && shown.has(dst[link])));
  }

  // What represents each node -------------------------------------------------

  /** The item of each node: itself, or number of nodes + its unit. */
  _items() {
    const { nodes: names, src, dst } = this.network;
    const { units, nodes } = this;
    const item = Int32Array.from(names, (_, node) => node);
    const held = new Int32Array(units.names.length);
    for (const node of nodes) held[units.of[node]] += 1;
    for (const node of nodes) {
      const unit = units.of[node];
      if (!this.open.has(unit) && held[unit] !== 1) item[node] = names.length + unit;
    }
    if (this.detail.level !== "everything" && this.open.size) {
      const inner = new Set(nodes.filter((node) => this.open.has(units.of[node])));
      const kept = this.used.filter((link) => inner.has(src[link]) || inner.has(dst[link]));
      for (const [node, nic] of contracted(this.network, nodes, kept)) if (item[node] === node) item[node] = item[nic];
    }
    return item;
  }

  /** Items that links join. @param {number[]} links @returns {Map<number, Set<number>>} */
  _neighbours(links) {
    const { src, dst } = this.network;
    /** @type {Map<number, Set<number>>} */
    const near = new Map();
    /** @param {number} one @param {number} other */
    const add = (one, other) => void (near.get(one) ?? near.set(one, new Set()).get(one))?.add(other);
    for (const link of links) {
      const [a, b] = [this.item[src[link]], this.item[dst[link]]];
      if (a === b) continue;
      add(a, b);
      add(b, a);
    }
    return near;
  }

  /** The neighbours of an item. @param {number} item */
  _near(item) {
    return this.near.get(item) ?? new Set();
  }

  /** Items of a unit, GPUs by rank and then the others by name. @param {number} unit */
  _ofUnit(unit) {
    return this._inOrder(distinct(this.nodes.filter((node) => this.units.of[node] === unit).map((node) => this.item[node])));
  }

  /** @param {number[]} items */
  _inOrder(items) {
    return inOrder(items, (item) => this.network.rankOf.get(item) ?? Infinity, (item) => this._name(item));
  }

  /** @param {number} item */
  _name(item) {
    const { nodes } = this.network;
    return item < nodes.length ? nodes[item] : this.units.names[item - nodes.length];
  }

  // Places -------------------------------------------------------------------

  /** Place everything. @returns {Layout} */
  layout() {
    if (this.detail.level === "aggregates") return this._aggregates();
    const alone = isCollapsed(this.detail) && this.open.size === 1 && this.hosts.length > FEW_BESIDE;
    const made = alone ? this._oneInFull() : this._arranged();
    const order = this._inOrder([...made.places.keys()]);
    const boxes = order.map((item) => {
      const [x, y, wide] = /** @type {[number, number, number]} */ (made.places.get(item));
      return this._box(item, x + MARGIN, y + MARGIN, wide);
    });
    const frames = made.frames.map(([name, x, y, w, h]) => ({ name, x: x + MARGIN, y: y + MARGIN, w, h }));
    return this._finished(boxes, order, (node) => this.item[node], frames, made);
  }

  /** An instance in full, large, and beside it the others, row by row, there and back. */
  _oneInFull() {
    const [unit] = this.open;
    const others = this.hosts.filter((host) => host !== unit).flatMap((host) => this._ofUnit(host));
    const rows = rowsOf(others, Math.ceil(Math.sqrt(1.5 * others.length))).map((row, number) => (number % 2 ? row.reverse() : row));
    const beside = stacked(rows);
    const block = this._block(unit);
    this.factor = Math.max(1, Math.min(MOST_ENLARGED, (0.7 * beside.height) / block.height));
    this.enlarged = new Set(block.places.keys());
    const above = this._upper().reverse().flatMap((tier) => rowsOf(tier)).map((row) => [stacked([row])]);
    return shelves([...above, [enlarged(block, this.factor), beside]]);
  }

  /** Instances, and what joins them. */
  _arranged() {
    const blocks = this.hosts.map((unit) => this._block(unit));
    if (this.others.length) return arrange(blocks, this._upper(), this.near);
    return blocks.length === 1 ? shelves([blocks]) : this._withoutSwitches(blocks);
  }

  /** Items of what joins the hosts, by tier and then by name. @returns {ItemRows} */
  _upper() {
    const away = distances(this.near, this.hosts.flatMap((unit) => this._ofUnit(unit)));
    /** @type {Map<number, number[]>} */
    const tiers = new Map();
    for (const item of this.others.flatMap((unit) => this._ofUnit(unit))) {
      const tier = away.get(item) ?? this.near.size;
      tiers.set(tier, [...(tiers.get(tier) ?? []), item]);
    }
    return [...tiers].sort(([a], [b]) => a - b).map(([, items]) => inOrder(items, () => 0, (item) => this._name(item)));
  }

  /** Units joined directly: as the shape that they make. @param {PlacedBlock[]} blocks @returns {Arranged} */
  _withoutSwitches(blocks) {
    const place = new Map(this.hosts.flatMap((unit, k) => this._ofUnit(unit).map((item) => /** @type {[number, number]} */ ([item, k]))));
    const joined = blocks.map((block, k) => {
      const found = [...block.places.keys()].flatMap((item) => [...(this.joined.get(item) ?? [])].map((other) => place.get(other)));
      return new Set(/** @type {number[]} */ (found.filter((other) => other !== undefined && other !== k)));
    });
    const shape = shapeOf(joined);
    if (blocks.every(({ places }) => places.size === 1)) {
      const block = byShape(blocks.flatMap(({ places }) => [...places.keys()]), shape);
      this._recordShape(block);
      return shelves([[block]]);
    }
    if (titleOf(shape)) this.shapes.push(titleOf(shape));
    const order = shape.order.map((k) => blocks[k]);
    const columns = shape.kind === "grid" ? shape.columns : shape.kind === "ring" ? Math.ceil(order.length / 2) : Math.ceil(Math.sqrt(order.length));
    return shelves(chunks(order, columns).map((row, number) => (shape.kind === "ring" && number ? row.reverse() : row)));
  }

  /** @param {number} unit */
  _block(unit) {
    const items = this._ofUnit(unit);
    if (items.length === 1) return stacked([items]);
    const block = this._inner(items);
    this._recordShape(block);
    const alone = this.hosts.length === 1 && !this.others.length;
    return alone ? block : framed(block, this.units.names[unit]);
  }

  /** @param {PlacedBlock} block */
  _recordShape({ bent, shape }) {
    for (const [pair, side] of bent) this.bent.set(pair, side);
    if (shape && !this.shapes.includes(shape)) this.shapes.push(shape);
  }

  /** An opened unit: what leads outside on top, then GPUs, with what joins them among them. @param {number[]} items */
  _inner(items) {
    const { rankOf } = this.network;
    const mine = new Set(items);
    const near = new Map(items.map((item) => [item, new Set([...this._near(item)].filter((other) => mine.has(other)))]));
    const ranked = items.filter((item) => rankOf.has(item));
    const gpus = ranked.length ? ranked : items;
    const others = ranked.length ? items.filter((item) => !rankOf.has(item)) : [];
    const fromGpu = distances(near, gpus);
    const doors = others.filter((item) => [...this._near(item)].some((other) => !mine.has(other)));
    const toDoor = distances(near, doors);
    /** @param {number} item */
    const awayOf = (item) => fromGpu.get(item) ?? 2 ** 30;
    const least = doors.length ? Math.min(...doors.map(awayOf)) : 0;
    const [outward, inward] = /** @type {Map<number, number[]>[]} */ ([new Map(), new Map()]);
    for (const item of others) {
      const [away, further] = [awayOf(item), toDoor.get(item)];
      const tiers = doors.includes(item) || (further !== undefined && away + further <= least) ? outward : inward;
      tiers.set(away, [...(tiers.get(away) ?? []), item]);
    }
    const leads = [...outward].sort(([a], [b]) => b - a).flatMap(([, tier]) => rowsOf(tier));
    const lead = stacked(leads, LOW_ROW);
    const middle = [...inward].sort(([a], [b]) => a - b).flatMap(([, tier]) => rowsOf(tier));
    const [switches = []] = inward.values();
    if (inward.size === 1 && this._joinsAll(switches, gpus)) {
      const most = this.hosts.length <= WIDE_HOSTS || this.focus ? 8 : 4;
      let made = below(railed(gpus, switches, { under: lead.places.size > 0, most }), lead);
      if (gpus.length <= most) for (const row of leads.reverse()) made = aligned(made, row, near);
      return made;
    }
    const place = new Map(gpus.map((gpu, k) => [gpu, k]));
    if (middle.length || !gpus.some((gpu) => [...(near.get(gpu) ?? [])].some((other) => place.has(other)))) {
      return below(stacked(between(gpus, middle)), lead);
    }
    const direct = gpus.map((gpu) => new Set(/** @type {number[]} */ ([...(this.joined.get(gpu) ?? [])].map((other) => place.get(other)).filter((k) => k !== undefined))));
    return below(byShape(gpus, gpus.length > 1 ? shapeOf(direct) : shapeless(1)), lead);
  }

  /** Whether each of a few switches is joined with all of some boxes, and none with another one. @param {number[]} switches @param {number[]} boxes */
  _joinsAll(switches, boxes) {
    if (switches.length > MOST_RAILS) return false;
    return switches.every((one) => boxes.every((box) => this._near(one).has(box)) && !switches.some((other) => this._near(one).has(other)));
  }

  // Results ------------------------------------------------------------------

  /** @param {number} item @param {number} x @param {number} y @param {number} w @returns {Box} */
  _box(item, x, y, w) {
    const { nodes, kindOf, rankOf } = this.network;
    const { units } = this;
    const name = this._name(item);
    if (item >= nodes.length) {
      const unit = item - nodes.length;
      const [rank, last] = units.ranks[unit];
      return { name, label: name, kind: "instance", x, y, w, h: heightOf(w, units.gpus[unit] > 0), rank, last, count: units.gpus[unit] || 1 };
    }
    const factor = this.enlarged.has(item) ? this.factor : 1;
    const rank = rankOf.get(item) ?? -1;
    const label = rank >= 0 ? `GPU${rank}` : name.split(".").slice(-2).join(".");
    return { name, label, kind: kindOf(item), x, y, w, h: factor * heightOf(w / factor, rank >= 0), rank, last: rank, count: 1 };
  }

  /** One band a tier, the furthest on top; hosts below all. @returns {Layout} */
  _aggregates() {
    const bands = [...this._upper().reverse(), this.hosts.flatMap((unit) => this._ofUnit(unit))];
    /** @param {number} item */
    const kindOf = (item) => this._name(item).split(".")[0].split("[")[0];
    const classes = bands.flatMap((band) => {
      /** @type {Map<string, number[]>} */
      const byKind = new Map();
      for (const item of band) byKind.set(kindOf(item), [...(byKind.get(kindOf(item)) ?? []), item]);
      return [...byKind.values()];
    });
    /** @type {Map<number, number>} */
    const tierOf = new Map();
    let top = 0;
    const boxes = classes.map((items, tier) => {
      for (const item of items) tierOf.set(item, tier);
      const h = BAND_HEIGHT + BAND_TILES * Math.sqrt(items.length);
      const y = MARGIN + top + h / 2;
      top += h + BAND_GAP;
      const { rank } = this._box(items[0], 0, 0, WIDTH);
      const [kind, label] = [kindOf(items[0]), `${commas(items.length)} x ${kindOf(items[0])}`];
      return { name: `tier ${tier}: ${kind}`, label, kind: "tier", x: MARGIN + BAND_WIDTH / 2, y, w: BAND_WIDTH, h, rank, last: -1, count: items.length };
    });
    const tiles = classes.map((items) => items.map((item) => this._name(item)));
    const order = classes.map((_, tier) => tier);
    /** @param {number} node */
    const itemOf = (node) => (this.units.of[node] >= 0 ? (tierOf.get(this.item[node]) ?? 0) : 0);
    return { ...this._finished(boxes, order, itemOf, [], arranged(BAND_WIDTH, top - BAND_GAP)), tiles };
  }

  /**
   * Gather links by the boxes at their ends, in the order of the first lane of each bundle.
   * @param {Box[]} boxes
   * @param {number[]} order the item of each box
   * @param {(node: number) => number} itemOf the item of a node
   * @param {Layout["frames"]} frames
   * @param {Arranged} made
   * @returns {Layout}
   */
  _finished(boxes, order, itemOf, frames, made) {
    const { src, dst } = this.network;
    const place = new Map(order.map((item, number) => [item, number]));
    /** @param {number} node */
    const boxOf = (node) => place.get(itemOf(node)) ?? 0;
    /** @type {Map<number, Bundle>} */
    const groups = new Map();
    for (const link of this.used) {
      const [from, to] = [boxOf(src[link]), boxOf(dst[link])];
      const group = groups.get(from * boxes.length + to);
      if (group) group[2].push(link);
      else groups.set(from * boxes.length + to, [from, to, [link]]);
    }
    /** @type {number[][]} */
    const inside = boxes.map(() => []);
    const bundles = [...groups.values()].filter(([from, to, lanes]) => {
      if (from === to) inside[from] = lanes;
      return from !== to;
    });
    return {
      boxes, bundles, width: made.width + 2 * MARGIN, height: made.height + 2 * MARGIN, hidden: this.hidden, frames, inside,
      bent: bundles.map(([from, to]) => this.bent.get(`${order[from]} ${order[to]}`) ?? ""), ports: portsOf(boxes, bundles),
      shapes: this.shapes, detail: this.detail, tiles: [], focus: this.focus, units: this.units,
    };
  }
}

/** @param {number} width @param {boolean} gpus whether there are any in it */
const heightOf = (width, gpus) => (width > WIDTH ? RAIL_HEIGHT : gpus ? HEIGHT : SWITCH_HEIGHT);

/**
 * Where links to rails leave each box: side by side, one place for each rail above it, and below.
 * @param {Box[]} boxes
 * @param {Bundle[]} bundles
 */
function portsOf(boxes, bundles) {
  /** @type {Map<string, { box: number, under: boolean, rails: Set<number> }>} by box and whether they are below it */
  const found = new Map();
  for (const [a, b] of bundles) {
    for (const [box, rail] of [[a, b], [b, a]]) {
      if (!isRail(boxes[rail]) || isRail(boxes[box])) continue;
      const under = boxes[rail].y > boxes[box].y;
      const group = found.get(`${box} ${under}`) ?? { box, under, rails: new Set() };
      found.set(`${box} ${under}`, group);
      group.rails.add(rail);
    }
  }
  /** @type {Map<string, number>} */
  const place = new Map();
  for (const { box, under, rails } of found.values()) {
    const one = boxes[box];
    const order = distinct(rails).sort((a, b) => boxes[a].y - boxes[b].y);
    const nearest = boxes[order[under ? 0 : order.length - 1]].y;
    const [low, high] = [Math.min(one.y, nearest), Math.max(one.y, nearest)];
    const isBetween = boxes.some((other) => !isRail(other) && low < other.y && other.y < high && Math.abs(other.x - one.x) < WIDTH);
    order.forEach((rail, number) => {
      const share = ((number + 1) / (order.length + 1) - 0.5) * (isBetween ? BETWEEN : 1);
      place.set(`${box} ${rail}`, share).set(`${rail} ${box}`, share);
    });
  }
  return bundles.map(([a, b]) => place.get(`${a} ${b}`) ?? null);
}

/** GPUs in rows, half of them above what joins them and half below. @param {number[]} gpus @param {ItemRows} middle @returns {ItemRows} */
function between(gpus, middle) {
  if (gpus.length <= 4) return [gpus, ...middle];
  const rows = rowsOf(gpus, gpus.length > 32 ? 16 : Math.ceil(gpus.length / 2));
  const half = Math.floor(rows.length / 2);
  return [...rows.slice(0, half), ...middle, ...rows.slice(half)];
}

/**
 * Place the GPUs and whatever lies on the routes between them.
 * @param {DrawnNetwork} network
 * @param {number[]} links those on the program's routes, in ascending order
 * @param {{ opened?: string[], focus?: string }} [look] instances to show in full where there are too many to show all so, and one to show alone
 * @returns {Layout}
 */
export function layOut(network, links, { opened = [], focus = "" } = {}) {
  const { src, dst, gpus } = network;
  /** @param {number[]} some */
  const endsOf = (some) => some.flatMap((link) => [src[link], dst[link]]);
  const detail = detailOf(gpus.length);
  const nodes = distinct([...gpus, ...endsOf(links)]);
  const hidden = network.nodes.length - nodes.length;
  const units = unitsOf(network, nodes, isCollapsed(detail));
  const alone = units.names.indexOf(focus);
  if (alone >= 0) {
    const used = links.filter((link) => units.of[src[link]] === alone || units.of[dst[link]] === alone);
    const shown = distinct([...nodes.filter((node) => units.of[node] === alone), ...endsOf(used)]);
    return new LaidOut(network, used, shown, units, detailOf(1), new Set([focus]), focus, hidden).layout();
  }
  const few = detail.level === "aggregates" && units.names.length <= FEW_UNITS;
  return new LaidOut(network, links, nodes, units, few ? { ...detail, level: "collapsed" } : detail, new Set(opened), "", hidden).layout();
}
