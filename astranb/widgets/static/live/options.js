// @ts-check
// Options of questions as Python takes them: the same conversions, and the same errors for what cannot be converted.

import { repr } from "./text.js";

const WHOLE = /^[+-]?\d+(?:_\d+)*$/;
const REAL = /^[+-]?(?:(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?|inf(?:inity)?|nan)$/i;

/** @type {Record<string, string>} */
const TYPES = { string: "str", boolean: "bool", undefined: "NoneType" };

/** What Python calls the type of a value of JSON. @param {unknown} value */
export function typeName(value) {
  if (Array.isArray(value)) return "list";
  if (typeof value === "number") return Number.isInteger(value) ? "int" : "float";
  return value === null ? "NoneType" : (TYPES[typeof value] ?? "dict");
}

/** An option that must be there: `options[name]`. @param {Record<string, unknown>} options @param {string} name @returns {any} */
export function required(options, name) {
  if (!Object.hasOwn(options, name)) throw new Error(`'${name}'`);
  return options[name];
}

/** An option, or what it is where it is not given: `options.get(name, value)`. @param {Record<string, unknown>} options @param {string} name @param {unknown} value @returns {any} */
export const optional = (options, name, value) => (Object.hasOwn(options, name) ? options[name] : value);

/** Whether a value counts as true: `bool(value)`. @param {unknown} value */
export function truthy(value) {
  if (Array.isArray(value)) return value.length > 0;
  return typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value);
}

/** A whole number: `int(value)`. @param {unknown} value */
export function int(value) {
  if (typeof value === "number") return Math.trunc(value) + 0;
  if (typeof value === "boolean") return Number(value);
  if (typeof value !== "string") throw new TypeError(`int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`);
  if (!WHOLE.test(value.trim())) throw new RangeError(`invalid literal for int() with base 10: ${Array.from(repr(value)).slice(0, 200).join("")}`);
  return Number(value.trim().replaceAll("_", "")) + 0;
}

/** A number: `float(value)`. @param {unknown} value */
export function float(value) {
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  if (typeof value !== "string") throw new TypeError(`float() argument must be a string or a real number, not '${typeName(value)}'`);
  const text = value.trim().toLowerCase().replaceAll("_", "");
  if (!REAL.test(value.trim())) throw new RangeError(`could not convert string to float: ${repr(value)}`);
  return Number(text.replace(/inf(?:inity)?/, "Infinity"));
}

/** Whole numbers, one behind the other: `np.asarray(values, np.int64).reshape(-1)`. @param {unknown} values @returns {number[]} */
export function wholes(values) {
  if (!Array.isArray(values)) return [int(values)];
  const sizes = new Set(values.map((one) => (Array.isArray(one) ? one.length : -1)));
  if (sizes.size > 1) {
    const after = `after 1 dimensions. The detected shape was (${values.length},) + inhomogeneous part.`;
    throw new RangeError(`setting an array element with a sequence. The requested array has an inhomogeneous shape ${after}`);
  }
  return values.flatMap(wholes);
}

/** What `for one in value` goes over. @param {unknown} value @returns {unknown[]} */
export function elements(value) {
  if (Array.isArray(value)) return value;
  if (typeof value === "string") return Array.from(value);
  if (typeof value === "object" && value !== null) return Object.keys(value);
  throw new TypeError(`'${typeName(value)}' object is not iterable`);
}
