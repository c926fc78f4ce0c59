import type { RequestHead } from '../../component/component.ts';
import { answerJson } from '../answer.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import { pageOfClient } from './page.ts';
import { uuidOf } from './uuid.ts';

/**
 * Whether a client of LangSmith asks: for its projects it uses the path of this service's sessions. Its versions send a
 * User-Agent such as `langsmith-py/0.15.0`, and parameters that the list of sessions does not have.
 */
export function isLangSmith({ headers }: RequestHead, query: URLSearchParams): boolean {
  const [agent = ''] = headers.get('user-agent') ?? [];
  return (
    /^langsmith\b/i.test(agent) || ['name', 'include_stats', 'offset'].some((one) => query.has(one))
  );
}

/** The project of the key, by whatever name: the key decides where runs go, so that each name is one of the project. */
export async function langsmithProjects(reading: StoreReading): Promise<void> {
  const { exchange, query, read } = reading;
  const { offset } = pageOfClient(query);
  const ids = query.getAll('id');
  const own = await projectMembers(reading, query.get('name'));
  const isListed = offset === 0 && (ids.length === 0 || ids.includes(own.id));
  answerJson(exchange, read, JSON.stringify(isListed ? [own] : []));
}

/** One project by its id. */
export async function langsmithProject(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const own = await projectMembers(reading, null);
  const id = exchange.params.id ?? exchange.params.session_id;
  if (id !== own.id) throw unknown('project');
  answerJson(exchange, read, JSON.stringify(own));
}

async function projectMembers({ store, tenant, read }: StoreReading, name: string | null) {
  const project = await read.turn(() => store.projects.get(tenant.projectId));
  return {
    id: uuidOf(tenant.projectId),
    tenant_id: uuidOf(tenant.organizationId),
    name: name ?? project?.name ?? tenant.projectId,
    start_time: new Date(project?.createdAt ?? 0).toISOString(),
    ...{ end_time: null, description: null, extra: null, reference_dataset_id: null },
  };
}
