// @ts-check
// What a view of a run by cache lines is sent: only what it lacks, as columns. Counterpart of widgets/feed/lines.py.

import { pack } from "../messages.js";
import { bytesOf, sum } from "../numpy.js";
import { fabricOf } from "./fabric.js";
import { Feed } from "./feed.js";
import { HOP, ISSUE, LAUNCH, RETURN } from "./gpu_numbers.js";
import { pictureOf } from "./layout_bundles.js";

/** @import { Sent, Session } from "./types" */
/** @import { NewFlights } from "./feed.js" */

const COLUMNS = 512; // of an activity strip: about as many as a screen has room for
const MOST_CELLS = 1_000_000; // of all activity together
const MOST_WAIT = 2 ** 32 - 1;

/** The feed of a run by cache lines. */
export class LineFeed extends Feed {
  /** @param {Session} session */
  constructor(session) {
    super(session);
    const { links, route_links } = this.sim.engine.tables;
    const { gpus } = this.live.about;
    this.fabric = fabricOf(this.sim.engine);
    /** Links that lie on any route of the program, ascending. @type {number[]} */
    this.used = [...new Set(route_links.column("value"))].sort((a, b) => a - b);
    /** Of each rank the used links that leave it. @type {number[][]} */
    this.out_of = gpus.map(() => []);
    for (const link of this.used) {
      const rank = this.fabric.rankOf.get(links.at.src(link));
      if (rank !== undefined) this.out_of[rank].push(link);
    }
    /** How many pictures there have been, and the last one. */
    this.picture = 1;
    /** @type {string[]} */
    this.opened = [];
    this.layout = pictureOf(this.sim.engine, this.fabric, this.used);
  }

  /** Show another picture: with instances opened, or one of them alone. @param {string[]} opened @param {string} focus */
  look(opened, focus) {
    this.layout = pictureOf(this.sim.engine, this.fabric, this.used, { opened, focus });
    this.opened = opened;
    this.picture += 1;
  }

  /** @override */
  mark() {
    this._forget(this.sim.engine.tables.recorder.at.flights(0));
  }

  /** The part of the scene that places everything; the column is the bundle of each link. @returns {Sent} */
  drawn() {
    const { meta, bundles, bundle_of } = this.layout;
    const { bandwidth_Bps } = this.sim.engine.tables.links.at;
    const rates = bundles.map((links, k) => ({ ...meta.bundles[k], rate: links.reduce((whole, link) => whole + bandwidth_Bps(link), 0) }));
    return [{ ...meta, bundles: rates, picture: this.picture, opened: this.opened }, pack("picture", { bundle_of })];
  }

  /** @override @returns {Sent} */
  _scene() {
    const { engine } = this.sim;
    const [drawn, buffers] = this.drawn();
    return [{ ...this.live.about.scene, blocks: [...engine.tables.blocks.column("gpu")], recording: engine.recorder.on(), ...drawn }, buffers];
  }

  /** @override @param {{ fine: boolean, most: number | null }} settings @returns {Sent} */
  _news(settings) {
    const { engine } = this.sim;
    engine.recorder.mark();
    const [news, buffers] = super._news(settings);
    return [
      {
        changed: this._changed(),
        recording: !engine.tables.recorder.at.paused(0),
        gaps: engine.recorder.on() ? this.sim.unrecorded() : [],
        oldest_ps: engine.recorder.oldest_ps(),
        ...news,
      },
      buffers,
    ];
  }

  /** @override @param {number} since @returns {NewFlights} */
  _flights(since) {
    const { first, total, table: { at }, row } = this.sim.engine.recorder.since(since);
    return [
      first,
      total - first,
      total,
      (one_in) => {
        const rows = Array.from({ length: Math.ceil((total - first) / one_in) }, (_, k) => row(first + k * one_in));
        const start = rows.map(at.start_ps);
        return pack("state", {
          start,
          end: rows.map(at.end_ps),
          what: rows.map((one) => at.link(one) * 16 + at.kind(one)),
          wait: rows.map((one, k) => Math.min(start[k] - at.queued_ps(one), MOST_WAIT)),
        });
      },
    ];
  }

  /** How busy memories and links were, folded to as many columns as are shown: rows are GPUs or bundles. @override @returns {Sent} */
  timeline() {
    const { recorder } = this.sim.engine;
    const bins = recorder.bins();
    const columns = Math.min(COLUMNS, Math.max(16, Math.floor(MOST_CELLS / (this.layout.bundles.length + 4 * this.out_of.length))));
    const fold = Math.max(1, Math.ceil(bins / columns));
    const width = Math.ceil(bins / fold);
    const padded = new Float64Array(width * fold);
    /** @param {Float64Array[]} rows */
    const strip = (rows) =>
      bytesOf(
        rows.map((row) => {
          padded.set(row);
          const means = new Float64Array(width);
          for (let column = 0; column < width; column++) means[column] = sum(padded, column * fold, fold) / fold;
          return means;
        }),
      );
    const meta = { type: "timeline", now_ps: this.sim.now_ps(), left_out: 0, bin_ps: bins ? recorder.bin_ps() * fold : 1, bins: width, picture: this.picture };
    if (!bins) return [meta, pack("timeline", {})];
    const strips = Object.fromEntries(["issue", "l2", "hbm"].map((name) => [name, strip(recorder.activity(name))]));
    return [meta, pack("timeline", { ...strips, link: strip(recorder.busy(this.layout.bundles)), out: strip(recorder.busy(this.out_of)) })];
  }

  /** Name what the event handled last was about. */
  _changed() {
    const { clock, blocks, sms, requests } = this.sim.engine.tables;
    const { about } = this.live;
    if (clock.at.events(0) === 0) return "";
    const [kind, row] = [clock.at.last_kind(0), clock.at.last_arg(0)];
    if (kind === HOP) {
      const { bundle_of, meta } = this.layout;
      const at = bundle_of[requests.at.link(row)];
      if (at >= 0) return meta.bundles[at].name;
      return at < -1 ? meta.boxes[-2 - at].name : "";
    }
    if (kind === LAUNCH) return about.nodes[about.gpus[blocks.at.gpu(row)]];
    if (kind === ISSUE) return about.nodes[about.gpus[sms.at.gpu(row)]];
    return about.nodes[about.gpus[kind === RETURN ? requests.at.gpu(row) : requests.at.target(row)]];
  }
}
