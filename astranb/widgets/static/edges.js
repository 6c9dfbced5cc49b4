// @ts-check
// Geometry of the picture: each bundle of links is an edge, clipped at the boxes at its ends.

/** @import { Box, Edge, Geometry, Pair, Place, Scene, SceneMessage, Store } from "./types" */

// A lane for each direction and class: requests, responses, control.
const CLASS_OF_KIND = [0, 1, 0, 1, 2, 2];
export const CLASS_NAMES = ["requests and data stored", "data loaded and acknowledgements", "signals"];
const CLASSES = 3;
const FIRST_LANE = 3; // pixels from the middle of a link to its first lane
const STUB = 26; // of a link that wraps round a torus, in units of the picture

export const GEOMETRY = 11; // numbers a bundle: x y dx dy nx ny, x y dx dy of its second part, parts

/** Which class a kind of flight is in. @param {number} kind */
export function classOf(kind) {
  return CLASS_OF_KIND[kind] ?? 2;
}

/**
 * A scene with the links of each bundle, from what each link is drawn in.
 * @param {SceneMessage} scene
 * @param {Int32Array} bundleOf
 * @returns {Scene}
 */
export function withLinks(scene, bundleOf) {
  const bundles = scene.bundles.map((bundle) => ({ ...bundle, lanes: /** @type {number[]} */ ([]) }));
  bundleOf.forEach((bundle, link) => {
    if (bundle >= 0) bundles[bundle].lanes.push(link);
  });
  return { ...scene, bundles, bundleOf };
}

/** Where everything is on a canvas of some size. @param {Scene} scene @param {Pair} size @returns {Geometry} */
export function layOutLinks(scene, size) {
  const [across, down] = [size[0] / scene.width, size[1] / scene.height];
  const place = { x: across, y: down, box: Math.min(across, down, 1.3) };
  const lane = Math.max(1.6, 4 * Math.min(1, 1.6 * place.box)); // pixels a class
  const geometry = new Float64Array(scene.bundles.length * GEOMETRY);
  const edges = scene.bundles.map((bundle, number) => {
    const middle = FIRST_LANE + (CLASSES * lane) / 2 - 0.5;
    const edge = { ...between(scene.boxes[bundle.from], scene.boxes[bundle.to], bundle.bent, place), middle };
    const second = edge.second ?? edge;
    geometry.set(
      [
        edge.x, edge.y, edge.ux * edge.length, edge.uy * edge.length, edge.nx, edge.ny,
        second.x, second.y, second.ux * second.length, second.uy * second.length, edge.second ? 2 : 1,
      ],
      number * GEOMETRY,
    );
    return edge;
  });
  const offsets = offsetsOf(scene, lane);
  return { place, edges, geometry, offsets, tracks: tracksOf(scene, geometry, offsets), lane };
}

/**
 * Where the dots of each link and class run, Float32Array(links x classes x [x, y, dx, dy]): no sums a dot.
 * @param {Scene} scene
 * @param {Float64Array} geometry
 * @param {Float32Array} offsets
 */
function tracksOf({ bundleOf }, geometry, offsets) {
  const tracks = new Float32Array(offsets.length * 4);
  for (let at = 0; at < offsets.length; at++) {
    const g = bundleOf[Math.floor(at / CLASSES)] * GEOMETRY;
    if (g < 0) continue;
    const [x, y, dx, dy, nx, ny] = geometry.subarray(g, g + 6);
    tracks.set([x + nx * offsets[at], y + ny * offsets[at], dx, dy], 4 * at);
  }
  return tracks;
}

/**
 * How far beside the middle of its bundle a link's dots run, for each class: Float32Array(links x classes).
 * @param {Scene} scene
 * @param {number} lane
 */
function offsetsOf(scene, lane) {
  const { bundleOf, bundles } = scene;
  const offsets = new Float32Array(bundleOf.length * CLASSES);
  const seen = new Uint32Array(bundles.length);
  for (let link = 0; link < bundleOf.length; link++) {
    const bundle = bundleOf[link];
    if (bundle < 0) continue;
    // Parallel links share the width of a class.
    const within = (seen[bundle]++ / bundles[bundle].lanes.length) * (lane - 1);
    for (let c = 0; c < CLASSES; c++) offsets[link * CLASSES + c] = FIRST_LANE + c * lane + within;
  }
  return offsets;
}

/**
 * Busy fraction of a bundle at the cursor, or null where nothing is known.
 * @param {Store} store
 * @param {number} number
 */
export function busyAt(store, number) {
  const line = store.timeline;
  if (!line?.bins) return null;
  const bin = Math.min(line.bins - 1, Math.floor(store.cursor / line.bin_ps));
  return line.link[number * line.bins + bin] / 255;
}

/**
 * How far beside the middle of its bundle the dots of a kind run on a link.
 * @param {Geometry} laid
 * @param {number} link
 * @param {number} kind
 */
export function offsetAt({ offsets }, link, kind) {
  return offsets[link * CLASSES + classOf(kind)];
}

/** @param {Box} a @param {Box} b @param {unknown} bent @param {Place} place @returns {Omit<Edge, "middle">} */
function between(a, b, bent, place) {
  const [ax, ay, bx, by] = [a.x * place.x, a.y * place.y, b.x * place.x, b.y * place.y];
  if (bent) {
    // Out at one edge and in at the other: two stubs.
    const apart = Math.hypot(ax - bx, ay - by) || 1;
    const [ux, uy] = [(ax - bx) / apart, (ay - by) / apart];
    const length = STUB * Math.hypot(ux * place.x, uy * place.y);
    const out = { x: ax + ux * reach(a, ux, uy, place), y: ay + uy * reach(a, ux, uy, place), length, ux, uy, nx: -uy, ny: ux };
    const into = reach(b, ux, uy, place) + length;
    return { ...out, second: { x: bx - ux * into, y: by - uy * into, length, ux, uy } };
  }
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [ux, uy] = [(bx - ax) / length, (by - ay) / length];
  const [from, to] = [reach(a, ux, uy, place), reach(b, ux, uy, place)];
  return { x: ax + ux * from, y: ay + uy * from, length: Math.max(1, length - from - to), ux, uy, nx: -uy, ny: ux };
}

/**
 * How far a box reaches from its centre in a direction, in pixels.
 * @param {Box} box
 * @param {number} ux
 * @param {number} uy
 * @param {Place} place
 */
function reach(box, ux, uy, place) {
  const [w, h] = [(box.w * place.box) / 2, (box.h * place.box) / 2];
  return Math.min(ux ? w / Math.abs(ux) : Infinity, uy ? h / Math.abs(uy) : Infinity) + 1;
}
