// @ts-check
// The chain of waits, from an object over what it waits for to the resource at the end: counterpart of
// engine/cacheline/why.py.

import { fabricOf } from "./fabric.js";
import {
  CLASSES, COMPUTE, DONE, DRAINING, LOAD, MOVING, NOTIFY, PENDING, RELEASE, SIGNAL, SIGNALLING, SPEND, STORE, TILE, WAITING,
} from "./gpu_numbers.js";
import { doing } from "./lines_inspection.js";
import { requestText } from "./lines_narrating.js";
import { TABLES, blockName, blockPath, gpuPath, resolve, rowsOf, smPath } from "./lines_paths.js";
import { busyUntil } from "./lines_recorder.js";
import { Lines, utilisation } from "./lines_under_way.js";
import { mostOf, range, rowsWhere } from "./rows.js";
import { commas, percent } from "./text.js";
import { formatTime } from "./units.js";

/** @import { Engine, MachinePart, Why } from "./types" */

const MOST_STEPS = 64;
const MOST_USERS = 4;
const COUNTED = 4; // bit of an operation's `fence`
const FAR = 10 ** 6; // operations of a block that is not on an SM yet
const ORDER = [WAITING, DRAINING, MOVING, SIGNALLING, PENDING, DONE]; // whom to ask about first

/** Of some blocks the one to ask about: one that waits, longest; else one that has not ended. @param {Engine} engine @param {number[]} some */
function worst({ tables: { blocks } }, some) {
  const { state, ended_ps, since_ps } = blocks.at;
  const key = (/** @type {number} */ block) => {
    const since = state(block) === DONE ? -ended_ps(block) : since_ps(block);
    return [ORDER.indexOf(state(block)), since, block];
  };
  return some.reduce((best, block) => (before(key(block), key(best)) ? block : best));
}

/** Whether a list of numbers comes before another one. @param {number[]} a @param {number[]} b */
function before(a, b) {
  const k = a.findIndex((value, place) => value !== b[place]);
  return k >= 0 && a[k] < b[k];
}

/** How often each of some things occurs: those that occur most often first. @template T @param {T[]} things @returns {[T, number][]} */
function counted(things) {
  const counts = new Map();
  for (const one of things) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

class WaitChain {
  /** @param {Engine} engine @param {string} path */
  constructor(engine, path) {
    this._engine = engine;
    this._tables = engine.tables;
    this._lines = new Lines(engine);
    /** @type {Why} */
    this._why = { path, now_ps: engine.now_ps(), circle: false, steps: [] };
    /** @type {Map<string, number>} blocks and lines in their order, and whose */
    this._seen = new Map();
  }

  /** @param {MachinePart} place */
  follow(place) {
    const { kind, row, rows, path } = place;
    const { blocks, sms } = this._tables;
    if (kind === "gpu") this._several(place, rowsOf(this._engine, row, "block"), `GPU${row}`);
    else if (["sm", "engine", "nic"].includes(kind)) {
      this._several(place, rowsOf(this._engine, sms.at.gpu(row), "block").filter((block) => blocks.at.sm(block) === row), path);
    } else if (kind === "block") this._block(row);
    else if (kind === "line") this._line(row);
    else if (kind === "link" || kind === "port") this._link(path, rows);
    else if (kind === "buffer") this._link(path, rows.map((queue) => Math.floor(queue / CLASSES)));
    else if (kind === "semaphore") this._semaphore(place);
    else if (kind === "l2" || kind === "hbm") this._server(place);
    else this._node(place);
    return this._why;
  }

  /** @param {string} text @param {string} path @param {number} [since_ps] */
  _put(text, path, since_ps = -1) {
    this._why.steps.push({ text, path, since_ps });
  }

  // Thread blocks -----------------------------------------------------------

  /** A GPU or an SM: of its thread blocks the one that waits longest. @param {MachinePart} place @param {number[]} mine @param {string} name */
  _several({ path }, mine, name) {
    const { blocks } = this._tables;
    if (!mine.length) {
      this._put(`${name} has no thread block`, path);
      return;
    }
    const one = worst(this._engine, mine);
    if (blocks.at.state(one) === DONE) {
      const when = formatTime(mostOf(blocks, "ended_ps", mine));
      this._put(`${name} waits for nothing: its last thread block ended at ${when}`, path);
      return;
    }
    const found = counted(mine.map((block) => doing(blocks.at.state(block)))).map(([what, count]) => `${what} ${count}`);
    this._put(`${name}: thread blocks: ${found.join(", ")}`, path);
    this._block(one);
  }

  /** A step about a thread block. @param {number} block @param {string} text @param {number} [since_ps] */
  _report(block, text, since_ps = -1) {
    this._put(`${blockName(this._engine, block)} ${text}`, blockPath(this._engine, block), since_ps);
  }

  /** `operation 7 (all-gather 1/7)`. @param {number} op */
  _op(op) {
    const { number, phase } = this._tables.ops.at;
    const { phases } = this._engine.live.about.scene;
    return `operation ${number(op)}${phases.length ? ` (${phases[phase(op)]})` : ""}`;
  }

  /** Whether the chain has been here before: then it ends, as a cycle. @param {string} what @param {number} block */
  _comesBack(what, block) {
    if (this._seen.has(what)) {
      const keys = [...this._seen.keys()];
      const cycle = [...this._seen.values()].slice(keys.indexOf(what)).map((one) => blockName(this._engine, one));
      const names = cycle.filter((name, k) => k === 0 || name !== cycle[k - 1]);
      this._why.circle = true;
      this._put(`a cycle of waits: ${[...names, names[0]].join(" <- ")} (deadlock)`, blockPath(this._engine, block));
      return true;
    }
    if (this._why.steps.length >= MOST_STEPS) {
      this._put("and so on", blockPath(this._engine, block));
      return true;
    }
    this._seen.set(what, block);
    return false;
  }

  /** @param {number} block */
  _block(block) {
    const state = this._tables.blocks.at.state(block);
    // Warps of a block that moves go on by themselves: of these, lines may come back, not blocks.
    if (state !== MOVING && this._comesBack(`block ${block}`, block)) return;
    if (state === PENDING) this._pending(block);
    else if (state === MOVING) this._moving(block);
    else if (state === SIGNALLING) this._signalling(block);
    else if (state === WAITING) this._waiting(block);
    else if (state === DRAINING) this._draining(block);
    else this._report(block, "has ended: it waits for nothing", this._tables.blocks.at.ended_ps(block));
  }

  /** @param {number} block */
  _pending(block) {
    const { blocks, ops } = this._tables;
    const { at } = blocks;
    const rank = at.gpu(block);
    if (at.after(block) > 0) {
      this._report(block, `has not begun: it waits for the end of ${at.after(block)} others`, 0);
      const late = rowsWhere(ops, (op) => ops.at.kind(op) === RELEASE && ops.at.value(op) === block && ops.at.started_ps(op) < 0);
      if (late.length) this._block(ops.at.block(late[0]));
      return;
    }
    if (at.sm(block) >= 0) {
      const late_ps = this._engine.late_ps[rank] ?? 0;
      const starts = late_ps > this._engine.now_ps() ? `its rank starts late, at ${formatTime(late_ps)}` : "";
      this._report(block, `has not begun: ${starts || `its kernel is launched at ${formatTime(at.launch_ps(block))}`}`, 0);
      return;
    }
    const same = (/** @type {number} */ one) => at.engine(one) === at.engine(block) && at.sm(one) >= 0 && at.state(one) !== DONE;
    const resident = rowsOf(this._engine, rank, "block").filter(same);
    const what = ["SM", "copy engine", "NIC"][at.engine(block)];
    this._report(block, `has not begun: the ${what}s of its GPU have room for ${resident.length} blocks`, 0);
    // A place becomes free when the first of them ends: one that does not wait for others, if any.
    const able = resident.filter((one) => at.state(one) !== WAITING);
    const left = (/** @type {number} */ one) => at.last_op(one) - at.op(one);
    if (resident.length) this._block((able.length ? able : resident).reduce((best, one) => (left(one) < left(best) ? one : best)));
  }

  /** @param {number} block */
  _signalling(block) {
    const { at } = this._tables.blocks;
    this._report(block, "is about to issue its next instruction", at.since_ps(block));
    this._slots(at.sm(block));
  }

  /** An SM: its slots for requests under way are taken, or its issue slots are the limit. @param {number} sm */
  _slots(sm) {
    const { at } = this._tables.sms;
    const path = smPath(this._engine, sm);
    const next_ps = this._lines.nextIssue.get(sm);
    if (at.stalled(sm)) {
      this._put(`all ${at.outstanding(sm)} slots for requests of ${path} are taken: it stalls`, path, at.stalled_since_ps(sm));
      const [oldest] = this._lines.ofSm(sm);
      if (oldest !== undefined) this._line(oldest, "the oldest of them is");
    } else if (next_ps !== undefined) {
      this._put(`${path} issues its next instruction at ${formatTime(next_ps)}: it is limited by its issue slots`, path);
    } else this._put(`${path} has nothing to issue`, path);
  }

  /** @param {number} block */
  _moving(block) {
    const { blocks, ops, requests, sms } = this._tables;
    const op = blocks.at.op(block);
    const since_ps = blocks.at.since_ps(block);
    const kind = ops.at.kind(op);
    if (kind === SPEND) {
      this._report(block, `is at ${this._op(op)} until ${formatTime(since_ps + ops.at.left(op))}`, since_ps);
      return;
    }
    if (kind === TILE) {
      this._tile(block, op);
      return;
    }
    if (kind === COMPUTE) {
      this._report(block, `computes at ${this._op(op)}: ${commas(ops.at.left(op))} instructions to issue`, since_ps);
      this._slots(blocks.at.sm(block));
      return;
    }
    this._report(block, `moves lines at ${this._op(op)}: ${commas(ops.at.left(op))} of ${commas(ops.at.lines(op))} to go`, since_ps);
    // Warps run ahead: the block's own move comes first.
    const loads = this._loads(block).sort((a, b) => requests.at.op(a) - requests.at.op(b));
    if (sms.at.stalled(blocks.at.sm(block)) || !loads.length) this._slots(blocks.at.sm(block));
    else if (this._isAbsent(loads[0])) this._packet(loads[0]);
    else this._line(loads[0], `${commas(loads.length)} loads are under way, the oldest is`);
  }

  /** Loads of a thread block under way, the oldest first. @param {number} block */
  _loads(block) {
    return this._lines.ofBlock(block).filter((request) => this._tables.requests.at.kind(request) === LOAD);
  }

  /** A tile: the matrix units compute a step of it, or its operands are on their way. @param {number} block @param {number} op */
  _tile(block, op) {
    const { blocks, ops, tiles } = this._tables;
    const tile = ops.at.value(op);
    const steps = `${commas(tiles.at.computed(tile))} of ${commas(tiles.at.steps(tile))} steps computed`;
    this._report(block, `computes a tile at ${this._op(op)}: ${steps}`, blocks.at.since_ps(block));
    const path = smPath(this._engine, blocks.at.sm(block));
    if (tiles.at.computing(tile)) {
      const until = formatTime(/** @type {number} */ (this._lines.fences.get(block)));
      this._put(`the matrix units of ${path} are at its next step until ${until}`, path);
      return;
    }
    const loads = this._loads(block);
    if (loads.length) this._line(loads[0], `${commas(loads.length)} lines of its operands are under way, the oldest is`);
    else this._slots(blocks.at.sm(block));
  }

  /** @param {number} block */
  _draining(block) {
    const { blocks, ops, requests } = this._tables;
    const { at } = blocks;
    const [op, unacked, since_ps] = [at.op(block), at.unacked(block), at.since_ps(block)];
    const what = op === at.last_op(block) ? "its end" : `the fence before ${this._op(op)}`;
    if (unacked === 0) {
      const over_ps = this._lines.fences.get(block) ?? -1;
      this._report(block, `is in a system-wide fence${over_ps >= 0 ? ` until ${formatTime(over_ps)}` : ""}`, since_ps);
      return;
    }
    let stores = `${commas(unacked)} stores and signals`;
    if (op < at.last_op(block) && ops.at.fence(op) === COUNTED) stores = `those of all but its last moves, of ${stores},`;
    this._report(block, `waits at ${what} until ${stores} are acknowledged`, since_ps);
    const mine = this._lines.ofBlock(block).filter((request) => [STORE, SIGNAL].includes(requests.at.kind(request)));
    if (mine.length) this._line(mine[0], "the oldest is");
  }

  // Signals and packets -------------------------------------------------------

  /** @param {number} block */
  _waiting(block) {
    const { blocks, ops, semaphores } = this._tables;
    const op = blocks.at.op(block);
    const [semaphore, needed] = [ops.at.semaphore(op), ops.at.value(op)];
    const has = semaphores.at.value(semaphore);
    this._report(block, `waits at ${this._op(op)} for semaphore ${semaphore}: it is ${has} of ${needed}`, blocks.at.since_ps(block));
    if (has >= needed) {
      this._put("the signal is there; the poll that will see it is under way", blockPath(this._engine, block));
      const poll = this._lines.ofBlock(block).at(-1);
      if (poll !== undefined) this._line(poll, "it is");
      return;
    }
    const missing = this._missing(semaphore);
    if (!missing.length) {
      this._put("no remaining operation raises it (deadlock)", blockPath(this._engine, block));
      this._why.circle = true;
      return;
    }
    const [distance, signal] = missing[Math.min(needed - has, missing.length) - 1];
    const others = missing.length > 1 ? ` (and ${missing.length - 1} others)` : "";
    this._signal(signal, distance, others);
  }

  /** A signal that has not arrived. @param {number} signal @param {number} distance @param {string} others in words */
  _signal(signal, distance, others) {
    const { ops } = this._tables;
    const who = ops.at.block(signal);
    const [underWay] = this._lines.ofOp(signal, SIGNAL);
    if (distance < 0 && underWay !== undefined) {
      this._report(who, `has signalled it at ${this._op(signal)}${others}`);
      this._line(underWay, "the signal is");
      return;
    }
    if (ops.at.started_ps(signal) < 0) {
      this._report(who, `has yet to signal it at ${this._op(signal)}${others}`);
      this._block(who);
      return;
    }
    this._report(who, `has posted it at ${this._op(signal)}, behind stores not acknowledged${others}`);
    for (let move = signal - ops.at.before(signal); move < signal; move += 1) {
      const [store] = this._lines.ofOp(move, STORE);
      if (store !== undefined) {
        this._line(store, "the oldest is");
        return;
      }
    }
  }

  /** Signals that have not arrived, with how far their blocks are from them: the nearest first. @param {number} semaphore @returns {[distance: number, signal: number][]} */
  _missing(semaphore) {
    const { blocks, ops } = this._tables;
    /** @type {[number, number][]} */
    const found = [];
    for (const signal of rowsWhere(ops, (op) => ops.at.kind(op) === NOTIFY && ops.at.semaphore(op) === semaphore)) {
      const block = ops.at.block(signal);
      if (ops.at.issued_ps(signal) < 0) found.push([(blocks.at.sm(block) < 0 ? FAR : 0) + signal - blocks.at.op(block), signal]);
      else if (this._lines.ofOp(signal, SIGNAL).length) found.push([-1, signal]);
    }
    return found.sort(([a, one], [b, other]) => a - b || one - other);
  }

  /** Whether a request reads a packet that has not come. @param {number} request */
  _isAbsent(request) {
    const { details, flags, operands, requests } = this._tables;
    const flag = operands.at.flag(requests.at.operand(request));
    if (requests.at.kind(request) !== LOAD || flag < 0) return false;
    return flags.at.value(flag + details.at.index(request)) === 0;
  }

  /** Who writes the packet that a load does not find. @param {number} request */
  _packet(request) {
    const { details, operands, ops, requests, slices } = this._tables;
    if (this._comesBack(`line ${request}`, this._lines.blockOf(request))) return;
    const where = `line[${request}]`;
    const slice = operands.at.slice(requests.at.operand(request));
    const index = details.at.index(request);
    const packet = `packet ${index + 1} of packets[${slices.at.chunk(slice)}]`;
    this._put(`it reads ${packet}, which has not come`, where, requests.at.issued_ps(request));
    const op = this._writerOf(slice);
    if (op < 0) {
      this._why.circle = true;
      this._put("no operation writes it (deadlock)", where);
      return;
    }
    const who = ops.at.block(op);
    const line = requests.at.line(request);
    const store = this._lines.ofOp(op, STORE).find((one) => requests.at.line(one) === line);
    if (store !== undefined) {
      this._report(who, `has stored it at ${this._op(op)}`);
      this._line(store, "it is");
      return;
    }
    this._report(who, `has yet to store it at ${this._op(op)}`);
    const same = this._lines.ofBlock(who).filter((one) => requests.at.op(one) === op && details.at.index(one) === index);
    const needed = same.find((one) => this._isAbsent(one));
    if (needed !== undefined) this._packet(needed);
    else if (same.length) this._line(same[0], "for that");
    else this._block(who);
  }

  /** The first operation that writes a slice; -1: none does. @param {number} slice */
  _writerOf(slice) {
    const { operands, ops } = this._tables;
    for (const operand of rowsWhere(operands, (row) => operands.at.slice(row) === slice)) {
      const [op] = rowsWhere(ops, (row) => {
        const first = ops.at.first_target(row);
        return first <= operand && operand < first + ops.at.targets(row);
      });
      if (op !== undefined) return op;
    }
    return -1;
  }

  // Lines and links -----------------------------------------------------------

  /** @param {number} request @param {string} [lead] */
  _line(request, lead = "") {
    const what = requestText(this._engine, request);
    this._put(`${lead} ${what}`.trim(), `line[${request}]`, this._tables.requests.at.issued_ps(request));
    const { text, path, since_ps } = this._lines.spot(request);
    this._put(text, path, since_ps);
  }

  /** @param {string} path @param {number[]} links */
  _link(path, links) {
    const { at } = this._tables.requests;
    const on = this._lines.onLinks(links);
    const queued = on.filter((request) => this._lines.isQueued(request));
    const busy = `${percent(utilisation(this._engine, links), 0)} busy so far`;
    this._put(`${path} carries ${commas(on.length - queued.length)} lines, ${commas(queued.length)} wait in its queue; ${busy}`, path);
    const users = counted(on.map((request) => `${this._lines.blockOf(request)} ${at.op(request)}`));
    for (const [user, count] of users.slice(0, MOST_USERS)) {
      const [block, op] = user.split(" ").map(Number);
      const waits = queued.filter((request) => at.op(request) === op).length;
      this._report(block, `has ${commas(count)} lines of ${this._op(op)} on it, ${commas(waits)} of them in its queue`);
    }
    if (users.length > MOST_USERS) this._put(`and ${users.length - MOST_USERS} other thread blocks`, path);
  }

  /** Of the thread blocks that wait for a semaphore the one that waits longest. @param {MachinePart} place */
  _semaphore({ row, path }) {
    const { blocks, ops, semaphores } = this._tables;
    const { at } = blocks;
    const waits = (/** @type {number} */ block) =>
      at.state(block) === WAITING && ops.at.semaphore(Math.min(at.op(block), ops.rows - 1)) === row;
    const waiting = rowsWhere(blocks, waits);
    this._put(`${path} is ${semaphores.at.value(row)}, and ${waiting.length} thread blocks wait for it`, path);
    if (waiting.length) this._block(worst(this._engine, waiting));
  }

  /** An L2 slice or an HBM channel: its queue. @param {MachinePart} place */
  _server({ kind, row, path }) {
    const table = this._tables[TABLES[kind]];
    const now_ps = this._engine.now_ps();
    const queue = Math.max(0, table.at.free_at_ps(row) - now_ps);
    const busy = `${percent(busyUntil(table, row, now_ps) / Math.max(1, now_ps), 0)} busy so far`;
    const waits = queue ? `its queue lasts ${formatTime(queue)}` : "nothing waits for it";
    this._put(`${path}: ${waits}; ${commas(table.at.lines(row))} lines served, ${busy}`, path);
  }

  /** A switch or another node: the busiest of its links out. @param {MachinePart} place */
  _node({ row, path }) {
    const { links } = this._tables;
    const out = rowsWhere(links, (link) => links.at.src(link) === row);
    if (!out.length) {
      this._put(`${path} has no links out`, path);
      return;
    }
    const byLink = this._lines.countByLink();
    const counts = out.map((link) => byLink.get(link) ?? 0);
    const most = Math.max(...counts);
    const busiest = out[counts.indexOf(most)];
    const every = counts.reduce((total, count) => total + count, 0);
    this._put(`${path}: ${commas(every)} lines on its links out; most are on`, path);
    this._link(fabricOf(this._engine).name(busiest), [busiest]);
  }
}

/**
 * Why an object waits now.
 * @param {Engine} engine
 * @param {string} path empty: the GPU whose thread block has waited longest
 * @returns {Why}
 */
export function explainWait(engine, path) {
  const { blocks } = engine.tables;
  const asked = path || gpuPath(engine, blocks.at.gpu(worst(engine, range(0, blocks.rows))));
  const place = resolve(asked, engine);
  return new WaitChain(engine, place.path).follow(place);
}
