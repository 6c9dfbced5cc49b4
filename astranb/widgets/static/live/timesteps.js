// @ts-check
// Events to come of a run of messages: counterpart of core/timesteps.py.

/** @import { Tables } from "./types" */

const MIX = 0x5bd1e995n;
const LOW = 0x7fffffffn;

/** A number in which all bits of another one count. @param {number} number */
export const mixed = (number) => ((BigInt(number) & LOW) * MIX) >> 15n;

/** The bucket of a time. @param {number} time @param {number} count a power of two */
export const bucketOf = (time, count) => Number(mixed(time) & BigInt(count - 1));

/**
 * Queue an event, not before now; the caller sees to it that a row is unused.
 * @param {Tables} tables
 * @param {number} time
 * @param {number} what
 */
export function putEvent({ queue, timesteps, pending }, time, what) {
  let row = queue.at.latest(0);
  if (row < 0 || timesteps.at.time(row) !== time) {
    const bucket = bucketOf(time, timesteps.rows);
    row = timesteps.at.bucket(bucket);
    while (row >= 0 && timesteps.at.time(row) !== time) row = timesteps.at.next(row);
    if (row < 0) row = newTimestep({ queue, timesteps }, time, bucket);
    queue.put.latest(0, row);
  }
  const event = queue.at.free_event(0);
  queue.put.free_event(0, pending.at.next(event));
  queue.put.events_left(0, queue.at.events_left(0) - 1);
  pending.put.what(event, what);
  pending.put.next(event, -1);
  if (timesteps.at.tail(row) >= 0) pending.put.next(timesteps.at.tail(row), event);
  else timesteps.put.head(row, event);
  timesteps.put.tail(row, event);
}

/** Add a timestep to its bucket and to the heap. @param {Pick<Tables, "queue" | "timesteps">} tables @param {number} time @param {number} bucket */
function newTimestep({ queue, timesteps: { at, put } }, time, bucket) {
  const row = queue.at.free_timestep(0);
  queue.put.free_timestep(0, at.next(row));
  put.time(row, time);
  put.head(row, -1);
  put.tail(row, -1);
  put.next(row, at.bucket(bucket));
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
