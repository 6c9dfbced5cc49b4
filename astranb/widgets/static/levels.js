// Which part of the system is shown, in words and with buttons: the way down from all to one SM.

export function createLevels(store, { make }) {
  const crumbs = make("nav", { class: "anb-crumbs", "aria-label": "Where you are" });
  const inside = button("look inside", "look into what is selected (Enter, double click)", () => levels.enter(store.selection));
  const open = button("open here", "show all of what is selected, in its place", () => levels.open(store.selection));
  const shut = button("close all", "show every instance as one box again", () => store.look({ opened: [], focus: "" }));
  const all = make("input", { type: "checkbox", onchange: () => store.emit("change") });
  const allLinks = make("label", { class: "anb-label", title: "draw every link, not only the hottest" }, all, "all links");
  const element = make("div", { class: "anb-levels" }, crumbs, inside, open, shut, allLinks);

  function button(text, title, onclick) {
    return make("button", { type: "button", class: "anb-tab", text, title, onclick });
  }
  const box = (path) => store.scene?.boxes.find((one) => one.name === path);
  /** Rank of a GPU by its path, also of a part of it; -1 for anything else. */
  function rankOf(path) {
    const short = path.match(/^gpu\[(\d+)\]/);
    if (short) return Number(short[1]);
    return store.scene?.gpus.findIndex((name) => path === name || path.startsWith(`${name}.`)) ?? -1;
  }
  /** An instance that is one box or tile now, by its name or by that of something in it. */
  function closed(path) {
    if (!path || !store.scene) return "";
    const holds = (name) => path === name || path.startsWith(`${name}.`);
    const found = store.scene.boxes.find((one) => one.kind === "instance" && holds(one.name));
    if (found) return found.name;
    return store.scene.tiles.flat().find(holds) ?? "";
  }
  const fail = (error) => {
    store.error = error.message;
    store.emit("change");
  };

  const levels = {
    element,
    rankOf,
    closed,
    get all() {
      return all.checked;
    },
    /** Go down into an instance or a GPU. */
    enter(path) {
      const rank = rankOf(path);
      const instance = closed(path);
      if (rank >= 0 && !instance) {
        store.device = rank;
        store.emit("change");
      } else if (instance) store.look({ focus: instance }).catch(fail);
      else return false;
      return true;
    },
    /** Show all of an instance in its place. */
    open(path) {
      const instance = closed(path);
      if (instance) store.look({ opened: [...store.scene.opened, instance], focus: "" }).catch(fail);
    },
    /** Go up by one level; false at the top. */
    up() {
      if (store.device >= 0) {
        store.device = -1;
        store.emit("change");
      } else if (store.scene?.focus) store.look({ focus: "" }).catch(fail);
      else return false;
      return true;
    },
    draw() {
      const { scene } = store;
      const many = scene.level === "collapsed" || scene.level === "aggregates" || Boolean(scene.focus);
      const instance = closed(store.selection);
      const rank = rankOf(store.selection);
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
            ? make("button", { type: "button", class: "anb-crumb", text, onclick })
            : make("span", { class: "anb-crumb-here", text, "aria-current": "true" }),
        ]);
        crumbs.replaceChildren(...parts);
      }
      crumbs.hidden = !many && path.length === 1;
      inside.hidden = store.device >= 0 || !(instance || rank >= 0);
      open.hidden = store.device >= 0 || scene.level !== "collapsed" || !instance;
      shut.hidden = !scene.opened.length || Boolean(scene.focus);
      allLinks.hidden = store.device >= 0 || !scene.hot || scene.level === "aggregates" || scene.bundles.length <= scene.hot;
      element.hidden = [crumbs, inside, open, shut, allLinks].every((part) => part.hidden);
    },
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
