// What the modules share: messages, the store, the theme, views. Only types; nothing of it is sent or run.

import type { COLUMNS } from "./messages.js";
import type { Flights } from "./flights.js";
import type { createInside } from "./inside.js";
import type { createLevels } from "./levels.js";
import type { createTracks } from "./navigation.js";

// Messages ---------------------------------------------------------------------------

interface Arrays {
  u1: Uint8Array;
  u2: Uint16Array;
  u4: Uint32Array;
  i4: Int32Array;
  f4: Float32Array;
  f8: Float64Array;
}
export type Numbers = Arrays[keyof Arrays];
/** A message that carries columns. */
export type Packed = keyof typeof COLUMNS;
/** The columns of a message, by name. */
export type Columns<M extends Packed> = {
  -readonly [K in keyof (typeof COLUMNS)[M]]: (typeof COLUMNS)[M][K] extends keyof Arrays
    ? Arrays[(typeof COLUMNS)[M][K]]
    : never;
};

/** From and to, in ps. */
export type Interval = [number, number];
/** Width and height, or x and y, in CSS pixels. */
export type Pair = [number, number];

export interface Box extends Frame {
  label: string;
  kind: string;
  /** What is selected where it is clicked; by default its name. */
  path?: string;
  rank: number;
  ranks: Pair;
  count: number;
  /** A switch as wide as the boxes that it joins: links to it are vertical. */
  rail: boolean;
}
export interface Bundle {
  from: number;
  to: number;
  rate: number;
  name: string;
  /** What is selected where it is clicked; by default its name. */
  path?: string;
  bent: boolean | string | null;
  /** Of a bundle that ends at a rail: where it leaves the other box, from its centre, as a fraction of its width. */
  port: number | null;
  /** The technology of its links: NVLink, PCIe, Ethernet, ... */
  family: string;
}
export interface Frame extends Tile {
  name: string;
}
/** What is drawn of the system; looking at another part replaces it. */
export interface Picture {
  picture: number;
  level: string;
  hot: number;
  note: string;
  focus: string;
  opened: string[];
  width: number;
  height: number;
  hidden: number;
  boxes: Box[];
  frames: Frame[];
  bundles: Bundle[];
  tiles: string[][];
}
export interface SceneMessage extends Picture {
  type: "scene";
  version: number;
  title: string;
  gpus: string[];
  phases: string[];
  kinds: string[];
  states: string[];
  blocks: number[];
  recording: boolean;
  managed?: boolean;
  /** Of a workload: whether messages wait for links. */
  queues?: boolean;
  /** What a rank does at a time. */
  activities?: string[];
  buffers?: number;
  // Of a workload:
  ranks?: number;
  tracks?: string[];
  dims?: string[];
  names?: string[];
  units: string[]; // of steps
  alike?: number;
  counted?: string;
  hint?: string;
  example?: string;
  titles?: Record<string, string>;
  /** Of a page without a kernel: why a button does nothing. */
  recorded?: Record<string, string>;
}
/** The scene as views read it: each bundle with its links, each link with its bundle. */
export interface Scene extends SceneMessage {
  bundles: (Bundle & { lanes: number[]; title: string })[];
  bundleOf: Int32Array;
}
export type WorkloadScene = Scene & Required<Pick<Scene, "ranks" | "tracks" | "dims" | "names" | "units" | "alike">>;

export interface Progress {
  done?: number;
  /** What the share is of, where it is not the run. */
  of?: string;
  ps_per_s?: number;
  left_s?: number;
}
export interface State {
  type: "state";
  seq: number;
  now_ps: number;
  events: number;
  counts: Record<string, number>;
  finished: boolean;
  playing: boolean;
  fast: boolean;
  speed: number;
  status: string;
  failed: boolean;
  narration: string;
  progress: Progress;
  changed: string;
  first: number;
  total: number;
  one_in: number;
  coarse: boolean;
  recording: boolean;
  gaps: Interval[];
  oldest_ps: number;
}
export interface TimelineMessage {
  type: "timeline";
  now_ps: number;
  left_out: number;
  bin_ps: number;
  bins: number;
  picture: number;
}
export type Timeline = TimelineMessage & Columns<"timeline"> & { number: number };

export interface Inspected {
  path: string;
  title: string;
  kind: string;
  state: [string, string][];
  in_flight: string[];
  in_flight_count: number;
  lines?: string[];
  children: { text: string; path: string }[];
  recent?: string[];
  route?: string[];
}
export interface Inspection {
  type: "inspection";
  for: string;
  found?: Inspected;
  recorded_ps?: number; // of a recorded page: the moment that it holds
  at_ps?: number; // the time that it holds for
  error?: string;
}
export interface AnswerMessage {
  type: "answer";
  id: number;
  error?: string;
}
export interface ErrorMessage {
  type: "error";
  text: string;
}
/** What the kernel sends. */
export type FromKernel =
  | SceneMessage
  | State
  | TimelineMessage
  | Inspection
  | AnswerMessage
  | ErrorMessage
  | { type: "roll" };
/** What a page sends. */
export interface ToKernel {
  type: string;
  [option: string]: unknown;
}

// Answers to questions, by the name of the question (widgets/views/) ----

export interface Window {
  from: number;
  to: number;
  /** 0: of a recording, of which it holds everything. */
  columns: number;
}
interface TrackTable {
  gpu: number[];
  number: number[];
  engine: number[];
  /** Of recorded traces: threads and streams. */
  names?: string[];
}
interface Searched {
  /** Still being worked out. */
  working?: boolean;
  progress?: number;
}
export interface Cause {
  cause: string;
  means: string;
  ps: number;
}
export interface Parameter {
  path: string;
  value: string;
  choices: string[];
  unit: string;
  limits: string;
  meaning: string;
  effect: string;
}
export interface Point {
  text: string;
  enabled: boolean;
  slow: boolean;
  object: string;
  hit: boolean;
}
export interface Watch {
  text: string;
  object: string;
  now: string;
  low: string;
  high: string;
}
export interface Difference {
  names: Pair2<string>;
  now: Pair2<string>;
  verdict: string;
  inputs: [string, string, string][];
  tables: { title: string; rows: [string, string, string, string, number][]; left_out: number }[];
}
type Pair2<T> = [T, T];
/** A change, with what it would gain: an estimate, and after a run the exact answer. */
export interface Change {
  path: string;
  value: string;
  was: string;
  before_ps: number;
  estimate_ps: number | null;
  at_least_ps: number;
  on_path_ps: number;
  exact_ps: number;
  causes: [string, number, number][];
}
export interface GraphNode {
  path: string;
  label: string;
  what: string;
  kind: string;
  state: string;
  when: string;
  x: number;
  y: number;
}
/** The time at a line of the program, in ps: of all thread blocks by state, and of the critical path (-1: not known). */
export interface LineTime {
  part: number;
  line: number;
  operations: number;
  states: Record<string, number>;
  block_ps: number;
  path_ps: number;
}
export interface SourcePart {
  name: string;
  first: number;
  lines: string[];
  shipped: boolean;
}

/** What a rank holds in memory by `parts`: bytes at the cursor, and at the fullest moment so far. */
export interface MemoryChart extends MemoryAxis {
  rank: number;
  at: number[];
  peak_ps: number;
  peak: number[];
}
/** What does not change while the ranks of a stage run. */
export interface MemoryAxis {
  stage: number;
  parts: string[];
  limit_bytes: number;
  shows_limit: boolean;
  top_bytes: number;
  ticks: number[];
  unit: [bytes: number, name: string];
}

export interface Answers {
  activity: Window & { first: number; last: number; exact: boolean; bin_ps: number; bundles: number[] };
  aggregate: {
    from: number;
    to: number;
    oldest_ps: number;
    names: string[];
    shares: Record<string, number>;
    states: ({ rank: number; tracks: number } & Record<string, number>)[];
    classes: { type: string; kind: string; lines: number; bytes: number; busy_ps: number }[];
    links: { link: string; utilisation: number; lines: number; bytes: number; queued_ps: number }[];
    more_links: number;
    phases: { phase: string; gpus: number; time_ps: number }[];
  };
  aggregates: {
    picture: number;
    quantiles: number[];
    groups: { title: string; links: number; quantiles: number[]; histogram: number[] }[];
    top: { name: string; busy: number }[];
    links: number;
  };
  apply: { status: string };
  complete: { paths: string[] };
  breaks: {
    points: Point[];
    watches: Watch[];
    kinds: string[];
    fields: string[];
    values: string[];
    because: string;
    start_ps: number;
    end_ps: number;
    exact: boolean;
  };
  buffer: {
    rank: number;
    buffer: string;
    used: string[];
    of: number;
    chunks: number;
    names: string[];
    columns: number;
    fold: number;
    by_line: boolean;
    lines: number;
    arrived_lines: number;
    final: number;
  };
  cell: { text: string; source: number };
  chunks: {
    ranks: number;
    cells: number;
    width: number;
    ticks: boolean;
    texts: string[];
    buffer: string;
    able: string[];
    final: number;
    promised_cells: number;
  };
  critical_path: Searched & {
    time_ps: number;
    events: number;
    segments: number;
    names: string[];
    causes: Cause[];
    top: { start_ps: number; ps: number; cause: string; path: string; title: string; text: string }[];
  };
  device: {
    rank: number;
    name: string;
    preset: string;
    at_ps: number;
    states: SmState[];
    sms: number;
    slices: number;
    channels: number;
    slots: number;
  };
  difference: { other: false } | ({ other: true } & Difference);
  /** Where nothing is known of the run there is no chart; `exact`: every change, else the fullest moment of each column. */
  footprint: Window & { now_ps: number; exact: boolean; absent: string; chart: MemoryChart | null };
  fork: { made: boolean };
  graph: {
    rank: number;
    nodes: GraphNode[];
    edges: Pair[];
    counts: Record<string, number>;
    hidden: number;
  };
  modules: ModuleAbout;
  module: { module: number; labels: string[] };
  module_detail: ModuleDetail;
  module_search: { found: ModuleLink[]; total: number };
  /** Of the children of modules: how many operations are done and run, of how many. */
  module_states: { rank: number };
  held: { picture: number; at_ps: number; phase: string; from_ps: number; to_ps: number; chunks: number };
  hot: { picture: number; bundles: number[]; busy: number[]; of: number };
  inside: { at_ps: number; over_ps: number; known: boolean; states: SmState[] };
  tracks: Window & {
    kind: string;
    ranks: number[];
    tracks: number;
    count: number;
    now_ps: number;
    drawn: "spans" | "density";
    labels?: string[];
  };
  doing: { from: number; to: number; names: string[]; alike: boolean };
  line: { path: string };
  line_times: Searched & {
    rows: LineTime[];
    /** Of the run, and that times the number of thread blocks. */
    time_ps: number;
    block_ps: number;
    /** What passes at no line: before the first operation, and after the last. */
    outside: { block_ps: number; path_ps: number };
    /** Whether the critical path is known. */
    path: boolean;
    events: number;
  };
  /** Thread blocks of a collective. */
  lost_time: { of: string; parts: number; total_ps: number; rows: Cause[] };
  moment: { text: string };
  parameters: {
    title: string;
    kind: string;
    object: Parameter[];
    run: Parameter[];
    edits: [number, string, string][];
    events: number;
  };
  /** Time, what happened, the object. */
  events: { at_ps: number; rows: [number, string, string][] };
  hash: { hash: string };
  /** What it is, the object, the time; -1: none. */
  search: { found: [string, string, number][]; more: boolean };
  /** What, how much, the object; and name, number and share of each part of the time. */
  outcome: { finished: boolean; facts: [string, string, string][]; parts: [string, number, number][]; whose: string };
  picture: Picture;
  ports: { picture: number; at_ps: number; managed: boolean };
  /** Rows: path, how full (-1: unlimited), what it holds, what waits in front. */
  buffers: { rows: [string, number, string, string][]; heads: string[]; all: number; finite: boolean };
  ranks: {
    what: string;
    heads: string[];
    rows: string[][];
    all: number;
    dimensions: { path: string; shape: string; utilisation: number }[];
  };
  /** Heads: what it is sorted by, and its title. Rows: the operation, the link, the start, and the cells. */
  flows: {
    /** Why no messages are known; empty: they are. */
    absent: string;
    heads: [string, string][];
    rows: [string, string, number, string, ...string[]][];
    all: number;
    shown: number;
    bytes: number;
    dropped: number;
    oldest_ps: number;
  };
  rows: { states: string[]; gpus: number; sms: TrackTable; blocks: TrackTable; tracks?: TrackTable };
  source: { title: string; parts: SourcePart[] };
  span: Span;
  activity_span: Span;
  operation_span: Span;
  spans: Window & {
    kind: string;
    now_ps: number;
    drawn: "spans" | "density";
    count: number;
    folded: number;
    present: number[];
    labels?: string[];
  };
  traffic: {
    ranks: number;
    each: number;
    rows: number;
    total: number;
    window: Interval | null;
    /** Whether the oldest messages are no longer recorded. */
    partly: boolean;
    /** Why nothing is known; empty: something is. */
    absent: string;
  };
  what_if: Searched & { rows: Change[]; quick?: boolean };
  what_if_run: Searched & { row: Change };
  where: object;
  why: { path: string; now_ps: number; circle: boolean; steps: { text: string; path: string; since_ps: number }[] };
}
/** What a row of a timeline did; the facts are those of `time_ps`, or of all of it. */
export type Span =
  | { found: false }
  | { found: true; path: string; what: string; start_ps: number; end_ps: number; time_ps: number | null; facts: [string, string][] };
export type SmState = "free" | "done" | "busy" | "waiting" | "draining" | "stalled";
/** The name of a question; a view that is added asks one of its own. */
export type Question = keyof Answers;
type ColumnsOf<Q> = Q extends Packed ? { arrays: Columns<Q> } : object;
/** An answer: what was sent, its columns as `arrays`. */
export type Answer<Q extends Question> = Answers[Q] & ColumnsOf<Q> & { id: number; at_ps?: number };
export interface Options {
  [option: string]: unknown;
}
/** An answer with the options and the key that it answers. */
export type Reply<Q extends Question> = Answer<Q> & { options: Options; about: string };

// The store ---------------------------------------------------------------------------

/** The critical path, as drawn. */
export type Path = Columns<"critical_path"> & { names: string[] };

export interface Store {
  /** What is simulated: it decides which views and buttons there are. */
  readonly engine: "cacheline" | "operations" | "trace";
  /** Whether there is a scene. */
  readonly ready: boolean;
  /** What does not change; throws before the first one has come. */
  scene: Scene;
  state: State | null;
  timeline: Timeline | null;
  flights: Flights;
  /** ps: what the kernel has simulated. */
  frontier: number;
  /** ps: the furthest that it ever was. */
  furthest: number;
  /** ps: what is shown. */
  cursor: number;
  /** The cursor stays with the simulation. */
  following: boolean;
  /** The view alone moves, through what was recorded. */
  replaying: boolean;
  selection: string;
  /** The part of a timeline that was clicked. */
  span: Extract<Span, { found: true }> | null;
  hover: string;
  inspection: Inspection | null;
  /** What the timelines show; null: everything. */
  window: Interval | null;
  /** The interval that is added up; null: none. */
  marked: Interval | null;
  /** ps under the mouse, on a timeline. */
  pointer: number | null;
  error: string;
  /** Rank of the GPU whose SMs are shown in the place of the topology, or -1. */
  device: number;
  /** What is wrong with the kernel. */
  trouble: string;
  /** The kernel is gone for good. */
  gone: boolean;
  /** Cells of a notebook can call the workbench. */
  readonly in_notebook: boolean;
  /** When playing stopped last. */
  rested: number;
  /** When Pause was pressed. */
  paused: number;
  /** The critical path that is drawn. */
  path: Path | null;
  levels: ReturnType<typeof createLevels> | null;
  /** Shows another widget by its reference. */
  embed: ((reference: string, place: { el: HTMLElement; signal: AbortSignal }) => Promise<unknown>) | null;

  on(name: StoreEvent, listener: () => unknown): () => void;
  gather<T>(build: () => T): [T, () => void];
  emit(name: StoreEvent): void;
  ask<Q extends Question>(question: Q, options?: Options, signal?: AbortSignal): Promise<Answer<Q>>;
  /** Reference to the view of the run beside this one. */
  other(): string;
  look(part?: { opened?: string[]; focus?: string }): Promise<void>;
  readonly panels: Record<string, string | boolean>;
  readonly sizes: Record<string, number>;
  /** GPUs or ranks whose rows are above all others. */
  readonly pins: number[];
  /** Pin the row of a GPU or rank, or unpin it. */
  pin(rank: number): void;
  readonly beside: Beside;
  /** Without a size the panel has its usual one again; `keep` false: while it is dragged. */
  set_size(name: string, px: number | null, keep?: boolean): void;
  show_panel(name: string, open?: boolean): void;
  command(type: string, options?: Options): void;
  /** The cursor moves through the last step. */
  readonly passing: boolean;
  readonly playing: boolean;
  play(): void;
  pause(): void;
  setSpeed(speed: number): void;
  readonly redraw: number;
  setRedraw(hz: number): void;
  scrub(time: number): void;
  moveCursor(time: number): void;
  follow(): void;
  select(path: string): void;
  /** Select an object and what it did at a time; null: nothing is drawn there. */
  selectSpan(path: string, asked: Promise<Span> | null): Promise<void>;
  hovering(name: string): void;
  tick(ms: number): boolean;
  open(): void;
  close(): void;
  destroy(): void;

  // window.js
  view(): Interval;
  zoom(factor: number, around?: number): void;
  mark(from?: number | null, to?: number): void;
  pan(share: number): void;
  show(start: number, length: number): void;
}
export type StoreEvent = "change" | "scene" | "inspection" | "marked";

/** What a widget's model, or a recorded page in its place, gives. */
export interface Traits {
  _engine: "cacheline" | "operations" | "trace" | "";
  _modules: Record<string, string>;
  _panels: Record<string, string | boolean> | null;
  _sizes: Record<string, number> | null;
  _beside: Beside | null;
  _displayed_s: number;
  _redraw_hz: number;
  _other: string;
  _selection: string;
  _cursor_ps: number;
  _window_ps: number[];
}
export interface Model<T = Traits> {
  get<K extends keyof T>(name: K): T[K];
  set<K extends keyof T>(name: K, value: T[K]): void;
  save_changes(): void;
  on(name: "msg:custom", listener: (message: any, buffers: DataView[]) => void): void; // checked where it is taken apart
  on(name: `change:${keyof T & string}`, listener: () => void): void;
  off(name: string, listener: (...given: any[]) => void): void; // any listener
  /** In Jupyter, `status` is called with what the kernel says while it handles the message. */
  send(message: ToKernel, callbacks?: { iopub: { status: (message: { content: { execution_state: string } }) => void } }): void;
  /** Why no answer may come; where not given: a cell runs. */
  busy?: string;
  widget_manager?: { kernel?: Kernel };
}
interface Signal<T> {
  connect(slot: (sender: unknown, value: T) => void): void;
  disconnect(slot: (sender: unknown, value: T) => void): void;
}
/** What is used of JupyterLab's connection to a kernel. */
export interface Kernel {
  statusChanged?: Signal<string>;
  connectionStatusChanged?: Signal<string>;
  disposed?: Signal<unknown>;
}
export interface Host {
  getWidget(reference: string): Promise<{ render(place: { el: HTMLElement; signal?: AbortSignal }): Promise<unknown> }>;
}

// Views -------------------------------------------------------------------------------

export interface Theme {
  dark: boolean;
  /** Different after every change. */
  version: number;
  back: string;
  panel: string;
  line: string;
  faint: string;
  ink: string;
  dim: string;
  brand: string;
  gpu: string;
  node: string;
  font: string;
  changed?: () => void;
  destroy(): void;
  ramp(fraction: number): number[];
  rampText(fraction: number): string;
  unknown(context: CanvasRenderingContext2D): string | CanvasPattern;
}
/** A panel: `draw` is called for each frame while it is open, and may give how many lines are in flight. */
/** Of two runs beside each other: which one this is, what was changed (here, in the other), and the objects that differ. */
export interface Beside {
  letter?: "A" | "B";
  changes?: [name: string, here: string, there: string][];
  differing?: string[];
}
export interface View {
  element: HTMLElement;
  draw?(): number | null | void;
  resize?(): void;
  themed?(): void;
  shown?(visible: boolean): void;
  destroy?(): void;
}
export type CreateView = (store: Store, theme: Theme) => View;
/**
 * What a timeline gives `createTracks` (navigation.js). `rows` draws into the part that scrolls, `gutter` also beside it;
 * `drawn` follows each picture; `chosen` follows a new scene, and the choice of another kind of rows.
 */
export interface Rows {
  label: string;
  about: string;
  name: string;
  ruler: number;
  kinds?: readonly (readonly [string, string])[];
  title?: HTMLElement;
  /** The interval that is drawn, where an answer alone does not say. */
  known?(): Interval | null;
  /** Whether it shows the recording, which may have been off. */
  recorded?: boolean;
  height(): number;
  /** The height of the pinned rows, which come first. */
  pinned?(): number;
  /** The GPU or rank whose label is at a place; -1: none. */
  rankAt?(at: Spot): number;
  want(scale: Scale): void;
  gutter(context: Context): void;
  rows(context: Context, scale: Scale): void;
  drawn(): void;
  textAt(at: Spot): string;
  clicked(event: PointerEvent): void;
  chosen(): void;
}
export type Tracks<Q extends Question> = ReturnType<typeof createTracks<Q>>;
export type Context = CanvasRenderingContext2D;
/** A place on a canvas, in CSS pixels. */
export interface Spot {
  offsetX: number;
  offsetY: number;
}
/** The time that a place on the ruler stands for, and back. */
export interface Scale {
  a: number;
  b: number;
  x(t: number): number;
  t(x: number): number;
}
export interface Tile {
  x: number;
  y: number;
  w: number;
  h: number;
}
/** A row on the screen: where the critical path is drawn. */
export interface Row {
  top: number;
  height: number;
}
/** From units of the picture to pixels; boxes have a scale of their own. */
export interface Place {
  x: number;
  y: number;
  box: number;
}
/** A straight line on the canvas: where it begins, how long it is, and its direction. */
export interface Stub {
  x: number;
  y: number;
  length: number;
  ux: number;
  uy: number;
}
/** The middle line of one direction of a bundle; of one that wraps round a torus there is a second part. */
export interface Edge extends Stub {
  second?: Stub;
}
/** Where everything is on a canvas (edges.js). */
export interface Geometry {
  place: Place;
  edges: Edge[];
  /** Of each link and class where its dots run: TRACK numbers. */
  tracks: Float32Array;
  /** Pixels that a class of dots has across a link. */
  lane: number;
}
/** Of what moves on links, by the number of its kind. */
export interface Looks {
  colours: string[];
  shapes: string[];
}
/** Of messages of a workload: whose they are; `number` is that of the operation within its rank. */
export type Cargo = Pick<Columns<"state">, "source" | "target" | "number" | "chunk" | "phase" | "step" | "bytes">;
/** What the topology counts for a frame, and its sketch draws. */
export interface Drawing {
  laid: Geometry | null;
  /** By bundle, 1: it is drawn. */
  drawn: Uint8Array;
  /** By bundle: lines on it, lines at its entrance, of how many dots one is drawn. */
  onBundle: Uint32Array;
  waiting: Uint32Array;
  sparse: Uint32Array;
  /** Lines within each box. */
  onInside: Uint32Array;
  readonly all: boolean;
  looked(name: string): boolean;
  covers(path: string, box: Box): boolean;
  /** Busy fraction of a bundle; null where nothing is known. */
  load(bundle: number): number | null;
  /** The bundles that are busiest, where they are known. */
  hottest(): number[];
  /** What GPUs do and hold. */
  /** Draws what is within a box. */
  inside: Pick<ReturnType<typeof createInside>, "draw">;
  /** What is known of the entrances of this picture's bundles. */
  ports(): Columns<"ports"> | null;
}

// A page without a kernel (offline.js, replayed.js) -------------------------------------

interface Recorded<M> {
  message: M;
  /** Numbers of its columns. */
  buffers: number[];
}
/** What the page holds: `Workbench.to_html` writes it (page.py, recording.py). */
/** What every page without a kernel holds, beside more. */
export interface PackedHeader {
  /** Where each column stands, and how long it is. */
  places: Pair[];
  /** Of a pack of files: their names. */
  files: string[];
  modules: Record<string, string>;
  entry: string;
}
export interface Recording extends PackedHeader {
  engine: "cacheline" | "operations";
  status: string;
  selection: string;
  panels: Record<string, string | boolean>;
  scene: Recorded<SceneMessage>;
  state: Recorded<State>;
  timeline: Recorded<TimelineMessage>;
  /** Columns: of a workload `recorded_steps`, else `recorded_flights`. */
  moments: number[];
  words: string[];
  links: string[];
  gpus: string[];
  /** ps at which a phase ended. */
  phases: number[];
  oldest: number;
  inspections: Record<string, [number, Inspected][]>; // by moment
  answers: RecordedAnswer[];
  /** By question the options that its answers are not about. */
  free: Record<string, string[]>;
  workload?: RecordedWorkload;
}
/** A page that simulates: what was recorded (no `scene`: nothing was), and the run that its Python opens. */
export interface LiveHeader extends Recording {
  sizes: Record<string, number>;
  redraw_hz: number;
  /** The column of the run. */
  run: number;
  /** The module of the editor. */
  editor: string;
  /** What the page is made of. */
  about: string;
}
/** Part of what Python in a page is started with: packed as text, or where it is. */
export interface PythonPack {
  text?: string;
  address?: string;
}
/** What a page's Worker is given first. */
export interface ToWorker {
  packs: PythonPack[];
  run: Uint8Array;
}
/** What a page's Python says (widgets/page_host.py): of a workbench by its number, or of the page. */
export interface FromPython {
  bench: number;
  message?: object;
  traits?: Partial<Traits>;
  /** This workbench takes the place of the one that is shown. */
  show?: number;
  engine?: Traits["_engine"];
  /** Whether it is of the page's own run. */
  own?: boolean;
  /** This workbench is beside another one. */
  made?: number;
  closed?: number;
  /** What went wrong with a message that asked for no answer. */
  error?: string;
  editor?: object;
  editor_traits?: Record<string, unknown>;
}
/** What Python says of a plan that was opened on a page. */
export interface PlanSummary {
  title: string;
  size: string;
  cost?: string;
  notes?: string[];
}
/** An answer as Python gave it: `always` for any time, `from_ps` for that moment and what is before `until_ps`, else for the end. */
export interface RecordedAnswer extends Recorded<object> {
  question: string;
  options: Options;
  always?: boolean;
  from_ps?: number;
  until_ps?: number;
}
export interface RecordedWorkload {
  /** Columns: `recorded_operations`. */
  operations: number[];
  texts: string[];
}
/** A message and its columns. */
export type Sent = [message: object, buffers: DataView[]];
/** The recorded events that a page steps through. */
export interface Replayed {
  /** The moment of the n-th end of an operation from one on. */
  operation(n: number, done: number): number;
  narration(moment: number): string;
  /** The object that a moment is about. */
  changed(moment: number): string;
  moments: { time: Float64Array; event: Float64Array };
}

// A sweep ----------------------------------------------------------------------------

export interface StudyMessage {
  type: "study";
  name: string;
  points: number;
  axes: { name: string; labels: string[]; ordered: boolean }[];
  figures: { name: string; unit: string; goal: string }[];
  statuses: string[];
  counts: Record<string, number>;
  best: number[];
  errors: string[];
  /** Two objectives, and where their front is in its column: from, and how many. */
  fronts: [number, number, number, number][];
  /** Two axes, an objective, and where their cells are: from, and how many. */
  heats: [number, number, number, number, number][];
  effects: {
    objective: string;
    points: number;
    coarse: boolean;
    rows: { axis: string; share: number; least: string; most: string; distance: number | null; chance: number | null }[];
  }[];
  stages: string[];
}
/** An axis, whose values are places of its labels, or a figure. */
export interface Dimension {
  name: string;
  unit: string;
  goal: string;
  labels: string[] | null;
  ordered: boolean;
  values: Float64Array;
  low: number;
  high: number;
}
export interface PointDetail {
  type: "detail";
  point: number;
  status: string;
  error: string;
  axes: [string, string][];
  figures: [string, string, string][];
  fidelity: string;
  limit: string;
  shares: [string, number][];
  command: string;
  rest: string[];
}
export interface StudyTraits {
  _modules: Record<string, string>;
  _progress: {
    stage?: string; done?: number; total?: number; left_s?: number | null; running?: boolean; stopped?: boolean; error?: string;
  };
  _chosen: number;
  _opened: { point?: number; title?: string; view?: string; error?: string };
}
/** A row of Python's TraceStatistics (chakra/analysis/job_statistics.py): times in ns. */
export type CountedTimes = { [name: `${string}_ns`]: number };
export interface Counted {
  ranks: number;
  how: string;
  makespan_ns: number;
  activities: string[];
  by_rank: (CountedTimes & { rank: number })[];
  operators: { kind: string; name: string; count: number; time_ns: number; share: number; shown_ns: number }[];
  communication: { group: string; collective: string; dimension: string; count: number; bytes: number; unsized: number; transfer_ns: number; waiting_ns: number }[];
  dimensions: { groups: number; collective: string; dimension: string; count: number; bytes: number; unsized: number; transfer_ns: number; waiting_ns: number }[];
  skew: { group: string; rank: number; count: number; late_ns: number; waiting_ns: number; last: number }[];
  critical_path: { nodes: number; [part: string]: number };
  points: { flops: number[]; bytes: number[]; duration_ns: number[]; rank: number[]; name: number[]; names: string[]; all: number };
}
export interface CountedRecording extends PackedHeader {
  title: string;
  counted: Counted;
}
/** What Python's corpus_report says about a model (explore/recordings/corpus_runs.py). */
export interface JudgedCluster {
  cluster: string;
  makespan_s: [number, number];
  exposed_s: [number, number];
  makespan_off: number;
  exposed_off: number;
  worst_pair_off: number;
  median_pair_off: number;
  worst_pair_exposed_off: number;
}
export interface Judged {
  model: string;
  learnt_from: number;
  held_out: number;
  unlike: number;
  clusters: JudgedCluster[];
  distances: Record<string, { distance: number | null; baseline: number | null; ratio: number | null }>;
  privacy: Record<"nearest" | "nearest_training" | "nearest_held_out" | "membership_auc" | "verbatim_sizes" | "verbatim_names", number>;
}
export interface JudgedRecording extends PackedHeader {
  title: string;
  judged: Judged[];
}
export interface TracedRecording extends PackedHeader {
  scene: SceneMessage;
  state: State;
  timeline: TimelineMessage;
  rows: Answers["rows"];
  names: string[];
  /** Numbers of the columns of spans: by track, and by rank what counts. */
  tracks: number[];
  ranks: number[];
}
export interface StudyRecording extends PackedHeader {
  study: Recorded<StudyMessage>;
  details: Record<string, PointDetail>;
}

// A graph by module -------------------------------------------------------------------

export interface ModuleAbout {
  title: string;
  modules: number;
  nodes: number;
  by: string;
  notes: string[];
}
/** One module: its children, which are named by their text's number, and the edges between two of them. */
export interface ModuleReply {
  module: number;
  labels: string[];
  arrays: Columns<"module">;
}
/** A module or a node (those from the number of modules on), its name, and the modules around it. */
export type ModuleLink = [entity: number, name: string, around: number[]];
export interface ModuleDetail {
  entity: number;
  facts: string[][];
  before: ModuleLink[];
  after: ModuleLink[];
  counts: Pair;
}
export interface ModuleSource {
  module(module: number): Promise<ModuleReply>;
  detail(entity: number): Promise<ModuleDetail>;
  search(text: string): Promise<{ found: ModuleLink[]; total: number }>;
}
/** By module or node how much of it is done, and what it does now. */
export type ModuleStates = Map<number, { state: string; share: number; text: string }>;
export interface ModuleBox {
  entity: number;
  /** The module that it is in, and its place among the children. */
  around: number;
  reply: ModuleReply;
  at: number;
  x: number;
  y: number;
  w: number;
  h: number;
  level: number;
  row: number;
  open: boolean;
}
export interface ModuleLine {
  a: number;
  b: number;
  around: number;
  path: string;
  heads: string;
  data: number;
  control: number;
  both: boolean;
  up: boolean;
  implied: boolean;
  /** What it covers: left, top, right, bottom. */
  box: number[];
}
export interface ModulePicture {
  wide: number;
  high: number;
  boxes: ModuleBox[];
  lines: ModuleLine[];
}
export interface TraceGraphTraits {
  _modules: Record<string, string>;
  _about: ModuleAbout;
  _selected: number;
}
/** All modules of a graph: texts of its drawings, names of its nodes, and the numbers of its columns. */
export interface WholeTree {
  labels: string[];
  names: string[];
  buffers: Record<"module" | "module_tree", number[]>;
}
export interface TraceGraphRecording extends PackedHeader {
  about: ModuleAbout;
  tree: WholeTree & {
    /** What modules are called, and in which ones each is. */
    modules: string[];
    links: string[];
    attributes: { name: string; values: string[] }[];
    buffers: Record<"module" | "module_tree" | "module_values", number[]>;
  };
}
