// @ts-check
// Why something waits, where time went, the critical path, and what would help.
// path.js draws the critical path over the topology and the timelines.

import { createAsker, momentOf } from "./asker.js";
import { formatTime, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { causeColour } from "./path.js";
import { make, makeButton, makeHint, makeLink, settle } from "./theme.js";

/** @import { Answer, Cause, Change, CreateView, Options } from "./types" */

const OFTEN_MS = 300; // between two questions while time moves
const POLL_MS = 200; // for an answer that is being worked out

/** @type {CreateView} */
export function createExplain(store) {
  const chain = make("div", { class: "anb-chain" });
  const lost = make("div", { class: "anb-lost" });
  const find = makeButton("Show critical path", () => toggle(), { "aria-pressed": "false" });
  const words = make("span", { class: "anb-hint", role: "status" });
  const path = make("div", { class: "anb-critical" });
  const changes = make("div", { class: "anb-what-if" });
  const element = make(
    "section", { class: "anb-explain", "aria-label": "Explain" },
    make("h4", { text: "Why does it wait?" }), chain, make("h4", { text: "Time lost" }), lost,
    make("h4", { text: "Critical path" }), make("div", { class: "anb-row" }, find, words), path, changes,
  );
  element.querySelectorAll("h4").forEach((head, k) => k < 2 && head.append(" ", createMoment(store, () => [waits, losses][k].reply?.at_ps)));
  let visible = false;
  let search = 0; // number of the search whose answer is wanted
  let gone = false;

  /** @param {number} part @param {number} whole */
  const percent = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(1)}%`;
  /** @param {unknown} error */
  const failed = (error) => {
    const text = error instanceof Error ? error.message : String(error);
    return make("p", { class: text.includes("needs the kernel") ? "anb-hint" : "anb-failed", text });
  };
  /** @param {number} ms */
  const pause = (ms) => new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
  /** @param {string} text @param {string} to @param {string} [title] */
  const link = (text, to, title = to) => makeLink(text, () => store.select(to), { title });

  // Why, and time lost: about the selection at the cursor ------------------------------

  const waits = createAsker(store, "why", {
    every: OFTEN_MS, answered: (reply, error) => chain.replaceChildren(...(reply ? showWhy(reply) : [failed(error)])),
  });
  const losses = createAsker(store, "lost_time", {
    every: OFTEN_MS, answered: (reply, error) => lost.replaceChildren(...(reply ? showLost(reply) : [failed(error)])),
  });
  function draw() {
    find.disabled = !store.state?.events;
    if (!visible || !store.state) return;
    const { at_ps, key } = momentOf(store);
    for (const asker of [waits, losses]) asker.want({ path: store.selection, at_ps }, `${store.selection} ${key}`);
  }
  /** @param {Answer<"why">} answer */
  function showWhy({ steps, now_ps: now, path: about }) {
    const items = steps.map(({ text, path: to, since_ps: since }) => {
      const item = make("li", {}, link(text, to));
      if (since >= 0 && now > since) item.append(make("span", { class: "anb-hint", text: ` for ${formatTime(now - since, 3)}` }));
      return item;
    });
    const title = store.selection ? about : `${about} (waits longest)`;
    return [makeHint(title), make("ol", { "aria-label": "Chain of waits" }, ...items)];
  }
  /** @param {Cause[]} rows @param {number} total */
  function bars(rows, total) {
    const cells = rows.flatMap(({ cause, means, ps }) => [
      make("span", { text: cause, title: means }),
      make("span", { class: "anb-cause-bar", title: means }, make("i", {
        style: `width: ${(100 * ps) / Math.max(1, total)}%; --anb-colour: ${causeColour(cause)}`,
      })),
      make("span", { text: `${percent(ps, total)} · ${formatTime(ps, 2)}` }),
    ]);
    return make("div", { class: "anb-causes" }, ...cells);
  }
  /** @param {Answer<"lost_time">} answer */
  function showLost({ of, total_ps: total, rows }) {
    return [makeHint(of), bars(rows, total)];
  }

  // The critical path ---------------------------------------------------------------------

  async function toggle() {
    search += 1;
    const mine = search;
    if (store.path) {
      hide();
      return;
    }
    const about = { at_ps: momentOf(store).at_ps };
    find.setAttribute("aria-pressed", "true");
    path.replaceChildren();
    changes.replaceChildren();
    try {
      const found = await patiently("critical_path", about, (part) => settle(words, `searching: ${Math.round(100 * part)}%`), () => mine !== search);
      if (!found || gone) return;
      store.path = { ...found.arrays, names: found.names };
      find.textContent = "Hide critical path";
      words.textContent = `${plural(found.segments, "segment")}, ${formatTime(found.time_ps, 4)}`;
      path.replaceChildren(...showPath(found));
      element.scrollTop = find.offsetTop - element.offsetTop - 4;
      store.emit("change");
      await suggest(about, () => mine === search);
    } catch (error) {
      if (mine === search) {
        words.textContent = "";
        path.replaceChildren(failed(error));
        find.setAttribute("aria-pressed", "false");
      }
    }
  }
  /** Show the changes that may matter most; the path stays where nobody can say them. @param {Options} about @param {() => boolean} wanted */
  async function suggest(about, wanted) {
    const table = await store.ask("what_if", about).catch(failed);
    if (!wanted()) return;
    if (table instanceof Node) changes.replaceChildren(table);
    else if (!table.working) {
      const [items, runs] = showChanges(table.rows);
      changes.replaceChildren(...items);
      for (const run of table.quick ? runs : []) if (wanted()) await run();
    }
  }
  function hide() {
    store.path = null;
    find.textContent = "Show critical path";
    find.setAttribute("aria-pressed", "false");
    words.textContent = "";
    path.replaceChildren();
    changes.replaceChildren();
    store.emit("change");
  }
  /**
   * Ask until the answer is there; null when nobody wants it any more.
   * @template {"critical_path" | "what_if_run"} Q
   * @param {Q} question
   * @param {Options} options
   * @param {(part: number) => void} progress
   * @param {() => boolean} unwanted
   */
  async function patiently(question, options, progress, unwanted) {
    for (;;) {
      const answer = await store.ask(question, options);
      if (unwanted() || gone) return null;
      if (!answer.working) return answer;
      progress(answer.progress ?? 0);
      await pause(POLL_MS);
    }
  }
  /** @param {Answer<"critical_path">} found */
  function showPath(found) {
    const total = found.time_ps;
    const rows = found.top.map((top) => {
      const mark = make("i", { class: "anb-mark", style: `background: ${causeColour(top.cause)}` });
      const when = `${formatTime(top.start_ps, 3)} to ${formatTime(top.start_ps + top.ps, 3)}`;
      const to = link("", top.path, `${top.title}, ${when}`);
      to.append(mark, top.text);
      const cell = make("td", {}, to);
      const jump = makeLink(formatTime(top.ps, 3), () => store.scrub(top.start_ps + top.ps / 2), { title: `show ${when}` });
      return make("tr", {}, cell, make("td", { class: "anb-number" }, jump));
    });
    return [
      bars(found.causes, total),
      make("h5", { text: "Longest segments" }),
      make("table", { "aria-label": "Longest segments of the critical path" }, make("tbody", {}, ...rows)),
    ];
  }

  // What if -----------------------------------------------------------------------------------

  /**
   * A row for each change, and what runs it.
   * @param {Change[]} rows
   * @returns {[HTMLElement[], (() => Promise<void>)[]]}
   */
  function showChanges(rows) {
    if (!rows.length) return [[], []];
    /** @type {(() => Promise<void>)[]} */
    const runs = [];
    const items = rows.map((row) => {
      const guessed = row.estimate_ps !== null;
      const estimate = make("span", { text: row.estimate_ps !== null ? `about ${gain(row.estimate_ps, row)}` : `now ${row.was}` });
      const exact = make("span", { class: "anb-exact" });
      const start = () => runIt(row, estimate, exact, run);
      const run = makeButton("run it", start, { class: "anb-button anb-small-button", "aria-label": `Run with ${row.path} ${row.value}` });
      exact.append(run);
      runs.push(start);
      const least = guessed ? `at least ${formatTime(row.at_least_ps, 3)}; now ${row.was}` : `${formatTime(row.on_path_ps, 3)} of the critical path depend on it`;
      return make("li", { title: least }, `${row.path} ${row.value}`, make("div", { class: "anb-estimate" }, estimate, exact));
    });
    const how = rows[0].estimate_ps === null ? "the whole run, from the start with the change" : `estimates for ${store.state?.finished ? "the run" : "the time so far"}`;
    return [[make("h5", { text: `What if: ${how}` }), make("ul", { "aria-label": "What if" }, ...items)], runs];
  }
  /** @param {number} ps @param {Change} change */
  const gain = (ps, { before_ps: before }) => `${ps < before ? "−" : "+"}${percent(Math.abs(ps - before), before)}`;
  /** @param {Change} row @param {HTMLElement} estimate @param {HTMLElement} cell @param {HTMLButtonElement} button */
  async function runIt(row, estimate, cell, button) {
    button.disabled = true;
    const options = { path: row.path, value: row.value };
    try {
      const answer = await patiently("what_if_run", options, (part) => settle(button, `${Math.round(100 * part)}%`), () => !cell.isConnected);
      if (!answer) return;
      const run = answer.row; // of the whole run, both of them
      if (run.estimate_ps !== null) estimate.textContent = `about ${gain(run.estimate_ps, run)}`;
      const text = `exactly ${gain(run.exact_ps, run)} · ${formatTime(run.exact_ps, 3)}`;
      cell.replaceChildren(make("b", { text, title: `the whole run took ${formatTime(run.before_ps, 3)}` }));
      const moved = run.causes.filter(([, old, now]) => old !== now).map(([cause, old, now]) => `${cause} ${now < old ? "−" : "+"}${formatTime(Math.abs(now - old), 3)}`);
      if (moved.length) cell.closest("li")?.append(make("div", { class: "anb-hint", text: moved.join(", ") }));
    } catch (error) {
      cell.replaceChildren(failed(error));
    }
  }

  const stops = [
    store.on("scene", () => {
      for (const asker of [waits, losses]) asker.again();
      if (store.path) hide();
    }),
    // The route of a selected line is drawn, which comes with its inspection.
    store.on("inspection", () => store.selection.startsWith("line[") && store.emit("change")),
  ];
  return {
    element,
    draw,
    /** @param {boolean} now */
    shown(now) {
      visible = now;
      draw();
    },
    destroy() {
      gone = true;
      for (const asker of [waits, losses]) asker.destroy();
      for (const stop of stops) stop();
    },
  };
}
