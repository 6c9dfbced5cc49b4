// @ts-check
// A system too large to draw: a band for each tier with a tile for each instance, the busiest
// links as a list, and how utilisation is distributed.

import { createAsker, momentOf } from "./asker.js";
import { formatShare, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { inkOn, make, makeHint, makeLink } from "./theme.js";

/** @import { Answer, Context, Place, Store, Theme } from "./types" */

/** @typedef {import("./types").Tile & { name: string, busy: number | null }} Unit */

const LEFT = 8; // within a band

/** @param {Store} store @param {Theme} theme */
export function createAggregates(store, theme) {
  const groups = make("div", { class: "anb-groups" });
  const top = make("div", { class: "anb-top" });
  const element = make(
    "aside", { class: "anb-aggregates", "aria-label": "Utilisation", hidden: "" },
    make("h5", {}, "Utilisation of links ", createMoment(store, () => asker.reply?.at_ps)), groups, make("h5", { text: "Busiest links" }), top,
  );
  /** @type {Answer<"aggregates"> | null} */
  let now = null;
  /** @type {Unit[]} */
  let tiles = [];

  const asker = createAsker(store, "aggregates", {
    every: 300,
    answered(found, error) {
      now = found;
      if (found) list(found);
      else top.replaceChildren(makeHint(error.message));
    },
  });

  /** @param {Answer<"aggregates">} found */
  function list(found) {
    groups.replaceChildren(
      ...found.groups.map(({ title, links, quantiles, histogram }) => {
        const most = Math.max(...histogram);
        const bars = histogram.map((count, k) =>
          make("i", {
            title: `${plural(count, "link")} of ${formatShare(k / histogram.length)} to ${formatShare((k + 1) / histogram.length)}`,
            style: `height: ${count ? Math.max(8, (100 * count) / most) : 0}%`,
          }),
        );
        /** @param {number} q */
        const at = (q) => formatShare(quantiles[found.quantiles.indexOf(q)]);
        return make(
          "div", { class: "anb-group" },
          make("b", { text: title }),
          make("span", { class: "anb-hint", text: plural(links, "link") }),
          make("div", { class: "anb-histogram", role: "img", "aria-label": `histogram of ${title}` }, ...bars),
          make("span", { text: `median ${at(50)} · 90% below ${at(90)} · most ${at(100)}` }),
        );
      }),
    );
    const rows = found.top.map(({ name, busy }) => makeLink(`${formatShare(busy)} ${name}`, () => store.select(name), { title: name }));
    top.replaceChildren(...(rows.length ? rows : [makeHint("nothing has been sent yet")]));
  }

  /** Draw the tiles of every band. @param {Context} context @param {Place} place */
  function draw(context, place) {
    const { at_ps, key } = momentOf(store);
    asker.want(store.window ? { at_ps, window: store.window } : { at_ps }, [store.scene.picture, key, store.window?.join()].join("/"));
    tiles = [];
    const values = now?.picture === store.scene.picture ? now.arrays.tiles : null;
    let number = 0;
    store.scene.tiles.forEach((names, band) => {
      const box = store.scene.boxes[band];
      const [w, h] = [box.w * place.x, box.h * place.y];
      const [x, y] = [box.x * place.x - w / 2, box.y * place.y - h / 2];
      context.fillStyle = theme.panel;
      context.fillRect(x, y, w, h);
      context.fillStyle = theme.ink;
      context.font = `13px ${theme.font}`;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(box.label, x + LEFT, y + 11);
      const room = { w: w - 2 * LEFT, h: h - 26 };
      let columns = 1;
      while ((room.w / columns) * Math.ceil(names.length / columns) > room.h && columns < names.length) columns += 1;
      const rows = Math.ceil(names.length / columns);
      const [tw, th] = [Math.min(64, room.w / columns), Math.min(40, room.h / rows)];
      // Names that are wider than a tile stand over several, and those between have none.
      const longest = Math.max(...names.map((name) => lastPart(name).length));
      const every = [1, 2, 5, 10, 20, 50].find((n) => n * tw > 0.62 * letters(tw) * longest + 2) ?? names.length;
      names.forEach((name, k) => {
        const tile = {
          x: x + LEFT + (k % columns) * tw, y: y + 21 + Math.floor(k / columns) * th,
          w: tw - Math.min(2, tw / 5), h: th - Math.min(2, th / 5), name, busy: values ? values[number] : null,
        };
        number += 1;
        tiles.push(tile);
        context.fillStyle = tile.busy === null ? theme.unknown(context) : theme.rampText(tile.busy);
        context.fillRect(tile.x, tile.y, tile.w, tile.h);
        const picked = store.selection === name || store.selection.startsWith(`${name}.`);
        if (!picked && store.hover !== name) return;
        context.strokeStyle = theme.brand;
        context.lineWidth = picked ? 3 : 2;
        context.strokeRect(tile.x, tile.y, tile.w, tile.h);
      });
      for (let k = 0; k < names.length; k += every) write(context, tiles[tiles.length - names.length + k], every * tw);
    });
  }
  /** @param {string} name */
  const lastPart = (name) => name.slice(name.lastIndexOf(".") + 1);
  /** @param {number} w */
  const letters = (w) => (w < 24 ? 9 : 11);
  /** @param {Context} context @param {Unit} tile @param {number} room */
  function write(context, { x, y, w, h, name, busy }, room) {
    const text = lastPart(name);
    const tall = letters(w);
    if (h < tall + 1) return;
    context.fillStyle = inkOn(busy === null ? [128, 128, 128] : theme.ramp(busy));
    context.font = `${tall}px ${theme.font}`;
    const wide = context.measureText(text).width > w;
    context.textAlign = wide ? "left" : "center";
    const both = busy !== null && h > 26 && !wide;
    context.fillText(text, wide ? x + 1 : x + w / 2, y + h / 2 - (both ? 5 : 0), room);
    if (both) context.fillText(formatShare(busy), x + w / 2, y + h / 2 + 8, w);
  }
  /** @param {number} x @param {number} y */
  const at = (x, y) => tiles.find((tile) => x >= tile.x && x <= tile.x + tile.w && y >= tile.y && y <= tile.y + tile.h);

  return {
    element,
    draw,
    /** @param {number} x @param {number} y */
    hit: (x, y) => at(x, y)?.name ?? "",
    /** @param {string} name */
    words(name) {
      const tile = tiles.find((one) => one.name === name);
      if (!tile) return "";
      return tile.busy === null ? name : `${name} · its outgoing links ${formatShare(tile.busy)} busy`;
    },
    destroy: asker.destroy,
  };
}
