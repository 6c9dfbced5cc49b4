// @ts-check
// How much of each column of pixels spans fill: drawn where there are too many to be drawn one by one.

/**
 * Rows of columns over a window, empty at first.
 * @param {number} rows
 * @param {number} columns
 * @param {number} from ps
 * @param {number} to ps
 */
export function createColumns(rows, columns, from, to) {
  const spent = new Float64Array(rows * columns);
  const wide = (to - from) / columns;
  return {
    /** A span of a row. @param {number} row @param {number} start @param {number} end */
    add(row, start, end) {
      const [a, b] = [Math.max(start, from), Math.min(end, to)];
      if (b <= a) return;
      for (let at = Math.floor((a - from) / wide); at < columns && from + at * wide < b; at++) {
        spent[row * columns + at] += Math.min(b, from + (at + 1) * wide) - Math.max(a, from + at * wide);
      }
    },
    /** Row by row, 255 being a whole column; what lies over one another counts once at most. */
    shares: () => Uint8Array.from(spent, (one) => Math.min(255, Math.round((255 * one) / wide))),
  };
}
