// @ts-check
// The links of a network of dimensions: counterpart of net/dimension_links.py.

export const DOWN = 2; // of what keeps a link busy
export const [RING, FULLY_CONNECTED, SWITCH, MESH, ROUTED] = Array(5).keys();

/**
 * @typedef {Object} DimensionLinks
 * @property {number} npus
 * @property {number[]} first the number of the first link of each dimension
 * @property {number[]} dims the dimension of a link is the last whose first link is not behind it
 * @property {(src: number, dst: number) => number[]} path the links that a message crosses
 */

/** How many links a dimension has. @param {number} kind @param {number} nodes @param {number} npus */
const linkCount = (kind, nodes, npus) => (kind === FULLY_CONNECTED ? npus * nodes : 2 * npus);

/** @param {number} a @param {number} b */
const modulo = (a, b) => ((a % b) + b) % b;

/**
 * @param {number[]} kinds of each dimension
 * @param {number[]} nodes
 */
export function createDimensionLinks(kinds, nodes) {
  const npus = nodes.reduce((all, count) => all * count, 1);
  const first = [0];
  const strides = [1];
  kinds.forEach((kind, dim) => {
    first.push(first[dim] + linkCount(kind, nodes[dim], npus));
    strides.push(strides[dim] * nodes[dim]);
  });
  /** The links that a message crosses: dimension by dimension, the shorter half of a ring. @param {number} src @param {number} dst */
  function path(src, dst) {
    const found = [];
    let at = src;
    for (const [dim, kind] of kinds.entries()) {
      const [stride, count, start] = [strides[dim], nodes[dim], first[dim]];
      const [here, there] = [Math.floor(at / stride) % count, Math.floor(dst / stride) % count];
      if (here !== there) {
        const after = at + (there - here) * stride;
        if (kind === FULLY_CONNECTED) found.push(start + at * count + there);
        else if (kind === SWITCH) found.push(start + at, start + npus + after);
        else {
          const ahead = modulo(there - here, count);
          const back = kind === RING ? count - ahead < ahead : there < here;
          const hops = back ? (kind === RING ? count - ahead : here - there) : ahead;
          for (let hop = 0; hop < hops; hop++) {
            const moved = modulo(here + (back ? -hop : hop), count) - here;
            found.push(start + (back ? npus : 0) + at + moved * stride);
          }
        }
        at = after;
      }
    }
    return found;
  }
  return { npus, first, path };
}
