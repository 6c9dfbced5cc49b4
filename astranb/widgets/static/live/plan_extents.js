// @ts-check
// The lines and bytes of every slice: counterpart of `Extents` of collectives/lowering/lower.py.

import { InputError } from "./errors.js";
import { repr } from "./text.js";

/** @import { Chunk } from "./plan.js" */
/** @import { Operation, Program } from "./plan_program.js" */

const FIRST_SENT = 2 ** 24;

/** Name a chunk as errors do. @param {Chunk} chunk */
const named = ({ rank, buffer, index }) => `rank ${rank} ${buffer}[${index >= FIRST_SENT ? `sent ${index - FIRST_SENT}` : index}]`;

/**
 * Inputs and outputs follow from the collective: its data is ceil(size / line) lines, cut into equal chunks of whole
 * lines, of which the last ones may be short or empty. A slice of scratch is as large as what is stored there.
 * @param {Program} program @param {string} kind @param {number} size @param {number} lineBytes
 */
export function createExtents(program, kind, size, lineBytes) {
  const parts = Math.max(program.inputs, program.outputs);
  const total = Math.ceil(size / lineBytes);
  const chunkLines = Math.ceil(total / parts);
  const each = Math.ceil(chunkLines / program.width);
  const where = `program ${repr(program.name)}`;

  /** The part of the data that a chunk is. @param {Chunk} chunk */
  function partOf({ rank, buffer, index }) {
    if (kind === "custom") return index;
    const count = buffer === "input" ? program.inputs : program.outputs;
    if (kind === "all_to_all" && buffer === "output") {
      const own = Math.floor(count / program.ranks); // what comes from a rank is its chunks for this rank
      return rank * own + (index % own);
    }
    return count < parts ? rank * count + index : index;
  }
  /** Lines and bytes of one slice of one part of the data. @param {number} part @param {number} channel @returns {[number, number]} */
  function ofPart(part, channel) {
    const first = channel * each + part * chunkLines;
    const lines = Math.max(0, Math.min(Math.min(total, (part + 1) * chunkLines) - first, each));
    return [lines, Math.min(lines * lineBytes, Math.max(0, size - first * lineBytes))];
  }

  /**
   * The lines and bytes of all chunks.
   * @param {Operation[]} operations @param {Chunk[]} chunks
   * @param {Float64Array} numbers the chunk of each source and target
   */
  function settle(operations, chunks, numbers) {
    const [lines, bytes] = [new Float64Array(chunks.length).fill(-1), new Float64Array(chunks.length).fill(-1)];
    chunks.forEach((chunk, k) => {
      if (chunk.buffer === "input" || chunk.buffer === "output") [lines[k], bytes[k]] = ofPart(partOf(chunk), chunk.channel);
    });
    let at = 0;
    /** @type {Float64Array[]} */
    let open = [];
    for (const { kind: what, sources, targets } of operations) {
      const count = sources.length + targets.length;
      if (what === "move") open.push(numbers.subarray(at, at + count));
      at += count;
    }
    while (open.length) {
      /** @type {Float64Array[]} */
      const rest = [];
      for (const moved of open) {
        const known = moved.find((k) => lines[k] >= 0);
        if (known === undefined) {
          rest.push(moved);
          continue;
        }
        if (moved.some((k) => lines[k] >= 0 && (lines[k] !== lines[known] || bytes[k] !== bytes[known]))) {
          const sizes = Array.from(moved).filter((k) => lines[k] >= 0).map((k) => `${named(chunks[k])} has ${bytes[k]} B`);
          throw new InputError(`a move between chunks of different sizes: ${sizes.join(", ")}`, { where, hint: "move chunks of equal size" });
        }
        for (const k of moved) [lines[k], bytes[k]] = [lines[known], bytes[known]];
      }
      if (rest.length === open.length) {
        const [first] = rest[0];
        if (kind !== "custom") throw new InputError(`${named(chunks[first])} is read, but never written`, { where });
        // Nothing is checked, so memory that nobody has written may be read: a whole chunk of it.
        [lines[first], bytes[first]] = ofPart(0, chunks[first].channel);
      }
      open = rest;
    }
    return { lines, bytes };
  }
  return { settle };
}
