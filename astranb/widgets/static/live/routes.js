// @ts-check
// All routes of least cost between ranks: counterpart of net/nearest.py and of the routes of net/fabric.py.

import { InputError } from "./errors.js";
import { repr } from "./text.js";

const PROBE_BYTES = 4096; // among routes of equal length the fastest for one message of this size wins
const THROUGH_GPU_PS = 1e9; // what passing through a GPU costs besides: used only without another route
const MOST_NAMED = 4;

/** @import { Table } from "./types" */

/** Parallel lanes from one node to the next, and what they cost. @typedef {{ source: number, target: number, price: number, lanes: number[] }} Bundle */
/**
 * What there is beside the table of links. `cut_off`: ranks that links which are down separate from most others.
 * @typedef {{ title: string, gpus: number[], nodes: string[], failed: string[], cut_off: number[] }} Names
 */
/**
 * The routes of pairs of ranks, each with the links from `first[route]` to `first[route + 1]`.
 * @typedef {{ links: number[], first: number[], of: Map<number, [first: number, count: number]>, through: boolean }} Routes
 */

/** The lanes of a fabric as routes are found over them: at the start of a run, without those on chips.
 * @typedef {{ src: ArrayLike<number>, dst: ArrayLike<number>, bandwidth_Bps: ArrayLike<number>, latency_ps: ArrayLike<number>, forward_ps: ArrayLike<number> }} Lanes */

/**
 * The lanes of a machine at the start of a run.
 * @param {Table} links @param {number} count of those between devices
 * @param {{ proxy_ps: number, proxied: number[] }} proxies what proxy threads add to which latencies: no route depends on it
 * @returns {Lanes}
 */
export function lanesOf(links, count, { proxy_ps, proxied }) {
  const [src, dst, bandwidth_Bps, latency_ps, forward_ps] = ["src", "dst", "bandwidth_Bps", "latency_ps", "forward_ps"].map((name) =>
    Float64Array.from({ length: count }, (_, link) => links.at[name](link)),
  );
  for (const link of proxied) latency_ps[link] -= proxy_ps;
  return { src, dst, bandwidth_Bps, latency_ps, forward_ps };
}

/**
 * What joins nodes, and how much it costs to go over it.
 * @param {Lanes} lanes
 * @param {number[]} gpus the node of each rank
 * @param {ReadonlySet<number>} [closed] lanes that routes avoid, because they are down
 */
export function createNet(lanes, gpus, closed = new Set()) {
  const bundles = bundlesOf(lanes, closed);
  const ranked = new Set(gpus);
  const out = grouped(bundles, "source");
  const into = grouped(withoutDeadEnds(bundles, ranked), "target");
  for (const found of into.values()) found.sort((a, b) => a.source - b.source || a.price - b.price);

  /**
   * All routes of least cost between ranks.
   * @param {number[]} pairs source * ranks + target, each once, in ascending order
   * @param {(source: number, target: number) => void} without called with ranks that have none
   * @returns {Routes}
   */
  function routes(pairs, without) {
    const ranks = gpus.length;
    /** @type {Routes} */
    const found = { links: [], first: [0], of: new Map(), through: false };
    for (const [target, wanted] of byTarget(pairs, ranks)) {
      const end = gpus[target];
      const cost = costsTo(into, end, wanted.map((source) => gpus[source]), ranked);
      const list = lister(out, cost, end, ranked);
      for (const source of wanted) {
        const whole = cost.get(gpus[source]);
        if (whole === undefined) {
          without(source, target);
          continue;
        }
        found.through ||= whole >= THROUGH_GPU_PS;
        const own = list(gpus[source]);
        found.of.set(source * ranks + target, [found.first.length - 1, own.length]);
        for (const route of own) {
          found.links.push(...route);
          found.first.push(found.links.length);
        }
      }
    }
    return found;
  }

  /**
   * All routes of least cost from a node, as a switch, to a rank; none where there is no way.
   * @param {number} node @param {number} target @param {ReadonlySet<number>} [seen]
   * @returns {number[][]}
   */
  function routesFrom(node, target, seen = new Set()) {
    const end = gpus[target];
    if (node === end) return [];
    const cost = costsTo(into, end, [node], ranked);
    if (cost.has(node)) return lister(out, cost, end, ranked)(node);
    // A node with one link left is a dead end of other routes.
    const away = (out.get(node) ?? []).find(({ target: to }) => !seen.has(to));
    if (!away) return [];
    const onward = away.target === end ? [[]] : routesFrom(away.target, target, new Set([...seen, node]));
    return away.lanes.flatMap((lane) => onward.map((rest) => [lane, ...rest]));
  }

  /**
   * The nodes on all routes of least cost of pairs of ranks; pairs without a route are left out.
   * @param {number[]} pairs source * ranks + target, each once, in ascending order
   * @param {ArrayLike<number>} homes the instance of each node; -1 where it has no GPU
   * @returns {Iterable<[pair: number, hops: NextHops]>} the same object for all pairs with the same target
   */
  function* nextHops(pairs, homes) {
    const ranks = gpus.length;
    for (const [target, sources] of byTarget(pairs, ranks)) {
      const end = gpus[target];
      const starts = sources.map((source) => gpus[source]);
      // Search through other servers only if there is no other route: this is faster.
      const around = new Set([end, ...starts].map((node) => homes[node]));
      let cost = costsTo(into, end, starts, ranked, (node) => homes[node] >= 0 && !around.has(homes[node]));
      if (!starts.every((start) => cost.has(start))) cost = costsTo(into, end, starts, ranked);
      const hops = { cost, after: onwardOf(out, cost, end, ranked) };
      for (const source of sources) if (cost.has(gpus[source])) yield [source * ranks + target, hops];
    }
  }

  return { bundles, routes, routesFrom, nextHops };
}
/** The cost of nodes to a target, and the bundles out of a node on routes of least cost, in the order of the fabric.
 * @typedef {{ cost: Map<number, number>, after: (node: number) => Bundle[] }} NextHops */

/** The sources of each target. @param {number[]} pairs in ascending order @param {number} ranks */
export function byTarget(pairs, ranks) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (const pair of pairs) {
    const target = pair % ranks;
    const sources = found.get(target);
    if (sources) sources.push(Math.floor(pair / ranks));
    else found.set(target, [Math.floor(pair / ranks)]);
  }
  return found;
}

/** The error where there is none. @param {number} source @param {number} target @param {Names} names */
export function noRoute(source, target, { title, gpus, nodes, failed, cut_off }) {
  const where = `infrastructure ${repr(title)}`;
  /** @param {string[]} listed */
  const some = (listed) => listed.slice(0, MOST_NAMED).join(", ") + (listed.length > MOST_NAMED ? ` and ${listed.length - MOST_NAMED} more` : "");
  if (cut_off.length) {
    const ranks = some(cut_off.map((rank) => `${rank} (${nodes[gpus[rank]]})`));
    const what = `no route to rank${cut_off.length > 1 ? "s" : ""} ${ranks}: down: ${some(failed)}`;
    return new InputError(what, { where, hint: "leave these ranks out, or bring one of the links up" });
  }
  const what = `there is no route from ${nodes[gpus[source]]} (rank ${source}) to ${nodes[gpus[target]]} (rank ${target})`;
  return new InputError(what, { where, hint: "add an edge or a switch that joins them" });
}

/** In the order of their first lanes. @param {Lanes} lanes @param {ReadonlySet<number>} closed @returns {Bundle[]} */
function bundlesOf({ src, dst, bandwidth_Bps, latency_ps, forward_ps }, closed) {
  /** @type {Map<string, Bundle>} */
  const found = new Map();
  for (let link = 0; link < src.length; link += 1) {
    if (closed.has(link)) continue;
    const [source, target] = [src[link], dst[link]];
    const known = found.get(`${source} ${target}`);
    if (known) {
      known.lanes.push(link);
      continue;
    }
    const rate = bandwidth_Bps[link];
    const wire_ps = Math.floor((PROBE_BYTES * 1e12 + rate - 1) / rate);
    found.set(`${source} ${target}`, { source, target, price: wire_ps + latency_ps[link] + forward_ps[link], lanes: [link] });
  }
  return [...found.values()];
}

/** @param {Bundle[]} bundles @param {"source" | "target"} end */
function grouped(bundles, end) {
  /** @type {Map<number, Bundle[]>} */
  const found = new Map();
  for (const bundle of bundles) {
    const those = found.get(bundle[end]);
    if (those) those.push(bundle);
    else found.set(bundle[end], [bundle]);
  }
  return found;
}

/** Without nodes that lead nowhere else and are no GPUs. @param {Bundle[]} bundles @param {Set<number>} ranked */
function withoutDeadEnds(bundles, ranked) {
  /** @type {Map<number, Set<number>>} */
  const neighbours = new Map();
  for (const { source, target } of bundles) neighbours.set(source, (neighbours.get(source) ?? new Set()).add(target));
  const ends = [...neighbours].filter(([node, others]) => others.size < 2 && !ranked.has(node)).map(([node]) => node);
  for (const node of ends) { // grows while it is walked
    const others = neighbours.get(node) ?? new Set();
    neighbours.delete(node);
    for (const other of others) {
      neighbours.get(other)?.delete(node);
      if (neighbours.get(other)?.size === 1 && !ranked.has(other)) ends.push(other);
    }
  }
  return bundles.filter(({ source, target }) => neighbours.has(source) && neighbours.has(target));
}

/**
 * The cost of nodes to a target, as far as some of them are away (Dijkstra's algorithm, backwards).
 * @param {Map<number, Bundle[]>} into @param {number} target @param {number[]} wanted nodes @param {Set<number>} ranked
 * @param {(node: number) => boolean} [isClosed] whether a node is not entered
 */
function costsTo(into, target, wanted, ranked, isClosed = () => false) {
  /** @type {Map<number, number>} */
  const cost = new Map();
  const left = new Set(wanted);
  /** @type {[cost: number, node: number][]} a binary heap; a node is in it once for each link into it */
  const heap = [[0, target]];
  while (heap.length && left.size) {
    const [own, node] = pop(heap);
    if (cost.has(node)) continue;
    cost.set(node, own);
    left.delete(node);
    const far = own + (ranked.has(node) && node !== target ? THROUGH_GPU_PS : 0);
    for (const { source, price } of into.get(node) ?? []) if (!cost.has(source) && !isClosed(source)) push(heap, [far + price, source]);
  }
  return cost;
}

/** @param {[number, number][]} heap @param {[number, number]} entry */
function push(heap, entry) {
  let place = heap.push(entry) - 1;
  for (let parent = (place - 1) >> 1; place > 0 && heap[parent][0] > entry[0]; parent = (place - 1) >> 1) {
    heap[place] = heap[parent];
    place = parent;
  }
  heap[place] = entry;
}

/** @param {[number, number][]} heap @returns {[number, number]} */
function pop(heap) {
  const first = heap[0];
  const last = /** @type {[number, number]} */ (heap.pop());
  if (!heap.length) return first;
  let place = 0;
  for (let child = 1; child < heap.length; child = 2 * place + 1) {
    if (child + 1 < heap.length && heap[child + 1][0] < heap[child][0]) child += 1;
    if (heap[child][0] >= last[0]) break;
    heap[place] = heap[child];
    place = child;
  }
  heap[place] = last;
  return first;
}

/**
 * Gives the bundles out of a node by which routes of least cost leave it.
 * @param {Map<number, Bundle[]>} out @param {Map<number, number>} cost @param {number} target @param {Set<number>} ranked
 * @returns {(node: number) => Bundle[]}
 */
const onwardOf = (out, cost, target, ranked) => (node) => (out.get(node) ?? []).filter((bundle) => {
  const behind = cost.get(bundle.target);
  if (behind === undefined) return false;
  const toll = ranked.has(bundle.target) && bundle.target !== target ? THROUGH_GPU_PS : 0;
  return behind + bundle.price + toll === cost.get(node);
});

/**
 * Lists the routes of a node to a target. A route keeps its lane number if the next bundle has it, and wraps around if
 * it has fewer lanes, so that parallel routes do not multiply with every hop.
 * @param {Map<number, Bundle[]>} out @param {Map<number, number>} cost @param {number} target @param {Set<number>} ranked
 */
function lister(out, cost, target, ranked) {
  /** @type {Map<number, number>} */
  const counts = new Map([[target, 1]]);
  const onward = onwardOf(out, cost, target, ranked);
  /** @param {number} node @returns {number} */
  function countOf(node) {
    const known = counts.get(node);
    if (known !== undefined) return known;
    const count = onward(node).reduce((sum, bundle) => sum + Math.max(countOf(bundle.target), bundle.lanes.length), 0);
    counts.set(node, count);
    return count;
  }
  /** @param {number} from */
  return function list(from) {
    return Array.from({ length: countOf(from) }, (_, chosen) => {
      /** @type {number[]} */
      const route = [];
      let [node, rest] = [from, chosen];
      while (node !== target) {
        for (const bundle of onward(node)) {
          const width = Math.max(countOf(bundle.target), bundle.lanes.length);
          if (rest >= width) {
            rest -= width;
            continue;
          }
          route.push(bundle.lanes[rest % bundle.lanes.length]);
          node = bundle.target;
          rest %= countOf(node);
          break;
        }
      }
      return route;
    });
  };
}
