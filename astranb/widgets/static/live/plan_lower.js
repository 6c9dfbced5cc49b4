// @ts-check
// From a program to the tables that the machine runs: counterpart of collectives/lowering/lower.py and columns.py.

import { InputError } from "./errors.js";
import { COMPUTE, FLUSH, INITIAL, LINE_BY_LINE, MOVE, NEVER_SEEN, NIC, NOTIFY, COPY_ENGINE, SPEND, UNWRITTEN, WAIT } from "./gpu_numbers.js";
import { BUFFERS, SWITCH_READS } from "./plan.js";
import { createExtents } from "./plan_extents.js";
import { paces } from "./plan_fences.js";
import { repr } from "./text.js";

/** @import { Chunk } from "./plan.js" */
/** @import { Operation, Program } from "./plan_program.js" */

/** Fields of all records of a table, by name; those left out are 0. @typedef {Record<string, Float64Array>} Records */
/** Tables of a program, and what else the layout of a machine depends on.
 * @typedef {{
 *   blocks: Records, ops: Records, operands: Records, slices: Records, semaphores: Records, phases: Records,
 *   rows: { blocks: number, ops: number, operands: number, slices: number, semaphores: number, phases: number },
 *   lines: Float64Array, flags: number, channels: Float64Array,
 * }} Lowered
 */
/** What of a GPU the tables of a program depend on. @typedef {{ line_bytes: number, bulk_lines: number, engine_lines: number, nic_lines: number, nic_post_ps: number }} LinesOf */

/** @type {Record<string, number>} */
const UNITS = { sm: 0, engine: COPY_ENGINE, nic: NIC };
/** @type {Record<string, number>} */
const KINDS = { move: MOVE, signal: NOTIFY, wait: WAIT, fence: FLUSH, compute: COMPUTE };
/** @type {Record<string, [part: number, whole: number]>} the fraction of a line of packets that is data */
const PACKET_DATA = { LL: [1, 2], LL128: [120, 128] };
const SHARE = -1; // what a block of a collective holds of an SM: one of as many as the preset says
const PACKETS = BUFFERS.indexOf("packets");
const INPUT = BUFFERS.indexOf("input");

/** @param {number} count @param {number} [value] */
export const filled = (count, value = 0) => new Float64Array(count).fill(value);
/** Sums of what comes before each value. @param {Float64Array} counts */
export function before(counts) {
  let sum = 0;
  return counts.map((count) => (sum += count) - count);
}

/**
 * Lay out memory, cut chunks into slices and convert operations to tables.
 * @param {Program} program
 * @param {string} kind the collective
 * @param {number} size bytes of the larger buffer of a rank
 * @param {LinesOf} gpu
 * @returns {Lowered}
 */
export function lower(program, kind, size, gpu) {
  if (!program.blocks.length) throw new InputError("the algorithm added no thread block", { where: `program ${repr(program.name)}` });
  const units = Object.keys(UNITS);
  // On each rank the blocks of SMs come first, then those of copy engines and NICs.
  const blocks = [...program.blocks].sort((a, b) => a.rank - b.rank || units.indexOf(a.unit) - units.indexOf(b.unit));
  const operations = blocks.flatMap((block) => block.operations);
  const firsts = before(Float64Array.from(blocks, (block) => block.operations.length));
  const blockOf = filled(operations.length);
  blocks.forEach((block, b) => blockOf.fill(b, firsts[b], firsts[b] + block.operations.length));
  const [part, whole] = PACKET_DATA[program.protocol] ?? PACKET_DATA.LL;
  const packetBytes = Math.floor((gpu.line_bytes * part) / whole);
  const { chunks, numbers } = numbered(program, operations);
  const slices = slicesOf(program, kind, size, gpu.line_bytes, packetBytes, operations, chunks, numbers);
  const semaphores = { gpu: Float64Array.from(program.semaphores), line: Float64Array.from(program.semaphores, (rank) => slices.lines[rank]++) };
  refusePackets(program, operations, blocks.map(({ rank }) => rank), blockOf);
  const unit = Float64Array.from(blocks, (block) => UNITS[block.unit]);
  const made = operationTables(operations, { blockOf, firsts, unit }, numbers, slices.table, semaphores, gpu, packetBytes);
  const count = blocks.length;
  const channels = Float64Array.from(blocks, ({ channel }) => channel);
  return {
    blocks: {
      gpu: Float64Array.from(blocks, ({ rank }) => rank), first_op: firsts, last_op: firsts.map((first, b) => first + blocks[b].operations.length),
      engine: unit, held: filled(count, SHARE),
    },
    ops: made.ops, operands: made.operands, slices: slices.table, semaphores,
    phases: { left: Float64Array.of(operations.length), started_ps: Float64Array.of(-1), ended_ps: Float64Array.of(-1) },
    rows: {
      blocks: count, ops: operations.length, operands: made.count, slices: chunks.length, semaphores: program.semaphores.length, phases: 1,
    },
    lines: slices.lines, flags: slices.flags, channels,
  };
}

/**
 * All chunks, also those of inputs and outputs that nobody moves, in ascending order of rank, buffer, index and slice;
 * and of each source and target of the operations the number of its chunk.
 * @param {Program} program @param {Operation[]} operations
 */
function numbered(program, operations) {
  let span = Math.max(program.inputs, program.outputs);
  let channels = program.width;
  for (const { sources, targets } of operations) {
    for (const chunks of [sources, targets]) {
      for (const { index, channel } of chunks) [span, channels] = [Math.max(span, index + 1), Math.max(channels, channel + 1)];
    }
  }
  if (program.ranks * BUFFERS.length * span * channels > Number.MAX_SAFE_INTEGER) {
    throw new InputError(`a chunk of scratch has the index ${span - 1}`, { hint: "use smaller indices" });
  }
  /** @param {number} rank @param {number} buffer @param {number} index @param {number} channel */
  const key = (rank, buffer, index, channel) => ((rank * BUFFERS.length + buffer) * span + index) * channels + channel;
  /** @param {Chunk} chunk */
  const keyOf = ({ rank, buffer, index, channel }) => key(rank, BUFFERS.indexOf(buffer), index, channel);
  const moved = filled(operations.reduce((sum, { sources, targets }) => sum + sources.length + targets.length, 0));
  let at = 0;
  for (const { sources, targets } of operations) {
    for (const chunk of sources) moved[at++] = keyOf(chunk);
    for (const chunk of targets) moved[at++] = keyOf(chunk);
  }
  /** @type {Map<number, number>} */
  const number = new Map();
  for (const one of moved) number.set(one, -1);
  for (let rank = 0; rank < program.ranks; rank += 1) {
    [program.inputs, program.outputs].forEach((count, buffer) => {
      for (let index = 0; index < count; index += 1) {
        for (let channel = 0; channel < program.width; channel += 1) number.set(key(rank, buffer, index, channel), -1);
      }
    });
  }
  const keys = Float64Array.from(number.keys()).sort();
  keys.forEach((one, k) => number.set(one, k));
  const chunks = Array.from(keys, (one) => {
    const place = Math.floor(one / channels);
    const buffer = Math.floor(place / span);
    return { rank: Math.floor(buffer / BUFFERS.length), buffer: BUFFERS[buffer % BUFFERS.length], index: place % span, channel: one % channels };
  });
  return { chunks, numbers: moved.map((one) => /** @type {number} */ (number.get(one))) };
}

/**
 * Lay out the slices of every chunk in its rank's memory.
 * @param {Program} program @param {string} kind @param {number} size @param {number} lineBytes @param {number} packetBytes
 * @param {Operation[]} operations @param {Chunk[]} chunks @param {Float64Array} numbers
 */
function slicesOf(program, kind, size, lineBytes, packetBytes, operations, chunks, numbers) {
  const extents = createExtents(program, kind, size, lineBytes);
  const { lines, bytes } = extents.settle(operations, chunks, numbers);
  const used = filled(program.ranks);
  /** @type {Record<string, Float64Array>} */
  const table = {
    gpu: Float64Array.from(chunks, ({ rank }) => rank), buffer: Float64Array.from(chunks, ({ buffer }) => BUFFERS.indexOf(buffer)),
    chunk: Float64Array.from(chunks, ({ index }) => index), channel: Float64Array.from(chunks, ({ channel }) => channel),
    line: filled(chunks.length), lines, bytes, writing: filled(chunks.length, -1), flag: filled(chunks.length, -1),
    writer: Float64Array.from(chunks, ({ buffer }) => (buffer === "input" ? INITIAL : UNWRITTEN)),
  };
  let flags = 0;
  chunks.forEach(({ rank, buffer }, k) => {
    if (buffer === "packets") {
      lines[k] = Math.ceil(bytes[k] / packetBytes);
      table.flag[k] = flags;
      flags += lines[k];
    }
    table.line[k] = used[rank];
    used[rank] += lines[k];
  });
  return { table, lines: used, flags };
}

/**
 * Refuse packets that a switch would have to add: their flags would be summed too.
 * @param {Program} program @param {Operation[]} operations @param {number[]} ranks of blocks @param {Float64Array} blockOf
 */
function refusePackets(program, operations, ranks, blockOf) {
  const bad = operations.findIndex(({ inSwitch, sources, targets }) => inSwitch & SWITCH_READS && [...sources, ...targets].some(({ buffer }) => buffer === "packets"));
  if (bad < 0) return;
  const where = `program ${repr(program.name)}, rank ${ranks[blockOf[bad]]}`;
  throw new InputError("cannot be simulated: packets that a switch adds", { where });
}

/**
 * The tables of operations and operands.
 * @param {Operation[]} operations
 * @param {{ blockOf: Float64Array, firsts: Float64Array, unit: Float64Array }} placed
 * @param {Float64Array} numbers the slice of each source and target
 * @param {Records} slices @param {Records} semaphores @param {LinesOf} gpu @param {number} packetBytes
 */
function operationTables(operations, { blockOf, firsts, unit }, numbers, slices, semaphores, gpu, packetBytes) {
  const rows = operations.length;
  const bulk = [gpu.bulk_lines, gpu.engine_lines, gpu.nic_lines];
  const own = () => filled(rows);
  /** @type {Record<string, Float64Array>} */
  const ops = {
    kind: Float64Array.from(operations, ({ kind }) => KINDS[kind]), block: blockOf, first_source: own(), sources: own(), first_target: own(), targets: own(),
    semaphore: Float64Array.from(operations, ({ semaphore }) => semaphore), value: Float64Array.from(operations, ({ value }) => value), fence: own(),
    in_switch: Float64Array.from(operations, ({ inSwitch }) => inSwitch), spins: own(), payload: own(), last_bytes: own(),
    number: Float64Array.from(blockOf, (b, op) => op - firsts[b]), ahead: own(), before: own(), lines: own(), left: own(),
    started_ps: filled(rows, -1), issued_ps: filled(rows, -1), ended_ps: filled(rows, -1),
  };
  const moved = operations.reduce((sum, { sources, targets }) => sum + sources.length + targets.length, 0);
  const count = moved + operations.reduce((sum, { semaphore }) => sum + (semaphore >= 0 ? 1 : 0), 0);
  const operands = {
    gpu: filled(count), slice: filled(count, -1), stride: filled(count), flag: filled(count, -1), line: filled(count), seen: filled(count, NEVER_SEEN),
  };
  let [row, at] = [0, 0]; // in the table, and in `numbers`
  const firstChunk = own();
  operations.forEach((operation, op) => {
    const { kind, sources, targets, semaphore } = operation;
    const chunks = sources.length + targets.length;
    const spins = sources.some(({ buffer }) => buffer === "packets");
    const packed = spins || targets.some(({ buffer }) => buffer === "packets");
    const engine = unit[blockOf[op]];
    firstChunk[op] = at;
    [ops.first_source[op], ops.sources[op]] = [row, sources.length];
    [ops.first_target[op], ops.targets[op]] = [row + sources.length, targets.length];
    const payload = packed ? packetBytes : gpu.line_bytes * bulk[engine];
    const bytes = kind === "move" ? slices.bytes[numbers[at]] : 0;
    const lines = Math.ceil(bytes / payload);
    ops.payload[op] = payload;
    ops.spins[op] = spins ? (2 * packetBytes > gpu.line_bytes ? 2 : 1) : 0; // LL128, LL
    ops.lines[op] = ops.left[op] = lines;
    ops.last_bytes[op] = lines > 0 ? bytes - (lines - 1) * payload : 0;
    for (let k = 0; k < chunks; k += 1, row += 1, at += 1) {
      const slice = numbers[at];
      operands.slice[row] = slice;
      operands.stride[row] = slices.buffer[slice] === PACKETS ? gpu.line_bytes : payload;
      [operands.flag[row], operands.gpu[row], operands.line[row]] = [slices.flag[slice], slices.gpu[slice], slices.line[slice]];
    }
    if (semaphore >= 0) {
      [operands.gpu[row], operands.line[row]] = [semaphores.gpu[semaphore], semaphores.line[semaphore]];
      row += 1;
    }
  });
  pace(operations, ops, firstChunk, numbers, unit, firsts);
  for (const line of lineByLine(ops, operands)) operands.flag[line] = LINE_BY_LINE;
  writtenAgain(ops, operands, slices).forEach((alike, number) => alike.forEach((op) => (ops.value[op] = number + 1)));
  operations.forEach(({ kind }, op) => {
    if (unit[blockOf[op]] !== NIC || kind !== "compute") return;
    [ops.kind[op], ops.left[op], ops.value[op]] = [SPEND, gpu.nic_post_ps, 0];
  });
  return { ops, operands, count };
}

/**
 * Set the fences, and which moves are one loop.
 * @param {Operation[]} operations @param {Records} ops @param {Float64Array} firstChunk @param {Float64Array} numbers
 * @param {Float64Array} unit @param {Float64Array} firsts
 */
function pace(operations, ops, firstChunk, numbers, unit, firsts) {
  const { fence, ahead } = paces(operations, firstChunk, numbers, ops.block, firsts);
  let [done, start] = [0, 0];
  operations.forEach((_, op) => {
    // The lines of the moves before it in its loop: from the last one that began a loop or read packets.
    if (!ahead[op] || (op > 0 && ops.spins[op - 1] > 0)) start = done;
    ops.fence[op] = unit[ops.block[op]] === NIC ? 0 : fence[op]; // what a NIC writes arrives in order
    [ops.ahead[op], ops.before[op]] = [ahead[op], done - start];
    done += ops.lines[op];
  });
}

/**
 * Moves that store the same data to the same slice: sums of the same inputs that nobody writes.
 * @param {Records} ops @param {Records} operands @param {Records} slices
 * @returns {number[][]}
 */
function writtenAgain(ops, operands, slices) {
  const times = filled(slices.gpu.length);
  /** @type {number[]} */
  const moves = [];
  ops.kind.forEach((kind, op) => {
    if (kind !== MOVE) return;
    moves.push(op);
    for (let k = 0; k < ops.targets[op]; k += 1) times[operands.slice[ops.first_target[op] + k]] += 1;
  });
  if (!times.some((count) => count > 1)) return [];
  /** @type {Map<string, number[]>} */
  const alike = new Map();
  for (const op of moves) {
    const [first, middle] = [ops.first_source[op], ops.first_target[op]];
    const [sources, targets] = [operands.slice.slice(first, middle), operands.slice.slice(middle, middle + ops.targets[op])];
    if (!sources.every((slice) => slices.buffer[slice] === INPUT && times[slice] === 0)) continue;
    if (!operands.flag.subarray(first, middle + targets.length).every((flag) => flag < 0)) continue;
    const key = `${sources.sort()} > ${targets.sort()}`;
    alike.set(key, [...(alike.get(key) ?? []), op]);
  }
  return [...alike.values()].filter((group) => group.length > 1);
}

/**
 * Sources that are written only by operations that wait for packets of their reader.
 * @param {Records} ops @param {Records} operands
 * @returns {number[]} rows of operands
 */
function lineByLine(ops, operands) {
  if (!operands.flag.some((flag) => flag >= 0)) return [];
  /** @type {Map<number, [op: number, row: number][]>} that store packets, by slice */
  const readers = new Map();
  /** @type {Map<number, number[]>} by slice of packets */
  const senders = new Map();
  /** @type {Map<number, number[]>} slices of packets, by operation */
  const received = new Map();
  /** @template V @param {Map<number, V[]>} map @param {number} key @param {V} value */
  const add = (map, key, value) => {
    const found = map.get(key);
    if (found) found.push(value);
    else map.set(key, [value]);
  };
  /** @param {number} first @param {number} count */
  const range = (first, count) => Array.from({ length: count }, (_, k) => first + k);
  /** @param {number} row */
  const packed = (row) => operands.flag[row] >= 0;
  ops.kind.forEach((kind, op) => {
    if (kind !== MOVE) return;
    const sources = range(ops.first_source[op], ops.sources[op]);
    const sent = range(ops.first_target[op], ops.targets[op]).filter(packed);
    for (const row of sent) add(senders, operands.slice[row], op);
    received.set(op, sources.filter(packed).map((row) => operands.slice[row]));
    if (sent.length) for (const row of sources) if (!packed(row)) add(readers, operands.slice[row], /** @type {[number, number]} */ ([op, row]));
  });
  /** @type {Map<number, number[]>} */
  const writers = new Map();
  for (const op of received.keys()) {
    for (const row of range(ops.first_target[op], ops.targets[op])) if (readers.has(operands.slice[row])) add(writers, operands.slice[row], op);
  }
  return [...writers].flatMap(([slice, of]) => {
    const earlier = of.map((op) => behind(op, received, senders));
    return (readers.get(slice) ?? []).filter(([op]) => earlier.every((those) => those.has(op))).map(([, row]) => row);
  });
}

/**
 * The operations whose packets an operation waits for, directly or through others.
 * @param {number} op @param {Map<number, number[]>} received @param {Map<number, number[]>} senders
 */
function behind(op, received, senders) {
  /** @type {Set<number>} */
  const found = new Set();
  const rest = [op];
  while (rest.length) {
    for (const slice of received.get(/** @type {number} */ (rest.pop())) ?? []) {
      const of = senders.get(slice) ?? [];
      if (of.length !== 1 || found.has(of[0])) continue; // of several it is not known which of them came first
      found.add(of[0]);
      rest.push(of[0]);
    }
  }
  return found;
}
