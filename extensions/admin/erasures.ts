import { z } from 'zod';
import { erasureOfTrace, erasureRequest, shownErasure } from '../../src/control/erasures.ts';
import { ERASURE_STATES } from '../../src/store/erasures.ts';
import { ApiError } from './errors.ts';
import type { Operation } from './operation.ts';
import { operation } from './operation.ts';
import { pageOf } from './operations.ts';
import { COUNT, NEXT_CURSOR, QUERIES, TIME } from './schemas.ts';

const receipt = z
  .strictObject({
    traces: COUNT,
    observations: COUNT,
    bytes: COUNT,
    ids_hash: z
      .string()
      .describe('SHA-256 of the sorted SHA-256 hashes of the trace ids, one a line; in hex.'),
    unreadable_batches: COUNT.describe('Damaged batches, whose items are unknown.'),
    verified_at: TIME.describe('When a last search of the store found nothing.'),
    copies: z.array(z.string()).describe('Where a copy may still be.'),
  })
  .meta({ id: 'ErasureReceipt' });

const erasure = z
  .strictObject({
    id: z.string().meta({ examples: ['era_4fE3x0aQ9LrT7uVwXyZ1'] }),
    project_id: z.string(),
    q: z.string().describe('The query. Once the erasure has ended, values are hashes.'),
    state: z.enum(ERASURE_STATES),
    dry_run: z.boolean(),
    block_until: TIME.nullable(),
    traces: COUNT,
    observations: COUNT,
    bytes: COUNT.describe('Bytes of events as they were sent, without compression.'),
    requested_by: z.string(),
    requested_at: TIME,
    finished_at: TIME.nullable(),
    failure: z.string().nullable(),
    receipt: receipt.nullable(),
  })
  .meta({ id: 'Erasure' });

const newErasure = z
  .strictObject({
    q: z.string().describe('A query, as in a list of traces; at least one term.'),
    dry_run: z.boolean().optional().describe('Counts, and changes nothing. Default: false.'),
  })
  .meta({ id: 'NewErasure' });

const erasures = z
  .strictObject({ erasures: z.array(erasure), next_cursor: NEXT_CURSOR })
  .meta({ id: 'Erasures' });

const createErasure = operation({
  id: 'createErasure',
  method: 'POST',
  path: '/api/v1/projects/:id/erasures',
  tag: 'erasures',
  summary: 'Erase the traces that a query finds; the work goes on in the background',
  body: newErasure,
  status: 202,
  answer: erasure,
  codes: ['unknown_project', 'invalid_query'],
  async run({ id, body }, { store, by, clock }) {
    const request = erasureRequest(body, clock.now());
    return { body: shownErasure(await store.erasures.request(id, request, by)) };
  },
});

const eraseTrace = operation({
  id: 'eraseTrace',
  method: 'DELETE',
  path: '/api/v1/projects/:id/traces/:trace_id',
  tag: 'erasures',
  summary: 'Erase a trace; the work goes on in the background',
  status: 202,
  answer: erasure,
  codes: ['unknown_project'],
  async run({ id, params }, { store, by }) {
    const request = erasureOfTrace(params.trace_id ?? '');
    return { body: shownErasure(await store.erasures.request(id, request, by)) };
  },
});

const listErasures = operation({
  id: 'listErasures',
  method: 'GET',
  path: '/api/v1/projects/:id/erasures',
  tag: 'erasures',
  summary: 'List erasures with their progress, newest first',
  query: QUERIES.page,
  status: 200,
  answer: erasures,
  codes: ['unknown_project', 'invalid_cursor'],
  async run({ id, query }, { store }) {
    await knownProject(store.projects, id);
    const { items, nextCursor } = await store.erasures.list(id, pageOf(query));
    return { body: { erasures: items.map(shownErasure), next_cursor: nextCursor } };
  },
});

const showErasure = operation({
  id: 'getErasure',
  method: 'GET',
  path: '/api/v1/projects/:id/erasures/:erasure_id',
  tag: 'erasures',
  summary: 'Get an erasure with its progress, and its receipt when it is done',
  status: 200,
  answer: erasure,
  codes: ['unknown_project', 'not_found'],
  async run({ id, params }, { store }) {
    await knownProject(store.projects, id);
    const found = await store.erasures.get(id, params.erasure_id ?? '');
    if (found === undefined) throw new ApiError('not_found', 'The erasure does not exist.');
    return { body: shownErasure(found) };
  },
});

async function knownProject(
  projects: { get(id: string): Promise<unknown> },
  id: string,
): Promise<void> {
  if ((await projects.get(id)) === undefined) {
    throw new ApiError('unknown_project', 'The project does not exist.');
  }
}

export const ERASURE_OPERATIONS: readonly Operation[] = [
  createErasure,
  eraseTrace,
  listErasures,
  showErasure,
];
