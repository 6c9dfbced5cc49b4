// @ts-check
// Contents of a buffer: which lines have arrived, from which rank, and whose contributions they hold. Counterpart of
// engine/cacheline/memory.py.

import { InputError, near } from "./errors.js";
import { INITIAL, MOVE, UNWRITTEN } from "./gpu_numbers.js";
import { createContents } from "./lines_contents.js";
import { BUFFERS, byRank } from "./lines_contributions.js";
import { repr } from "./text.js";

/** @import { Engine, Tables } from "./types" */

/**
 * @typedef {object} BufferContent
 * @property {number[]} slices by chunk and channel: in the order of their addresses
 * @property {number[]} first where the lines of each begin among all, and where the last ones end
 * @property {Int32Array} source of each line, the rank that wrote it; -1: it has not arrived
 * @property {Int32Array} number of each line, the row of `times` with the contributions in it; -1: none
 * @property {Int32Array[]} times how often each rank's contribution is in what one operation wrote
 * @property {boolean[]} final whether no operation of the program will write a slice any more
 * @property {boolean} by_line whether each line is known; else only how many of a slice have arrived
 */

/** The slices of each buffer of a rank, by the number of the buffer. @param {Tables} tables @param {number} rank @returns {number[][]} */
export function slicesOf({ slices }, rank) {
  const found = BUFFERS.map(() => /** @type {number[]} */ ([]));
  const { gpu, buffer } = slices.at;
  for (let slice = 0; slice < slices.rows; slice++) if (gpu(slice) === rank) found[buffer(slice)].push(slice);
  return found;
}

/**
 * Look at a buffer, now.
 * @param {Engine} engine
 * @param {number} rank
 * @param {string} buffer
 * @returns {BufferContent}
 */
export function bufferOf(engine, rank, buffer) {
  const { live, tables } = engine;
  const { slices, ops, blocks, recorder } = tables;
  const ranks = tables.gpus.rows;
  if (rank < 0 || rank >= ranks) throw new InputError(`there is no rank ${rank}`, { where: "memory", hint: `0 to ${ranks - 1}` });
  if (!BUFFERS.includes(buffer)) throw new InputError(`unknown buffer ${repr(buffer)}`, { where: "memory", hint: near(buffer, BUFFERS) });
  const mine = slicesOf(tables, rank)[BUFFERS.indexOf(buffer)];
  if (!mine.length) throw new InputError(`${live.about.contents.program} has no ${buffer} on rank ${rank}`, { where: "memory" });
  const first = [0];
  for (const slice of mine) first.push(first[first.length - 1] + slices.at.lines(slice));
  const lines = first[mine.length];
  const [source, number] = [new Int32Array(lines).fill(-1), new Int32Array(lines).fill(-1)];
  const contents = createContents(live, tables, { open: true });
  /** @type {Map<number, [source: number, number: number]>} by the operation that wrote a line */
  const known = new Map();
  /** @type {Int32Array[]} */
  const times = [];
  const byLine = Boolean(recorder.at.landing(0));
  mine.forEach((slice, k) => {
    const writerOf = byLine ? recorded(tables, slice) : counted(tables, slice);
    for (let line = first[k]; line < first[k + 1]; line++) {
      const writer = writerOf(line - first[k]);
      if (writer < INITIAL) continue;
      let found = known.get(writer);
      if (!found) {
        const from = writer === INITIAL ? rank : blocks.at.gpu(ops.at.block(writer));
        found = [from, times.length];
        known.set(writer, found);
        times.push(writer === INITIAL ? Int32Array.from({ length: ranks }, (_, one) => Number(one === rank)) : byRank(contents.of(writer), ranks));
      }
      [source[line], number[line]] = found;
    }
  });
  return { slices: mine, first, source, number, times, final: finalOf(tables, mine), by_line: byLine };
}

/** Who wrote each line of a slice last, as it was recorded. @param {Tables} tables @param {number} slice @returns {(line: number) => number} */
function recorded({ landed, places }, slice) {
  const from = places.at.value(slice);
  return (line) => landed.at.value(from + line);
}

/** The same, where only the lines that have arrived are counted: they are shown as the first ones. @param {Tables} tables @param {number} slice @returns {(line: number) => number} */
function counted({ slices, ops }, slice) {
  const [writing, writer, lines] = [slices.at.writing(slice), slices.at.writer(slice), slices.at.lines(slice)];
  const covered = writing < 0 ? 0 : slices.at.arrived(slice) * Math.ceil(lines / Math.max(1, ops.at.lines(writing)));
  return (line) => (line < covered ? writing : writer);
}

/** Whether no operation will write to slices any more. @param {Tables} tables @param {number[]} of */
function finalOf({ ops, operands, slices }, of) {
  const open = new Uint8Array(slices.rows);
  const { kind, lines, targets, first_target: firstTarget, ended_ps: endedPs } = ops.at;
  for (let op = 0; op < ops.rows; op++) {
    if (kind(op) !== MOVE || lines(op) <= 0 || endedPs(op) >= 0) continue;
    for (let k = firstTarget(op); k < firstTarget(op) + targets(op); k++) {
      const slice = operands.at.slice(k);
      if (slices.at.writer(slice) !== op) open[slice] = 1;
    }
  }
  return of.map((slice) => !open[slice] && slices.at.writing(slice) < 0 && slices.at.writer(slice) !== UNWRITTEN);
}
