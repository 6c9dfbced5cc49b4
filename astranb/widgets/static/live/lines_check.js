// @ts-check
// Whether a run can go on, and has ended with what it promised: counterpart of `check` of engine/cacheline/state.py and
// of collectives/proof/check.py.

import { Deadlock, InputError, WrongResult } from "./errors.js";
import { eventsOf } from "./event_queue.js";
import { EVENT_KINDS, NEVER } from "./gpu_numbers.js";
import { MIXED, NOTHING, createContents, kept, promised, spread } from "./lines_contents.js";
import { explainDeadlock, explainStranded } from "./lines_deadlock.js";
import { objectOf } from "./lines_narrating.js";
import { DEADLOCK, EXHAUSTED, STRANDED, TIME } from "./stops.js";
import { commas } from "./text.js";

/** @import { Engine, Live, Tables } from "./types" */
/** @import { Contents } from "./lines_contents" */

const BUFFERS = ["input", "output", "scratch", "packets"];

/**
 * Throw an error where the run cannot go on, or not before NEVER, or has ended wrongly.
 * @param {Engine} engine
 * @param {number} why a number of stops.js
 */
export function check(engine, why) {
  const { clock, blocks } = engine.tables;
  if (why === TIME && engine.next_ps() >= NEVER) throw tooLate(engine);
  if (why === EXHAUSTED) throw new Error(`a run of ${commas(clock.at.events(0))} events: no more can be counted, make it smaller`);
  if (why === DEADLOCK || (engine.finished() && clock.at.done(0) < blocks.rows)) throw new Deadlock(explainDeadlock(engine));
  if (why === STRANDED) throw new Deadlock(explainStranded(engine, engine.edits));
  if (engine.finished()) checkResult(engine);
}

/** What comes next would be after more time than is counted. @param {Engine} engine */
function tooLate(engine) {
  const [{ kind, arg }] = eventsOf(engine.tables);
  const where = objectOf(engine, kind, arg);
  const what = where ? `${EVENT_KINDS[kind]} of ${where}` : EVENT_KINDS[kind];
  const hint = "use smaller times and sizes, or faster links";
  return new InputError(`${engine.live.title}: ${what} would be after more than 26 days of simulated time`, { hint });
}

/** Compare every output with what the collective promises. @param {Engine} engine */
function checkResult(engine) {
  const { live, tables } = engine;
  const { slices } = tables;
  const wanted = promised(live);
  const held = createContents(live, tables).slices();
  const right = kept(wanted, held);
  const wrong = [...wanted.pattern.keys()].filter((slice) => wanted.pattern[slice] >= 0 && !right[slice]);
  if (!wrong.length) return;
  const [first] = wrong;
  const { name, parts } = live.about.program;
  const rank = slices.at.gpu(first);
  if (parts.length) { // of a workload
    const [part] = parts.find((/** @type {[name: string, end: number]} */ [, end]) => first < end);
    throw new WrongResult(`${part}: wrong result on rank ${rank}`);
  }
  const chunks = new Set(wrong.map((slice) => `${slices.at.gpu(slice)} ${slices.at.chunk(slice)}`)).size;
  const channel = slices.column("channel").some((one) => one) ? `, channel ${slices.at.channel(first)}` : "";
  const place = `rank ${rank}, ${BUFFERS[slices.at.buffer(first)]} chunk ${slices.at.chunk(first)}${channel}`;
  const more = chunks > 1 ? ` (and ${chunks - 1} more chunks)` : "";
  throw new WrongResult(`${name}: wrong result on ${place}: ${faultText(engine, held, first)}${more}`);
}

/**
 * How what a slice holds differs from what was promised.
 * @param {Engine} engine
 * @param {Contents} held
 * @param {number} slice
 */
function faultText({ live, tables }, held, slice) {
  const { patterns, pattern, chunk } = promised(live);
  const times = [...held.times.subarray(slice * held.columns, (slice + 1) * held.columns)];
  const [found, wanted] = [held.chunk[slice], chunk[slice]];
  if (found === NOTHING) return "it was never written";
  if (found === MIXED && !times.some((one) => one)) {
    return "it was written while another write was under way, or from memory that was never written";
  }
  const there = patterns[pattern[slice]];
  /** @param {(column: number) => boolean} holds */
  const where = (holds) => [...times.keys()].filter(holds);
  const torn = "parts were read while they were being written, or different chunks were added";
  const twice = where((one) => times[one] > 1);
  if (live.about.contents.layout) {
    const other = found !== MIXED && found !== wanted;
    /** @param {number} item @param {number[]} columns */
    const named = (item, columns) => columns.map((column) => contribution(live, tables, item, column));
    const missing = named(wanted, where((one) => there[one] && (times[one] === 0 || other)));
    const extra = named(other ? found : wanted, where((one) => times[one] > 0 && (!there[one] || other)));
    return [
      ...(missing.length ? [`${missing.join(", ")} is missing`] : []),
      ...(other ? [] : twice.map((one) => `${named(wanted, [one])[0]} is there ${times[one]} times`)),
      ...(found === MIXED ? [torn] : extra.length ? [`${extra.join(", ")} should not be in it`] : []),
    ].join("; ");
  }
  const missing = where((one) => there[one] && times[one] === 0);
  const extra = where((one) => !there[one] && times[one] > 0);
  return [
    ...(missing.length ? [`the contribution of rank ${missing.join(", ")} is missing`] : []),
    ...twice.map((rank) => `rank ${rank}'s contribution is there ${times[rank]} times`),
    ...(extra.length ? [`rank ${extra.join(", ")} should not be in it`] : []),
    ...(found === MIXED ? [torn] : found !== wanted ? [`it holds chunk ${found} instead of chunk ${wanted}`] : []),
  ].join("; ");
}

/** A contribution that is counted apart: `rank 3 input[5]`. @param {Live} live @param {Tables} tables @param {number} item @param {number} column */
function contribution(live, { slices }, item, column) {
  const { layout, columns } = live.about.contents;
  const [columnOf, itemOf] = [spread(layout.inputs, 1), spread(layout.inputs, 2)];
  const slice = itemOf.findIndex((one, k) => one === item && columnOf[k] === column);
  if (slice < 0) return `rank ${Math.floor(column / (columns / live.about.gpus.length))}'s contribution`;
  return `rank ${slices.at.gpu(slice)} input[${slices.at.chunk(slice)}]`;
}
