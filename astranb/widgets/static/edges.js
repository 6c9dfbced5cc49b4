// @ts-check
// Geometry of the picture: each bundle of links is an edge that ends at the borders of its boxes.

/** @import { Box, Bundle, Context, Edge, Geometry, Pair, Place, Scene, SceneMessage, Store } from "./types" */

// A lane for each direction and class: requests, responses, control.
const CLASS_OF_KIND = [0, 1, 0, 1, 2, 2];
export const CLASSES = 3;
const LANE = 4; // pixels of a class, where there is room
const LEAST_LANE = 1.2;
const LARGEST = 1.3; // pixels a unit of a box
const STUB = 26; // of a link that wraps round a torus, in units of the picture

const TRACK = 8; // numbers a link and class: x y dx dy, x y dx dy of its second part; dx and dy 0: none

/** Which class a kind of flight is in. @param {number} kind */
function classOf(kind) {
  return CLASS_OF_KIND[kind] ?? 2;
}

/**
 * A scene with the links of each bundle, from what each link is drawn in, and its title: `GPU0 → nvsw.1`.
 * @param {SceneMessage} scene
 * @param {Int32Array} bundleOf
 * @returns {Scene}
 */
export function withLinks(scene, bundleOf) {
  const seen = new Set();
  const several = new Set(scene.boxes.map((box) => box.label).filter((label) => seen.size === seen.add(label).size));
  /** @param {Box} box */
  const name = (box) => (several.has(box.label) ? box.name : box.label);
  const bundles = scene.bundles.map((bundle) => ({
    ...bundle, lanes: /** @type {number[]} */ ([]), title: `${name(scene.boxes[bundle.from])} → ${name(scene.boxes[bundle.to])}`,
  }));
  bundleOf.forEach((bundle, link) => {
    if (bundle >= 0) bundles[bundle].lanes.push(link);
  });
  return { ...scene, bundles, bundleOf };
}

/** Width and height of a box on the canvas. @param {Box} box @param {Place} place @returns {Pair} */
export function sizeOf(box, place) {
  return [box.w * (box.rail ? place.x : Math.min(place.x, LARGEST)), box.h * Math.min(place.y, LARGEST)];
}

/** Where everything is on a canvas of some size. @param {Scene} scene @param {Pair} size @returns {Geometry} */
export function layOutLinks(scene, size) {
  const [across, down] = [size[0] / scene.width, size[1] / scene.height];
  const place = { x: across, y: down, box: Math.min(across, down, LARGEST) };
  const lane = laneOf(scene, place);
  const edges = scene.bundles.map((bundle) => between(scene, bundle, place, middleOf(lane)));
  return { place, edges, tracks: tracksOf(scene, place, lane), lane };
}

/** From the middle between two directions to the middle of one. @param {number} lane */
const middleOf = (lane) => (0.75 + CLASSES / 2) * lane;

/** Pixels of a class: links to rails stand side by side. @param {Scene} scene @param {Place} place */
function laneOf({ boxes, bundles }, place) {
  /** @type {Map<number, number[]>} */
  const ports = new Map();
  for (const { from, to, port } of bundles) {
    if (port === null || boxes[from].rail) continue;
    const above = boxes[to].y < boxes[from].y ? 1 : 0;
    const key = 2 * from + above;
    ports.set(key, [...(ports.get(key) ?? []), port * sizeOf(boxes[from], place)[0]]);
  }
  let room = Infinity;
  for (const all of ports.values()) {
    all.sort((a, b) => a - b);
    for (let k = 1; k < all.length; k++) room = Math.min(room, all[k] - all[k - 1]);
  }
  const wide = Math.min(LANE, 1.6 * LANE * place.box, room / (2 * (CLASSES + 1.25)));
  return Math.max(LEAST_LANE, wide);
}

/**
 * Where the dots of each link and class run: Float32Array(links x classes x TRACK), so that a dot needs no sums.
 * @param {Scene} scene
 * @param {Place} place
 * @param {number} lane
 */
function tracksOf(scene, place, lane) {
  const { bundleOf, bundles } = scene;
  const tracks = new Float32Array(scene.level === "aggregates" ? 0 : bundleOf.length * CLASSES * TRACK);
  if (!tracks.length) return tracks;
  for (const bundle of bundles) {
    for (let c = 0; c < CLASSES; c++) {
      // Parallel links share the width of a class.
      const first = numbersOf(between(scene, bundle, place, (0.75 + c) * lane));
      const last = numbersOf(between(scene, bundle, place, (1.75 + c) * lane - 1));
      bundle.lanes.forEach((link, k) => {
        const share = k / bundle.lanes.length;
        tracks.set(first.map((from, n) => from + share * (last[n] - from)), (link * CLASSES + c) * TRACK);
      });
    }
  }
  return tracks;
}

/** The numbers of a track. @param {Edge} edge */
function numbersOf({ second, ...first }) {
  return [first, second].flatMap((part) => (part ? [part.x, part.y, part.ux * part.length, part.uy * part.length] : [0, 0, 0, 0]));
}

/**
 * Where a dot is on its track.
 * @param {Float32Array} tracks
 * @param {number} track number of its link and class
 * @param {number} gone fraction of its time on the link
 * @returns {Pair}
 */
export function alongTrack(tracks, track, gone) {
  const parts = tracks[track * TRACK + 6] || tracks[track * TRACK + 7] ? 2 : 1;
  const second = gone > 0.5 ? parts - 1 : 0;
  const [at, share] = [track * TRACK + 4 * second, parts * gone - second];
  return [tracks[at] + tracks[at + 2] * share, tracks[at + 1] + tracks[at + 3] * share];
}

/** Stroke an edge, both parts of one that wraps round. @param {Context} context @param {Edge} edge */
export function trace(context, edge) {
  context.beginPath();
  for (const { x, y, ux, uy, length } of edge.second ? [edge, edge.second] : [edge]) {
    context.moveTo(x, y);
    context.lineTo(x + ux * length, y + uy * length);
  }
  context.stroke();
}

/** The track of a flight. @param {number} link @param {number} kind */
export const trackOf = (link, kind) => link * CLASSES + classOf(kind);

/**
 * Busy fraction of a bundle at the cursor, or null where nothing is known.
 * @param {Store} store
 * @param {number} number
 */
export function busyAt(store, number) {
  const line = store.timeline;
  if (!line?.bins || store.state?.gaps?.some(([from, to]) => from < store.cursor && store.cursor <= to)) return null;
  const bin = Math.min(line.bins - 1, Math.floor(store.cursor / line.bin_ps));
  return line.link[number * line.bins + bin] / 255;
}

/**
 * A line beside the middle of a bundle, on its right, from the border of one box to that of the other.
 * @param {Pick<Scene, "boxes">} scene
 * @param {Bundle} bundle
 * @param {Place} place
 * @param {number} beside pixels from the middle
 * @returns {Edge}
 */
export function between({ boxes }, { from, to, bent, port }, place, beside) {
  const [a, b] = [boxes[from], boxes[to]];
  let [ax, ay, bx, by] = [a.x * place.x, a.y * place.y, b.x * place.x, b.y * place.y];
  if (port !== null) {
    const box = a.rail ? b : a;
    ax = bx = box.x * place.x + port * sizeOf(box, place)[0];
  }
  const apart = Math.hypot(bx - ax, by - ay) || 1;
  let [ux, uy] = [(bx - ax) / apart, (by - ay) / apart];
  if (bent) [ux, uy] = [-ux, -uy]; // out at one edge and in at the other: two stubs
  [ax, ay, bx, by] = [ax - uy * beside, ay + ux * beside, bx - uy * beside, by + ux * beside];
  const out = border(a, place, ax, ay, ux, uy);
  const start = { x: ax + ux * out, y: ay + uy * out, ux, uy };
  if (!bent) return { ...start, length: Math.max(1, apart - out - border(b, place, bx, by, -ux, -uy)) };
  const length = STUB * Math.hypot(ux * place.x, uy * place.y);
  const into = border(b, place, bx, by, ux, uy) + length;
  return { ...start, length, second: { x: bx - ux * into, y: by - uy * into, length, ux, uy } };
}

/**
 * How far a point in a box is from the box's border in a direction, in pixels.
 * @param {Box} box
 * @param {Place} place
 * @param {number} x
 * @param {number} y
 * @param {number} ux
 * @param {number} uy
 */
function border(box, place, x, y, ux, uy) {
  const [w, h] = sizeOf(box, place);
  const across = ux ? (box.x * place.x - x + (Math.sign(ux) * w) / 2) / ux : Infinity;
  const down = uy ? (box.y * place.y - y + (Math.sign(uy) * h) / 2) / uy : Infinity;
  return Math.max(0, Math.min(across, down));
}
