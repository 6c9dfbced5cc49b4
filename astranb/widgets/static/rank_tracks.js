// @ts-check
// A window of the timeline of ranks, as a page that simulates answers: spans where they have room, else shares of each column.

import { pack } from "./messages.js";
import { searchSorted, toEven } from "./numpy.js";

/** @import { Sent } from "./types" */
/**
 * A span within the window: the row of its operation, the place of its track, which slot there of how many it has, from
 * when to when, and until when it waits for another rank, for what.
 * @typedef {{ row: number, place: number, slot: number, slots: number, start: number, end: number, ready: number, waits: number }} Span
 */
/** When a rank, the number of those asked for, had nothing to do: it started late, or had a bubble.
 * @typedef {{ at: number, state: number, start: number, end: number }} Idle */

export const ACTIVITIES = ["compute", "communication", "waiting for peers", "remote memory", "started late", "bubble"];
export const [LATE, BUBBLE] = [ACTIVITIES.indexOf("started late"), ACTIVITIES.indexOf("bubble")];
const MOST_SPANS = 6_000;
const MOST_LABELS = 512;

/** Which part of each column spans take, 255 being all; what overlaps counts once at most. @param {[start: number, end: number][]} spans @param {Float64Array} edges */
function busy(spans, edges) {
  const columns = edges.length - 1;
  const [taken, whole] = [new Float64Array(columns), new Int32Array(columns + 1)];
  for (const [from, to] of spans) {
    const [start, end] = [Math.max(from, edges[0]), Math.min(to, edges[columns])];
    if (end <= start) continue;
    const [first, last] = [searchSorted(edges, start, true) - 1, searchSorted(edges, end) - 1];
    if (first === last) taken[first] += end - start;
    else {
      taken[first] += edges[first + 1] - start;
      taken[last] += end - edges[last];
      whole[first + 1] += 1;
      whole[last] -= 1;
    }
  }
  let covering = 0;
  return taken.map((ps, column) => {
    covering += whole[column];
    const width = edges[column + 1] - edges[column];
    return Math.min(255, toEven((255 * (ps + covering * width)) / width));
  });
}

/** How busy each track of some ranks is; of operations also how long they wait, started late, and had bubbles. @param {Span[]} spans @param {Idle[]} idle @param {number} ranks @param {number} tracks @param {boolean} waiting @param {Float64Array} edges */
function shares(spans, idle, ranks, tracks, waiting, edges) {
  const rows = waiting ? tracks + 3 : tracks;
  /** @type {[start: number, end: number][][]} */
  const parts = Array.from({ length: ranks * rows }, () => []);
  for (const { place, start, end, ready, waits } of spans) {
    const [rank, track] = [Math.floor(place / tracks), place % tracks];
    const begun = waits === BUBBLE ? ready : start; // what waits for a message is a bubble, and no communication
    parts[rank * rows + track].push([begun, end]);
    if (waiting) parts[rank * rows + tracks].push([begun, ready]);
  }
  for (const { at, state, start, end } of waiting ? idle : []) parts[at * rows + tracks + (state === LATE ? 1 : 2)].push([start, end]);
  return parts.flatMap((part) => [...busy(part, edges)]);
}

/**
 * The answer about a window.
 * @param {{ kind: string, ranks: number[], tracks: number, now_ps: number, edges: Float64Array }} asked the ranks that are asked for, and how many tracks each has
 * @param {Span[]} spans
 * @param {Idle[]} idle
 * @param {{ number: (row: number) => number, label: (row: number) => string }} operations what the rows are called
 * @returns {Sent}
 */
export function tracksAnswer({ kind, ranks, tracks, now_ps, edges }, spans, idle, operations) {
  const columns = edges.length - 1;
  const meta = { from: edges[0], to: edges[columns], columns, kind, ranks, tracks, count: spans.length, now_ps };
  if (spans.length + idle.length > MOST_SPANS) {
    return [{ ...meta, drawn: "density" }, pack("tracks", { shares: shares(spans, idle, ranks.length, tracks, kind === "operations", edges) })];
  }
  /** @type {Map<string, number>} */
  const texts = new Map();
  const label = spans.map(({ row }) => {
    const text = operations.label(row);
    if (!texts.has(text)) texts.set(text, texts.size);
    return Math.min(texts.get(text) ?? 0, MOST_LABELS);
  });
  /** @param {"place" | "slot" | "slots" | "start" | "end" | "ready" | "waits"} name */
  const column = (name) => spans.map((span) => span[name]);
  const found = {
    place: column("place"), slot: column("slot"), slots: column("slots"), number: spans.map(({ row }) => operations.number(row)), label,
    start: column("start"), end: column("end"), ready: column("ready"), waits: column("waits"),
    idle_at: idle.map(({ at }) => at), idle_state: idle.map(({ state }) => state),
    idle_start: idle.map(({ start }) => start), idle_end: idle.map(({ end }) => end),
  };
  return [{ ...meta, drawn: "spans", labels: [...[...texts.keys()].slice(0, MOST_LABELS), ""] }, pack("tracks", found)];
}
