// @ts-check
// Nodes by their names: counterpart of `locate` of infragraph/_annotate.py and of infragraph/_plan.py.

/** @import { NodePlan } from "./types" */

const PART = /([^[\]]+)(?:\[([^[\]]*)\])?/g;
const BOUND = /^(\s*-?[0-9]{1,18}\s*|\s*)$/;

/**
 * The nodes that an identifier names: dotted (`host.0.gpu.3`), a prefix of that (`host.0`: everything inside),
 * or with slices (`host[0:4]gpu[0:8]`). Null: there are none.
 * @param {NodePlan} plan
 * @param {string} identifier
 * @returns {{ nodes: number[], units: number, leaf: boolean } | null} how many units, and whether these are nodes
 */
export function locate(plan, identifier) {
  const path = split(identifier);
  const instance = path && plan.instances[path[0][0]];
  const copies = instance && pick(path[0][1], instance.count);
  if (!copies) return null;
  const { size } = plan.devices[instance.device];
  let units = copies.map((copy) => instance.base + copy * size);
  let device = plan.devices[instance.device];
  let leaf = false;
  for (const [name, inside] of path.slice(1)) {
    const found = !leaf && Object.hasOwn(device.components, name) ? device.components[name] : null;
    const picked = found && pick(inside, found.count);
    if (!found || !picked) return null;
    units = units.flatMap((unit) => picked.map((k) => unit + found.base + k * found.stride));
    if (found.leaf) leaf = true;
    else device = plan.devices[name];
  }
  const length = leaf ? 1 : device.size;
  return { nodes: units.flatMap((unit) => Array.from({ length }, (_, k) => unit + k)), units: units.length, leaf };
}

/** Names, each with what is between its brackets. @param {string} identifier @returns {[name: string, inside: string | null][] | null} */
function split(identifier) {
  /** @type {[name: string, inside: string | null][]} */
  const path = [];
  for (const word of identifier.split(".")) {
    const last = path.at(-1);
    if (last && last[1] === null && /^[0-9]{1,18}$/.test(word)) {
      last[1] = word;
      continue;
    }
    const parts = [...word.matchAll(PART)];
    if (!word || parts.reduce((sum, [text]) => sum + text.length, 0) !== word.length) return null;
    parts.forEach(([, name, inside]) => path.push([name, inside ?? null]));
  }
  return path;
}

/** Numbers of an index or a slice, as Python reads them; null where there are none. @param {string | null} inside @param {number} count */
function pick(inside, count) {
  const parts = (inside || ":").split(":");
  if (parts.length > 3 || !parts.every((part) => BOUND.test(part))) return null;
  const numbers = parts.map((part) => (part.trim() ? Number(part) : null));
  if (numbers.length === 1 && numbers[0] !== null) {
    const [index] = numbers;
    return index >= -count && index < count ? [index < 0 ? index + count : index] : null;
  }
  if (numbers.slice(0, 2).some((bound) => bound !== null && (bound < -count || bound > count))) return null;
  const step = numbers[2] ?? 1;
  if (!step) return null;
  /** @param {number | null | undefined} bound @param {number} otherwise */
  const place = (bound, otherwise) => Math.min(step < 0 ? count - 1 : count, bound === null || bound === undefined ? otherwise : bound < 0 ? bound + count : bound);
  const start = place(numbers[0], step < 0 ? count - 1 : 0);
  const stop = numbers[1] === null || numbers[1] === undefined ? (step < 0 ? -1 : count) : place(numbers[1], 0);
  const found = [];
  for (let k = start; step < 0 ? k > stop : k < stop; k += step) found.push(k);
  return found.length ? found : null;
}
