import { observationJson, traceJson } from '../store/observation-json.ts';
import { isSummed, placeInTree } from '../store/rows/tree.ts';
import { jsonAnswer } from './answer.ts';
import { listCursors } from './list-cursor.ts';
import { writeItems } from './listing.ts';
import { asksForTree, flag, pageOf, waitOf } from './query.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';
import type { TreeSource } from './tree.ts';
import { totalsOf, writeTree } from './tree.ts';
import { waitForTrace } from './waiting.ts';

/** A trace with a page of its observations, or with all of them in `fields=tree`. */
export const SHOW_TRACE: StoredRequest = {
  path: '/traces/:trace_id',
  parameters: ['payloads', 'fields', 'limit', 'cursor', 'wait'],
  work: showTrace,
};

async function showTrace(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read, reads } = reading;
  const { limits } = reads;
  const traceId = exchange.params.trace_id ?? '';
  const waits = waitOf(query, limits.wait_timeout);
  if (waits !== undefined) await waitFor(reading, traceId, waits);
  if (asksForTree(query)) return showTree(reading, traceId);
  const wantsPayloads = flag(query, 'payloads');
  const { limit, cursor } = pageOf(query);
  const cursors = listCursors('observations', tenant.projectId, traceId);
  const first = cursors.read(cursor);
  const trace = await read.turn(() => store.traces.getTrace(tenant.projectId, traceId));
  if (trace === undefined) throw unknown('trace');
  const payloads = wantsPayloads
    ? await reading.payloads({ kind: 'trace', id: traceId })
    : undefined;
  let totals = await totalsOf(treeOf(reading, traceId));
  const out = jsonAnswer(exchange, read);
  await out.add(`{"trace":${traceJson(trace)},"observations":[`);
  const { next } = await writeItems(
    out,
    {
      limit,
      cursor: first,
      async fetch(rows, cursor) {
        const page = await store.traces.listObservations(tenant.projectId, traceId, {
          limit: rows,
          ...(cursor === undefined ? {} : { cursor }),
        });
        await payloads?.prepare(page.items.flatMap(({ payload }) => Object.values(payload)));
        return page;
      },
      async render(stored) {
        const texts =
          payloads === undefined ? undefined : await read.turn(() => payloads.read(stored));
        const { id, usage, details } = stored;
        const node = { id, usage, cost: details?.cost ?? null };
        if (!isSummed(node, totals)) totals = await totalsOf(treeOf(reading, traceId));
        return observationJson(stored, texts, placeInTree(node, totals));
      },
    },
    { read, limits, clock: exchange.clock },
  );
  out.end(`],"next_cursor":${JSON.stringify(cursors.write(next))}}`);
}

async function waitFor(
  { exchange: { clock }, tenant, store, read, reads }: StoreReading,
  traceId: string,
  ms: number,
): Promise<void> {
  const leave = reads.waits.take(tenant);
  try {
    await waitForTrace({ store, projectId: tenant.projectId, traceId, ms, read, clock });
  } finally {
    leave();
  }
}

async function showTree(reading: StoreReading, traceId: string): Promise<void> {
  const { exchange, tenant, store, read } = reading;
  const trace = await read.turn(() => store.traces.getTrace(tenant.projectId, traceId));
  if (trace === undefined) throw unknown('trace');
  await writeTree(jsonAnswer(exchange, read), trace, treeOf(reading, traceId));
}

function treeOf({ tenant, store, read }: StoreReading, traceId: string): TreeSource {
  return {
    read,
    fetch: (limit, cursor, hasText) =>
      store.traces.listTree(tenant.projectId, traceId, {
        ...{ limit, hasText },
        ...(cursor === undefined ? {} : { cursor }),
      }),
  };
}
