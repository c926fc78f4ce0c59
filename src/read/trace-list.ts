import { formatInstant } from '../model/instant.ts';
import type { Instant } from '../model/observation.ts';
import { printQuery } from '../query/print.ts';
import { traceJson } from '../store/observation-json.ts';
import type { StoredTrace } from '../store/store.ts';
import { jsonAnswer } from './answer.ts';
import { listCursors } from './list-cursor.ts';
import type { Listing } from './listing.ts';
import { writeItems } from './listing.ts';
import { askedOrder, pageOfTraces, traceQuery } from './query.ts';
import { RankedPage } from './ranked-page.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';

/** The list of traces, by their start or by a value. */
export const TRACE_LIST: StoredRequest = {
  path: '/traces',
  parameters: [
    ...['q', 'from', 'to', 'status', 'kind', 'name', 'sort', 'order', 'limit', 'cursor'],
  ],
  work: listTraces,
};

async function listTraces(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read, reads } = reading;
  const { clock } = exchange;
  const { limits } = reads;
  const { projectId } = tenant;
  const { limit, cursor } = pageOfTraces(query);
  const { sort, isAscending } = askedOrder(query);
  const asked = traceQuery(query, clock.now());
  const order = isAscending ? 'asc' : 'desc';
  const cursors = listCursors('traces', projectId, printQuery(asked), sort, order);
  const first = cursors.read(cursor);
  const ranked =
    sort === 'start'
      ? undefined
      : new RankedPage(
          {
            ...{ query: asked, by: sort, isAscending, limit, limits, clock },
            ranks: store.ranks,
            projectId,
          },
          first,
        );
  const fetch: Listing<StoredTrace>['fetch'] = (rows, cursor, size) =>
    ranked?.fetch(rows) ??
    store.traces.listTraces(projectId, {
      ...{ query: asked, limit: rows, size },
      ...(isAscending ? { isAscending } : {}),
      ...(cursor === undefined ? {} : { cursor }),
    });
  const out = jsonAnswer(exchange, read);
  await out.add('{"traces":[');
  const listing = { limit, cursor: first, fetch, render: traceJson };
  const { next, isPartial, searchedTo } = await writeItems(out, listing, { read, limits, clock });
  const sortedTo = ranked?.sortedTo ?? null;
  const end = {
    next_cursor: cursors.write(next),
    searched_to: formatted(ranked === undefined ? searchedTo : sortedTo),
    partial: ranked === undefined ? isPartial : sortedTo !== null,
  };
  out.end(`],${JSON.stringify(end).slice(1)}`);
}

function formatted(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant);
}
