import type { PipelineReports } from '../../src/control/pipelines.ts';
import { shownPipelines } from '../../src/control/pipelines.ts';
import type { ControlHandler } from '../../src/control/server.ts';
import { clientUrl } from './client-url.ts';
import type { Context, Operation } from './operation.ts';
import { operation } from './operation.ts';
import { DEAD_LETTER_QUERY, RUNNING_SCHEMAS } from './running-schemas.ts';

export type RunningParts = {
  /** Runs commands over all workers. */
  readonly control: ControlHandler;
  /** The id of the store. */
  readonly store: string;
};

type Endpoints = readonly { readonly url: string; readonly routes: readonly string[] }[];

/** The running service: its endpoints, its pipelines and their dead letters. */
export function runningOperations(parts: RunningParts): Operation[] {
  return [showService(parts), showPipelines(parts), ...deadLetterOperations(parts)];
}

function showService({ control, store }: RunningParts): Operation {
  return operation({
    id: 'getService',
    method: 'GET',
    path: '/api/v1/service',
    tag: 'service',
    summary: 'Get the version and the endpoints that clients use',
    usesStore: false,
    status: 200,
    answer: RUNNING_SCHEMAS.service,
    codes: ['unavailable'],
    async run({ client }, { health, clock }) {
      const { version, endpoints } = (await control(command('service.show'))) as {
        version: string;
        endpoints: Endpoints;
      };
      return {
        body: {
          version,
          now: new Date(clock.now()).toISOString(),
          up_since: new Date(health.report(false).upSince).toISOString(),
          store,
          endpoints: endpoints.map(({ url, routes }) => ({
            url: clientUrl(url, client.headers.host),
            routes,
          })),
        },
      };
    },
  });
}

function showPipelines({ control }: RunningParts): Operation {
  return operation({
    id: 'getPipelines',
    method: 'GET',
    path: '/api/v1/pipelines',
    tag: 'service',
    summary: 'Get the running pipelines as a graph, with counters, latency and queues',
    usesStore: false,
    status: 200,
    answer: RUNNING_SCHEMAS.pipelines,
    codes: ['unavailable'],
    async run(_request, { clock }) {
      const reports = (await control(command('pipelines.show'))) as PipelineReports;
      return { body: shownPipelines(reports, clock.now()) };
    },
  });
}

function deadLetterOperations({ control }: RunningParts): Operation[] {
  const list = operation({
    id: 'listDeadLetters',
    method: 'GET',
    path: '/api/v1/dead-letters',
    tag: 'dead letters',
    summary: 'List the batches that could not be delivered, oldest first',
    usesStore: false,
    query: DEAD_LETTER_QUERY,
    status: 200,
    answer: RUNNING_SCHEMAS.deadLetters,
    codes: ['not_found', 'unavailable'],
    async run({ query: { limit = '100', after, ...rest } }) {
      const args = {
        ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
        limit: Number(limit),
        ...(after === undefined ? {} : { after: Number(after) }),
      };
      return { body: await control(command('dead_letters.list', args)) };
    },
  });
  const change = (verb: 'replay' | 'drop', answer: 'replayed' | 'dropped', summary: string) =>
    operation({
      id: `${verb}DeadLetters`,
      method: 'POST',
      path: `/api/v1/dead-letters/${verb}`,
      tag: 'dead letters',
      summary,
      body: RUNNING_SCHEMAS.someLetters,
      status: 200,
      answer: RUNNING_SCHEMAS[answer],
      codes: ['not_found'],
      async run({ body: { queue, ids } }, context) {
        const args = { ids, ...(queue === undefined ? {} : { queue }) };
        // A request that names no queue, or an unknown one, leaves no entry.
        await control(command('dead_letters.check', args));
        await note(context, `dead_letters.${verb}`, queue, ids);
        return { body: await control(command(`dead_letters.${verb}`, args)) };
      },
    });
  return [
    list,
    change('replay', 'replayed', 'Put dead letters back into their queue'),
    change('drop', 'dropped', 'Delete dead letters for good'),
  ];
}

function command(name: string, args: Readonly<Record<string, unknown>> = {}) {
  return { command: name, arguments: args };
}

/** The longest list of ids in an entry of the audit log. */
const MAX_NOTED = 20;

/** Called before the change, which is not of the store: what cannot be recorded is not done. */
async function note(
  { store, by, clock }: Context,
  action: string,
  queue: string | undefined,
  ids: 'all' | readonly number[],
): Promise<void> {
  const details =
    ids === 'all' ? { ids } : { ids: ids.slice(0, MAX_NOTED).join(','), count: ids.length };
  await store.audit.record({
    ...{ at: clock.now(), ...by, action, subject: queue ?? 'queues' },
    details,
  });
}
