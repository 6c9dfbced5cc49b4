// @ts-check
// Changing a run by cache lines: counterpart of engine/cacheline/edits.py, and of what engine/cacheline/engine.py says of it.

import { withUnit } from "./engine_breakpoints.js";
import { RECORD, REROUTE, checkedEdit, parametersOf, rerouteEdit, yesOrNo } from "./edits.js";
import { InputError } from "./errors.js";
import { partition } from "./fabric.js";
import { NEVER, NIC } from "./gpu_numbers.js";
import { bringUp, isDown, nowPs, takeDown } from "./lines_faults.js";
import { useSms } from "./lines_occupancy.js";
import { SUMMED, TABLES, resolve } from "./lines_paths.js";
import { longs } from "./longs.js";
import { repr, str } from "./text.js";
import { bandwidthBps, formatBandwidth, timePs } from "./units.js";

/** @import { Edit, Engine, MachinePart, Tables } from "./types" */

const FASTEST_BPS = 9e12;

/**
 * What an engine answers about changes.
 * @param {Engine} engine
 * @param {(at_ps: number) => void} reroute changes its routes, so that they avoid what is down
 */
export const editing = (engine, reroute) => ({
  /** Check a change and make an edit of it. @param {string} path @param {unknown} value */
  read_edit(path, value) {
    if (path === REROUTE) return rerouteEdit(engine.count("events"), value, nowPs(engine.tables));
    return checkedEdit(path, value, {
      changes: engine.live.about.changes,
      resolve: (name) => resolve(name, engine),
      read: (field, part) => read(field, value, part, engine.tables, path),
      hint: "links and GPUs can be changed",
      events: engine.count("events"),
      at_ps: nowPs(engine.tables),
    });
  },
  /** Carry an edit out: services that have started keep their times. @param {Edit} edit */
  apply: (edit) => (edit.path === REROUTE ? reroute(edit.number) : apply(edit, engine.tables)),
  /** An object's kind and full path. @param {string} path */
  place: (path) => resolve(path, engine),
  /** What can be changed of an object, as it is now. @param {string} path */
  parameters: (path) => parameters(resolve(path, engine), engine),
  /** The edit that switches the recording; null: it is as asked for already. @param {boolean} on @returns {Edit | null} */
  recording_switched(on) {
    const { clock, recorder } = engine.tables;
    if (!recorder.at.on(0)) {
      const hint = "make it with Simulation(..., record=True)";
      throw new InputError("this simulation has no room for a recording", { where: "record", hint });
    }
    if (Boolean(recorder.at.paused(0)) !== on) return null;
    const events = clock.at.events(0);
    return { events, path: RECORD, value: on ? "on" : "off", kind: "recorder", field: "paused", rows: [0], number: Number(!on), at_ps: nowPs(engine.tables) };
  },
  /** A link's path, and, if wanted, that of its other direction. @param {string} link @param {boolean} both */
  directions(link, both) {
    if (!both) return [link];
    const [ends, lane] = partition(link, "#");
    const [a, b] = partition(ends, "->");
    if (!ends.includes("->")) throw new InputError(`${repr(link)} is not a link`, { where: "take_down", hint: "write A->B or A->B#k" });
    return [link, `${b}->${a}${link.includes("#") ? "#" : ""}${lane}`];
  },
});

/** What can be changed of an object; nothing but of links and GPUs. @param {MachinePart} part @param {Engine} engine */
function parameters(part, { live, tables }) {
  /** @param {string} field */
  const written = (field) => {
    if (field === "up") {
      const down = part.rows.filter((link) => isDown(tables, link)).length;
      if (down === part.rows.length) return "no";
      return down ? `${part.rows.length - down} of ${part.rows.length} lanes` : "yes";
    }
    const values = part.rows.map(tables[TABLES[part.kind]].at[field]);
    return withUnit(field, SUMMED.has(field) ? values.reduce((sum, value) => sum + value) : values[0]);
  };
  const sms = part.kind === "gpu" ? tables.gpus.at.sms(part.row) : 0;
  return parametersOf(part, live.about.changes, written).map((one) => ({
    ...one,
    limits: one.limits.replace("{sms}", String(sms)),
    meaning: part.kind === "link" && part.rows.length > 1 && one.path.endsWith(".bandwidth") ? `from one end to the other: ${lanesOf(tables, part.rows)}` : one.meaning,
  }));
}

/** The lanes of a link and what each carries: `5 lanes x 25 GB/s`. @param {Tables} tables @param {number[]} rows */
export function lanesOf({ links }, rows) {
  const rates = rows.map(links.at.bandwidth_Bps);
  const [least, most] = [Math.min(...rates), Math.max(...rates)];
  return `${rows.length} lanes x ${formatBandwidth(least)}${least === most ? "" : ` to ${formatBandwidth(most)}`}`;
}

/**
 * A value in the unit of its field, within its limits.
 * @param {string} field
 * @param {unknown} value
 * @param {MachinePart} place
 * @param {Tables} tables
 * @param {string} where
 */
function read(field, value, place, tables, where) {
  if (field === "up") return yesOrNo(value, where);
  if (typeof value === "boolean") throw new InputError(`${repr(value)} is not a value with a unit`, { where });
  if (field === "usable") {
    const [most, text] = [tables.gpus.at.sms(place.row), str(value).trim()];
    if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > most) {
      throw new InputError(`a number of SMs must be 1 to ${most}, got ${repr(value)}`, { where });
    }
    return Number(text);
  }
  if (field.endsWith("_Bps")) {
    const number = Math.floor(bandwidthBps(value, where) / place.rows.length); // of each lane
    if (number > FASTEST_BPS) throw new InputError(`${repr(value)} is too fast`, { where, hint: "at most 9 TB/s a lane" });
    if (number === 0) {
      throw new InputError("link bandwidth must be greater than zero", { where, hint: "take the link down: set('<link>.up', False)" });
    }
    return number;
  }
  const number = timePs(value, where);
  if (number >= NEVER) throw new InputError(`${repr(value)} is more than 26 days`, { where, hint: "use a smaller time" });
  if (field === "issue_ps" && number === 0) throw new InputError("the issue time must be greater than zero", { where });
  return number;
}

/** Carry an edit out. @param {Edit} edit @param {Tables} tables */
function apply(edit, tables) {
  const { blocks, links, recorder } = tables;
  const { kind, field, rows, number } = edit;
  if (field === "up" && number) bringUp(tables, rows, edit.at_ps);
  else if (field === "up") takeDown(tables, rows);
  else if (field === "usable") useSms(tables, rows[0], number);
  else if (field === "paused") {
    if (recorder.at.on(0)) recorder.put.paused(0, number); // a copy without a recording has none to pause
  } else {
    if (field === "latency_ps" && blocks.column("engine").includes(NIC)) holdBack(tables, rows, number);
    for (const row of rows) {
      tables[`${kind}s`].put[field](row, number);
      if (kind === "link") links.put.last_size(row, 0);
    }
  }
}

/**
 * A NIC's signal does not overtake the data that it announces and that is on the wire.
 * @param {Tables} tables
 * @param {number[]} rows
 * @param {number} latencyPs that links are about to have
 */
function holdBack(tables, rows, latencyPs) {
  const free = longs(tables.links, "free_at_ps");
  for (const link of rows) {
    const sooner = tables.links.at.latency_ps(link) - latencyPs;
    if (sooner <= 0) continue;
    const from = isDown(tables, link) ? free.get(link) : BigInt(Math.max(tables.links.at.free_at_ps(link), nowPs(tables)));
    free.put(link, from + BigInt(sooner));
  }
}
