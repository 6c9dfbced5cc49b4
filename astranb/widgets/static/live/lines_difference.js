// @ts-check
// What differs between two runs by cache lines, as tables of texts: counterpart of sim/compare.py, of what
// engine/cacheline/engine.py compares, and of widgets/views/compare.py.

import { toEven } from "../numpy.js";
import { differingEdits } from "./edits.js";
import { breakdown, linksUsed, partsOf } from "./lines_result.js";
import { runTime } from "./lines_times.js";
import { Replay } from "./replay.js";
import { Unready } from "./steps.js";
import { general } from "./text.js";
import { formatBytes, formatTime } from "./units.js";

/** @import { Engine, Sim } from "./types" */

/**
 * A table as people look at it: what rows are of, and one number of each.
 * @typedef {{ title: string, field: string, largest: boolean, rows: (engine: Engine) => [key: string | number, value: number][] }} Shown
 */

const MOST_ROWS = 200;
const MOST_REPLAYED = 2_000_000; // events of a run that is looked at in its past

/** @param {(engine: Engine) => [key: string, row: any][]} rows @param {string} field @returns {Shown["rows"]} */
const columnOf = (rows, field) => (engine) => rows(engine).map(([key, row]) => [key, row[field]]);

/** When ranks ended; now while they run. @param {Engine} engine @returns {[number, number][]} */
const ends = ({ tables, now_ps }) => [...tables.gpus.column("ended_ps")].map((ended, rank) => [rank, ended >= 0 ? ended : now_ps()]);

/** @type {Shown[]} */
const SHOWN = [
  { title: "Phases: how long", field: "lasts_ps", largest: false, rows: phases },
  { title: "Links: time busy", field: "busy_ps", largest: true, rows: columnOf(linksUsed, "busy_ps") },
  { title: "Links: bytes", field: "bytes", largest: true, rows: columnOf(linksUsed, "bytes") },
  { title: "Links: time queued", field: "queued_ps", largest: true, rows: columnOf(linksUsed, "queued_ps") },
  { title: "GPUs: end", field: "end_ps", largest: false, rows: ends },
  { title: "GPUs: semaphore", field: "semaphore_ps", largest: false, rows: (engine) => partsOf(engine).map(({ waiting }, rank) => [rank, waiting]) },
];
/** @type {Shown} */
const TIME = {
  title: "Time", field: "time_ps", largest: false,
  rows(engine) {
    const total = runTime(engine);
    return [["total", total], ...breakdown(engine).map(([name, part]) => /** @type {[string, number]} */ ([name, toEven(part * total)]))];
  },
};

/** How long phases took, or have taken. @param {Engine} engine @returns {[string, number][]} */
function phases({ live, tables, now_ps }) {
  const { at } = tables.phases;
  return live.about.scene.phases.map((/** @type {string} */ name, /** @type {number} */ phase) => {
    const [begun, ended] = [at.started_ps(phase), at.ended_ps(phase)];
    return [name, begun >= 0 ? (ended >= 0 ? ended : now_ps()) - begun : 0];
  });
}

/** @type {WeakMap<Sim, Replay>} copies to look at the past in */
const replays = new WeakMap();

/** A simulation at a time (null: now); one that has not come so far, or takes long to replay, stays as it is. @param {Sim} sim @param {number | null} at_ps */
function then(sim, at_ps) {
  if (at_ps === null || at_ps < 0 || at_ps >= sim.now_ps() || sim.events() > MOST_REPLAYED) return sim;
  const replay = replays.get(sim) ?? new Replay(sim);
  replays.set(sim, replay);
  const when_ps = Math.trunc(at_ps);
  if (!replay.is_at(when_ps)) throw new Unready(replay.goto(when_ps));
  return replay.sim;
}

/**
 * What differs between a run and another one, as a view shows it.
 * @param {Sim} one
 * @param {Sim} other
 * @param {number | null} at_ps null: as they are now
 */
export function difference(one, other, at_ps) {
  const edits = differingEdits(one.edits, other.edits);
  const names = edits.length === 1 ? edits[0].slice(1).map((value) => `${edits[0][0]} ${value}`) : ["a", "b"]; // after the only difference
  const [a, b] = [then(one, at_ps), then(other, at_ps)];
  return {
    names, inputs: differingEdits(a.edits, b.edits), now: [formatTime(a.now_ps()), formatTime(b.now_ps())], verdict: verdict(a, b, names),
    tables: [TIME, ...SHOWN].map((shown) => texts(shown, a.engine, b.engine)),
  };
}

/** Which is faster, and by how much. @param {Sim} one @param {Sim} other @param {string[]} names */
function verdict(one, other, names) {
  const [a, b] = [runTime(one.engine), runTime(other.engine)];
  if (!one.finished() || !other.finished()) return "not both at their end";
  if (a === b || !a || !b) return "the same";
  const [quick, slow, name] = a < b ? [a, b, names[0]] : [b, a, names[1]];
  return `${name} is faster by ${formatTime(slow - quick)} (${general(slow / quick, 3)} times)`;
}

/** A table as rows of texts, the last number of each the share of the largest difference. @param {Shown} shown @param {Engine} one @param {Engine} other */
function texts({ title, field, largest, rows: rowsOf }, one, other) {
  const [a, b] = [new Map(rowsOf(one)), new Map(rowsOf(other))];
  const rows = [...new Set([...a.keys(), ...b.keys()])].map((key) => {
    const values = [a.get(key) ?? 0, b.get(key) ?? 0];
    return { key, values, difference: values[1] - values[0] };
  });
  let leftOut = 0;
  let kept = rows;
  if (largest) {
    kept = [...rows].sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference));
    leftOut = kept.slice(MOST_ROWS).filter((row) => row.difference).length;
    kept = kept.slice(0, MOST_ROWS).sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference) || (x.key < y.key ? -1 : Number(x.key > y.key)));
  }
  const most = Math.max(...kept.map((row) => Math.abs(row.difference)), 0) || 1;
  /** @param {number} number */
  const written = (number) => (field.endsWith("_ps") ? formatTime(number) : formatBytes(number));
  const shown = kept.slice(0, MOST_ROWS).map(({ key, values, difference: d }) => {
    const sign = d > 0 ? "+" : d < 0 ? "\u2212" : "";
    return [String(key), ...values.map(written), sign + written(Math.abs(d)), d / most];
  });
  return { title, rows: shown, left_out: Math.max(0, kept.length - MOST_ROWS) + leftOut };
}
