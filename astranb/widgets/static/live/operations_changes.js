// @ts-check
// Values of what a person may change in a run of operations: counterpart of engine/operations/changes.py.

import { toEven } from "../numpy.js";
import { yesOrNo } from "./edits.js";
import { InputError } from "./errors.js";
import { general, repr, str } from "./text.js";
import { bandwidthBps, formatBandwidth, formatTime, timePs } from "./units.js";

const MOST_SPEED = 1e6;

/** The error where links are of a network of dimensions. @param {string} where */
export function noOtherRoutes(where) {
  const hint = "take an infrastructure (infragraph.dimensions makes one of them), or fidelity 'cacheline'";
  return new InputError("links of a network of dimensions have no names, and no other routes", { where, hint });
}

/** Read a value in the unit of its field. @param {string} field @param {unknown} value @param {string} where */
export function readValue(field, value, where) {
  if (field === "up") return yesOrNo(value, where);
  if (typeof value === "boolean") throw new InputError(`${repr(value)} is not a value with a unit`, { where });
  if (field === "speed") {
    const text = str(value).trim().replace(/x$/, "");
    if (text === "inf") return Infinity;
    if (!/^\d{1,9}(\.\d{1,17})?(e[+-]?\d)?$/.test(text) || Number(text) < 1 / MOST_SPEED || Number(text) > MOST_SPEED) {
      const hint = "0.5 is half as fast, 2 twice, inf takes no time";
      throw new InputError(`a speed must be a number above 0, got ${repr(value)}`, { where, hint });
    }
    return Number(text);
  }
  if (typeof value === "number" && !Number.isInteger(value)) {
    throw new InputError(`${repr(value)} is not a value with a unit`, { where, hint: 'write "25 GB/s" or "1 us"' });
  }
  return field === "rate_Bpns" ? bandwidthBps(value, where) / 1e9 : timePs(value, where) / 1000;
}

/** A number in the unit of its field, for a person. @param {string} field @param {number} number */
export function written(field, number) {
  if (field === "speed") return number === Infinity ? "inf" : general(number, 6);
  if (field === "rate_Bpns") return formatBandwidth(number * 1e9);
  if (field === "up") return number ? "yes" : "no";
  return formatTime(toEven(number * 1000));
}
