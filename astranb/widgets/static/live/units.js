// @ts-check
// Sizes, times and bandwidths, always with a unit: counterpart of core/units.py.

import { InputError, near } from "./errors.js";
import { commas, fixedCommas, general, generalCommas, repr } from "./text.js";

const INT64_MAX = 2n ** 63n - 1n;
const DIGITS = 28; // of Python's Decimal
const MOST_EXPONENT = 999999;
const UNREADABLE = 1e18; // powers of ten

/** @type {Record<string, number>} */
const SIZE = {
  B: 1,
  kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15,
  KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50,
};
/** @type {Record<string, number>} */
const TIME = { ps: 1, ns: 1e3, us: 1e6, "µs": 1e6, "μs": 1e6, ms: 1e9, s: 1e12 };
/** @type {[prefix: string, scale: number][]} */
const PREFIXES = [["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]];
/** @type {Record<string, number>} */
const RATE = {
  ...Object.fromEntries(Object.entries(SIZE).map(([unit, scale]) => [`${unit}/s`, scale])),
  ...Object.fromEntries(PREFIXES.map(([prefix, scale]) => [`${prefix}Bps`, scale])),
  ...Object.fromEntries(PREFIXES.map(([prefix, scale]) => [`${prefix}bps`, scale / 8])),
  ...Object.fromEntries(PREFIXES.map(([prefix, scale]) => [`${prefix}b/s`, scale / 8])),
  ...Object.fromEntries(PREFIXES.map(([prefix, scale]) => [`${prefix}bit/s`, scale / 8])),
};
/** @type {Record<string, string>} */
const EXAMPLES = { size: "1 MiB", time: "500 ns", bandwidth: "50 GB/s" };
/** @type {Record<string, string>} */
const SMALLEST = { size: "bytes", time: "picoseconds" };

const QUANTITY = /^\s*([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?\s*([^\s\d].*?)?\s*$/;

/** Read a size in bytes; a plain number is bytes. @param {unknown} value @param {string} [where] */
export const sizeBytes = (value, where = "size") => read(value, SIZE, "size", where, { bare: true });

/** Read a time as whole picoseconds; a plain number is picoseconds. @param {unknown} value @param {string} [where] */
export const timePs = (value, where = "time") => read(value, TIME, "time", where);

/** Read a bandwidth in bytes a second; a plain number is bytes a second. @param {unknown} value @param {string} [where] */
export function bandwidthBps(value, where = "bandwidth") {
  const rate = read(value, RATE, "bandwidth", where, { whole: false });
  if (rate < 1) throw new InputError(`bandwidth must be positive, got ${repr(value)}`, { where });
  return rate;
}

/** A size, exactly: with the largest binary unit that divides it, else bytes. @param {number} n */
export function formatBytes(n) {
  const unit = ["TiB", "GiB", "MiB", "KiB"].find((one) => n && n % SIZE[one] === 0);
  return unit ? `${commas(n / SIZE[unit])} ${unit}` : `${commas(n)} B`;
}

/** A time with four significant digits and the unit that fits. @param {number} ps */
export function formatTime(ps) {
  const unit = ["s", "ms", "µs", "ns"].find((one) => Math.abs(ps) >= TIME[one]);
  if (!unit) return `${ps} ps`;
  const much = Math.abs(ps) >= 1000 * TIME[unit];
  return `${much ? fixedCommas(ps / TIME[unit], 0) : generalCommas(ps / TIME[unit], 4)} ${unit}`;
}

/** A bandwidth in units of 10^9 bytes a second, or smaller. @param {number} rate in bytes a second */
export function formatBandwidth(rate) {
  const unit = ["TB", "GB", "MB", "kB"].find((one) => rate >= SIZE[one] && (one !== "TB" || rate >= 10 * SIZE.TB));
  return unit ? `${general(rate / SIZE[unit], 4)} ${unit}/s` : `${general(rate, 4)} B/s`;
}

/**
 * Read one quantity against one closed table of units.
 * @param {unknown} value
 * @param {Record<string, number>} table
 * @param {string} kind
 * @param {string} where
 * @param {{ bare?: boolean, whole?: boolean }} [settings]
 */
function read(value, table, kind, where, { bare = false, whole = true } = {}) {
  const hint = `write for example ${repr(EXAMPLES[kind])}`;
  if (typeof value !== "string" && !Number.isInteger(value)) {
    throw new InputError(`a ${kind} is a whole number or text with a unit, got ${repr(value)}`, { where, hint });
  }
  const match = QUANTITY.exec(typeof value === "string" ? value : String(BigInt(/** @type {number} */ (value))));
  if (!match) throw new InputError(`cannot read ${kind} ${repr(value)}`, { where, hint });
  const [, sign, integer = "", fraction = "", part = fraction, exponent = "0", unit] = match;
  const mantissa = BigInt(integer + part);
  const outOfRange = () => new InputError(`${kind} ${repr(value)} is out of range`, { where });
  if (mantissa && Number(exponent) >= UNREADABLE) throw outOfRange();
  if (typeof value === "string" && unit === undefined && !bare && mantissa) {
    throw new InputError(`${kind} ${repr(value)} has no unit`, { where, hint });
  }
  if (unit !== undefined && !Object.hasOwn(table, unit)) {
    throw new InputError(`unknown ${kind} unit ${repr(unit)} in ${repr(value)}`, { where, hint: hintOf(unit, table) });
  }
  const scaled = mantissa * BigInt(unit === undefined ? 1 : table[unit]);
  const { digits, power } = toDigits(scaled, Number(exponent) - part.length);
  const highest = String(digits).length - 1 + power;
  if (digits && highest > MOST_EXPONENT) throw outOfRange();
  const zero = !digits || highest < -MOST_EXPONENT - DIGITS;
  if (!zero && sign === "-") throw new InputError(`${kind} must not be negative, got ${repr(value)}`, { where });
  if (!zero && (highest > 20 || exceeds(digits, power))) {
    throw new InputError(`${kind} ${repr(value)} is larger than 2**63 - 1`, { where, hint: "use a smaller one" });
  }
  const [below, remainder] = zero || highest < 0 ? [0n, zero ? 0n : 1n] : divided(digits, power);
  if (whole && remainder) throw new InputError(`${repr(value)} is not a whole number of ${SMALLEST[kind]}`, { where });
  return Number(below);
}

/** Rounded to as many digits as Python's Decimal has, halves to the even one. @param {bigint} value @param {number} power of ten */
function toDigits(value, power) {
  const more = String(value).length - DIGITS;
  if (more <= 0) return { digits: value, power };
  const step = 10n ** BigInt(more);
  const [below, over] = [value / step, (value % step) * 2n];
  return { digits: below + (over > step || (over === step && below % 2n) ? 1n : 0n), power: power + more };
}

/** The whole number and what is left, of digits times a power of ten. @param {bigint} digits @param {number} power */
function divided(digits, power) {
  if (power >= 0) return [digits * 10n ** BigInt(power), 0n];
  const step = 10n ** BigInt(-power);
  return [digits / step, digits % step];
}

/** @param {bigint} digits @param {number} power */
function exceeds(digits, power) {
  if (String(digits).length - 1 + power < 0) return false;
  const [below, remainder] = divided(digits, power);
  return below > INT64_MAX || (below === INT64_MAX && remainder > 0n);
}

/** What an unknown unit may have meant; two readings are never chosen between. @param {string} unit @param {Record<string, number>} table */
function hintOf(unit, table) {
  const letter = Array.from(unit)[0].toUpperCase();
  if (["K", "M", "G", "T"].includes(unit.toUpperCase())) {
    return `ambiguous: write ${letter === "K" ? "k" : letter}B (1000s) or ${letter}iB (1024s)`;
  }
  const same = Object.keys(table).filter((one) => one.toLowerCase() === unit.toLowerCase());
  return same.length ? `write ${same.join(" or ")}` : near(unit, Object.keys(table));
}
