// @ts-check
// The columns of every message that carries arrays: their order, names and types, all little-endian.
// Written once, in JSON between the parentheses: Python packs by it (widgets/feed/messages.py), `unpack` reads by it,
// and the types of the columns follow from it (types.d.ts). Times are f8 picoseconds: exact to 2**53 ps.

export const COLUMNS = /** @type {const} */ ({
  "scene": { "bundle_of": "i4" },
  "state": {
    "start": "f8", "end": "f8", "what": "u4", "wait": "u4",
    "source": "u4", "target": "u4", "number": "u4", "chunk": "u4", "phase": "u2", "step": "u2", "bytes": "f8"
  },
  "timeline": {
    "start": "f8", "end": "f8", "what": "u4", "phase": "i4",
    "issue": "u1", "l2": "u1", "hbm": "u1", "link": "u1", "out": "u1"
  },
  "picture": { "bundle_of": "i4" },
  "activity": { "issue": "u1", "l2": "u1", "hbm": "u1", "out": "u1", "bundles": "u1" },
  "aggregates": { "tiles": "f4" },
  "breaks": { "times": "f8", "values": "f8" },
  "buffer": { "arrived": "u1", "source": "u2", "ranks": "u2", "state": "u1" },
  "chunks": {
    "rank": "i4", "buffer": "i4", "chunk": "i4", "promised": "i4", "kept": "i4", "slices": "i4", "writing": "i4",
    "place": "i4", "there": "i4", "twice": "i4", "least": "u1", "most": "u1"
  },
  "critical_path": {
    "start": "f8", "end": "f8", "block": "i4", "link": "i4", "rank": "i4", "cause": "u4", "sm": "i4"
  },
  "device": {
    "state": "u1", "blocks": "u4", "requests": "u4", "l2": "f4", "l2_queue": "f4", "hbm": "f4", "hbm_queue": "f4"
  },
  "footprint": { "time": "f8", "held": "f8" },
  "held": { "rank": "i4", "share": "u1", "final": "u1", "bundles": "u1" },
  "inside": { "sms": "u2", "l2": "u1", "hbm": "u1", "out": "u1" },
  "tracks": {
    "shares": "u1",
    "place": "u4", "slot": "u4", "slots": "u4", "number": "u4", "label": "u4", "start": "f8", "end": "f8",
    "ready": "f8", "waits": "u1", "idle_at": "u4", "idle_state": "u1", "idle_start": "f8", "idle_end": "f8"
  },
  "doing": { "rank": "u4", "state": "u1", "start": "f8", "end": "f8" },
  "ports": { "waiting": "u4", "fill": "u1", "marks": "u1" },
  "spans": {
    "fold_shares": "u1", "track_shares": "u1", "row": "u4", "state": "u4", "label": "u4", "start": "f8", "end": "f8"
  },
  "module": {
    "entity": "u4", "text": "u4", "row": "u4", "slot": "u1", "compute": "u4", "communication": "u4", "memory": "u4", "other": "u4",
    "duration": "f8", "bytes": "f8", "flops": "f8", "critical": "f4",
    "before": "u4", "after": "u4", "data": "u4", "control": "u4", "implied": "u1"
  },
  "module_tree": {
    "first": "u4", "edge": "u4", "around": "i4", "module_of": "u4", "name": "u4", "id": "f8", "from": "u4", "to": "u4"
  },
  "module_values": { "value": "u4" },
  "module_states": { "entity": "u4", "state": "u1", "done": "u4", "running": "u4", "total": "u4" },
  "study": {
    "number": "u4", "status": "u1", "error": "u4", "code": "i4", "value": "f8", "front": "u4",
    "cell_x": "u4", "cell_y": "u4", "cell_best": "f8", "cell_mean": "f8", "cell_point": "u4", "cell_count": "u4"
  },
  "traffic": { "cells": "f4" },
  "where": { "gpu": "i4", "block": "i4", "state": "i4", "op": "i4", "ops": "i4", "part": "i4", "line": "i4" },
  "recorded_flights": { "time": "f8", "event": "f8", "kind": "u1", "link": "u4" },
  "recorded_steps": { "time": "f8", "event": "f8", "ends": "u1", "operation": "u4" },
  "recorded_operations": { "rank": "u4", "text": "u4" },
  "recorded_tracks": { "track": "u4", "state": "u1", "label": "u4", "start": "f8", "end": "f8" }
});

export const TYPES = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

/**
 * A typed array over the bytes of a column, copied where these are not aligned.
 * @template {keyof typeof TYPES} T
 * @param {T} type
 * @param {DataView} [view] none: an empty column
 * @returns {InstanceType<(typeof TYPES)[T]>}
 */
function column(type, view = new DataView(new ArrayBuffer(0))) {
  const Type = TYPES[type];
  const aligned = view.byteOffset % Type.BYTES_PER_ELEMENT === 0;
  const bytes = aligned ? view.buffer : view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  const array = new Type(/** @type {ArrayBuffer} */ (bytes), aligned ? view.byteOffset : 0, view.byteLength / Type.BYTES_PER_ELEMENT);
  return /** @type {InstanceType<(typeof TYPES)[T]>} */ (array);
}

/**
 * The columns of a message by name; all of them are empty where it came without any.
 * @template {import("./types").Packed} M
 * @param {M} message
 * @param {readonly DataView[]} buffers
 * @returns {import("./types").Columns<M>}
 */
export function unpack(message, buffers) {
  const columns = Object.entries(COLUMNS[message]).map(([name, type], k) => [name, column(type, buffers[k])]);
  return Object.fromEntries(columns);
}

/**
 * The buffers of a message in their order; a column that is not given is empty.
 * @template {import("./types").Packed} M
 * @param {M} message
 * @param {{ [name in keyof import("./types").Columns<M>]?: ArrayLike<number> }} columns
 */
export function pack(message, columns) {
  /** @type {{ [name: string]: ArrayLike<number> | undefined }} */
  const given = columns;
  return Object.entries(COLUMNS[message]).map(
    ([name, type]) => new DataView(TYPES[/** @type {keyof typeof TYPES} */ (type)].from(given[name] ?? []).buffer),
  );
}
