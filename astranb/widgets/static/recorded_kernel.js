// @ts-check
// What stands in for a kernel in a page: it moves through what was recorded, hands views the answers that Python gave when
// the page was written (offline_page.py, recording.py), and says of all others that they need a kernel. It forms none.

import { pack, unpack } from "./messages.js";
import { createReplayed } from "./replayed.js";

/** @import { Options, Recorded, RecordedAnswer, Recording, Replayed, ToKernel } from "./types" */

/** @type {Record<string, number>} */
const PICOSECONDS = { ns: 1e3, us: 1e6, "µs": 1e6, ms: 1e9, s: 1e12 };
const TICK_MS = 50;
const NEEDS = "needs the kernel: this page is a recording";
const AT_END = "This page knows it as it was at the end (press End); another moment needs the kernel.";
const ABSENT = "This page does not hold it: it needs the kernel.";

/**
 * Of a collective: what was recorded are flights of lines over links.
 * @param {Recording} recording
 * @param {DataView[]} buffers
 * @returns {Replayed}
 */
function createFlown({ words, links }, buffers) {
  const { time, event, kind, link } = unpack("recorded_flights", buffers);
  return {
    moments: { time, event },
    operation: (_, done) => done,
    narration: (k) => `${words[kind[k]]} on ${links[link[k]]}`,
    changed: (k) => links[link[k]].split("#")[0],
  };
}

/** How many of ascending times are up to one. @param {Float64Array} times @param {number} time */
function countUntil(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * What stands in for a kernel.
 * @param {Recording} recording
 * @param {DataView[]} columns
 * @param {(message: object, buffers?: DataView[]) => void} send to the view
 * @param {(message: ToKernel) => void} [wait] takes questions that were not recorded, where a kernel starts meanwhile: the page
 * begins at the end then
 * @returns {(message: ToKernel) => void} takes the view's messages
 */
export function createRecordedKernel(recording, columns, send, wait) {
  /** @param {number[]} numbers */
  const buffersOf = (numbers) => numbers.map((k) => columns[k]);
  const last = recording.state.message;
  const phases = recording.phases; // ps at which one ended
  const own = recording.workload ? createReplayed(recording, recording.workload, buffersOf) : createFlown(recording, buffersOf(recording.moments));
  const { time: times, event: events } = own.moments; // ps at which a recorded event happened, its number in the run
  /** @type {Map<string, RecordedAnswer[]>} several: in the order of their moments */
  const answers = new Map();
  for (const answer of recording.answers) {
    const asked = key(answer.question, answer.options);
    answers.set(asked, [...(answers.get(asked) ?? []), answer]);
  }
  let sequence = 0;
  let done = 0; // recorded events that have happened
  let now = recording.oldest;
  let speed = last.speed;
  let timer = 0;
  let status = recording.status;

  /**
   * What an answer is about. The time is looked up, and how many columns a view has room for is no part of it: an answer says
   * how many it has.
   * @param {string} question
   * @param {Options} options
   */
  function key(question, options) {
    const free = ["at_ps", "columns", ...(recording.free[question] ?? [])];
    const named = Object.entries(options).filter(([name]) => !free.includes(name));
    return JSON.stringify([question, named.sort(([a], [b]) => (a < b ? -1 : 1))]);
  }
  /**
   * The recorded answer for a moment, or why there is none.
   * @param {string} question
   * @param {Options} options
   * @returns {{ found?: RecordedAnswer, error?: string, at: number }} at: the moment that it holds for
   */
  function lookUp(question, options) {
    const several = answers.get(key(question, options));
    const at = /** @type {number | null | undefined} */ (options.at_ps) ?? now;
    if (!several) return { error: ABSENT, at };
    if (several[0].always) return { found: several[0], at };
    if (several[0].from_ps === undefined) return at >= last.now_ps ? { found: several[0], at } : { error: AT_END, at };
    const found = several.findLast(({ from_ps = 0 }) => from_ps <= at);
    if (!found) return { error: AT_END, at };
    return { found, at: at < (found.until_ps ?? 0) ? at : (found.from_ps ?? 0) };
  }
  /** @param {Recorded<object>} recorded @param {object} about */
  const sendRecorded = ({ message, buffers }, about) => send({ ...message, ...about }, buffersOf(buffers));

  /** How many recorded events have happened at a time. @param {number} time */
  const until = (time) => countUntil(times, time);
  const ended = () => now >= last.now_ps;
  /** @param {number} count */
  function place(count) {
    done = Math.min(times.length, Math.max(0, count));
    now = done ? times[done - 1] : recording.oldest;
  }
  /** @param {number} time */
  function goto(time) {
    now = Math.min(last.now_ps, Math.max(recording.oldest, Math.round(time)));
    done = ended() ? times.length : until(now);
  }
  /** @param {number} time */
  const phaseAfter = (time) => phases.find((end) => end > time) ?? last.now_ps;
  /** @param {number} time */
  const phaseBefore = (time) => phases.findLast((end) => end < time) ?? recording.oldest;
  /** @type {Record<string, (n: number, message: ToKernel) => void>} */
  const verbs = {
    event: (n) => (done === times.length ? goto(last.now_ps) : place(done + n)),
    cycle(n) {
      for (let k = 0; k < n && !ended(); k++) {
        // All recorded events of the next timestep; behind the last one, the end.
        if (done === times.length) goto(last.now_ps);
        else place(until(times[done]));
      }
    },
    operation: (n) => place(own.operation(n, done)),
    phase(n) {
      for (let k = 0; k < n && !ended(); k++) goto(phaseAfter(now));
    },
    reset: () => goto(recording.oldest),
    to_end: () => goto(last.now_ps),
    goto(_, message) {
      const [, number, unit] = String(message.when).match(/^\s*([\d.]+)\s*(ps|ns|us|µs|ms|s)?\s*$/) ?? [];
      if (number === undefined) status = `${message.when}: write a time with its unit, as 5 us`;
      else goto(Number(number) * (PICOSECONDS[unit] ?? 1));
    },
    back(n, message) {
      if (message.unit === "phase") {
        for (let k = 0; k < n; k++) goto(phaseBefore(now));
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
    if (!done) return recording.oldest ? "the recording begins here" : "nothing has happened yet";
    return own.narration(done - 1);
  }
  /** @param {DataView[]} [flights] */
  function show(flights) {
    sequence += 1;
    const message = {
      ...last, seq: sequence, now_ps: now, events: ended() ? last.events : done ? events[done - 1] : recording.oldest ? events[0] : 0,
      finished: wait ? last.finished : ended(), playing: timer !== 0, fast: false, speed, status, failed: false, narration: narration(),
      changed: done && !ended() ? own.changed(done - 1) : "",
      coarse: false, progress: {},
    };
    if (flights) send(message, flights);
    else send({ ...message, first: last.total, total: last.total, one_in: 1 }, pack("state", {}));
  }
  /** @param {string} words */
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

  /** @type {Record<string, (message: ToKernel) => void>} */
  const received = {
    ready() {
      sequence = 0;
      /** @type {Record<string, string>} */
      const recorded = { to_breakpoint: `breakpoints: ${NEEDS}` };
      for (const unit of recording.scene.message.units) if (!Object.hasOwn(verbs, unit)) recorded[unit] = `these steps: ${NEEDS}`;
      sendRecorded(recording.scene, wait ? {} : { recorded });
      // At the end once, so that views know how far it goes; then where the page begins.
      const [at, before] = [now, done];
      goto(last.now_ps);
      show(buffersOf(recording.state.buffers));
      if (wait) return;
      [now, done] = [at, before];
      show();
    },
    read() {},
    away() {
      clearInterval(timer);
      timer = 0;
    },
    timeline: () => sendRecorded(recording.timeline, { now_ps: now }),
    inspect(message) {
      const asked = String(message.path);
      const path = asked.replace(/^gpu\[(\d+)\]/, (short, rank) => recording.gpus[rank] ?? short);
      const moments = recording.inspections[path];
      const answer = { type: "inspection", for: asked };
      const at = /** @type {number | null} */ (message.at_ps) ?? now;
      const [then, found] = moments?.findLast(([time]) => time <= at) ?? [];
      if (wait && !found) send({ ...answer, error: `${asked}: a moment, Python starts` });
      else if (!moments) send({ ...answer, error: `${asked}: not among the objects that were recorded. It needs the kernel.` });
      else if (!found) send({ ...answer, error: `${asked}: not at this moment. ${AT_END}` });
      else send({ ...answer, found, recorded_ps: then });
    },
    ask(message) {
      const [question, options] = [String(message.question), /** @type {Options} */ (message.options)];
      const { found, error, at } = lookUp(question, options);
      const about = { type: "answer", id: message.id, ...(Object.hasOwn(options, "at_ps") ? { at_ps: at } : {}) };
      if (found) sendRecorded(found, about);
      else if (wait) wait(message);
      else send({ ...about, error });
    },
    set_speed(message) {
      speed = Number(message.speed);
      show();
    },
    play: () => (ended() ? show() : play()),
    pause(message) {
      stop("paused");
      const seen = /** @type {number | null} */ (message.at_ps ?? null);
      if (seen !== null && seen < now) goto(seen);
      show();
    },
  };

  /** @param {ToKernel} message */
  function receive(message) {
    if (Object.hasOwn(received, message.type)) received[message.type](message);
    else if (!Object.hasOwn(verbs, message.type)) send({ type: "error", text: `“${message.type}” ${NEEDS}.` });
    else {
      stop(recording.status);
      verbs[message.type](Number(message.n ?? 1), message);
      if (ended()) status = "the recording ends here";
      show();
    }
  }
  return receive;
}
