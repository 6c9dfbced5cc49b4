// Why something waits, where time went, the critical path, and what would help.
// Drawing the path over the topology and the timelines stands in path.js.

const OFTEN_MS = 300; // between two questions while time moves
const POLL_MS = 200; // for an answer that is being worked out

export function createExplain(store, theme, { make, formatTime, column, causeColour }) {
  const chain = make("div", { class: "anb-chain" });
  const lost = make("div", { class: "anb-lost" });
  const find = make("button", {
    type: "button", class: "anb-button", text: "Show critical path", "aria-pressed": "false", onclick: () => toggle(),
  });
  const words = make("span", { class: "anb-hint", role: "status" });
  const path = make("div", { class: "anb-critical" });
  const changes = make("div", { class: "anb-what-if" });
  const element = make(
    "section", { class: "anb-explain", "aria-label": "Explain" },
    make("h4", { text: "Why does it wait?" }), chain, make("h4", { text: "Time lost" }), lost,
    make("h4", { text: "Critical path" }), make("div", { class: "anb-row" }, find, words), path, changes,
  );
  let visible = false;
  let asked = ""; // what the answers shown are about
  let asking = false;
  let askedAt = 0;
  let timer = 0;
  let search = 0; // number of the search whose answer is wanted
  let found = null; // critical path
  let gone = false;

  const at = () => (store.following ? null : store.cursor);
  const percent = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(1)}%`;
  const hint = (text) => make("p", { class: "anb-hint", text });
  const failed = ({ message }) =>
    make("p", { class: message.includes("needs the kernel") ? "anb-hint" : "anb-failed", text: message });
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const link = (text, to, title = to) =>
    make("button", { type: "button", class: "anb-child", text, title, onclick: () => store.select(to) });

  // Why, and time lost: about the selection at the cursor ------------------------------

  function draw() {
    const key = [store.selection, at(), store.state?.events].join();
    find.disabled = !store.state?.events;
    if (!visible || key === asked || asking || !store.state) return;
    const wait = askedAt + OFTEN_MS - performance.now();
    if (wait > 0 && (store.playing || askedAt > 0)) {
      clearTimeout(timer);
      timer = setTimeout(draw, wait);
      return;
    }
    look(key);
  }
  async function look(key) {
    asking = true;
    askedAt = performance.now();
    const about = { path: store.selection, at_ps: at() };
    const ask = (question, show) => store.ask(question, about).then(show, (error) => [failed(error)]);
    const [waits, losses] = await Promise.all([ask("why", showWhy), ask("lost_time", showLost)]);
    if (gone) return;
    asked = key;
    asking = false;
    chain.replaceChildren(...waits);
    lost.replaceChildren(...losses);
    draw(); // it may be another moment by now
  }
  function showWhy({ steps, now_ps: now, path: about }) {
    const items = steps.map(({ text, path: to, since_ps: since }) => {
      const item = make("li", {}, link(text, to));
      if (since >= 0) item.append(make("span", { class: "anb-hint", text: ` for ${formatTime(Math.max(0, now - since), 3)}` }));
      return item;
    });
    const title = store.selection ? about : `${about} (waits longest)`;
    return [hint(`${title}, at ${formatTime(now, 3)}`), make("ol", { "aria-label": "Chain of waits" }, ...items)];
  }
  function bars(rows, total, colour) {
    const cells = rows.flatMap(({ cause, means, ps }) => [
      make("span", { text: cause, title: means }),
      make("span", { class: "anb-cause-bar", title: means }, make("i", {
        style: `width: ${(100 * ps) / Math.max(1, total)}%; --anb-colour: ${colour(cause)}`,
      })),
      make("span", { text: `${percent(ps, total)} · ${formatTime(ps, 2)}` }),
    ]);
    return make("div", { class: "anb-causes" }, ...cells);
  }
  function showLost({ of, total_ps: total, rows }) {
    return [hint(of), bars(rows, total, causeColour)];
  }

  // The critical path ---------------------------------------------------------------------

  async function toggle() {
    search += 1;
    const mine = search;
    if (store.path) return hide();
    const about = { at_ps: at() };
    find.setAttribute("aria-pressed", "true");
    path.replaceChildren();
    changes.replaceChildren();
    try {
      found = await patiently("critical_path", about, (part) => (words.textContent = `searching: ${Math.round(100 * part)}%`), () => mine !== search);
      if (!found || gone) return undefined;
      const types = [Float64Array, Float64Array, Int32Array, Int32Array, Int32Array, Uint32Array, Int32Array];
      const [start, end, block, links, ranks, cause, sm] = found.buffers.map((buffer, k) => column(types[k], buffer));
      store.path = { start, end, block, links, ranks, cause, sm, names: found.names };
      find.textContent = "Hide critical path";
      words.textContent = `${found.segments.toLocaleString("en-US")} segments, ${formatTime(found.time_ps, 4)}`;
      path.replaceChildren(...showPath());
      element.scrollTop = find.offsetTop - element.offsetTop - 4;
      store.emit("change");
      const table = await store.ask("what_if", about);
      if (mine !== search || table.working) return undefined;
      const [items, runs] = showChanges(table.rows);
      changes.replaceChildren(...items);
      for (const run of table.quick ? runs : []) if (mine === search) await run();
    } catch (error) {
      if (mine === search) {
        words.textContent = "";
        path.replaceChildren(failed(error));
        find.setAttribute("aria-pressed", "false");
      }
    }
    return undefined;
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
  /** Ask until the answer is there; null when nobody wants it any more. */
  async function patiently(question, options, progress, unwanted) {
    for (;;) {
      const answer = await store.ask(question, options);
      if (unwanted() || gone) return null;
      if (!answer.working) return answer;
      progress(answer.progress);
      await pause(POLL_MS);
    }
  }
  function showPath() {
    const total = found.time_ps;
    const rows = found.top.map((top) => {
      const mark = make("i", { class: "anb-mark", style: `background: ${causeColour(top.cause)}` });
      const when = `${formatTime(top.start_ps, 3)} to ${formatTime(top.start_ps + top.ps, 3)}`;
      const to = link("", top.path, `${top.title}, ${when}`);
      to.append(mark, top.text);
      const cell = make("td", {}, to);
      const jump = make("button", {
        type: "button", class: "anb-child", text: formatTime(top.ps, 3), title: `show ${when}`,
        onclick: () => store.scrub(top.start_ps + top.ps / 2),
      });
      return make("tr", {}, cell, make("td", { class: "anb-number" }, jump));
    });
    return [
      bars(found.causes, total, causeColour),
      make("h5", { text: "Longest segments" }),
      make("table", { "aria-label": "Longest segments of the critical path" }, make("tbody", {}, ...rows)),
    ];
  }

  // What if -----------------------------------------------------------------------------------

  function showChanges(rows) {
    if (!rows.length) return [[], []];
    const runs = [];
    const items = rows.map((row) => {
      const guessed = row.estimate_ps !== null;
      const estimate = make("span", { text: guessed ? `about ${gain(row.estimate_ps, row)}` : `now ${row.was}` });
      const exact = make("span", { class: "anb-exact" });
      const run = make("button", {
        type: "button", class: "anb-button anb-small-button", text: "run it", "aria-label": `Run with ${row.path} ${row.value}`,
        onclick: () => runIt(row, estimate, exact, run),
      });
      exact.append(run);
      runs.push(() => runIt(row, estimate, exact, run));
      const least = guessed ? `at least ${formatTime(row.at_least_ps, 3)}; now ${row.was}` : `of the critical path ${formatTime(row.on_path_ps, 3)} depend on it`;
      return make("li", { title: least }, `${row.path} ${row.value}`, make("div", { class: "anb-estimate" }, estimate, exact));
    });
    const how = rows[0].estimate_ps === null ? "the whole run, from the start with the change" : `estimates for ${store.state?.finished ? "the run" : "the time so far"}`;
    return [[make("h5", { text: `What if: ${how}` }), make("ul", { "aria-label": "What if" }, ...items)], runs];
  }
  const gain = (ps, { before_ps: before }) => `${ps < before ? "−" : "+"}${percent(Math.abs(ps - before), before)}`;
  async function runIt(row, estimate, cell, button) {
    button.disabled = true;
    const options = { path: row.path, value: row.value };
    try {
      const progress = (part) => (button.textContent = `${Math.round(100 * part)}%`);
      const answer = await patiently("what_if_run", options, progress, () => !cell.isConnected);
      if (!answer) return;
      const run = answer.row; // of the whole run, both of them
      if (run.estimate_ps !== null) estimate.textContent = `about ${gain(run.estimate_ps, run)}`;
      const text = `exactly ${gain(run.exact_ps, run)} · ${formatTime(run.exact_ps, 3)}`;
      cell.replaceChildren(make("b", { text, title: `the whole run took ${formatTime(run.before_ps, 3)}` }));
      const moved = run.causes.filter(([, old, now]) => old !== now).map(([cause, old, now]) => `${cause} ${now < old ? "−" : "+"}${formatTime(Math.abs(now - old), 3)}`);
      if (moved.length) cell.closest("li").append(make("div", { class: "anb-hint", text: moved.join(", ") }));
    } catch (error) {
      cell.replaceChildren(failed(error));
    }
  }

  const stops = [
    store.on("scene", () => {
      asked = "";
      if (store.path) hide();
    }),
    // The way of a selected line is drawn, which comes with its inspection.
    store.on("inspection", () => store.selection.startsWith("line[") && store.emit("change")),
  ];
  return {
    element,
    draw,
    shown(now) {
      visible = now;
      draw();
    },
    destroy() {
      gone = true;
      clearTimeout(timer);
      for (const stop of stops) stop();
    },
  };
}
