import { z } from 'zod';
import type { Answer } from '../../src/http/exchange.ts';
import { refusalHeaders } from '../../src/http/exchange.ts';
import type { Tenant } from '../../src/model/batch.ts';
import type { Refusal } from '../../src/model/errors.ts';
import { StoreError } from '../../src/model/errors.ts';
import type { ProjectReads, ProjectRoute } from '../../src/read/project-reads.ts';
import type { Store } from '../../src/store/store.ts';
import type { Operation } from './operation.ts';
import { ANSWERED, operation } from './operation.ts';
import type { ReadingRequest } from './reading-requests.ts';
import { parameterCodes, READING_REQUESTS } from './reading-requests.ts';

/** Where the reading requests of a project are. */
const PROJECT = '/api/v1/projects/:project_id';

/** The reading requests of src/read about any project, as operations of this API. */
export function readingOperations({ routes }: ProjectReads): Operation[] {
  return READING_REQUESTS.flatMap((described) => {
    const { path, method = 'GET' } = described;
    const route = routes.find((one) => one.path === path && one.method === method);
    return route === undefined ? [] : [readingOperation(described, route)];
  });
}

function readingOperation(
  { path, method, body, id, summary, answer, media, parameters }: ReadingRequest,
  route: ProjectRoute,
): Operation {
  return operation({
    id: id.replace(/^(list|get|create|export)/, '$1Project'),
    method: method ?? 'GET',
    path: PROJECT + path,
    tag: 'reading',
    summary,
    // src/read parses the query.
    query: z.unknown(),
    parameters,
    ...(body === undefined ? {} : { body }),
    status: method === 'POST' ? 201 : 200,
    answer,
    ...(media === undefined ? {} : { media }),
    codes: [
      ...(['unknown_project', 'not_found'] as const),
      ...parameterCodes(parameters),
      ...(method === 'POST' ? (['too_many_scores'] as const) : []),
    ],
    async run({ params, takeOver, body }, { store, by, audit, clock }) {
      const projectId = params.project_id ?? '';
      const organizationId = await store.projects.organizationOf(projectId);
      if (organizationId === undefined) {
        throw new StoreError('unknown_project', 'the project does not exist');
      }
      const { actor } = by;
      const tenant: Tenant = {
        ...{ organizationId, projectId, keyId: actor },
        permissions: ['traces:read'],
      };
      await route.handle(takeOver(), {
        ...{ tenant, store, scoreEditors: [], renderRefusal },
        isStillAdmitted: () => isStored(store, projectId),
        beforePayloads: (of) => audit.note({ by, projectId, of }),
        beforeWrite: ({ kind, trace, id }) =>
          store.audit.record({
            ...{ at: clock.now(), ...by, action: 'scores.write', subject: projectId },
            details: { trace, [kind]: id },
          }),
        body,
      });
      return ANSWERED;
    },
  });
}

/** False if the project is deleted. A store that does not answer says nothing about that. */
async function isStored({ projects }: Store, projectId: string): Promise<boolean> {
  try {
    return (await projects.organizationOf(projectId)) !== undefined;
  } catch {
    return true;
  }
}

/** The form of the errors of this API. */
function renderRefusal(refusal: Refusal): Answer {
  const { status, code, message, position } = refusal;
  return {
    status,
    contentType: 'application/json; charset=utf-8',
    headers: refusalHeaders(refusal),
    body: JSON.stringify({ code, message, ...(position === undefined ? {} : { position }) }),
  };
}
