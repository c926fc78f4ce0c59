import { z } from 'zod';
import type { Answer } from '../../src/http/exchange.ts';
import { refusalHeaders } from '../../src/http/exchange.ts';
import type { Tenant } from '../../src/model/batch.ts';
import type { Refusal } from '../../src/model/errors.ts';
import { StoreError } from '../../src/model/errors.ts';
import type { ProjectReads, ProjectRoute } from '../../src/read/project-reads.ts';
import type { Operation } from './operation.ts';
import { ANSWERED, operation } from './operation.ts';
import { READING_REQUESTS } from './reading-requests.ts';

/** Where the reading requests of a project are. */
const PROJECT = '/api/v1/projects/:project_id';

/** The reading requests of src/read about any project, as operations of this API. */
export function readingOperations({ routes }: ProjectReads): Operation[] {
  return READING_REQUESTS.flatMap((described) => {
    const route = routes.find(({ path }) => path === described.path);
    return route === undefined ? [] : [readingOperation(described, route)];
  });
}

function readingOperation(
  { path, id, summary, answer, media, parameters }: (typeof READING_REQUESTS)[number],
  route: ProjectRoute,
): Operation {
  return operation({
    id: id.replace(/^(list|get|export)/, '$1Project'),
    method: 'GET',
    path: PROJECT + path,
    tag: 'reading',
    summary,
    // src/read parses the query.
    query: z.unknown(),
    parameters,
    status: 200,
    answer,
    ...(media === undefined ? {} : { media }),
    codes: ['unknown_project', 'not_found', 'invalid_query', 'invalid_cursor'],
    async run({ params, takeOver }, { store, by, audit }) {
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
        ...{ tenant, store, renderRefusal },
        beforePayloads: (of) => audit.note({ by, projectId, of }),
      });
      return ANSWERED;
    },
  });
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
