// @ts-check
// What the time of a run of operations consists of: counterpart of engine/critical_path.py, of `critical_path` of
// engine/layers/result_tables.py, and of widgets/views/explain.py.

import { pack } from "../messages.js";
import { InputError } from "./errors.js";
import { messageSegments } from "./messages_critical_path.js";
import { float, optional } from "./options.js";

/** @import { OperationEngine, Segment } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

const MOST_ROWS = 12;
const MOST_SEGMENTS = 50_000; // drawn; of more the longest
/** @type {Record<string, number>} */
const TRACKS = { compute: 0, memory: 2 }; // the other causes are communication

/** What a layer table's time consists of: a rank does one thing after the other. @param {OperationEngine} engine @returns {Segment[]} */
function layerSegments(engine) {
  const { about } = engine;
  const { start, end } = engine.times_ps();
  if (!end.some((time) => time >= 0)) return [];
  let row = latest([...end.keys()], end);
  /** @type {Segment[]} */
  const path = [];
  /** @param {string} cause @param {number} start_ps @param {number} end_ps @param {string} because */
  const add = (cause, start_ps, end_ps, because) => {
    if (end_ps > start_ps) path.push({ row, start_ps, end_ps, cause, because });
  };
  let [until, because] = [end[row], "the last to end"];
  add("step", until, Math.max(engine.ends_ps()[0], until), "the loop ends");
  for (;;) {
    add(["compute", "collective"][about.kind[row]], start[row], until, because);
    until = start[row];
    const parents = about.parents_of(row);
    if (!parents.length) break;
    because = `${about.label(row)} waits for it`;
    const last = latest(parents, end);
    add("step", end[last], until, `${about.label(row)} is in a later step`);
    [row, until] = [last, end[last]];
  }
  add("start", 0, until, "nothing before it");
  return path.reverse();
}

/** The first of those that are latest. @param {number[]} rows @param {Float64Array} times */
const latest = (rows, times) => rows.reduce((most, row) => (times[row] > times[most] ? row : most));

/** The segments in the order of time; none before an operation has ended. @param {OperationEngine} engine @returns {Segment[]} */
const segmentsOf = (engine) => (engine.live.engine === "layers" ? layerSegments(engine) : messageSegments(engine));

/** @param {Segment} segment */
const lengthOf = ({ start_ps, end_ps }) => end_ps - start_ps;

/** Time in ps of each cause, most first. @param {Segment[]} segments @returns {[cause: string, time_ps: number][]} */
function added(segments) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const segment of segments) sums.set(segment.cause, (sums.get(segment.cause) ?? 0) + lengthOf(segment));
  return [...sums].filter(([, time_ps]) => time_ps).sort((a, b) => b[1] - a[1]);
}

/** The same of a run as it is now. @param {OperationEngine} engine */
export const byCause = (engine) => added(segmentsOf(engine));

/** @type {Answers<OperationFeed>} */
export const paths = {
  /** The critical path up to `at_ps`: causes, longest segments, and columns to draw it from. */
  critical_path(feed, options) {
    const at_ps = optional(options, "at_ps", null);
    const engine = feed.engineAt(at_ps === null ? null : float(at_ps));
    const { about, live } = engine;
    const path = segmentsOf(engine);
    if (!path.length) throw new InputError("no operation has ended yet", { where: "critical path", hint: "go on first" });
    /** @type {Record<string, string>} */
    const meanings = live.about.causes;
    const names = Object.keys(meanings);
    const longest = [...path].sort((a, b) => lengthOf(b) - lengthOf(a) || a.start_ps - b.start_ps);
    const top = longest.slice(0, MOST_ROWS).map((one) => ({
      start_ps: one.start_ps, ps: lengthOf(one), cause: one.cause,
      path: about.path(one.row), title: one.because, text: `rank ${about.npu[one.row]}: ${about.text(one.row)}`,
    }));
    const least = path.length > MOST_SEGMENTS ? lengthOf(longest[MOST_SEGMENTS]) : -1;
    const drawn = path.filter((one) => lengthOf(one) > least);
    const none = drawn.map(() => -1);
    const meta = {
      time_ps: path[path.length - 1].end_ps, events: engine.count("events"), segments: path.length, names,
      causes: added(path).map(([cause, ps]) => ({ cause, means: meanings[cause], ps })), top,
    };
    return [meta, pack("critical_path", {
      start: drawn.map(({ start_ps }) => start_ps), end: drawn.map(({ end_ps }) => end_ps), cause: drawn.map(({ cause }) => names.indexOf(cause)),
      block: drawn.map(({ row }) => about.npu[row]), link: none, rank: none, sm: drawn.map(({ cause }) => TRACKS[cause] ?? 1),
    })];
  },
};
