// @ts-check
// Which SM each thread block is resident on, with another number of SMs: counterpart of engine/cacheline/occupancy.py.

import { eventsOf, refill } from "./event_queue.js";
import { LAUNCH, PENDING } from "./gpu_numbers.js";
import { nowPs } from "./lines_faults.js";
import { ascending } from "./longs.js";
import { range, rowsWhere } from "./rows.js";

/** @import { Tables } from "./types" */

/**
 * Let only the first SMs of a GPU take thread blocks; running blocks stay where they are.
 * Blocks that are resident and have not begun are placed again, as at the start of a run.
 * @param {Tables} tables
 * @param {number} gpu
 * @param {number} count
 */
export function useSms(tables, gpu, count) {
  const { blocks, clock, gpus, sms } = tables;
  const { at } = blocks;
  gpus.put.usable(gpu, count);
  const moved = rowsWhere(blocks, (block) =>
    at.gpu(block) === gpu && at.sm(block) >= 0 && at.state(block) === PENDING && at.engine(block) === 0 && at.held(block) > 0 && at.role(block) === 0);
  const queue = [...moved];
  for (let block = gpus.at.pending_head(gpu); block >= 0; block = at.next_pending(block)) queue.push(block);
  if (clock.at.now_ps(0) >= 0) countTaken(tables, gpu);
  for (const block of moved) {
    const sm = at.sm(block);
    sms.put.resident(sm, sms.at.resident(sm) - 1);
    sms.put.free(sm, sms.at.free(sm) + at.held(block));
    blocks.put.sm(block, -1);
  }
  queue.sort((a, b) => at.urgent(b) - at.urgent(a));
  const first = gpus.at.first_sm(gpu);
  const placed = onEmptiest(tables, queue.map(at.held), first, first + count);
  placed.forEach((sm, number) => blocks.put.sm(queue[number], sm));
  for (const block of queue) blocks.put.next_pending(block, -1);
  letWait(tables, gpu, queue.slice(placed.length));
  gpus.put.taken(gpu, range(0, gpus.at.sms(gpu)).filter((sm) => sms.at.resident(first + sm) !== 0).length);
  const [again, begin] = [withRoles(tables, moved), withRoles(tables, queue.slice(0, placed.length))];
  for (const role of rowsWhere(blocks, (block) => at.role(block) > 0)) blocks.put.sm(role, at.sm(role - at.role(role)));
  const takenBack = new Set(again);
  const events = eventsOf(tables).filter(({ kind, arg }) => kind !== LAUNCH || !takenBack.has(arg));
  for (const block of begin) events.push({ time_ps: BigInt(Math.max(nowPs(tables), at.launch_ps(block))), kind: LAUNCH, arg: block });
  // Launches of one time come first, by number, as they do at the start.
  /** @param {{ kind: number, arg: number }} event */
  const turn = ({ kind, arg }) => (kind === LAUNCH ? arg : Infinity);
  events.sort((a, b) => ascending(a.time_ps, b.time_ps) || (turn(a) === turn(b) ? 0 : turn(a) - turn(b)));
  clock.put.busy(0, clock.at.busy(0) + begin.length - again.length);
  refill(tables, events);
}

/** Add up what blocks on SMs have taken from a computation on all of them (gpu/block.py). @param {Tables} tables @param {number} gpu */
function countTaken({ clock, gpus: { at, put } }, gpu) {
  const sms = at.sms(gpu);
  const taken = Math.min(at.taken(gpu), sms - 1);
  const since = clock.at.now_ps(0) - at.taken_at_ps(gpu);
  put.taken_ps(gpu, at.taken_ps(gpu) + Math.floor(since / sms) * taken + Math.floor(((since % sms) * taken) / sms));
  put.taken_at_ps(gpu, clock.at.now_ps(0));
}

/**
 * Place blocks in their order, each on the SM with most room, until one has none; their SMs.
 * @param {Tables} tables
 * @param {number[]} held by each block
 * @param {number} first
 * @param {number} end
 */
function onEmptiest({ sms: { at, put } }, held, first, end) {
  const placed = [];
  for (const parts of held) {
    let best = first;
    for (let sm = first + 1; sm < end; sm++) if (at.free(sm) > at.free(best)) best = sm;
    if (at.free(best) < parts) break;
    put.free(best, at.free(best) - parts);
    put.resident(best, at.resident(best) + 1);
    placed.push(best);
  }
  return placed;
}

/** Let blocks wait for room on a GPU, the urgent ones first. @param {Tables} tables @param {number} gpu @param {number[]} waiting */
function letWait({ blocks, gpus }, gpu, waiting) {
  waiting.forEach((block, number) => blocks.put.next_pending(block, waiting[number + 1] ?? -1));
  gpus.put.pending_head(gpu, waiting[0] ?? -1);
  gpus.put.pending_tail(gpu, waiting.at(-1) ?? -1);
  gpus.put.urgent_tail(gpu, waiting.findLast((block) => blocks.at.urgent(block) === 1) ?? -1);
}

/** Rows of first roles, each followed by the other roles of its thread block. @param {Tables} tables @param {number[]} first */
const withRoles = ({ blocks }, first) => first.flatMap((block) => Array.from({ length: blocks.at.roles(block) }, (_, role) => block + role));
