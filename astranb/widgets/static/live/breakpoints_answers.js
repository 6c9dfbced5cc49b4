// @ts-check
// Breakpoints, and watches with their curves: counterpart of widgets/views/breakpoints.py.

import { pack } from "../messages.js";
import { int, optional } from "./options.js";
import { Unready } from "./steps.js";
import { str } from "./text.js";
import { seriesOf, watchable } from "./watch.js";

/** @import { Answers, Feed, Sim } from "./types" */
/** @import { Watch } from "./watch" */

const MOST_REPLAYED = 500_000; // events of a run whose watches are shown exactly, by a replay: half a second, of fewer than in Python
const MOST_POINTS = 400;

/** @type {Answers<Feed>} */
export const stops = {
  breaks(feed, options) {
    const { sim, session } = feed;
    const { hit } = session;
    const points = sim.breakpoints.map((point) => {
      const { text, enabled, object } = point;
      return { text, enabled, slow: false, object, hit: hit !== null && hit.breakpoint === point };
    });
    const start = Math.max(0, int(optional(options, "start_ps", 0)));
    const end = Math.max(start, int(optional(options, "end_ps", sim.now_ps())));
    const exact = !session.running && sim.events() <= MOST_REPLAYED;
    const [times, curves] = curvesOf(feed, start, Math.min(end, Math.max(start, sim.now_ps())), exact);
    const past = session.at(options.at_ps);
    const watches = sim.watches.map((watch, number) => {
      const known = curves[number].filter((value) => !Number.isNaN(value));
      const [low, high] = known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))] : [0, 0];
      return { text: watch.text, object: watch.object, now: watch.shown(watch.read(past)), low: watch.shown(low), high: watch.shown(high) };
    });
    const path = str(optional(options, "path", ""));
    const named = namesOf(sim, path);
    const meta = { points, watches, kinds: sim.engine.kinds, ...named, because: hit?.because ?? "", start_ps: start, end_ps: end, exact };
    const values = new Float64Array(curves.length * times.length);
    curves.forEach((curve, number) => values.set(curve, number * times.length));
    return [meta, pack("breaks", { times, values })];
  },
};

/** What conditions and watches may name of an object; nothing where there is none. @param {Sim} sim @param {string} path */
function namesOf(sim, path) {
  try {
    if (path) return { fields: sim.engine.fields(path), values: watchable(sim, path) };
  } catch {
    // there is no such object
  }
  return { fields: [], values: [] };
}

/**
 * Values over a window: replayed, or as they were sampled; the last answer is kept.
 * @param {Feed} feed
 * @param {number} startPs
 * @param {number} endPs
 * @param {boolean} exact
 * @returns {[times: Float64Array, curves: Float64Array[]]}
 */
function curvesOf(feed, startPs, endPs, exact) {
  const { sim } = feed;
  const { watches, edits } = sim;
  if (!watches.length) return [new Float64Array(0), []];
  const key = [startPs, endPs, sim.events(), exact, ...watches, "edits", ...edits];
  const before = feed.curves;
  if (before && before.key.length === key.length && key.every((one, k) => one === before.key[k])) return before.found;
  const count = Math.max(2, Math.min(MOST_POINTS, endPs - startPs + 1));
  const times = Float64Array.from({ length: count }, (_, k) => Math.trunc(k === count - 1 ? endPs : startPs + k * ((endPs - startPs) / (count - 1))));
  if (exact) throw new Unready(exactly());
  const sampledCurves = watches.map((watch) => sampled(watch, times));
  feed.curves = { key, found: [times, sampledCurves] };
  return [times, sampledCurves];

  function* exactly() {
    const curves = yield* seriesOf(sim, watches, times);
    if (curves) feed.curves = { key, found: [times, curves] };
  }
}

/** What a watch had been found to be last at each time; nothing before the first. @param {Watch} watch @param {Float64Array} times */
function sampled({ times_ps, values }, times) {
  let next = 0;
  return times.map((when) => {
    while (next < times_ps.length && times_ps[next] <= when) next += 1;
    return next ? values[next - 1] : NaN;
  });
}
