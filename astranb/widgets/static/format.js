// @ts-check
// Numbers as a person reads them.

/** @type {[number, string][]} */
const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];

/** Picoseconds with a unit, exact. @param {number} ps @param {number} [digits] */
export function formatTime(ps, digits = 6) {
  const [size, unit] = UNITS.find(([one]) => Math.abs(ps) >= one) ?? [1, "ps"];
  const places = Math.min(digits, Math.round(Math.log10(size)));
  return `${Number((ps / size).toFixed(places))} ${unit}`;
}

const COUNTS = new Intl.NumberFormat("en-US"); // made once: toLocaleString makes one for each number

/** A whole number with separators for thousands. @param {number} n */
export const formatCount = (n) => COUNTS.format(n);

/** A count with its noun, as `core/plural.py`. @param {number} count @param {string} noun @param {string} [several] its plural, if not with an "s" */
export const plural = (count, noun, several = `${noun}s`) => `${formatCount(count)} ${count === 1 ? noun : several}`;

/** A fraction as a percentage, small ones with a decimal. @param {number} part */
export const formatShare = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)}%`;

/** Bytes with a unit of 1,024, as the kernel writes them. @param {number} bytes */
export function formatBytes(bytes) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${COUNTS.format(Number((bytes / 1024 ** power).toFixed(power ? 2 : 0)))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}
