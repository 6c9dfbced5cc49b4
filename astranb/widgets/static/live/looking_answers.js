// @ts-check
// What views ask about the objects of a run by cache lines: counterpart of widgets/views/ search.py, source.py, events.py,
// explain.py (`why`) and breakpoints.py (`complete`).

import { pack } from "../messages.js";
import { complete } from "./complete.js";
import { fabricOf } from "./fabric.js";
import { DONE } from "./gpu_numbers.js";
import { blockNumber, pairsOf } from "./lines_paths.js";
import { eventsAround } from "./lines_recent.js";
import { linesOf } from "./lines_times.js";
import { float, int, optional, truthy } from "./options.js";
import { range } from "./rows.js";
import { createSearch } from "./searching.js";
import { str } from "./text.js";
import { watchable } from "./watch.js";

/** @import { Answers, Engine, Sim } from "./types" */

const MOST_EVENTS = 20; // before the cursor, and after it
const MOST_PROPOSED = 50;

/** @type {Answers} */
export const lookups = {
  search: createSearch(namedOf, ({ tables }) => tables.gpus.rows),

  /** Where each thread block is at the cursor. */
  where({ session }, options) {
    const { engine } = session.at(optional(options, "at_ps", null));
    return [{}, pack("where", spots(engine))];
  },

  /** The chain of waits of an object: `path`, `at_ps`. */
  why({ session }, options) {
    const at_ps = optional(options, "at_ps", null);
    const past = session.at(at_ps === null ? null : float(at_ps));
    const { path, now_ps, circle, steps } = past.engine.why(str(optional(options, "path", "")));
    return [{ path, now_ps, circle, steps }, []];
  },

  /** The events around `at_ps` (null: now): time in ps, what happened, the object. */
  events({ sim }, options) {
    const at_ps = optional(options, "at_ps", null);
    const here = at_ps === null ? sim.now_ps() : int(at_ps);
    return [{ at_ps: here, rows: eventsAround(sim.engine, here, MOST_EVENTS) }, []];
  },

  /** What a field for a path may mean: `text`; `fields`: those of `condition` or `watch`, too. */
  complete({ sim }, options) {
    const text = str(optional(options, "text", ""));
    const of = optional(options, "fields", null);
    const paths = complete(text, sim.engine, MOST_PROPOSED);
    if (!truthy(of)) return [{ paths }, []];
    const dot = text.lastIndexOf(".");
    const [path, word] = [text.slice(0, Math.max(0, dot)), text.slice(dot + 1)];
    const names = dot < 0 ? [] : fieldsOf(sim, path, of).filter((name) => name.startsWith(word));
    return [{ paths: [...names.map((name) => `${path}.${name}`), ...paths].slice(0, MOST_PROPOSED) }, []];
  },
};

/** What conditions or watches may name of an object; nothing where there is none. @param {Sim} sim @param {string} path @param {unknown} of */
function fieldsOf(sim, path, of) {
  try {
    return of === "condition" ? sim.engine.fields(path) : watchable(sim, path);
  } catch {
    return []; // there is no such object
  }
}

/** The objects that a search finds by their names. @param {Engine} engine @returns {import("./searching.js").Named} */
function namedOf(engine) {
  const fabric = fabricOf(engine);
  const ranked = (/** @type {number} */ rank) => /** @type {[string, string]} */ ([`GPU${rank}`, `gpu[${rank}]`]);
  return {
    ranked,
    *names() {
      yield* range(0, engine.tables.gpus.rows).map(ranked);
      const nodes = [...new Set([...fabric.src, ...fabric.dst])].sort((a, b) => a - b).map((node) => fabric.nodes[node]);
      const links = pairsOf(fabric).map(([a, b]) => `${fabric.nodes[a]}->${fabric.nodes[b]}`);
      for (const name of [...nodes, ...links]) yield /** @type {[string, string]} */ ([name, name]);
    },
  };
}

/** The line of the program that each thread block is at (engine/cacheline/source_lines.py). @param {Engine} engine */
function spots(engine) {
  const { blocks } = engine.tables;
  const { at } = blocks;
  const { places, of } = linesOf(engine);
  const rows = range(0, blocks.rows);
  const at_line = rows.map((row) => (at.op(row) < at.last_op(row) && at.state(row) !== DONE ? places[of[at.op(row)]] : null));
  return {
    gpu: rows.map(at.gpu),
    block: rows.map((row) => blockNumber(engine, row)),
    state: rows.map(at.state),
    op: rows.map((row) => at.op(row) - at.first_op(row)),
    ops: rows.map((row) => at.last_op(row) - at.first_op(row)),
    part: at_line.map((place) => place?.[0] ?? -1),
    line: at_line.map((place) => place?.[1] ?? 0),
  };
}
