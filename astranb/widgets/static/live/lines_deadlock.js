// @ts-check
// Why a run cannot go on, in words: counterpart of engine/cacheline/deadlock.py, and of `explain_stranded` of faults.py.

import { fabricOf, partition } from "./fabric.js";
import { CLASSES, MOVE, MOVING, NOTIFY, PENDING, RELEASE, WAITING } from "./gpu_numbers.js";
import { down, waitingAt, waitingIn } from "./lines_faults.js";
import { blockNumber, gpuPath, linkName } from "./lines_paths.js";
import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { Edit, Engine, Tables } from "./types" */
/** @typedef {Map<number, number[]>} Waits who waits for whom */

const MOST_NAMED = 3;

/**
 * Which blocks wait for which, as a cycle where there is one.
 * @param {Engine} engine in the state of the deadlock
 */
export function explainDeadlock(engine) {
  return `${engine.live.about.program.name}: deadlock: ${bufferDeadlock(engine) || blockDeadlock(engine)}`;
}

/** @param {Engine} engine */
function blockDeadlock(engine) {
  const { blocks } = engine.tables;
  const waits = waitsOf(engine.tables);
  const cycle = firstCycle(waits);
  /** @param {number} block */
  const name = (block) => blockText(engine, block);
  if (cycle.length) return [...cycle, cycle[0]].map(name).join(" <- ");
  for (const [block, others] of waits) {
    if (others.length) continue;
    return `${name(block)}, and no remaining operation ${blocks.at.state(block) === MOVING ? "writes" : "signals"} it`;
  }
  return name([...waits.keys()][0]);
}

/** Which blocks each waiting one waits for. @param {Tables} tables @returns {Waits} */
function waitsOf(tables) {
  const { blocks, ops } = tables;
  /** @param {number} rows @param {(row: number) => boolean} holds */
  const where = (rows, holds) => [...Array(rows).keys()].filter(holds);
  /** @param {number[]} numbers */
  const once = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
  const late = where(ops.rows, (op) => ops.at.started_ps(op) < 0);
  /** @type {Waits} */
  const waits = new Map();
  // All that is left moving in a deadlock reads packets that have not come.
  for (const block of where(blocks.rows, (one) => blocks.at.state(one) === MOVING)) {
    waits.set(block, once(writers(tables, blocks.at.op(block))));
  }
  for (const block of where(blocks.rows, (one) => [WAITING, PENDING].includes(blocks.at.state(one)))) {
    const semaphore = ops.at.semaphore(blocks.at.op(block));
    if (blocks.at.after(block) > 0) {
      waits.set(block, once(late.filter((op) => ops.at.kind(op) === RELEASE && ops.at.value(op) === block).map(ops.at.block)));
    } else if (blocks.at.state(block) === PENDING) {
      waits.set(block, where(blocks.rows, (one) => blocks.at.gpu(one) === blocks.at.gpu(block) && blocks.at.state(one) === WAITING));
    } else {
      waits.set(block, once(late.filter((op) => ops.at.kind(op) === NOTIFY && ops.at.semaphore(op) === semaphore).map(ops.at.block)));
    }
  }
  return waits;
}

/** What a block waits for, in words. @param {Engine} engine @param {number} block */
function blockText(engine, block) {
  const { blocks, ops, semaphores, slices } = engine.tables;
  const { program, scene } = engine.live.about;
  const rank = blocks.at.gpu(block);
  const text = `rank ${rank} (${gpuPath(engine, rank)}) block ${blockNumber(engine, block)}`;
  if (blocks.at.after(block) > 0) return `${text} begins when ${blocks.at.after(block)} others have ended`;
  if (blocks.at.state(block) === PENDING) return `${text} has no SM until another block ends`;
  const op = blocks.at.op(block);
  const number = ops.at.number(op);
  if (blocks.at.state(block) === MOVING) {
    const chunk = slices.at.chunk(missing(engine.tables, op)[0]);
    return `${text} reads at operation ${number} packets[${chunk}], which have not all come`;
  }
  const phase = scene.phases[ops.at.phase(op)];
  const named = phase && phase !== program.name ? ` (${phase})` : ""; // a program without phases has one, its own name
  const semaphore = ops.at.semaphore(op);
  return `${text} waits at operation ${number}${named} for semaphore ${semaphore} to reach ${ops.at.value(op)} (it is ${semaphores.at.value(semaphore)})`;
}

/** The links that wait for buffers behind each other in a cycle; empty where there is none. @param {Engine} engine */
function bufferDeadlock(engine) {
  const { tables } = engine;
  const { clock, details, queues } = tables;
  if (!clock.at.managed(0)) return "";
  /** @type {Waits} */
  const waits = new Map();
  for (const queue of stuckQueues(tables)) waits.set(queue, []);
  if (!waits.size) return "";
  for (const queue of waits.keys()) {
    for (const request of waitingIn(tables, queue)) { // in room behind another link, which waits for this one
      for (const others of [waits.get(details.at.stored(request)), waits.get(details.at.held(request))]) {
        if (others && !others.includes(queue)) others.push(queue);
      }
    }
  }
  const cycle = firstCycle(waits);
  const names = [...cycle, cycle[0]].map((queue) => {
    const paused = `paused, ${commas(queues.at.stored(queue))} bytes wait behind it`;
    const why = queues.at.paused(queue) ? paused : "no buffer is free behind it";
    return `${linkName(engine, Math.floor(queue / CLASSES))} (${queue % 2 ? "responses" : "requests"}: ${why})`;
  });
  return `links wait for room behind each other: ${names.join(" <- ")}`;
}

/**
 * Queues that can never send again, because what occupies the room behind them waits in others of them
 * (`mark_stuck` of gpu/pause.py): those are taken out for which enough of it waits elsewhere, until nothing changes.
 * @param {Tables} tables
 */
function stuckQueues(tables) {
  const { details, queues: { at, rows }, roce } = tables;
  const [buffers, xon] = [roce.at.buffers(0), roce.at.xon(0)];
  let stuck = [...Array(rows).keys()].filter((queue) => {
    const paused = at.paused(queue) === 1 && at.stopped(queue) === 1 && at.frames(queue) === 0;
    return at.waiting(queue) > 0 && (paused || (buffers > 0 && at.credits(queue) === 0));
  });
  for (;;) {
    const [bytes, messages] = [new Map(), new Map()];
    for (const request of stuck.flatMap((queue) => waitingIn(tables, queue))) {
      const [stored, held] = [details.at.stored(request), details.at.held(request)];
      bytes.set(stored, (bytes.get(stored) ?? 0) + details.at.stored_bytes(request));
      messages.set(held, (messages.get(held) ?? 0) + 1);
    }
    const left = stuck.filter((queue) =>
      (at.paused(queue) === 1 && (bytes.get(queue) ?? 0) >= xon) || (buffers > 0 && (messages.get(queue) ?? 0) >= buffers));
    if (left.length === stuck.length) return left;
    stuck = left;
  }
}

/** Slices of packets that an operation reads and that have not all come. @param {Tables} tables @param {number} op */
function missing({ operands, ops, slices }, op) {
  const first = ops.at.first_source(op);
  const sources = Array.from({ length: ops.at.sources(op) }, (_, k) => operands.at.slice(first + k));
  const found = sources.filter((slice) => slices.at.flag(slice) >= 0 && slices.at.writer(slice) < 0);
  return found.length ? found : sources.slice(0, 1);
}

/** Blocks with an operation not begun that writes what an operation waits for. @param {Tables} tables @param {number} op */
function writers(tables, op) {
  const { operands, ops } = tables;
  const wanted = new Set(missing(tables, op));
  const found = [];
  for (let other = 0; other < ops.rows; other++) {
    if (ops.at.kind(other) !== MOVE || ops.at.started_ps(other) >= 0) continue;
    const first = ops.at.first_target(other);
    for (let k = first; k < first + ops.at.targets(other); k++) if (wanted.has(operands.at.slice(k))) found.push(ops.at.block(other));
  }
  return found;
}

/** The first cycle of a graph of waits, found by walking without recursion. @param {Waits} waits */
function firstCycle(waits) {
  const finished = new Set();
  for (const start of waits.keys()) {
    const path = finished.has(start) ? [] : [start];
    /** @type {Map<number, number>} how many of a node's waits have been followed */
    const followed = new Map();
    while (path.length) {
      const node = path[path.length - 1];
      const others = waits.get(node) ?? [];
      let k = followed.get(node) ?? 0;
      while (k < others.length && (!waits.has(others[k]) || finished.has(others[k]))) k += 1;
      followed.set(node, k + 1);
      if (k >= others.length) finished.add(path.pop());
      else if (path.includes(others[k])) return path.slice(path.indexOf(others[k]));
      else path.push(others[k]);
    }
  }
  return [];
}

/**
 * Which links are down, what waits for them, and what to do.
 * @param {Engine} engine
 * @param {Edit[]} edits
 */
export function explainStranded(engine, edits) {
  const fabric = fabricOf(engine);
  const { tables, live } = engine;
  /** When each link went down. @type {Map<number, number>} */
  const since = new Map(edits.filter(({ field, number }) => field === "up" && !number).flatMap(({ rows, at_ps }) => rows.map((row) => [row, at_ps])));
  /** @type {Map<string, number[]>} lanes that are down, by their link */
  const lanes = new Map();
  for (const link of down(tables)) {
    const [path] = partition(fabric.name(link), "#");
    lanes.set(path, [...(lanes.get(path) ?? []), link]);
  }
  const found = [...lanes].map(([path, links]) => {
    const count = links.reduce((sum, link) => sum + waitingAt(tables, link).length, 0);
    const every = fabric.find(path).length;
    const which = links.length === every ? "" : ` (${links.length} of ${every} lanes)`;
    const when = since.get(links[0]);
    return { count, text: `${path}${which} is down${when === undefined ? "" : ` since ${formatTime(when)}`}, and ${commas(count)} lines wait for it` };
  });
  found.sort((a, b) => b.count - a.count);
  const listed = found.slice(0, MOST_NAMED).map(({ text }) => text).join("; ");
  const more = found.length > MOST_NAMED ? `; ${found.length - MOST_NAMED} more links are down` : "";
  return `${live.about.program.name}: the run cannot continue: ${listed}${more}. Reroute (\`reroute()\`), bring the link `
    + "up again (`set('<link>.up', True)`), or undo the change (`undo()`)";
}
