// @ts-check
// What ranks did when, for the timeline: counterpart of widgets/views/ranks.py.

import { pack } from "../messages.js";
import { ACTIVITIES, BUBBLE, LATE, tracksAnswer } from "../rank_tracks.js";
import { InputError, near } from "./errors.js";
import { spanOf, windowOf } from "./lines_timeline.js";
import { elements, int, optional, required } from "./options.js";
import { activityOf, some, spansOf, waitsOf } from "./operations_spans.js";
import { repr, str } from "./text.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

const KINDS = ["operations", "chunks"];
const MOST_RANKS = 256;
const MOST_STRETCHES = 40_000;
/** @typedef {{ row: number, start: number, end: number, ready: number, waits: number, slot: number }} Drawn */
/** @typedef {{ spans: Drawn[], slots: number }} Track */

/** The spans of each track of some ranks now; kept until time moves. @param {OperationFeed} feed @param {string} kind @param {number[]} ranks @returns {Map<number, Track[]>} */
const indexOf = (feed, kind, ranks) => feed.found(`${kind} ${ranks.join()}`, () => makeIndex(feed, kind, ranks));

/** @param {OperationFeed} feed @param {string} kind @param {number[]} ranks @returns {Map<number, Track[]>} */
function makeIndex(feed, kind, ranks) {
  const engine = feed.engineAt();
  const count = tracksOf(engine, kind);
  /** @type {Map<number, Track[]>} */
  const index = new Map(ranks.map((rank) => [rank, Array.from({ length: count }, () => ({ spans: [], slots: 1 }))]));
  if (kind === KINDS[0]) {
    const spans = feed.found("spans", engine.track_spans);
    const { ready, waits } = waitsOf(engine, spans, readyOf(feed));
    spans.row.forEach((row, at) => {
      index.get(spans.npu[at])?.[spans.track[at]].spans.push({ row, start: spans.start_ps[at], end: spans.end_ps[at], ready: ready[at], waits: waits[at], slot: 0 });
    });
  } else {
    const [over, now, now_ps] = [engine.passed(), engine.running(), feed.sim.now_ps()];
    /** @param {number} npu @param {number} dim @param {number} row @param {number} start @param {number} end */
    const add = (npu, dim, row, start, end) => void index.get(npu)?.[dim].spans.push({ row, start, end, ready: start, waits: 0, slot: 0 });
    over.npu.forEach((npu, at) => add(npu, over.dim[at], over.operation[at], over.begun_ps[at], over.end_ps[at]));
    now.npu.forEach((npu, at) => add(npu, now.dim[at], now.operation[at], now.begun_ps[at], now_ps));
  }
  for (const tracks of index.values()) {
    for (const track of tracks) {
      track.spans.sort((a, b) => a.start - b.start || a.row - b.row);
      stack(track);
    }
  }
  return index;
}

/** @param {OperationEngine} engine @param {string} kind */
const tracksOf = (engine, kind) => (kind === KINDS[0] ? engine.track_names.length : engine.about.topology.length);

/** @param {OperationFeed} feed */
const readyOf = (feed) => feed.found("ready", feed.engineAt().ready_ps);

/** Give rows within a track, so that overlapping spans are drawn above one another. @param {Track} track */
function stack(track) {
  const { spans } = track;
  if (spans.every((span, at) => !at || span.start >= spans[at - 1].end)) return; // as mostly
  /** @type {number[]} */
  const free = [];
  for (const span of spans) {
    const at = free.findIndex((until) => until <= span.start);
    span.slot = at < 0 ? free.length : at;
    free[span.slot] = span.end;
  }
  track.slots = free.length;
}

/** What some ranks (null: all) have done up to now; kept until time moves. @param {OperationFeed} feed @param {number[] | null} ranks */
const doingOf = (feed, ranks) =>
  feed.found(`doing ${ranks}`, () => activityOf(feed.engineAt(), feed.found("operations", () => spansOf(feed.engineAt())), readyOf(feed), ranks));

/** How the time of each rank up to its end, or to now, divides: by rank and activity, in ps. @param {OperationFeed} feed @param {OperationEngine} engine */
export function sumsOf(feed, engine) {
  const found = engine === feed.engineAt() ? doingOf(feed, null) : activityOf(engine, spansOf(engine), engine.ready_ps(), null);
  const sums = engine.ends_ps().map(() => ACTIVITIES.map(() => 0));
  found.rank.forEach((rank, at) => {
    sums[rank][found.state[at]] += found.end_ps[at] - found.start_ps[at];
  });
  return sums;
}

/** @type {Answers<OperationFeed>} */
export const timelines = {
  /** A window of the timeline. */
  tracks(feed, options) {
    const engine = feed.engineAt();
    const { about } = engine;
    const { edges } = windowOf(options);
    const kind = str(optional(options, "kind", KINDS[0]));
    if (!KINDS.includes(kind)) throw new InputError(`unknown kind of tracks ${repr(kind)}`, { where: "timeline", hint: near(kind, KINDS) });
    const ranks = elements(optional(options, "ranks", [])).map(int).slice(0, MOST_RANKS);
    if (ranks.some((rank) => rank < 0 || rank >= engine.ranks)) {
      throw new InputError(`no such rank among ${repr(ranks.slice(0, 4))}`, { where: "timeline", hint: `0 to ${engine.ranks - 1}` });
    }
    const index = indexOf(feed, kind, ranks);
    const tracks = tracksOf(engine, kind);
    const inWindow = (/** @type {number} */ start, /** @type {number} */ end) => start < edges[edges.length - 1] && end > edges[0];
    const spans = ranks.flatMap((rank, at) =>
      (index.get(rank) ?? []).flatMap(({ spans: all, slots }, track) =>
        all.filter(({ start, end }) => inWindow(start, end)).map((span) => ({ ...span, slots, place: at * tracks + track })),
      ),
    );
    const places = new Map(ranks.map((rank, at) => [rank, at]));
    const did = doingOf(feed, kind === KINDS[0] ? ranks : []);
    const idle = some(did, (at) => (did.state[at] === LATE || did.state[at] === BUBBLE) && inWindow(did.start_ps[at], did.end_ps[at]));
    return tracksAnswer(
      { kind, ranks, tracks, now_ps: feed.sim.now_ps(), edges }, spans,
      idle.rank.map((rank, at) => ({ at: places.get(rank) ?? 0, state: idle.state[at], start: idle.start_ps[at], end: idle.end_ps[at] })),
      about,
    );
  },
  /** What the ranks that have a box of their own do when. */
  doing(feed, options) {
    const engine = feed.engineAt();
    const [alike, now_ps] = [engine.stands_for > 1, feed.sim.now_ps()];
    let found = doingOf(feed, alike ? null : engine.about.boxes);
    let [from, to] = [0, now_ps];
    if (found.rank.length > MOST_STRETCHES) {
      const at_ps = options.at_ps ?? now_ps;
      const away = found.start_ps.map((start) => Math.abs(start - at_ps));
      const nearest = new Set([...away.keys()].sort((a, b) => away[a] - away[b]).slice(0, MOST_STRETCHES));
      found = some(found, (at) => nearest.has(at));
      from = found.start_ps.reduce((a, b) => Math.min(a, b));
      to = found.start_ps.reduce((a, b) => Math.max(a, b));
    }
    const { rank, state, start_ps: start, end_ps: end } = found;
    return [{ from, to, names: ACTIVITIES, alike }, pack("doing", { rank, state, start, end })];
  },
  /** An operation, or a phase of a chunk, as the inspector shows it. */
  operation_span(feed, options) {
    const [path, start, end, time] = ["path", "start", "end", "time"].map((name) => required(options, name));
    const past = feed.engineAt(int(time));
    const found = /** @type {{ title: string, state: [string, string][] }} */ (/** @type {object} */ (past.inspect(str(path))));
    const steps = past.why(str(path)).steps.slice(0, 4);
    /** @type {[string, string][]} */
    const facts = [...found.state.slice(0, 1), ...steps.map(({ text }, at) => /** @type {[string, string]} */ ([at ? "waits for" : "is", text]))];
    return [spanOf(str(path), found.title, int(start), int(end), facts, int(time)), []];
  },
};
