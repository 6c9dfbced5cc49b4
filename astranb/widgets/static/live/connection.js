// @ts-check
// Messages between a view and the kernel in the page: every message gets an answer. Counterpart of widgets/connection.py,
// but that answers may come later: questions are answered in order.

import { COMMANDS } from "./commands.js";
import { InputError, near } from "./errors.js";
import { needsPython } from "./needs.js";
import { int, optional, required, typeName } from "./options.js";
import { PLAYING } from "./session.js";
import { breathe } from "./breathing.js";
import { SLICE_MS, Unready, slice } from "./steps.js";
import { repr, str } from "./text.js";

/** @import { Answers, Feed, Sent } from "./types" */
/** @import { Steps } from "./steps.js" */

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
    /** Not answered yet. @type {any[]} */
    this._questions = [];
    this._answering = false;
    this._answered = Promise.resolve();
    this._spent_ms = 0; // on answers since the page has done other work
    this._session.attach(() => this.changed());
  }

  /** Send the state; where the view lags behind, remember to. */
  changed() {
    if (!this._session.work) this._feed.mark();
    if (!this.ready) return;
    const most = this._session.playing ? MOST_UNREAD : MOST_UNREAD_AT_REST;
    this._behind = this._unread >= most;
    if (this._behind) return;
    this._unread += 1;
    this._write(this._feed.state());
  }

  /** Whatever a message holds, the answer is a message. @param {any} content */
  receive(content) {
    this._attempt(() => {
      const kind = required(content, "type");
      if (kind === "ask" || kind === "inspect") {
        this._questions.push({ ...content });
        this._answerAll();
      } else if (kind === "away") {
        this.ready = false;
        this._send({ type: "roll" }, []);
      } else if (kind === "read") {
        this._unread = Math.max(0, this._unread - 1);
        if (this._behind) this.changed();
      } else if (["ready", "fine", "timeline"].includes(kind)) this._session.free(() => this._attempt(() => this._tell(kind)));
      else if (typeof kind === "string" && (PLAYING.includes(kind) || Object.hasOwn(COMMANDS, kind))) {
        const { type, ...options } = content;
        this._session.ask(type, options);
      } else throw new InputError(`unknown message ${repr(kind)}`, { where: "workbench" });
    });
  }

  /** @param {() => void} call */
  _attempt(call) {
    try {
      call();
    } catch (error) {
      this._send({ type: "error", text: /** @type {Error} */ (error).message }, []);
    }
  }

  /** Send what the run is now. @param {string} kind */
  _tell(kind) {
    if (kind === "ready") {
      [this.ready, this._unread] = [true, 0];
      this._write(this._feed.scene());
      this.changed();
    } else if (kind === "fine") {
      this._unread += 1;
      this._write(this._feed.state({ fine: true }));
    } else this._write(this._feed.timeline());
  }

  // Questions -----------------------------------------------------------------

  /** Resolves when every question is answered, but for those that wait for the machine. */
  async rest() {
    while (this._answering) await this._answered;
  }

  get waiting() {
    return this._questions.length > 0;
  }

  /** Answer what is asked, in order; at once where nothing must be worked out first. */
  _answerAll() {
    if (this._answering) return;
    if (this._session.work) this._session.free(() => this._answerAll());
    else this._answered = this._answerSome();
  }

  /** Answer until a question must wait for the machine. */
  async _answerSome() {
    this._answering = true;
    while (this._questions.length && !this._session.work) {
      if (this._spent_ms > SLICE_MS) {
        await breathe();
        this._spent_ms = 0;
        continue; // something may have the machine to itself now
      }
      if (!this._spent_ms) breathe().then(() => (this._spent_ms = 0));
      const began_ms = performance.now();
      const [content] = this._questions;
      /** @type {Sent | Promise<Sent>} */
      let answer;
      try {
        answer = content.type === "ask" ? this._answerTo(content) : this._inspection(content);
        this._spent_ms += performance.now() - began_ms;
        if (answer instanceof Promise) answer = await answer;
      } catch (error) {
        if (error instanceof Unready) {
          await this._prepare(error.steps, content);
          continue;
        }
        answer = [{ type: "error", text: /** @type {Error} */ (error).message }, []];
      }
      this._questions.shift();
      this._write(answer);
    }
    this._answering = false;
    if (this._questions.length) this._answerAll();
  }

  /**
   * Work out what a question needs; the cursor may have moved meanwhile: then it is answered for where that is now.
   * @param {Steps<unknown>} steps
   * @param {any} content
   */
  async _prepare(steps, content) {
    const moved = () => momentOf(content) !== undefined && !Object.is(momentOf(content), this._cursor());
    for (let stop = moved(); !slice(steps, stop).done; stop = moved()) await breathe();
    if (moved()) setMoment(content, this._cursor());
  }

  /** The moment that the latest question about the cursor is about (null: now). @returns {number | null | undefined} */
  _cursor() {
    return this._questions.map(momentOf).findLast((moment) => moment !== undefined);
  }

  /** Answer a view's question; an error is an answer, too. @param {any} content @returns {Sent | Promise<Sent>} */
  _answerTo(content) {
    const about = { type: "answer", id: required(content, "id") };
    /** @param {unknown} error @returns {Sent} */
    const refused = (error) => {
      if (error instanceof Unready) throw error;
      return [{ ...about, error: /** @type {Error} */ (error).message }, []];
    };
    try {
      const options = named(optional(content, "options", {}));
      const answer = this._known(str(required(content, "question")))(this._feed, options);
      /** @param {Sent} answer @returns {Sent} */
      const complete = ([meta, buffers]) => {
        const held = Object.hasOwn(options, "at_ps") ? { at_ps: this._heldPs(options.at_ps) } : {};
        return [{ ...meta, ...about, ...held }, buffers];
      };
      return answer instanceof Promise ? answer.then(complete).catch(refused) : complete(answer);
    } catch (error) {
      return refused(error);
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

  /** @param {any} content @returns {Sent} */
  _inspection(content) {
    const [path, at_ps] = [required(content, "path"), optional(content, "at_ps", null)];
    const about = { type: "inspection", for: path, at_ps: this._heldPs(at_ps) };
    try {
      return [{ ...about, found: this._session.inspect(str(path), at_ps) }, []];
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      return [{ ...about, error: error.message }, []];
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

/**
 * The moment of a question about the cursor (null: now); undefined where it is about another one, or about none.
 * @param {any} content
 * @returns {number | null | undefined}
 */
function momentOf({ type, options, at_ps = null }) {
  const moment = type === "inspect" ? at_ps : options?.at_ps;
  return moment === null || (typeof moment === "number" && moment >= 0) ? moment : undefined;
}

/** @param {any} content @param {number | null | undefined} moment */
function setMoment(content, moment) {
  if (content.type === "inspect") content.at_ps = moment;
  else content.options = { ...content.options, at_ps: moment };
}
