// @ts-check
// What shapes, colours, widths and numbers of the topology mean: as many entries as the scene needs, whatever is selected.

import { familyKeys } from "./families.js";
import { insideKeys } from "./inside.js";
import { ACTIVITY_COLOURS, fit, looksOf, make, makeBarKey, makeKey } from "./theme.js";

/** @import { Store, Theme } from "./types" */

/** @param {Store} store @param {Theme} theme @param {HTMLElement} words what is drawn, and what is left out */
export function createLegend(store, theme, words) {
  const ramp = make("i", { class: "anb-ramp" });
  const unknown = make("canvas", { class: "anb-family" });
  const keys = make("div", { class: "anb-legend" });
  const element = make("div", { class: "anb-folding", role: "group", "aria-label": "Legend", tabindex: "0" }, keys);
  let drawn = -1; // version of the theme
  /** @param {string} title @param {...Node} entries */
  const group = (title, ...entries) => make("span", { class: "anb-keys", role: "group", "aria-label": title }, make("b", { text: title }), ...entries);

  store.on("scene", () => {
    const { kinds, managed, bundles, queues, activities } = store.scene;
    const { colours, shapes } = looksOf(store.scene);
    const lines = kinds.map((kind, k) =>
      makeKey(make("i", { class: `anb-shape anb-${shapes[k]}`, style: `--anb-colour: ${colours[k]}` }), kind),
    );
    const entrance = managed ? [makeKey("▯", "buffers behind it"), makeKey("△", "no buffer free"), makeKey("‖", "paused")] : [];
    const busy = make("span", { class: "anb-key", title: "width, colour and number of a link: the part of the time that its wires are busy" }, "0%", ramp, "100% busy");
    if (store.scene.level === "aggregates") {
      const about = "how busy the links that leave a tile, or join two bands, are on average";
      keys.replaceChildren(group("Tiles", busy, make("span", { text: about }), makeKey(unknown, "not known")), words);
      return;
    }
    if (activities) {
      const queue = makeKey(make("i", { class: "anb-queue" }), "queue for a link, and its messages");
      keys.replaceChildren(
        group("Messages", ...lines, ...(queues ? [queue, makeKey("✕", "link down")] : [])),
        group("Ranks", ...activities.map((name, k) => makeBarKey(ACTIVITY_COLOURS[k], name))),
        words,
      );
      return;
    }
    keys.replaceChildren(
      group("Lines", ...lines, makeKey(make("i", { class: "anb-queue" }), "queue for a link, and its lines"), ...entrance),
      group("GPU", ...insideKeys()),
      group("Links", ...familyKeys(bundles.map((bundle) => bundle.family)), busy, makeKey(unknown, "not known")),
      words,
    );
  });

  /** Follow the theme. */
  function draw() {
    if (drawn === theme.version) return;
    drawn = theme.version;
    ramp.style.setProperty("--anb-ramp", [0, 0.25, 0.5, 0.75, 1].map(theme.rampText).join(","));
    const context = fit(unknown, 26, 8);
    context.clearRect(0, 0, 26, 8);
    context.fillStyle = theme.unknown(context);
    context.fillRect(0, 1, 26, 6);
  }
  return { element, draw };
}
