// @ts-check
// An algorithm from a file, listed block by block: counterpart of collectives/formats/plan.py.

import { InputError } from "./errors.js";
import { COLLECTIVES } from "./plan_collectives.js";
import { execute } from "./plan_order.js";
import { Program } from "./plan_program.js";
import { repr } from "./text.js";

/**
 * One slice of one chunk of a rank's buffer. Of a plan, equal chunks are one object.
 * @typedef {{ rank: number, buffer: string, index: number, channel: number }} Chunk
 */
/** A semaphore of a plan; equal ones are one object. @typedef {{ rank: number, kind: string }} Flag */
/**
 * One operation of a block: `flags` are the semaphores of a signal or a wait, `pipeline` is the number of the loop that
 * it is in, and `part` which slice of its operation a move is for.
 * @typedef {{
 *   kind: string, sources: Chunk[], targets: Chunk[], flags: Flag[], value: number, relaxed: boolean, inSwitch: number,
 *   pipeline: number, part: number,
 * }} PlanStep
 */
/** A thread block or copy engine of a rank; `added`: it is not in the file. @typedef {{ rank: number, unit: string, steps: PlanStep[], added: boolean }} PlanBlock */

export const MOST_CHUNKS = 1 << 16;
export const BUFFERS = ["input", "output", "scratch", "packets", "panels"];
export const [SWITCH_READS, SWITCH_WRITES] = [1, 2];
const COPIES_ITS_INPUT = ["all_gather", "all_to_all", "broadcast", "gather", "scatter"];
const SHARED = "shared"; // a buffer that is both input and output, until `settle` separates them
/** @type {Record<string, string>} */
const LETTERS = { i: "input", o: "output", s: "scratch", p: "packets" };

/** @param {string} kind @param {Partial<PlanStep>} [more] @returns {PlanStep} */
export const step = (kind, more = {}) => ({ kind, sources: [], targets: [], flags: [], value: 1, relaxed: false, inSwitch: 0, pipeline: 0, part: 0, ...more });

/** The collective that a file calls `allreduce` or `all_reduce`; null if it is none of ours. @param {string} word */
export function collectiveName(word) {
  const plain = word.toLowerCase().replaceAll("_", "");
  return Object.keys(COLLECTIVES).find((name) => name !== "custom" && name.replaceAll("_", "") === plain) ?? null;
}

/** @param {string} word */
export const unknownCollective = (word) =>
  `collective ${repr(Array.from(word).slice(0, 40).join(""))} is unknown: run it as custom, unchecked, or as what it implements`;

/**
 * Complete the numbers of input and output chunks; a file may give one of them as 0.
 * @param {string | null} collective @param {number} ranks @param {number} inputs @param {number} outputs
 * @returns {[number, number]}
 */
export function counts(collective, ranks, inputs, outputs) {
  const ofInput = collective === "reduce_scatter" || collective === "scatter" ? ranks : 1;
  const ofOutput = collective === "all_gather" || collective === "gather" ? ranks : 1;
  const whole = inputs * ofOutput || outputs * ofInput;
  return [inputs || Math.floor(whole / ofOutput), outputs || Math.floor(whole / ofInput)];
}

/**
 * Replace several flags that a block waits for in one step by one, to which the matching signal of each connection adds.
 * @param {Plan} plan
 */
export function gatherWaits(plan) {
  const { blocks } = plan;
  /** @type {Map<Flag, [signalled: Set<number>, waited: Set<number>]>} */
  const ends = new Map();
  /** @type {Map<Flag, number>} */
  const left = new Map();
  /** @type {Set<Flag>} */
  const several = new Set();
  /** @type {Set<Flag>} */
  const repeated = new Set(); // in a loop
  blocks.forEach(({ steps }, number) => {
    for (const { kind, flags, pipeline } of steps) {
      for (const flag of flags) {
        const end = ends.get(flag) ?? [new Set(), new Set()];
        ends.set(flag, end);
        end[kind === "wait" ? 1 : 0].add(number);
        left.set(flag, (left.get(flag) ?? 0) + (kind === "signal" ? 1 : -1));
        if (kind === "wait" && flags.length > 1) several.add(flag);
        if (pipeline) repeated.add(flag);
      }
    }
  });
  /** @type {Map<Flag, Flag[]>} the flags that take the place of each */
  const gathered = new Map();
  for (const flag of several) {
    const end = ends.get(flag) ?? [];
    if (!repeated.has(flag) && (left.get(flag) ?? 0) <= 0 && end.every((one) => one.size <= 1)) gathered.set(flag, []);
  }
  let number = 0;
  for (const block of blocks) {
    /** @type {PlanStep[]} */
    const steps = [];
    for (const one of block.steps) {
      const mine = one.kind === "wait" ? one.flags.filter((flag) => gathered.has(flag)) : [];
      if (!mine.length) {
        steps.push(one);
        continue;
      }
      const together = plan.flag(block.rank, "waits", number);
      number += 1;
      for (const flag of mine) gathered.get(flag)?.push(together);
      steps.push(step("wait", { flags: [together], value: mine.length }));
      const rest = one.flags.filter((flag) => !gathered.has(flag));
      if (rest.length) steps.push({ ...one, flags: rest });
    }
    block.steps = steps;
  }
  for (const block of blocks) {
    block.steps = block.steps.map((one) => {
      if (one.kind !== "signal" || !one.flags.some((flag) => gathered.has(flag))) return one;
      return { ...one, flags: one.flags.map((flag) => gathered.get(flag)?.shift() ?? flag) };
    });
  }
}

export class Plan {
  constructor() {
    this.name = "";
    /** @type {string | null} */
    this.collective = null;
    this.ranks = 0;
    this.inputs = 0;
    this.outputs = 0;
    this.inPlace = false;
    this.protocol = "Simple";
    this.slices = 1;
    this.scratch = 0;
    this.minBytes = 0;
    /** @type {number | null} */
    this.maxBytes = null;
    /** @type {PlanBlock[]} */
    this.blocks = [];
    /** @type {string[]} */
    this.notes = [];
    /** @type {{ unit: number, chunks: number }[]} loops over parts of so many bytes of so many chunks, numbered from 1 */
    this.pipelines = [];
    /** @type {Map<string, Chunk>} */
    this.known = new Map();
    /** @type {Map<string, Flag>} */
    this.flags = new Map();
  }

  /** @param {number} rank @param {string} buffer @param {number} index @param {number} channel @returns {Chunk} */
  chunkAt(rank, buffer, index, channel) {
    const key = `${rank} ${buffer} ${index} ${channel}`;
    const found = this.known.get(key) ?? { rank, buffer, index, channel };
    this.known.set(key, found);
    return found;
  }

  /** @param {number} rank @param {string} kind @param {...number} name @returns {Flag} */
  flag(rank, kind, ...name) {
    const key = [rank, kind, ...name].join(" ");
    const found = this.flags.get(key) ?? { rank, kind };
    this.flags.set(key, found);
    return found;
  }

  /** Describe chunks of a buffer that do not exist; empty if they do. @param {string} buffer @param {number} first @param {number} size @param {number} scratch */
  misses(buffer, first, size, scratch) {
    const bound = buffer === "i" ? this.inputs : buffer === "o" ? this.outputs : scratch;
    return first + size <= bound ? "" : `chunks ${first} to ${first + size - 1} of ${repr(buffer)}, which has ${bound}`;
  }

  /** The chunk that a letter and an index mean in a file. @param {number} rank @param {string} letter @param {number} index @param {number} slice */
  chunk(rank, letter, index, slice) {
    if (!this.inPlace || "sp".includes(letter)) return this.chunkAt(rank, LETTERS[letter], index, slice);
    // If one buffer is smaller, it is the rank's own part of the other.
    const [small, large] = [Math.min(this.inputs, this.outputs), Math.max(this.inputs, this.outputs)];
    const mine = small < large && (letter === "i" ? this.inputs : this.outputs) === small;
    return this.chunkAt(rank, SHARED, mine ? rank * small + index : index, slice);
  }

  /** Replace the shared buffer of a plan in place by input and output, in the order of one execution. */
  settle() {
    if (!this.inPlace) return;
    /** @type {Set<Chunk>} */
    const written = new Set();
    /** @param {Chunk} chunk */
    const after = (chunk) => {
      const index = this.own(chunk, this.outputs);
      if (index === null) return this.chunkAt(chunk.rank, "scratch", this.scratch + chunk.index, chunk.channel);
      return this.chunkAt(chunk.rank, "output", index, chunk.channel);
    };
    /** @param {Chunk} chunk */
    const read = (chunk) => {
      if (chunk.buffer !== SHARED) return chunk;
      const index = this.own(chunk, this.inputs);
      if (written.has(chunk) || index === null) return after(chunk);
      return this.chunkAt(chunk.rank, "input", index, chunk.channel);
    };
    const alone = new Program({ name: this.name, ranks: this.ranks });
    alone.add(this.blocks, (chunk) => chunk, 1, []);
    const blocks = alone.blocks.map(({ operations }) => operations);
    const { done, at } = execute(blocks);
    const moves = this.blocks.map(({ steps }) => steps.filter(({ kind }) => kind === "move").values());
    const rest = blocks.flatMap((operations, b) => operations.slice(at[b]).map((_, k) => /** @type {[number, number]} */ ([b, at[b] + k])));
    for (const [b, i] of [...done, ...rest]) {
      if (blocks[b][i].kind !== "move") continue;
      const one = /** @type {PlanStep} */ (moves[b].next().value);
      one.sources = one.sources.map(read);
      for (const chunk of one.targets) if (chunk.buffer === SHARED) written.add(chunk);
      one.targets = one.targets.map((chunk) => (chunk.buffer === SHARED ? after(chunk) : chunk));
    }
    if (this.collective !== null && COPIES_ITS_INPUT.includes(this.collective)) this.copyWhatStays(written);
  }

  /** A shared chunk's index in the rank's input or output of so many chunks. @param {Chunk} chunk @param {number} count */
  own(chunk, count) {
    const index = chunk.index - (count < Math.max(this.inputs, this.outputs) ? chunk.rank * count : 0);
    return index >= 0 && index < count ? index : null;
  }

  /** @param {Set<Chunk>} written */
  copyWhatStays(written) {
    let copied = 0;
    for (let rank = 0; rank < this.ranks; rank += 1) {
      /** @type {PlanBlock} */
      const block = { rank, unit: "sm", steps: [], added: true };
      for (let index = 0; index < this.inputs; index += 1) {
        for (let part = 0; part < this.slices; part += 1) {
          const shared = this.chunk(rank, "i", index, part);
          const output = this.own(shared, this.outputs);
          if (output === null || written.has(shared)) continue;
          const [source, target] = [this.chunkAt(rank, "input", index, part), this.chunkAt(rank, "output", output, part)];
          block.steps.push(step("move", { sources: [source], targets: [target] }));
        }
      }
      if (block.steps.length) this.blocks.push(block);
      copied += block.steps.length;
    }
    if (copied) this.notes.push(`in place: ${copied} chunks that stay where they are are copied to the output`);
  }

  /**
   * How many chunks of the plan are one chunk of the collective's, and the chunks that it has then.
   * @param {string} kind @param {number} ranks
   * @returns {{ parts: number, inputs: number, outputs: number }}
   */
  parts(kind, ranks) {
    const where = `plan ${repr(this.name)}`;
    if (ranks !== this.ranks) {
      throw new InputError(`it is for ${this.ranks} ranks, not ${ranks}`, { where, hint: `use an infrastructure with ${this.ranks} GPUs` });
    }
    const own = { parts: 1, inputs: this.inputs, outputs: this.outputs };
    if (kind === "custom") return own;
    const [inputs, outputs] = COLLECTIVES[kind].chunks(ranks);
    const parts = Math.floor(this.inputs / inputs);
    if (this.inputs % inputs === 0 && parts && this.outputs === parts * outputs) return { parts, inputs, outputs };
    if (this.inputs === this.outputs && ["all_reduce", "broadcast", "reduce"].includes(kind)) return own;
    throw new InputError(`it has ${this.inputs} input and ${this.outputs} output chunks, the collective ${inputs} and ${outputs}`, {
      where, hint: "the plan's must be multiples of the collective's",
    });
  }
}
