// @ts-check
// Effects of pause frames, ECN marks and rate limits, in words and rows: counterpart of engine/cacheline/ethernet.py.

import { fabricOf } from "./fabric.js";
import { CLASSES, PAUSE, RATE_RELEASE } from "./gpu_numbers.js";
import { mostOf, rowsWhere, sumOf } from "./rows.js";
import { commas } from "./text.js";
import { formatBandwidth, formatTime } from "./units.js";

/** @import { Engine, Tables } from "./types" */

const [PAUSES, MARKS, INJECTS] = [1, 2, 4]; // bits of a link's `role`
const MOST_FLOWS = 16;

/** The queues of links, one for each class of messages. @param {number[]} links */
const queuesOf = (links) => links.flatMap((link) => Array.from({ length: CLASSES }, (_, k) => link * CLASSES + k));

/** Time for which classes of some links were paused, with the pauses that last. @param {Tables} tables @param {number[]} links @param {number} now_ps */
function pausedPs({ links: table, queues }, links, now_ps) {
  const still = queuesOf(links).filter((queue) => queues.at.paused(queue) === 1);
  return sumOf(table, "paused_ps", links) + still.length * now_ps - sumOf(queues, "paused_at_ps", still);
}

/** Rows of the inspector for the lanes of a link; none where it is no Ethernet. @param {Engine} engine @param {number[]} links @returns {[string, string][]} */
export function linkRows(engine, links) {
  const { links: table, queues, roce } = engine.tables;
  const roles = links.reduce((all, link) => all | table.at.role(link), 0);
  if (!roce.at.on(0) || !(roles & (PAUSES | MARKS | INJECTS))) return [];
  /** @type {[string, string][]} */
  const state = [["most queued, one class", `${commas(mostOf(table, "most_queued", links))} B`]];
  if (roce.at.pfc(0) && roles & PAUSES) {
    const own = queuesOf(links);
    state.push(
      ["waiting behind it, one class", `${commas(mostOf(queues, "stored", own))} B now, ${commas(mostOf(table, "most_stored", links))} B at most`],
      ["paused now", own.some((queue) => queues.at.paused(queue)) ? "yes" : "no"],
      ["time paused", formatTime(pausedPs(engine.tables, links, engine.now_ps()))],
      ["pause frames", commas(sumOf(table, "pauses", links))],
    );
  }
  if (roce.at.ecn(0) && roles & MARKS) state.push(["messages marked", commas(sumOf(table, "marked", links))]);
  if (roce.at.dcqcn(0) && roles & INJECTS) state.push(...ratesOf(engine, links));
  return state;
}

/** The rates of the flows that enter links. @param {Engine} engine @param {number[]} links @returns {[string, string][]} */
function ratesOf(engine, links) {
  const { flows } = engine.tables;
  const { rankOf } = fabricOf(engine);
  const own = new Set(links);
  const mine = rowsWhere(flows, (flow) => own.has(flows.at.link(flow)));
  /** @type {[string, string][]} */
  const state = mine.slice(0, MOST_FLOWS).map((flow) => {
    const limit = flows.at.limited(flow) ? formatBandwidth(flows.at.rate_Bps(flow)) : "the line's";
    const waits = flows.at.waiting(flow) ? `, ${commas(flows.at.waiting(flow))} messages wait for it` : "";
    return [`rate to GPU${rankOf.get(flows.at.target(flow))}`, limit + waits];
  });
  if (mine.length > MOST_FLOWS) state.push(["more flows", commas(mine.length - MOST_FLOWS)]);
  return state;
}

/** An event that is not about a request, in words: a pause frame, a rate limiter, a CNP. @param {Engine} engine @param {number} kind @param {number} arg */
export function describeEvent(engine, kind, arg) {
  const fabric = fabricOf(engine);
  if (kind === PAUSE) {
    const queue = Math.floor(arg / 2);
    const what = (queue % CLASSES) % 2 ? "responses" : "requests";
    return `${fabric.name(Math.floor(queue / CLASSES))} ${arg % 2 ? "must pause" : "resumes"} ${what}`;
  }
  const { link, target } = engine.tables.flows.at;
  const name = `the flow from ${fabric.name(link(arg))} to ${fabric.nodes[target(arg)]}`;
  return kind === RATE_RELEASE ? `${name} may send its next message` : `${name} is notified of congestion`;
}
