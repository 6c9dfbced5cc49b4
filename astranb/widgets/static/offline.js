// A workbench without a kernel: it plays what was recorded, and says what would need a kernel.
// The page that `Workbench.to_html` writes holds this file, and a recording for it (_html.py).

const TICK_MS = 50;
const NEEDS = "needs the kernel: this page is a recording";
const AT_END = "this page knows it as it was at the end (press End); another moment needs the kernel.";

/** The recording: a header of JSON, and columns of which the header says where they stand. */
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const all = await new Response(stream).arrayBuffer();
  const length = new DataView(all).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(all, 8, length)));
  const from = Math.ceil((8 + length) / 8) * 8;
  header.views = header.places.map(([start, bytes]) => new DataView(all, from + start, bytes));
  return header;
}

/** Of a collective: what was recorded are flights of lines over links. */
function createFlown(pack, column) {
  const [kinds, links] = [column(Uint8Array, pack.moments[2]), column(Uint32Array, pack.moments[3])];
  return {
    answers: {},
    narration: (k) => `${pack.words[kinds[k]]} on ${pack.links[links[k]]}`,
    changed: (k) => pack.links[links[k]].split("#")[0],
  };
}

/** What stands in for the widget's model, and for the kernel behind it. */
export function createRecording(pack) {
  const values = { _kind: pack.workload ? "workload" : "collective", _modules: pack.modules, _selection: pack.selection, _cursor_ps: -1, _panels: pack.panels };
  const listeners = new Map();
  const views = (places) => places.map((k) => pack.views[k]);
  const column = (Type, k) => new Type(pack.views[k].buffer, pack.views[k].byteOffset, pack.views[k].byteLength / Type.BYTES_PER_ELEMENT);
  const times = column(Float64Array, pack.moments[0]); // ps at which a recorded event happened
  const events = column(Float64Array, pack.moments[1]); // its number in the run
  const last = pack.state.message;
  const phases = pack.phases; // ps at which one ended
  const own = pack.workload ? createReplayed(pack, column) : createFlown(pack, column);
  const answers = new Map(pack.answers.map((answer) => [key(answer.question, answer.options), answer]));
  let sequence = 0;
  let done = 0; // recorded events that have happened
  let now = pack.oldest;
  let speed = last.speed;
  let timer = 0;
  let status = pack.status;

  /** How many columns a view has room for is no part of a question here: the answer says how many it has. */
  function key(question, { columns, ...options } = {}) {
    return JSON.stringify([question, Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))]);
  }
  function emit(name, ...given) {
    for (const listener of [...(listeners.get(name) ?? [])]) listener(...given);
  }
  const tell = (message, buffers = []) => emit("msg:custom", message, buffers);

  /** How many recorded events have happened at a time. */
  function until(time) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  const ended = () => now >= last.now_ps;
  function place(count) {
    done = Math.min(times.length, Math.max(0, count));
    now = done ? times[done - 1] : pack.oldest;
  }
  function goto(time) {
    now = Math.min(last.now_ps, Math.max(pack.oldest, Math.round(time)));
    done = ended() ? times.length : until(now);
  }
  const verbs = {
    event: (n) => (done === times.length ? goto(last.now_ps) : place(done + n)),
    cycle(n) {
      for (let k = 0; k < n && !ended(); k++) {
        // All recorded events of the next instant; behind the last one, the end.
        if (done === times.length) goto(last.now_ps);
        else place(until(times[done]));
      }
    },
    operation: (n) => place(own.operation(n, done)),
    phase(n) {
      for (let k = 0; k < n && !ended(); k++) goto(phases.find((time) => time > now) ?? last.now_ps);
    },
    reset: () => goto(pack.oldest),
    to_end: () => goto(last.now_ps),
    goto(n, message) {
      const [, number, unit] = String(message.when).match(/^\s*([\d.]+)\s*(ps|ns|us|µs|ms|s)?\s*$/) ?? [];
      if (number === undefined) status = `${message.when}: write a time with its unit, as 5 us`;
      else goto(Number(number) * { ns: 1e3, us: 1e6, "µs": 1e6, ms: 1e9, s: 1e12 }[unit] || Number(number));
    },
    back(n, message) {
      if (message.unit === "phase") {
        for (let k = 0; k < n; k++) goto(phases.findLast((time) => time < now) ?? pack.oldest);
      } else if (message.unit === "cycle") {
        for (let k = 0; k < n && done > 0; k++) place(until(times[done - 1] - 1));
      } else if (message.unit === "operation") {
        for (let k = done - 1, left = n; left > 0; k--) {
          if (k < 0) left = 0;
          else if (own.operation(1, k) === k + 1) left -= 1;
          place(Math.max(0, k));
        }
      } else place(done - n);
    },
  };

  function narration() {
    if (ended()) return last.narration;
    if (!done) return pack.oldest ? "the recording begins here" : "nothing has happened yet";
    return own.narration(done - 1);
  }
  function show(flights = []) {
    sequence += 1;
    const message = {
      ...last, seq: sequence, now_ps: now, events: ended() ? last.events : done ? events[done - 1] : pack.oldest ? events[0] : 0,
      finished: ended(), playing: timer !== 0, fast: false, speed, status, failed: false, narration: narration(),
      changed: done && !ended() ? own.changed(done - 1) : "",
      coarse: false, pace: {},
    };
    const empty = new DataView(new ArrayBuffer(0));
    if (flights.length) return tell(message, flights);
    return tell({ ...message, first: last.total, total: last.total, one_in: 1 }, [empty, empty, empty, empty]);
  }
  function stop(words) {
    clearInterval(timer);
    timer = 0;
    status = words;
  }
  function play() {
    clearInterval(timer);
    status = "playing the recording";
    let before = performance.now();
    timer = setInterval(() => {
      const after = performance.now();
      goto(now + Math.max(1, ((after - before) / 1000) * speed));
      before = after;
      if (ended()) stop("the recording ends here");
      show();
    }, TICK_MS);
    show();
  }

  const received = {
    ready() {
      sequence = 0;
      const recorded = { to_breakpoint: `breakpoints: ${NEEDS}` };
      for (const unit of ["message", "pass"]) if (pack.scene.message.units?.includes(unit)) recorded[unit] = `these steps: ${NEEDS}`;
      tell({ ...pack.scene.message, recorded }, views(pack.scene.buffers));
      // At the end once, so that views know how far it goes; then where the page begins.
      const [at, before] = [now, done];
      goto(last.now_ps);
      show(views(pack.state.buffers));
      [now, done] = [at, before];
      show();
    },
    read() {},
    away() {
      clearInterval(timer);
      timer = 0;
    },
    timeline: () => tell({ ...pack.timeline.message, now_ps: now }, views(pack.timeline.buffers)),
    inspect(message) {
      const rank = /^gpu\[(\d+)\]/.exec(message.path);
      const path = rank ? message.path.replace(rank[0], pack.gpus[rank[1]] ?? rank[0]) : message.path;
      const found = pack.inspections[path];
      const answer = { type: "inspection", for: message.path };
      if (message.at_ps !== null || !ended()) {
        tell({ ...answer, error: `${message.path}: ${AT_END}` });
      } else if (!found) tell({ ...answer, error: `${message.path}: not among the objects that were recorded. It needs the kernel.` });
      else tell({ ...answer, found });
    },
    ask(message) {
      const found = answers.get(key(message.question, message.options));
      const about = { type: "answer", id: message.id };
      const known = own.answers[message.question]?.(message.options, now);
      if (known) tell({ ...known[0], ...about }, known[1]);
      else if (!found) tell({ ...about, error: `“${message.question}” ${NEEDS}.` });
      else if (!found.always && !ended()) tell({ ...about, error: `“${message.question}”: ${AT_END}` });
      else tell({ ...found.message, ...about }, views(found.buffers));
    },
    set_speed(message) {
      speed = message.speed;
      show();
    },
    play: () => (ended() ? show() : play()),
    pause() {
      stop("paused");
      show();
    },
  };

  return {
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      emit(`change:${name}`);
    },
    save_changes() {},
    on(name, listener) {
      if (!listeners.has(name)) listeners.set(name, new Set());
      listeners.get(name).add(listener);
    },
    off: (name, listener) => listeners.get(name)?.delete(listener),
    send(message) {
      if (Object.hasOwn(received, message.type)) return received[message.type](message);
      if (!Object.hasOwn(verbs, message.type)) return tell({ type: "error", text: `“${message.type}” ${NEEDS}.` });
      stop(pack.status);
      verbs[message.type](message.n ?? 1, message);
      if (ended()) status = "the recording ends here";
      return show();
    },
  };
}

/** Follow the system's light or dark as JupyterLab's pages say it. */
function followTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const say = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
  dark.addEventListener("change", say);
  say();
}

/** Show the page's recording. */
export async function openRecording(host, text) {
  followTheme();
  const pack = await unpack(text);
  const url = URL.createObjectURL(new Blob([pack.entry], { type: "text/javascript" }));
  try {
    const widget = (await import(url)).default();
    const model = createRecording(pack);
    await widget.initialize({ model });
    host.replaceChildren();
    await widget.render({ model, el: host });
  } finally {
    URL.revokeObjectURL(url);
  }
}
