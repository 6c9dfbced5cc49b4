// @ts-check
// Links of a workload's run that go down and come up again: counterpart of `set_up` of engine/messages/edits.py.

import { DOWN } from "./dimension_links.js";
import { putEvent } from "./timesteps.js";

/** @import { Machine } from "./types" */

const FREE = 2; // an event: a link is free again
const KIND_BITS = 3;

/** Take links down, or bring them up: now, or later where nothing else happens until then. @param {Machine} machine @param {number[]} rows @param {boolean[]} down @param {number} at_ps */
export function setUp(machine, rows, down, at_ps) {
  const { links } = machine.tables;
  rows.forEach((link, at) => {
    if (down[at]) links.put.busy(link, links.at.busy(link) | DOWN);
    else bringUp(machine, link, Math.ceil(at_ps / 1000));
  });
}

/** Waiting messages are sent, at once where the link is idle. @param {Machine} machine @param {number} link @param {number} at_ns */
function bringUp(machine, link, at_ns) {
  const { links, queue } = machine.tables;
  const [busy, now_ns] = [links.at.busy(link), queue.at.now(0)];
  if (!(busy & DOWN)) return;
  links.put.busy(link, busy & ~DOWN);
  links.put.free_ns(link, Math.max(links.at.free_ns(link), now_ns, at_ns)); // it has sent nothing until then
  if (busy & ~DOWN) return;
  if (at_ns > now_ns) {
    links.put.busy(link, 1);
    putEvent(machine.tables, at_ns, link * 2 ** KIND_BITS + FREE);
  } else freeLink(machine, link);
}

/**
 * A link begins to send what waits for it: the compiled loop does that when it handles the event that a link is free.
 * So that is all that it finds to do here: one event, in a timestep under way, which afterwards nobody has counted.
 * @param {Machine} machine
 * @param {number} link
 */
function freeLink({ tables, run }, link) {
  const { clock, queue, timesteps, pending, npus, limits } = tables;
  const [steps, cursor, fired, open] = [clock.at.steps(0), clock.at.cursor(0), clock.at.fired(0), queue.at.open(0)];
  const [event, step] = [queue.at.free_event(0), queue.at.free_timestep(0)]; // both are unused again before messages are sent
  const [what, head, tail] = [pending.at.what(event), timesteps.at.head(step), timesteps.at.tail(step)];
  queue.put.free_event(0, pending.at.next(event));
  queue.put.events_left(0, queue.at.events_left(0) - 1);
  pending.put.what(event, link * 2 ** KIND_BITS + FREE);
  pending.put.next(event, -1);
  timesteps.put.head(step, event);
  timesteps.put.tail(step, event);
  queue.put.open(0, step);
  clock.put.cursor(0, -1);
  clock.put.fired(0, npus.rows);
  limits.put.steps(0, steps + 1);
  for (const none of ["closely", "margin", "streams"]) limits.put[none](0, 0);
  run();
  clock.put.steps(0, steps);
  clock.put.cursor(0, cursor);
  clock.put.fired(0, fired);
  queue.put.open(0, open);
  if (queue.at.free_event(0) === event) pending.put.what(event, what);
  if (queue.at.free_timestep(0) === step) {
    timesteps.put.head(step, head);
    timesteps.put.tail(step, tail);
  }
}
