// @ts-check
// Routes over an infrastructure that change while messages are sent: counterpart of engine/messages/reroute.py, which
// says what happens to messages.

import { DOWN } from "./dimension_links.js";
import { messageRoutes } from "./message_routes.js";
import { enlarge, eventsOf } from "./messages_tables.js";
import { resize } from "./tables.js";
import { mixed, putEvent } from "./timesteps.js";

/** @import { MessageRoutes } from "./message_routes.js" */
/** @import { RoutedLinks } from "./routed_links.js" */
/** @import { Machine, Tables } from "./types" */

const LEFT = -1; // key of a route that no new message takes
const KINDS = 8; // kinds of events
const HOP = 1; // a message arrives at the next node

/**
 * Change the routes of a run: its tables of routes and links grow.
 * @param {Machine} machine
 * @param {RoutedLinks} links
 * @param {Set<number>} closed lanes that are down
 * @param {number} at_ps when what waited goes on: now, or later where nothing else happens until then
 * @param {{ margin: number, streams: number }} margins least numbers of unused rows
 */
export function reroute(machine, links, closed, at_ps, { margin, streams }) {
  const { tables } = machine;
  const before = links.known(tables);
  const found = messageRoutes(links.network, closed, links.pairs(tables), before);
  const broken = found.lanes.map((lanes) => lanes.some((lane) => closed.has(lane)));
  const { moved, turned } = affected(tables, broken);
  grow(machine, found, before.lanes.length);
  enlarge(machine, Math.max(margin, moved.length), streams);
  links.remember(tables, found);
  const { at, put } = tables.messages;
  // A link of which a lane is down takes in nothing.
  broken.forEach((one, link) => {
    if (one) tables.links.put.busy(link, tables.links.at.busy(link) | DOWN);
  });
  const at_ns = Math.max(tables.queue.at.now(0), Math.ceil(at_ps / 1000));
  /** The new way of a message from its source. @param {number} row @param {number} route */
  const turn = (row, route) => {
    put.heading(row, tables.routes.at.first_hop(route) - 1);
    put.at(row, tables.routes.at.hops(route) + 1);
  };
  for (const [link, row] of moved) {
    const route = routeOf(tables, row, broken);
    if (route < 0) continue;
    leave(tables, link, row);
    turn(row, route);
    put.first_ns(row, at_ns);
    put.last_ns(row, at_ns);
    putEvent(tables, at_ns, row * KINDS + HOP);
  }
  for (const row of turned) {
    const route = routeOf(tables, row, broken);
    if (route < 0) continue;
    turn(row, route);
    put.last_ns(row, at.first_ns(row));
  }
}

/** Messages that wait for broken links, each with its link, and those that would come to one later. @param {Tables} tables @param {boolean[]} broken */
function affected(tables, broken) {
  /** @type {[link: number, row: number][]} */
  const moved = [];
  /** @type {number[]} */
  const turned = [];
  const { config, hops, links, messages: { at } } = tables;
  if (!config.at.congestion(0)) return { moved, turned };
  /** @param {number} row */
  function later(row) {
    for (let hop = at.heading(row) + 1; hop < at.heading(row) + at.at(row); hop += 1) if (broken[hops.at.value(hop)]) return true;
    return false;
  }
  for (let link = 0; link < links.rows; link += 1) {
    for (let row = links.at.head(link); row >= 0; row = at.behind(row)) {
      if (broken[link]) moved.push([link, row]);
      else if (later(row)) turned.push(row);
    }
  }
  const events = eventsOf(tables);
  for (let k = 1; k < events.length; k += 2) {
    const row = Math.floor(events[k] / KINDS);
    if (events[k] % KINDS === HOP && at.src(row) !== at.dst(row) && later(row)) turned.push(row);
  }
  return { moved, turned };
}

/** The route of a message from its source; -1 where it is broken, too. @param {Tables} tables @param {number} row @param {boolean[]} broken */
function routeOf({ config, hops, messages, routes: { at, rows } }, row, broken) {
  const key = messages.at.src(row) * config.at.npus(0) + messages.at.dst(row);
  let [low, high] = [0, rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at.key(middle) < key) low = middle + 1;
    else high = middle;
  }
  const count = at.count(low);
  const route = count === 1 ? low : low + Number(mixed(messages.at.tag(row) * 8191 + key) % BigInt(count));
  for (let hop = at.first_hop(route); hop < at.first_hop(route) + at.hops(route); hop += 1) if (broken[hops.at.value(hop)]) return -1;
  return route;
}

/** Take a message out of the queue of a link. @param {Tables} tables @param {number} link @param {number} row */
function leave({ links, messages: { at, put } }, link, row) {
  let [before, here] = [-1, links.at.head(link)];
  while (here !== row) [before, here] = [here, at.behind(here)];
  const following = at.behind(row);
  if (before < 0) links.put.head(link, following);
  else put.behind(before, following);
  if (following < 0) links.put.tail(link, before);
}

/** Append routes, hops and links; the routes of pairs that have new ones lose their keys. @param {Machine} machine @param {MessageRoutes} found @param {number} had links */
function grow({ room, tables }, found, had) {
  const { config, hops, links, ports, routes, used, watch, wires } = tables;
  const changed = new Set(found.routes.map(({ key }) => key));
  const old = routes.rows;
  const fields = routes.fields.map(([name]) => name);
  /** @type {Record<string, number>[]} */
  const kept = [];
  for (let row = 0; row < old; row += 1) {
    const key = routes.at.key(row);
    if (key >= 0 && !changed.has(key)) kept.push(Object.fromEntries(fields.map((name) => [name, routes.at[name](row)])));
  }
  const all = [...kept, ...found.routes].sort((a, b) => a.key - b.key);
  resize(room, routes, old + all.length);
  for (let row = 0; row < old; row += 1) routes.put.key(row, LEFT);
  all.forEach((route, k) => fields.forEach((name) => routes.put[name](old + k, route[name])));
  resize(room, hops, Math.max(1, found.hops.length));
  found.hops.forEach((link, hop) => hops.put.value(hop, link));
  const count = found.lanes.length;
  if (count > had) {
    resize(room, wires, count);
    for (let link = had; link < count; link += 1) for (const [name, value] of Object.entries(found.wires[link])) wires.put[name](link, value);
    resize(room, links, count);
    for (let link = had; link < count; link += 1) for (const name of ["head", "tail"]) links.put[name](link, -1);
    if (used.rows > 1 || watch.at.recording(0)) resize(room, used, count);
  }
  const each = config.at.ports(0);
  const numbers = [found.sends, found.receives].flatMap((of) => [...of.values()].flatMap((mine) => [...mine.values()]));
  const most = 1 + Math.max(0, ...numbers);
  if (!each || most <= each) return;
  const free = ports.column("free_ns");
  resize(room, ports, (ports.rows / each) * most);
  ports.bytes().fill(0);
  free.forEach((value, place) => ports.put.free_ns(Math.floor(place / each) * most + (place % each), value));
  config.put.ports(0, most);
}
