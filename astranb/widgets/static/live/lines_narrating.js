// @ts-check
// The last event and lines under way, in words: counterpart of the first half of engine/cacheline/inspection.py, and of
// what engine/cacheline/engine.py says an event is about.

import { fabricOf, partition } from "./fabric.js";
import {
  CLASSES, CNP, FAULT, FENCE, HBM, HOP, ISSUE, L2, LAUNCH, ON_CHIP, ON_FABRIC, PAUSE, POST, RATE_RELEASE, RETURN, SWITCH, TILE, WAIT, WIRE,
} from "./gpu_numbers.js";
import { BUFFERS, indexName } from "./lines_contributions.js";
import { describeEvent } from "./lines_ethernet.js";
import { blockName, gpuPath, smNumber } from "./lines_paths.js";
import { entranceOf } from "./lines_under_way.js";
import { formatTime } from "./units.js";

/** @import { Engine, Tables } from "./types" */

const GOING = ["load", "store", "signal", "poll"];
const COMING = ["data of load", "acknowledgement of store", "acknowledgement of signal", "answer to poll"];

/** The event handled last, in one line. @param {Engine} engine */
export function narrate(engine) {
  const { at } = engine.tables.clock;
  if (at.events(0) === 0) return "nothing has happened yet";
  return `${formatTime(engine.now_ps())} · ${eventText(engine, at.last_kind(0), at.last_arg(0))}`;
}

/** @param {Engine} engine @param {number} kind @param {number} arg */
function eventText(engine, kind, arg) {
  const { blocks, faults, sms } = engine.tables;
  if (kind === LAUNCH) return `${blockName(engine, arg)} begins on ${smNumber(engine, blocks.at.sm(arg))}`;
  if (kind === ISSUE) {
    const does = sms.at.stalled(arg) ? " stalls: every outstanding slot is taken" : " issues one instruction";
    const unit = sms.at.engine(arg) ? "copy engine" : smNumber(engine, arg);
    return `GPU${sms.at.gpu(arg)} ${unit}${does} (${sms.at.outstanding(arg)} requests under way)`;
  }
  if (kind === FENCE) return fenceText(engine, arg);
  if (kind === POST) return `${blockName(engine, arg)}: a signal leaves behind the stores that it announces`;
  if (kind === WIRE) return "a link has room for the next message";
  if ([PAUSE, RATE_RELEASE, CNP].includes(kind)) return describeEvent(engine, kind, arg);
  if (kind === FAULT) return `${fabricOf(engine).name(faults.at.link(arg))} changes`;
  return requestEvent(engine, kind, arg);
}

/** @param {Engine} engine @param {number} block */
function fenceText(engine, block) {
  const { blocks, ops, tiles } = engine.tables;
  const op = blocks.at.op(block);
  const kind = op >= 0 && op < ops.rows ? ops.at.kind(op) : -1;
  if (kind === TILE) {
    const tile = ops.at.value(op);
    return `${blockName(engine, block)} has computed step ${tiles.at.computed(tile)} of ${tiles.at.steps(tile)} of a tile`;
  }
  return `${blockName(engine, block)} has passed ${kind === WAIT ? "its wait for another role" : "its fence"}`;
}

/** @param {Engine} engine @param {number} kind @param {number} request */
function requestEvent(engine, kind, request) {
  const { leg, gpu, target, issued_ps } = engine.tables.requests.at;
  const what = requestText(engine, request);
  if (kind === HOP && leg(request) === ON_CHIP) return `the mesh: ${what}`;
  if (kind === HOP) {
    const link = entranceOf(engine.tables, request);
    return `${link >= 0 ? fabricOf(engine).name(link) : "held back by the rate of its flow"}: ${what}`;
  }
  if (kind === SWITCH) return `in a switch: ${what}`;
  if (kind === L2) {
    const came = gpu(request) === target(request) ? "" : ` arrives from GPU${gpu(request)}`;
    return `GPU${target(request)} L2: ${requestText(engine, request, true)}${came}`;
  }
  if (kind === HBM) return `GPU${target(request)} HBM: ${what} missed in L2`;
  return `GPU${gpu(request)}: ${what} is back after ${formatTime(engine.now_ps() - issued_ps(request))}`;
}

/**
 * A line under way: `store line 17/64 of output[2] of GPU4 (all-gather 1/7)`.
 * @param {Engine} engine
 * @param {number} request
 * @param {boolean} [going] not what comes back
 */
export function requestText(engine, request, going = false) {
  const { clock, details, operands, ops, requests, slices } = engine.tables;
  const { at } = requests;
  const kind = (going || !at.returning(request) ? GOING : COMING)[at.kind(request)];
  const [op, operand] = [at.op(request), at.operand(request)];
  const phase = phaseText(engine, op);
  const slice = operands.at.slice(operand);
  if (slice < 0) return `${kind} semaphore ${ops.at.semaphore(op)} of GPU${operands.at.gpu(operand)}${phase}`;
  const line = clock.at.detailed(0) ? details.at.index(request) : at.line(request) - operands.at.line(operand);
  const chunk = `${BUFFERS[slices.at.buffer(slice)]}[${indexName(slices.at.chunk(slice))}]`;
  return `${kind} line ${line + 1}/${ops.at.lines(op)} of ${chunk} of GPU${slices.at.gpu(slice)}${phase}`;
}

/** The phase of an operation, in brackets; empty where phases have no names. @param {Engine} engine @param {number} op */
export function phaseText({ live, tables }, op) {
  const { phases } = live.about.scene;
  return phases.length ? ` (${phases[tables.ops.at.phase(op)]})` : "";
}

/** Path of what the last event was about; empty at the start. @param {Engine} engine */
export function concerned(engine) {
  const { at } = engine.tables.clock;
  return at.events(0) ? objectOf(engine, at.last_kind(0), at.last_arg(0)) : "";
}

/** Path of what an event is about. @param {Engine} engine @param {number} kind @param {number} arg */
export function objectOf(engine, kind, arg) {
  const { blocks, requests, sms } = engine.tables;
  const link = linkOf(engine.tables, kind, arg);
  const fabric = fabricOf(engine);
  if (link >= 0) return link < fabric.links ? partition(fabric.name(link), "#")[0] : "";
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
