// @ts-check
// The links of an infrastructure that carries whole messages: counterpart of `RoutedLinks` of engine/messages/reroute.py.

import { laneFinder } from "./fabric.js";
import { numbersOf } from "./operations_about.js";

/** @import { RoutedLinks } from "./operations_types" */
/** @import { Live } from "./types" */

/** Null: the network is one of dimensions. @param {Live} live @param {Uint8Array[]} columns @returns {RoutedLinks | null} */
export function createRoutedLinks({ about: { routed: given } }, columns) {
  if (!given) return null;
  const { src, dst, first, lane } = numbersOf(given.lanes, columns);
  const { full, find } = laneFinder({ plan: given.plan, ranks: given.ranks, src, dst });
  /** @type {number[][]} the lanes of each link, which are all parallel ones between the same nodes */
  const lanes = Array.from({ length: first.length - 1 }, (_, link) => Array.from(lane.subarray(first[link], first[link + 1])));
  /** @param {string} path */
  const lanesOf = (path) => find(full(path));
  /** @type {RoutedLinks} */
  const links = {
    full, lanesOf,
    over(some) {
      const wanted = new Set(some);
      return [...lanes.keys()].filter((link) => lanes[link].some((one) => wanted.has(one)));
    },
    downOf: (rows, closed) => rows.map((link) => lanes[link].some((one) => closed.has(one))),
    closedAfter(edits) {
      /** @type {Set<number>} */
      const closed = new Set();
      for (const { kind, field, path, rows, number } of edits) {
        if (field !== "up" || kind !== "link") continue;
        const some = path.includes("->") ? lanesOf(path.slice(0, -".up".length)) : rows.flatMap((row) => lanes[row]);
        for (const one of some) {
          if (number) closed.delete(one);
          else closed.add(one);
        }
      }
      return closed;
    },
  };
  return links;
}
