// @ts-check
// Messages on the links of ASTRA-sim 2.0's networks, as they were recorded: counterpart of engine/messages/flights.py.

import { DOWN, createDimensionLinks } from "./dimension_links.js";
import { waitingFor } from "./messages_links.js";

/** @import { Numbers, OperationEngine, Recorded } from "./operations_types" */
/** @import { Tables } from "./types" */

const PS = 1000;
const NATIVE_TAGS = 500_000_000;
const ONE_LINK = -2;

/** The links of a network of dimensions. @param {Tables} tables */
export const linksOf = ({ dims }) => createDimensionLinks([...dims.column("kind")], [...dims.column("nodes")]);

/** The numbers of the recording from one on whose rows are still kept, and of what comes next. @param {Tables} tables @param {number} [since] */
export function keptFlights({ watch, flights }, since = 0) {
  const total = watch.at.flights(0);
  const numbers = [];
  for (let number = Math.max(since, total - flights.rows); number < total; number++) {
    if (flights.at.number(number % flights.rows) === number) numbers.push(number); // others are of a future that was left
  }
  return { numbers, first: numbers[0] ?? total, total };
}

/** Recorded messages of a future that is left, whose routes or links there are no more, go nowhere. @param {Tables} tables */
export function forgetStale({ flights: { at, put, rows }, links, routes }) {
  for (let row = 0; row < rows; row += 1) {
    if (at.route(row) >= routes.rows || at.link(row) >= links.rows) for (const name of ["number", "route", "link"]) put[name](row, -1);
  }
}

/** How many messages wait for each of some links now, and which of these are down. @param {Tables} tables @param {Numbers} some @returns {[number[], boolean[]]} */
export function queuesOf(tables, some) {
  const { config, links } = tables;
  if (!config.at.congestion(0)) return [Array.from(some, () => 0), Array.from(some, () => false)];
  return [Array.from(some, (link) => waitingFor(tables, link)), Array.from(some, (link) => (links.at.busy(link) & DOWN) > 0)];
}

/**
 * The operation of a recorded message, its phase and chunk; of a custom collective as recorded.
 * @param {OperationEngine} engine
 * @param {number} row
 * @param {number} own its chunk, where nothing else is recorded
 */
export function whose({ tables: { flights: { at }, operations }, about: { parts } }, row, own) {
  const sender = at.operation(row);
  const given = { operation: sender, phase: at.phase(row), chunk: own };
  if (!parts) return { ...given, operation: sender >= 0 && operations.at.owner(sender) >= 0 ? operations.at.owner(sender) : sender };
  const inner = sender - parts.own;
  const known = inner >= 0 && parts.phase[inner] >= 0;
  return { operation: sender >= 0 ? parts.shown(sender) : sender, phase: known ? parts.phase[inner] : given.phase, chunk: known ? parts.chunk[inner] : own };
}

/**
 * Messages on their links, from a number of the recording on. Without congestion a message takes all its
 * links at once: its time is divided into equal parts.
 * @param {OperationEngine} engine
 * @param {ReturnType<typeof createDimensionLinks>} links
 * @param {number} since
 * @returns {Recorded}
 */
export function flightsOf(engine, links, since) {
  const { tables } = engine;
  const { config, routes, hops, flights: { at, rows } } = tables;
  const { numbers, first, total } = keptFlights(tables, since);
  const [congestion, routed] = [config.at.congestion(0), config.at.routed(0)];
  /** @type {Recorded["flights"]} */
  const found = { link: [], source: [], target: [], bytes: [], operation: [], chunk: [], phase: [], step: [], queued_ps: [], start_ps: [], end_ps: [] };
  /** The links of a message without congestion. @param {number} row */
  function path(row) {
    if (routed) {
      const route = at.route(row);
      return Array.from({ length: routes.at.hops(route) }, (_, hop) => hops.at.value(routes.at.first_hop(route) + hop));
    }
    const all = links.path(at.src(row), at.dst(row));
    if (at.link(row) > ONE_LINK) return all;
    const heading = ONE_LINK - at.link(row);
    return [...all, links.first[heading >> 1] + at.src(row) + (heading & 1) * links.npus];
  }
  for (const number of numbers) {
    const row = number % rows;
    const { operation, chunk, phase } = whose(engine, row, at.tag(row) % NATIVE_TAGS);
    const [start, end, queued] = [at.start_ns(row) * PS, at.end_ns(row) * PS, at.queued_ns(row) * PS];
    const crossed = congestion ? [at.link(row)] : path(row);
    const length = end - start;
    crossed.forEach((link, nth) => {
      const begins = start + Math.floor((length * nth) / crossed.length);
      found.link.push(link);
      found.source.push(at.src(row));
      found.target.push(at.dst(row));
      found.bytes.push(at.bytes(row));
      found.operation.push(operation);
      found.chunk.push(chunk);
      found.phase.push(phase);
      found.step.push(at.step(row));
      found.queued_ps.push(congestion ? queued : begins);
      found.start_ps.push(begins);
      found.end_ps.push(start + Math.floor((length * (nth + 1)) / crossed.length));
    });
  }
  return { first, total, flights: found, settled: found.link.length };
}
