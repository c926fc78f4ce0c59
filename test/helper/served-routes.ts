import { config as nativeConfig } from '../../receivers/native/config.ts';
import { createReceiver as createNative } from '../../receivers/native/receiver.ts';
import { config as otlpConfig } from '../../receivers/otlp/config.ts';
import { createReceiver as createOtlp } from '../../receivers/otlp/receiver.ts';
import { config as runsConfig } from '../../receivers/runs/config.ts';
import { createReceiver as createRuns } from '../../receivers/runs/receiver.ts';
import { offer } from '../../src/component/capability.ts';
import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { GRPC_LISTENERS } from '../../src/grpc/listener.ts';
import { LISTENERS } from '../../src/http/listener.ts';
import { readRoutes } from '../../src/read/routes.ts';
import { testListeners } from './http.ts';
import { fakeHost, testSettings } from './settings.ts';
import { createSink, sinkPipeline } from './sink.ts';

type Create = (settings: Settings, pipeline: Pipeline) => Receiver;

const RECEIVERS: readonly Create[] = [
  (settings, pipeline) => createNative(settings, nativeConfig.parse({}), pipeline),
  (settings, pipeline) => createRuns(settings, runsConfig.parse({}), pipeline),
  (settings, pipeline) =>
    createOtlp(settings, otlpConfig.parse({ protocols: { http: {}, grpc: {} } }), pipeline),
];

/** Every request that the receivers and the reading serve, the hidden ones too: `POST /path`, and methods of gRPC. */
export async function servedRoutes(): Promise<{ http: string[]; grpc: string[] }> {
  const listeners = testListeners();
  const { reads, scanner, logger } = listeners;
  const http = readRoutes({ reads, scanner, logger }).routes.map(named);
  const grpc: string[] = [];
  const unbound = { open: async () => {}, close: async () => {}, url: () => undefined };
  const recording: typeof listeners = {
    ...listeners,
    bind: async () => ({ ...unbound, route: (route) => void http.push(named(route)) }),
  };
  const host = fakeHost({
    services: [
      offer(LISTENERS, recording),
      offer(GRPC_LISTENERS, {
        async bind(_endpoint, { methods }) {
          grpc.push(...methods.map(({ path }) => path));
          return unbound;
        },
        nextGraph: () => {
          throw new Error('nothing is reloaded');
        },
        served: () => [],
        close() {},
      }),
    ],
  });
  for (const create of RECEIVERS) {
    const settings = testSettings('receiver', 'of-a-test', { host });
    await create(settings, sinkPipeline(createSink())).start();
  }
  await listeners.close();
  return { http, grpc };
}

function named({ method, path }: { readonly method: string; readonly path: string }): string {
  return `${method} ${path}`;
}
