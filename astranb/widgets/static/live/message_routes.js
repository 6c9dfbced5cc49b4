// @ts-check
// Routes of whole messages over an infrastructure, and the links that they use: counterpart of net/message_routes.py,
// which says what forms one link and one route.

import { createNet } from "./routes.js";

/** @import { Bundle, Lanes, NextHops } from "./routes.js" */
/** A directed edge between nodes, as source * nodes + target. @typedef {number} Edge */
/** Edges that are crossed together, in ascending order; equal ones are one object. @typedef {{ edges: Edge[] }} Stage */
/** By pair (source * ranks + target) what it is spread over. @typedef {Map<number, Stage[]>} Spread */
/** By pair its routes, each on its own. @typedef {Map<number, Stage[][]>} Single */
/** Of each rank the links that are its ports, with their numbers. @typedef {Map<number, Map<number, number>>} Ports */
/**
 * Lanes of an infrastructure: `homes` are the instances of nodes, -1 where they have no GPU; `failed`: links are missing from the start.
 * @typedef {{ lanes: Lanes & { gap_ps: ArrayLike<number> }, gpus: number[], nodes: number, homes: ArrayLike<number>, failed: boolean }} RoutedNetwork
 */
/**
 * Links and routes: as the class of the same name in Python.
 * @typedef {{ routes: Record<string, number>[], hops: number[], wires: Record<string, number>[], lanes: number[][], sends: Ports, receives: Ports }} MessageRoutes
 */

const MOST_ROUTES = 16; // equal-cost routes in use where a message takes one of them

/** One search for routes. */
class Search {
  /** @param {RoutedNetwork} network @param {ReadonlySet<number>} closed lanes that carry nothing */
  constructor(network, closed) {
    this.network = network;
    this.closed = closed;
    this._net = createNet(network.lanes, network.gpus, closed);
    this._bundles = new Map(this._net.bundles.map((bundle) => [this._edge(bundle.source, bundle.target), bundle]));
    /** @type {Map<string, Stage>} */
    this._stages = new Map();
  }

  /** @param {number} source @param {number} target @returns {Edge} */
  _edge(source, target) {
    return source * this.network.nodes + target;
  }

  /** @param {Iterable<Edge>} edges */
  _stage(edges) {
    const sorted = [...new Set(edges)].sort((a, b) => a - b);
    const key = String(sorted);
    const known = this._stages.get(key) ?? { edges: sorted };
    this._stages.set(key, known);
    return known;
  }

  /** The lanes of an edge. @param {Edge} edge */
  lanesOf(edge) {
    return /** @type {Bundle} */ (this._bundles.get(edge)).lanes;
  }

  /** What pairs are spread over, the routes of those that are not, and the cost of each. @param {number[]} pairs @param {typeof this._net} [net] */
  found(pairs, net = this._net) {
    const { gpus, homes } = this.network;
    const ranks = gpus.length;
    /** @type {Spread} */
    const spread = new Map();
    /** @type {Single} */
    const single = new Map();
    /** @type {Map<number, number>} */
    const cost = new Map();
    /** @type {[hops: NextHops | null, layersFrom: (start: number) => Stage[] | null]} of one target */
    let [of, layersFrom] = [null, () => null];
    for (const [pair, hops] of net.nextHops(pairs, homes)) {
      const [start, end] = [gpus[Math.floor(pair / ranks)], gpus[pair % ranks]];
      cost.set(pair, /** @type {number} */ (hops.cost.get(start)));
      if (of !== hops) [of, layersFrom] = [hops, this._toOne(hops, end)];
      const layers = layersFrom(start);
      if (layers) spread.set(pair, layers);
      else single.set(pair, this._single((node) => hops.after(node).map(({ target }) => target), start, end));
    }
    return { spread, single, cost };
  }

  /**
   * The edges of all routes from a node to one target, hop by hop; null if their lengths differ. Common ends of routes are
   * found once.
   * @param {NextHops} hops
   * @param {number} end
   */
  _toOne({ cost, after }, end) {
    /** @type {Map<string, Stage[] | null>} */
    const behind = new Map([[String(end), []]]);
    /** @param {number} node */
    const costOf = (node) => /** @type {number} */ (cost.get(node));
    /** @param {number[]} nodes */
    const edgesFrom = (nodes) => nodes.flatMap((node) => after(node).map(({ target }) => this._edge(node, target)));
    /** @param {Edge[]} edges */
    const targetsOf = (edges) => [...new Set(edges.map((edge) => edge % this.network.nodes))].sort((a, b) => a - b);
    /** Where a node may occur again. @param {number} start @returns {Stage[] | null} */
    const layersFrom = (start) => {
      const depth = new Map([[start, 0]]);
      const layers = [];
      let frontier = [start];
      while (String(frontier) !== String(end)) {
        const edges = edgesFrom(frontier);
        layers.push(this._stage(edges));
        frontier = targetsOf(edges);
        for (const node of frontier) {
          if ((depth.get(node) ?? layers.length) !== layers.length) return null;
          depth.set(node, layers.length);
        }
        if (frontier.includes(end) && frontier.length > 1) return null;
      }
      return layers;
    };
    /** @param {number} start @returns {Stage[] | null} */
    return (start) => {
      /** @type {[key: string, stage: Stage][]} */
      const chain = [];
      let frontier = [start];
      while (!behind.has(String(frontier))) {
        const edges = edgesFrom(frontier);
        const following = targetsOf(edges);
        if (following.includes(end) && following.length > 1) {
          behind.set(String(frontier), null);
          break;
        }
        if (Math.min(...frontier.map(costOf)) <= Math.max(...following.map(costOf))) return layersFrom(start);
        chain.push([String(frontier), this._stage(edges)]);
        frontier = following;
      }
      let tail = behind.get(String(frontier)) ?? null;
      for (const [key, stage] of chain.reverse()) {
        tail = tail && [stage, ...tail];
        behind.set(key, tail);
      }
      return tail;
    };
  }

  /** Some of the routes, each on its own. @param {(node: number) => number[]} steps @param {number} start @param {number} end */
  _single(steps, start, end) {
    /** @type {Stage[][]} */
    const found = [];
    for (const route of this._walk(steps, start, end)) {
      found.push(route);
      if (found.length === MOST_ROUTES) break;
    }
    return found;
  }

  /** Every route, in a fixed order. @param {(node: number) => number[]} steps @param {number} node @param {number} end @returns {Iterable<Stage[]>} */
  * _walk(steps, node, end) {
    for (const to of steps(node)) {
      const first = this._stage([this._edge(node, to)]);
      for (const tail of to === end ? [[]] : this._walk(steps, to, end)) yield [first, ...tail];
    }
  }

  /** The routes of a pair that is spread, each on its own. @param {Stage[]} layers @param {number} pair */
  apart(layers, pair) {
    const { gpus, nodes } = this.network;
    const edges = [...new Set(layers.flatMap((stage) => stage.edges))].sort((a, b) => this.lanesOf(a)[0] - this.lanesOf(b)[0]);
    /** @type {Map<number, number[]>} */
    const steps = new Map();
    for (const edge of edges) steps.set(Math.floor(edge / nodes), [...(steps.get(Math.floor(edge / nodes)) ?? []), edge % nodes]);
    return this._single((node) => steps.get(node) ?? [], gpus[Math.floor(pair / gpus.length)], gpus[pair % gpus.length]);
  }

  /**
   * Leave out planes that a failure has left to some pairs only, where all have other routes as short.
   * @param {Spread} spread
   * @param {Single} single
   * @param {Map<number, number>} cost
   */
  narrowed(spread, single, cost) {
    const pairs = [...cost.keys()].sort((a, b) => a - b);
    let [now, closed] = [{ spread, single }, this.closed];
    for (;;) {
      const uneven = [...overlaps(now.spread, now.single)].flatMap(([one, other]) => difference(one.edges, other.edges));
      if (!uneven.length) return now;
      closed = new Set([...closed, ...uneven.flatMap((edge) => this.lanesOf(edge))]);
      const found = this.found(pairs, createNet(this.network.lanes, this.network.gpus, closed));
      if (found.cost.size !== cost.size || pairs.some((pair) => found.cost.get(pair) !== cost.get(pair))) return { spread, single };
      now = found;
    }
  }
}

/** What is in one list only. @param {number[]} a @param {number[]} b */
const difference = (a, b) => [...a.filter((one) => !b.includes(one)), ...b.filter((one) => !a.includes(one))];

/** Pairs of different sets of edges that have an edge in common. @param {Spread} spread @param {Single} single @returns {Iterable<[Stage, Stage]>} */
function* overlaps(spread, single) {
  const used = new Set([...[...spread.values()].flat(), ...[...single.values()].flat(2)]);
  /** @type {Map<Edge, Stage>} */
  const owner = new Map();
  for (const stage of used) {
    for (const edge of stage.edges) {
      const other = owner.get(edge);
      if (other === undefined) owner.set(edge, stage);
      else if (other !== stage) yield [stage, other];
    }
  }
}

/**
 * The routes of pairs of ranks.
 * @param {RoutedNetwork} network
 * @param {ReadonlySet<number>} closed lanes that are down
 * @param {number[]} pairs source * ranks + target, each once, in ascending order
 * @param {MessageRoutes | null} [known] of the same network when other lanes were closed: links and ports of the same lanes keep their
 *   numbers, new hops and wires come behind those known
 * @returns {MessageRoutes}
 */
export function messageRoutes(network, closed, pairs, known = null) {
  const search = new Search(network, closed);
  const { cost, ...found } = search.found(pairs);
  const { spread, single } = closed.size || network.failed ? search.narrowed(found.spread, found.single, cost) : found;
  for (;;) {
    const conflicting = new Set([...overlaps(spread, single)].flat());
    const conflicts = [...spread].filter(([, layers]) => layers.some((stage) => stage.edges.length > 1 && conflicting.has(stage)));
    if (!conflicts.length) break;
    for (const [pair, layers] of conflicts) {
      spread.delete(pair);
      single.set(pair, search.apart(layers, pair));
    }
  }
  /** @type {[pair: number, routes: Stage[][]][]} */
  const chosen = [...[...spread].map(([pair, layers]) => /** @type {[number, Stage[][]]} */ ([pair, [layers]])), ...single];
  return tablesOf(search, chosen.sort(([a], [b]) => a - b), known);
}

/** Number the links and make the tables. @param {Search} search @param {[pair: number, routes: Stage[][]][]} chosen @param {MessageRoutes | null} known @returns {MessageRoutes} */
function tablesOf(search, chosen, known) {
  const { gpus, lanes: { bandwidth_Bps, latency_ps, forward_ps, gap_ps } } = search.network;
  const own = [...(known?.lanes ?? [])];
  const ofLanes = new Map(own.map((lanes, number) => [String(lanes), number]));
  /** @type {Map<Stage, number>} */
  const numbers = new Map();
  for (const stage of chosen.flatMap(([, routes]) => routes.flat())) {
    if (numbers.has(stage)) continue;
    const lanes = stage.edges.flatMap((edge) => search.lanesOf(edge));
    const number = ofLanes.get(String(lanes)) ?? own.length;
    ofLanes.set(String(lanes), number);
    numbers.set(stage, number);
    if (number === own.length) own.push(lanes);
  }
  const wires = own.map((lanes) => ({
    rate_Bpns: lanes.reduce((sum, lane) => sum + bandwidth_Bps[lane], 0) / 1e9,
    latency_ns: Math.max(...lanes.map((lane) => latency_ps[lane] + forward_ps[lane])) / 1000,
    gap_ns: together(lanes.map((lane) => gap_ps[lane])), // parallel NICs send at the sum of their packet rates
  }));
  const hops = [...(known?.hops ?? [])];
  const sends = createPorts(own, known?.sends);
  const receives = createPorts(own, known?.receives);
  const routes = chosen.flatMap(([key, found]) => found.map((route, k) => {
    const numbered = route.map((stage) => /** @type {number} */ (numbers.get(stage)));
    const rates = numbered.map((number) => wires[number].rate_Bpns);
    const rate_Bpns = Math.min(...rates);
    const [narrow, lastNarrow] = [rates.indexOf(rate_Bpns), rates.lastIndexOf(rate_Bpns)];
    const first_hop = hops.length;
    hops.push(...numbered);
    const [out, out_narrow] = sends.two(Math.floor(key / gpus.length), numbered[0], numbered[narrow]);
    const [into, into_narrow] = receives.two(key % gpus.length, numbered[numbered.length - 1], numbered[lastNarrow]);
    return {
      key, count: found.length - k, first_hop, hops: numbered.length, rate_Bpns, out, out_narrow, into, into_narrow,
      latency_ns: numbered.reduce((sum, number) => sum + wires[number].latency_ns, 0),
      gap_ns: Math.max(...numbered.map((number) => wires[number].gap_ns)), narrow_hop: first_hop + narrow, last_narrow_hop: first_hop + lastNarrow,
    };
  }));
  return { routes, hops, wires, lanes: own, sends: sends.numbers, receives: receives.numbers };
}

/**
 * Numbers of links that are ports of their ranks, in the order in which they are asked for. A link that has some of the
 * lanes of a known one is the same port.
 * @param {number[][]} lanes
 * @param {Ports} [known]
 */
function createPorts(lanes, known = new Map()) {
  /** @type {Ports} */
  const numbers = new Map([...known].map(([rank, mine]) => [rank, new Map(mine)]));
  /** @param {Map<number, number>} mine @param {number} link @returns {number} */
  function numberOf(mine, link) {
    const port = mine.get(link);
    if (port !== undefined) return port;
    const own = new Set(lanes[link]);
    const same = [...mine].find(([other]) => lanes[other].some((lane) => own.has(lane)));
    const number = same ? same[1] : Math.max(-1, ...mine.values()) + 1;
    mine.set(link, number);
    return number;
  }
  return {
    numbers,
    /** The ports of a route's end and of its narrowest link; -1 where that is the same. @param {number} rank @param {number} end @param {number} narrow @returns {[number, number]} */
    two(rank, end, narrow) {
      const mine = numbers.get(rank) ?? new Map();
      numbers.set(rank, mine);
      const port = numberOf(mine, end);
      return [port, narrow === end ? -1 : numberOf(mine, narrow)];
    },
  };
}

/** The least time between packets of parallel NICs, in ns; 0 for no limit. @param {number[]} gap_ps */
function together(gap_ps) {
  if (gap_ps.includes(0)) return 0;
  if (new Set(gap_ps).size === 1) return gap_ps[0] / gap_ps.length / 1000;
  return 1 / gap_ps.reduce((sum, one) => sum + 1000 / one, 0);
}
