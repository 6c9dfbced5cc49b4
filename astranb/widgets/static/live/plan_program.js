// @ts-check
// What every thread block does, as far as plans use it: counterpart of Program, Block and WorkQueue of collectives/language/.

import { MOST_OPERATIONS, tooMany, unrolled } from "./plan_pieces.js";
import { repr } from "./text.js";

/** @import { Chunk, Flag, PlanBlock } from "./plan.js" */

/**
 * An operation of a thread block: a semaphore by its number, and the value that a wait is for.
 * @typedef {{
 *   kind: string, sources: Chunk[], targets: Chunk[], semaphore: number, value: number, relaxed: boolean, inSwitch: number,
 * }} Operation
 */
/** How the ranks are joined. @typedef {{ perNode: number, rdma: boolean }} Joined */

const FIRST_SENT = 2 ** 24; // first index, in scratch, of the chunks that a rank's NIC reads

/** What a thread block lets its NIC do for ranks of other nodes. */
class WorkQueue {
  /** @param {Block} block @param {Program} program */
  constructor(block, program) {
    this.block = block;
    this.program = program;
    this.requests = program.block(block.rank, "nic", block.channel);
    this.doorbell = program.semaphore(block.rank);
    /** @type {Map<number, [source: Chunk, target: Chunk][]>} */
    this.pending = new Map();
    this.rung = -1; // operations of the block when it rang last
  }

  /** Store what is for other nodes to a send buffer, and the rest where it is for. @param {Chunk[]} sources @param {Chunk[]} targets @param {Chunk[]} far */
  move(sources, targets, far) {
    const staged = this.program.sendBuffer(this.block.rank, far[0]);
    this.block.move(sources, [...targets.filter((target) => !far.includes(target)), staged], 0);
    for (const target of far) this.pending.set(target.rank, [...(this.pending.get(target.rank) ?? []), [staged, target]]);
  }

  /** @param {number} semaphore @param {number} value */
  signal(semaphore, value) {
    this.post(this.program.semaphores[semaphore]);
    this.requests.signal(semaphore, value, false);
  }

  /** Ring the doorbell, and write what is for a rank. @param {number} rank */
  post(rank) {
    const { block, requests } = this;
    if (block.operations.length !== this.rung) { // signals that follow one another are posted at once
      block.signal(this.doorbell, 1, false);
      requests.wait(this.doorbell, 1);
      requests.push({ kind: "compute", value: 1 });
      this.rung = block.operations.length;
    }
    for (const [source, target] of this.pending.get(rank) ?? []) requests.move([source], [target], 0);
    this.pending.delete(rank);
  }
}

/** A thread block of a rank, a copy engine's list or a NIC's. */
class Block {
  /** @param {Program} program @param {number} rank @param {number} channel @param {string} unit */
  constructor(program, rank, channel, unit) {
    this.program = program;
    this.rank = rank;
    this.channel = channel;
    this.unit = unit;
    /** @type {Operation[]} */
    this.operations = [];
    /** @type {Map<number, number>} */
    this.waited = new Map();
    this.node = unit === "sm" && program.nicsMove ? Math.floor(rank / program.joined.perNode) : -1;
    /** @type {WorkQueue | null} */
    this.queue = null;
  }

  /** @param {Partial<Operation> & { kind: string }} operation */
  push(operation) {
    this.program.count();
    this.operations.push({ sources: [], targets: [], semaphore: -1, value: 0, relaxed: false, inSwitch: 0, ...operation });
  }

  /** Whether only a NIC reaches a rank. @param {number} rank */
  isFar(rank) {
    return this.node >= 0 && Math.floor(rank / this.program.joined.perNode) !== this.node;
  }

  /** @param {Chunk[]} sources @param {Chunk[]} targets @param {number} inSwitch */
  move(sources, targets, inSwitch) {
    const far = inSwitch ? [] : targets.filter(({ rank }) => this.isFar(rank));
    if (far.length) this.workQueue().move(sources, targets, far);
    else this.push({ kind: "move", sources, targets, inSwitch });
  }

  /** @param {number} semaphore @param {number} value @param {boolean} relaxed */
  signal(semaphore, value, relaxed) {
    if (this.isFar(this.program.semaphores[semaphore])) this.workQueue().signal(semaphore, value);
    else this.push({ kind: "signal", semaphore, value, relaxed });
  }

  /** Wait until a semaphore has risen since the block's last wait for it. @param {number} semaphore @param {number} value */
  wait(semaphore, value) {
    const reached = (this.waited.get(semaphore) ?? 0) + value;
    this.waited.set(semaphore, reached);
    this.push({ kind: "wait", semaphore, value: reached });
  }

  workQueue() {
    this.queue ??= new WorkQueue(this, this.program);
    return this.queue;
  }

  /** Post what no signal has announced. */
  finish() {
    for (const rank of [...(this.queue?.pending.keys() ?? [])]) this.queue?.post(rank);
  }
}

export class Program {
  /** @param {{ name: string, ranks: number, protocol?: string, joined?: Joined }} about */
  constructor({ name, ranks, protocol = "Simple", joined }) {
    this.name = name;
    this.ranks = ranks;
    this.protocol = protocol;
    this.joined = joined ?? { perNode: ranks, rdma: false };
    this.width = 1; // slices of each chunk
    this.inputs = 0;
    this.outputs = 0;
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {number[]} the rank of each */
    this.semaphores = [];
    this.operations = 0;
    /** @type {Map<string, number>} */
    this.sent = new Map();
  }

  /** Whether NICs move what thread blocks send to other nodes. */
  get nicsMove() {
    return this.joined.rdma && this.protocol === "Simple" && this.joined.perNode < this.ranks;
  }

  /** @param {number} rank */
  semaphore(rank) {
    return this.semaphores.push(rank) - 1;
  }

  /** @param {number} rank @param {string} unit @param {number} channel */
  block(rank, unit, channel) {
    const block = new Block(this, rank, channel, unit);
    this.blocks.push(block);
    return block;
  }

  /** Scratch of a rank from which its NIC reads. @param {number} rank @param {Chunk} like @returns {Chunk} */
  sendBuffer(rank, like) {
    const key = `${rank} ${like.channel}`;
    const index = this.sent.get(key) ?? FIRST_SENT;
    this.sent.set(key, index + 1);
    return { rank, buffer: "scratch", index, channel: like.channel };
  }

  count() {
    this.operations += 1;
    if (this.operations > MOST_OPERATIONS) throw tooMany(`program ${repr(this.name)}`);
  }

  /**
   * Add the blocks of a plan, with pieces of their chunks mapped to chunks of the program.
   * @param {PlanBlock[]} listed
   * @param {(chunk: Chunk, piece: number) => Chunk} moved
   * @param {number} cut pieces of each slice
   * @param {[count: number, pieces: number][]} iterations of each loop
   */
  add(listed, moved, cut, iterations) {
    /** @type {Map<Flag, number>} */
    const numbers = new Map();
    for (const planned of listed) {
      // The channel that views show for a block is that of its first chunk.
      const none = { rank: planned.rank, buffer: "scratch", index: 0, channel: 0 };
      const { channel } = moved(planned.steps.find(({ sources }) => sources.length)?.sources[0] ?? none, 0);
      const block = this.block(planned.rank, this.unitOf(planned), channel);
      for (const { one, from, until } of unrolled(planned.steps, cut, iterations)) {
        for (const flag of one.flags) {
          const semaphore = numbers.get(flag) ?? this.semaphore(flag.rank);
          numbers.set(flag, semaphore);
          if (one.kind === "signal") block.signal(semaphore, one.value, one.relaxed);
          else block.wait(semaphore, one.value);
        }
        if (block.unit === "nic" && one.kind === "wait") block.push({ kind: "compute", value: 1 }); // it is posted
        for (let piece = from; one.kind === "move" && piece < until; piece += 1) {
          const [sources, targets] = [one.sources, one.targets].map((chunks) => chunks.map((chunk) => moved(chunk, piece)));
          block.move(sources, targets, one.inSwitch);
        }
        if (one.kind === "fence" || one.kind === "compute") block.push({ kind: one.kind, value: one.kind === "fence" ? 0 : one.value });
      }
    }
    for (const block of [...this.blocks]) block.finish();
  }

  /** A thread block, a copy engine or, where it reaches another node, a NIC. @param {PlanBlock} planned */
  unitOf({ unit, rank, steps }) {
    const { perNode, rdma } = this.joined;
    if (unit === "sm" || !rdma) return unit;
    const node = Math.floor(rank / perNode);
    const far = steps.some(({ kind, targets, flags }) =>
      [...targets, ...(kind === "signal" ? flags : [])].some((end) => Math.floor(end.rank / perNode) !== node));
    return far ? "nic" : unit;
  }
}
