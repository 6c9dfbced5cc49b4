// @ts-check
// The part of time that the timelines show, and the interval that is marked: functions of the store.

/** @import { Interval, Store } from "./types" */

/**
 * `changed` is called when another part is shown.
 * @param {Store} store
 * @param {() => void} changed
 * @returns {Pick<Store, "view" | "zoom" | "mark" | "pan" | "show">}
 */
export function timeWindow(store, changed) {
  return {
    /** The part of time that the timelines show. */
    view() {
      if (store.window) return store.window;
      // Grows in steps, so that not every frame draws everything anew.
      const end = Math.max(1000, store.furthest);
      const step = 2 ** Math.floor(Math.log2(end)) / 8;
      return [0, Math.ceil(end / step) * step];
    },
    zoom(factor, around = store.cursor) {
      const [a, b] = store.view();
      const length = Math.min(Math.max((b - a) * factor, 100), Math.max(1000, store.furthest * 1.02));
      const place = (Math.min(Math.max(around, a), b) - a) / (b - a);
      store.show(around - place * length, length);
    },
    /** Mark an interval, from either end; nothing clears it. */
    mark(from = null, to = 0) {
      const end = Math.max(1, store.frontier);
      const ends = from === null ? null : [from, to].map((t) => Math.min(end, Math.max(0, t))).sort((a, b) => a - b);
      store.marked = /** @type {Interval | null} */ (ends);
      store.emit("change");
    },
    pan(share) {
      const [a, b] = store.view();
      store.show(a + share * (b - a), b - a);
    },
    show(start, length) {
      const whole = Math.max(1000, store.furthest * 1.02);
      const from = Math.min(Math.max(0, start), Math.max(0, whole - length));
      store.window = length >= whole ? null : [from, from + length];
      changed();
      store.emit("change");
    },
  };
}
