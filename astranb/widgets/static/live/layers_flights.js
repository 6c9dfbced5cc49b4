// @ts-check
// Messages on the links of ASTRA-sim 1.0's networks, derived from phases: counterpart of engine/layers/flights.py.

import { recent } from "./operations_engine.js";

/** @import { Numbers, Recorded } from "./operations_types" */
/** @import { Tables } from "./types" */

const MOST = 2 ** 18; // messages that are given at once; of more, those of the latest phases

/**
 * Messages of the phases that have ended, from a number of the recording on, and of those under way.
 * @param {Tables} tables
 * @param {{ of: Numbers, crossing: Numbers, crossings: Record<string, Numbers>[] }} known operations of the program's rows; which links the messages of a phase cross
 * @param {number} since
 * @returns {Recorded}
 */
export function layerFlights(tables, { of, crossing, crossings }, since) {
  const { watch, passed, streams, phases, collectives, chunks } = tables;
  const total = watch.at.passed(0);
  const kept = recent(tables);
  const first = Math.max(since, total - kept.length);
  /** @type {{ phase: number, begun: number, ended: number, operation: number, chunk: number, nth: number }[]} */
  const every = kept.slice(kept.length - (total - first)).map((row) => ({
    phase: passed.at.phase(row), begun: passed.at.begun_ps(row), ended: passed.at.end_ps(row),
    operation: of[passed.at.operation(row)], chunk: passed.at.chunk(row), nth: passed.at.nth(row),
  }));
  const over = every.length;
  for (let row = 0; row < streams.rows; row++) {
    if (streams.at.running(row) !== 1) continue;
    const [phase, one, begun] = [streams.at.phase(row), streams.at.collective(row), streams.at.started_ps(row)];
    every.push({
      phase, begun, ended: begun + phases.at.duration_ps(phase), operation: of[collectives.at.operation(one)],
      chunk: streams.at.chunk(row) - collectives.at.first_chunk(one), nth: 1 + phase - chunks.at.first_phase(streams.at.chunk(row)),
    });
  }
  let lost = every.length;
  for (let count = 0; lost > 0; lost--) {
    count += crossings[crossing[every[lost - 1].phase]].link.length;
    if (count > MOST) break;
  }
  /** @type {Recorded["flights"]} */
  const found = { link: [], source: [], target: [], bytes: [], operation: [], chunk: [], phase: [], step: [], queued_ps: [], start_ps: [], end_ps: [] };
  let settled = 0;
  every.forEach(({ phase, begun, ended, operation, chunk, nth }, at) => {
    if (at < lost) return;
    const { link, source, target, step, part, steps, nth: place, count } = crossings[crossing[phase]];
    const [whole, length] = [phases.at.bytes(phase), ended - begun];
    for (let k = 0; k < link.length; k++) {
      const from = begun + Math.floor((length * step[k]) / steps[k]);
      const wide = begun + Math.floor((length * (step[k] + 1)) / steps[k]) - from;
      found.link.push(link[k]);
      found.source.push(source[k]);
      found.target.push(target[k]);
      found.bytes.push(part[k] > 0 ? Math.floor(whole / part[k]) : whole * -part[k]);
      found.operation.push(operation);
      found.chunk.push(chunk);
      found.phase.push(nth);
      found.step.push(step[k] + 1);
      found.queued_ps.push(from + Math.floor((wide * place[k]) / count[k]));
      found.start_ps.push(from + Math.floor((wide * place[k]) / count[k]));
      found.end_ps.push(from + Math.floor((wide * (place[k] + 1)) / count[k]));
    }
    if (at < over) settled += link.length;
  });
  return { first: first + Math.min(lost, total - first), total, flights: found, settled };
}
