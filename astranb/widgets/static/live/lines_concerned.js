// @ts-check
// What an event is about: counterpart of `concerned` of engine/cacheline/engine.py.

import { partition } from "./fabric.js";
import { CLASSES, CNP, FAULT, FENCE, HOP, ISSUE, LAUNCH, ON_FABRIC, PAUSE, POST, RATE_RELEASE, RETURN, WIRE } from "./gpu_numbers.js";
import { gpuPath, linkName } from "./lines_paths.js";
import { entranceOf } from "./lines_under_way.js";

/** @import { Engine, Tables } from "./types" */

/** Path of what the last event was about; empty at the start. @param {Engine} engine */
export function concerned(engine) {
  const { at } = engine.tables.clock;
  return at.events(0) ? objectOf(engine, at.last_kind(0), at.last_arg(0)) : "";
}

/** Path of what an event is about. @param {Engine} engine @param {number} kind @param {number} arg */
export function objectOf(engine, kind, arg) {
  const { blocks, requests, sms } = engine.tables;
  const link = linkOf(engine.tables, kind, arg);
  if (link >= 0) return link < engine.live.about.links.length ? partition(linkName(engine, link), "#")[0] : "";
  if ([LAUNCH, FENCE, POST].includes(kind)) return gpuPath(engine, blocks.at.gpu(arg));
  if (kind === ISSUE) return gpuPath(engine, sms.at.gpu(arg));
  return gpuPath(engine, requests.at[kind === RETURN ? "gpu" : "target"](arg));
}

/** The link that an event is about, -1 for none. @param {Tables} tables @param {number} kind @param {number} arg */
function linkOf(tables, kind, arg) {
  const { faults, flows, requests } = tables;
  if (kind === HOP) return requests.at.leg(arg) === ON_FABRIC ? entranceOf(tables, arg) : -1;
  if (kind === WIRE) return arg;
  if (kind === FAULT) return faults.at.link(arg);
  if (kind === PAUSE) return Math.floor(arg / (2 * CLASSES));
  return kind === RATE_RELEASE || kind === CNP ? flows.at.link(arg) : -1;
}
