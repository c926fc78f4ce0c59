import { shownErasure } from '../../src/control/erasures.ts';
import { erasureOfTrace, erasureRequest } from '../../src/read/erasure-request.ts';
import { ApiError } from './errors.ts';
import type { Operation } from './operation.ts';
import { operation } from './operation.ts';
import { adminPage } from './operations.ts';
import { QUERIES, SCHEMAS } from './schemas.ts';

const createErasure = operation({
  id: 'createErasure',
  method: 'POST',
  path: '/api/v1/projects/:project_id/erasures',
  tag: 'erasures',
  summary: 'Erase the traces that a query finds; the work goes on in the background',
  body: SCHEMAS.newErasure,
  status: 202,
  answer: SCHEMAS.erasure,
  codes: ['unknown_project', 'invalid_query'],
  async run({ params, body }, { store, by, clock }) {
    const id = params.project_id ?? '';
    const request = erasureRequest(body, clock.now());
    return { body: shownErasure(await store.erasures.request(id, request, by)) };
  },
});

const eraseTrace = operation({
  id: 'eraseTrace',
  method: 'DELETE',
  path: '/api/v1/projects/:project_id/traces/:trace_id',
  tag: 'erasures',
  summary: 'Erase a trace; the work goes on in the background',
  status: 202,
  answer: SCHEMAS.erasure,
  codes: ['unknown_project'],
  async run({ params }, { store, by }) {
    const id = params.project_id ?? '';
    const request = erasureOfTrace(params.trace_id ?? '');
    return { body: shownErasure(await store.erasures.request(id, request, by)) };
  },
});

const listErasures = operation({
  id: 'listErasures',
  method: 'GET',
  path: '/api/v1/projects/:project_id/erasures',
  tag: 'erasures',
  summary: 'List erasures with their progress, newest first',
  query: QUERIES.page,
  status: 200,
  answer: SCHEMAS.erasures,
  codes: ['unknown_project', 'invalid_cursor'],
  async run({ params, query }, { store }) {
    const id = params.project_id ?? '';
    await knownProject(store.projects, id);
    const { items, nextCursor } = await store.erasures.list(id, adminPage(query));
    return { body: { erasures: items.map(shownErasure), next_cursor: nextCursor } };
  },
});

const showErasure = operation({
  id: 'getErasure',
  method: 'GET',
  path: '/api/v1/projects/:project_id/erasures/:erasure_id',
  tag: 'erasures',
  summary: 'Get an erasure with its progress, and its receipt when it is done',
  status: 200,
  answer: SCHEMAS.erasure,
  codes: ['unknown_project', 'not_found'],
  async run({ params }, { store }) {
    const id = params.project_id ?? '';
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
