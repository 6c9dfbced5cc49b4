// @ts-check
// The time that the tracks of a timeline spend in each state, for any window and number of columns:
// counterpart of core/density.py. All times are whole picoseconds, so that sums are exact.

export const NOTHING = 15; // the state of a track that is in no state

/**
 * The changes of state of some tracks in a stretch of time: those of a track follow each other from `first[track]` on.
 * Before and after it all tracks are in no state.
 * @typedef {{ start_ps: number, end_ps: number, first: Uint32Array, time: Float64Array, state: Uint8Array }} Stretch
 */

/**
 * Spans, in any order, which may overlap.
 * @typedef {{ track: number[], state: number[], from: number[], to: number[] }} Spans
 */
/** @returns {Spans} */
export const noSpans = () => ({ track: [], state: [], from: [], to: [] });

/** @param {Spans} spans @param {number} track @param {number} state @param {number} from @param {number} to */
export function addSpan(spans, track, state, from, to) {
  spans.track.push(track);
  spans.state.push(state);
  spans.from.push(from);
  spans.to.push(to);
}

/** Collects changes, track after track, without those that change nothing. @param {number} tracks @param {number} most */
function collector(tracks, most) {
  const first = new Uint32Array(tracks + 1);
  const time = new Float64Array(most);
  const state = new Uint8Array(most);
  let count = 0;
  let current = 0; // the track
  return {
    /** @param {number} track */
    begin(track) {
      while (current < track) first[++current] = count;
    },
    /** @param {number} at_ps @param {number} next */
    change(at_ps, next) {
      if (count > first[current] && time[count - 1] === at_ps) count -= 1; // of several at one time the last counts
      const before = count > first[current] ? state[count - 1] : NOTHING;
      if (before === next) return;
      time[count] = at_ps;
      state[count++] = next;
    },
    /** @param {number} start_ps @param {number} end_ps @returns {Stretch} */
    stretch(start_ps, end_ps) {
      while (current < tracks) first[++current] = count;
      return { start_ps, end_ps, first, time: time.slice(0, count), state: state.slice(0, count) };
    },
  };
}

/**
 * Make a stretch of spans that may overlap: of several states of a track the lowest counts.
 * @param {number} start_ps
 * @param {number} end_ps spans are cut off there
 * @param {number} tracks
 * @param {Spans} spans
 */
export function flatten(start_ps, end_ps, tracks, { track, state, from, to }) {
  const size = new Uint32Array(tracks + 1); // first the number of spans of each track, then where they begin
  for (let k = 0; k < track.length; k++) if (Math.min(to[k], end_ps) > Math.max(from[k], start_ps)) size[track[k] + 1] += 1;
  for (let k = 0; k < tracks; k++) size[k + 1] += size[k];
  const kept = new Uint32Array(size[tracks]);
  const next = size.slice();
  for (let k = 0; k < track.length; k++) if (Math.min(to[k], end_ps) > Math.max(from[k], start_ps)) kept[next[track[k]]++] = k;
  const found = collector(tracks, 2 * kept.length);
  const open = new Int32Array(NOTHING + 1); // spans of each state at a time
  for (let row = 0; row < tracks; row++) {
    if (size[row] === size[row + 1]) continue;
    found.begin(row);
    // Parts of them are in order, which the sort of an array finds and makes use of.
    const begins = Array.from(kept.subarray(size[row], size[row + 1])).sort((a, b) => from[a] - from[b]);
    const ends = begins.slice().sort((a, b) => to[a] - to[b]);
    for (let b = 0, e = 0; e < ends.length;) {
      const at = Math.min(b < begins.length ? Math.max(from[begins[b]], start_ps) : Infinity, Math.min(to[ends[e]], end_ps));
      while (b < begins.length && Math.max(from[begins[b]], start_ps) <= at) open[state[begins[b++]]] += 1;
      while (e < ends.length && Math.min(to[ends[e]], end_ps) <= at) open[state[ends[e++]]] -= 1;
      let lowest = 0;
      while (lowest < NOTHING && open[lowest] === 0) lowest += 1;
      found.change(at, lowest);
    }
  }
  return found.stretch(start_ps, end_ps);
}

/** Two stretches of the same tracks, the second of which begins where the first ends. @param {Stretch} one @param {Stretch} other */
export function join(one, other) {
  const tracks = one.first.length - 1;
  const found = collector(tracks, one.time.length + other.time.length);
  for (let track = 0; track < tracks; track++) {
    found.begin(track);
    for (const { first, time, state } of [one, other]) for (let k = first[track]; k < first[track + 1]; k++) found.change(time[k], state[k]);
  }
  return found.stretch(one.start_ps, other.end_ps);
}

/** The part of a stretch before a time. @param {Stretch} stretch @param {number} end_ps */
export function until({ start_ps, first, time, state }, end_ps) {
  const tracks = first.length - 1;
  const found = collector(tracks, time.length + tracks);
  for (let track = 0; track < tracks; track++) {
    found.begin(track);
    for (let k = first[track]; k < first[track + 1] && time[k] < end_ps; k++) found.change(time[k], state[k]);
    found.change(end_ps, NOTHING); // every state ends there
  }
  return found.stretch(start_ps, end_ps);
}

/**
 * The place of the first of ascending numbers that is larger than a value, or at least as large.
 * @param {ArrayLike<number>} numbers
 * @param {number} value
 * @param {boolean} larger
 * @param {number} from
 * @param {number} to
 */
export function placeOf(numbers, value, larger, from = 0, to = numbers.length) {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (larger ? numbers[middle] > value : numbers[middle] >= value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Whether a stretch overlaps a window. @param {Stretch} stretch @param {number} start_ps @param {number} end_ps */
export const overlaps = (stretch, start_ps, end_ps) => stretch.end_ps > start_ps && stretch.start_ps < end_ps;

/** About how many spans of a track overlap a window: never too few. @param {Stretch} stretch @param {number} track @param {number} start_ps @param {number} end_ps */
export function countOf({ start_ps: from, end_ps: to, first, time }, track, start_ps, end_ps) {
  const low = placeOf(time, Math.max(start_ps, from), true, first[track], first[track + 1]);
  return placeOf(time, Math.min(end_ps, to), false, first[track], first[track + 1]) - low + 1;
}

/**
 * Call with the state, start and end of each span of a track that overlaps a window.
 * @param {Stretch} stretch
 * @param {number} track
 * @param {number} start_ps
 * @param {number} end_ps
 * @param {(state: number, start_ps: number, end_ps: number) => void} found
 */
export function eachSpan({ start_ps: from, end_ps: to, first, time, state }, track, start_ps, end_ps, found) {
  const within = (/** @type {number} */ at) => Math.min(Math.max(at, from), to);
  const low = Math.max(placeOf(time, within(start_ps), true, first[track], first[track + 1]) - 1, first[track]);
  const high = placeOf(time, within(end_ps), false, first[track], first[track + 1]);
  for (let k = low; k < high; k++) if (state[k] !== NOTHING) found(state[k], time[k], time[k + 1]);
}

/**
 * Add the time that a track spends in each state between each two edges.
 * @param {Stretch} stretch
 * @param {number} track
 * @param {ArrayLike<number>} edges ascending
 * @param {Float64Array} cells by column and state
 * @param {number} at where they begin
 * @param {number} states how many there are
 */
export function addSpent({ first, time, state }, track, edges, cells, at, states) {
  const columns = edges.length - 1;
  const [start_ps, end_ps] = [edges[0], edges[columns]];
  let k = Math.max(placeOf(time, start_ps, true, first[track], first[track + 1]) - 1, first[track]);
  let column = -1;
  for (; k < first[track + 1] && time[k] < end_ps; k++) {
    if (state[k] === NOTHING) continue;
    let from = Math.max(time[k], start_ps);
    const to = Math.min(time[k + 1], end_ps);
    if (column < 0) column = Math.max(0, placeOf(edges, from, true) - 1);
    while (from < to) {
      while (edges[column + 1] <= from) column += 1;
      const next = Math.min(edges[column + 1], to);
      cells[at + column * states + state[k]] += next - from;
      from = next;
    }
  }
}
