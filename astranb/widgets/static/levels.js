// @ts-check
// Which part of the system is shown, in words and with buttons: from the whole system down to one SM.

import { gpuOf, isWithin } from "./selection.js";
import { make, makeButton } from "./theme.js";

/** @import { Store } from "./types" */

/**
 * A row of one height, whatever is selected: the picture below never moves.
 * @param {Store} store
 * @param {...HTMLElement} notes what else is written there
 */
export function createLevels(store, ...notes) {
  const crumbs = make("nav", { class: "anb-crumbs", "aria-label": "Where you are" });
  const inside = makeButton("look inside", () => levels.enter(store.selection), { class: "anb-tab", title: "show the inside of the selected object (Enter, double click)" });
  const open = makeButton("open here", () => levels.open(store.selection), { class: "anb-tab", title: "expand the selected instance in place" });
  const shut = makeButton("close all", () => store.look({ opened: [], focus: "" }), { class: "anb-tab", title: "show every instance as one box again" });
  const all = make("input", { type: "checkbox", onchange: () => store.emit("change") });
  const allLinks = make("label", { class: "anb-label", title: "draw the lines of every link, not only those of the hottest" }, all, "all links");
  const element = make("div", { class: "anb-levels" }, crumbs, ...notes, inside, open, shut, allLinks);

  /** The instance that is one box or tile now, by its name or by that of something in it. @param {string} path */
  function closed(path) {
    if (!path || !store.ready || store.engine === "operations") return ""; // what is drawn of ranks was chosen when they were recorded
    /** @param {string} name */
    const holds = (name) => isWithin(path, name);
    const found = store.scene.boxes.find((one) => one.kind === "instance" && holds(one.name));
    if (found) return found.name;
    return store.scene.tiles.flat().find(holds) ?? "";
  }
  /** @param {Error} error */
  const fail = (error) => {
    store.error = error.message;
    store.emit("change");
  };

  const levels = {
    element,
    get all() {
      return all.checked;
    },
    /** Go down into an instance or a GPU. @param {string} path */
    enter(path) {
      const rank = gpuOf(store, path);
      const instance = closed(path);
      if (rank >= 0 && !instance) {
        store.device = rank;
        store.emit("change");
      } else if (instance) store.look({ focus: instance }).catch(fail);
      else return false;
      return true;
    },
    /** Show all of an instance in its place. @param {string} path */
    open(path) {
      const instance = closed(path);
      if (instance) store.look({ opened: [...store.scene.opened, instance], focus: "" }).catch(fail);
    },
    /** Go up by one level; false at the top. */
    up() {
      if (store.device >= 0) {
        store.device = -1;
        store.emit("change");
      } else if (store.ready && store.scene.focus) store.look({ focus: "" }).catch(fail);
      else return false;
      return true;
    },
    draw() {
      const { scene } = store;
      const instance = closed(store.selection);
      const rank = gpuOf(store, store.selection);
      /** @type {[string, (() => void) | null][]} */
      const path = [["cluster", () => top()]];
      if (scene.focus) path.push([scene.focus, () => levels.device(-1)]);
      if (store.device >= 0) {
        const sm = store.selection.match(/\.sm\.(\d+)$/);
        path.push([`gpu[${store.device}]`, () => store.select(`gpu[${store.device}]`)]);
        path.push([sm && rank === store.device ? `sm ${sm[1]}` : "SMs", null]);
      }
      const key = path.map(([text]) => text).join(" > ");
      if (crumbs.dataset.path !== key) {
        crumbs.dataset.path = key;
        const parts = path.flatMap(([text, onclick], k) => [
          ...(k ? [make("span", { text: ">", "aria-hidden": "true" })] : []),
          onclick && k < path.length - 1
            ? makeButton(text, onclick, { class: "anb-crumb" })
            : make("span", { class: "anb-crumb-here", text, "aria-current": "true" }),
        ]);
        crumbs.replaceChildren(...parts);
      }
      crumbs.hidden = store.engine === "operations";
      inside.hidden = store.device >= 0 || !(instance || rank >= 0);
      open.hidden = store.device >= 0 || scene.level !== "collapsed" || !instance;
      shut.hidden = !scene.opened.length || Boolean(scene.focus);
      allLinks.hidden = store.device >= 0 || !scene.hot || scene.level === "aggregates" || scene.bundles.length <= scene.hot;
    },
    /** @param {number} rank */
    device(rank) {
      store.device = rank;
      store.emit("change");
    },
  };
  function top() {
    store.device = -1;
    if (store.scene.focus) store.look({ focus: "" }).catch(fail);
    else store.emit("change");
  }
  return levels;
}
