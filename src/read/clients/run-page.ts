import { formatInstant } from '../../model/instant.ts';
import type { Instant } from '../../model/observation.ts';
import { HOUR_MS } from '../../model/usage-window.ts';
import { printQuery } from '../../query/print.ts';
import type { Query, QueryTerm } from '../../query/query.ts';
import type { PayloadTexts } from '../../store/observation-json.ts';
import { groupTerm } from '../../store/plan/groups.ts';
import type { StoredObservation, StoredTrace } from '../../store/store.ts';
import type { ExportPosition } from '../export/position.ts';
import { positionOfText, positionText } from '../export/position.ts';
import { foreignCursor, listCursors } from '../list-cursor.ts';
import { startTerm } from '../query.ts';
import type { StoreReading } from '../stored-request.ts';
import { runTypeOf } from './langsmith-run.ts';
import { findRun, storedTraceId } from './run-ids.ts';

/** Runs of a page, if the client asks for no other number. */
export const DEFAULT_RUNS = 100;
/** Runs of a trace that are read together. */
const STEP_RUNS = 200;
/** The most runs above a run in its path from the root. */
const MOST_ANCESTORS = 200;
/** Traces whose runs are read together. */
const TRACES_OF_STEP = 20;
/** Traces that start this long before a time may have the runs that start after it. */
const LONG_TRACE_MS = HOUR_MS;
/** Traces of a step among them: most have ended before the time, and are passed over. */
const LONG_TRACES_OF_STEP = 200;

/** How runs are shown. */
export type RunForm = {
  /** Payloads that are not shown are not read. */
  readonly hasPayloads: boolean;
  /** Of a trace in place of a run; its root is the run. */
  readonly isOfTrace?: true;
  /** `trace` is given for a form of a trace. */
  text(
    stored: StoredObservation,
    payloads: PayloadTexts,
    ancestors: readonly StoredObservation[],
    trace?: StoredTrace,
  ): string;
};

/** The conditions of a query; every one holds. */
type RunQuery = {
  readonly ids: readonly string[] | undefined;
  /** The traces whose roots are meant, in place of `ids`. */
  readonly rootsOf?: readonly string[] | undefined;
  readonly traceId: string | undefined;
  /** The run above those of the page; null if it is not stored. */
  readonly parent: StoredObservation | null | undefined;
  readonly isRoot: boolean | undefined;
  readonly runType: string | undefined;
  readonly hasError: boolean | undefined;
  readonly threadId: string | undefined;
  /** The time from which runs start. */
  readonly since: Instant | undefined;
  /** In place of `since`: a time that is another one for each page of the same list. */
  readonly recentlySince?: Instant | undefined;
  /** The time before which runs start. */
  readonly before?: Instant | undefined;
  readonly isAscending: boolean;
  readonly limit: number;
  readonly cursor: string | undefined;
};

/** A query whose runs and traces have the ids of the client. */
export type GivenQuery = Omit<RunQuery, 'parent'> & { readonly parentId: string | undefined };

export async function resolved(
  reading: StoreReading,
  { parentId, ...given }: GivenQuery,
): Promise<RunQuery> {
  const { traceId: named } = given;
  const traceId = named === undefined ? undefined : await storedTraceId(reading, named);
  if (parentId === undefined) return { ...given, traceId, parent: undefined };
  const parent = (await findRun(reading, parentId, traceId)) ?? null;
  return { ...given, traceId, parent };
}

/** A page of runs: of a trace, by their ids, or of all traces. */
export class RunPage {
  readonly runs: string[] = [];
  readonly #reading: StoreReading;
  readonly #asked: RunQuery;
  readonly #form: RunForm;
  #characters = 0;

  constructor(reading: StoreReading, asked: RunQuery, form: RunForm) {
    this.#reading = reading;
    this.#asked = asked;
    this.#form = form;
  }

  /** Resolves with the cursor of the next page; null after the last one. */
  async fill(): Promise<string | null> {
    const { ids, rootsOf, traceId, parent } = this.#asked;
    if (ids !== undefined) {
      return this.#ofIds(ids, (id) => findRun(this.#reading, id, traceId));
    }
    if (rootsOf !== undefined) return this.#ofIds(rootsOf, (id) => this.#rootOf(id));
    if (parent === null) return null;
    const trace = traceId ?? parent?.traceId;
    return trace === undefined ? this.#ofTraces() : this.#pageOfTrace(trace);
  }

  async #ofIds(
    ids: readonly string[],
    find: (id: string) => Promise<StoredObservation | undefined>,
  ): Promise<string | null> {
    const { tenant } = this.#reading;
    const cursors = listCursors('langsmith-runs', tenant.projectId, ...ids);
    const begin = indexIn(cursors.read(this.#asked.cursor));
    for (const [i, id] of ids.entries()) {
      if (i < begin) continue;
      if (this.#isFull()) return cursors.write(String(i));
      const stored = await find(id);
      if (stored !== undefined) await this.#add(stored, new Map());
    }
    return null;
  }

  async #pageOfTrace(traceId: string): Promise<string | null> {
    const cursors = listCursors('langsmith-runs', this.#reading.tenant.projectId, traceId);
    return cursors.write(await this.#ofTrace(traceId, cursors.read(this.#asked.cursor)));
  }

  /** Adds the runs behind a cursor. Resolves with the cursor behind the last run that fit; null at the end of the trace. */
  async #ofTrace(traceId: string, behind?: string): Promise<string | null> {
    const { store, tenant, read } = this.#reading;
    let cursor = behind;
    for (;;) {
      const page = { limit: STEP_RUNS, ...(cursor === undefined ? {} : { cursor }) };
      const found = await read.turn(() =>
        store.traces.listObservations(tenant.projectId, traceId, page),
      );
      const known: KnownRuns = new Map(found.items.map((one) => [one.id, one]));
      for (const [i, stored] of found.items.entries()) {
        await this.#add(stored, known);
        if (!this.#isFull()) continue;
        return i === found.items.length - 1 ? found.nextCursor : found.cursorAfter(i);
      }
      if (found.nextCursor === null) return null;
      cursor = found.nextCursor;
    }
  }

  /** The runs of all traces, in the order of the traces. */
  async #ofTraces(): Promise<string | null> {
    const { store, tenant, read } = this.#reading;
    const { limit, isAscending, isRoot } = this.#asked;
    const query = tracesOf(this.#asked);
    const order = isAscending ? ['asc'] : [];
    const about = printQuery(tracesOf({ ...this.#asked, recentlySince: undefined }));
    const cursors = listCursors('langsmith-runs', tenant.projectId, about, ...order);
    const given = cursors.read(this.#asked.cursor);
    const from: ExportPosition =
      given === undefined ? { behind: undefined } : positionOfText(given);
    const cursorAt = (behind: string | undefined, traceId: string, last: string | null) => {
      const within = last === null ? undefined : { traceId, cursor: last };
      return cursors.write(positionText({ behind, within }));
    };
    if (from.within !== undefined) {
      const { traceId, cursor } = from.within;
      const last = await this.#ofTrace(traceId, cursor);
      if (this.#isFull()) return cursorAt(from.behind, traceId, last);
    }
    const isLooking = isRoot !== true && sinceOf(this.#asked) !== undefined;
    let cursor = from.behind;
    for (;;) {
      const rows = isLooking
        ? LONG_TRACES_OF_STEP
        : Math.min(TRACES_OF_STEP, limit - this.runs.length);
      const behind = cursor === undefined ? {} : { cursor };
      const page = { query, limit: rows, ...(isAscending ? { isAscending } : {}), ...behind };
      const found = await read.turn(() => store.traces.listTraces(tenant.projectId, page));
      for (const [i, trace] of found.items.entries()) {
        if (this.#isOver(trace)) continue;
        const { id } = trace;
        let last: string | null = null;
        if (this.#asked.isRoot === true) await this.#root(trace);
        else last = await this.#ofTrace(id);
        if (this.#isFull()) return cursorAt(found.cursorAfter(i), id, last);
      }
      if (found.nextCursor === null) return null;
      cursor = found.nextCursor;
    }
  }

  /** Whether all runs of a trace ended before those that are asked for start. Unknown with clocks that are wrong. */
  #isOver({ state, endTime, latencyMs, clockSkew }: StoredTrace): boolean {
    const since = sinceOf(this.#asked);
    const hasEnded = state === 'finished' || state === 'error';
    if (since === undefined || !hasEnded || endTime === null) return false;
    return latencyMs !== null && !clockSkew && isBefore(endTime, since);
  }

  async #root(trace: StoredTrace): Promise<void> {
    const { store, tenant, read } = this.#reading;
    const root = await read.turn(() => store.traces.getRoot(tenant.projectId, trace.id));
    if (root !== undefined) await this.#add(root, new Map(), trace);
  }

  /** `id`: as the client names the trace. */
  async #rootOf(id: string): Promise<StoredObservation | undefined> {
    const { store, tenant, read } = this.#reading;
    const traceId = await storedTraceId(this.#reading, id);
    return read.turn(() => store.traces.getRoot(tenant.projectId, traceId));
  }

  #isFull(): boolean {
    const { limits } = this.#reading.reads;
    return this.runs.length >= this.#asked.limit || this.#characters >= limits.page_bytes;
  }

  async #add(stored: StoredObservation, known: KnownRuns, trace?: StoredTrace): Promise<void> {
    if (!this.#matches(stored)) return;
    const text = await shownRun(this.#reading, { stored, known, form: this.#form, trace });
    this.#characters += text.length;
    // The text is held beside the answer that it becomes a part of.
    this.#reading.read.hold(this.#characters * 3);
    this.runs.push(text);
  }

  #matches(stored: StoredObservation): boolean {
    const { isRoot, hasError, parent, runType, traceId, threadId, before } = this.#asked;
    const since = sinceOf(this.#asked);
    // The thread of a trace may be that of another run, and the first run is in place of a root that is not stored.
    if (this.#form.isOfTrace !== true) {
      if (threadId !== undefined && stored.sessionId !== threadId) return false;
      if (isRoot !== undefined && (stored.parentId === null) !== isRoot) return false;
    }
    if (hasError !== undefined && (stored.error !== null) !== hasError) return false;
    if (parent !== undefined && stored.parentId !== parent?.id) return false;
    if (traceId !== undefined && stored.traceId !== traceId) return false;
    if (since !== undefined && startsBefore(stored, since)) return false;
    if (before !== undefined && !startsBefore(stored, before)) return false;
    return runType === undefined || runTypeOf(stored) === runType;
  }
}

/** The runs of a trace that a request has read, by id; undefined for an id that the trace does not have. */
type KnownRuns = Map<string, StoredObservation | undefined>;

/** A run that a request reads. */
export async function shownRun(
  reading: StoreReading,
  {
    stored,
    known = new Map(),
    form,
    trace,
  }: {
    readonly stored: StoredObservation;
    readonly known?: KnownRuns;
    readonly form: RunForm;
    /** That of the run, if it is known. */
    readonly trace?: StoredTrace | undefined;
  },
): Promise<string> {
  const ancestors = await ancestorsOf(reading, stored, known);
  const whole = form.isOfTrace === true ? (trace ?? (await traceOf(reading, stored))) : undefined;
  if (!form.hasPayloads) return form.text(stored, {}, ancestors, whole);
  const payloads = await reading.payloads({ kind: 'trace', id: stored.traceId });
  const texts = await reading.read.turn(() => payloads.read(stored));
  return form.text(stored, texts, ancestors, whole);
}

function traceOf(
  { store, tenant, read }: StoreReading,
  { traceId }: StoredObservation,
): Promise<StoredTrace | undefined> {
  return read.turn(() => store.traces.getTrace(tenant.projectId, traceId));
}

/** From the root down. A parent that is not stored, and a cycle, end the way up. */
async function ancestorsOf(
  { store, tenant, read }: StoreReading,
  stored: StoredObservation,
  known: KnownRuns,
): Promise<StoredObservation[]> {
  const { traceId } = stored;
  const above = new Set<StoredObservation>();
  let id = stored.parentId;
  while (id !== null && above.size < MOST_ANCESTORS) {
    const parentId = id;
    if (!known.has(parentId)) {
      const find = () => store.traces.getObservation(tenant.projectId, parentId, traceId);
      known.set(parentId, await read.turn(find));
    }
    const parent = known.get(parentId);
    if (parent === undefined || parent.id === stored.id || above.has(parent)) break;
    above.add(parent);
    id = parent.parentId;
  }
  return [...above].reverse();
}

function sinceOf({ since, recentlySince }: RunQuery): Instant | undefined {
  return since ?? recentlySince;
}

/** The traces that may have runs of a query. */
function tracesOf(asked: RunQuery): Query {
  const { before, threadId, isRoot } = asked;
  const since = sinceOf(asked);
  const from =
    since === undefined || isRoot === true ? since : { ...since, ms: since.ms - LONG_TRACE_MS };
  const thread = threadId === undefined ? [] : [groupTerm('session', threadId)];
  return { terms: [...thread, ...timeTerms(from, before)] };
}

/** The traces that start from a time on, and before another one. */
export function timeTerms(from: Instant | undefined, before: Instant | undefined): QueryTerm[] {
  return [
    ...(from === undefined ? [] : [startTerm({ from, to: null, text: formatInstant(from) })]),
    ...(before === undefined
      ? []
      : [startTerm({ from: null, to: before, text: `<${formatInstant(before)}` })]),
  ];
}

function startsBefore({ startTime, createdAt }: StoredObservation, time: Instant): boolean {
  const { ms, ns } = startTime ?? { ms: createdAt, ns: 0 };
  return isBefore({ ms, ns }, time);
}

function isBefore(a: Instant, b: Instant): boolean {
  return (a.ms - b.ms || a.ns - b.ns) < 0;
}

/** Where a list of ids goes on. */
function indexIn(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  if (/^\d{1,9}$/.test(cursor)) return Number(cursor);
  throw foreignCursor();
}
