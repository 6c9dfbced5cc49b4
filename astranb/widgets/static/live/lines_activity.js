// @ts-check
// How busy issue slots, memories and links were in a window: as fine as the recording has it. Counterpart of
// widgets/views/memory.py.

import { pack } from "../messages.js";
import { bytesOf, mean } from "../numpy.js";
import { InputError, near } from "./errors.js";
import { spanOf, windowOf } from "./lines_timeline.js";
import { TRACK_STATES } from "./lines_tracks.js";
import { elements, int, optional, required } from "./options.js";
import { addSpan, addSpent, flatten, noSpans, placeOf } from "./stretches.js";
import { commas, percent, repr, str } from "./text.js";
import { formatBytes, formatTime } from "./units.js";

/** @import { LineAnswers, Engine, Ring } from "./types" */

const ISSUING = ["issue", "compute", "signal"].map((name) => TRACK_STATES.indexOf(name));
/** @type {Record<string, string>} */
const STRIPS = { issue: "SM issue", l2: "L2", hbm: "HBM", out: "links out" };
const MOST_FLIGHTS = 400_000; // of a window whose links are worked out flight by flight

/** @type {LineAnswers} */
export const activity = {
  /** Busy fractions of GPUs, and of the bundles of links of one of them. */
  activity(feed, options) {
    const { engine } = feed.sim;
    const { recorder } = engine;
    const { start, end, edges } = windowOf(options);
    const { bundles } = feed.layout;
    const gpus = engine.tables.gpus.rows;
    const first = Math.max(0, int(optional(options, "first", 0)));
    const last = Math.min(gpus, int(optional(options, "last", gpus)));
    const chosen = elements(optional(options, "bundles", [])).map(int).filter((one) => one >= 0 && one < bundles.length);
    const about = { from: start, to: end, columns: edges.length - 1, first, last: Math.max(first, last) };
    if (!recorder.on()) return [{ ...about, exact: false, bin_ps: 0, bundles: [] }, pack("activity", {})];
    const bin_ps = recorder.bin_ps();
    const groups = [...chosen.map((one) => bundles[one]), ...feed.out_of.slice(first, last)];
    const fine = !feed.session.fast_forward && (edges[1] - edges[0]) * 2 < bin_ps && recorder.oldest_ps() <= start;
    const exact = fine ? fromFlights(engine, edges, groups) : null;
    const links = exact ?? recorder.busy(groups).map((row) => resampled(row, bin_ps, edges));
    const inSight = (/** @type {string} */ strip) => recorder.activity(strip).slice(first, last).map((row) => resampled(row, bin_ps, edges));
    const rows = {
      issue: exact ? issuing(engine, first, last, edges) : inSight("issue"),
      l2: inSight("l2"),
      hbm: inSight("hbm"),
      out: links.slice(chosen.length),
      bundles: links.slice(0, chosen.length),
    };
    const bytes = Object.fromEntries(Object.entries(rows).map(([name, all]) => [name, bytesOf(all)]));
    return [{ ...about, exact: exact !== null, bin_ps, bundles: chosen }, pack("activity", bytes)];
  },

  /** Describe the stretch of time around `time` in which a row was busy, or in which it was idle. */
  activity_span(feed, options) {
    const { sim, layout: { bundles, meta }, out_of } = feed;
    const { recorder } = sim.engine;
    const time_ps = int(required(options, "time"));
    const gap_ps = Math.max(1, int(optional(options, "gap", 1)));
    if (!(recorder.on() && time_ps >= 0 && time_ps <= sim.now_ps())) return [{ found: false }, []];
    const strip = str(optional(options, "strip", ""));
    if (options.bundle !== null && options.bundle !== undefined) {
      const number = int(options.bundle);
      if (number < 0 || number >= bundles.length) throw new InputError(`no bundle ${number}`, { where: "activity_span", hint: `0 to ${bundles.length - 1}` });
      return [ofLinks(sim.engine, bundles[number], meta.bundles[number].name, "link", time_ps, gap_ps), []];
    }
    const gpu = int(required(options, "gpu"));
    if (!Object.hasOwn(STRIPS, strip) || gpu < 0 || gpu >= out_of.length) {
      throw new InputError(`no row ${repr(strip)} of GPU ${gpu}`, { where: "activity_span", hint: near(strip, Object.keys(STRIPS)) });
    }
    const [path, name] = [`gpu[${gpu}]`, STRIPS[strip]];
    if (strip === "out") return [ofLinks(sim.engine, out_of[gpu], path, name, time_ps, gap_ps), []];
    const bin_ps = recorder.bin_ps();
    const values = recorder.activity(strip)[gpu];
    const begun = Array.from(values.keys()).filter((bin) => values[bin] > 0).map((bin) => bin * bin_ps);
    const [start, end, busy] = stretchAt(begun, begun.map((from) => from + bin_ps), time_ps, gap_ps, sim.now_ps());
    if (!busy) return [spanOf(path, `${name}: idle`, start, end, []), []];
    const inside = values.subarray(Math.floor(start / bin_ps), Math.ceil(end / bin_ps));
    return [spanOf(path, `${name}: busy`, start, end, [["busy", `${percent(mean(inside), 0)} on average`], ["known by", `bins of ${formatTime(bin_ps)}`]]), []];
  },
};

/** How much of each column the SMs of GPUs in sight issued. @param {Engine} engine @param {number} first @param {number} last @param {Float64Array} edges */
function issuing(engine, first, last, edges) {
  const states = TRACK_STATES.length;
  const gpus = Array.from({ length: Math.max(0, last - first) }, (_, k) => first + k);
  const spent = engine.tracks("sms").spent(gpus, edges, true);
  return gpus.map((gpu, row) => {
    const sms = Math.max(1, engine.tables.gpus.at.sms(gpu));
    const cell = (/** @type {number} */ column) => (row * (edges.length - 1) + column) * states;
    return perColumn(edges, (column) => ISSUING.reduce((sum, state) => sum + spent[cell(column) + state], 0)).map((share) => share / sms);
  });
}

/** What there is of each column, divided by its length. @param {Float64Array} edges @param {(column: number) => number} value */
function perColumn(edges, value) {
  const found = new Float64Array(edges.length - 1);
  for (let column = 0; column < found.length; column++) found[column] = value(column) / (edges[column + 1] - edges[column]);
  return found;
}

/** Means over columns of what is known by bins, taken as even within a bin. @param {Float64Array} row @param {number} bin_ps @param {Float64Array} edges */
function resampled(row, bin_ps, edges) {
  const until = new Float64Array(row.length + 1);
  row.forEach((value, bin) => (until[bin + 1] = until[bin] + value));
  const upTo = edges.map((at) => {
    const bin = Math.min(Math.floor(at / bin_ps), row.length);
    const low = until[bin] * bin_ps;
    return bin === row.length || at === bin * bin_ps ? low : ((until[bin + 1] * bin_ps - low) / bin_ps) * (at - bin * bin_ps) + low;
  });
  return perColumn(edges, (column) => upTo[column + 1] - upTo[column]);
}

/**
 * Means over columns of the time for which the wires of groups of links carried bits; null: too many flights.
 * @param {Engine} engine
 * @param {Float64Array} edges
 * @param {number[][]} groups
 */
function fromFlights(engine, edges, groups) {
  const [start, end] = [edges[0], edges[edges.length - 1]];
  const { at } = engine.tables.flights;
  const placeOfLink = new Map([...new Set(groups.flat())].map((link, k) => [link, k]));
  const spans = noSpans();
  let inside = 0;
  engine.recorder.carried(start, end, (row, from, to) => {
    inside += 1;
    const place = inside > MOST_FLIGHTS ? undefined : placeOfLink.get(at.link(row));
    if (place !== undefined) addSpan(spans, place, 0, from, to);
  });
  if (inside > MOST_FLIGHTS) return null;
  const whole = flatten(start, end, placeOfLink.size, spans);
  return groups.map((links) => {
    const busy = new Float64Array(edges.length - 1);
    for (const link of links) addSpent(whole, /** @type {number} */ (placeOfLink.get(link)), edges, busy, 0, 1);
    return perColumn(edges, (column) => busy[column]).map((share) => share / Math.max(1, links.length));
  });
}

/**
 * The stretch of time of a row of links.
 * @param {Engine} engine
 * @param {number[]} links
 * @param {string} path
 * @param {string} name
 * @param {number} time_ps
 * @param {number} gap_ps
 */
function ofLinks(engine, links, path, name, time_ps, gap_ps) {
  const { recorder, live: { about: { scene } } } = engine;
  if (recorder.oldest_ps() > time_ps) return { found: false };
  const ring = recorder.since(0);
  const { at } = ring.table;
  const kept = rowsOn(ring, new Set(links));
  const ends = (/** @type {number} */ row) => at.start_ps(row) + at.wire_ps(row);
  const [start, end, busy] = stretchAt(kept.map(at.start_ps), kept.map(ends), time_ps, gap_ps, engine.now_ps());
  if (!busy) return spanOf(path, `${name}: idle`, start, end, []);
  const mine = kept.filter((row) => at.start_ps(row) < end && ends(row) > start);
  let [wire, waited, bytes] = [0, 0, 0];
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const row of mine) {
    wire += Math.min(ends(row), end) - Math.max(at.start_ps(row), start);
    waited += at.start_ps(row) - at.queued_ps(row);
    bytes += at.bytes(row);
    counts.set(at.kind(row), (counts.get(at.kind(row)) ?? 0) + 1);
  }
  const kinds = [...counts].sort(([a], [b]) => a - b);
  return spanOf(path, `${name}: busy`, start, end, [
    ["busy", `${percent(wire / Math.max(1, end - start) / links.length, 0)} of ${links.length} lanes`],
    ["carried", `${formatBytes(bytes)} in ${commas(mine.length)} messages`],
    ...kinds.map(([kind, count]) => /** @type {[string, string]} */ ([scene.kinds[kind], commas(count)])),
    ["queued before", `${formatTime(Math.trunc(waited / mine.length))} on average`],
  ]);
}

/** Rows of the flights over links. @param {Ring} ring @param {Set<number>} links */
function rowsOn(ring, links) {
  /** @type {number[]} */
  const kept = [];
  ring.each((row) => void (links.has(ring.table.at.link(row)) && kept.push(row)));
  return kept;
}

/**
 * The stretch around a time without longer gaps between what was carried, or the gap; and which it is.
 * @param {number[]} begun
 * @param {number[]} ended
 * @param {number} time_ps
 * @param {number} gap_ps
 * @param {number} now_ps
 * @returns {[start_ps: number, end_ps: number, busy: boolean]}
 */
function stretchAt(begun, ended, time_ps, gap_ps, now_ps) {
  const order = Array.from(begun.keys()).sort((a, b) => begun[a] - begun[b]);
  /** @type {number[]} */
  const first = [];
  /** @type {number[]} */
  const last = [];
  let until = 0;
  order.forEach((k, place) => {
    if (place === 0 || begun[k] - until >= gap_ps) {
      first.push(begun[k]);
      last.push(ended[k]);
    }
    until = Math.max(place ? until : 0, ended[k]);
    last[last.length - 1] = until;
  });
  const at = placeOf(first, time_ps, true) - 1;
  if (at >= 0 && time_ps < last[at]) return [first[at], Math.min(last[at], now_ps), true];
  return [at >= 0 ? last[at] : 0, at + 1 < first.length ? Math.min(first[at + 1], now_ps) : now_ps, false];
}
