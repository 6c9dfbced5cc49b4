// @ts-check
// Time by line of a program, of its thread blocks: counterpart of engine/cacheline/program_times.py, and of `line_times`
// of views/source.py without the critical path, which needs Python.

import { DRAINING, eachOperationSpan } from "./lines_spans.js";
import { needsPython } from "./needs.js";
import { truthy } from "./options.js";

/** @import { LineAnswers, Engine } from "./types" */

const STATES = ["issue or data", "signal", "semaphore", "fence"]; // of spans, by number

/** From the start to the end of the last thread block; up to now while it runs. @param {Engine} engine */
export function runTime({ tables: { clock, blocks, gpus }, finished, now_ps }) {
  // A link may still fail or come back when all is done.
  const over = finished() || clock.at.done(0) === blocks.rows;
  return over ? gpus.column("ended_ps").reduce((last, ended) => Math.max(last, ended), -1) : now_ps();
}

/**
 * The line of each operation: which of the places of the program's text.
 * @param {Engine} engine
 * @returns {{ places: [part: number, line: number][], of: Uint32Array }}
 */
export function linesOf({ live, tables: { blocks, ops } }) {
  const { places, sequences, blocks: numbers } = live.about.lines;
  const of = new Uint32Array(ops.rows);
  numbers.forEach((/** @type {number} */ sequence, /** @type {number} */ block) => of.set(sequences[sequence], blocks.at.first_op(block)));
  return { places, of };
}

/** @type {LineAnswers} */
export const times = {
  line_times(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const { engine } = sim;
    if (engine.count("events") > 0 && truthy(options.path)) needsPython("critical_path");
    const { blocks, ops } = engine.tables;
    const { places, of } = linesOf(engine);
    const rows = places.map(([part, line]) => ({ part, line, operations: 0, states: STATES.map(() => 0), block_ps: 0 }));
    for (let op = 0; op < ops.rows; op++) if (ops.at.started_ps(op) >= 0) rows[of[op]].operations++;
    let within = 0;
    eachOperationSpan(engine, 0, engine.now_ps(), null, (block, op, state, start, end) => {
      // A fence belongs to the operation that stands behind it; at the end of a block to the last one.
      const row = rows[of[op + Number(state === DRAINING && op + 1 < blocks.at.last_op(block))]];
      row.states[state] += end - start;
      row.block_ps += end - start;
      within += end - start;
    });
    const totalPs = runTime(engine);
    const shown = rows.filter(({ part, operations, block_ps }) => part >= 0 && (operations || block_ps));
    return [
      {
        rows: shown.map(({ states, ...row }) => ({
          ...row, states: { ...Object.fromEntries(STATES.map((name, state) => [name, states[state]])) }, path_ps: -1,
        })),
        time_ps: totalPs, block_ps: totalPs * blocks.rows,
        outside: { block_ps: totalPs * blocks.rows - within, path_ps: -1 },
        path: false, events: engine.count("events"),
      },
      [],
    ];
  },
};
