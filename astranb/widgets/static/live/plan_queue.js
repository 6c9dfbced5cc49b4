// @ts-check
// The first events of a run in an empty queue: counterpart of `new_queue` and `fill` of core/queue.py.

/** @import { Tables } from "./types" */

const [WHAT, ARGUMENT, SLOT_BITS] = [2 ** 26, 2 ** 22, 6]; // sequence, kind and argument of an event; time within a slot
const IN_SLOT = 2 ** SLOT_BITS;

/**
 * @param {Tables} tables
 * @param {[time_ps: number, kind: number, about: number][]} events those of one time are handled in the order given
 */
export function fillQueue({ clock, near, later, slots, far }, events) {
  const count = events.length;
  for (let row = 0; row < later.rows; row += 1) later.put.next(row, row + 1);
  for (let row = 0; row < slots.rows; row += 1) slots.put.value(row, -1);
  for (const field of ["queued", "seq", "far"]) clock.put[field](0, count);
  if (!count) return;
  const listed = [...events].sort(([a], [b]) => a - b).map(([time_ps, kind, about]) => ({ time_ps, what: kind * ARGUMENT + about, slot: Math.floor(time_ps / IN_SLOT) }));
  // The slot of the first event is open; a list in order is a heap.
  const open = listed[0].slot;
  const opened = listed.filter(({ slot }) => slot === open).length;
  listed.slice(0, opened).forEach(({ time_ps, what }, k) => {
    near.put.time_ps(k, time_ps);
    putOrder(near, k, k - opened, what);
  });
  // The events of one rotation are in the lists of their slots, each of which begins with the newest.
  const turn = listed.filter(({ slot }) => slot < open + slots.rows).length;
  listed.slice(opened, turn).forEach(({ time_ps, what, slot }, entry) => {
    const place = slot % slots.rows;
    later.put.event(entry, what * IN_SLOT + (time_ps % IN_SLOT));
    later.put.next(entry, slots.at.value(place));
    slots.put.value(place, entry);
  });
  listed.slice(turn).forEach(({ time_ps, what }, k) => {
    far.put.time_ps(k, time_ps);
    putOrder(far, k, turn + k, what);
  });
  clock.put.near(0, opened);
  clock.put.far(0, count - turn);
  clock.put.slot(0, open);
  clock.put.free_entry(0, turn - opened);
}

/** Sequence and what of an event, in one number. @param {import("./types").Table} heap @param {number} row @param {number} sequence @param {number} what */
const putOrder = (heap, row, sequence, what) => heap.put.order(row, sequence * WHAT + what);
