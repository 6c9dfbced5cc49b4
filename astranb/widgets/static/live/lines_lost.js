// @ts-check
// Time lost per cause: what every thread block did with the whole time of the run. Counterpart of
// engine/cacheline/lost_time.py, and of its part of views/explain.py.

import { COMPUTE, COPY_ENGINE, DONE, DRAINING, MOVE, MOVING, NIC, PENDING, RELEASE, SIGNALLING, SPEND, TILE, WAITING } from "./gpu_numbers.js";
import { resolve } from "./lines_paths.js";
import { float, optional } from "./options.js";
import { runTime } from "./lines_times.js";
import { commas, str } from "./text.js";

/** @import { LineAnswers, Engine } from "./types" */

const [SWITCH_READS, SWITCH_WRITES, SYSTEM_WIDE] = [1, 2, 2]; // bits of an operation's in_switch, and of its fence

/** Times of all thread blocks by cause, in ps, in the order of Python's `LOSSES`: each row adds up to the time of the run so far. @param {Engine} engine @returns {number[][]} */
function lostTimes(engine) {
  const { blocks, ops } = engine.tables;
  const [nowPs, total] = [engine.now_ps(), runTime(engine)];
  const late = engine.late_ps;
  const [issuing, fencing, ordered] = ofOperations(engine);
  for (let op = 0; op < ops.rows; op++) if (ops.at.kind(op) === RELEASE) ordered[ops.at.value(op)] = 1;
  const { at } = blocks;
  return Array.from({ length: blocks.rows }, (_, block) => {
    const state = at.state(block);
    /** @param {number} of @param {"moving_ps" | "waiting_ps" | "draining_ps" | "signalling_ps"} field */
    const spent = (of, field) => at[field](block) + (state === of ? nowPs - at.since_ps(block) : 0);
    const [moving, draining] = [spent(MOVING, "moving_ps"), spent(DRAINING, "draining_ps")];
    const issue = Math.min(issuing[block], moving);
    const own = Math.min(fencing[block], draining);
    const begun = state !== PENDING && at.sm(block) >= 0;
    const before = begun ? at.started_ps(block) : total;
    const notStarted = Math.min(before, late[at.gpu(block)] ?? 0);
    const launch = Math.min(before, at.launch_ps(block)) - notStarted;
    const order = ordered[block] ? before - notStarted - launch : 0;
    return [
      issue, moving - issue, spent(SIGNALLING, "signalling_ps"), spent(WAITING, "waiting_ps"), draining - own, own,
      notStarted, launch, order, before - notStarted - launch - order,
      state === DONE ? total - Math.min(at.ended_ps(block), total) : 0,
    ];
  });
}

/**
 * Of each thread block the time of issue slots that its moves and computations have taken, and that of system-wide
 * fences that it has passed or is in; and room for which blocks wait for others.
 * @param {Engine} engine
 * @returns {[issuing: Float64Array, fencing: Float64Array, ordered: Uint8Array]}
 */
function ofOperations(engine) {
  const { ops, blocks, gpus, tiles } = engine.tables;
  const { kind, block: blockOf, in_switch: inSwitch, sources, targets, lines, left, value, started_ps: startedPs, ended_ps: endedPs, fence } = ops.at;
  const nowPs = engine.now_ps();
  /** @param {number} op @param {number} block @param {number} gpu */
  function issued(op, block, gpu) {
    const of = kind(op);
    if (of === TILE) return tiles.at.computed(value(op)) * tiles.at.step_ps(value(op));
    if (of === MOVE) {
      const loads = inSwitch(op) & SWITCH_READS ? 1 : 2 * sources(op) - 1;
      const stores = inSwitch(op) & SWITCH_WRITES ? 1 : targets(op);
      const unit = blocks.at.engine(block);
      const slot = unit === COPY_ENGINE ? gpus.at.engine_issue_ps(gpu) : unit === NIC ? gpus.at.nic_issue_ps(gpu) : gpus.at.issue_ps(gpu) * gpus.at.issue_lines(gpu);
      return (lines(op) - left(op)) * (loads + stores) * slot;
    }
    if (startedPs(op) < 0) return 0;
    if (of === COMPUTE) return (value(op) * blocks.at.warps(block) - left(op)) * gpus.at.issue_ps(gpu);
    return of === SPEND ? (endedPs(op) >= 0 ? endedPs(op) : nowPs) - startedPs(op) : 0;
  }
  const [issuing, fencing] = [new Float64Array(blocks.rows), new Float64Array(blocks.rows)];
  for (let op = 0; op < ops.rows; op++) {
    const block = blockOf(op);
    const gpu = blocks.at.gpu(block);
    issuing[block] += issued(op, block, gpu);
    if (!(fence(op) & SYSTEM_WIDE)) continue;
    const cost = gpus.at.fence_ps(gpu);
    if (startedPs(op) >= 0) fencing[block] += cost;
    else if (blocks.at.op(block) === op && blocks.at.fenced(block) === 1) fencing[block] += Math.min(cost, nowPs - blocks.at.since_ps(block));
  }
  return [issuing, fencing, new Uint8Array(blocks.rows)];
}

/** Which thread blocks an object has, and its name. @param {Engine} engine @param {string} path @returns {[mine: (block: number) => boolean, name: string]} */
function blocksOf(engine, path) {
  const { at } = engine.tables.blocks;
  if (path && !path.includes("->") && !path.startsWith("line[")) {
    const { kind, row, path: full } = resolve(path, engine);
    if (kind === "gpu") return [(block) => at.gpu(block) === row, full];
    if (["sm", "engine", "nic"].includes(kind)) return [(block) => at.sm(block) === row, full];
    if (kind === "block") return [(block) => block === row, full];
  }
  return [() => true, "all GPUs"];
}

/** @type {LineAnswers} */
export const lost = {
  lost_time(feed, options) {
    const at_ps = optional(options, "at_ps", null);
    const { engine } = feed.session.at(at_ps === null ? null : float(at_ps));
    const [mine, name] = blocksOf(engine, str(optional(options, "path", "")));
    const times = lostTimes(engine).filter((_, block) => mine(block));
    const losses = Object.entries(engine.live.about.losses);
    const sums = losses.map((_, cause) => times.reduce((whole, row) => whole + row[cause], 0));
    const rows = losses.map(([cause, means], k) => ({ cause, means, ps: sums[k] })).filter(({ ps }) => ps);
    rows.sort((a, b) => b.ps - a.ps || (a.cause < b.cause ? 1 : -1));
    const of = times.length === 1 ? "1 thread block" : `sum of ${commas(times.length)} thread blocks`;
    return [{ of: `${name}: ${of}`, parts: times.length, total_ps: sums.reduce((whole, ps) => whole + ps, 0), rows }, []];
  },
};
