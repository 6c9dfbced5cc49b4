// @ts-check
// Messages between a view and the kernel in the page: every message gets an answer. Counterpart of widgets/connection.py.

import { COMMANDS } from "./commands.js";
import { InputError, near } from "./errors.js";
import { needsPython } from "./needs.js";
import { int, optional, required, typeName } from "./options.js";
import { PLAYING } from "./session.js";
import { repr, str } from "./text.js";

/** @import { Answers, Feed, Sent } from "./types" */

const [MOST_UNREAD, MOST_UNREAD_AT_REST] = [3, 6]; // messages that a view may lag behind: while a run plays, and at rest

/** The connection of one view. */
export class Connection {
  /**
   * @param {Feed} feed
   * @param {Answers} answers
   * @param {Answers} fixed those that never change, where nothing else answers
   * @param {(message: object, buffers: DataView[]) => void} send
   */
  constructor(feed, answers, fixed, send) {
    this._feed = feed;
    this._session = feed.session;
    this._answers = answers;
    this._fixed = fixed;
    this._send = send;
    this.ready = false;
    this._unread = 0;
    this._behind = false;
    this._session.attach(() => this.changed());
  }

  /** Send the state; where the view lags behind, remember to. */
  changed() {
    this._feed.mark();
    if (!this.ready) return;
    const most = this._session.playing ? MOST_UNREAD : MOST_UNREAD_AT_REST;
    this._behind = this._unread >= most;
    if (this._behind) return;
    this._unread += 1;
    this._write(this._feed.state());
  }

  /** Whatever a message holds, the answer is a message. @param {any} content */
  receive(content) {
    try {
      this._answer(content);
    } catch (error) {
      this._send({ type: "error", text: /** @type {Error} */ (error).message }, []);
    }
  }

  /** @param {any} content */
  _answer(content) {
    const kind = required(content, "type");
    if (kind === "ready") {
      [this.ready, this._unread] = [true, 0];
      this._write(this._feed.scene());
      this.changed();
    } else if (kind === "away") {
      this.ready = false;
      this._send({ type: "roll" }, []);
    } else if (kind === "read") {
      this._unread = Math.max(0, this._unread - 1);
      if (this._behind) this.changed();
    } else if (kind === "fine") {
      this._unread += 1;
      this._write(this._feed.state({ fine: true }));
    } else if (kind === "timeline") this._write(this._feed.timeline());
    else if (kind === "inspect") this._send({ type: "inspection", for: required(content, "path"), ...this._inspection(content) }, []);
    else if (kind === "ask") this._write(this._answerTo(content));
    else if (typeof kind === "string" && (PLAYING.includes(kind) || Object.hasOwn(COMMANDS, kind))) {
      const { type, ...options } = content;
      this._session.ask(type, options);
    } else throw new InputError(`unknown message ${repr(kind)}`, { where: "workbench" });
  }

  /** Answer a view's question; an error is an answer, too. @param {any} content @returns {Sent} */
  _answerTo(content) {
    const about = { type: "answer", id: required(content, "id") };
    try {
      const options = named(optional(content, "options", {}));
      const [meta, buffers] = this._known(str(required(content, "question")))(this._feed, options);
      const held = Object.hasOwn(options, "at_ps") ? { at_ps: this._heldPs(options.at_ps) } : {};
      return [{ ...meta, ...about, ...held }, buffers];
    } catch (error) {
      return [{ ...about, error: /** @type {Error} */ (error).message }, []];
    }
  }

  /** What answers a question. @param {string} question */
  _known(question) {
    for (const answers of [this._answers, this._fixed]) if (Object.hasOwn(answers, question)) return answers[question];
    const { questions } = this._feed.live;
    if (questions.includes(question)) needsPython(question);
    throw new InputError(`unknown question ${repr(question)}`, { where: "workbench", hint: near(question, questions) });
  }

  /** The time that an answer about the cursor (null: now) holds for. @param {number | null} at_ps */
  _heldPs(at_ps) {
    const now_ps = this._session.sim.now_ps();
    return at_ps === null ? now_ps : Math.min(int(at_ps), now_ps);
  }

  /** @param {any} content */
  _inspection({ path, at_ps = null }) {
    const held = { at_ps: this._heldPs(at_ps) };
    try {
      return { found: this._session.inspect(str(path), at_ps), ...held };
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      return { error: error.message, ...held };
    }
  }

  /** @param {Sent} message */
  _write([meta, buffers]) {
    this._send(meta, buffers);
  }
}

/** Options by name: `dict(value)`. @param {unknown} value @returns {Record<string, any>} */
function named(value) {
  if (typeof value !== "object" || value === null) throw new TypeError(`'${typeName(value)}' object is not iterable`);
  return { ...value };
}
