// @ts-check
// Sums, means, roundings and searches, to the last bit as Python and NumPy have them.

const AT_ONCE = 128; // numbers that NumPy adds up in one go

/**
 * The sum of numbers in the order in which NumPy adds: in eight parts, and halves of many numbers each by itself.
 * @param {ArrayLike<number>} numbers
 * @param {number} from only those from here on
 * @param {number} count how many of them
 * @returns {number}
 */
export function sum(numbers, from = 0, count = numbers.length - from) {
  if (count < 8) {
    let whole = 0;
    for (let k = from; k < from + count; k++) whole += numbers[k];
    return whole;
  }
  if (count > AT_ONCE) {
    const half = Math.floor(count / 2) - (Math.floor(count / 2) % 8);
    return sum(numbers, from, half) + sum(numbers, from + half, count - half);
  }
  const parts = Float64Array.from({ length: 8 }, (_, k) => numbers[from + k]);
  let at = from + 8;
  for (; at + 8 <= from + count; at += 8) for (let k = 0; k < 8; k++) parts[k] += numbers[at + k];
  let whole = parts[0] + parts[1] + (parts[2] + parts[3]) + (parts[4] + parts[5] + (parts[6] + parts[7]));
  for (; at < from + count; at++) whole += numbers[at];
  return whole;
}

/** The mean of numbers. @param {ArrayLike<number>} numbers */
export const mean = (numbers) => sum(numbers) / numbers.length;

/** A number rounded to an integer, halves to the even one. @param {number} value */
export function toEven(value) {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
}

/** A number rounded to some decimal places; what lies exactly between two goes to the even one. @param {number} value @param {number} places */
export function rounded(value, places) {
  const halves = value * 2 ** (places + 1); // exact; odd where the number lies exactly between two
  if (Number.isInteger(halves) && halves % 2 !== 0) return toEven(value * 10 ** places) / 10 ** places;
  return Number(value.toFixed(places));
}

/** What a fraction is in a byte, 255 being all. @param {number} share */
export const byteOf = (share) => toEven(255 * Math.min(Math.max(share, 0), 1));

/** Rows of fractions as bytes, one behind the other. @param {Float64Array[]} rows */
export function bytesOf(rows) {
  const width = rows[0]?.length ?? 0;
  const bytes = new Uint8Array(rows.length * width);
  rows.forEach((row, k) => {
    for (let at = 0; at < width; at++) bytes[k * width + at] = byteOf(row[at]);
  });
  return bytes;
}

/** The first place where a value could be put in ascending numbers, or behind equal ones. @param {ArrayLike<number>} ascending @param {number} value @param {boolean} [right] */
export function searchSorted(ascending, value, right = false) {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] < value || (right && ascending[middle] === value)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The moments between so many columns of a window, from its start to its end. @param {number} start @param {number} end @param {number} columns */
export function columnEdges(start, end, columns) {
  const edges = Float64Array.from({ length: columns + 1 }, (_, k) => start + Math.trunc(k * ((end - start) / columns)));
  edges[columns] = end;
  return edges;
}
