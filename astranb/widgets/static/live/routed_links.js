// @ts-check
// The links of an infrastructure, as routes over it have changed: counterpart of `RoutedLinks` in engine/messages/reroute.py.

import { createFabric } from "./fabric.js";
import { messageRoutes } from "./message_routes.js";
import { numbersOf } from "./operations_about.js";

/** @import { MessageRoutes, RoutedNetwork } from "./message_routes.js" */
/** @import { Edit, Fabric, Live, Tables } from "./types" */

/** Links and routes over an infrastructure. */
export class RoutedLinks {
  /** @param {RoutedNetwork} network @param {Fabric} fabric @param {Map<number, MessageRoutes>} known by the length of the table of routes */
  constructor(network, fabric, known = new Map()) {
    this.network = network;
    this.fabric = fabric;
    this._known = known;
  }

  /** Those of a page; null: its network is no infrastructure. @param {Live} live @param {Uint8Array[]} columns */
  static of({ about: { routed } }, columns) {
    if (!routed) return null;
    const [src, dst, lane, bandwidth_Bps, latency_ps, forward_ps, gap_ps] = ["src", "dst", "lane", "bandwidth_Bps", "latency_ps", "forward_ps", "gap_ps"]
      .map((name) => Float64Array.from(numbersOf(routed.lanes, columns)[name]));
    const fabric = createFabric({ ...routed, links: [] }, src, dst, lane);
    const ranked = new Set(fabric.gpus.map((node) => fabric.instance[node]));
    const homes = fabric.instance.map((instance) => (ranked.has(instance) ? instance : -1));
    const lanes = { src, dst, bandwidth_Bps, latency_ps, forward_ps, gap_ps };
    return new RoutedLinks({ lanes, gpus: fabric.gpus, nodes: fabric.nodes.length, homes, failed: routed.failed }, fabric);
  }

  /** Those of a run with another future. */
  copy() {
    return new RoutedLinks(this.network, this.fabric, new Map(this._known));
  }

  /** The routes that are in a machine's tables. @param {Tables} tables @returns {MessageRoutes} */
  known(tables) {
    const { rows } = tables.routes;
    const known = this._known.get(rows) ?? messageRoutes(this.network, new Set(), this.pairs(tables)); // those of the start
    this._known.set(rows, known);
    return known;
  }

  /** The pairs that have routes. @param {Tables} tables */
  pairs({ routes: { at, rows } }) {
    /** @type {Set<number>} */
    const keys = new Set();
    for (let row = 0; row < rows; row += 1) if (at.key(row) >= 0 && at.count(row) > 0) keys.add(at.key(row));
    return [...keys].sort((a, b) => a - b);
  }

  /** Keep what the tables of a machine were made of. @param {Tables} tables @param {MessageRoutes} found */
  remember({ routes }, found) {
    this._known.set(routes.rows, found);
  }

  /** The lanes of `A->B` or `A->B#k`; `gpu[3]` is short for a name. @param {string} path */
  lanesOf(path) {
    return this.fabric.find(this.fabric.full(path));
  }

  /** The links that have some of these lanes. @param {Tables} tables @param {number[]} lanes */
  over(tables, lanes) {
    const wanted = new Set(lanes);
    return this.known(tables).lanes.flatMap((own, link) => (own.some((lane) => wanted.has(lane)) ? [link] : []));
  }

  /** The names of all links that there are now, by their first lanes. @param {Tables} tables */
  names(tables) {
    const { nodes, src, dst } = this.fabric;
    return this.known(tables).lanes.map((lanes) => `${nodes[src[lanes[0]]]}->${nodes[dst[lanes[0]]]}${lanes.length > 1 ? ` (of ${lanes.length} lanes)` : ""}`);
  }

  /** The lanes that are down after some edits. @param {Tables} tables @param {Edit[]} edits */
  closed(tables, edits) {
    /** @type {Set<number>} */
    const closed = new Set();
    const { lanes } = this.known(tables);
    for (const { kind, field, path, rows, number } of edits) {
      if (field !== "up" || kind !== "link") continue;
      const some = path.includes("->") ? this.lanesOf(path.slice(0, path.length - ".up".length)) : rows.flatMap((row) => lanes[row]);
      for (const lane of some) {
        if (number) closed.delete(lane);
        else closed.add(lane);
      }
    }
    return closed;
  }
}
