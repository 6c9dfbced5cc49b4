// @ts-check
// What a rank holds in memory over time: counterpart of widgets/views/footprint.py and engine/operations/footprint.py.

import { heldAfter, memoryAnswer, memoryUnknown } from "../memory_chart.js";
import { InputError } from "./errors.js";
import { windowOf } from "./lines_timeline.js";
import { int, optional } from "./options.js";

/** @import { Footprint, OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

/** What a rank has held so far, by parts that any rank ever holds. @param {OperationEngine} engine @param {Footprint} found @param {number} rank */
function heldBy({ about, times_ps }, { used, width, ...found }, rank) {
  const [number, base] = [found.table[rank], about.start[rank]];
  const { start, end } = times_ps();
  const changes = [];
  for (let row = found.first[number]; row < found.first[number + 1]; row++) {
    const time = (found.at_end[row] ? end : start)[base + found.operation[row]];
    if (time >= 0) changes.push({ time, bytes: used.map((part) => found.change[row * width + part]) });
  }
  return heldAfter(used.map((part) => found.held[number * width + part]), changes);
}

/** @type {Answers<OperationFeed>} */
export const memories = {
  /** What a rank holds in a window of time. */
  footprint(feed, options) {
    const engine = feed.engineAt();
    const { footprint: found, absent } = engine.about;
    const { edges } = windowOf(options);
    const now_ps = feed.sim.now_ps();
    if (!found) return memoryUnknown(absent.memory, now_ps, edges);
    const asked = optional(options, "rank", null);
    const rank = asked === null ? found.fullest : int(asked);
    if (rank < 0 || rank >= engine.ranks) throw new InputError(`no such rank ${rank}`, { where: "memory", hint: `0 to ${engine.ranks - 1}` });
    const held = feed.found(`held ${rank}`, () => heldBy(engine, found, rank));
    const given = optional(options, "at_ps", null);
    return memoryAnswer(found.axes[found.table[rank]], rank, held, { at_ps: given === null ? now_ps : int(given), now_ps, edges });
  },
};
