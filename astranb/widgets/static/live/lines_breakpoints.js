// @ts-check
// Breakpoints on events of objects, and the fields that conditions and watches may name: counterpart of
// engine/cacheline/breakpoints.py, and of what engine/cacheline/engine.py says of them.

import { breakpoint, condition, foundAt, install, isPoint, unknownKind } from "./engine_breakpoints.js";
import { parted } from "./edits.js";
import { InputError, near } from "./errors.js";
import { fabricOf } from "./fabric.js";
import { CLASSES, EVENT_KINDS, PENDING } from "./gpu_numbers.js";
import { SUMMED, TABLES, fieldsOf, resolve } from "./lines_paths.js";
import { repr } from "./text.js";

/** @import { Breakpoint, Engine, MachinePart, Table, Tables } from "./types" */

/** Tables whose fields a condition may read, in the order of their numbers. */
const RAW = ["links", "gpus", "sms", "blocks", "l2_slices", "hbm_channels", "semaphores", "queues"];
/** The fields of a compiled breakpoint that are about a condition. */
const CONDITION = new Set(["owner", "place", "relation", "value", "was"]);
/** Parts of a GPU that only one kind of event concerns. @type {Record<string, string>} */
const ONLY = { l2: "l2", hbm: "hbm" };
/** What a compiled breakpoint calls them. @type {Record<string, string>} */
const COLUMN = { engine: "sm", nic: "sm", l2: "server", hbm: "server" };

/** @param {Tables} tables @returns {Table[]} */
const ownersOf = (tables) => RAW.map((name) => tables[name]);

/** A row of the compiled table that matches any event. @param {Tables} tables */
const anyEvent = ({ breaks }) => Object.fromEntries(breaks.fields.filter(([name]) => !CONDITION.has(name)).map(([name]) => [name, -1]));

/**
 * What an engine answers about breakpoints and watches.
 * @param {Engine} engine
 */
export const stopping = (engine) => ({
  kinds: EVENT_KINDS,
  /** Write breakpoints into the machine; the breakpoint of each row. @param {Breakpoint[]} points */
  install(points) {
    const { tables } = engine;
    const owners = install(points, tables.breaks, ownersOf(tables));
    tables.control.put.breaks(0, owners.length);
    return owners;
  },
  /** Whether a breakpoint that somebody else has made is one. @param {unknown} point */
  is_point: (point) => isPoint(point, engine.tables.breaks, ownersOf(engine.tables)),
  /** The row of the breakpoint that stopped the loop. */
  hit: () => engine.tables.control.at.hit(0),
  /** @param {string | null} kind @param {string | null} path */
  on_event: (kind, path) => onEvent(kind, path, engine),
  /** @param {string} text */
  condition: (text) =>
    condition(text, (left) => find(left, engine), ownersOf(engine.tables), anyEvent(engine.tables), "gpu[3].sm.0.waiting > 0"),
  /** Where a breakpoint was hit, and what was found there. @param {Breakpoint} point @returns {[where: string, because: string]} */
  reason(point) {
    const found = foundAt(point, ownersOf(engine.tables));
    if (found || point.at_ps !== null) return [point.object, found];
    return [point.object || engine.concerned(), engine.narrate()];
  },
  /**
   * An object's full path, and the reader of each field that can be watched of it.
   * @param {string} path
   * @returns {[path: string, readers: Record<string, (engine: Engine) => number>]}
   */
  readers(path) {
    const place = resolve(path, engine);
    return [place.path, Object.fromEntries(fieldsOf(place.kind, engine.tables).map((name) => [name, readerOf(place, name)]))];
  },
  /** What a condition may name of an object. @param {string} path */
  fields: (path) => fieldsOf(resolve(path, engine).kind, engine.tables),
  recorded: () => [], // all that can be watched is simulated
  /** The condition that a thread block is at its next operation. @param {string} block */
  next_operation: (block) => nextOperation(block, engine),
});

/**
 * Stop after an event of a kind that concerns an object.
 * @param {string | null} kind any where null
 * @param {string | null} path any object but a line under way; any where null
 * @param {Engine} engine
 */
function onEvent(kind, path, engine) {
  unknownKind(kind, path, EVENT_KINDS);
  const row = { ...anyEvent(engine.tables), event: kind ? EVENT_KINDS.indexOf(kind) : -1, owner: -1 };
  if (path === null) return breakpoint({ text: String(kind), rows: [row] });
  const place = resolve(path, engine);
  const only = ONLY[place.kind];
  if (only && kind !== null && kind !== only) {
    throw new InputError(`${place.path} has no ${kind} events`, { where: "break_on", hint: `it has ${only} events` });
  }
  if (only) row.event = EVENT_KINDS.indexOf(only);
  const rows = matches(place, engine).map((one) => ({ ...row, ...one }));
  return breakpoint({ text: `${kind ?? "any event"} on ${place.path}`, rows, object: place.path });
}

/**
 * What the rows of the compiled table say about an object: one of them has to match.
 * @param {MachinePart} place
 * @param {Engine} engine
 * @returns {Record<string, number>[]}
 */
function matches({ kind, rows, row, path }, engine) {
  if (kind === "link" || kind === "port") return rows.map((lane) => ({ first_link: lane, last_link: lane }));
  if (kind === "buffer") {
    return rows.map((queue) => {
      const lane = Math.floor(queue / CLASSES);
      return { first_link: lane, last_link: lane, number: queue % CLASSES };
    });
  }
  if (kind === "node") return [{ node: row }];
  if (kind === "instance") {
    const nodes = new Set(rows);
    const ranks = [...fabricOf(engine).gpus.keys()].filter((rank) => nodes.has(fabricOf(engine).gpus[rank]));
    return [...ranks.map((gpu) => ({ gpu })), ...rows.map((node) => ({ node }))];
  }
  if (kind === "line") {
    const hint = "name its thread block, or a link of its route";
    throw new InputError(`${path} is only one line under way`, { where: "break_on", hint });
  }
  return [{ [COLUMN[kind] ?? kind]: row }];
}

/** The field that `<path>.<field>` names. @param {string} text @param {Engine} engine */
function find(text, engine) {
  const { tables } = engine;
  if (!text.includes(".")) throw new InputError(`${repr(text)} is not <path>.<field>`, { hint: "for example gpu[3].sm.0.waiting" });
  const [path, name] = parted(text.trim());
  const known = new Set(Object.keys(TABLES).flatMap((kind) => fieldsOf(kind, tables)));
  if (!known.has(name)) throw new InputError(`${repr(path)} has no field ${repr(name)}`, { hint: near(name, known) });
  const place = resolve(path, engine);
  const names = fieldsOf(place.kind, tables);
  if (!names.includes(name)) {
    const hint = names.length ? near(name, names) : "links, ports, buffers, GPUs and their parts have fields";
    throw new InputError(`a ${place.kind} has no field ${repr(name)}`, { where: path, hint });
  }
  return { path: place.path, owner: RAW.indexOf(TABLES[place.kind]), rows: place.rows, field: name, word: name };
}

/** @param {MachinePart} place @param {string} name @returns {(engine: Engine) => number} */
function readerOf({ kind, rows, whole }, name) {
  const summed = whole && SUMMED.has(name);
  return ({ tables }) => {
    const values = rows.map(tables[TABLES[kind]].at[name]);
    return summed ? values.reduce((sum, value) => sum + value, 0) : values.reduce((most, value) => Math.max(most, value));
  };
}

/** The condition that a thread block has reached its next operation (engine/cacheline/source_lines.py). @param {string} path @param {Engine} engine */
function nextOperation(path, engine) {
  const [place, { at }] = [resolve(path, engine), engine.tables.blocks];
  const where = "next_line";
  if (place.kind !== "block") throw new InputError(`${place.path} is not a thread block`, { where, hint: "name one, as gpu[0].block.0" });
  const op = at.op(place.row);
  if (op >= at.last_op(place.row)) throw new InputError(`${place.path} has ended`, { where, hint: "go back, or take another block" });
  return at.state(place.row) === PENDING ? `${place.path}.state != 0` : `${place.path}.op != ${op}`;
}
