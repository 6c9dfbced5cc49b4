// @ts-check
// What all views of one workbench show: scene, flights, the two clocks, selection (types.d.ts describes each field).
// What it is sent is made in widgets/feed/; the columns of messages are in messages.js.

import { TIMES } from "./asker.js";
import { withLinks } from "./edges.js";
import { Flights } from "./flights.js";
import { watchKernel } from "./heartbeat.js";
import { COLUMNS, unpack } from "./messages.js";
import { slotOf } from "./panels.js";
import { timeWindow } from "./window.js";

/** @import { Answer, AnswerMessage, ErrorMessage, FromKernel, Inspection, Model, Options, Packed, Question, Scene, SceneMessage, State, Store, StoreEvent, TimelineMessage, Traits } from "./types" */

const VERSION = 5;
const HINT = "this is the last picture: run the cells again, or Workbench.load(path) if the session was saved";
const LATE_MS = 1000; // of a state that was under way
const PASSAGE_MS = 450; // of the cursor through a step, so that what moves is seen moving
const PASSAGES = ["instruction", "hop", "line", "message", "operation", "phase", "pass"]; // steps that are shown so

/** @param {Model} model @returns {Store} */
export function createStore(model) {
  /** @type {Map<StoreEvent, Set<() => unknown>>} */
  const listeners = new Map();
  /** @type {(() => void)[] | null} what ends the listening of what is being built */
  let gathered = null;
  /** @type {Scene | null} */
  let scene = null;
  let held = false; // Pause was pressed: the cursor rests until the kernel has stopped
  let stepped = false; // the next state is the end of a step that is shown as a passage
  /** @type {{ from: number, passed: number } | null} from what time on, and for how many milliseconds so far */
  let passage = null;
  let chosen = { speed: 0, until: 0 }; // a state that was under way when the speed was set has the one before
  let spans = 0; // that were clicked: the answer to an earlier click is not shown
  let timelines = 0; // so far: views ask again when there is another one
  /** @type {Store} */
  const store = {
    engine: model.get("_engine") || "cacheline",
    get ready() {
      return scene !== null;
    },
    get scene() {
      if (!scene) throw new Error("the scene has not come yet");
      return scene;
    },
    set scene(next) {
      scene = next;
    },
    state: null,
    timeline: null,
    flights: new Flights(),
    frontier: 0,
    furthest: 0,
    cursor: 0,
    following: true,
    replaying: false,
    selection: "",
    span: null,
    hover: "",
    inspection: null,
    window: null,
    marked: null,
    pointer: null,
    error: "",
    device: -1,
    trouble: "",
    gone: false,
    in_notebook: Boolean(model.widget_manager),
    rested: -Infinity,
    paused: -Infinity,
    path: null,
    levels: null,

    on(name, listener) {
      const all = listeners.get(name) ?? new Set();
      listeners.set(name, all.add(listener));
      const stop = () => void all.delete(listener);
      gathered?.push(stop);
      return stop;
    },
    /** Build something; gives what it is, and what ends all that it listens to. */
    gather(build) {
      /** @type {(() => void)[]} */
      const stops = (gathered = []);
      try {
        return [build(), () => stops.forEach((stop) => stop())];
      } finally {
        gathered = null;
      }
    },
    emit(name) {
      for (const listener of [...(listeners.get(name) ?? [])]) listener();
    },

    /** Ask the kernel something; the columns of its answer are its `arrays`. */
    ask(question, options = {}, signal = undefined) {
      return new Promise((resolve, reject) => {
        send({ question, options, signal, again: false, resolve: (answer) => resolve(/** @type {Answer<typeof question>} */ (answer)), reject });
      });
    },

    embed: null,
    other: () => model.get("_other") ?? "",
    get beside() {
      return model.get("_beside") ?? {};
    },
    /** Look at another part of the system: one instance alone, or with some of them opened. */
    async look({ opened = store.scene.opened, focus = store.scene.focus } = {}) {
      const drawn = await store.ask("picture", { opened, focus });
      store.device = -1;
      store.scene = withLinks({ ...store.scene, ...drawn }, drawn.arrays.bundle_of);
      store.timeline = null; // its links are those of the old picture
      timelineAsked = false;
      timelineSoon();
      store.emit("scene");
      store.emit("change");
    },

    /** Which panels are open: the name of the tab by slot, true or false by name below. */
    get panels() {
      return model.get("_panels") ?? {};
    },
    show_panel(name, open = true) {
      const slot = slotOf(name);
      if (!slot) throw new Error(`no panel ${name}`);
      model.set("_panels", { ...store.panels, ...(slot === "below" ? { [name]: open } : { [slot]: name }) });
      kernel.save();
      store.emit("change");
    },

    /** GPUs or ranks whose rows are kept above all others of a timeline, in the order in which they were pinned. */
    get pins() {
      return String(store.panels.pins ?? "").split(" ").filter(Boolean).map(Number);
    },
    pin(rank) {
      const { pins } = store;
      const kept = pins.includes(rank) ? pins.filter((one) => one !== rank) : [...pins, rank];
      model.set("_panels", { ...store.panels, pins: kept.join(" ") });
      kernel.save();
      store.emit("change");
    },

    /** The sizes of panels that a person has chosen, in pixels, by name. */
    get sizes() {
      return model.get("_sizes") ?? {};
    },
    set_size(name, px, keep = true) {
      const sizes = { ...store.sizes };
      if (px === null) delete sizes[name];
      else sizes[name] = px;
      model.set("_sizes", sizes);
      if (keep) kernel.save();
      store.emit("change");
    },

    /** A command for the kernel; the cursor returns to the simulation first. */
    command(type, options = {}) {
      if (store.gone) return;
      store.error = "";
      held = false;
      store.follow();
      passage = null;
      stepped = PASSAGES.includes(type);
      kernel.ask({ type, ...options });
    },
    get passing() {
      return passage !== null;
    },
    get playing() {
      return store.replaying || Boolean(store.state?.playing);
    },
    /** Play from the cursor: through what was recorded, then on with the simulation. */
    play() {
      if (store.following || store.cursor >= store.frontier) store.command("play");
      else {
        store.replaying = true;
        store.emit("change");
      }
    },
    pause() {
      // The simulation may be ahead of what was seen: it goes back to that.
      const ahead = store.following && store.state?.playing && !store.state.fast;
      store.replaying = false;
      held = Boolean(ahead);
      store.paused = performance.now();
      kernel.send({ type: "pause", at_ps: ahead ? Math.floor(store.cursor) : null });
      store.emit("change");
    },
    setSpeed(speed) {
      chosen = { speed, until: performance.now() + LATE_MS };
      kernel.send({ type: "set_speed", speed });
      if (store.state) store.state.speed = speed;
      store.emit("change");
    },

    /** How often the picture is drawn, times a second. */
    get redraw() {
      return model.get("_redraw_hz") || 60;
    },
    setRedraw(hz) {
      model.set("_redraw_hz", hz);
      kernel.save();
      store.emit("change");
    },

    /** Move only the cursor. */
    scrub(time) {
      store.replaying = false;
      // In a recording (offline.js) there is something further on.
      if (scene?.recorded && time > store.frontier) return store.command("goto", { when: time });
      return store.moveCursor(Math.min(Math.max(0, time), store.frontier));
    },
    moveCursor(time) {
      passage = null;
      store.following = false;
      store.cursor = time;
      share();
      look();
      store.emit("change");
    },
    follow() {
      store.replaying = false;
      if (!store.following) {
        store.following = true;
        store.cursor = store.frontier;
        share();
        look();
      }
      store.emit("change");
    },

    async selectSpan(path, asked) {
      store.select(path);
      const mine = (spans += 1);
      const found = await asked?.catch(() => null);
      if (mine !== spans) return;
      store.span = found?.found ? found : null;
      store.emit("inspection");
      store.emit("change");
    },
    select(path) {
      spans += 1;
      if (store.span) {
        store.span = null;
        store.emit("inspection");
      }
      if (store.selection === path) return;
      store.selection = path;
      store.inspection = null;
      model.set("_selection", path);
      kernel.save();
      look();
      store.emit("change");
    },
    hovering(name) {
      if (store.hover === name) return;
      store.hover = name;
      store.emit("change");
    },

    /** Move the cursor on by some milliseconds; true while it has further to go. */
    tick(ms) {
      const speed = store.state?.speed ?? 0;
      const moved = (ms / 1000) * speed;
      if (store.replaying) {
        store.cursor += moved;
        if (store.cursor >= store.frontier) store.command("play");
        else if (Math.floor(performance.now() / 250) !== Math.floor((performance.now() - ms) / 250)) look();
        return true;
      }
      if (!store.following || held) return false;
      if (passage) {
        passage.passed += ms; // as it was drawn: a busy browser shows it later, and not at once its end
        const part = Math.min(1, passage.passed / PASSAGE_MS);
        store.cursor = passage.from + part * (store.frontier - passage.from);
        if (part === 1) passage = null;
        return part < 1;
      }
      if (!store.state?.playing || store.state.fast) {
        store.cursor = store.frontier;
        return false;
      }
      const behind = Math.max(store.cursor + moved, store.frontier - speed * 0.15);
      store.cursor = Math.min(store.frontier, behind);
      return true;
    },

    destroy() {
      kernel.stop();
      model.off("msg:custom", received);
      for (const [name, listener] of observed) model.off(name, listener);
      for (const timer of timers.values()) clearTimeout(timer);
      for (const { reject } of questions.values()) reject(new Error("closed"));
      questions.clear();
      listeners.clear();
    },
    /** A view has been opened: what it shows comes from now on. */
    open() {
      views += 1;
      if (views > 1) return;
      kernel.send({ type: "ready" });
      look();
    },
    /** A view has been closed; without one, nothing need be sent. */
    close() {
      views -= 1;
      for (const [id, { signal }] of questions) if (signal?.aborted) questions.delete(id);
      if (views === 0) kernel.send({ type: "away" });
    },
    .../** @type {ReturnType<typeof timeWindow>} */ ({}),
  };

  Object.assign(store, timeWindow(store, share));

  const kernel = watchKernel(model, (text, gone) => {
    store.trouble = gone ? `${text}; ${HINT}` : text;
    store.gone = gone;
    if (gone) {
      store.replaying = false;
      if (store.state) Object.assign(store.state, { playing: false, progress: {} });
      for (const { reject } of questions.values()) reject(new Error(text));
      questions.clear();
    }
    store.emit("change");
  });
  let asked = 0;
  /** @typedef {{ question: Question, options: Options, signal: AbortSignal | undefined, again: boolean, resolve: (answer: object) => void, reject: (error: Error) => void }} Asked */
  /** @type {Map<number, Asked>} */
  const questions = new Map(); // asked and not answered, by number
  let expected = 1;
  /** @type {Map<string, number>} by what each one is for */
  const timers = new Map();
  let timelineAsked = false;
  let timelineSent = 0; // when
  let timelineTook = 0; // ms, the last one
  let looking = false;
  let lookAgain = false;
  let views = 0;

  /** @param {Asked} one */
  function send(one) {
    if (store.gone) {
      one.reject(new Error(store.trouble));
      return;
    }
    const id = (asked += 1);
    questions.set(id, one);
    kernel.ask({ type: "ask", id, question: one.question, options: one.options });
  }
  /** Answers come in order, and the server drops messages that are too many: what is missing before a number is asked once more. @param {number} number */
  function askAgain(number) {
    for (const [id, one] of questions) {
      if (id >= number) return;
      questions.delete(id);
      if (one.signal?.aborted) continue;
      if (one.again) one.reject(new Error("the answer was lost: the kernel sends more than the server passes on"));
      else send({ ...one, again: true });
    }
  }
  /** Call something later, in place of an earlier call. @param {string} name @param {number} ms @param {() => void} call */
  function later(name, ms, call) {
    clearTimeout(timers.get(name));
    timers.set(name, setTimeout(call, ms));
  }
  /** Send cursor and window to Python, ten times a second at most. */
  function share() {
    later("share", 100, () => {
      model.set("_cursor_ps", store.following ? -1 : store.cursor);
      model.set("_window_ps", store.window ?? []);
      kernel.save();
    });
  }
  function windowSet() {
    const set = model.get("_window_ps") ?? [];
    store.window = set.length === 2 ? [set[0], set[1]] : null;
    store.emit("change");
  }
  function cursorSet() {
    if (!store.state) return; // the first state reads it: before, no time is known
    const at = model.get("_cursor_ps");
    if (at < 0 && !store.following) store.follow();
    else if (at >= 0 && (store.following || Math.abs(at - store.cursor) > 0.5) && !store.replaying) {
      store.moveCursor(Math.min(at, store.frontier));
    }
  }
  const changed = () => store.emit("change");
  /** @type {[`change:${keyof Traits}`, () => void][]} */
  const observed = [
    ["change:_cursor_ps", cursorSet],
    ["change:_window_ps", windowSet],
    ["change:_selection", () => model.get("_selection") !== store.selection && store.select(model.get("_selection"))], // an echo would drop the span
    ["change:_other", changed], ["change:_beside", changed], ["change:_panels", changed], ["change:_sizes", changed], ["change:_redraw_hz", changed], // read when views draw
  ];

  // One question at a time: the next one is about the cursor as it is when the answer has come.
  function look() {
    if (!store.selection) return;
    if (looking) {
      lookAgain = true;
      return;
    }
    looking = true;
    lookAgain = false;
    kernel.send({ type: "inspect", path: store.selection, at_ps: store.following ? null : store.cursor });
  }
  function timelineSoon() {
    if (timelineAsked) return;
    timelineAsked = true;
    const least = !store.state?.playing ? 120 : Math.max(store.state.fast ? 1000 : 300, TIMES * timelineTook);
    later("timeline", least, () => {
      timelineSent = performance.now();
      kernel.send({ type: "timeline" });
    });
  }

  const handlers = {
    /** @param {SceneMessage} message @param {DataView[]} buffers */
    scene(message, buffers) {
      if (message.version !== VERSION) {
        store.error = "this page was made by another version of astranb: reload it";
        store.emit("change");
        return;
      }
      store.scene = withLinks(message, unpack("scene", buffers).bundle_of);
      store.device = -1;
      store.flights.clear();
      store.furthest = 0;
      expected = 1;
      store.emit("scene");
    },
    /** @param {State} message @param {DataView[]} buffers */
    state(message, buffers) {
      kernel.send({ type: "read" });
      if (message.seq !== expected) {
        expected = -1; // a message was lost: start again, once
        kernel.send({ type: "ready" });
        return;
      }
      expected += 1;
      store.flights.append(message, unpack("state", buffers));
      const moved = message.events !== store.state?.events;
      const first = !store.state;
      if (held && !message.playing) {
        held = false;
        // A large run does not go back to what was seen: that is the past then.
        store.following = message.now_ps <= store.cursor + 1;
        if (!store.following) share();
      }
      if (store.state?.playing && !message.playing) store.rested = performance.now();
      if (message.speed === chosen.speed) chosen.until = 0;
      else if (performance.now() < chosen.until) message.speed = chosen.speed;
      store.state = message;
      store.frontier = message.now_ps;
      store.furthest = Math.max(store.furthest, message.now_ps);
      if (!store.following && store.cursor > store.frontier) store.cursor = store.frontier;
      if (store.following && !message.playing) {
        if (moved) {
          passage = stepped && store.frontier > store.cursor ? { from: store.cursor, passed: 0 } : null;
          stepped = false;
        }
        if (!passage) store.cursor = store.frontier;
      }
      if (first) cursorSet(); // where a cell has put it before anything was shown
      if (moved) {
        if (store.following || !message.playing) later("look", message.playing ? 250 : 0, look);
        timelineSoon();
      }
      // Flights that a fast run left out are asked for when nothing else is waited for.
      clearTimeout(timers.get("fine"));
      if (message.coarse && !message.playing) later("fine", 400, () => kernel.send({ type: "fine" }));
      store.emit("change");
    },
    /** @param {TimelineMessage} message @param {DataView[]} buffers */
    timeline(message, buffers) {
      timelineAsked = false;
      timelineTook = performance.now() - timelineSent;
      if (message.picture !== scene?.picture) {
        timelineSoon();
        return;
      }
      store.timeline = { ...message, number: (timelines += 1), ...unpack("timeline", buffers) };
      if (message.now_ps !== store.frontier) timelineSoon();
      store.emit("change");
    },
    /** @param {Inspection} message */
    inspection(message) {
      looking = false;
      if (message.for === store.selection) {
        store.inspection = message;
        store.emit("inspection");
      }
      if (lookAgain || message.for !== store.selection) look();
    },
    /** Another page has closed its last view. */
    roll() {
      if (views > 0) kernel.send({ type: "ready" });
    },
    /** @param {AnswerMessage} message @param {DataView[]} buffers */
    answer(message, buffers) {
      const question = questions.get(message.id);
      questions.delete(message.id);
      askAgain(message.id);
      if (!question) return;
      if (message.error) question.reject(new Error(message.error));
      else question.resolve(isPacked(question.question) ? { ...message, arrays: unpack(question.question, buffers) } : message);
    },
    /** @param {ErrorMessage} message */
    error(message) {
      store.error = message.text;
      store.emit("change");
    },
  };
  /** @param {FromKernel} message @param {DataView[]} [buffers] */
  function received(message, buffers = []) {
    kernel.heard();
    // Before the first scene, and after a loss, states are for another page.
    if (message.type === "state" && (!scene || expected < 0)) return;
    /** @type {(message: never, buffers: DataView[]) => void} */
    const handle = handlers[message.type];
    handle?.(/** @type {never} */ (message), buffers);
  }

  model.on("msg:custom", received);
  for (const [name, listener] of observed) model.on(name, listener);
  store.selection = model.get("_selection");
  windowSet();
  return store;
}

/** Whether the answers to a question have columns. @param {string} question @returns {question is Packed & Question} */
const isPacked = (question) => Object.hasOwn(COLUMNS, question);
