// @ts-check
// Blocks and rows arranged by tier: hosts, and above or between them what joins them. Counterpart of export/layout/tiers.py.

import { COLUMN, LOW_ROW, RAIL_ROW, WIDTH, chunks, flipped, rowsOf } from "./layout_blocks.js";

/** @import { BoxPlace, ItemRows, PlacedBlock } from "./layout_blocks.js" */
/** @typedef {[title: string, x: number, y: number, width: number, height: number]} PlacedFrame */
/** Places of everything: centre and width of each item; title, corner and size of each frame.
 * @typedef {{ places: Map<number, BoxPlace>, frames: PlacedFrame[], width: number, height: number }} Arranged */

const STAGE = [1000, 480]; // about what a screen has room for, in pixels
const GAP = 26; // between blocks
const [MOST_RAILS, MOST_FRAMES] = [8, 8];

/** @param {number} [width] @param {number} [height] @returns {Arranged} */
export const arranged = (width = 0, height = 0) => ({ places: new Map(), frames: [], width, height });

/** Hops from the nearest of some items to every one that can be reached. @param {Map<number, Set<number>>} near @param {Iterable<number>} starts */
export function distances(near, starts) {
  const found = new Map([...starts].map((item) => [item, 0]));
  for (const [item, away] of found) { // grows while it is walked
    for (const other of near.get(item) ?? []) if (!found.has(other)) found.set(other, away + 1);
  }
  return found;
}

/** Blocks in rows, each centred; every other row is shifted, so that links pass between its blocks. @param {PlacedBlock[][]} rows @param {number} [shift] */
export function shelves(rows, shift = 0) {
  const aside = rows.length > 1 ? shift : 0;
  const made = arranged(Math.max(0, ...rows.map(widthOf)) + aside);
  rows.forEach((row, number) => {
    let x = (made.width - aside - widthOf(row)) / 2 + aside * (number % 2);
    const tall = Math.max(...row.map(({ height }) => height));
    for (const block of row) {
      put(made, block, x, made.height + (tall - block.height) / 2);
      x += block.width + GAP;
    }
    made.height += tall + GAP;
  });
  made.height = Math.max(0, made.height - GAP);
  return made;
}

/** Put a block with its corner at a place. @param {Arranged} made @param {PlacedBlock} block @param {number} x @param {number} y */
function put(made, { places, title, width, height }, x, y) {
  for (const [item, [bx, by, wide]] of places) made.places.set(item, [x + bx, y + by, wide]);
  if (title) made.frames.push([title, x, y, width, height]);
}

/** @param {PlacedBlock[]} row */
const widthOf = (row) => row.reduce((sum, { width }) => sum + width, 0) + GAP * (row.length - 1);

/**
 * Hosts and the tiers of what joins them, as large as a screen has room for. The hosts are below all tiers, or half of
 * them above and half below, with as many in a row as makes boxes largest; single boxes beside frames are above them.
 * @param {PlacedBlock[]} blocks
 * @param {ItemRows} upper the items of each tier, the one next to the hosts first
 * @param {Map<number, Set<number>>} near the neighbours of each item
 */
export function arrange(blocks, upper, near) {
  let [scale, best] = [0, arranged()];
  // Links to rails are vertical: they would cross the frames of a row in between.
  const framed = upper[0].length <= MOST_RAILS ? blocks.filter(({ title }) => title) : [];
  const single = blocks.filter(({ title }) => !title);
  const both = framed.length > 0 && single.length > 0;
  const hosts = both ? [...single, ...framed] : blocks;
  const oneRow = !both && framed.length > 0 && hosts.length <= MOST_FRAMES;
  const halves = both ? [single.length] : [0, Math.ceil(hosts.length / 2)].filter((half) => half !== hosts.length || hosts.length > 1); // above the tiers
  const perRow = new Set(hosts.map((_, k) => Math.ceil(hosts.length / (k + 1))));
  for (const half of new Set(halves)) {
    for (const most of perRow) {
      if (oneRow && most < hosts.length / (1 + Number(half > 0))) continue;
      const made = withTiers(hosts, upper, near, half, most);
      const own = Math.min(STAGE[0] / made.width, STAGE[1] / made.height);
      if (own > scale * 1.02) [scale, best] = [own, made];
    }
  }
  return best;
}

/**
 * @param {PlacedBlock[]} hosts
 * @param {ItemRows} upper
 * @param {Map<number, Set<number>>} near
 * @param {number} half how many hosts are above the tiers
 * @param {number} perRow
 */
function withTiers(hosts, upper, near, half, perRow) {
  const [above, below] = [hosts.slice(0, half).map(flipped), hosts.slice(half)];
  /** @type {Map<number, number>} */
  const side = new Map();
  for (const { places } of above) for (const item of places.keys()) side.set(item, -1);
  for (const { places } of below) for (const item of places.keys()) side.set(item, 1);
  let [top, bottom] = /** @type {ItemRows[]} */ ([[], []]);
  // What hosts are joined with: switches as rails, with vertical links, while they are few.
  const rails = new Set(upper[0].length <= MOST_RAILS ? upper[0] : []);
  upper.forEach((tier, level) => {
    const [up, down] = /** @type {ItemRows} */ ([[], []]);
    for (const item of tier) {
      // A switch is placed with its neighbours; the last tier in the middle.
      let lean = 0;
      for (const other of near.get(item) ?? []) lean += side.get(other) ?? 0;
      side.set(item, half && lean < 0 ? -1 : 1);
      (half && lean < 0 && level < upper.length - 1 ? up : down).push(item);
    }
    top = [...top, ...rowsOfTier(up, rails)];
    bottom = [...rowsOfTier(down, rails), ...bottom];
  });
  const [high, low] = [above, below].map((part) =>
    shelves(chunks(part, perRow), rails.size && part.every(({ places }) => places.size === 1) ? (COLUMN + GAP) / 2 : 0),
  );
  const rows = [...top, ...bottom];
  const longest = Math.max(0, ...rows.map((row) => row.length));
  const made = arranged(Math.max(high.width, low.width, (longest * COLUMN) / 2));
  add(made, high);
  rows.forEach((row, number) => {
    if (row.every((item) => rails.has(item))) {
      made.places.set(row[0], [made.width / 2, made.height + RAIL_ROW / 2, made.width]);
      made.height += RAIL_ROW;
    } else spread(made, row, rails.size > 0 && rows.length > rails.size + 1, number % 2);
  });
  add(made, low);
  return made;
}

/** Put what is arranged below what there is, in the middle. @param {Arranged} made @param {Arranged} part */
function add(made, part) {
  const aside = (made.width - part.width) / 2;
  for (const [item, [x, y, wide]] of part.places) made.places.set(item, [x + aside, y + made.height, wide]);
  for (const [title, x, y, w, h] of part.frames) made.frames.push([title, x + aside, y + made.height, w, h]);
  made.height += part.height;
}

/** The rows of a part of a tier; each rail is one. @param {number[]} tier @param {Set<number>} rails */
const rowsOfTier = (tier, rails) => (tier.every((item) => rails.has(item)) ? tier.map((item) => [item]) : rowsOf(tier));

/** A row over the whole width, below what there is; links of several rows pass between their boxes. @param {Arranged} made @param {number[]} row @param {boolean} several @param {number} shifted */
function spread(made, row, several, shifted) {
  const step = made.width / (row.length + Number(several) / 2);
  const wide = Math.min(WIDTH, several ? 0.6 * step : step - 14);
  row.forEach((item, place) => {
    const x = step * (place + 0.5 + (several ? 0.5 * shifted : 0));
    made.places.set(item, [x, made.height + LOW_ROW / 2, wide]);
  });
  made.height += LOW_ROW;
}
