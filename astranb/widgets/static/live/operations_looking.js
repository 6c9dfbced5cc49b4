// @ts-check
// What views ask about the objects of a run of operations: counterpart of widgets/views/ buffers.py, search.py,
// events.py and queues.py.

import { pack } from "../messages.js";
import { int, optional } from "./options.js";
import { createSearch } from "./searching.js";
import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers, Engine } from "./types" */

/** A bit of a bundle's marks: one of its links is down (static/sketch.js). */
export const DOWN = 4;
const MOST_EVENTS = 20; // before the cursor, and after it
const MOST_QUEUES = 32;

/** @param {Engine} engine */
const ofOperations = (engine) => /** @type {OperationEngine} */ (/** @type {object} */ (engine));

/** The objects that a search finds by their names. @param {Engine} given @returns {import("./searching.js").Named} */
function namedOf(given) {
  const engine = ofOperations(given);
  const { about, ranks } = engine;
  /** @param {number} rank @returns {[string, string]} */
  const ranked = (rank) => [`rank ${rank}`, `rank[${rank}]`];
  return {
    ranked,
    *names() {
      for (let rank = 0; rank < ranks; rank++) yield ranked(rank);
      for (const [dim, shape] of about.topology.entries()) yield [`dim ${dim} (${shape})`, `dim[${dim}]`];
      for (const [link, name] of about.links.entries()) yield [`link ${link}, ${name}`, `link[${link}]`];
    },
    // Operations of any rank whose name or kind holds every word; those that have begun have a time.
    *more(words) {
      const { start } = engine.times_ps();
      for (let rank = 0; rank < ranks; rank++) {
        for (const row of about.rows_of(rank)) {
          const name = `${about.path(row)} ${about.text(row)}`;
          if (!words.every((word) => name.toLowerCase().includes(word))) continue;
          yield [`${name}${start[row] >= 0 ? `, begins at ${formatTime(start[row])}` : ""}`, about.path(row), start[row]];
        }
      }
    },
  };
}

/** The begins and ends of operations before and after a moment, in the order of time. @param {OperationEngine} engine @param {number} at_ps @returns {[time_ps: number, text: string, path: string][]} */
function endsAround(engine, at_ps) {
  const { about } = engine;
  const [{ start, end }, now_ps] = [engine.times_ps(), engine.now_ps()];
  /** @type {[number, string, string][]} */
  const found = [];
  for (const [times, verb] of /** @type {const} */ ([[start, "begins"], [end, "ends"]])) {
    const rows = [...times.keys()].filter((row) => times[row] >= 0).sort((a, b) => times[a] - times[b] || a - b);
    const after = rows.filter((row) => times[row] > at_ps && times[row] <= now_ps).slice(0, MOST_EVENTS);
    const before = rows.filter((row) => times[row] <= at_ps).sort((a, b) => times[b] - times[a] || a - b).slice(0, MOST_EVENTS);
    for (const row of [...before, ...after]) found.push([times[row], `rank ${about.npu[row]} ${verb} ${about.text(row)}`, about.path(row)]);
  }
  found.sort((a, b) => a[0] - b[0]);
  const before = found.filter(([time]) => time <= at_ps).length;
  return found.slice(Math.max(0, before - MOST_EVENTS), before + MOST_EVENTS);
}

/** @type {Answers<OperationFeed>} */
export const lookups = {
  search: createSearch(namedOf, (engine) => ofOperations(engine).ranks),

  /** The events around `at_ps` (null: now): time in ps, what happened, the object. */
  events(feed, options) {
    const at_ps = optional(options, "at_ps", null);
    const here = at_ps === null ? feed.sim.now_ps() : int(at_ps);
    return [{ at_ps: here, rows: endsAround(feed.engineAt(), here) }, []];
  },

  /** The links for which most messages wait at the cursor. */
  buffers(feed, options) {
    const engine = feed.engineAt(optional(options, "at_ps", null));
    const links = engine.tables.links?.rows ?? 0;
    const [waiting] = engine.queues(Int32Array.from({ length: links }, (_, link) => link));
    const found = [...waiting.keys()].filter((link) => waiting[link] > 0).sort((a, b) => waiting[b] - waiting[a]);
    const rows = found.slice(0, MOST_QUEUES).map((link) => [engine.link_path(link), -1, "", commas(waiting[link])]);
    return [{ rows, heads: ["queue", "empty in", "waiting"], all: found.length, finite: false }, []];
  },

  /** The queues of the bundles at the cursor. */
  ports(feed, options) {
    const engine = feed.engineAt(optional(options, "at_ps", null));
    const { drawn, bundles, bundle_of } = engine.about;
    const [waiting, down] = engine.queues(drawn);
    const [sums, marks] = [new Float64Array(bundles), new Float64Array(bundles)];
    bundle_of.forEach((bundle, at) => {
      if (bundle < 0) return;
      sums[bundle] += waiting[at];
      if (down[at]) marks[bundle] = DOWN;
    });
    return [{ picture: 0, at_ps: engine.now_ps(), managed: false }, pack("ports", { waiting: sums, fill: new Float64Array(bundles), marks })];
  },
};
