import { RetryableError } from '../../model/errors.ts';
import type { Query } from '../../query/query.ts';
import { SEARCHED_TRACES } from '../../store/rows/trace-page.ts';
import type {
  Page,
  StoredObservation,
  StoredTrace,
  TracePage,
  TraceStore,
} from '../../store/store.ts';
import { nextSize, SMALLEST_STEP } from '../listing.ts';
import type { Read } from '../reads.ts';
import type { ExportPosition } from './position.ts';

/** Rows of a step: a turn at the store, and the rows in memory at once. */
const STEP_ROWS = 500;
/** Traces that are listed at once for their observations. */
const STEP_TRACES = 200;

/** Rows in the order of an export. */
export type ExportStep<Row> = {
  readonly rows: readonly Row[];
  /** The rows as lines of JSON, if the store made them. */
  readonly text?: Uint8Array;
  /** The position behind one of the rows. */
  after(row: number): ExportPosition;
  /** The position behind all of them; null at the end of the export. */
  readonly next: ExportPosition | null;
};

type StepParts = {
  readonly traces: TraceStore;
  readonly projectId: string;
  readonly query: Query;
  readonly read: Read;
  /** The most rows that are needed. */
  readonly limit: number;
};

/**
 * Traces, newest first, as a listing has them. Each step is a turn at the store; one without a match looks at a
 * bounded number of traces.
 */
export async function* traceSteps(
  parts: StepParts,
  from: ExportPosition,
): AsyncGenerator<ExportStep<StoredTrace>> {
  const search = searchOf(parts);
  let cursor = from.behind;
  while (true) {
    const page = await search(Math.min(STEP_ROWS, parts.limit), cursor);
    cursor = page.nextCursor ?? undefined;
    yield {
      rows: page.items,
      after: (row) => ({ behind: page.cursorAfter(row) }),
      next: cursor === undefined ? null : { behind: cursor },
    };
    if (cursor === undefined) return;
  }
}

/** Pages of observations, or of their JSON: of several traces, from a cursor of the first one on. */
export type ObservationPages<Row> = (
  traceIds: readonly string[],
  page: { limit: number; cursor?: string },
) => Promise<Page<Row> & { readonly text?: Uint8Array }>;

export function observationPages(
  traces: TraceStore,
  projectId: string,
): ObservationPages<StoredObservation> {
  return (traceIds, page) => {
    const [first, ...others] = traceIds;
    return first !== undefined && others.length === 0
      ? traces.listObservations(projectId, first, page)
      : traces.listObservationsOf(projectId, traceIds, page.limit);
  };
}

/** Observations in the order of their traces, newest first, and of a trace in the order of its listing. */
export async function* observationSteps<Row extends { readonly traceId: string }>(
  parts: StepParts,
  from: ExportPosition,
  pages: ObservationPages<Row>,
): AsyncGenerator<ExportStep<Row>> {
  const search = searchOf(parts);
  const { behind, within } = from;
  if (within !== undefined && behind !== undefined) {
    const trace = { id: within.traceId, behind, observations: 0 };
    yield* observationsOf(parts, pages, { traces: [trace], next: { behind } }, within.cursor);
  }
  let cursor = behind;
  while (true) {
    const { traces, cursor: last } = listed(
      await search(Math.min(STEP_TRACES, parts.limit), cursor),
    );
    cursor = last;
    const next = cursor === undefined ? null : { behind: cursor };
    if (traces.length === 0) yield { rows: [], after: () => from, next };
    yield* observationsOf(parts, pages, { traces, next });
    if (cursor === undefined) return;
  }
}

/** A trace of the list, and the store's cursor behind it. */
type ListedTrace = {
  readonly id: string;
  readonly observations: number;
  readonly behind: string;
};

/** The parts of a page that its observations need: the traces are garbage before the first step. */
function listed(page: TracePage): { traces: readonly ListedTrace[]; cursor: string | undefined } {
  const traces = page.items.map(({ id, observationCount: observations }, i) => {
    return { id, observations, behind: page.cursorAfter(i) };
  });
  return { traces, cursor: page.nextCursor ?? undefined };
}

type ListedTraces = {
  readonly traces: readonly ListedTrace[];
  /** The position behind all of them. */
  readonly next: ExportPosition | null;
};

/** `cursor`: the store's cursor of the first observation of the first trace. */
async function* observationsOf<Row extends { readonly traceId: string }>(
  { read, limit: most }: StepParts,
  pages: ObservationPages<Row>,
  { traces, next: end }: ListedTraces,
  cursor?: string,
): AsyncGenerator<ExportStep<Row>> {
  const limit = Math.min(STEP_ROWS, most);
  let first = 0;
  let within = cursor;
  while (first < traces.length) {
    const group = within === undefined ? groupAt(traces, first) : traces.slice(first, first + 1);
    const ids = group.map(({ id }) => id);
    const asked = { limit, ...(within === undefined ? {} : { cursor: within }) };
    const page = await read.turn(() => pages(ids, asked));
    const { items: rows, text } = page;
    const after = (row: number): ExportPosition => {
      const traceId = rows[row]?.traceId ?? '';
      const behind = group.find(({ id }) => id === traceId)?.behind;
      return { behind, within: { traceId, cursor: page.cursorAfter(row) } };
    };
    if (page.nextCursor === null) first += group.length;
    else first = traces.findIndex(({ id }) => id === rows.at(-1)?.traceId);
    within = page.nextCursor ?? undefined;
    const isLast = within === undefined && first === traces.length;
    const behindGroup = { behind: group.at(-1)?.behind };
    const next = within === undefined ? behindGroup : after(rows.length - 1);
    yield { rows, after, next: isLast ? end : next, ...(text === undefined ? {} : { text }) };
  }
}

/** The traces from one on whose observations fit into a step, and at least one. */
function groupAt(traces: readonly ListedTrace[], first: number): readonly ListedTrace[] {
  let rows = traces[first]?.observations ?? 0;
  let end = first + 1;
  for (; end < traces.length; end++) {
    rows += traces[end]?.observations ?? 0;
    if (rows > STEP_ROWS) break;
  }
  return traces.slice(first, end);
}

/** Pages of traces, whose search looks at fewer traces where they are expensive. */
function searchOf({ traces, projectId, query, read }: StepParts) {
  let size = SEARCHED_TRACES;
  return async (limit: number, cursor: string | undefined): Promise<TracePage> => {
    while (true) {
      const filter = { query, limit, size, ...(cursor === undefined ? {} : { cursor }) };
      try {
        const page = await read.turn(() => traces.listTraces(projectId, filter));
        size = nextSize(size, page.spentMs);
        return page;
      } catch (error) {
        const isSlow = error instanceof RetryableError && error.code === 'query_timeout';
        if (!isSlow || size === SMALLEST_STEP) throw error;
        size = SMALLEST_STEP;
      }
    }
  };
}
