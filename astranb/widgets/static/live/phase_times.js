// @ts-check
// The duration of a chunk's phase, a collective among the NPUs of one dimension: counterpart of
// engine/layers/phase_times.py.

import { InputError } from "./errors.js";
import { delays } from "./layers_network.js";
import { windowedPs } from "./phase_window.js";

/** @import { Network } from "./layers_network.js" */
/** In ps: how long it takes, its last endpoint delay, its last message. @typedef {[duration: number, last: number, message: number]} PhaseTime */
/** How a phase is carried out, see widgets/live/layers.py.
 * @typedef {[algorithm: number, window: number, collective: number, nodes: number, stride: number, size: number, tree: number]} PhaseKind */

const MOST_STEPS = 2_000_000_000;
const MOST = 2 ** 61;
const NAMES = ["all-reduce", "reduce-scatter", "all-gather", "all-to-all"];
const [ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL] = NAMES.keys();

/** Computes the durations of phases on a network. */
export class PhaseTimes {
  /** @param {Network} network @param {{ endpoint_ns: number, where: string }} system */
  constructor(network, { endpoint_ns, where }) {
    this.network = network;
    this.where = where;
    this.endpoint = endpoint_ns * 1000;
  }

  /** @param {PhaseKind} kind @returns {PhaseTime} */
  time([algorithm, window, collective, nodes, stride, size, tree]) {
    const ids = Array.from({ length: nodes }, (_, at) => at * stride);
    const found = [
      () => this._ring(ids, collective, size), () => this._direct(ids, collective, size, window),
      () => this._halving(ids, collective, size), () => this._tree(ids, size, tree),
    ][algorithm]();
    if (found[0] > MOST) {
      const hint = "correct the network's bandwidth";
      throw new InputError(`${NAMES[collective]} of ${size} bytes takes weeks`, { where: this.where, hint });
    }
    return found;
  }

  /** The time of two reads and a write at 500,000 bytes per nanosecond. @param {number} size */
  _reduce_ps(size) {
    if (this.network.compat) return 3 * Math.floor(size / 500_000) * 1000;
    return Math.floor((3 * size + 250) / 500);
  }

  /**
   * A chain of steps: each NPU sends when it has received the message of the step before.
   * @param {number[]} ids ranks
   * @param {number[][]} partners for each step the indices from which the NPUs receive
   * @param {number[]} sizes of each step's messages
   * @param {number[]} reduced duration of the reduction after each step
   * @returns {PhaseTime}
   */
  _exchange(ids, partners, sizes, reduced) {
    if (sizes.length * ids.length > MOST_STEPS) {
      const what = `${sizes.length} steps among ${ids.length} NPUs at different distances`;
      throw new InputError(what, { where: this.where, hint: "use a ring in each dimension" });
    }
    let at = new Float64Array(ids.length).fill(this.endpoint);
    let [delay, longest] = [/** @type {number[]} */ ([]), 0];
    sizes.forEach((size, step) => {
      const source = partners[step];
      if (!step || source !== partners[step - 1] || size !== sizes[step - 1]) {
        const of = delays(this.network, size);
        delay = ids.map((id, k) => of(ids[source[k]], id));
        longest = delay.reduce((most, one) => Math.max(most, one), 0);
      }
      if ((longest + this.endpoint + reduced[step]) * sizes.length > MOST) {
        throw new InputError("a collective takes weeks", { where: this.where, hint: "correct the network's bandwidth" });
      }
      at = at.map((own, k) => Math.max(at[source[k]] + delay[k], own) + this.endpoint + reduced[step]);
    });
    return [largest(at), reduced[reduced.length - 1] || this.endpoint, longest];
  }

  /** @param {number[]} ids @param {number} collective @param {number} size @returns {PhaseTime} */
  _ring(ids, collective, size) {
    const nodes = ids.length;
    const message = collective === ALL_GATHER ? size : Math.floor(size / nodes);
    const steps = { [ALL_REDUCE]: 2 * (nodes - 1), [ALL_TO_ALL]: (nodes * (nodes - 1)) / 2 }[collective] ?? nodes - 1;
    const reductions = collective === ALL_REDUCE || collective === REDUCE_SCATTER ? nodes - 1 : 0;
    const before = ids.map((_, k) => (k + nodes - 1) % nodes);
    const extra = this._reduce_ps(message);
    const of = delays(this.network, message);
    const delay = ids.map((id, k) => of(ids[before[k]], id));
    if (delay.every((one) => one === delay[0])) {
      const duration = this.endpoint + steps * (delay[0] + this.endpoint) + reductions * extra;
      return [duration, steps === reductions && extra ? extra : this.endpoint, delay[0]];
    }
    const costs = Array.from({ length: steps }, (_, step) => (step < reductions ? extra : 0));
    return this._exchange(ids, Array(steps).fill(before), Array(steps).fill(message), costs);
  }

  /** @param {number[]} ids @param {number} collective @param {number} size @returns {PhaseTime} */
  _halving(ids, collective, size) {
    const [nodes, levels] = [ids.length, Math.log2(ids.length)];
    let doubling = collective === ALL_GATHER;
    let [offset, message] = doubling ? [Math.floor(nodes / 2), size] : [1, Math.floor(size / 2)];
    /** @type {[offsets: number[], sizes: number[]]} */
    const [offsets, sizes] = [[], []];
    const halve = () => void ([offset, message] = [Math.floor(offset / 2), message * 2]);
    for (let step = 0; step < (collective === ALL_REDUCE ? 2 * levels : levels); step++) {
      offsets.push(offset);
      sizes.push(message);
      if (doubling) halve();
      else {
        [offset, message] = [offset * 2, Math.floor(message / 2)];
        if (offset === nodes && collective === ALL_REDUCE) {
          doubling = true;
          halve();
        }
      }
    }
    const costs = sizes.map(() => 0);
    if (collective === ALL_REDUCE || collective === REDUCE_SCATTER) {
      const after = [...sizes.slice(1), message];
      const { compat } = this.network;
      // ASTRA-sim 1.0 charges the size that is sent next, and nothing for the last step.
      for (let step = 0; step < (compat ? levels - 1 : levels); step++) costs[step] = this._reduce_ps((compat ? after : sizes)[step]);
    }
    const partners = offsets.map((away) => ids.map((_, k) => k ^ away));
    return this._exchange(ids, partners, sizes, costs);
  }

  /** @param {number[]} ids @param {number} collective @param {number} size @param {number} window @returns {PhaseTime} */
  _direct(ids, collective, size, window) {
    const [nodes, { endpoint }] = [ids.length, this];
    const message = collective === ALL_GATHER ? size : Math.floor(size / nodes);
    const rounds = collective === ALL_REDUCE ? 2 : 1;
    const reduces = collective === ALL_REDUCE || collective === REDUCE_SCATTER;
    const extra = reduces ? this._reduce_ps(message) : 0;
    const of = delays(this.network, message);
    /** @param {number} node @param {number} k */
    const source = (node, k) => (node - k - 1 + nodes) % nodes;
    // Number k of a row: to the NPU from the one k + 1 positions behind.
    const delay = ids.map((id, node) => Float64Array.from({ length: nodes - 1 }, (_, k) => of(ids[source(node, k)], id)));
    const longest = largest(delay.map(largest));
    if (window > 0 && window < nodes - 1) return [windowedPs(delay, window, endpoint, extra, rounds, reduces), endpoint, longest];
    const passed = delay.map((row) => row.map((one) => endpoint + one + endpoint + extra).sort());
    const latest = largest(passed.map(largest));
    if (rounds === 1) return [latest, extra || endpoint, longest];
    // The second round begins when all messages of the first have arrived.
    const begun = passed.map((row, node) => {
      const allIn = endpoint + largest(delay[node]);
      const first = row.reduce((least, one) => Math.min(least, one >= allIn ? one : latest), Infinity);
      return row.map((one) => Math.max(one, first));
    });
    const received = delay.map((row, node) => largest(row.map((one, k) => Math.max(begun[source(node, k)][k] + one, begun[node][k]))));
    return [largest(received) + endpoint, endpoint, longest];
  }

  /** One of two binary trees: the chunk is reduced towards the root and broadcast from it. @param {number[]} ids @param {number} size @param {number} tree @returns {PhaseTime} */
  _tree(ids, size, tree) {
    const [nodes, { endpoint }, extra] = [ids.length, this, this._reduce_ps(size)];
    const root = tree ? 0 : nodes - 1;
    const shift = tree ? 0 : 1; // the other nodes are 1 .. n - 1 of a full tree
    /** @type {number[][]} */
    const children = [];
    for (let number = 1; number < nodes; number++) {
      const half = Math.floor((number & -number) / 2);
      children[number - shift] = half ? [number - half - shift, number + half - shift] : [];
    }
    children[root] = nodes > 1 ? [Math.floor(nodes / 2) - shift] : [];
    const of = delays(this.network, size);
    /** @param {number} a @param {number} b */
    const delay = (a, b) => of(ids[a], ids[b]);
    /** @param {number} node @returns {number} */
    const up = (node) => (children[node].length ? largest(children[node].map((child) => up(child) + delay(child, node))) + endpoint + extra : endpoint);
    /** @param {number} node @param {number} ready @returns {number} when the last one has it */
    const down = (node, ready) =>
      Math.max(ready, ...children[node].map((child) => down(child, ready + delay(node, child) + endpoint + (children[child].length ? extra : 0))));
    return [down(root, up(root)), endpoint, delay(root, children[root][0])];
  }
}

/** The largest of some numbers, none of them negative. @param {ArrayLike<number>} numbers */
function largest(numbers) {
  let most = 0;
  for (let k = 0; k < numbers.length; k++) most = Math.max(most, numbers[k]);
  return most;
}
