// What a recorded page of a workload answers in the kernel's place: its columns hold every operation and
// every phase of a chunk (workload/_recording.py), so that ranks and operations are known at any moment.
// Stands in the page in front of offline.js, with format.js before it.

const MOST_SPANS = 6000;
const MOST_NODES = 160;
const LABEL = 40;
const [WAITING, READY, RUNNING, DONE] = [0, 1, 2, 3]; // in the order of `states`

/** `column(Type, k)` gives the k-th buffer of the page. */
export function createReplayed(pack, column) {
  /** Columns, the first so many of whole numbers, the others of times. */
  const table = (numbers, whole) => numbers.map((k, at) => column(at < whole ? Uint32Array : Float64Array, k));
  const [npu, number, label, text, kind, start, end, ready, x, y] = table(pack.workload.operations, 5);
  const [first, parents] = table(pack.workload.edges, 2);
  const [what, row] = [column(Uint8Array, pack.moments[2]), column(Uint32Array, pack.moments[3])];
  const { labels, texts, kinds, states, ranks } = pack.workload;
  const lanesOf = { operations: pack.workload.lanes, chunks: pack.workload.dims };
  const spans = {};
  const places = {}; // of the spans of each rank, by kind
  for (const [name, numbers] of Object.entries(pack.workload.spans)) {
    const [rank, which, named, lane, slot, slots, begins, ends] = table(numbers, 6);
    spans[name] = { number: which, label: named, lane, slot, slots, start: begins, end: ends, lanes: lanesOf[name] };
    places[name] = byRank(rank);
  }
  const own = byRank(npu); // the operations of each rank
  function byRank(column_of) {
    const found = Array.from({ length: ranks }, () => []);
    column_of.forEach((rank, k) => found[rank].push(k));
    return found;
  }
  const bytes = (array) => new DataView(array.buffer);

  function lanes({ kind: which, from, to, columns, ranks: asked }, now) {
    const of = spans[which];
    const found = [];
    asked.forEach((rank, at) => {
      for (const k of places[which][rank]) {
        if (of.start[k] <= now && of.start[k] < to && Math.min(of.end[k], now) > from) found.push([at * of.lanes + of.lane[k], k]);
      }
    });
    const about = { from, to, columns, kind: which, ranks: asked, lanes: of.lanes, count: found.length, now_ps: now };
    if (found.length > MOST_SPANS) return [{ ...about, drawn: "density" }, [bytes(shares(of, found, about))]];
    const pick = (Type, value) => bytes(Type.from(found, value));
    return [{ ...about, drawn: "spans", labels }, [
      pick(Uint32Array, ([place]) => place), ...[of.slot, of.slots, of.number, of.label].map((one) => pick(Uint32Array, ([, k]) => one[k])),
      pick(Float64Array, ([, k]) => of.start[k]), pick(Float64Array, ([, k]) => Math.min(of.end[k], now)),
    ]];
  }
  /** Which part of each column each lane is busy, 255 being all. */
  function shares(of, found, { from, to, columns, ranks: asked, lanes: count, now_ps: now }) {
    const busy = new Float64Array(asked.length * count * columns);
    const wide = (to - from) / columns;
    for (const [place, k] of found) {
      const [a, b] = [(Math.max(of.start[k], from) - from) / wide, (Math.min(of.end[k], now, to) - from) / wide];
      for (let c = Math.floor(a); c < b && c < columns; c++) busy[place * columns + c] += Math.min(b, c + 1) - Math.max(a, c);
    }
    return Uint8Array.from(busy, (share) => Math.min(255, Math.round(255 * share)));
  }

  const stateAt = (k, at) => (end[k] <= at ? DONE : start[k] <= at ? RUNNING : ready[k] <= at ? READY : WAITING);
  function when(k, state) {
    if (state === DONE) return `${formatTime(start[k], 3)} to ${formatTime(end[k], 3)}`;
    return state === RUNNING ? `since ${formatTime(start[k], 3)}` : "";
  }
  const ordered = []; // the operations of a rank by when they begin
  function window(rank, at) {
    const mine = own[rank];
    if (mine.length <= MOST_NODES) return mine;
    ordered[rank] ??= [...mine].sort((a, b) => start[a] - start[b] || a - b);
    const now = ordered[rank].findIndex((k) => start[k] > at);
    const from = Math.min(Math.max(0, (now < 0 ? mine.length : now) - MOST_NODES / 2), mine.length - MOST_NODES);
    return ordered[rank].slice(from, from + MOST_NODES).sort((a, b) => a - b);
  }
  /** Places without gaps: what is left out takes no room. */
  function pressed(values) {
    const known = new Map([...new Set(values)].sort((a, b) => a - b).map((value, at) => [value, at]));
    return values.map((value) => known.get(value));
  }
  function graph({ rank, at_ps: moment }, now) {
    const at = moment ?? now;
    const mine = window(rank, at);
    const places_of = new Map(mine.map((k, n) => [k, n]));
    const [xs, ys] = [pressed(mine.map((k) => x[k])), pressed(mine.map((k) => y[k]))];
    const nodes = mine.map((k, n) => {
      const state = stateAt(k, at);
      return {
        path: `rank[${npu[k]}].op[${number[k]}]`, label: labels[label[k]].slice(0, LABEL), what: texts[text[k]], kind: kinds[kind[k]],
        state: states[state], when: when(k, state), x: xs[n], y: ys[n],
      };
    });
    const lines = mine.flatMap((k, n) => [...parents.subarray(first[k], first[k + 1])].filter((p) => places_of.has(p)).map((p) => [places_of.get(p), n]));
    const counts = Object.fromEntries(states.map((state) => [state, 0]));
    for (const k of own[rank]) counts[states[stateAt(k, at)]] += 1;
    return [{ rank, nodes, edges: lines, counts, hidden: own[rank].length - mine.length }, []];
  }

  /** The moment of the n-th end of an operation from here, or the last one. */
  function operation(n, done) {
    for (let k = done; k < what.length; k++) {
      n -= what[k];
      if (n === 0) return k + 1;
    }
    return what.length;
  }
  return {
    answers: { lanes, graph },
    operation,
    narration: (k) => `rank ${npu[row[k]]} ${what[k] ? "ends" : "begins"} ${texts[text[row[k]]]}`,
    changed: (k) => `rank[${npu[row[k]]}]`,
  };
}
