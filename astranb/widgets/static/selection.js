// @ts-check
// What a path names: a GPU by its rank or its name, a part of one.

/** @import { Store } from "./types" */

/**
 * Rank of the GPU that a path names, or of which it names a part; -1 for anything else.
 * @param {Store} store
 * @param {string} path
 */
export function gpuOf(store, path) {
  const short = path.match(/^gpu\[(\d+)\]/);
  if (short) return Number(short[1]);
  return store.ready ? store.scene.gpus.findIndex((name) => isWithin(path, name)) : -1;
}

/** Whether a path is an object, or a part of it. @param {string} path @param {string} name */
export const isWithin = (path, name) => path === name || path.startsWith(`${name}.`);

/** GPU and thread block (-1: all of its) that is selected; null where none is. @param {Store} store */
export function selectedBlock(store) {
  const [, head = "", block] = store.selection.match(/^(.*?)(?:\.block\.(\d+)|\.sm\.\d+)?$/) ?? [];
  const short = head.match(/^gpu\[(\d+)\]$/);
  const box = !short && store.ready ? store.scene.boxes.find(({ rank, name }) => rank >= 0 && name === head) : undefined;
  if (!short && !box) return null;
  return { gpu: box?.rank ?? Number(short?.[1]), block: block === undefined ? -1 : Number(block) };
}
