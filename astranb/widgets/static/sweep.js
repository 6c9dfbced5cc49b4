// @ts-check
// A sweep: how far it is, pictures of its points in tabs, and the point that is chosen beside them.

import { createCells } from "./cells.js";
import { createChosen } from "./chosen.js";
import { createEffects } from "./effects.js";
import { createEmbed } from "./embed.js";
import { formatCount, plural } from "./format.js";
import { createFront } from "./front.js";
import { watchKernel } from "./heartbeat.js";
import { createParallel } from "./parallel.js";
import { createPoints } from "./points.js";
import { keepClicks } from "./pressing.js";
import { createRanked } from "./ranked.js";
import { createTheme, make, makeButton, settle } from "./theme.js";

/** @import { Host, Model, StudyTraits } from "./types" */

/** @param {Model<StudyTraits>} model @param {Host | null} host none: there is no kernel @param {AbortSignal} signal */
export function createSweep(model, host, signal) {
  const element = make("div", { class: "anb-workbench anb-study" });
  keepClicks(element);
  const theme = createTheme(element);
  const kernel = watchKernel(model, (text, gone) => {
    failed.hidden = !text;
    settle(failed, gone ? `${text}; run the cells again` : text);
  });
  const points = createPoints({
    choose(number) {
      model.set("_chosen", number);
      kernel.save();
    },
  });
  const chosen = createChosen(points, {
    open: host ? (point) => kernel.send({ type: "open", point }) : null,
    ask: (point) => kernel.send({ type: "detail", point }),
  });
  const title = make("h3", { class: "anb-title" });
  const counts = make("span", { class: "anb-hint", role: "status" });
  const stop = makeButton("Stop", () => kernel.send({ type: "stop" }), { title: "end the sweep after the points that are under way" });
  const meter = make("progress", { class: "anb-sweep-progress" });
  const stages = make("span", { class: "anb-hint" });
  const header = make("div", { class: "anb-row anb-header" }, title, counts, meter, stop);
  /** @type {[string, { element: HTMLElement, draw(): void }][]} */
  const views = [
    ["Pareto front", createFront(points, theme)],
    ["Parallel coordinates", createParallel(points, theme)],
    ["Heat map", createCells(points, theme)],
    ["Sensitivity", createEffects(points)],
    ["Table", createRanked(points)],
  ];
  let open = 0;
  const tabs = views.map(([name], k) => makeButton(name, () => turn(k), { class: "anb-tab", role: "tab" }));
  const list = make("div", { class: "anb-tabs", role: "tablist", "aria-label": "Pictures of the sweep" }, ...tabs);
  const panels = make("div", { class: "anb-study-stage", role: "tabpanel" }, ...views.map(([, view]) => view.element));
  const below = make("div", { class: "anb-study-run" });
  const failed = make("p", { class: "anb-failed", hidden: "" });
  element.append(header, stages, failed, list, make("div", { class: "anb-study-main" }, panels, chosen.element));
  const whole = make("div", { class: "anb-several" }, element, below);
  const embed = host ? createEmbed(below, host, signal) : null;

  /** @param {number} k */
  function turn(k) {
    open = k;
    for (const [at, tab] of tabs.entries()) {
      tab.setAttribute("aria-selected", String(at === k));
      tab.tabIndex = at === k ? 0 : -1;
      views[at][1].element.hidden = at !== k;
    }
    draw();
  }
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    turn((open + step + views.length) % views.length);
    tabs[open].focus();
  });
  let asked = 0;
  function draw() {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      views[open][1].draw();
      chosen.draw();
    });
  }
  function progress() {
    const { stage = "", done = 0, total = 0, left_s = null, running = false, stopped = false, error = "" } = model.get("_progress") ?? {};
    const { message } = points;
    const failures = message?.counts.failed ? `, ${formatCount(message.counts.failed)} failed` : "";
    const left = left_s === null ? "" : `, ${duration(left_s)} left`;
    const all = message ? plural(message.points, "point") : "";
    const waiting = message?.counts["not run"];
    if (running && stopped) settle(counts, `stopping: ${formatCount(done)} of ${formatCount(total)}${failures}`);
    else if (running && total && done < total) settle(counts, `${stage ? `${stage}: ` : ""}${formatCount(done)} of ${formatCount(total)}${failures}${left}`);
    else if (running) settle(counts, total ? `${all}${failures}: analysing` : "starting");
    else settle(counts, `${all}${failures}${waiting ? `, ${formatCount(waiting)} not run` : ""}${stopped ? ": stopped" : ""}`);
    meter.hidden = stop.hidden = !running;
    stop.disabled = stopped;
    if (total) {
      meter.max = total;
      meter.value = done;
    } else meter.removeAttribute("value");
    failed.hidden = !error;
    settle(failed, error);
  }
  function opened() {
    const { view = "", error = "", point = -1 } = model.get("_opened") ?? {};
    embed?.(view);
    chosen.opened(point);
    if (error) {
      failed.hidden = false;
      settle(failed, `point ${point}: ${error}`);
    }
  }
  /** @param {any} message checked by its type @param {DataView[]} buffers */
  function received(message, buffers) {
    if (message.type === "detail") chosen.answered(message);
    if (message.type !== "study") return;
    points.update(message, buffers);
    settle(title, message.name);
    settle(stages, message.stages.join(" · "));
    stages.hidden = !message.stages.length;
    progress();
  }
  const choose = () => points.show(model.get("_chosen") ?? -1);
  /** @type {[`change:${keyof StudyTraits}`, () => void][]} */
  const heard = [["change:_progress", progress], ["change:_chosen", choose], ["change:_opened", opened]];
  theme.changed = draw;
  const end = points.listen(draw);
  model.on("msg:custom", received);
  for (const [name, listener] of heard) model.on(name, listener);
  turn(0);
  choose();
  progress();
  opened();
  kernel.send({ type: "ready" });
  return {
    element: whole,
    destroy() {
      kernel.stop();
      end();
      theme.destroy();
      model.off("msg:custom", received);
      for (const [name, listener] of heard) model.off(name, listener);
    },
  };
}

/** @param {number} seconds */
function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
