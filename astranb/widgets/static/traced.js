// @ts-check
// A timeline of recorded traces without a kernel: the page (trace_page.py) holds all spans. Here those in sight are looked up,
// and where they are too many, how much of each column of pixels they fill.

import { createColumns } from "./columns.js";
import { load } from "./loader.js";
import { pack, unpack } from "./messages.js";
import { createModel } from "./model.js";
import { followTheme, read } from "./packed.js";

/** @import { Columns, Model, Options, TracedRecording } from "./types" */

const MOST_SPANS = 8000;

/** The first place from `low` on at which a value is above one. @param {Float64Array} values @param {number} low @param {number} high @param {number} least */
function above(values, low, high, least) {
  let [from, to] = [low, high];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (values[middle] > least) to = middle;
    else from = middle + 1;
  }
  return from;
}

/**
 * Spans by row and start, and of each row what a window shows of it.
 * @param {Columns<"recorded_tracks">} columns
 * @param {number} count of rows
 */
function createSpans({ track: row, state, start, end }, count) {
  const first = new Uint32Array(count + 1);
  for (const one of row) first[one + 1] += 1;
  for (let k = 0; k < count; k++) first[k + 1] += first[k];
  const reach = new Float64Array(end.length); // the latest end up to here
  for (let n = 0; n < end.length; n++) reach[n] = Math.max(end[n], n > first[row[n]] ? reach[n - 1] : 0);
  /** The spans of a row in a window. @param {number} one @param {number} from @param {number} to @returns {[number, number]} */
  const range = (one, from, to) => {
    const low = above(reach, first[one], first[one + 1], from);
    let high = above(start, low, first[one + 1], to);
    while (high > low && start[high - 1] >= to) high -= 1;
    return [low, high];
  };
  return {
    range,
    /** How much of each column of some rows is which state, 255 being all. @param {number[]} rows @param {number} from @param {number} to @param {number} columns @param {number} states */
    shares(rows, from, to, columns, states) {
      const filled = createColumns(states * rows.length, columns, from, to);
      rows.forEach((one, k) => {
        const [low, high] = range(one, from, to);
        for (let n = low; n < high; n++) filled.add(state[n] * rows.length + k, start[n], end[n]);
      });
      return filled.shares();
    },
    /** The innermost span of a row at a time; -1: none. @param {number} one @param {number} time */
    at(one, time) {
      const [low, high] = range(one, time, time + 1);
      for (let n = high - 1; n >= low; n--) if (end[n] > time) return n;
      return -1;
    },
  };
}

/**
 * What stands in for the widget's model, and for the kernel behind it: all that it sends are recorded spans, and what they fill.
 * @param {TracedRecording} header
 * @param {DataView[]} columns
 * @returns {Model}
 */
function createTraced({ scene, state, timeline, rows, names, tracks, ranks }, columns) {
  const every = unpack("recorded_tracks", tracks.map((k) => columns[k]));
  const folded = unpack("recorded_tracks", ranks.map((k) => columns[k]));
  const table = /** @type {NonNullable<typeof rows.tracks>} */ (rows.tracks);
  const [spans, bands] = [createSpans(every, table.gpu.length), createSpans(folded, rows.gpus)];
  /** @type {Record<string, (options: Options) => [object, DataView[]]>} */
  const answers = {
    rows: () => [rows, []],
    spans(options) {
      const { folds, tracks: single } = /** @type {{ folds: number[], tracks: number[] }} */ (options);
      const [from, to, wanted] = [Number(options.from), Number(options.to), Math.max(1, Number(options.columns))];
      const ranges = single.map((one) => spans.range(one, from, to));
      const count = ranges.reduce((sum, [low, high]) => sum + high - low, 0);
      const states = rows.states.length;
      const fold_shares = bands.shares(folds, from, to, wanted, states);
      const about = {
        from, to, columns: wanted, kind: "tracks", now_ps: state.now_ps, count, folded: 0, labels: names,
        present: rows.states.map((_, k) => k), drawn: count > MOST_SPANS ? "density" : "spans",
      };
      if (count > MOST_SPANS) return [about, pack("spans", { fold_shares, track_shares: spans.shares(single, from, to, wanted, states) })];
      const places = ranges.flatMap(([low, high]) => Array.from({ length: high - low }, (_, k) => low + k));
      const row = ranges.flatMap(([low, high], k) => Array.from({ length: high - low }, () => k));
      /** @param {ArrayLike<number>} column */
      const of = (column) => places.map((n) => column[n]);
      return [about, pack("spans", { fold_shares, row, state: of(every.state), label: of(every.label), start: of(every.start), end: of(every.end) })];
    },
    moment(options) {
      const n = spans.at(Number(options.track), Number(options.time));
      return [{ text: n < 0 ? "" : `${names[every.label[n]]} · ${rows.states[every.state[n]]}` }, []];
    },
    span(options) {
      const track = Number(options.track);
      const n = spans.at(track, Number(options.time));
      if (n < 0) return [{ found: false }, []];
      const facts = [["rank", `${table.gpu[track]}, ${table.names?.[track] ?? ""}`], ["activity", rows.states[every.state[n]]]];
      return [{ found: true, path: `rank[${table.gpu[track]}]`, what: names[every.label[n]], start_ps: every.start[n], end_ps: every.end[n], time_ps: null, facts }, []];
    },
  };
  const { model, send } = createModel({ _engine: "trace", _selection: "", _cursor_ps: -1, _window_ps: [], _panels: {} }, (message) => {
    if (message.type === "ready") {
      send(scene);
      send(state);
    } else if (message.type === "timeline") send(timeline);
    else if (message.type === "ask") {
      const [answer, buffers] = answers[String(message.question)](/** @type {Options} */ (message.options));
      send({ ...answer, type: "answer", id: message.id }, buffers);
    }
  });
  return model;
}

/** Show the page's timeline. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header, columns } = await read(text);
  const recording = /** @type {TracedRecording} */ (header);
  /** @type {typeof import("./recordings.js")} */
  const { createRecordings } = await load(recording.modules, "recordings");
  const shown = createRecordings(createTraced(recording, columns));
  host.replaceChildren(shown.element);
  shown.begin();
}
