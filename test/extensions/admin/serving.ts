import type { Test } from 'tap';
import { config as adminConfig } from '../../../extensions/admin/config.ts';
import { createExtension as createAdmin } from '../../../extensions/admin/extension.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { createHealth, HEALTH } from '../../../src/component/health.ts';
import { ADMIN_API } from '../../../src/control/admin-api.ts';
import { createControlHandler } from '../../../src/control/commands.ts';
import { CONTROL, pipelineReport } from '../../../src/control/pipelines.ts';
import type { ControlHandler } from '../../../src/control/server.ts';
import { createScanner } from '../../../src/http/scan-pool.ts';
import type { QueueAdmin } from '../../../src/queue/queue.ts';
import { PROJECT_READS } from '../../../src/read/project-reads.ts';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { projectReads } from '../../../src/read/routes.ts';
import { DATA_DIRECTORY } from '../../../src/store/data-directory.ts';
import { STORE } from '../../../src/store/store.ts';
import type { PlanName } from '../../../src/tenancy/contract.ts';
import { fakeClock } from '../../helper/clock.ts';
import { type FakeStore, fakeStore } from '../../helper/fake-store.ts';
import { NO_DEADLINE, testReadsOwner } from '../../helper/http.ts';
import { fakeHost, recordingLogger, testSettings } from '../../helper/settings.ts';

export const TOKEN = 'the-admin-token-of-this-test';

const AT = Date.UTC(2026, 10, 20, 21, 30);

export type Asked = {
  readonly token?: string | null;
  readonly body?: unknown;
  /** Sent as it is, in place of `body`. */
  readonly raw?: string | Buffer<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
};

export type Answered = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the test is about.
  readonly json: any;
};

export type Ask = (method: string, path: string, asked?: Asked) => Promise<Answered>;

/** The extension, with a store in memory and a clock that the test moves. */
export async function serving(
  t: Test,
  options: {
    config?: object;
    plan?: PlanName;
    store?: FakeStore;
    directory?: string;
    /** The directory of the built pages; by default one that does not exist. */
    pages?: string;
    limits?: Partial<ReadLimits>;
    control?: ControlHandler;
  } = {},
) {
  const store = options.store ?? fakeStore(options.plan);
  const clock = fakeClock(AT);
  const directory = options.directory;
  const reading = testReads(options.limits);
  const control = options.control ?? testControl();
  let controlFailure: Error | undefined;
  t.teardown(reading.close);
  const settings = testSettings('extension', 'admin', {
    clock,
    host: fakeHost({
      services: [
        offer(HEALTH, createHealth(clock)),
        offer(PROJECT_READS, reading.routes),
        offer(CONTROL, async (request) => {
          if (controlFailure !== undefined) throw controlFailure;
          return control(request);
        }),
      ],
      extensions: {
        sqlite: [
          offer(STORE, store),
          ...(directory === undefined ? [] : [offer(DATA_DIRECTORY, { path: directory })]),
        ],
      },
    }),
  });
  const config = adminConfig.parse({
    endpoint: '127.0.0.1:0',
    store: 'sqlite',
    token: TOKEN,
    ...options.config,
  });
  const admin = createAdmin(settings, config, options.pages ?? '/nonexistent');
  await admin.start();
  t.teardown(() => admin.shutdown(NO_DEADLINE));
  const url = findOffer(admin.offers, ADMIN_API)?.url ?? '';
  return {
    admin,
    store,
    clock,
    settings,
    url,
    ask: asker(url),
    reads: reading.reads,
    /** From now on every command over the workers rejects with this; undefined ends it. */
    failControl(error: Error | undefined) {
      controlFailure = error;
    },
    routes: reading.routes.routes,
  };
}

/** The commands of a daemon without pipelines, with one queue that has no dead letters. */
export function testControl(
  running: Partial<Parameters<typeof pipelineReport>[0]> = {},
): ControlHandler {
  const queue: QueueAdmin = {
    stats: () => ({ branches: [], deadLetters: 0, deadLetterItems: 0 }),
    onDrop: () => () => {},
    deadLetters: async () => [],
    replay: async (ids) => (ids === 'all' ? 3 : ids.length),
    drop: async (ids) => (ids === 'all' ? 3 : ids.length),
    removeProject: async () => {},
  };
  const report = {
    flow: { since: AT, nodes: [], edges: [] },
    queues: new Map([['disk_queue', queue]]),
    health: createHealth(fakeClock(AT)).report(true),
    ...running,
  };
  return createControlHandler({
    stores: () => new Map(),
    queues: () => report.queues,
    reads: { routes: [] },
    adminApis: () => [],
    reload: async () => null,
    pipelines: () => pipelineReport(report),
    service: () => ({
      version: '1.2.3',
      endpoints: [{ url: 'http://0.0.0.0:4318', routes: ['POST /v1/traces'] }],
    }),
  });
}

/** The reading requests, as the engine offers them. */
function testReads(limits: Partial<ReadLimits> = {}) {
  const reads = testReadsOwner(limits);
  const scanner = createScanner();
  return {
    reads,
    routes: projectReads({ reads, scanner, logger: recordingLogger() }),
    async close() {
      reads.close();
      await scanner.close();
    },
  };
}

/** Sends requests with the admin token, or another, or none. A stream of events is left after its head. */
export function asker(url: string, usual: string = TOKEN): Ask {
  return async (method, path, { token = usual, body, raw, headers = {} } = {}) => {
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const answered = await fetch(url + path, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(sent === undefined ? {} : { body: sent }),
    });
    const isStream = answered.headers.get('content-type')?.includes('event-stream') === true;
    if (isStream) await answered.body?.cancel();
    const text = isStream ? '' : await answered.text();
    const isJson = text !== '' && answered.headers.get('content-type')?.includes('json') === true;
    const { status, headers: given } = answered;
    return { status, headers: given, text, json: isJson ? JSON.parse(text) : undefined };
  };
}
