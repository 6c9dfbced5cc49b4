// @ts-check
// Flows of routes over Ethernet: counterpart of `flows_of` in engine/cacheline/routes.py.

import { resize } from "./tables.js";

/** @import { Memory, Tables } from "./types" */
/** @import { Lanes } from "./routes.js" */

const INJECTS = 4; // role of a link over which a host sends to the network (net/link.py)
const ONE = 2 ** 20; // of a flow's alpha

/**
 * Give every route over Ethernet its flow: what enters it by one link, for one GPU, has one rate. Flows that there are keep their numbers.
 * @param {Memory} room
 * @param {Tables} tables
 * @param {Lanes} lanes
 * @param {number[]} gpus the node of each rank
 */
export function flowsOf(room, { flows, links, route_links, routes }, lanes, gpus) {
  const ends = new Set(gpus);
  const bytes = flows.bytes().slice();
  const known = Array.from({ length: flows.rows }, (_, row) => row).filter((row) => flows.at.link(row) >= 0);
  /** @type {Map<string, number>} by link and target */
  const numbers = new Map(known.map((row, number) => [`${flows.at.link(row)} ${flows.at.target(row)}`, number]));
  for (let route = 0; route < routes.rows; route += 1) {
    const [first, last] = [routes.at.first(route), routes.at.last(route)];
    if (first >= last) continue;
    const target = lanes.dst[route_links.at.value(last - 1)];
    let at = first;
    while (at < last && !(links.at.role(route_links.at.value(at)) & INJECTS)) at += 1;
    if (at === last || !ends.has(target)) continue;
    const key = `${route_links.at.value(at)} ${target}`;
    const number = numbers.get(key) ?? numbers.size;
    numbers.set(key, number);
    routes.put.flow(route, number);
  }
  resize(room, flows, Math.max(1, numbers.size));
  flows.bytes().fill(0);
  const { put } = flows;
  for (let row = 0; row < flows.rows; row += 1) {
    for (const name of ["link", "target", "head", "tail"]) put[name](row, -1);
    put.alpha(row, ONE);
  }
  for (const [key, number] of numbers) {
    const [link, target] = key.split(" ").map(Number);
    put.link(number, link);
    put.target(number, target);
    for (const rate of ["rate_Bps", "target_Bps", "slowest_Bps"]) put[rate](number, lanes.bandwidth_Bps[link]);
  }
  known.forEach((row, number) => flows.bytes().set(bytes.subarray(row * flows.size, (row + 1) * flows.size), number * flows.size));
}
