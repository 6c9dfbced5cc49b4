// @ts-check
// What a brushed interval adds up to: counterpart of widgets/views/interval.py and engine/cacheline/aggregate.py.

import { InputError } from "./errors.js";
import { phaseTimes } from "./lines_phases.js";
import { TRACK_STATES } from "./lines_tracks.js";
import { elements, int, required } from "./options.js";
import { timePs } from "./units.js";

/** @import { LineAnswers, Engine } from "./types" */

const MOST_ROWS = 200; // of links and phases
const [LINES, BYTES, BUSY, QUEUED] = [0, 1, 2, 3]; // what is added up of messages
const MEASURES = 4;

/** @type {LineAnswers} */
export const interval = {
  /** Add up an interval. */
  aggregate({ sim: { engine } }, options) {
    const given = options.ranks ?? null;
    const [from, to] = [int(required(options, "from")), int(required(options, "to"))];
    const all = Array.from({ length: engine.tables.gpus.rows }, (_, rank) => rank);
    const ranks = given === null ? all : [...new Set(elements(given).map(int))].sort((a, b) => a - b);
    timePs(to, "end");
    timePs(from, "start");
    if (from > to) throw new InputError(`an interval from ${from} to ${to} ps`, { where: "aggregate" });
    if (ranks.length && !(ranks[0] >= 0 && ranks[ranks.length - 1] < all.length)) {
      throw new InputError(`no rank ${ranks[ranks.length - 1]}`, { where: "aggregate", hint: `ranks are 0 to ${all.length - 1}` });
    }
    const end = Math.min(to, engine.now_ps());
    const start = Math.min(from, end);
    const states = statesOf(engine, start, end, ranks);
    const { classes, links } = messagesIn(engine, start, end, given === null ? null : ranks);
    return [
      {
        from: start,
        to: end,
        oldest_ps: engine.recorder.oldest_ps(),
        names: [...TRACK_STATES, "idle"],
        shares: sharesOf(states),
        states,
        classes,
        links: links.slice(0, MOST_ROWS),
        more_links: Math.max(0, links.length - MOST_ROWS),
        phases: phasesIn(engine, start, end, ranks).slice(0, MOST_ROWS),
      },
      [],
    ];
  },
};

/** Time of all tracks of each rank in each state. @param {Engine} engine @param {number} start @param {number} end @param {number[]} ranks */
export function statesOf(engine, start, end, ranks) {
  const tracks = engine.tracks("sms");
  const spent = tracks.spent(ranks, [start, end], true);
  return ranks.map((rank, row) => {
    const times = TRACK_STATES.map((_, state) => spent[row * TRACK_STATES.length + state]);
    const count = tracks.gpu.filter((gpu) => gpu === rank).length;
    const idle = count * (end - start) - times.reduce((sum, ps) => sum + ps, 0);
    return /** @type {Record<string, number>} */ ({ rank, tracks: count, ...Object.fromEntries(TRACK_STATES.map((name, state) => [name, times[state]])), idle });
  });
}

/** Fractions of the time of all SMs in use, by state. @param {Record<string, number>[]} states */
export function sharesOf(states) {
  const names = [...TRACK_STATES, "idle"];
  const sums = names.map((name) => states.reduce((sum, row) => sum + row[name], 0));
  const total = Math.max(1, sums.reduce((sum, value) => sum + value, 0));
  return Object.fromEntries(names.map((name, k) => [name, sums[k] / total]));
}

/** Messages that crossed links, by class and by link; where ranks are given, of their links. @param {Engine} engine @param {number} start @param {number} end @param {number[] | null} ranks */
function messagesIn(engine, start, end, ranks) {
  const { about } = engine.live;
  const { names, of } = about.link_types;
  const { kinds } = /** @type {{ kinds: string[] }} */ (about.scene);
  const { at } = engine.tables.links;
  const nodes = ranks && new Set(ranks.map((rank) => about.gpus[rank]));
  const mine = about.links.map((/** @type {string} */ _, /** @type {number} */ link) => !nodes || nodes.has(at.src(link)) || nodes.has(at.dst(link)));
  const byClass = new Float64Array(names.length * kinds.length * MEASURES);
  const byLink = new Float64Array(about.links.length * MEASURES);
  const flight = engine.tables.flights.at;
  engine.recorder.carried(start, end, (row, from, to) => {
    const link = flight.link(row);
    if (!mine[link]) return;
    const busy_ps = Math.min(to, end) - Math.max(from, start);
    const [ofClass, ofLink] = [MEASURES * (of[link] * kinds.length + flight.kind(row)), MEASURES * link];
    byClass[ofClass + BUSY] += busy_ps;
    byLink[ofLink + BUSY] += busy_ps;
    if (from < start) return;
    const [bytes, queued_ps] = [flight.bytes(row), from - flight.queued_ps(row)];
    byClass[ofClass + LINES] += 1;
    byLink[ofLink + LINES] += 1;
    byClass[ofClass + BYTES] += bytes;
    byLink[ofLink + BYTES] += bytes;
    byClass[ofClass + QUEUED] += queued_ps;
    byLink[ofLink + QUEUED] += queued_ps;
  });
  const some = (/** @type {Float64Array} */ sums, /** @type {number} */ group) => sums.subarray(group * MEASURES, (group + 1) * MEASURES);
  const used = (/** @type {Float64Array} */ sums) => Array.from({ length: sums.length / MEASURES }, (_, group) => group).filter((group) => some(sums, group).some(Boolean));
  const classes = used(byClass).map((group) => {
    const [lines, bytes, busy_ps] = some(byClass, group);
    return { type: names[Math.floor(group / kinds.length)], kind: kinds[group % kinds.length], lines, bytes, busy_ps };
  });
  const length = Math.max(1, end - start);
  const links = used(byLink)
    .sort((a, b) => some(byLink, b)[BUSY] - some(byLink, a)[BUSY])
    .map((link) => {
      const [lines, bytes, busy_ps, queued_ps] = some(byLink, link);
      return { link: about.links[link], type: names[of[link]], lines, bytes, busy_ps, utilisation: busy_ps / length, queued_ps };
    });
  return { classes, links };
}

/** Phases that overlap the interval: on how many GPUs, and how long at most. @param {Engine} engine @param {number} start_ps @param {number} end_ps @param {number[]} ranks */
function phasesIn(engine, start_ps, end_ps, ranks) {
  const { start, end, names } = phaseTimes(engine);
  /** @type {Map<string, { phase: string, gpus: number, time_ps: number }>} */
  const found = new Map();
  for (const rank of ranks) {
    names.forEach((phase, k) => {
      const [from, to] = [start[rank][k], end[rank][k]];
      if (!(from >= 0 && from < end_ps && to > start_ps)) return;
      const one = found.get(phase) ?? { phase, gpus: 0, time_ps: 0 };
      one.gpus += 1;
      one.time_ps = Math.max(one.time_ps, Math.min(to, end_ps) - Math.max(from, start_ps));
      found.set(phase, one);
    });
  }
  return [...found.values()];
}
