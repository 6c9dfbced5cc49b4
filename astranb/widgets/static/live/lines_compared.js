// @ts-check
// What is compared of runs by cache lines: counterpart of `shown` and `compared` of engine/cacheline/engine.py.

import { toEven } from "../numpy.js";
import { breakdown, linksUsed, partsOf } from "./lines_result.js";
import { runTime } from "./lines_times.js";

/** @import { Compared, Engine, Shown } from "./types" */

/** @param {(engine: Engine) => [key: string, row: any][]} rows @param {string} field @returns {Shown["rows"]} */
const columnOf = (rows, field) => (engine) => rows(engine).map(([key, row]) => [key, row[field]]);

/** When ranks ended; now while they run. @param {Engine} engine @returns {[number, number][]} */
const ends = ({ tables, now_ps }) => [...tables.gpus.column("ended_ps")].map((ended, rank) => [rank, ended >= 0 ? ended : now_ps()]);

/** @type {Shown[]} */
const SHOWN = [
  { title: "Phases: how long", field: "lasts_ps", largest: false, rows: phases },
  { title: "Links: time busy", field: "busy_ps", largest: true, rows: columnOf(linksUsed, "busy_ps") },
  { title: "Links: bytes", field: "bytes", largest: true, rows: columnOf(linksUsed, "bytes") },
  { title: "Links: time queued", field: "queued_ps", largest: true, rows: columnOf(linksUsed, "queued_ps") },
  { title: "GPUs: end", field: "end_ps", largest: false, rows: ends },
  { title: "GPUs: semaphore", field: "semaphore_ps", largest: false, rows: (engine) => partsOf(engine).map(({ waiting }, rank) => [rank, waiting]) },
];

/** @type {Compared} */
export const LINES = {
  time: runTime,
  causes(engine) {
    const total = runTime(engine);
    return breakdown(engine).map(([name, part]) => [name, toEven(part * total)]);
  },
  shown: SHOWN,
};

/** How long phases took, or have taken. @param {Engine} engine @returns {[string, number][]} */
function phases({ live, tables, now_ps }) {
  const { at } = tables.phases;
  return live.about.scene.phases.map((/** @type {string} */ name, /** @type {number} */ phase) => {
    const [begun, ended] = [at.started_ps(phase), at.ended_ps(phase)];
    return [name, begun >= 0 ? (ended >= 0 ? ended : now_ps()) - begun : 0];
  });
}
