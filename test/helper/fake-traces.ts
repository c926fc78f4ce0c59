import { crc32 } from 'node:zlib';
import type { SealedBatch } from '../../src/model/batch.ts';
import { StoreError } from '../../src/model/errors.ts';
import type { NarrowObservation } from '../../src/store/observation-json.ts';
import { treeJson } from '../../src/store/observation-json.ts';
import { usageNodeOf } from '../../src/store/rows/tree.ts';
import type {
  Page,
  Store,
  StoredObservation,
  StoredTrace,
  TraceFilter,
  TraceSource,
} from '../../src/store/store.ts';

/** The data of one project. */
export type HeldTraces = {
  traces?: readonly StoredTrace[];
  observations?: readonly StoredObservation[];
  batches?: readonly SealedBatch[];
};

/** The reading half of a store of traces in memory. Cursors are numbers. */
export function fakeTraces(
  project: () => string,
  held: HeldTraces,
  filters: TraceFilter[] = [],
): Partial<Store['traces']> {
  const sourceOf = (observation: StoredObservation): TraceSource => ({
    ...{ observation, events: Object.values(observation.payload) },
  });
  const ours = <T>(projectId: string, items: readonly T[] = []): readonly T[] =>
    projectId === project() ? items : [];
  const ofTraces = (projectId: string, traceIds: readonly string[], limit: number) => {
    const found = traceIds.flatMap((id) =>
      ours(projectId, held.observations).filter(({ traceId }) => traceId === id),
    );
    const before = (item: number): number =>
      found.findIndex(({ traceId }) => traceId === found[item]?.traceId);
    const page = pageOf(found, { limit });
    const cursorAfter = (item: number): string => String(item + 1 - before(item));
    return { ...page, cursorAfter, nextCursor: page.nextCursor && cursorAfter(limit - 1) };
  };
  return {
    async listTraces(projectId, filter) {
      filters.push(filter);
      if (filter.cursor !== undefined && !/^\d+$/.test(filter.cursor)) {
        throw new StoreError('invalid_cursor', 'the cursor is none of this listing');
      }
      return { ...pageOf(ours(projectId, held.traces), filter), searchedTo: null, spentMs: 1 };
    },
    listObservationsOf: async (projectId, traceIds, limit) => ofTraces(projectId, traceIds, limit),
    async listSourcesOf(projectId, traceIds, limit) {
      const page = ofTraces(projectId, traceIds, limit);
      return { ...page, items: page.items.map(sourceOf) };
    },
    async rowCursors(projectId, traceId, observationId) {
      const trace = ours(projectId, held.traces).findIndex(({ id }) => id === traceId);
      const all = ours(projectId, held.observations).filter((one) => one.traceId === traceId);
      const observation = all.findIndex(({ id }) => id === observationId);
      if (trace === -1 || (observationId !== undefined && observation === -1)) return undefined;
      const behind = observationId === undefined ? null : String(observation + 1);
      return { trace: String(trace + 1), observation: behind };
    },
    getTrace: async (projectId, id) => ours(projectId, held.traces).find((one) => one.id === id),
    listObservations: async (projectId, traceId, wanted) =>
      pageOf(
        ours(projectId, held.observations).filter((one) => one.traceId === traceId),
        wanted,
      ),
    findMatching: async (projectId, _query, ids) =>
      ours(projectId, held.traces).filter(({ id }) => ids.includes(id)),
    listSources: async (projectId, traceId, wanted) =>
      pageOf(
        ours(projectId, held.observations)
          .filter((one) => one.traceId === traceId)
          .map(sourceOf),
        wanted,
      ),
    listTree: async (projectId, traceId, wanted) => {
      const { items, nextCursor } = pageOf(
        ours(projectId, held.observations)
          .filter((one) => one.traceId === traceId)
          .map(narrowOf),
        wanted,
      );
      const text = wanted.hasText ? items.map(treeJson).join() : '';
      return { text: Buffer.from(text), nodes: items.map(usageNodeOf), nextCursor };
    },
    getRoot: async (projectId, traceId) =>
      ours(projectId, held.observations).find((one) => one.traceId === traceId),
    getObservation: async (projectId, id, traceId) => {
      const found = ours(projectId, held.observations).find(
        (one) => one.id === id && (traceId === undefined || one.traceId === traceId),
      );
      return found && { ...found, events: Object.values(found.payload) };
    },
    listTraceIds: async (projectId, beginning, limit) =>
      ours(projectId, held.traces)
        .map(({ id }) => id)
        .filter((id) => id.startsWith(beginning))
        .slice(0, limit),
    getBatches: async (projectId, ids) =>
      ours(projectId, held.batches).filter(({ id }) => ids.includes(id)),
    batchStamps: async (projectId, ids) => {
      const found = ours(projectId, held.batches).filter(({ id }) => ids.includes(id));
      return new Map(found.map(({ id, body }) => [id, String(crc32(body))]));
    },
  };
}

function narrowOf(stored: StoredObservation): NarrowObservation {
  const { startTime, endTime, usage, error } = stored;
  return {
    ...stored,
    startMs: startTime?.ms ?? null,
    startNs: startTime?.ns ?? null,
    endMs: endTime?.ms ?? null,
    endNs: endTime?.ns ?? null,
    usage: usage === null ? null : JSON.stringify(usage),
    error: error === null ? null : JSON.stringify(error),
  };
}

/** Cursors are the number of items before the page. */
function pageOf<T>(all: readonly T[], page: { limit: number; cursor?: string }): Page<T> {
  const first = Number(page.cursor ?? 0);
  const items = all.slice(first, first + page.limit);
  const cursorAfter = (item: number): string => String(first + item + 1);
  const hasMore = all.length > first + page.limit;
  return { items, nextCursor: hasMore ? cursorAfter(items.length - 1) : null, cursorAfter };
}

export function aTrace(more: Partial<StoredTrace> = {}): StoredTrace {
  return {
    id: 'trace-1',
    name: 'chat',
    status: 'success',
    startTime: { ms: Date.UTC(2026, 0, 15), ns: 1 },
    endTime: null,
    observationCount: 2,
    usage: { input_tokens: 3 },
    ...{
      state: 'running',
      latencyMs: null,
      ttftMs: null,
      errorCount: 0,
      models: [],
      sessionId: 's',
    },
    ...{
      userId: null,
      keyId: 'key_1',
      source: 'otlp',
      environment: null,
      release: null,
      tags: ['a'],
    },
    ...{
      customFields: {},
      scores: {},
      inputPreview: 'in',
      outputPreview: null,
      clockSkew: false,
      cost: { input: null, output: 2, total: 5_000_000 },
    },
    ...more,
  };
}

export function anObservation(more: Partial<StoredObservation> = {}): StoredObservation {
  return {
    projectId: 'proj_test',
    traceId: 'trace-1',
    id: 'o-1',
    parentId: null,
    name: 'chat',
    kind: 'generation',
    status: 'success',
    state: 'finished',
    startTime: { ms: Date.UTC(2026, 0, 15), ns: 0 },
    endTime: null,
    ended: true,
    model: null,
    usage: null,
    sessionId: null,
    userId: null,
    error: null,
    customFields: null,
    external: null,
    details: null,
    version: '18446744073709551615',
    source: 'native',
    payload: {},
    createdAt: 0,
    updatedAt: 0,
    ...more,
  };
}
