// @ts-check
// What a run took and where its time went: counterpart of widgets/views/result.py, of runs by cache lines.

import { sharesOf, statesOf } from "./lines_interval.js";
import { bandwidths, bound } from "./lines_result.js";
import { runTime } from "./lines_times.js";
import { percent } from "./text.js";
import { formatBandwidth, formatTime } from "./units.js";

/** @import { Answers, Engine } from "./types" */

const LEAST_SHARE = 0.0005;

/** @type {Answers} */
export const results = {
  outcome(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const { engine } = feed.sim; // with what was recorded
    const ranks = [...Array(engine.tables.gpus.rows).keys()];
    const shares = sharesOf(statesOf(engine, 0, Math.min(sim.now_ps(), engine.now_ps()), ranks));
    const parts = Object.entries(shares).map(([name, share], number) => ({ name, number, share })).filter(({ share }) => share > LEAST_SHARE);
    return [
      { finished: sim.finished(), facts: factsOf(sim.engine), parts: parts.map(({ name, number, share }) => [name, number, share]), whose: "SMs in use" },
      [],
    ];
  },
};

/** What, how much, and the object to select. @param {Engine} engine @returns {[string, string, string][]} */
function factsOf(engine) {
  const time = runTime(engine);
  /** @type {[string, string, string][]} */
  const facts = [["time", formatTime(time), ""]];
  for (const [name, rate] of Object.entries(bandwidths(engine))) if (rate !== null) facts.push([name, formatBandwidth(rate), ""]);
  const found = bound(engine);
  if (found && time) facts.push(["bandwidth bound", `${percent(found.alone_ps / time, 0)} of the time, ${found.name}`, found.path]);
  return facts;
}
