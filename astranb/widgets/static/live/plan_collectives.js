// @ts-check
// The collectives: the buffers of each, and the result that it promises. Counterpart of collectives/language/collective.py.

const CHAINED = 8; // chunks of a broadcast or reduction

/** The ranks whose contributions an output must hold, and which chunk of theirs. @typedef {{ ranks: number[], chunk: number }} Promised */
/**
 * @typedef {object} CollectiveKind
 * @property {(ranks: number) => [inputs: number, outputs: number]} chunks of a rank
 * @property {(ranks: number) => number} busFactor from algorithm to bus bandwidth
 * @property {(ranks: number, chunks: number, rank: number, index: number) => Promised | null} promise of an output chunk; null: nothing
 */

/** @param {number} count */
const all = (count) => Array.from({ length: count }, (_, k) => k);
/** @param {number} n */
const others = (n) => (n - 1) / n;
const nothing = () => null;

/** @type {Record<string, CollectiveKind>} */
export const COLLECTIVES = {
  all_reduce: { chunks: (n) => [n, n], busFactor: (n) => (2 * (n - 1)) / n, promise: (n, _, __, index) => ({ ranks: all(n), chunk: index }) },
  all_gather: { chunks: (n) => [1, n], busFactor: others, promise: gathered },
  reduce_scatter: { chunks: (n) => [n, 1], busFactor: others, promise: (n, chunks, rank, index) => ({ ranks: all(n), chunk: rank * chunks + index }) },
  all_to_all: {
    chunks: (n) => [n, n], busFactor: others,
    promise(n, chunks, rank, index) {
      const each = Math.floor(chunks / n); // chunks that come from one rank
      return { ranks: [Math.floor(index / each)], chunk: (index % each) + rank * each };
    },
  },
  broadcast: { chunks: () => [CHAINED, CHAINED], busFactor: () => 1, promise: (_, __, ___, index) => ({ ranks: [0], chunk: index }) },
  reduce: { chunks: () => [CHAINED, CHAINED], busFactor: () => 1, promise: (n, _, rank, index) => (rank === 0 ? { ranks: all(n), chunk: index } : null) },
  gather: { chunks: (n) => [1, n], busFactor: others, promise: (n, chunks, rank, index) => (rank === 0 ? gathered(n, chunks, rank, index) : null) },
  scatter: { chunks: (n) => [n, 1], busFactor: others, promise: (_, chunks, rank, index) => ({ ranks: [0], chunk: rank * chunks + index }) },
  send_recv: { chunks: () => [1, 1], busFactor: () => 1, promise: (n, _, rank, index) => ({ ranks: [(rank + n - 1) % n], chunk: index }) },
  barrier: { chunks: () => [1, 1], busFactor: () => 0, promise: nothing },
  dispatch: { chunks: (n) => [n, n], busFactor: () => 1, promise: nothing },
  combine: { chunks: (n) => [n, n], busFactor: () => 1, promise: nothing },
  custom: { chunks: (n) => [n, n], busFactor: () => 1, promise: nothing },
};

/** @param {number} n @param {number} chunks @param {number} _ @param {number} index @returns {Promised} */
function gathered(n, chunks, _, index) {
  const each = Math.floor(chunks / n);
  return { ranks: [Math.floor(index / each)], chunk: index % each };
}
