// @ts-check
// The queue of a run of messages: counterpart of core/timesteps.py. Taking events is the compiled loop's business.

/** @import { Tables } from "./types" */

/** No event happens at this time or later, in ns. */
export const NEVER = Number(2n ** 61n / 1000n);

const MIX = 0x5bd1e995n;
const LOW = 0x7fffffffn;

/** The bucket of a time. @param {number} time @param {number} count a power of two */
export const bucketOf = (time, count) => Number((((BigInt(time) & LOW) * MIX) >> 15n) & BigInt(count - 1));

/** Add a timestep to its bucket and to the heap. @param {Tables} tables @param {number} time @param {number} bucket */
function newTimestep({ queue, timesteps: { at, put } }, time, bucket) {
  const row = queue.at.free_timestep(0);
  queue.put.free_timestep(0, at.next(row));
  for (const [field, value] of /** @type {const} */ ([["time", time], ["head", -1], ["tail", -1], ["next", at.bucket(bucket)]])) put[field](row, value);
  put.bucket(bucket, row);
  let hole = queue.at.heaped(0);
  queue.put.heaped(0, hole + 1);
  while (hole > 0) {
    const parent = (hole - 1) >> 1;
    const other = at.heap(parent);
    if (at.time(other) < time) break;
    put.heap(hole, other);
    hole = parent;
  }
  put.heap(hole, row);
  return row;
}

/** Queue an event, not before now. @param {Tables} tables @param {number} when in ns @param {number} what what happens */
export function putEvent(tables, when, what) {
  const { queue, timesteps, pending } = tables;
  let [row, time] = [queue.at.latest(0), when];
  if (row < 0 || timesteps.at.time(row) !== time) {
    if (time >= NEVER || time < queue.at.now(0)) time = NEVER;
    const bucket = bucketOf(time, timesteps.rows);
    row = timesteps.at.bucket(bucket);
    while (row >= 0 && timesteps.at.time(row) !== time) row = timesteps.at.next(row);
    if (row < 0) row = newTimestep(tables, time, bucket);
    queue.put.latest(0, row);
  }
  const event = queue.at.free_event(0);
  queue.put.free_event(0, pending.at.next(event));
  queue.put.events_left(0, queue.at.events_left(0) - 1);
  pending.put.what(event, what);
  pending.put.next(event, -1);
  const tail = timesteps.at.tail(row);
  if (tail >= 0) pending.put.next(tail, event);
  else timesteps.put.head(row, event);
  timesteps.put.tail(row, event);
}
