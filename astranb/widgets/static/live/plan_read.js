// @ts-check
// MSCCL++ execution plans from JSON: counterpart of the reader of collectives/formats/mscclpp.py.

import { InputError, near } from "./errors.js";
import { SWITCH_READS, SWITCH_WRITES, collectiveName, counts, gatherWaits, MOST_CHUNKS, Plan, step, unknownCollective } from "./plan.js";
import { parseDocument } from "./plan_json.js";
import { lcm } from "./plan_pieces.js";
import { repr } from "./text.js";

/** @import { Chunk, Flag, PlanBlock, PlanStep } from "./plan.js" */
/** @import { DocumentNode } from "./plan_json.js" */

const MOST_STEPS = 1_000_000;
const MOST_SLICES = 1024;
const TYPES = ["memory", "port", "switch", "none"];
const MEMORIES = ["i", "o", "s"];

/** Operands of each operation that moves data, as in mscclpp.py. @type {Record<string, [sources: string, targets: string]>} */
const SHAPES = {
  copy: ["l", "l"], put: ["l*", "r*"], pws: ["l*", "r*"], pwsf: ["l*", "r*"], get: ["r*", "l*"],
  re: ["l*", "l"], res: ["l*", "lr*"], rre: ["lr*", "l"], rres: ["lr*", "lr*"],
  ppkt: ["l*", "q*"], rppkt: ["p", "q*"], upkt: ["p", "l"], cpkt: ["l", "p"],
  repkt: ["lp*", "l"], respkt: ["lp*", "lq*"], recpkt: ["lp*", "lp"], recspkt: ["lp*", "lpq*"],
  glres: ["m", "m"], gstore: ["l", "m"], gstorepkt: ["p", "n"],
};
/** @type {Record<string, number>} */
const IN_SWITCH = { glres: SWITCH_READS | SWITCH_WRITES, gstore: SWITCH_WRITES, gstorepkt: SWITCH_WRITES };
const PAIRS = ["put", "pws", "pwsf", "get", "ppkt"]; // the first goes to the first, the second to the second
const WITH_UNUSED = ["re", "res", "rre", "rres", "repkt", "respkt", "recpkt", "recspkt"];
const THROUGH_PORT = ["put", "pws", "pwsf", "ppkt", "rppkt"];
const SYNC = ["signal", "wait", "rlxsignal", "rlxwait"];
const OTHERS = [...SYNC, "nop", "barrier", "flush", "pipeline", "sem_acquire", "sem_release"];
const OLD = ["i_buff", "o_buff", "i_cids", "o_cids", "cids", "ctype", "srcbuff", "dstbuff", "deps"];

/**
 * An element of `gpus` without its operations.
 * @typedef {{
 *   rank: number, node: DocumentNode, peers: Map<string, Flag[]>, own: Map<string, Flag[]>, remote: [owner: number, buffer: string][],
 *   switches: [buffer: string, ranks: number[]][], credits: number[], scratch: number,
 * }} Gpu
 */
/**
 * A thread block under construction, with the channels and buffers that its numbers mean; `rung` is how many steps it
 * had when it rang its engine's doorbell last.
 * @typedef {{
 *   gpu: Gpu, planned: PlanBlock, channels: Map<string, number[]>, buffers: Map<string, [owner: number, buffer: string][]>,
 *   engine: PlanBlock | null, rung: number,
 * }} JsonBlock
 */

/** @template K, V @param {Map<K, V[]>} lists @param {K} key @returns {V[]} the list of a key, a new one where there is none */
function listOf(lists, key) {
  const found = lists.get(key) ?? [];
  lists.set(key, found);
  return found;
}

class PlanReader {
  /** @param {DocumentNode} root */
  constructor(root) {
    this.root = root;
    this.steps = 0;
    /** @type {Set<string>} in order */
    this.notes = new Set();
    this.plan = new Plan();
    /** @type {Gpu[]} */
    this.gpus = [];
  }

  read() {
    const { root, plan } = this;
    const nodes = root.get("gpus").items();
    if (root.has("colletive") || nodes.some((node) => node.has("inputChunks"))) {
      throw root.error("the format of this execution plan is older than 2025", "write it with a newer MSCCL++");
    }
    if (!nodes.length) throw root.get("gpus").error("the plan has no GPUs");
    const word = root.get("collective").text();
    plan.ranks = nodes.length;
    plan.collective = collectiveName(word);
    if (plan.collective === null) this.notes.add(unknownCollective(word));
    [plan.inputs, plan.outputs] = this.chunks(nodes);
    const protocol = root.get("protocol").choice(["Simple", "LL", "LL128"]);
    plan.name = Array.from(root.get("name").text()).slice(0, 200).join("") || "plan";
    plan.inPlace = root.get("inplace").truth();
    plan.protocol = protocol;
    plan.minBytes = root.get("min_message_size", 0).number(0, 2n ** 64n);
    const most = root.get("max_message_size", 2n ** 64n).number(0, 2n ** 64n);
    plan.maxBytes = most >= 2 ** 63 ? null : most;
    if (root.get("use_double_scratch_buffer", false).truth()) {
      this.notes.add("scratch that alternates between runs is one scratch: one run is simulated");
    }
    this.gpus = nodes.map((node, rank) => this.gpu(rank, node));
    plan.scratch = Math.max(...this.gpus.map(({ scratch }) => scratch));
    this.connect();
    plan.slices = this.slices();
    for (const gpu of this.gpus) {
      gpu.node.get("threadblocks").items().forEach((node, number) => {
        node.get("id").number(number, number); // they are listed in order
        this.block(gpu, node);
      });
    }
    this.noteShared();
    gatherWaits(plan);
    plan.notes.push(...this.notes);
    plan.settle();
    return plan;
  }

  /** Chunks of input and output, which are the same on every rank. @param {DocumentNode[]} nodes @returns {[number, number]} */
  chunks(nodes) {
    const { collective, ranks } = this.plan;
    /** @type {[number, number][]} */
    const found = [];
    nodes.forEach((node, rank) => {
      node.get("id").number(rank, rank);
      const inputs = node.get("input_chunks").number(0, MOST_CHUNKS);
      const outputs = node.get("output_chunks").number(0, MOST_CHUNKS);
      found.push(counts(collective, ranks, inputs, outputs));
      if (found[rank][0] !== found[0][0] || found[rank][1] !== found[0][1]) {
        throw node.error(`${inputs} input and ${outputs} output chunks, gpus[0] has others`);
      }
    });
    const [inputs, outputs] = found[0];
    if (collective === null) return [Math.max(1, inputs), Math.max(1, outputs)]; // it may use scratch only, or nothing
    if (!inputs || !outputs) throw nodes[0].error("no chunks", "give input_chunks or output_chunks");
    const [ofInput, ofOutput] = counts(collective, ranks, inputs, 0);
    if (inputs !== ofInput || outputs !== ofOutput) {
      throw nodes[0].error(`${inputs} input and ${outputs} output chunks make no ${collective} of ${ranks} ranks`);
    }
    return [inputs, outputs];
  }

  /** A rank's channels, remote buffers and semaphores. @param {number} rank @param {DocumentNode} node @returns {Gpu} */
  gpu(rank, node) {
    const { plan } = this;
    const last = plan.ranks - 1;
    /** @type {Gpu} */
    const gpu = { rank, node, peers: new Map(), own: new Map(), remote: [], switches: [], credits: [], scratch: 0 };
    gpu.scratch = node.get("scratch_chunks").number(0, MOST_CHUNKS);
    for (const channel of node.get("channels", []).items()) {
      const kind = channel.get("channel_type").choice(TYPES);
      if (kind === "switch") {
        const buffer = channel.get("buffer_type").choice(MEMORIES);
        for (const group of channel.get("rank_groups").items()) {
          const members = group.get("ranks").items().map((one) => one.number(0, last));
          if (!members.length || new Set(members).size < members.length) {
            throw group.error("a group needs at least one rank, and each only once");
          }
          gpu.switches.push([buffer, members]);
        }
      } else {
        const peers = channel.get("connected_to").items().map((peer) => peer.number(0, last));
        listOf(gpu.peers, kind).push(...peers.map((peer) => plan.flag(peer, kind, rank)));
      }
    }
    for (const remote of node.get("remote_buffers", []).items()) {
      gpu.remote.push([remote.get("rank").number(0, last), remote.get("type").choice(MEMORIES)]);
    }
    gpu.credits = node.get("semaphores", []).items().map((one) => one.get("init_value").number(0, MOST_STEPS));
    return gpu;
  }

  /** Pair channels: the k-th from a rank to another is the other end of the k-th back. */
  connect() {
    for (const gpu of this.gpus) {
      for (const [kind, flags] of gpu.peers) {
        /** @type {Map<number, number>} */
        const numbers = new Map();
        const pairs = flags.map(({ rank }) => {
          const k = (numbers.get(rank) ?? -1) + 1;
          numbers.set(rank, k);
          return [this.plan.flag(rank, kind, gpu.rank, k), this.plan.flag(gpu.rank, kind, rank, k)];
        });
        gpu.peers.set(kind, pairs.map(([raised]) => raised));
        gpu.own.set(kind, pairs.map(([, awaited]) => awaited));
      }
    }
  }

  /** Slices per chunk that give each block of a group a whole number of them. */
  slices() {
    let slices = 1;
    for (const gpu of this.gpus) {
      for (const block of gpu.node.get("threadblocks").items()) {
        for (const op of block.get("ops").items()) {
          for (const one of [op, ...(op.has("ops") ? op.get("ops").items() : [])]) {
            if (!one.has("tbg_info")) continue;
            slices = lcm(slices, one.get("tbg_info").get("tbg_size").number(1, MOST_SLICES));
            if (slices > MOST_SLICES) throw one.error("groups of thread blocks of too many sizes");
          }
        }
      }
    }
    return slices;
  }

  noteShared() {
    /** @type {Map<Flag, number>} */
    const waited = new Map();
    for (const block of this.plan.blocks) {
      const flags = block.steps.filter(({ kind }) => kind === "wait").flatMap((one) => one.flags);
      for (const flag of new Set(flags)) waited.set(flag, (waited.get(flag) ?? 0) + 1);
    }
    if ([...waited].some(([flag, times]) => times > 1 && flag.kind !== "barrier")) {
      this.notes.add("thread blocks that wait for the same semaphore each count all its signals");
    }
  }

  /** @param {Gpu} gpu @param {DocumentNode} node */
  block(gpu, node) {
    /** @type {JsonBlock} */
    const block = { gpu, planned: { rank: gpu.rank, unit: "sm", steps: [], added: false }, channels: new Map(), buffers: new Map(), engine: null, rung: 0 };
    for (const channel of node.get("channels", []).items()) {
      const kind = channel.get("channel_type").choice(TYPES);
      const known = kind === "switch" ? gpu.switches.length : (gpu.peers.get(kind) ?? []).length;
      for (const number of channel.get("channel_ids").items()) {
        if (known === 0) throw number.error(`rank ${gpu.rank} has no ${kind} channel`, "add it to its channels");
        listOf(block.channels, kind).push(number.number(0, known - 1));
      }
    }
    for (const reference of node.get("remote_buffer_refs", []).items()) {
      const kind = reference.get("access_channel_type").choice(TYPES);
      for (const number of reference.get("remote_buffer_ids").items()) {
        if (!gpu.remote.length) throw number.error(`rank ${gpu.rank} lists no remote_buffers`);
        listOf(block.buffers, kind).push(gpu.remote[number.number(0, gpu.remote.length - 1)]);
      }
    }
    this.plan.blocks.push(block.planned);
    for (const op of node.get("ops").items()) this.operation(block, op, false);
    if (block.engine) this.plan.blocks.push(block.engine);
  }

  /** @param {JsonBlock} block @param {DocumentNode} op @param {boolean} inside a loop */
  operation(block, op, inside) {
    const name = op.get("name").text();
    const old = OLD.find((key) => op.has(key));
    if (old) throw op.error(`${repr(old)} is older than 2025`, "write it with a newer MSCCL++");
    const { steps } = block.planned;
    const { rank } = block.gpu;
    if (Object.hasOwn(SHAPES, name)) this.move(block, op, name);
    else if (name === "nop") steps.push(step("compute"));
    else if (name === "barrier") {
      const flag = this.plan.flag(rank, "barrier", op.get("barrier_id").number(0, MOST_CHUNKS));
      const blocks = op.get("num_threadblocks").number(1, MOST_CHUNKS);
      steps.push(step("signal", { flags: [flag] }), step("wait", { flags: [flag], value: blocks }));
    } else if (SYNC.includes(name)) this.synchronize(block, op, name);
    else if (name === "flush") {
      if (block.engine) {
        const done = this.plan.flag(rank, "flushed", this.plan.blocks.length);
        this.ask(block, step("signal", { flags: [done] }));
        steps.push(step("wait", { flags: [done] }));
      } else steps.push(step("fence"));
    } else if (name === "sem_acquire" || name === "sem_release") this.semaphores(block, op, name, inside);
    else if (name === "pipeline" && !inside) this.pipeline(block, op);
    else {
      const word = Array.from(name).slice(0, 40).join("");
      throw op.error(`unknown operation ${repr(word)}`, near(word, [...Object.keys(SHAPES), ...OTHERS]));
    }
    this.steps += 1;
    this.count(op);
  }

  /** @param {DocumentNode} op */
  count(op) {
    if (this.steps > MOST_STEPS) throw op.error(`more than ${MOST_STEPS} operations`, "use fewer or larger chunks");
  }

  /** @param {JsonBlock} block @param {DocumentNode} op */
  pipeline(block, op) {
    const { plan } = this;
    const unit = op.get("iter_context").get("unit_size").number(1, 2 ** 32 - 1);
    const most = Math.max(plan.inputs, plan.outputs, plan.scratch);
    const chunks = op.get("iter_context").get("num_chunks").number(0, most);
    plan.pipelines.push({ unit, chunks });
    const first = block.planned.steps.length;
    const asked = block.engine ? block.engine.steps.length : 0;
    block.rung = 0;
    for (const one of op.get("ops").items()) this.operation(block, one, true);
    block.rung = 0;
    for (const one of [...block.planned.steps.slice(first), ...(block.engine ? block.engine.steps.slice(asked) : [])]) {
      one.pipeline = plan.pipelines.length;
    }
  }

  /** The rank's numbers of an operation's channels. @param {JsonBlock} block @param {DocumentNode} op @param {string} kind */
  channels(block, op, kind) {
    const known = block.channels.get(kind) ?? [];
    return op.get("channel_ids").items().map((number) => {
      if (!known.length) throw number.error(`the thread block has no ${kind} channel`, "add it to its channels");
      return known[number.number(0, known.length - 1)];
    });
  }

  /** @param {JsonBlock} block @param {DocumentNode} op @param {string} name */
  synchronize(block, op, name) {
    const kind = op.get("channel_type").choice(["memory", "port"]);
    const raises = name.endsWith("signal");
    const ends = (raises ? block.gpu.peers : block.gpu.own).get(kind) ?? [];
    const flags = this.channels(block, op, kind).map((number) => ends[number]);
    if (!flags.length) throw op.get("channel_ids").error("no channel");
    if (!raises) block.planned.steps.push(step("wait", { flags }));
    else if (kind === "port") this.ask(block, step("signal", { flags }));
    else block.planned.steps.push(step("signal", { flags, relaxed: name === "rlxsignal" }));
  }

  /** @param {JsonBlock} block @param {DocumentNode} op @param {string} name @param {boolean} inside */
  semaphores(block, op, name, inside) {
    const credit = block.gpu.credits;
    for (const number of op.get("semaphore_ids").items()) {
      if (!credit.length) throw number.error(`rank ${block.gpu.rank} lists no semaphores`);
      const which = number.number(0, credit.length - 1);
      const flags = [this.plan.flag(block.gpu.rank, "semaphore", which)];
      if (name === "sem_release") block.planned.steps.push(step("signal", { flags }));
      else if (credit[which] && inside) throw number.error("a semaphore that does not begin at 0 in a pipeline", "begin at 0");
      else if (credit[which]) credit[which] -= 1; // its initial value needs no release
      else block.planned.steps.push(step("wait", { flags }));
    }
  }

  /** Let the rank's copy engine execute steps, as a port channel's proxy does. @param {JsonBlock} block @param {...PlanStep} steps */
  ask(block, ...steps) {
    block.engine ??= { rank: block.gpu.rank, unit: "engine", steps: [], added: false };
    if (block.rung && block.rung === block.planned.steps.length) {
      block.engine.steps.push(...steps); // requests that follow one another are posted at once
      return;
    }
    const doorbell = this.plan.flag(block.gpu.rank, "doorbell", this.plan.blocks.length);
    block.planned.steps.push(step("signal", { flags: [doorbell] }));
    block.rung = block.planned.steps.length;
    block.engine.steps.push(step("wait", { flags: [doorbell] }), ...steps);
  }

  /** @param {JsonBlock} block @param {DocumentNode} op @param {string} name */
  move(block, op, name) {
    const kind = op.get("channel_type", "none").choice(TYPES);
    const throughPort = kind === "port" && THROUGH_PORT.includes(name);
    const [shape, into] = SHAPES[name];
    const from = throughPort && into === "q*" ? "p*" : shape; // a port moves packets as they are in memory
    const sources = this.operands(block, op, "src_buff", from, kind);
    let targets = this.operands(block, op, "dst_buff", into, kind);
    op.get("reduce_op", "sum").choice(["sum", "min", "max"]);
    if (WITH_UNUSED.includes(name) && op.get("dst_buff").items()[0].get("unused", false).truth()) {
      targets = targets.slice(1); // see write_mscclpp
      if (!targets.length) throw op.get("dst_buff").error("the only target is unused");
    }
    if (new Set([...sources, ...targets].map((chunks) => chunks.length)).size > 1) {
      throw op.error("chunks of different sizes", "use the same size in src_buff and dst_buff");
    }
    const paired = PAIRS.includes(name);
    if (paired && sources.length !== targets.length) {
      throw op.error(`${sources.length} sources and ${targets.length} targets`, "use equal numbers of both");
    }
    const pairs = paired ? sources.map((source, k) => [[source], [targets[k]]]) : [[sources, targets]];
    /** @type {PlanStep[]} */
    const moves = [];
    for (const [read, stored] of pairs) {
      for (let part = 0; part < read[0].length; part += 1) {
        const one = read.flatMap((operand) => operand[part]);
        let to = stored.flatMap((operand) => operand[part]);
        // The packets that come back to the rank itself are there already: nobody reads them.
        if (name === "gstorepkt") to = to.map((c) => (one.includes(c) ? this.plan.chunkAt(c.rank, c.buffer, c.index + MOST_CHUNKS, c.channel) : c));
        moves.push(step("move", { sources: one, targets: to, inSwitch: IN_SWITCH[name] ?? 0, part }));
        if (new Set(to).size < to.length) throw op.get("dst_buff").error("the same chunk twice");
      }
    }
    this.steps += moves.reduce((sum, one) => sum + one.sources.length + one.targets.length, 0);
    this.count(op);
    const signals = name === "pws" || name === "pwsf";
    /** @type {Flag[]} */
    let flags = [];
    if (signals || (throughPort && op.has("channel_ids"))) {
      const ends = block.gpu.peers.get(kind) ?? [];
      flags = this.channels(block, op, kind).map((number) => ends[number]);
    }
    const after = signals && flags.length ? [step("signal", { flags })] : [];
    if (!throughPort) block.planned.steps.push(...moves, ...after);
    else if (name === "pwsf") {
      const done = this.plan.flag(block.gpu.rank, "flushed", this.plan.blocks.length);
      this.ask(block, ...moves, ...after, step("signal", { flags: [done] }));
      block.planned.steps.push(step("wait", { flags: [done] }));
    } else this.ask(block, ...moves, ...after);
  }

  /**
   * Of each operand of an operation its chunks and slices, each on one or more ranks.
   * @param {JsonBlock} block @param {DocumentNode} op @param {string} key @param {string} shape @param {string} kind
   */
  operands(block, op, key, shape, kind) {
    const nodes = op.get(key).items();
    const any = shape.endsWith("*");
    let letters = shape.replace(/\*$/, "");
    const fewest = !any || letters.length === 1 ? letters.length : letters.length - 1;
    if (nodes.length < fewest || (nodes.length > letters.length && !any)) {
      throw op.get(key).error(`${op.get("name").text()} takes ${fewest}, not ${nodes.length}`);
    }
    letters += letters[letters.length - 1].repeat(Math.max(0, nodes.length - letters.length));
    return nodes.map((node, k) => this.operand(block, op, node, letters[k], kind));
  }

  /**
   * @param {JsonBlock} block @param {DocumentNode} op @param {DocumentNode} node @param {string} letter @param {string} kind
   * @returns {Chunk[][]}
   */
  operand(block, op, node, letter, kind) {
    const { plan } = this;
    const first = node.get("index").number(0, MOST_CHUNKS);
    const size = node.get("size").number(1, MOST_CHUNKS);
    let owners = [block.gpu.rank];
    let buffer;
    if ("rq".includes(letter)) {
      const known = block.buffers.get(kind) ?? [];
      const number = node.get("buffer_id");
      if (!known.length) {
        throw number.error(`the thread block has no remote buffer over ${kind} channels`, "add it to remote_buffer_refs");
      }
      const [owner, memory] = known[number.number(0, known.length - 1)];
      [owners, buffer] = [[owner], memory];
    } else if ("mn".includes(letter)) {
      const switches = block.channels.get("switch") ?? [];
      const number = node.get("switch_channel_id");
      if (!switches.length) throw number.error("the thread block has no switch channel", "add it to its channels");
      [buffer, owners] = block.gpu.switches[switches[number.number(0, switches.length - 1)]];
    } else buffer = node.get("type").choice(MEMORIES);
    const packets = "pqn".includes(letter);
    if (packets && buffer !== "s") throw node.error("packets must be in scratch", "use a buffer of type 's'");
    const scratch = Math.max(...owners.map((owner) => this.gpus[owner].scratch));
    const wrong = plan.misses(buffer, first, size, scratch);
    if (wrong) throw node.error(wrong, "use existing chunks");
    const memory = packets ? "p" : buffer;
    const [from, until] = this.parts(op);
    if (size * (until - from) > MOST_STEPS) this.steps = MOST_STEPS + 1;
    this.count(op); // before so many are made
    /** @type {Chunk[][]} */
    const found = [];
    for (let chunk = first; chunk < first + size; chunk += 1) {
      for (let part = from; part < until; part += 1) found.push(owners.map((owner) => plan.chunk(owner, memory, chunk, part)));
    }
    return found;
  }

  /** The slices of each chunk that an operation of a thread block group works on. @param {DocumentNode} op */
  parts(op) {
    if (!op.has("tbg_info")) return [0, this.plan.slices];
    const group = op.get("tbg_info");
    const size = group.get("tbg_size").number(1, MOST_SLICES);
    const mine = group.get("tb_id").number(0, size - 1);
    const each = this.plan.slices / size; // a whole number
    return [mine * each, (mine + 1) * each];
  }
}

/** Read an execution plan, recognized by its contents. @param {Uint8Array} bytes of the file @param {string} name of the file */
export function readPlan(bytes, name) {
  const begins = new TextDecoder("latin1").decode(bytes.subarray(0, 4096)).replace(/^ï»¿/, "").trimStart();
  if (begins.startsWith("<") || begins.startsWith("NPUs Count")) {
    throw new InputError("no MSCCL++ execution plan (JSON)", { where: name, hint: "algorithms of MSCCL and schedules of TACOS need JupyterLab" });
  }
  if (!begins.startsWith("{")) {
    throw new InputError("neither an MSCCL++ execution plan (JSON) nor an MSCCL algorithm (XML) nor a schedule of TACOS (CSV)", {
      where: name, hint: "such a file begins with {, < or NPUs Count",
    });
  }
  return new PlanReader(parseDocument(bytes, name)).read();
}
